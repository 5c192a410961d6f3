"""The trail: when how much of a day was used up, in few steps that never move to later."""

from __future__ import annotations

from itertools import pairwise

from adsum_hub.facts import Trail, Usage
from adsum_hub.fold.fold import FULL_STEPS, MOST_DAYS, MOST_STEPS, OLD_STEPS, STEP_MS, walked

DAY = "2026-11-20"


def walk(trail: Trail, tokens: int, at: int, day: str = DAY, prompted: int = 0) -> Trail:
    return walked(trail, {f"{day} ,, m": Usage(input_tokens=tokens)}, day, at, prompted)


def test_within_a_minute_the_earlier_time_gets_the_later_sum() -> None:
    trail = walk(walk({}, 1, 1_000), 5, 1_000 + STEP_MS - 1)

    assert trail == {DAY: ((1_000, 100),)}


def test_a_prompt_begins_a_new_step() -> None:
    trail = walk(walk({}, 1, 1_000), 5, 3_000, prompted=2_000)

    assert trail == {DAY: ((1_000, 20), (2_000, 20), (3_000, 100))}


def test_a_total_that_falls_was_never_higher() -> None:
    trail = walk(walk({}, 9, 0), 4, STEP_MS)

    assert trail == {DAY: ((0, 80), (STEP_MS, 80))}


def test_a_report_that_comes_late_moves_no_step_back_in_time() -> None:
    assert walk(walk({}, 1, 5_000), 2, 4_000) == {DAY: ((5_000, 40),)}


def test_steps_are_bounded_and_all_of_a_day_stays_equally_fine() -> None:
    trail: Trail = {}
    for minute in range(500):
        trail = walk(trail, minute + 1, minute * STEP_MS)

    steps = trail[DAY]
    assert len(steps) <= FULL_STEPS
    assert steps[-1] == (499 * STEP_MS, 10_000)
    assert steps[0][0] == 0
    assert list(steps) == sorted(steps)
    gaps = [after[0] - before[0] for before, after in pairwise(steps)]
    assert max(gaps) <= 2 * 500 * STEP_MS / MOST_STEPS


def test_a_merged_step_says_that_it_was_so_earlier_and_never_later() -> None:
    trail: Trail = {}
    for minute in range(500):
        trail = walk(trail, minute + 1, minute * STEP_MS)

    for at, units in trail[DAY]:
        assert units >= 20 * (at // STEP_MS + 1)


def test_days_that_are_over_keep_little_and_the_oldest_nothing() -> None:
    trail: Trail = {}
    for day in range(MOST_DAYS + 5):
        name = f"2026-{1 + day // 28:02}-{1 + day % 28:02}"
        for minute in range(20):
            trail = walk(trail, minute + 1, (day * 1_000 + minute) * STEP_MS, name)

    assert len(trail) == MOST_DAYS
    assert all(len(trail[day]) <= OLD_STEPS for day in sorted(trail)[:-1])
