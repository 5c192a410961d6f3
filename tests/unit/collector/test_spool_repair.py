"""Files that are not what they should be: quarantined with their cause, and nothing else lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.processes import watched
from adsum_collector.spool.spool import SpoolGap
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import Append, SpoolFile
from tests.spools import (
    SMALL,
    Clock,
    fill,
    numbers_of,
    prompt,
    put,
    read_all,
    snapshots,
)

ROWS = 25


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def directory(tmp_path: Path, clock: Clock) -> Path:
    """Two full files and one that is being written, of which hubs have four signals."""
    files = SpoolDirectory(tmp_path / "spool", SMALL, clock)
    files.commit([Append([], state={"tail:x": b"17", "process:s": b"3 4"})])
    fill(files, ROWS)
    files.acknowledge(4, files.meta.spool_id)
    files.close()
    return tmp_path / "spool"


def newest(directory: Path) -> Path:
    return max(directory.glob("spool-*.db"))


def break_page(path: Path, at: int) -> None:
    """The one in which signal `at` lies."""
    raw = bytearray(path.read_bytes())
    page = raw.index(b"%06d...." % at) // 4096 * 4096
    raw[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(raw)


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def begun_anew(directory: Path, clock: Clock) -> list[bytes]:
    """What a new spool begins with, and that it can be used."""
    files = SpoolDirectory(directory, SMALL, clock)
    rows, gaps = read_all(files)
    assert gaps == [SpoolGap(1, 1, "corrupt")]
    assert put(files, b"goes on") == len(rows) + 2
    files.close()
    return list(rows.values())


def test_files_of_a_newer_version_are_quarantined_and_what_waits_in_them_is_kept(
    directory: Path, clock: Clock
) -> None:
    for path in directory.glob("*.db"):
        alter(path, "PRAGMA user_version = 7", "ALTER TABLE signals ADD COLUMN colour TEXT")

    assert begun_anew(directory, clock) == [prompt(at) for at in range(4, ROWS)]

    files = SpoolDirectory(directory, SMALL, clock)
    assert "a newer version of Adsum has written it: its schema is 7" in str(files.notice)
    assert files.state == {"tail:x": b"17", "process:s": b"3 4"}
    files.close()


def test_another_programs_database_is_quarantined_unchanged(directory: Path, clock: Clock) -> None:
    path = directory / "spool-000009.db"
    alter(path, "CREATE TABLE bookmarks (url TEXT)", "INSERT INTO bookmarks VALUES ('x')")
    before = path.read_bytes()

    assert begun_anew(directory, clock) == [prompt(at) for at in range(4, ROWS)]

    aside = directory / "spool-000009.db.corrupt"
    assert aside.read_bytes() == before
    files = SpoolDirectory(directory, SMALL, clock)
    assert "it is another program's database" in str(files.notice)
    files.close()


@pytest.mark.parametrize("kind", ["directory", "pipe", "text", "link to nothing"])
def test_what_is_no_file_of_ours_is_quarantined(directory: Path, clock: Clock, kind: str) -> None:
    path = directory / "spool-000009.db"
    match kind:
        case "directory":
            path.mkdir()
            (path / "somebody's").write_text("own")
        case "pipe":
            os.mkfifo(path)
        case "text":
            path.write_text("hello")
        case _:
            path.symlink_to("nowhere")

    assert begun_anew(directory, clock) == [prompt(at) for at in range(4, ROWS)]

    aside = directory / "spool-000009.db.corrupt"
    assert os.path.lexists(aside)
    if kind == "directory":
        assert (aside / "somebody's").read_text() == "own"


@pytest.mark.parametrize("kind", ["newer", "directory", "another program's", "gone"])
def test_in_the_middle_it_costs_only_what_cannot_be_read(
    directory: Path, clock: Clock, kind: str
) -> None:
    path = directory / "spool-000002.db"
    if kind == "newer":
        alter(path, "PRAGMA user_version = 7")
    else:
        path.unlink()
    if kind == "directory":
        path.mkdir()
    if kind == "another program's":
        alter(path, "CREATE TABLE bookmarks (url TEXT)")

    files = SpoolDirectory(directory, SMALL, clock)

    rows, gaps = read_all(files)
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, ROWS + 1))
    assert {gap.reason for gap in gaps} <= {"corrupt"}
    assert len(numbers_of(gaps)) == 10
    if kind != "gone":
        assert "10 signals are missing" in str(files.notice)
    files.close()
    again = SpoolDirectory(directory, SMALL, clock)
    assert read_all(again) == (rows, gaps)
    again.close()


def test_a_name_that_only_looks_like_ours_is_left_alone(directory: Path, clock: Clock) -> None:
    (directory / "spool-old.db").write_text("mine")

    files = SpoolDirectory(directory, SMALL, clock)

    assert len(read_all(files)[0]) == ROWS
    assert (directory / "spool-old.db").read_text() == "mine"
    files.close()


def test_a_full_file_that_is_deleted_under_us_leaves_a_gap(directory: Path, clock: Clock) -> None:
    files = SpoolDirectory(directory, SMALL, clock)
    (directory / "spool-000002.db").unlink()

    with pytest.raises(SpoolUnavailable, match="it is gone"):
        read_all(files)
    rows, gaps = read_all(files)

    assert gaps == [SpoolGap(11, 20, "corrupt")]
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, ROWS + 1))
    assert files.current.gaps == [SpoolGap(11, 20, "corrupt", int(clock() * 1000))]
    files.close()


def test_what_lies_behind_the_damage_is_kept_too(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 9)
    files.close()
    break_page(newest(tmp_path), 4)

    kept = begun_anew(tmp_path, clock)

    assert 4 <= len(kept) < 9
    assert kept[0] == prompt(0)
    assert kept[-1] == prompt(8)


def test_damage_under_our_hands_in_the_newest_file_begins_a_new_spool(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 9)
    files.current.checkpoint()
    old = files.meta.spool_id
    break_page(newest(tmp_path), 4)
    files.current._db.execute("PRAGMA shrink_memory")

    with pytest.raises(SpoolUnavailable, match="malformed"):
        read_all(files)
    rows, gaps = read_all(files)

    assert files.meta.spool_id != old
    assert gaps == [SpoolGap(1, 1, "corrupt")]
    assert {prompt(0), prompt(8)} <= set(rows.values())
    files.close()


def test_a_body_that_is_no_signal_any_more_spoils_no_batch(directory: Path, clock: Clock) -> None:
    path = newest(directory)
    alter(path, "UPDATE signals SET body = x'7b22ff' WHERE seq = 23", "PRAGMA user_version = 7")

    kept = begun_anew(directory, clock)

    assert kept == [prompt(at) for at in range(4, ROWS) if at != 22]


def test_state_that_is_no_state_any_more_does_not_keep_us_from_starting() -> None:
    assert watched({"process:a": b"\xff\xfe", "process:b": b"3 x", "process:c": b"3 4"}).keys() == {
        "c"
    }


@pytest.mark.core
@pytest.mark.slow
def test_killed_at_any_moment_of_a_quarantine_everything_readable_stays(
    directory: Path, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_page(directory / "spool-000002.db", 14)
    (directory / "spool-000001.db").write_bytes(b"garbage" * 1000)
    with monkeypatch.context() as watching:
        taken = snapshots(watching, directory, tmp_path / "killed")
        files = SpoolDirectory(directory, SMALL, clock)
        rows, gaps = read_all(files)
    files.close()
    assert {5, 10, 15} <= set(numbers_of(gaps))

    assert len(taken) > 3
    for killed in taken:
        again = SpoolDirectory(killed, SMALL, clock)
        assert read_all(again) == (rows, gaps)
        again.close()


def test_killed_at_any_moment_of_a_new_beginning_nothing_is_kept_twice(
    directory: Path, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest(directory).write_bytes(b"garbage" * 1000)
    with monkeypatch.context() as watching:
        taken = snapshots(watching, directory, tmp_path / "killed")
        SpoolDirectory(directory, SMALL, clock).close()

    for killed in taken:
        files = SpoolDirectory(killed, SMALL, clock)
        rows, _ = read_all(files)
        assert list(rows.values()) == [prompt(at) for at in range(20)]
        files.close()


@pytest.mark.slow
def test_damage_after_a_new_beginning_that_was_interrupted_keeps_nothing_twice(
    directory: Path, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolDirectory(directory, SMALL, clock)
    with monkeypatch.context() as watching:
        taken = snapshots(watching, directory, tmp_path / "killed")
        files.begin_anew("rollback", 3, instead_of=files.meta.spool_id)
    files.close()
    interrupted = [each for each in taken if (each / "spool-000004.db-wal").exists()]
    assert interrupted

    for killed in interrupted:
        alter(newest(killed), "PRAGMA user_version = 7")
        assert begun_anew(killed, clock) == [prompt(at) for at in range(4, ROWS)]


def test_a_file_that_is_deleted_while_it_is_written_is_written_again_under_the_same_numbers(
    directory: Path, clock: Clock
) -> None:
    files = SpoolDirectory(directory, SMALL, clock)
    put(files, prompt(25))
    old, before = files.meta, read_all(files)
    newest(directory).unlink()
    clock.now += 2

    number = put(files, prompt(26))

    rows, gaps = read_all(files)
    assert files.meta == old
    assert (rows, gaps) == (before[0] | {number: prompt(26)}, before[1])
    files.close()
    again = SpoolDirectory(directory, SMALL, clock)
    assert read_all(again) == (rows, gaps)
    again.close()


def test_a_directory_that_is_deleted_costs_what_lay_in_full_files_only(
    directory: Path, clock: Clock
) -> None:
    files = SpoolDirectory(directory, SMALL, clock)
    shutil.rmtree(directory)
    clock.now += 2

    put(files, prompt(25))

    with pytest.raises(SpoolUnavailable, match="it is gone"):
        read_all(files)
    rows, gaps = read_all(files)
    assert gaps[-1].reason == "corrupt"
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, files.last + 1))
    assert list(rows.values()) == [prompt(at) for at in range(20, 26)]
    files.close()


def test_a_log_that_somebody_left_behind_is_not_read_as_ours(tmp_path: Path, clock: Clock) -> None:
    other = SpoolDirectory(tmp_path / "other", SMALL, clock)
    fill(other, 3)
    files = SpoolDirectory(tmp_path / "spool", SMALL, clock)
    shutil.copy(
        tmp_path / "other" / "spool-000001.db-wal", tmp_path / "spool" / "spool-000002.db-wal"
    )
    other.close()

    fill(files, 15)

    assert [path.name for path in sorted((tmp_path / "spool").glob("*.db"))] == [
        "spool-000001.db",
        "spool-000002.db",
    ]
    assert list(read_all(files)[0].values()) == [prompt(at) for at in range(15)]
    files.close()


def test_a_number_is_never_given_twice_though_a_file_went_during_a_failure(
    directory: Path, clock: Clock
) -> None:
    files = SpoolDirectory(directory, SMALL, clock)
    old = files.meta.spool_id
    files._suspect = True
    newest(directory).unlink()

    put(files, prompt(25))

    assert files.meta.spool_id != old
    rows, gaps = read_all(files)
    assert gaps == [SpoolGap(1, 1, "corrupt")]
    assert list(rows.values()) == [prompt(at) for at in [*range(4, 20), 25]]
    files.close()


def test_nor_is_one_though_the_new_file_could_not_be_made_at_the_first_try(
    directory: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolDirectory(directory, SMALL, clock)
    old = files.meta.spool_id
    files._suspect = True
    newest(directory).unlink()

    def fails(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(SpoolFile, "create", fails)
        with pytest.raises(SpoolUnavailable, match="disk I/O error"):
            put(files, prompt(25))
    clock.now += 100
    put(files, prompt(25))

    assert files.meta.spool_id != old
    assert list(read_all(files)[0].values()) == [prompt(at) for at in [*range(4, 20), 25]]
    files.close()
