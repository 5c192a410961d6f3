"""Files in quarantine: kept for a while with their cause, the newest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum_collector.spool.spool_directory import NOTICE_S, Quarantine
from tests.spools import Clock, names


@pytest.fixture
def clock() -> Clock:
    return Clock()


def quarantine_one(
    quarantine: Quarantine, directory: Path, number: int, clock: Clock, size: int = 9
) -> None:
    path = directory / f"spool-{number:06d}.db"
    path.write_bytes(b"x" * size)
    clock.now += 1
    quarantine.take(path, "a cause", 2, clock.now)


def test_only_the_newest_three_are_kept(tmp_path: Path, clock: Clock) -> None:
    quarantine = Quarantine(tmp_path)
    for number in range(1, 7):
        quarantine_one(quarantine, tmp_path, number, clock)

    kept = [f"spool-00000{number}.db.corrupt" for number in (4, 5, 6)]
    assert names(tmp_path) == sorted([*kept, *(f"{name}.json" for name in kept)])
    assert [each.was for each in quarantine.files] == [f"spool-00000{n}.db" for n in (6, 5, 4)]
    assert "others" in str(quarantine.notice(clock.now))


def test_what_was_quarantined_is_told_of_for_a_day_and_while_it_is_there(
    tmp_path: Path, clock: Clock
) -> None:
    quarantine_one(Quarantine(tmp_path), tmp_path, 1, clock)

    quarantine = Quarantine(tmp_path)  # as after a restart
    assert str(quarantine.notice(clock.now)).startswith(
        "The spool file spool-000001.db was damaged (a cause) and quarantined as "
        "spool-000001.db.corrupt; 2 signals are missing."
    )
    assert quarantine.notice(clock.now + NOTICE_S) is None
    (tmp_path / "spool-000001.db.corrupt").unlink()
    assert quarantine.notice(clock.now) is None


def test_one_name_can_be_quarantined_twice(tmp_path: Path, clock: Clock) -> None:
    quarantine = Quarantine(tmp_path)
    quarantine_one(quarantine, tmp_path, 1, clock, 5)
    quarantine_one(quarantine, tmp_path, 1, clock, 6)

    assert [each.name for each in quarantine.files] == [
        "spool-000001.db.corrupt-2",
        "spool-000001.db.corrupt",
    ]
    assert [each.bytes for each in quarantine.files] == [6, 5]
