"""The tailer: a file that was moved, copied, linked or mounted anew is told of once."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

import adsum_collector.transcripts.tailer as tailer_module
from adsum_collector.transcripts.cursors import (
    GONE_MS,
    KEPT_MS,
    decode_cursor,
    encode_cursor,
    key_of,
)
from adsum_shared.signals import SessionEnded
from tests.support import wait_until
from tests.tailers import Rig, age, open_rig
from tests.transcripts import append, line

HOUR_MS = 3_600_000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path) as rig:
        yield rig


@pytest.fixture
def quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailer_module, "ROUND_S", 0.05)


def across_disks(old: Path, new: Path) -> None:
    """As `mv` to another file system: a copy, which has a number of its own."""
    copied(old, new)
    old.unlink()


def copied(old: Path, new: Path) -> None:
    shutil.copy2(old, new)


async def read_to_its_end(rig: Rig, path: Path) -> None:
    def is_read() -> bool:
        file = rig.tailer._known.files.get(str(path))
        return file is not None and file.read is not None

    await wait_until(is_read)


async def pruned(rig: Rig) -> None:
    """Of a key that is no cursor nothing is left after the first walk."""
    await wait_until(lambda: "tail:/odd" not in rig.spool.state)


async def restart(rig: Rig) -> None:
    await rig.stop()
    await rig.spool.append([], state={"tail:/odd": b"{"})
    await rig.restart()


async def test_a_file_that_moves_is_not_read_again(rig: Rig) -> None:
    await rig.give_process()
    rig.start()
    append(rig.main(), line("one"))
    await wait_until(rig.notes)
    moved = rig.main(project="q")
    moved.parent.mkdir()
    rig.main().rename(moved)
    append(moved, line("two"))

    await wait_until(lambda: len(rig.notes()) >= 2)
    assert rig.notes() == ["one", "two"]


@pytest.mark.parametrize("clock_off_ms", [(HOUR_MS, 0), (0, -HOUR_MS)])
async def test_a_file_that_moves_as_the_clock_is_set_back_is_not_read_again_after_a_restart(
    rig: Rig, clock_off_ms: tuple[int, int]
) -> None:
    rig.clock_off_ms, then = clock_off_ms
    await rig.give_process()
    rig.start()
    append(rig.main(), line("one"))
    await wait_until(rig.notes)
    rig.clock_off_ms = then
    moved = rig.main(project="q")
    moved.parent.mkdir()
    rig.main().rename(moved)
    append(moved, line("two"))
    await wait_until(lambda: len(rig.notes()) == 2)

    await rig.restart()
    append(moved, line("three"))

    await wait_until(lambda: "three" in rig.notes())
    assert rig.notes() == ["three"]


async def test_a_file_begun_anew_where_it_moved_to_is_not_read_again_though_the_clock_was_set_back(
    rig: Rig,
) -> None:
    rig.clock_off_ms = HOUR_MS
    await rig.give_process()
    rig.start()
    append(rig.main(), line("one"))
    await wait_until(rig.notes)
    rig.clock_off_ms = 0
    moved = rig.main(project="q")
    moved.parent.mkdir()
    rig.main().rename(moved)
    # another content under the number that the cursor in the old place bears too
    moved.write_bytes(line("two") + line("three"))
    await wait_until(lambda: len(rig.notes()) == 3)

    await rig.restart()
    append(moved, line("four"))

    await wait_until(lambda: "four" in rig.notes())
    assert rig.notes() == ["four"]


@pytest.mark.parametrize("move", [Path.rename, across_disks, copied])
async def test_a_file_that_moved_while_we_were_down_for_long_is_not_read_again_by_a_second_start(
    rig: Rig, move: Callable[[Path, Path], None]
) -> None:
    await rig.give_process()
    append(rig.main(), line("one"))
    rig.start()
    await wait_until(rig.notes)
    await rig.stop()
    moved = rig.main(project="q")
    moved.parent.mkdir()
    move(rig.main(), moved)
    rig.clock_off_ms = 2 * GONE_MS

    for _ in range(2):
        await restart(rig)
        await read_to_its_end(rig, moved)
        await pruned(rig)
        assert rig.notes() == []
        assert key_of(str(moved)) in rig.spool.state
    append(moved, line("two"))

    await wait_until(rig.notes)
    assert rig.notes() == ["two"]


async def test_an_end_is_not_told_again_of_a_file_that_moved(rig: Rig, quick_rounds: None) -> None:
    append(rig.main(), line("title", kind="meta"))
    age(rig.main(), 120)
    rig.start()
    await wait_until(lambda: rig.of(SessionEnded))
    await rig.stop()
    moved = rig.main(project="q")
    moved.parent.mkdir()
    rig.main().rename(moved)
    rig.clock_off_ms = 2 * GONE_MS

    for _ in range(2):
        await restart(rig)
        await read_to_its_end(rig, moved)
        await pruned(rig)
        assert rig.intake.taken == []


async def test_a_session_that_lives_again_is_told_whole_though_its_file_moved(rig: Rig) -> None:
    append(rig.main(), line("one"))
    age(rig.main(), 120)
    rig.start()
    await wait_until(lambda: rig.of(SessionEnded))
    await rig.stop()
    moved = rig.main(project="q")
    moved.parent.mkdir()
    rig.main().rename(moved)
    await rig.give_process()

    await rig.restart()

    await wait_until(lambda: rig.notes() == ["one"])


async def test_a_session_that_was_told_and_lives_again_is_not_told_again_though_its_file_moved(
    rig: Rig, quick_rounds: None
) -> None:
    append(rig.main(), line("one"))
    rig.start()
    rig.hook(path=rig.main())
    await wait_until(rig.notes)
    await rig.stop()
    moved = rig.main(project="q")
    moved.parent.mkdir()
    rig.main().rename(moved)
    age(moved, 120)
    rig.clock_off_ms = 2 * GONE_MS
    for _ in range(2):
        await restart(rig)
        await read_to_its_end(rig, moved)
        await pruned(rig)
    assert key_of(str(rig.main())) not in rig.spool.state

    append(moved, line("two"))
    rig.hook(path=moved)

    await wait_until(lambda: "two" in rig.notes())
    assert rig.notes() == ["two"]


@pytest.mark.parametrize("move", [Path.rename, across_disks])
async def test_a_file_that_moved_there_and_back_is_not_read_again(
    rig: Rig, move: Callable[[Path, Path], None]
) -> None:
    await rig.give_process()
    append(rig.main(), line("one"))
    rig.start()
    await wait_until(rig.notes)
    moved = rig.main(project="q")
    moved.parent.mkdir()
    for place, other in ((moved, rig.main()), (rig.main(), moved)):
        await rig.stop()
        move(other, place)
        # takes the number that has come free
        (rig.projects / place.parent.name / "filler").touch()
        append(place, line(place.parent.name))
        rig.clock_off_ms += GONE_MS // 4
        await restart(rig)
        await wait_until(rig.notes)
        await pruned(rig)
        assert rig.notes() == [place.parent.name]


async def test_of_another_file_of_its_name_in_another_directory_the_tail_is_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adsum_collector.transcripts.cursors.TAIL_BYTES", 64)
    await rig.give_process()
    append(rig.main(), line("one"))
    rig.start()
    await wait_until(rig.notes)
    await rig.stop()
    rig.main().unlink()
    other = rig.main(project="q")
    append(other, *(line(number) for number in range(50)))
    key = key_of(str(rig.main()))
    cursor = decode_cursor(rig.spool.state[key])
    assert cursor is not None
    of_its_number = msgspec.structs.replace(cursor, inode=other.stat().st_ino)
    await rig.spool.append([], state={key: encode_cursor(of_its_number)})

    await rig.restart()

    await wait_until(lambda: "49" in rig.notes())
    assert len(rig.notes()) < 10
    assert not rig.tailer.faults["replaced"]


async def test_a_disk_that_has_another_number_after_a_restart_of_the_system_changes_nothing(
    rig: Rig,
) -> None:
    await rig.give_process()
    append(rig.main(), line("one"))
    rig.start()
    await wait_until(rig.notes)
    await rig.stop()
    key = key_of(str(rig.main()))
    of_older_versions = msgspec.json.decode(rig.spool.state[key])
    of_older_versions |= {"dev": rig.main().stat().st_dev + 1}
    await rig.spool.append([], state={key: msgspec.json.encode(of_older_versions)})
    append(rig.main(), line("two"))

    await rig.restart()

    await wait_until(rig.notes)
    assert rig.notes() == ["two"]
    assert not rig.tailer.faults


async def test_a_living_session_that_rests_for_weeks_is_not_read_again(rig: Rig) -> None:
    await rig.give_process()
    append(rig.main(), line("one"))
    rig.start()
    await wait_until(rig.notes)
    rig.clock_off_ms = 2 * KEPT_MS

    for _ in range(2):
        await restart(rig)
        await read_to_its_end(rig, rig.main())
        await pruned(rig)
        assert rig.notes() == []


def link_directory(projects: Path) -> Path:
    (projects / "q").symlink_to(projects / "p")
    return projects / "q" / "s1.jsonl"


def link_file(projects: Path) -> Path:
    (projects / "q").mkdir()
    (projects / "q" / "s1.jsonl").symlink_to(projects / "p" / "s1.jsonl")
    return projects / "q" / "s1.jsonl"


def hard_link(projects: Path) -> Path:
    (projects / "q").mkdir()
    os.link(projects / "p" / "s1.jsonl", projects / "q" / "s1.jsonl")
    return projects / "q" / "s1.jsonl"


@pytest.mark.parametrize("link", [link_directory, link_file, hard_link])
@pytest.mark.parametrize("linked_first", [True, False])
async def test_a_file_by_two_paths_is_read_once(
    rig: Rig, quick_rounds: None, link: Callable[[Path], Path], *, linked_first: bool
) -> None:
    append(rig.main(), line("one"))
    await rig.give_process()
    if linked_first:
        linked = link(rig.projects)
        rig.start()
    else:
        rig.start()
        await wait_until(rig.notes)
        linked = link(rig.projects)
    await wait_until(rig.notes)
    rig.hook(path=linked)
    append(rig.main(), line("two"))
    await wait_until(lambda: "two" in rig.notes())
    rig.hook(path=linked)
    append(linked, line("three"))
    await wait_until(lambda: "three" in rig.notes())
    append(rig.child("a"), line("child"))
    await wait_until(lambda: "child" in rig.notes())
    rig.hook()
    await wait_until(lambda: not rig.tailer._looks)

    assert sorted(rig.notes()) == ["child", "one", "three", "two"]


async def test_who_was_read_by_one_path_is_followed_by_the_other_once_that_is_gone(
    rig: Rig, quick_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailer_module, "WALK_S", 0.05)
    monkeypatch.setattr(tailer_module, "WALK_SHARE", 1)
    append(rig.main(), line("one"))
    linked = hard_link(rig.projects)
    await rig.give_process()
    rig.start()
    await wait_until(rig.notes)

    rig.main().unlink()
    append(linked, line("two"))

    await wait_until(lambda: "two" in rig.notes())
    assert rig.notes() == ["one", "two"]
    assert list(rig.tailer._known.files) == [str(linked)]
