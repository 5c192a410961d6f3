"""Who may go on with a spool: the run that came last. All hubs find the same, and say so."""

from __future__ import annotations

import pytest

from adsum_hub.snapshots import load_header
from adsum_shared import streams
from tests.half_hubs import HOST, stored
from tests.support import wait_until

pytestmark = pytest.mark.redis


async def test_the_runs_of_a_spool_are_stored_with_what_they_brought(collector, hub_at, redis):
    hub_at()
    collector.happen(5)
    collector.nonce = "a"
    await collector.publish(1, 2)
    collector.nonce = "b"
    await collector.publish(3, 5)

    await wait_until(lambda: stored(redis, 5))
    header = await load_header(redis, HOST)

    assert list(header.runs["sp"].items()) == [("a", 2), ("b", 5)]
    assert await redis.hget(streams.snapshot(HOST), streams.RUNS) == b'{"sp":{"a":2,"b":5}}'


async def test_hubs_agree_on_a_stranger_whenever_they_began_to_read(collector, hub_at, redis):
    early = hub_at()
    collector.happen(9)
    collector.nonce = "a"
    await collector.publish(1, 2)
    collector.nonce = "b"
    await collector.publish(3, 4)
    await wait_until(lambda: stored(redis, 4))
    late = hub_at()
    await wait_until(lambda: late.applied() == 4)
    collector.nonce, collector.incarnation = "a", 2
    await collector.publish(5, 6)
    await collector.publish(9, 9)
    collector.nonce, collector.incarnation = "b", 3
    await collector.publish(5, 5)

    await wait_until(lambda: early.applied() == late.applied() == 5)
    later = hub_at()
    await wait_until(lambda: stored(redis, 5))
    await wait_until(lambda: later.applied() == 5)

    sessions = {f"s{number}" for number in range(1, 6)}
    for hub in (early, late, later):
        assert hub.sessions() == sessions
        assert hub.roster.hosts[HOST].runs == {"sp": {"a": 2, "b": 5}}
    # A hub that takes over the state that the other has just stored reads none of the strangers' entries.
    readers = [hub for hub in (early, late) if hub.roster.counts["strangers"]]
    assert readers
    for hub in readers:
        assert hub.roster.counts["strangers"] == hub.roster.hosts[HOST].view().set_aside == 2
        assert "looks like a copy" in (hub.roster.hosts[HOST].view().problem or "")
    assert await redis.get(streams.want(HOST)) is None


async def test_a_collector_finds_that_hubs_have_spoken_on_a_strangers_entry(
    collector, hub_at, redis
):
    hub_at()
    collector.happen(4)
    for nonce, seq in (("a", 1), ("b", 2)):
        collector.nonce = nonce
        await collector.publish(seq, seq)
    await wait_until(lambda: stored(redis, 2))
    collector.nonce = "a"
    await collector.publish(3, 3)

    async def is_reached() -> bool:
        return (await load_header(redis, HOST)).cursor == "1-3"

    await wait_until(is_reached)
    assert (await load_header(redis, HOST)).applied == {"sp": 2}


async def test_a_hub_that_is_behind_takes_no_later_runs_word_for_it(collector, hub_at, redis):
    ahead = hub_at()
    behind = hub_at(saving=False)
    collector.happen(6)
    collector.nonce = "a"
    await collector.publish(1, 2)
    await wait_until(lambda: ahead.applied() == behind.applied() == 2)
    for task in behind._tasks:
        task.cancel()
    await ahead.stop()
    ahead._tasks.clear()
    await collector.publish(3, 3)
    collector.nonce = "b"
    await collector.publish(4, 4)
    ahead = hub_at()
    await wait_until(lambda: stored(redis, 4))

    behind.roster.hosts[HOST].saved.change({"s1"})
    await behind.saver.save_once()
    await behind.heartbeats.hear()
    behind.start()
    await collector.publish(5, 5)

    await wait_until(lambda: behind.applied() == 5)
    assert behind.roster.counts["strangers"] == 0
    assert behind.sessions() == {f"s{number}" for number in range(1, 6)}
