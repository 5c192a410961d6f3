"""Not collected: `test_runner.py` has it run in a copy that says so in its version, and fail."""

from __future__ import annotations

from pathlib import Path

from adsum_shared import __version__
from tests.collectors import CollectorProcess


def test_here() -> None:
    assert __version__ != "of a copy"


def test_in_a_spawned_process(tmp_path: Path) -> None:
    collector = CollectorProcess(tmp_path / "state", "redis://127.0.0.1:1").start()
    try:
        assert collector.ready()["version"] != "of a copy"
    finally:
        collector.kill()
