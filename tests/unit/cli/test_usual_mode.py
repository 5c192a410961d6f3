"""What an install does with the status line unless told."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum.hooks import Setup
from adsum_collector.agents.claude_code.agent import inspect_hooks, install_hooks
from adsum_collector.agents.installer import Installation, Mode, Target

OWN = '{"statusLine": {"type": "command", "command": "echo hi"}}'


def install(path: Path, mode: Mode | None = None) -> str:
    target = Target(1, "t", "/usr/bin/python3", Path("/opt/adsum_collector/shim.py"), Path("/s"))
    slot = mode or Setup(path, path.parent / "state", 1).usual_mode()
    install_hooks(Installation(path, path.parent / "state", target, (2, 1, 330), statusline=slot))
    return inspect_hooks(path).statusline.kind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(OWN)
    return path


def test_a_status_line_left_on_purpose_is_left_by_the_next_install(path: Path) -> None:
    assert install(path, "leave") == "own"
    assert install(path) == "own"
    assert install(path, "fill") == "wrapped"


def test_the_first_install_wraps_and_the_next_keeps_it(path: Path) -> None:
    assert install(path) == "wrapped"
    assert install(path) == "wrapped"


def test_a_line_of_ours_alone_stays(path: Path) -> None:
    path.write_text("{}")
    assert install(path, "fill") == "filled"
    assert install(path) == "filled"
