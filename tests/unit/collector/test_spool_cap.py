"""The spool at its cap: what goes first, what never goes before it must, and at what price."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

import adsum_collector.spool.rewrite as rewrite_module
from adsum_collector.spool.files import SpoolFiles
from adsum_collector.spool.limits import MOST_ROTATE_BYTES, Limits, limits_of
from adsum_collector.spool.reading import Missing
from adsum_collector.spool.spool import Spool
from tests.spools import (
    Clock,
    alive,
    fill,
    numbers_of,
    prompt,
    put,
    read_all,
    snapshots,
    tend,
)
from tests.support import wait_until

#: Files of a hundred signals of a thousand bytes, and seven of them.
CAP = Limits(
    cap_bytes=1_000_000, rotate_bytes=100_000, retention_s=60, min_free_bytes=0, log_bytes=0
)
#: So many signals are more than the cap, but by less than a file.
MANY = 795


@pytest.fixture
def clock() -> Clock:
    return Clock()


def put_chatter(files: SpoolFiles, first: int, last: int) -> None:
    """A prompt among so many signs of life, in commits of five: numbers 1, 6, 11, … are prompts."""
    for at in range(first - 1, last, 5):
        put(files, prompt(at), *(alive(at + more) for more in range(1, 5)))


def full_files(directory: Path) -> int:
    """Their bytes."""
    return sum(file.stat().st_size for file in sorted(directory.glob("*.db"))[:-1])


def test_signs_of_life_go_before_any_prompt(tmp_path: Path, clock: Clock) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    for first in range(1, 1500, 50):
        put_chatter(files, first, first + 49)
        tend(files)
        assert full_files(tmp_path) <= CAP.cap_bytes

    rows, gaps = read_all(files)

    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, 1501))
    assert {gap.reason for gap in gaps} == {"cap"}
    assert {seq: rows.get(seq) for seq in range(1, 1501, 5)} == {
        at + 1: prompt(at) for at in range(0, 1500, 5)
    }
    files.close()


def test_only_when_all_are_thinned_does_the_oldest_go_whole(tmp_path: Path, clock: Clock) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    for first in range(1, 4000, 50):
        put_chatter(files, first, first + 49)
        tend(files)
        assert full_files(tmp_path) <= CAP.cap_bytes

    rows, gaps = read_all(files)

    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, 4001))
    oldest = gaps[0]
    assert (oldest.first, oldest.reason) == (1, "cap")
    assert 800 < oldest.last < 2900  # as many fit again as without thinning, and more
    lost = [seq for seq in range(1, 4001, 5) if seq not in rows]
    assert lost == [seq for seq in range(1, 4001, 5) if seq <= oldest.last]
    files.close()


def test_what_every_hub_has_goes_first_though_it_is_young(tmp_path: Path, clock: Clock) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    put_chatter(files, 1, 250)
    files.acknowledge(250)
    put_chatter(files, 251, 795)
    tend(files)

    rows, gaps = read_all(files)

    assert gaps == [Missing(1, 100, "retention")]
    assert list(rows) == list(range(101, 796))
    files.close()


def test_what_hubs_get_to_have_while_the_spool_is_crowded_goes_before_anything_is_thinned(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    put_chatter(files, 1, MANY)
    assert files.wants_tending
    files.acknowledge(100)

    tend(files)

    rows, gaps = read_all(files)
    assert gaps == [Missing(1, 100, "retention")]
    assert list(rows) == list(range(101, MANY + 1))
    files.close()


def test_what_hubs_get_to_have_goes_though_it_was_looked_at_before(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    fill(files, MANY)
    tend(files)  # nothing in it can be spared
    files.acknowledge(100)
    assert files.wants_tending

    tend(files)

    assert read_all(files)[1] == [Missing(1, 100, "retention")]
    files.close()


def test_of_a_file_that_hubs_have_in_part_the_rest_is_kept(tmp_path: Path, clock: Clock) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    fill(files, MANY)
    files.acknowledge(50)

    tend(files)

    rows, gaps = read_all(files)
    assert gaps == [Missing(1, 50, "cap")]
    assert list(rows) == list(range(51, MANY + 1))
    files.close()


def test_where_nobody_thins_the_oldest_goes_whole_and_the_cap_is_passed_by_one_file_at_most(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    for first in range(1, 1200, 5):
        put_chatter(files, first, first + 4)
        assert full_files(tmp_path) <= CAP.cap_bytes

    rows, gaps = read_all(files)
    assert [(gap.first, gap.reason) for gap in gaps] == [(1, "cap")]
    assert list(rows) == list(range(gaps[0].last + 1, 1201))
    files.close()


def test_a_hole_with_two_reasons_is_told_as_two(tmp_path: Path, clock: Clock) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    files.begin_anew("rollback", 3)
    fill(files, 900)  # nobody thins: the oldest went whole

    assert [(gap.first, gap.reason) for gap in read_all(files)[1]] == [(1, "rollback"), (2, "cap")]
    files.close()


def test_what_was_thinned_is_not_thinned_again_after_a_restart(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    put_chatter(files, 1, MANY)
    tend(files)
    before = read_all(files)
    assert numbers_of(before[1])
    files.close()

    again = SpoolFiles(tmp_path, CAP, clock)

    assert read_all(again) == before
    assert tend(again) == 0
    again.close()


def test_a_file_in_which_everything_counts_is_left_as_it_is(tmp_path: Path, clock: Clock) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    fill(files, MANY)
    before = {file.name: file.stat().st_ino for file in tmp_path.glob("*.db")}

    assert tend(files) > 0

    assert len(read_all(files)[0]) == MANY
    assert {file.name: file.stat().st_ino for file in tmp_path.glob("*.db")} == before
    assert not list(tmp_path.glob("*draft*"))
    assert not files.wants_tending
    files.close()


def test_killed_at_any_moment_of_a_thinning_nothing_is_lost_that_was_not_to_go(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite_module, "STEP_S", 0.0)  # a step a row
    files = SpoolFiles(tmp_path / "spool", CAP, clock)
    put_chatter(files, 1, MANY)
    with monkeypatch.context() as watched:
        taken = snapshots(watched, tmp_path / "spool", tmp_path / "killed")
        steps = tend(files)
        put_chatter(files, MANY + 1, MANY + 15)  # and of a rotation
    files.close()
    assert steps > 30
    assert len(taken) > 20

    for killed in taken:
        again = SpoolFiles(killed, CAP, clock)
        rows, gaps = read_all(again)
        assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, again.last + 1))
        assert again.last >= MANY
        assert {gap.reason for gap in gaps} <= {"cap"}
        assert all(seq in rows for seq in range(1, MANY + 1, 5))
        assert all(rows[seq] == prompt(seq - 1) for seq in range(1, MANY + 1, 5))
        assert not list(killed.glob("*draft*"))
        assert put(again, b"goes on") == again.last
        again.close()


def test_killed_at_any_moment_of_a_drop_there_is_a_gap_or_there_are_the_rows(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolFiles(tmp_path / "spool", CAP, clock)
    fill(files, MANY)
    with monkeypatch.context() as watched:
        taken = snapshots(watched, tmp_path / "spool", tmp_path / "killed")
        fill(files, 30)
    files.close()

    for killed in taken:
        again = SpoolFiles(killed, CAP, clock)
        rows, gaps = read_all(again)
        assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, again.last + 1))
        assert {gap.reason for gap in gaps} <= {"cap"}
        assert not set(rows) & set(numbers_of(gaps))
        again.close()


def test_a_draft_that_cannot_be_written_leaves_the_file_as_it_is(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    put_chatter(files, 1, MANY)

    def full(_path: Path) -> sqlite3.Connection:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rewrite_module, "connect_draft", full)
    tend(files)

    rows, gaps = read_all(files)
    assert len(rows) == MANY
    assert gaps == []
    files.close()


def test_damage_found_while_thinning_is_mended_instead(tmp_path: Path, clock: Clock) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    put_chatter(files, 1, MANY)
    first = tmp_path / "spool-000001.db"
    raw = bytearray(first.read_bytes())
    page = raw.index(b"000005....") // 4096 * 4096
    raw[page : page + 4096] = b"\xff" * 4096
    first.write_bytes(raw)

    tend(files)

    rows, gaps = read_all(files)
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, MANY + 1))
    assert {gap.reason for gap in gaps} == {"corrupt", "cap"}
    assert "spool-000001.db was damaged" in str(files.notice)
    files.close()


def test_a_new_beginning_while_a_file_is_thinned_forgets_the_draft(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolFiles(tmp_path, CAP, clock)
    put_chatter(files, 1, MANY)
    assert files.tend() is not None
    assert files.tend() is not None

    files.begin_anew("rollback", 3)
    tend(files)

    rows, gaps = read_all(files)
    assert gaps == [Missing(1, 1, "rollback")]
    assert len(rows) == MANY
    assert not list(tmp_path.glob("*draft*"))
    files.close()


@pytest.mark.parametrize("cap_mb", [1, 16, 512, 4096])
def test_files_are_an_eighth_of_a_small_cap_and_never_large(cap_mb: int) -> None:
    limits = limits_of(cap_mb << 20, 60)

    assert limits.rotate_bytes == min(MOST_ROTATE_BYTES, (cap_mb << 20) // 8)
    assert limits.log_bytes * 4 <= limits.rotate_bytes or limits.log_bytes == 4 << 20


async def test_a_spool_thins_by_itself_and_no_append_waits_for_it(tmp_path: Path) -> None:
    limits = Limits(cap_bytes=8 << 20, rotate_bytes=1 << 20, min_free_bytes=0, log_bytes=256 << 10)
    spool = await Spool.open(tmp_path / "spool", limits)
    for at in range(0, 25_000, 50):
        await spool.append([alive(at + each, 300) for each in range(50)])
        if spool.size > 7 << 20:
            break
    slowest = 0.0

    async def is_thinned() -> bool:
        nonlocal slowest
        began = time.perf_counter()
        await spool.append([prompt(0, 300)])
        slowest = max(slowest, time.perf_counter() - began)
        return len((await spool.status()).gaps) > 0

    await wait_until(is_thinned, timeout=20, interval=0.001)

    assert slowest < 0.25
    status = await spool.status()
    assert sum(gap.numbers for gap in status.gaps) > 2000
    await spool.close()


async def test_a_spool_can_be_closed_while_it_thins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite_module, "STEP_S", 0.0)
    spool = await Spool.open(tmp_path / "spool", CAP)
    for at in range(MANY):
        await spool.append([alive(at)])
    await wait_until(lambda: list((tmp_path / "spool").glob("*draft*")))

    await spool.close()

    assert not list((tmp_path / "spool").glob("*draft*"))
