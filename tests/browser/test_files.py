"""The page's files: what is vendored is unaltered, nothing is inline, all of it is small."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.wire import FILE, declarations
from tests.browser.standin import WEB

pytestmark = [pytest.mark.browser_pass]

VENDOR = Path(__file__).parents[2] / "scripts" / "vendor.py"


def check(web: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, VENDOR, "--check", "--web", web],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def web(tmp_path: Path) -> Path:
    return Path(shutil.copytree(WEB, tmp_path / "web"))


def test_the_vendored_files_are_those_of_the_lock() -> None:
    assert check(WEB).returncode == 0, check(WEB).stderr


def test_a_changed_byte_is_found(web: Path) -> None:
    with (web / "vendor" / "preact.js").open("a") as file:
        file.write(" ")
    assert "changed: preact.js" in check(web).stderr
    assert check(web).returncode == 1


def test_a_missing_file_is_found(web: Path) -> None:
    (web / "vendor" / "htm.js").unlink()
    assert "missing: htm.js" in check(web).stderr


def test_a_file_nobody_vouches_for_is_found(web: Path) -> None:
    (web / "vendor" / "extra.js").write_text("")
    assert "not in the lock: extra.js" in check(web).stderr


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (WEB / "index.html").read_text()

    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []


def test_every_icon_that_is_named_is_in_the_sprite() -> None:
    sprite = (WEB / "vendor" / "lucide.svg").read_text()
    source = "\n".join(
        path.read_text() for path in WEB.glob("**/*.js") if "vendor" not in str(path)
    )
    named = set(re.findall(r'icon: "([a-z-]+)"|Icon\}\s+name="([a-z-]+)"', source))
    states = re.search(r"STATE_ICON = \{(.*?)\}", source, re.DOTALL)
    assert states is not None
    icons = {a or b for a, b in named} | set(re.findall(r': "([a-z-]+)"', states[1]))

    assert {icon for icon in icons if f'id="{icon}"' not in sprite} == set()


def test_the_types_of_the_wire_are_those_of_the_structs() -> None:
    assert FILE.read_text() == declarations(), "write it anew: python -m scripts.wire"
