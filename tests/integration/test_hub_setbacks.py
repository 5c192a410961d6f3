"""What a hub knew is gone, or it was away itself: it notices by itself, and loses nothing for good."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from pathlib import Path

import pytest
from redis.asyncio import Redis

from adsum_hub.consumer import consumer
from adsum_hub.snapshots import Snapshot, load_header, load_snapshot
from adsum_shared import streams
from adsum_shared.envelope import Beat, encode_beat, encode_gap
from tests.half_hubs import HOST, FakeCollector, Hub, clock, stored
from tests.hub_processes import HubProcess, started
from tests.integration.test_delivery_hub import before_each_command
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]


async def freeze(hub: Hub) -> None:
    """It stops where it is and keeps what it has; `start` thaws it."""
    for task in hub._tasks:
        task.cancel()
    await asyncio.gather(*hub._tasks, return_exceptions=True)
    hub._tasks.clear()


async def kill(hub: Hub) -> None:
    await hub.stop()
    hub._tasks.clear()


async def beat(collector: FakeCollector, sent: int, spool_id: str = "sp") -> None:
    told = Beat(HOST, "lab", clock(), "n", spool_id, seq=sent, sent=sent)
    await collector.redis.set(streams.beat(HOST), encode_beat(told), px=streams.BEAT_TTL_MS)


async def asked(redis: Redis) -> bytes | None:
    found: bytes | None = await redis.get(streams.want(HOST))
    return found


async def test_a_snapshot_that_was_deleted_under_quiet_hubs_is_written_again(
    collector, hub_at, redis
):
    hubs = [hub_at(), hub_at()]
    collector.happen(5)
    await collector.publish(1, 5)
    await wait_until(lambda: stored(redis, 5))
    # One that has not tried to save has not seen that the other has.
    await wait_until(lambda: all(hub.roster.hosts[HOST].saved.highest for hub in hubs))
    version = (await load_header(redis, HOST)).version

    await redis.delete(streams.snapshot(HOST))

    await wait_until(lambda: stored(redis, 5))
    snapshot = await load_snapshot(redis, HOST)
    assert len(snapshot.sessions) == 5
    assert snapshot.version > version


async def test_a_snapshot_that_was_deleted_while_no_hub_ran_is_replayed_from_the_start(
    collector, hub_at, redis
):
    first = hub_at()
    collector.happen(5)
    for seq in range(1, 6):
        await collector.publish(seq, seq)
    await wait_until(lambda: stored(redis, 5))
    await kill(first)
    await redis.delete(streams.snapshot(HOST))
    assert await redis.xlen(streams.inbox(HOST)) == 1  # the rest was in the snapshot alone

    hub = hub_at()

    assert await wait_until(lambda: asked(redis)) == b"sp:1"
    collector.incarnation = 2
    gap = encode_gap(spool_id="sp", first=1, last=2, nonce="n", sent_at=clock(), reason="retention")
    await collector.add(2, gap)  # its disk holds no more
    await collector.publish(3, 5)
    await wait_until(lambda: stored(redis, 5))
    assert hub.sessions() == {"s3", "s4", "s5"}
    assert [(each.reason, each.numbers) for each in hub.roster.hosts[HOST].gaps] == [
        ("retention", 2)
    ]


async def test_a_stream_deleted_between_two_reads_is_read_on_when_it_begins_anew(
    collector, hub_at, redis
):
    hub = hub_at()
    collector.happen(6)
    await collector.publish(1, 3)
    await wait_until(lambda: hub.applied() == 3)

    await redis.delete(streams.inbox(HOST))
    await collector.publish(4, 4)
    await redis.delete(streams.inbox(HOST))
    collector.incarnation = 2
    await collector.publish(4, 6)

    await wait_until(lambda: stored(redis, 6))
    assert len(hub.sessions()) == 6
    assert hub.roster.counts["signals"] == 6


async def test_a_stream_that_begins_anew_below_the_cursor_is_found_without_a_new_connection(
    collector, hub_at, redis
):
    hubs = [hub_at(), hub_at()]
    collector.happen(5)
    collector.incarnation = 9
    await collector.publish(1, 2)
    await wait_until(lambda: all(hub.applied() == 2 for hub in hubs))
    await wait_until(lambda: stored(redis, 2))

    await redis.delete(streams.inbox(HOST))
    collector.incarnation = 1
    await collector.publish(1, 5)
    await beat(collector, 5)

    await wait_until(lambda: all(hub.applied() == 5 for hub in hubs), timeout=10)
    # Less, where one took over what the other had stored.
    assert all(hub.roster.counts["signals"] <= 5 for hub in hubs)
    await wait_until(lambda: stored(redis, 5))


async def test_a_collector_that_was_away_is_asked_again_when_it_is_back(collector, hub_at, redis):
    hub = hub_at()
    collector.happen(6)
    await collector.publish(1, 1)
    await collector.publish(4, 5)
    assert await wait_until(lambda: asked(redis)) == b"sp:2"
    await redis.delete(streams.want(HOST))  # nobody was there to see it

    collector.incarnation = 2
    await collector.publish(6, 6)
    await beat(collector, 6)

    assert await wait_until(lambda: asked(redis), timeout=10) == b"sp:2"
    collector.incarnation = 3
    await collector.publish(2, 6)
    await wait_until(lambda: hub.applied() == 6)
    assert hub.roster.counts["signals"] == 6
    assert hub.roster.counts["replays"] == 2


async def test_a_quiet_hosts_lost_tail_is_taken_from_another_hub_before_anyone_is_asked(
    collector, hub_at, redis
):
    frozen = hub_at(saving=False)
    collector.happen(9)
    await collector.publish(1, 3)
    await wait_until(lambda: frozen.applied() == 3)
    await freeze(frozen)
    other = hub_at()
    for seq in range(4, 10):
        await collector.publish(seq, seq)
    await wait_until(lambda: stored(redis, 9))
    await kill(other)
    await redis.xtrim(streams.inbox(HOST), maxlen=0)
    await beat(collector, 9)

    frozen.start()

    await wait_until(lambda: frozen.applied() == 9, timeout=10)
    assert len(frozen.sessions()) == 9
    assert frozen.roster.counts["replays"] == 0
    assert await asked(redis) is None


async def test_hubs_that_each_know_of_another_dead_spool_agree_in_the_end(collector, hub_at, redis):
    """One has seen a spool whose machine was emptied; Redis was wiped; the other began after that."""
    old = hub_at(saving=False)
    collector.happen(8)
    await collector.publish(1, 4)
    await wait_until(lambda: old.applied() == 4)
    await redis.flushall()
    await freeze(old)
    await collector.join()
    collector.spool_id, collector.incarnation = "new", 2
    new = hub_at()
    signals, collector.signals = collector.signals, collector.signals[4:]
    await collector.publish(1, 3)
    await beat(collector, 3, "new")
    await wait_until(lambda: new.roster.hosts and new.roster.hosts[HOST].applied == {"new": 3})

    async def is_stored() -> bool:
        return (await load_header(redis, HOST)).applied == {"new": 3}

    await wait_until(is_stored)
    await redis.xtrim(streams.inbox(HOST), maxlen=0)  # the old one cannot read what it has missed
    old.start()

    async def is_asked() -> bool:
        return await asked(redis) == b"new:1"

    await wait_until(is_asked, timeout=10)
    collector.incarnation = 3
    await collector.publish(1, 4)
    await beat(collector, 4, "new")

    def agree() -> bool:
        return [hub.roster.hosts[HOST].applied for hub in (old, new)] == [{"sp": 4, "new": 4}] * 2

    await wait_until(agree, timeout=10)
    assert old.sessions() == new.sessions() == {f"s{number}" for number in range(1, 9)}
    assert len(signals) == 8


async def test_a_hub_whose_own_part_comes_again_goes_on_from_what_is_stored(
    collector, hub_at, redis
):
    """What it lacks is dead and stored only; what it has beyond is still in the stream."""
    hub = hub_at(saving=False)
    collector.happen(3)
    await collector.publish(1, 3)
    await beat(collector, 3)
    await wait_until(lambda: hub.applied() == 3)
    await redis.hset(
        streams.snapshot(HOST),
        mapping={"v": 4, "schema": 1, "cur": "1-0", "applied": '{"dead":7,"sp":1}'},
    )
    await redis.delete(streams.inbox(HOST))
    collector.incarnation = 2
    await collector.publish(2, 3)

    host = hub.roster.hosts[HOST]
    await wait_until(lambda: host.applied == {"dead": 7, "sp": 3}, timeout=10)


async def test_what_neither_side_can_get_again_is_told_with_the_way_out(collector, hub_at, redis):
    hub = hub_at(saving=False)
    collector.happen(2)
    await collector.publish(1, 2)
    await wait_until(lambda: hub.applied() == 2)
    await beat(collector, 0, "newest")

    await redis.hset(
        streams.snapshot(HOST), mapping={"v": 9, "schema": 1, "cur": "1-2", "applied": '{"dead":7}'}
    )

    host = hub.roster.hosts[HOST]
    await wait_until(lambda: "restart this hub" in (host.view().problem or ""), timeout=10)
    assert host.applied == {"sp": 2}


async def test_what_is_read_while_the_streams_end_is_asked_for_is_no_stream_that_went_back(
    collector, redis, redis_url
):
    hub = Hub(redis_url)
    await collector.join()
    collector.happen(5)
    await collector.publish(1, 5)
    await hub.consumer._discovery.look()
    host = hub.roster.hosts[HOST]

    async def read_on(command: str) -> None:
        if command == "XINFO STREAM":
            host.cursor = "1-9"

    before_each_command(hub.redis, read_on)
    await hub.consumer._places.find(host)

    assert host.cursor == "1-9"
    await hub.stop()


async def test_a_reload_amid_what_was_read_goes_back_to_its_own_place_in_the_stream(
    collector, redis, redis_url, monkeypatch
):
    monkeypatch.setattr(consumer, "TURN_S", -1.0)
    hub = Hub(redis_url)
    await collector.join()
    collector.happen(40)
    for number in range(1, 41):
        await collector.publish(number, number)
    await hub.consumer._discovery.look()
    stored = Snapshot(cursor="1-5", applied={"sp": 5}, runs={"sp": {"n": 5}})

    async def reload() -> None:
        await wait_until(lambda: hub.applied() >= 10, interval=0)
        hub.roster.reload(HOST, stored, clock())

    reloading = asyncio.create_task(reload())
    await hub.consumer._read()
    await reloading
    await hub.consumer._read()

    assert hub.applied() == 40
    assert not hub.roster.counts["holes"]
    await hub.stop()


async def test_a_hub_that_reads_on_while_it_is_judged_stuck_keeps_what_it_shows(
    collector, redis, redis_url
):
    other, hub = Hub(redis_url), Hub(redis_url)
    await collector.join()
    collector.happen(5)
    for each in (other, hub):
        await each.consumer._discovery.look()
    await collector.publish(1, 3)
    await other.consumer._read()
    await other.saver.save_once()
    await beat(collector, 5)
    await hub.heartbeats.hear()  # a first look: behind
    await collector.publish(4, 5)

    async def read_on(command: str) -> None:
        if command in {"HGETALL", "HSCAN"} and not hub.applied():
            await hub.consumer._read()

    before_each_command(hub.redis, read_on)
    await hub.heartbeats.hear()  # a second one: as far behind, until it is about to reload

    assert hub.applied() == 5
    for each in (other, hub):
        await each.stop()


async def test_a_frozen_hub_that_thaws_shows_what_it_missed_and_undoes_nothing(
    tmp_path: Path, redis_url: str, collector, redis
):
    hubs = [HubProcess(tmp_path / f"hub{number}", redis_url) for number in range(2)]
    with started(*hubs):
        frozen, awake = hubs
        collector.happen(3)
        await collector.publish(1, 3)
        await beat(collector, 3)
        await wait_until(lambda: frozen.applied(HOST) == awake.applied(HOST) == 3)
        await wait_until(lambda: stored(redis, 3))
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            collector.happen(200)
            for seq in range(4, 204):
                await collector.publish(seq, seq)
            await wait_until(lambda: stored(redis, 203))
            assert await redis.xlen(streams.inbox(HOST)) <= 1
            awake.kill()
        finally:
            os.kill(frozen.pid, signal.SIGCONT)

        def shows_all() -> bool:
            return frozen.get("/api/v1/sessions?limit=1")["total"] == 203

        await beat(collector, 203)
        await wait_until(shows_all, timeout=15)
        assert (await load_header(redis, HOST)).applied == {"sp": 203}
        assert len((await load_snapshot(redis, HOST)).sessions) == 203


@pytest.mark.core
async def test_a_frozen_hub_writes_no_old_state_over_a_newer_one_though_redis_lost_its_data(
    hub_at, collector, redis
):
    awake, frozen = hub_at(saving=False), hub_at(saving=False)
    collector.happen(5)
    await collector.publish(1, 3)
    await wait_until(lambda: awake.applied() == frozen.applied() == 3)
    await awake.saver.save_once()
    await frozen.heartbeats.hear()
    await freeze(awake)
    await collector.publish(4, 4)
    await wait_until(lambda: frozen.applied() == 4)
    await frozen.saver.save_once()  # under the version that the other would give next
    await freeze(frozen)
    await redis.flushall()
    collector.incarnation = 2
    await collector.publish(1, 5)
    awake.start()
    await wait_until(lambda: stored(redis, 5))
    await freeze(awake)

    frozen.roster.hosts[HOST].saved.change({"s1"})
    await frozen.saver.save_once()

    assert (await load_header(redis, HOST)).applied == {"sp": 5}
    assert len((await load_snapshot(redis, HOST)).sessions) == 5


async def test_a_set_of_hosts_full_of_foreign_names_blinds_no_hub(redis, hub_at):
    names = [f"name {number}".encode() for number in range(20_000)]
    ghosts = [str(uuid.UUID(int=number)).encode() for number in range(15_000)]
    for start in range(0, len(names), 10_000):
        await redis.sadd(streams.HOSTS, *names[start : start + 10_000])
    for start in range(0, len(ghosts), 10_000):
        await redis.sadd(streams.HOSTS, *ghosts[start : start + 10_000])
    collector = FakeCollector(redis)
    await collector.join()
    hub = hub_at()
    collector.happen(2)
    await collector.publish(1, 1)

    await wait_until(lambda: hub.sessions() == {"s1"}, timeout=50)
    before = clock()
    await collector.publish(2, 2)
    await wait_until(lambda: hub.sessions() == {"s1", "s2"})

    assert clock() - before < 2_000
    assert hub.roster.hosts.keys() == {HOST}


async def test_more_hosts_than_can_be_followed_are_counted(
    redis, hub_at, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consumer, "MOST_HOSTS", 3)
    for number in range(5):
        await FakeCollector(redis, str(uuid.UUID(int=number))).join()

    hub = hub_at()

    await wait_until(lambda: hub.roster.counts["hosts_left_out"] > 0)
    assert len(hub.roster.hosts) == 3


async def test_a_heartbeat_whose_age_is_refused_is_told_and_ends_nothing(
    collector, redis, redis_server
):
    """The broker may begin to refuse between two answers of one look."""
    await redis.acl_setuser(
        "narrow", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-pttl"]
    )
    await collector.join()
    hub = Hub(f"redis://narrow@127.0.0.1:{redis_server.port}")
    hub.start()

    def told() -> str:
        host = hub.roster.hosts.get(HOST)
        return host.troubles.get("heartbeat", "") if host else ""

    assert "pttl" in await wait_until(told)
    await redis.acl_setuser("narrow", commands=["+pttl"])
    await wait_until(lambda: hub.roster.hosts[HOST].beat)
    assert not told()
    await hub.stop()
