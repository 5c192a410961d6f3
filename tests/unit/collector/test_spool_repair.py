"""Files that are not what they should be: set aside with their cause, and nothing else lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

import adsum_collector.spool.aside as aside_module
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.processes import watched
from adsum_collector.spool.aside import TOLD_S, Aside
from adsum_collector.spool.file import Append
from adsum_collector.spool.files import SpoolFiles
from adsum_collector.spool.reading import Missing
from tests.spools import (
    SMALL,
    Clock,
    fill,
    names,
    numbers_of,
    prompt,
    put,
    read_all,
    snapshots,
    tend,
)

ROWS = 25


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def directory(tmp_path: Path, clock: Clock) -> Path:
    """Two full files and one that is being written, of which hubs have four signals."""
    files = SpoolFiles(tmp_path / "spool", SMALL, clock)
    files.commit([Append([], state={"tail:x": b"17", "process:s": b"3 4"})])
    fill(files, ROWS)
    files.acknowledge(4)
    files.close()
    return tmp_path / "spool"


def newest(directory: Path) -> Path:
    return max(directory.glob("spool-*.db"))


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def begun_anew(directory: Path, clock: Clock) -> list[bytes]:
    """What a new spool begins with, and that it can be used."""
    files = SpoolFiles(directory, SMALL, clock)
    rows, gaps = read_all(files)
    assert gaps == [Missing(1, 1, "corrupt")]
    assert put(files, b"goes on") == len(rows) + 2
    files.close()
    return list(rows.values())


def test_a_file_of_the_days_before_versions_is_read(directory: Path, clock: Clock) -> None:
    for path in directory.glob("*.db"):
        alter(path, "PRAGMA user_version = 0")

    files = SpoolFiles(directory, SMALL, clock)

    assert list(read_all(files)[0]) == list(range(1, ROWS + 1))
    assert files.notice is None
    files.close()


def test_files_of_a_newer_version_are_set_aside_and_what_waits_in_them_is_kept(
    directory: Path, clock: Clock
) -> None:
    for path in directory.glob("*.db"):
        alter(path, "PRAGMA user_version = 7", "ALTER TABLE signals ADD COLUMN colour TEXT")

    assert begun_anew(directory, clock) == [prompt(at) for at in range(4, ROWS)]

    files = SpoolFiles(directory, SMALL, clock)
    assert "a newer version of Adsum has written it: its schema is 7" in str(files.notice)
    assert "nothing is missing" in str(files.notice)
    assert files.state == {"tail:x": b"17", "process:s": b"3 4"}
    files.close()


def test_another_programs_database_is_set_aside_unchanged(directory: Path, clock: Clock) -> None:
    path = directory / "spool-000009.db"
    alter(path, "CREATE TABLE bookmarks (url TEXT)", "INSERT INTO bookmarks VALUES ('x')")
    before = path.read_bytes()

    assert begun_anew(directory, clock) == [prompt(at) for at in range(4, ROWS)]

    aside = directory / "spool-000009.db.corrupt"
    assert aside.read_bytes() == before
    files = SpoolFiles(directory, SMALL, clock)
    assert "it is another program's database" in str(files.notice)
    files.close()


@pytest.mark.parametrize("kind", ["directory", "pipe", "text", "link to nothing"])
def test_what_is_no_file_of_ours_is_set_aside(directory: Path, clock: Clock, kind: str) -> None:
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

    files = SpoolFiles(directory, SMALL, clock)

    rows, gaps = read_all(files)
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, ROWS + 1))
    assert {gap.reason for gap in gaps} <= {"corrupt"}
    lost = len(numbers_of(gaps))
    assert lost == (0 if kind == "newer" else 10)
    if kind == "newer":
        assert "nothing is missing" in str(files.notice)
    elif kind != "gone":
        assert "10 signals are missing" in str(files.notice)
    files.close()
    again = SpoolFiles(directory, SMALL, clock)
    assert read_all(again) == (rows, gaps)
    again.close()


def test_a_name_that_only_looks_like_ours_is_left_alone(directory: Path, clock: Clock) -> None:
    (directory / "spool-old.db").write_text("mine")

    files = SpoolFiles(directory, SMALL, clock)

    assert len(read_all(files)[0]) == ROWS
    assert (directory / "spool-old.db").read_text() == "mine"
    files.close()


def test_a_full_file_that_is_deleted_under_us_leaves_a_gap(directory: Path, clock: Clock) -> None:
    files = SpoolFiles(directory, SMALL, clock)
    (directory / "spool-000002.db").unlink()
    assert files.read(9, 1, 1)  # the one before it
    with pytest.raises(SpoolUnavailable, match="damaged"):
        files.read(10, 1, 1)

    tend(files)

    rows, gaps = read_all(files)
    assert gaps == [Missing(11, 20, "corrupt")]
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, ROWS + 1))
    files.close()


def test_what_lies_behind_the_damage_is_kept_too(tmp_path: Path, clock: Clock) -> None:
    files = SpoolFiles(tmp_path, SMALL, clock)
    fill(files, 9)
    files.close()
    raw = bytearray(newest(tmp_path).read_bytes())
    page = raw.index(b"000004....") // 4096 * 4096
    raw[page : page + 4096] = b"\xff" * 4096
    newest(tmp_path).write_bytes(raw)

    kept = begun_anew(tmp_path, clock)

    assert 4 <= len(kept) < 9
    assert kept[0] == prompt(0)
    assert kept[-1] == prompt(8)


def test_a_body_that_is_no_signal_any_more_spoils_no_batch(directory: Path, clock: Clock) -> None:
    path = newest(directory)
    alter(path, "UPDATE signals SET body = x'7b22ff' WHERE seq = 23", "PRAGMA user_version = 7")

    kept = begun_anew(directory, clock)

    assert kept == [prompt(at) for at in range(4, ROWS) if at != 22]


def test_state_that_is_no_state_any_more_does_not_keep_us_from_starting() -> None:
    assert watched({"process:a": b"\xff\xfe", "process:b": b"3 x", "process:c": b"3 4"}).keys() == {
        "c"
    }


@pytest.mark.parametrize("log_bytes", [0, 100_000], ids=["as written", "rolled out"])
@pytest.mark.parametrize("place", range(5))
def test_a_log_that_is_damaged_loses_no_commit_without_a_word(
    tmp_path: Path, clock: Clock, place: int, log_bytes: int
) -> None:
    """SQLite takes the log to end where its first broken frame lies."""
    limits = structs.replace(SMALL, log_bytes=log_bytes)
    files = SpoolFiles(tmp_path / "live", limits, clock)
    old = files.meta.spool_id
    fill(files, 9)
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    files.close()
    log = tmp_path / "killed" / "spool-000001.db-wal"
    raw = bytearray(log.read_bytes())
    at = [found for n in range(9) if (found := raw.find(b"%06d...." % n)) > 0][place * 2]
    raw[at] ^= 1
    log.write_bytes(raw)

    again = SpoolFiles(tmp_path / "killed", limits, clock)

    if place < 4:
        assert again.meta.spool_id != old
        assert read_all(again)[1] == [Missing(1, 1, "corrupt")]
        assert "its log is damaged" in str(again.notice)
        assert "signals may be missing" in str(again.notice)
    again.close()


@pytest.mark.parametrize("checkpoints", [0, 1, 2])
def test_a_sound_log_is_not_taken_for_damaged(
    tmp_path: Path, clock: Clock, checkpoints: int
) -> None:
    limits = structs.replace(SMALL, log_bytes=100_000)
    files = SpoolFiles(tmp_path / "live", limits, clock)
    for _ in range(checkpoints):
        fill(files, 3)
        files.checkpoint()
    fill(files, 2)
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    with (tmp_path / "killed" / "spool-000001.db-wal").open("r+b") as log:
        log.truncate(log.seek(0, 2) - 5000)  # as a crash in the midst of a write leaves it
    last = files.last
    files.close()

    again = SpoolFiles(tmp_path / "killed", limits, clock)

    assert again.meta.spool_id == files.meta.spool_id
    assert again.last == last
    again.close()


def test_killed_at_any_moment_of_a_mending_everything_readable_stays(
    directory: Path, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = directory / "spool-000002.db"
    raw = bytearray(path.read_bytes())
    page = raw.index(b"000015....") // 4096 * 4096
    raw[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(raw)
    files = SpoolFiles(directory, SMALL, clock)
    with pytest.raises(SpoolUnavailable, match="damaged"):
        read_all(files)
    with monkeypatch.context() as watching:
        taken = snapshots(watching, directory, tmp_path / "killed")
        tend(files)
    rows, gaps = read_all(files)
    files.close()

    assert len(taken) > 5
    for killed in taken:
        again = SpoolFiles(killed, SMALL, clock)
        try:
            found = read_all(again)
        except SpoolUnavailable:  # not mended yet
            tend(again)
            found = read_all(again)
        assert found == (rows, gaps)
        again.close()


def test_killed_at_any_moment_of_a_new_beginning_nothing_is_kept_twice(
    directory: Path, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest(directory).write_bytes(b"garbage" * 1000)
    with monkeypatch.context() as watching:
        taken = snapshots(watching, directory, tmp_path / "killed")
        SpoolFiles(directory, SMALL, clock).close()

    for killed in taken:
        files = SpoolFiles(killed, SMALL, clock)
        rows, _ = read_all(files)
        assert list(rows.values()) == [prompt(at) for at in range(20)]
        files.close()


def test_damage_after_a_new_beginning_that_was_interrupted_keeps_nothing_twice(
    directory: Path, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolFiles(directory, SMALL, clock)
    with monkeypatch.context() as watching:
        taken = snapshots(watching, directory, tmp_path / "killed")
        files.begin_anew("rollback", 3)
    files.close()
    interrupted = [each for each in taken if (each / "spool-000004.db-wal").exists()]
    assert interrupted

    for killed in interrupted:
        alter(newest(killed), "PRAGMA user_version = 7")
        assert begun_anew(killed, clock) == [prompt(at) for at in range(4, ROWS)]


def set_one_aside(aside: Aside, directory: Path, number: int, clock: Clock, size: int = 9) -> None:
    path = directory / f"spool-{number:06d}.db"
    path.write_bytes(b"x" * size)
    clock.now += 1
    aside.take(path, "a cause", 2, clock.now)


def test_only_the_newest_three_are_kept(tmp_path: Path, clock: Clock) -> None:
    aside = Aside(tmp_path)
    for number in range(1, 7):
        set_one_aside(aside, tmp_path, number, clock)

    kept = [f"spool-00000{number}.db.corrupt" for number in (4, 5, 6)]
    assert names(tmp_path) == sorted([*kept, *(f"{name}.json" for name in kept)])
    assert [each.was for each in aside.files] == [f"spool-00000{n}.db" for n in (6, 5, 4)]
    assert "others" in str(aside.notice(clock.now))


def test_of_large_ones_fewer_are_kept_but_always_the_newest(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside_module, "MOST_KEPT_BYTES", 100)
    aside = Aside(tmp_path)
    set_one_aside(aside, tmp_path, 1, clock, 60)
    set_one_aside(aside, tmp_path, 2, clock, 60)
    assert [each.was for each in aside.files] == ["spool-000002.db"]

    set_one_aside(aside, tmp_path, 3, clock, 600)
    assert [each.was for each in aside.files] == ["spool-000003.db"]


def test_what_was_set_aside_is_told_of_for_a_day_and_while_it_is_there(
    tmp_path: Path, clock: Clock
) -> None:
    set_one_aside(Aside(tmp_path), tmp_path, 1, clock)

    aside = Aside(tmp_path)  # as after a restart
    assert str(aside.notice(clock.now)).startswith(
        "The spool file spool-000001.db was damaged (a cause) and set aside as "
        "spool-000001.db.corrupt; 2 signals are missing."
    )
    assert aside.notice(clock.now + TOLD_S) is None
    (tmp_path / "spool-000001.db.corrupt").unlink()
    assert aside.notice(clock.now) is None


def test_one_name_can_be_set_aside_twice(tmp_path: Path, clock: Clock) -> None:
    aside = Aside(tmp_path)
    set_one_aside(aside, tmp_path, 1, clock, 5)
    set_one_aside(aside, tmp_path, 1, clock, 6)

    assert [each.path.name for each in aside.files] == [
        "spool-000001.db.corrupt-2",
        "spool-000001.db.corrupt",
    ]
    assert [each.size for each in aside.files] == [6, 5]


def test_a_file_that_is_deleted_while_it_is_written_is_written_again_under_the_same_numbers(
    directory: Path, clock: Clock
) -> None:
    files = SpoolFiles(directory, SMALL, clock)
    put(files, prompt(25))
    old, before = files.meta, read_all(files)
    newest(directory).unlink()
    clock.now += 2

    number = put(files, prompt(26))

    rows, gaps = read_all(files)
    assert files.meta == old
    assert (rows, gaps) == (before[0] | {number: prompt(26)}, before[1])
    files.close()
    again = SpoolFiles(directory, SMALL, clock)
    assert read_all(again) == (rows, gaps)
    again.close()


def test_a_directory_that_is_deleted_costs_what_lay_in_full_files_only(
    directory: Path, clock: Clock
) -> None:
    files = SpoolFiles(directory, SMALL, clock)
    shutil.rmtree(directory)
    clock.now += 2

    put(files, prompt(25))
    for _ in range(2):  # one full file after the other is missed when it is read
        with pytest.raises(SpoolUnavailable):
            read_all(files)
        tend(files)
        clock.now += 2

    rows, gaps = read_all(files)
    assert gaps[-1].reason == "corrupt"
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, files.last + 1))
    assert list(rows.values()) == [prompt(at) for at in range(20, 26)]
    files.close()


def test_a_log_that_somebody_left_behind_is_not_read_as_ours(tmp_path: Path, clock: Clock) -> None:
    other = SpoolFiles(tmp_path / "other", SMALL, clock)
    fill(other, 3)
    files = SpoolFiles(tmp_path / "spool", SMALL, clock)
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
    files = SpoolFiles(directory, SMALL, clock)
    old = files.meta.spool_id
    files._doubt._suspect = True
    newest(directory).unlink()

    put(files, prompt(25))

    assert files.meta.spool_id != old
    rows, gaps = read_all(files)
    assert gaps == [Missing(1, 1, "corrupt")]
    assert list(rows.values()) == [prompt(at) for at in [*range(4, 20), 25]]
    files.close()
