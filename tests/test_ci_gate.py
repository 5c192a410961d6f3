"""What CI=true changes: the skips that are a convenience on a laptop are failures there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

FORBIDDEN = {
    "test_in_the_body": "import pytest\ndef test_x(): pytest.skip('no server')\n",
    "test_by_mark": "import pytest\n@pytest.mark.skip(reason='no server')\ndef test_x(): ...\n",
    "test_in_a_fixture": (
        "import pytest\n@pytest.fixture\ndef redis(): pytest.skip('no server')\n"
        "def test_x(redis): ...\n"
    ),
    "test_whole_module": "import pytest\npytest.skip('no server', allow_module_level=True)\n",
    "test_missing_import": "import pytest\npytest.importorskip('no_server')\n",
}
ALLOWED = {
    "test_npm": "import pytest\ndef test_x(): pytest.skip('claude-code from npm: not there')\n",
    "test_netns": (
        "import pytest\n"
        "def test_x(): pytest.skip('network namespaces are not permitted: unshare: EPERM')\n"
    ),
    "test_expected": "import pytest\n@pytest.mark.xfail\ndef test_x(): raise AssertionError\n",
    "test_passing": "def test_x(): ...\n",
}


def report(folder: Path, ci: str) -> str:
    """Return the report of one run over all files above, with this value of CI."""
    shutil.copy(ROOT / "conftest.py", folder / "conftest.py")
    for name, source in {**FORBIDDEN, **ALLOWED}.items():
        (folder / f"{name}.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--rootdir", "."]
    return subprocess.run(
        [*command, "--continue-on-collection-errors", "."],
        cwd=folder,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_a_skip_fails_in_ci_with_its_reason_unless_ci_may_do_without(tmp_path: Path) -> None:
    output = report(tmp_path, ci="true")

    for name in FORBIDDEN:
        assert re.search(rf"^(FAILED|ERROR) {name}\.py", output, re.MULTILINE), name
        assert re.search(rf"{name}\.py:\d+: skipped, which CI does not allow: .*no.server", output)
    assert "claude-code from npm: not there" in output
    assert "network namespaces are not permitted: unshare: EPERM" in output
    assert "1 failed, 1 passed, 2 skipped, 1 xfailed, 4 errors" in output


def test_on_a_laptop_every_skip_stays_a_skip(tmp_path: Path) -> None:
    assert "1 passed, 7 skipped, 1 xfailed" in report(tmp_path, ci="")
