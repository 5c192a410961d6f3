"""The spool on a disk that is full or fails: refusals, and nothing lost that was promised."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import adsum_collector.spool.spool as spool_module
from adsum_collector.errors import SpoolUnavailable, StartError
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_directory import LONGEST_RETRY_S, SpoolDirectory
from adsum_collector.spool.spool_file import Append, SpoolLimits
from tests.spools import SMALL, Clock, SmallDisk, fill, names, prompt, put, read_all
from tests.support import wait_until

#: Small files, and a reserve as on any disk: two per cent of it.
USUAL = SpoolLimits(cap_bytes=64 << 20, rotate_bytes=100_000, log_bytes=0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", "4m")
    yield disk
    disk.close()


@contextlib.contextmanager
def limited(what: int, most: int) -> Iterator[None]:
    before = resource.getrlimit(what)
    resource.setrlimit(what, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


def failing_disk(most: int = 20_000) -> contextlib.AbstractContextManager[None]:
    """The kernel refuses every write beyond a file's first bytes, which SQLite calls an I/O error."""
    return limited(resource.RLIMIT_FSIZE, most)


async def bodies(spool: Spool) -> list[bytes]:
    found: list[bytes] = []
    while (rows := await spool.read(len(found), 100, 1 << 20)) is not None:
        found += rows.bodies  # type: ignore[union-attr] # nothing is missing
    return found


async def test_a_full_disk_is_a_refusal_and_freed_space_ends_it(disk: SmallDisk) -> None:
    spool = await Spool.open(disk.directory / "spool", SpoolLimits(min_free_bytes=0))
    accepted: list[bytes] = []

    async def append_all() -> None:
        for at in range(1000):
            await spool.append([prompt(at, 10_000)])
            accepted.append(prompt(at, 10_000))

    with pytest.raises(SpoolUnavailable, match=r"disk of .* is full .* Free some space there"):
        await append_all()
    assert spool.problem
    assert await bodies(spool) == accepted

    disk.resize("8m")

    assert await spool.append([b"again"]) == len(accepted) + 1
    assert spool.problem is None
    await spool.close()


async def test_the_problem_ends_with_its_cause_though_nobody_appends(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "PROBE_S", 0.02)
    spool = await Spool.open(disk.directory / "spool", USUAL)
    others = disk.fill()
    with pytest.raises(SpoolUnavailable, match="full: 0 B are free"):
        await spool.append([b"a"])
    assert spool.problem

    others.unlink()

    await wait_until(lambda: spool.problem is None)
    await spool.close()


def test_the_last_of_a_small_disk_is_left_to_others(disk: SmallDisk, clock: Clock) -> None:
    files = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    put(files, b"a")
    disk.fill(leave=70_000)
    clock.now += 2

    with pytest.raises(SpoolUnavailable, match="the last 84 kB are left to others"):
        put(files, b"b")

    assert disk.free() >= 65_536
    files.close()


def test_what_hubs_have_makes_room_on_a_full_disk_however_young_it_is(
    disk: SmallDisk, clock: Clock
) -> None:
    files = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    fill(files, 450)
    disk.fill()
    clock.now += 2
    with pytest.raises(SpoolUnavailable, match="is full"):
        put(files, b"no room")
    assert len(list(disk.directory.glob("spool/*.db"))) == 5

    files.acknowledge(450, files.meta.spool_id)

    clock.now += 2
    assert put(files, b"room") == 451
    assert len(list(disk.directory.glob("spool/*.db"))) == 1
    files.close()


def test_on_a_disk_filled_to_the_last_byte_hubs_are_still_heard_and_told(
    disk: SmallDisk, clock: Clock
) -> None:
    files = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    fill(files, 350)
    disk.fill()
    assert disk.free() == 0

    for incarnation in range(2, 500):  # more than the log has room for
        files.set_incarnation(incarnation)
    files.acknowledge(340, files.meta.spool_id)
    clock.now += 25 * 3600
    files.acknowledge(345, files.meta.spool_id)

    assert (files.meta.incarnation, files.meta.acked) == (499, 345)
    assert len(list(disk.directory.glob("spool/*.db"))) == 1
    assert list(read_all(files, 345)[0]) == [346, 347, 348, 349, 350]
    files.close()


def test_a_note_without_a_signal_is_taken_even_by_a_full_disk_and_written_once_there_is_room(
    disk: SmallDisk, clock: Clock
) -> None:
    """The first of a run is one: without it, nothing could be published."""
    files = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    files.commit([Append([b"a"], state={"tail": b"1", "gone": b"1"})])
    files.close()
    others = disk.fill()
    files = SpoolDirectory(disk.directory / "spool", USUAL, clock)

    files.commit([Append([], state={"run": b"1", "gone": None})])

    assert files.state == {"tail": b"1", "run": b"1"}
    with pytest.raises(SpoolUnavailable, match="is full"):
        put(files, b"b")
    others.unlink()
    assert put(files, b"b") == 2
    files.close()
    again = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    assert again.state == {"tail": b"1", "run": b"1"}
    again.close()


def test_a_note_that_a_full_disk_had_no_room_for_outlives_an_error_of_the_disk(
    disk: SmallDisk, clock: Clock
) -> None:
    files = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    put(files, b"a")
    files.close()
    others = disk.fill()
    files = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    files.commit([Append([], state={"run": b"1"})])
    others.unlink()

    files._suspect = True
    put(files, b"b")

    assert files.state == {"run": b"1"}
    files.close()


def test_a_file_that_the_disk_has_no_room_for_leaves_nothing_behind(
    disk: SmallDisk, clock: Clock
) -> None:
    limits = SpoolLimits(cap_bytes=64 << 20, rotate_bytes=100_000, log_bytes=0, min_free_bytes=0)
    files = SpoolDirectory(disk.directory / "spool", limits, clock)
    fill(files, 100)
    others = disk.fill(leave=4096)
    for _ in range(3):
        with pytest.raises(SpoolUnavailable, match="is full"):
            fill(files, 10)  # one of them begins a new file
        assert not (disk.directory / "spool" / "spool-000002.db").exists()

    others.unlink()

    assert put(files, b"goes on") == files.last
    assert len(read_all(files)[0]) == files.last
    files.close()


def test_a_start_on_a_full_disk_finds_everything_and_accepts_once_there_is_room(
    disk: SmallDisk, clock: Clock
) -> None:
    files = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    fill(files, 150)
    files.close()
    others = disk.fill()

    again = SpoolDirectory(disk.directory / "spool", USUAL, clock)
    assert list(read_all(again)[0].values()) == [prompt(at) for at in range(150)]
    with pytest.raises(SpoolUnavailable, match="is full"):
        put(again, b"a")

    others.unlink()
    assert put(again, b"a") == 151
    again.close()


async def test_a_first_start_on_a_full_disk_says_so(disk: SmallDisk) -> None:
    (disk.directory / "spool").mkdir()
    disk.fill()

    with pytest.raises(StartError, match=r"cannot be opened .*full.* Free some space on its disk"):
        await Spool.open(disk.directory / "spool", USUAL)

    assert names(disk.directory / "spool") == []


def test_after_an_input_output_error_the_file_is_checked_and_another_one_begun(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    files.commit([Append([prompt(0)], "m", {"k": b"v"})])
    with failing_disk(), pytest.raises(SpoolUnavailable, match="disk I/O error"):
        fill(files, 30)
    last = files.last

    assert put(files, prompt(50)) == last + 1

    found = sorted(path.name for path in tmp_path.glob("*.db"))
    assert found == ["spool-000001.db", "spool-000002.db"]
    assert list(read_all(files)[0]) == list(range(1, last + 2))
    assert put(files, prompt(0), message_id="m") == 1
    assert files.state == {"k": b"v"}
    files.close()


@pytest.mark.parametrize("most", [20_000, 50_000], ids=["takes no file", "takes empty files"])
def test_a_dying_disk_is_tried_ever_more_rarely_and_leaves_no_empty_files(
    tmp_path: Path, clock: Clock, most: int
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    put(files, prompt(0))
    with failing_disk(most):
        for _ in range(1000):
            clock.now += 1
            with pytest.raises(SpoolUnavailable):
                put(files, prompt(1, 80_000))
            assert len(list(tmp_path.glob("*.db"))) <= 2
    with pytest.raises(SpoolUnavailable, match=r"failed a moment ago and is tried again in \d+ s"):
        put(files, prompt(1))

    clock.now += LONGEST_RETRY_S
    last = put(files, prompt(1))

    assert list(read_all(files)[0]) == list(range(1, last + 1))
    assert len(list(tmp_path.glob("*.db"))) <= 3
    numbers = [int(path.stem.removeprefix("spool-")) for path in tmp_path.glob("*.db")]
    assert max(numbers) < 40
    files.close()


def test_a_disk_that_takes_a_commit_between_two_failures_is_tried_as_rarely(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, USUAL, clock)
    taken = 0
    for at in range(600):
        clock.now += 1
        with contextlib.suppress(SpoolUnavailable):
            put(files, prompt(at))
            taken += 1
        with failing_disk(), contextlib.suppress(SpoolUnavailable):
            put(files, prompt(at, 30_000))

    clock.now += LONGEST_RETRY_S
    assert taken < 30
    assert len(list(tmp_path.glob("*.db"))) < 30
    rows, gaps = read_all(files)
    assert len(rows) >= taken
    assert gaps == []
    files.close()


@pytest.mark.parametrize("spare", range(8))
def test_a_process_without_free_descriptors_takes_no_file_for_damaged(
    tmp_path: Path, clock: Clock, spare: int
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 35)
    old = files.meta.spool_id
    with failing_disk(), pytest.raises(SpoolUnavailable):
        fill(files, 30)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    with (
        limited(resource.RLIMIT_NOFILE, lowest_free + spare),
        contextlib.suppress(SpoolUnavailable),
    ):
        put(files, b"a")
    clock.now += 5

    last = put(files, prompt(99))

    assert files.meta.spool_id == old
    rows, gaps = read_all(files)
    assert list(rows) == list(range(1, last + 1))
    assert gaps == []
    assert not list(tmp_path.glob("*.corrupt*"))
    files.close()
