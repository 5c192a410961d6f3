"""The spool at its cap: the oldest goes whole, and every number of it is in a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum_collector.spool.spool import SpoolGap
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import MOST_ROTATE_BYTES, SpoolLimits
from tests.spools import Clock, fill, numbers_of, read_all, snapshots

#: Files of a hundred signals of a thousand bytes, and seven of them.
CAP = SpoolLimits(
    cap_bytes=1_000_000, rotate_bytes=100_000, retention_s=60, min_free_bytes=0, log_bytes=0
)
#: As many as fit: the next file that becomes full is one too many.
MANY = 695


@pytest.fixture
def clock() -> Clock:
    return Clock()


def used(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.glob("*.db"))


def test_the_oldest_goes_whole_and_the_cap_is_never_passed(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, CAP, clock)
    for _ in range(240):
        fill(files, 5)
        assert used(tmp_path) <= CAP.cap_bytes

    rows, gaps = read_all(files)
    assert [(gap.first, gap.reason) for gap in gaps] == [(1, "cap")]
    assert gaps[0].last % 100 == 0
    assert list(rows) == list(range(gaps[0].last + 1, 1201))
    assert len(rows) > 600
    files.close()


def test_up_to_the_cap_nothing_goes(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, CAP, clock)
    fill(files, MANY)

    assert len(read_all(files)[0]) == MANY
    files.close()


def test_what_every_hub_has_goes_at_the_cap_though_it_is_young(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, CAP, clock)
    fill(files, 250)
    files.acknowledge(250, files.meta.spool_id)
    fill(files, 700)

    rows, gaps = read_all(files)

    assert [(gap.first, gap.reason) for gap in gaps] == [(1, "retention")]
    assert numbers_of(gaps) == list(range(1, 201))
    assert list(rows) == list(range(201, 951))
    files.close()


def test_of_a_file_that_hubs_have_in_part_the_gap_names_the_rest(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, CAP, clock)
    fill(files, MANY)
    files.acknowledge(50, files.meta.spool_id)
    fill(files, 200)

    gaps = read_all(files)[1]

    assert gaps[:2] == [SpoolGap(1, 50, "retention"), SpoolGap(51, gaps[-1].last, "cap")]
    files.close()


def test_a_hole_with_two_reasons_is_told_as_two(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, CAP, clock)
    files.begin_anew("rollback", 3, instead_of=files.meta.spool_id)
    fill(files, 900)

    assert [(gap.first, gap.reason) for gap in read_all(files)[1]] == [(1, "rollback"), (2, "cap")]
    files.close()


def test_killed_at_any_moment_of_an_eviction_there_is_a_gap_or_there_are_the_rows(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolDirectory(tmp_path / "spool", CAP, clock)
    fill(files, MANY)
    with monkeypatch.context() as watched:
        taken = snapshots(watched, tmp_path / "spool", tmp_path / "killed")
        fill(files, 130)
        assert read_all(files)[1]
    files.close()
    assert len(taken) > 3

    for killed in taken:
        again = SpoolDirectory(killed, CAP, clock)
        rows, gaps = read_all(again)
        assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, again.last + 1))
        assert {gap.reason for gap in gaps} <= {"cap"}
        assert not set(rows) & set(numbers_of(gaps))
        again.close()


@pytest.mark.parametrize("cap_mb", [1, 16, 512, 4096])
def test_files_are_an_eighth_of_a_small_cap_and_never_large(cap_mb: int) -> None:
    limits = SpoolLimits.of(cap_mb << 20, 60)

    assert limits.rotate_bytes == min(MOST_ROTATE_BYTES, (cap_mb << 20) // 8)
    assert limits.log_bytes * 4 <= limits.rotate_bytes or limits.log_bytes == 4 << 20
