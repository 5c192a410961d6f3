"""The hub's half of delivery against a real Redis: every number applied once, whatever dies."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import OutOfMemoryError

from adsum_hub.observed import report_of
from adsum_hub.snapshots import load_snapshot, save_snapshot
from adsum_shared import streams
from adsum_shared.envelope import Beat, encode_beat, encode_gap
from tests.half_hubs import HOST, FakeCollector, Hub, clock, stored
from tests.support import wait_until

pytestmark = pytest.mark.redis


async def test_what_a_collector_publishes_stands_in_the_roster(collector, hub_at):
    hub = hub_at()
    collector.happen(3)
    await collector.publish(1, 2)
    await collector.publish(3, 3)

    await wait_until(lambda: hub.sessions() == {"s1", "s2", "s3"})
    await wait_until(lambda: {view.host for view in hub.roster.views.values()} == {"lab"})


async def test_a_batch_sent_twice_is_applied_once(collector, hub_at):
    hub = hub_at()
    collector.happen(4)
    await collector.publish(1, 2)
    collector.incarnation = 2
    await collector.publish(1, 4)

    await wait_until(lambda: hub.applied() == 4)
    assert hub.roster.counts["signals"] == 4


async def test_a_killed_hub_goes_on_from_its_snapshot_and_the_stream_is_trimmed(
    collector, hub_at, redis
):
    hub = hub_at()
    collector.happen(5)
    for seq in range(1, 6):
        await collector.publish(seq, seq)
    await wait_until(lambda: hub.applied() == 5)
    await wait_until(lambda: stored(redis, 5))
    await hub.stop()
    hub._tasks.clear()

    again = hub_at()

    await wait_until(lambda: len(again.sessions()) == 5)
    assert await redis.xlen(streams.inbox(HOST)) <= 1
    assert again.roster.counts["signals"] == 0


async def test_what_a_session_did_is_known_to_a_killed_hubs_successor(collector, hub_at, redis):
    hub = hub_at()
    collector.happen(2)
    await collector.publish(1, 2)
    await wait_until(lambda: hub.applied() == 2)
    await wait_until(lambda: stored(redis, 2))
    key = f"{HOST}:s2"
    before = [(each.kind, each.text) for each in hub.roster.activity(key) or ()]
    await hub.stop()
    hub._tasks.clear()

    again = hub_at()

    await wait_until(lambda: again.sessions() == {"s1", "s2"})
    after = [(each.kind, each.text) for each in again.roster.activity(key) or ()]
    assert after == before == [("prompt.submitted", "do 2")]
    assert again.roster.counts["signals"] == 0


async def test_a_hub_still_tells_for_a_report_what_its_stream_has_lost(collector, hub_at, redis):
    hub = hub_at()
    collector.happen(3)
    await collector.publish(1, 3)
    await wait_until(lambda: stored(redis, 3))

    (told,) = report_of(hub.roster.recent.batches(HOST, "s2"), "s2", 0)
    assert (told["kind"], told["session_id"]) == ("prompt.submitted", "s2")
    assert "text" not in told


async def test_a_hub_killed_before_its_snapshot_reads_the_stream_again(collector, hub_at):
    hub = hub_at(saving=False)
    collector.happen(2)
    await collector.publish(1, 2)
    await wait_until(lambda: hub.applied() == 2)
    await hub.stop()
    hub._tasks.clear()

    again = hub_at()

    await wait_until(lambda: again.sessions() == {"s1", "s2"})


async def test_a_hole_is_asked_for_and_filled(collector, hub_at, redis):
    hub = hub_at()
    collector.happen(5)
    await collector.publish(1, 1)
    await collector.publish(4, 5)

    want = await wait_until(lambda: redis.get(streams.want(HOST)))
    assert want == b"sp:2"
    assert hub.applied() <= 1
    collector.incarnation = 2
    await collector.publish(2, 5)

    await wait_until(lambda: len(hub.sessions()) == 5)
    assert hub.roster.counts["signals"] == 5


async def test_numbers_that_nobody_has_leave_the_host_incomplete_and_moving(collector, hub_at):
    hub = hub_at()
    collector.happen(6)
    await collector.publish(1, 1)
    later = clock() + 1  # all six can have begun in this very millisecond
    gap = encode_gap(spool_id="sp", first=2, last=4, nonce="n", sent_at=later, reason="cap")
    await collector.add(4, gap)
    await collector.publish(5, 6)

    await wait_until(lambda: hub.sessions() == {"s1", "s5", "s6"})
    # those that came before the gap are told anew a moment later
    await wait_until(lambda: all(view.incomplete for view in hub.roster.views.values()))


async def test_an_entry_that_cannot_be_read_is_set_aside_and_blocks_nobody(collector, hub_at):
    hub = hub_at()
    collector.happen(3)
    await collector.publish(1, 1)
    await collector.add(
        2, {b"v": b"1", b"sp": b"sp", b"f": b"2", b"l": b"2", b"n": b"n", b"at": b"1", b"b": b"[{"}
    )
    await collector.publish(3, 3)

    await wait_until(lambda: hub.sessions() == {"s1", "s3"})
    assert hub.roster.counts["undecodable"] == 1
    assert "could not be read" in (hub.roster.hosts[HOST].view().problem or "")


async def test_two_hubs_agree_and_conflicts_lose_nothing(collector, hub_at, redis):
    hubs = [hub_at(), hub_at()]
    collector.happen(200)
    for seq in range(1, 201):
        await collector.publish(seq, seq)
    await wait_until(lambda: all(hub.applied() == 200 for hub in hubs))
    await wait_until(lambda: stored(redis, 200))

    snapshot = await load_snapshot(redis, HOST)

    assert len(snapshot.sessions) == 200
    assert hubs[0].sessions() == hubs[1].sessions() == set(snapshot.sessions)


async def test_a_hub_that_slept_never_writes_its_old_state_over_a_newer_one(
    collector, hub_at, redis
):
    sleeper = hub_at(saving=False)
    collector.happen(9)
    await collector.publish(1, 3)
    await wait_until(lambda: sleeper.applied() == 3)
    for task in sleeper._tasks:
        task.cancel()
    awake = hub_at()
    await collector.publish(4, 9)
    await wait_until(lambda: awake.applied() == 9)
    await wait_until(lambda: stored(redis, 9))

    await sleeper.saver.save_once()
    await sleeper.saver.save_once()

    assert await stored(redis, 9)
    assert len((await load_snapshot(redis, HOST)).sessions) == 9
    assert sleeper.roster.counts["conflicts"] == 1


async def test_a_hub_left_behind_by_the_trim_catches_up_from_the_snapshot(collector, hub_at, redis):
    behind = hub_at(saving=False)
    collector.happen(9)
    await collector.publish(1, 3)
    await wait_until(lambda: behind.applied() == 3)
    for task in behind._tasks:
        task.cancel()
    ahead = hub_at()
    for seq in range(4, 9):
        await collector.publish(seq, seq)
    await wait_until(lambda: stored(redis, 8))
    await ahead.stop()
    ahead._tasks.clear()
    assert await redis.xlen(streams.inbox(HOST)) <= 1
    await redis.delete(streams.want(HOST))
    await collector.publish(9, 9)

    behind.start()

    await wait_until(lambda: len(behind.sessions()) == 9)
    assert await redis.get(streams.want(HOST)) is None


async def test_a_wiped_redis_is_filled_again_from_memory_and_by_the_collector(
    collector, hub_at, redis
):
    hub = hub_at()
    collector.happen(4)
    await collector.publish(1, 4)
    await wait_until(lambda: stored(redis, 4))
    await redis.flushall()
    await hub.reader.connection_pool.disconnect()
    await collector.join()
    collector.happen(1)
    await collector.publish(1, 4)
    await collector.publish(5, 5)

    await wait_until(lambda: hub.applied() == 5)
    await wait_until(lambda: stored(redis, 5))

    assert len((await load_snapshot(redis, HOST)).sessions) == 5


async def test_a_host_that_says_goodbye_is_offline_at_once_and_leaves_the_counts(collector, hub_at):
    hub = hub_at()
    collector.happen(1)
    await collector.publish(1, 1)
    await wait_until(lambda: hub.roster.summary().autonomous_count == 1)

    await collector.beat(stopping=True)

    await wait_until(lambda: hub.roster.summary().autonomous_count == 0)
    assert hub.roster.summary().offline_count == 1


async def test_a_lost_tail_of_a_quiet_host_is_asked_for(collector, hub_at, redis):
    collector.happen(3)
    beat = Beat(HOST, "lab", clock(), "n", "sp", seq=3, sent=3)
    hub = hub_at()
    await redis.set(streams.beat(HOST), encode_beat(beat), px=streams.BEAT_TTL_MS)

    want = await wait_until(lambda: redis.get(streams.want(HOST)), timeout=8)
    assert want == b"sp:1"
    await collector.publish(1, 3)

    await wait_until(lambda: len(hub.sessions()) == 3)


@pytest.mark.parametrize("key", [streams.inbox, streams.snapshot, streams.beat])
async def test_a_foreign_value_under_one_hosts_key_blinds_the_hub_to_nobody_else(
    redis, hub_at, key
):
    wrong = "00000000-bbbb-4000-8000-000000000002"
    await redis.sadd(streams.HOSTS, wrong, b"\xff\xfe", "no-uuid")
    await redis.lpush(key(wrong), "x")
    right = FakeCollector(redis)
    await right.join()
    hub = hub_at()
    right.happen(2)
    await right.publish(1, 2)

    await wait_until(lambda: hub.sessions() == {"s1", "s2"})
    await wait_until(lambda: stored(redis, 2))
    await wait_until(lambda: hub.roster.hosts[HOST].reachability == "live")
    assert hub.roster.hosts.keys() == {HOST, wrong}
    assert hub.roster.hosts[wrong].view().problem
    assert not hub._tasks[0].done()


@pytest.mark.parametrize("running", [True, False], ids=["as it runs", "before it starts"])
async def test_a_hole_beside_a_snapshot_that_is_none_blinds_the_hub_to_nobody_else(
    collector, hub_at, redis, running
):
    other = FakeCollector(redis, "00000000-bbbb-4000-8000-000000000002")
    await other.join()
    other.happen()
    collector.happen(4)
    await collector.publish(1, 1)
    hub = hub_at() if running else None
    if hub is not None:
        await wait_until(lambda: stored(redis, 1))
    await redis.delete(streams.snapshot(HOST))
    await redis.set(streams.snapshot(HOST), "nobody's")
    await redis.delete(streams.inbox(HOST))
    await collector.publish(3, 4)
    hub = hub or hub_at()

    await wait_until(lambda: redis.exists(streams.want(HOST)))
    await other.publish(1, 1)
    await wait_until(lambda: hub.roster.hosts[other.host_id].applied == {"sp": 1})
    await wait_until(lambda: hub.roster.hosts[HOST].view().problem)
    assert hub.link.problem is None


async def test_catching_up_leaves_the_loop_to_others(collector, hub_at):
    collector.happen(4_000)
    for first in range(1, 4_000, 100):
        await collector.publish(first, first + 99)
    most, before = 0, 0
    hub = hub_at()
    while before < 4_000:
        await asyncio.sleep(0)
        applied = hub.applied()
        most, before = max(most, applied - before), applied

    # Without yielding all of it is one turn of the loop. Not by the clock: machines differ.
    assert hub.roster.counts["signals"] == 4_000
    assert most < 1_000


async def test_a_stream_that_began_anew_below_the_cursor_is_read_from_its_start(
    collector, hub_at, redis
):
    hub = hub_at()
    collector.happen(3)
    collector.incarnation = 7
    await collector.publish(1, 1)
    await wait_until(lambda: hub.applied() == 1)
    await redis.delete(streams.inbox(HOST))
    collector.incarnation = 1
    await collector.publish(1, 3)

    await redis.client_kill_filter(_type="normal", skipme=True)

    await wait_until(lambda: hub.sessions() == {"s1", "s2", "s3"})


async def test_what_could_not_be_saved_is_said_kept_and_saved_later(collector, hub_at, redis):
    hub = hub_at()
    collector.happen(2)
    await collector.publish(1, 1)
    await wait_until(lambda: stored(redis, 1))
    await redis.delete(streams.snapshot(HOST))
    await redis.lpush(streams.snapshot(HOST), "in the way")
    await collector.publish(2, 2)
    host = hub.roster.hosts[HOST]
    await wait_until(lambda: "cannot be saved" in (host.view().problem or ""))

    await redis.delete(streams.snapshot(HOST))

    await wait_until(lambda: stored(redis, 2))
    await wait_until(lambda: host.view().problem is None)
    assert len((await load_snapshot(redis, HOST)).sessions) == 2


async def test_a_hole_that_cannot_be_asked_for_keeps_nobody_else_from_being_heard(
    collector, redis, redis_url
):
    other = FakeCollector(redis, "00000000-bbbb-4000-8000-000000000002")
    await other.join()
    for host_id in (HOST, other.host_id):
        ahead = Beat(host_id, "lab", clock(), "n", "sp", seq=4, sent=4)
        await redis.set(streams.beat(host_id), encode_beat(ahead), px=streams.BEAT_TTL_MS)
    hub = Hub(redis_url)
    await redis.config_set("maxmemory", 1)
    try:
        await hub.consumer._discovery.look()
        for host in hub.roster.hosts.values():
            host.read_at = 0
        await hub.heartbeats.hear()
    finally:
        await redis.config_set("maxmemory", 0)

    assert [host.beat is not None for host in hub.roster.hosts.values()] == [True, True]
    await hub.heartbeats.hear()
    assert await redis.exists(streams.want(HOST), streams.want(other.host_id)) == 2
    await hub.stop()


async def test_a_redis_that_its_streams_have_filled_is_emptied_by_a_hub(collector, hub_at, redis):
    collector.happen(300)
    for first in range(1, 301, 10):
        await collector.publish(first, first + 9)
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(OutOfMemoryError):
            await redis.set("probe", "x")
        hub = hub_at()
        await wait_until(lambda: stored(redis, 300))
        await wait_until(lambda: hub.roster.hosts[HOST].view().problem is None)
        assert await redis.xlen(streams.inbox(HOST)) == 1
    finally:
        await redis.config_set("maxmemory", 0)


async def test_a_snapshot_is_written_only_over_the_version_it_was_read_at(collector, redis):
    del collector
    snapshot = await load_snapshot(redis, HOST)

    first = await save_snapshot(redis, HOST, snapshot, {}, ())
    second = await save_snapshot(redis, HOST, snapshot, {}, ())

    assert (first, second) == ((1, False), None)


async def test_an_unreadable_snapshot_is_replayed_not_fatal(collector, hub_at, redis):
    await redis.hset(streams.snapshot(HOST), mapping={"v": "3", "applied": "{broken", "cur": "x"})
    hub = hub_at()
    collector.happen(2)
    await collector.publish(1, 2)

    await wait_until(lambda: hub.sessions() == {"s1", "s2"})
    await wait_until(lambda: stored(redis, 2))


async def test_without_redis_the_hub_says_so_and_goes_on_trying():
    hub = Hub("redis://127.0.0.1:1")
    hub.start()

    await wait_until(lambda: "cannot be reached" in (hub.link.problem or ""))
    assert all(not task.done() for task in hub._tasks)
    await hub.stop()
