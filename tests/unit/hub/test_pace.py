"""What costs is done at once while a budget lasts, and a bell rings no more often than it may."""

from __future__ import annotations

import asyncio

from adsum_hub.live.bell import Bell
from adsum_hub.live.pace import Pace
from tests.support import wait_until


def test_nothing_waits_while_the_budget_lasts():
    pace = Pace(100, 50)
    waits = []
    for _ in range(5):
        waits.append(pace.wait(10, 7.0, 1.0))
        pace.spend(10, 7.0)

    assert waits == [0.0] * 5


def test_beyond_the_budget_one_waits_until_it_allows_the_next():
    pace = Pace(100, 50)
    pace.spend(50, 7.0)

    assert round(pace.wait(10, 7.0, 1.0), 6) == 0.1
    assert round(pace.wait(10, 7.04, 1.0), 6) == 0.06
    assert pace.wait(10, 7.11, 1.0) == 0.0


def test_what_is_dearer_than_all_that_can_be_saved_waits_the_longest_and_no_more():
    pace = Pace(100, 50)
    pace.spend(200, 7.0)

    assert round(pace.wait(200, 7.25, 1.0), 6) == 0.75
    assert pace.wait(200, 8.0, 1.0) == 0.0


def test_a_long_rest_saves_no_more_than_a_burst():
    pace = Pace(100, 50)
    pace.spend(50, 7.0)
    pace.spend(50, 9_000.0)

    assert round(pace.wait(10, 9_000.0, 1.0), 6) == 0.1


async def test_a_bell_rings_at_once_and_then_after_its_rest():
    bell = Bell(0.03)
    bell.ring()
    assert bell.rung.is_set()
    bell.rung.clear()
    since = asyncio.get_running_loop().time()

    for _ in range(3):
        bell.ring()
    assert not bell.rung.is_set()
    await wait_until(bell.rung.is_set)

    assert asyncio.get_running_loop().time() - since >= 0.02
