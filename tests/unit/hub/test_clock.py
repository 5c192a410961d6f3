"""Time on another machine, known only from stamps that arrive late."""

from __future__ import annotations

import pytest

from adsum_hub.clock import LATE_MS, LIVE_MS, HostClock, reachability


@pytest.mark.parametrize(
    ("silent_ms", "expected"),
    [(0, "live"), (LIVE_MS, "live"), (LIVE_MS + 1, "late"), (LATE_MS + 1, "offline")],
)
def test_silence_turns_a_host_late_then_offline(silent_ms: int, expected: str):
    assert reachability(silent_ms) == expected


def test_a_host_that_said_goodbye_is_offline_at_once():
    assert reachability(0, stopping=True) == "offline"


def test_the_offset_comes_from_the_stamp_that_travelled_fastest():
    clock = HostClock()
    clock.observe(100_000, now=5_000)
    clock.observe(101_000, now=9_000)

    assert clock.host_now(9_000) == 104_000


def test_backlog_hours_old_does_not_put_the_clock_back():
    clock = HostClock()
    clock.observe(1_000_000, now=1_000_010)
    late_ms = clock.received(5_000, now=1_000_020)

    assert clock.host_now(1_000_020) == 1_000_010
    assert late_ms == 1_000_020 - 5_010


def test_a_millisecond_of_jitter_moves_nothing():
    clock = HostClock()
    clock.observe(1_000, now=1_100)
    before = clock.offset_ms
    clock.observe(2_050, now=2_100)

    assert clock.offset_ms == before


def test_the_clock_stands_while_nothing_is_heard():
    clock = HostClock()
    clock.observe(50_000, now=50_000)

    assert clock.host_now(50_000 + LIVE_MS + 3_600_000) == 50_000 + LIVE_MS


def test_host_times_become_hub_times():
    clock = HostClock()
    clock.observe(90_000, now=30_000)

    assert clock.to_hub(95_000) == 35_000
