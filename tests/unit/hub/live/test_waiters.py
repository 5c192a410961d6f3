"""Those who wait are woken all at once, and each has waited long enough by itself."""

from __future__ import annotations

import asyncio

from adsum_hub.live.broadcast import Waiters
from tests.support import wait_until


async def test_all_are_woken_at_once():
    waiters = Waiters()
    waiting = [asyncio.create_task(waiters.wait(60)) for _ in range(3)]
    await wait_until(lambda: len(waiters) == 3)

    waiters.wake()

    assert await asyncio.gather(*waiting) == [True, True, True]


async def test_who_has_waited_long_enough_goes_on_though_nothing_is_new():
    waiters = Waiters()

    assert [await waiters.wait(0.01), await waiters.wait(0.01)] == [False, False]


async def test_who_comes_later_waits_as_long():
    waiters, loop = Waiters(), asyncio.get_running_loop()
    start = loop.time()
    first = asyncio.create_task(waiters.wait(0.05))
    await wait_until(lambda: loop.time() > start + 0.02)
    began = loop.time()

    assert not await waiters.wait(0.05)
    assert loop.time() - began >= 0.045
    assert not await first


async def test_who_leaves_waits_no_longer():
    waiters = Waiters()
    leaving, staying = (asyncio.create_task(waiters.wait(60)) for _ in range(2))
    await wait_until(lambda: len(waiters) == 2)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert len(waiters) == 1

    waiters.wake()

    assert await staying
    assert len(waiters) == 0
