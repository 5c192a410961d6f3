"""Stored snapshots that are newer, damaged or very big: followed, kept, and never half written."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, OutOfMemoryError

from adsum_hub import snapshots as module
from adsum_hub.facts import Facts
from adsum_hub.snapshots import Keep, NewerSchemaError, Snapshot, load_snapshot, save_snapshot
from adsum_shared import streams
from adsum_shared.connect import open_redis
from tests.half_hubs import HOST, stored
from tests.integration.test_delivery_hub import before_each_command
from tests.story import working
from tests.support import wait_until

pytestmark = pytest.mark.redis

KEY = streams.snapshot(HOST)


def many(count: int, note: str = "") -> dict[str, Facts]:
    facts = msgspec.structs.replace(working().told(), first_prompt=(1, note or "do it"))
    return {
        f"s{number}": msgspec.structs.replace(facts, session_id=f"s{number}")
        for number in range(count)
    }


def header(version: int, seq: int) -> Snapshot:
    return Snapshot(version, f"1-{seq}", {"sp": seq}, runs={"sp": {"n": seq}})


async def test_a_snapshot_says_which_schema_it_has(collector, hub_at, redis):
    hub_at()
    collector.happen(1)
    await collector.publish(1, 1)

    await wait_until(lambda: stored(redis, 1))

    assert await redis.hget(KEY, streams.SCHEMA) == b"1"


async def test_a_snapshot_without_schema_is_an_older_versions_and_is_taken_over(
    collector, hub_at, redis
):
    facts = msgspec.json.encode(many(1)["s0"])
    old = {"v": 3, "cur": "1-4", "applied": '{"sp":4}', "s:s0": facts}
    await redis.hset(KEY, mapping=old)
    hub = hub_at()
    collector.happen(5)

    await wait_until(lambda: hub.sessions() == {"s0"})
    await collector.publish(5, 5)

    await wait_until(lambda: stored(redis, 5))
    assert hub.sessions() == {"s0", "s5"}
    assert await redis.hget(KEY, streams.SCHEMA) == b"1"


async def test_a_newer_versions_snapshot_is_followed_and_never_written_over(
    collector, hub_at, redis
):
    facts = {f"s:{key}".encode(): msgspec.json.encode(value) for key, value in many(2).items()}
    newer = {b"v": b"7", b"schema": b"2", b"cur": b"1-2", b"applied": b'{"sp":2}', b"new": b"?"}
    await redis.hset(KEY, mapping=newer | facts)
    hub = hub_at()
    collector.happen(4)
    await wait_until(lambda: hub.sessions() == {"s0", "s1"})
    for seq in (3, 4):
        await collector.publish(seq, seq)

    await wait_until(lambda: hub.applied() == 4)
    host = hub.roster.hosts[HOST]
    await hub.saver.save_once()
    host.saved.newer = 0  # even if it did not know
    await hub.saver.save_once()

    assert await redis.hgetall(KEY) == newer | facts
    assert await redis.xlen(streams.inbox(HOST)) == 2
    assert hub.sessions() == {"s0", "s1", "s3", "s4"}
    assert "schema 2, this hub reads 1): upgrade this hub" in (host.view().problem or "")

    # The newer one reads on, stores and trims; this one goes on from there.
    await redis.hset(KEY, mapping={"v": "8", "cur": "1-9", "applied": '{"sp":9}'})
    await redis.xtrim(streams.inbox(HOST), maxlen=0)
    await wait_until(lambda: hub.applied() == 9)


async def test_a_newer_schema_that_appears_meanwhile_refuses_the_save_itself(redis):
    await redis.hset(KEY, mapping={"v": "1", "schema": "2"})

    with pytest.raises(NewerSchemaError):
        await save_snapshot(redis, HOST, header(1, 5), many(1), ())

    assert await redis.hgetall(KEY) == {b"v": b"1", b"schema": b"2"}


async def test_once_the_newer_snapshot_is_gone_this_hub_saves_again(collector, hub_at, redis):
    await redis.hset(KEY, mapping={"v": "7", "schema": "2"})
    hub = hub_at()
    collector.happen(2)
    await collector.publish(1, 2)
    await wait_until(lambda: hub.applied() == 2)
    assert "newer Adsum" in (hub.roster.hosts[HOST].view().problem or "")

    await redis.delete(KEY)

    await wait_until(lambda: stored(redis, 2))
    assert hub.roster.hosts[HOST].view().problem is None
    assert int(await redis.hget(KEY, "v")) > 7


async def test_unreadable_facts_are_kept_aside_while_their_session_begins_anew(
    collector, hub_at, redis
):
    good = msgspec.json.encode(many(1)["s0"])
    fields = {"v": 3, "schema": 1, "cur": "1-4", "applied": '{"sp":4}', "s:s0": good}
    await redis.hset(KEY, mapping=fields | {"s:s5": b"{broken", "s:s6": b"\xff"})
    hub = hub_at()
    collector.happen(5)
    await wait_until(lambda: hub.sessions() == {"s0"})
    assert "2 of its sessions" in (hub.roster.hosts[HOST].view().problem or "")

    await collector.publish(5, 5)

    await wait_until(lambda: stored(redis, 5))
    assert hub.sessions() == {"s0", "s5"}
    assert hub.roster.views[f"{HOST}:s5"].incomplete
    assert not hub.roster.views[f"{HOST}:s0"].incomplete
    assert await redis.hmget(KEY, "x:s5", "s:s6", "x:s6", "s:s0") == [
        b"{broken",
        b"\xff",
        None,
        good,
    ]

    again = hub_at()
    await wait_until(lambda: again.sessions() == {"s0", "s5"})
    assert again.roster.views[f"{HOST}:s5"].incomplete


async def test_a_header_that_makes_no_sense_is_told_and_everything_replayed(
    collector, hub_at, redis
):
    await redis.hset(KEY, mapping={"v": "3", "applied": '{"sp":-1}', "cur": "1-1"})
    hub = hub_at()
    collector.happen(2)
    await collector.publish(1, 2)

    await wait_until(lambda: stored(redis, 2))
    problem = hub.roster.hosts[HOST].view().problem or ""
    assert "saved state could not be read" in problem


async def test_a_version_is_not_given_twice_after_redis_has_lost_some(redis):
    await redis.hset(KEY, mapping={"v": "0"})

    saved = await save_snapshot(redis, HOST, header(0, 5), {}, (), keep=Keep(above=41))

    assert saved is not None
    assert saved.version == 42


async def test_nothing_is_trimmed_by_a_cursor_that_the_stream_has_not_reached(collector, redis):
    collector.happen(3)
    await collector.publish(1, 3)

    saved = await save_snapshot(redis, HOST, Snapshot(0, "9-3", {"sp": 3}), {}, ())

    assert saved == (1, True)
    assert await redis.xlen(streams.inbox(HOST)) == 1


def cut_after(client: Redis, requests: int) -> None:
    """Only so many get through."""
    pool, left = client.connection_pool, requests
    make = pool.make_connection

    def make_connection() -> Any:
        connection = make()
        send = connection.send_packed_command

        async def send_packed_command(*words: Any, **options: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise ConnectionError
            await send(*words, **options)

        connection.send_packed_command = send_packed_command
        return connection

    pool.make_connection = make_connection  # type: ignore[method-assign] # this client's only


@pytest.fixture
def small_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAFT_BYTES", 4_000)
    monkeypatch.setattr(module, "SCANNED", 10)


@pytest.mark.usefixtures("small_scripts")
async def test_a_big_snapshot_is_drawn_up_beside_and_put_in_place_at_once(collector, redis):
    collector.happen(9)
    for seq in range(1, 10):
        await collector.publish(seq, seq)
    before = many(3) | {"gone": many(1)["s0"]}
    await save_snapshot(redis, HOST, header(0, 1), before, ())
    torn = {"s:torn": b"{", "s:torn too": b"[", "x:torn before": b"("}
    await redis.hset(KEY, mapping=torn)

    keep = Keep(aside=["torn"], fields=["s:torn too", "x:torn before"])
    saved = await save_snapshot(
        redis, HOST, header(1, 9), {}, ["gone"], keep=keep, whole=many(300, "new")
    )

    snapshot = await load_snapshot(redis, HOST)
    assert saved == (2, False)
    assert snapshot.sessions == many(300, "new")
    assert (snapshot.version, snapshot.applied, set(snapshot.aside)) == (
        2,
        {"sp": 9},
        {"torn", "torn before"},
    )
    assert await redis.xlen(streams.inbox(HOST)) == 1
    assert sorted(await redis.keys(f"*{HOST}*")) == sorted(
        key(HOST).encode()
        for key in (streams.snapshot, streams.stored, streams.inbox, streams.beat)
    )
    assert await redis.ttl(KEY) == -1


@pytest.mark.usefixtures("small_scripts")
async def test_a_big_save_that_dies_at_any_step_changes_nothing(redis, redis_url):
    await save_snapshot(redis, HOST, header(0, 1), many(3), ())
    before = await load_snapshot(redis, HOST)
    for passing in range(200):
        client = open_redis(redis_url)
        cut_after(client, passing)
        try:
            done = (
                await save_snapshot(client, HOST, header(1, 9), {}, (), whole=many(300)) is not None
            )
        except ConnectionError:
            done = False
        await client.aclose()
        if done:
            break
        assert await load_snapshot(redis, HOST) == before
        assert all([await redis.ttl(key) > 0 for key in await redis.keys("*draft*")])
    assert passing > 10
    assert (await load_snapshot(redis, HOST)).sessions == many(300)


@pytest.mark.usefixtures("small_scripts")
async def test_a_big_save_that_another_hub_has_overtaken_leaves_nothing_behind(redis):
    await save_snapshot(redis, HOST, header(0, 1), many(1), ())
    await save_snapshot(redis, HOST, header(1, 2), many(2), ())

    assert await save_snapshot(redis, HOST, header(1, 9), {}, (), whole=many(300)) is None

    assert (await load_snapshot(redis, HOST)).applied == {"sp": 2}
    assert await redis.keys("*draft*") == []


@pytest.mark.usefixtures("small_scripts")
async def test_a_draft_that_finds_no_more_memory_gives_back_what_it_took(redis):
    await save_snapshot(redis, HOST, header(0, 1), many(3), ())
    used = (await redis.info("memory"))["used_memory"]
    await redis.config_set("maxmemory", used + 400_000)
    try:
        with pytest.raises(OutOfMemoryError):
            await save_snapshot(redis, HOST, header(1, 9), {}, (), whole=many(5_000))
        assert await redis.keys("*draft*") == []
    finally:
        await redis.config_set("maxmemory", 0)

    assert (await load_snapshot(redis, HOST)).applied == {"sp": 1}


@pytest.mark.usefixtures("small_scripts")
async def test_a_draft_that_is_gone_is_not_put_in_place(redis, redis_url):
    await save_snapshot(redis, HOST, header(0, 1), many(3), ())
    client = open_redis(redis_url)

    async def evict(command: str) -> None:
        if command == "EVAL":
            for key in await redis.keys("*draft*"):
                await redis.delete(key)

    before_each_command(client, evict)
    assert await save_snapshot(client, HOST, header(1, 9), {}, (), whole=many(300)) is None
    await client.aclose()

    assert (await load_snapshot(redis, HOST)).applied == {"sp": 1}


@pytest.mark.usefixtures("small_scripts")
async def test_a_snapshot_read_bit_by_bit_is_of_one_moment(redis, redis_url):
    """Another hub saves between two replies: what was read by then is of the moment before."""
    await save_snapshot(redis, HOST, header(0, 1), many(600, "old"), ())
    client = open_redis(redis_url)
    scans = 0

    async def overtake(command: str) -> None:
        nonlocal scans
        scans += command == "HSCAN"
        if scans == 5:
            scans += 1
            await save_snapshot(redis, HOST, header(1, 9), many(600, "new"), ())

    before_each_command(client, overtake)
    snapshot = await load_snapshot(client, HOST)
    await client.aclose()

    assert scans > 5
    assert snapshot.applied == {"sp": 9}
    assert snapshot.sessions == many(600, "new")


async def test_a_host_with_very_many_sessions_is_restored_and_saved_without_a_standstill(
    collector, hub_at, redis, request
):
    facts = {f"s:{key}": msgspec.json.encode(value) for key, value in many(8_000).items()}
    await redis.hset(KEY, mapping=facts | {"v": 1, "cur": "1-4", "applied": '{"sp":4}'})
    collector.happen(5)
    await collector.publish(5, 5)
    # Else a pass of the garbage collector over what other tests left counts as a step of the hub.
    gc.collect()
    gc.freeze()
    request.addfinalizer(gc.unfreeze)
    begun = time.thread_time()
    longest, last = 0.0, begun
    hub: Any = hub_at()
    hub.consumer._broadcast.notify = lambda: hub.roster.take_changes(0)

    async def watch() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    task = asyncio.create_task(watch())
    await wait_until(lambda: stored(redis, 5), timeout=20)
    await redis.delete(KEY)

    async def is_whole() -> bool:
        return await redis.hlen(KEY) > 8_000

    await wait_until(is_whole, timeout=20)
    task.cancel()
    # A share of all CPU time, since a busy machine stretches both. Restored in one step, it was above a third.
    assert longest < (time.thread_time() - begun) / 5


@pytest.mark.parametrize("version", ["abc", "1.5", "-3", "9" * 20, "9" * 5000, ""])
async def test_a_version_that_is_no_number_stops_nobody_from_saving(
    collector, hub_at, redis, version
):
    await redis.hset(KEY, mapping={"v": version, "cur": "0-0", "applied": "{}"})
    hub_at()
    collector.happen(1)
    await collector.publish(1, 1)

    await wait_until(lambda: stored(redis, 1))
    assert int(await redis.hget(KEY, "v")) >= 1
