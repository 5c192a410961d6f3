"""No link that others left is followed, nothing of others is written to, and nobody else reads along."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from adsum_collector.errors import StartError
from adsum_collector.spool.spool_file import connect
from adsum_collector.state_dir import hold_lock, load_identity, make_private, token_of
from adsum_collector.usage.ledger import LedgerError, open_ledger
from adsum_shared.private_files import open_private, write_private

#: What a link of somebody else points to.
TREASURE = "not ours to change"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "treasure"
    path.write_text(TREASURE)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir()
    return path


def test_a_file_is_private_from_its_first_byte_on(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "token", b"secret")
        os.close(open_private(tmp_path / "lock", os.O_RDWR | os.O_CREAT))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_link_is_replaced_and_what_it_points_to_stays(target: Path, folder: Path) -> None:
    (folder / "token").symlink_to(target)
    write_private(folder / "token", b"secret")
    assert target.read_text() == TREASURE
    assert not (folder / "token").is_symlink()
    assert [path.name for path in folder.iterdir()] == ["token"]


def test_the_first_of_two_writers_wins_where_nothing_is_to_be_replaced(folder: Path) -> None:
    write_private(folder / "token", b"first", replace=False)
    with pytest.raises(FileExistsError):
        write_private(folder / "token", b"second", replace=False)
    assert (folder / "token").read_bytes() == b"first"
    assert [path.name for path in folder.iterdir()] == ["token"]


def test_where_a_disk_knows_no_links_the_first_of_two_writers_wins_as_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_private(folder / "token", b"first", replace=False)
    with pytest.raises(FileExistsError):
        write_private(folder / "token", b"second", replace=False)

    assert (folder / "token").read_bytes() == b"first"
    assert [each.name for each in folder.iterdir()] == ["token"]


def test_a_pipe_in_the_place_of_a_file_is_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "lock")
    with pytest.raises(OSError, match="no plain file"):
        open_private(folder / "lock", os.O_RDWR)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    (folder / "lock").touch()
    os.chown(folder / "lock", 12345, -1)
    with pytest.raises(PermissionError, match="belongs to user 12345"):
        open_private(folder / "lock", os.O_RDWR)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_root_keeps_out_of_the_state_directory_of_another_user(folder: Path) -> None:
    os.chown(folder, 12345, -1)
    with pytest.raises(StartError, match=r"belongs to user 12345, run this as that user"):
        make_private(folder)


def test_the_collectors_lock_follows_no_link(target: Path, folder: Path) -> None:
    (folder / "collector.lock").symlink_to(target)
    with pytest.raises(StartError, match=r"collector\.lock cannot be used"), hold_lock(folder, 1):
        pass
    assert target.read_text() == TREASURE


@pytest.mark.parametrize("name", ["host.json", "token"])
def test_identity_and_token_write_through_no_link(name: str, folder: Path, tmp_path: Path) -> None:
    """A link to nowhere: whoever writes through it makes a file where another wants one."""
    elsewhere = tmp_path / "elsewhere"
    (folder / name).symlink_to(elsewhere)
    token_of(folder) if name == "token" else load_identity(folder)
    assert not elsewhere.exists()


@pytest.mark.parametrize("name", ["usage.db", "spool.db"])
def test_no_database_is_opened_through_a_link(name: str, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    elsewhere.touch()
    (folder / name).symlink_to(elsewhere)
    with pytest.raises((LedgerError, Exception), match="symbolic link"):
        open_ledger(folder) if name == "usage.db" else connect(folder / name)
    assert elsewhere.stat().st_size == 0
