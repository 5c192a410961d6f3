"""Undoing a joining: only what joining made, and every step although another fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum.join.leave import Folder, Undo
from adsum.machine import Hub
from adsum.outcome import CommandError
from adsum_collector.state_dir import hold_lock

OURS = (
    "host.json",
    "machine.json",
    "token",
    "collector.lock",
    "logs/collector.log",
    "spool/wal",
    "usage.db",
)
OTHERS = ("hub.json", "hub.token", "broker/data/dump.rdb", "logs/hub.log")


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("new")


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize("there", [True, False])
def test_files_that_others_made_meanwhile_stay(tmp_path: Path, there: bool) -> None:
    home = tmp_path / "state" / "adsum"
    if there:
        home.mkdir(parents=True)
    folder = Folder(home)
    write(home, *OURS, *OTHERS)

    folder.restore()

    assert files(home) == set(OTHERS)


def test_a_folder_that_was_not_there_goes_and_one_that_was_stays_as_it_was(tmp_path: Path) -> None:
    home = tmp_path / "state" / "adsum"
    folder = Folder(home)
    write(home, *OURS, "hooks/x.lock")
    folder.restore()
    assert not home.parent.exists()

    write(home, "token", "spool/wal")
    folder = Folder(home)
    write(home, *OURS)
    (home / "token").write_text("newer")
    folder.restore()

    assert files(home) == {"token", "spool/wal"}
    assert (home / "token").read_text() == "new"


@pytest.mark.parametrize("how", ["not known to have stopped", "holds the lock"])
def test_a_collector_that_runs_keeps_its_files_and_that_is_said(tmp_path: Path, how: str) -> None:
    folder = Folder(tmp_path)
    write(tmp_path, *OURS)
    if how == "holds the lock":
        with hold_lock(tmp_path), pytest.raises(CommandError, match="may still run"):
            folder.restore()
    else:
        folder.in_use = True
        with pytest.raises(CommandError, match="may still run"):
            folder.restore()

    assert files(tmp_path) == set(OURS) - {"machine.json"}


def test_a_step_that_fails_keeps_no_earlier_one_from_running() -> None:
    undone = []

    def fails() -> None:
        raise KeyError("secret")

    undo = Undo()
    undo.add("first", lambda: undone.append("first"))
    undo.add("by hand", fails)
    undo.beyond("at the hub")

    assert undo.run() == ["at the hub", "by hand ('secret')"]
    assert undone == ["first"]


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://hub.example.net:8080", True),
        ("http://192.0.2.7", True),
        ("http://127.0.0.1:47893", False),
        ("http://[::1]:47893", False),
        ("http://localhost:47893", False),
        ("https://hub.example.net", False),
    ],
)
def test_a_hub_elsewhere_without_tls_is_warned_of(url: str, warned: bool) -> None:
    said = Hub(url).in_clear or ""

    assert ("is not encrypted" in said) is warned
    assert "\n" not in said
