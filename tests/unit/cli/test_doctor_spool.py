"""What the doctor makes of the spool: its disk, its allowance, and files that were damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from adsum.doctor.checks import MANY, OLD_MS, Finding, check_spool, judge_spool
from adsum_collector.settings import CollectorSettings
from adsum_collector.spool.spool import SpoolStatus
from adsum_collector.spool.spool_directory import Quarantined

MB = 1_000_000
NOW = 1_764_000_000_000
WELL = SpoolStatus(
    directory="/s/spool",
    spool_id="sp",
    first=1,
    last=900,
    confirmed=897,
    waiting=3,
    oldest_waiting_ms=200,
    files=[],
    bytes=5 * MB,
    cap=500 * MB,
    free=9_000 * MB,
    reserve=64 * MB,
    gaps=[],
    quarantined=[],
)


def judged(**changes: Any) -> Finding:
    return judge_spool(msgspec.structs.replace(WELL, **changes), NOW)


def quarantined(hours: int, missing: int | None) -> Quarantined:
    at = NOW - hours * 3_600_000
    return Quarantined("spool-000001.db.corrupt", "spool-000001.db", at, 9, "bad page", missing)


def test_a_spool_that_is_well_says_what_it_holds() -> None:
    found = judged()
    assert (found.result, found.fix, found.details) == ("ok", None, ())
    what = "3 signals are at no hub yet, the oldest for 0s; the spool has 5.0 MB of 500 MB."
    assert found.what == what
    assert judged(waiting=1).what.startswith("1 signal is at no hub yet")
    assert judged(waiting=0, oldest_waiting_ms=None).what.startswith("0 signals are at no hub yet;")


def test_a_full_disk_fails_since_hooks_are_refused() -> None:
    found = judged(free=63 * MB)
    assert found.result == "fail"
    assert "hooks are refused: 63 MB free" in found.what


def test_a_disk_that_is_nearly_full_is_a_warning() -> None:
    found = judged(free=200 * MB)
    assert found.result == "warn"
    assert "below 64 MB" in (found.fix or "")


def test_an_allowance_nearly_used_by_what_no_hub_has_is_a_warning() -> None:
    found = judged(bytes=450 * MB, waiting=40_000)
    assert found.result == "warn"
    assert "40,000 signals are at no hub yet" in found.what
    assert "450 MB of 500 MB" in found.what
    assert "ADSUM_SPOOL_CAP_MB" in (found.fix or "")


def test_an_allowance_used_by_what_hubs_have_is_no_fault() -> None:
    assert judged(bytes=499 * MB).result == "ok"


@pytest.mark.parametrize(
    ("waiting", "oldest", "result"),
    [(MANY, OLD_MS, "ok"), (MANY + 1, 0, "warn"), (1, OLD_MS + 1, "warn")],
)
def test_many_or_old_signals_at_no_hub_are_a_warning(
    waiting: int, oldest: int, result: str
) -> None:
    assert judged(waiting=waiting, oldest_waiting_ms=oldest).result == result


def test_a_file_damaged_in_the_last_day_is_a_warning_and_an_older_one_is_told() -> None:
    found = judged(quarantined=[quarantined(1, 1_200), quarantined(90, 0), quarantined(91, None)])
    assert found.result == "warn"
    assert found.details == (
        "1h ago: spool-000001.db.corrupt (bad page); 1,200 signals are missing",
        "3d ago: spool-000001.db.corrupt (bad page); nothing is missing",
        "3d ago: spool-000001.db.corrupt (bad page); signals may be missing",
    )
    old = judged(quarantined=[quarantined(90, 0)])
    assert (old.result, len(old.details)) == ("ok", 1)


def test_what_the_spool_says_is_wrong_is_a_warning() -> None:
    found = judged(problem="It cannot keep up. Look at that disk.")
    assert (found.result, found.what, found.fix) == (
        "warn",
        "It cannot keep up.",
        "Look at that disk.",
    )


def test_a_machine_without_a_spool_has_nothing_to_look_at(tmp_path: Path) -> None:
    assert check_spool(CollectorSettings(state_dir=tmp_path)).result == "skip"
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_cannot_be_read_fails_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "spool-000001.db").write_bytes(b"no database" * 999)
    found = check_spool(CollectorSettings(state_dir=tmp_path))
    assert found.result == "fail"
    assert found.fix
