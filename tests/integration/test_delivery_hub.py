"""One mechanism of the hub's delivery each: without it, what this test shows would be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from adsum_hub.roster import Roster
from adsum_hub.snapshots import Snapshot, load_snapshot, save_snapshot
from adsum_shared import streams
from adsum_shared.connect import open_redis
from adsum_shared.envelope import Batch, encode_batch
from adsum_shared.signals import PromptSubmitted
from tests.half_hubs import HOST, Hub, stored
from tests.support import wait_until

pytestmark = pytest.mark.redis


async def kill(hub: Hub) -> None:
    await hub.stop()
    hub._tasks.clear()


def before_each_command(client: Redis, happens: Callable[[str], Any]) -> None:
    """happens: awaited with the command's name before it goes out; it may raise."""
    send = client.execute_command

    async def execute_command(*words: Any, **options: Any) -> Any:
        await happens(str(words[0]))
        return await send(*words, **options)

    client.execute_command = execute_command  # type: ignore[method-assign] # this client's only


def folded(*numbers: int) -> tuple[Snapshot, dict[str, Any]]:
    """What a hub that has read these numbers writes: header, and facts by session."""
    roster = Roster()
    host = roster.add(HOST, Snapshot(), 0)
    for number in numbers:
        prompt = PromptSubmitted(session_id=f"s{number}", at=1, seen=1, prompt_id="p")
        roster.apply(HOST, Batch("sp", number, number, "n", 1, (prompt,)), 1)
        host.cursor = f"1-{number}"
    header, facts, _ = host.take_dirty()
    return header, facts


async def test_a_save_that_is_cut_off_leaves_a_snapshot_of_one_moment(redis, redis_url):
    header, facts = folded(1, 2, 3)
    whole = Snapshot(1, header.cursor, header.applied, header.host, facts, runs=header.runs)
    for passing in range(10):
        left = passing
        client = open_redis(redis_url)

        async def cut(_: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise ConnectionError

        before_each_command(client, cut)
        try:
            done = await save_snapshot(client, HOST, header, facts, ()) is not None
        except ConnectionError:
            done = False
        await client.aclose()

        assert await load_snapshot(redis, HOST) == (whole if done else Snapshot())
        if done:
            return
    raise AssertionError("it never got through")


async def test_a_save_over_a_newer_snapshot_changes_nothing_and_trims_nothing(collector, redis):
    collector.happen(5)
    for number in range(1, 6):
        await collector.publish(number, number)
    newer, facts = folded(1, 2)
    await save_snapshot(redis, HOST, newer, facts, ())
    before = await redis.hgetall(streams.snapshot(HOST)), await redis.xlen(streams.inbox(HOST))

    header, facts = folded(1, 2, 3, 4)

    assert await save_snapshot(redis, HOST, header, facts, ["s1"]) is None
    after = await redis.hgetall(streams.snapshot(HOST)), await redis.xlen(streams.inbox(HOST))
    assert after == before


async def test_a_hub_behind_the_stored_snapshot_catches_up_though_nothing_more_comes(
    collector, hub_at, redis
):
    collector.happen(3)
    await collector.publish(1, 1)
    behind = hub_at(saving=False)
    await wait_until(lambda: behind.applied() == 1)
    header, facts = folded(1, 2, 3)
    await save_snapshot(redis, HOST, header, facts, ())

    await behind.heartbeats.hear()  # it may be behind for a moment
    await behind.heartbeats.hear()

    assert behind.applied() == 3
    assert behind.sessions() == {"s1", "s2", "s3"}


async def test_an_older_run_that_comes_after_a_later_one_is_left_out_and_told(
    collector, hub_at, redis
):
    async def publish(nonce: str, number: int, incarnation: int) -> None:
        fields = encode_batch(
            spool_id="sp",
            first=number,
            nonce=nonce,
            sent_at=1,
            signals=collector.signals[number - 1 : number],
        )
        await redis.xadd(streams.inbox(HOST), fields, id=f"{incarnation}-{number}")

    collector.happen(4)
    await publish("first run", 1, 1)
    await publish("second run", 2, 1)
    before = hub_at()
    await wait_until(lambda: stored(redis, 2))
    await kill(before)
    hub = hub_at()
    await publish("first run", 3, 1)
    await publish("second run", 3, 2)
    await publish("second run", 4, 2)

    await wait_until(lambda: hub.applied() == 4)
    host = hub.roster.hosts[HOST]
    assert host.runs == {"sp": {"first run": 1, "second run": 4}}
    assert hub.roster.counts["strangers"] == 1
    assert "looks like a copy" in (host.view().problem or "")
    assert await redis.get(streams.want(HOST)) is None


async def test_what_a_frozen_hub_was_about_to_save_undoes_nothing_when_it_thaws(
    collector, hub_at, redis
):
    reached, thawed = asyncio.Event(), asyncio.Event()

    async def freeze(command: str) -> None:
        if command.startswith(("EVAL", "FCALL", "HSET", "MULTI")):
            reached.set()
            await thawed.wait()

    frozen = hub_at(saving=False)
    before_each_command(frozen.redis, freeze)
    collector.happen(9)
    await collector.publish(1, 3)
    await wait_until(lambda: frozen.applied() == 3)
    saving = asyncio.create_task(frozen.saver.save_once())
    await reached.wait()
    for task in frozen._tasks:
        task.cancel()
    await asyncio.gather(*frozen._tasks, return_exceptions=True)
    other = hub_at()
    for number in range(4, 10):
        await collector.publish(number, number)

    await wait_until(lambda: stored(redis, 9))
    await kill(other)
    by_the_other = await load_snapshot(redis, HOST)
    assert await redis.xlen(streams.inbox(HOST)) <= 1  # the rest is in the snapshot alone

    thawed.set()
    await saving
    await frozen.saver.save_once()  # it knows by now which version is stored
    await kill(frozen)
    successors = [hub_at(saving=False), hub_at(saving=False)]

    assert await load_snapshot(redis, HOST) == by_the_other
    for hub in successors:
        await wait_until(lambda: len(hub.sessions()) == 9)  # noqa: B023 - awaited here
        assert hub.roster.counts["holes"] == 0


async def test_what_a_killed_hub_had_read_and_not_saved_is_still_in_the_stream(
    collector, hub_at, redis
):
    hub = hub_at(saving=False)
    collector.happen(3)
    for number in range(1, 4):
        await collector.publish(number, number)
    await wait_until(lambda: hub.applied() == 3)
    await kill(hub)

    assert await redis.xlen(streams.inbox(HOST)) == 3


async def test_a_batch_that_comes_whole_again_is_applied_once(collector, hub_at):
    hub = hub_at()
    collector.happen(3)
    await collector.publish(1, 2)
    collector.incarnation = 2
    await collector.publish(1, 2)
    await collector.publish(3, 3)

    await wait_until(lambda: hub.applied() == 3)
    assert hub.roster.counts["signals"] == 3


async def test_each_spool_of_a_host_counts_for_itself(collector, hub_at):
    hub = hub_at()
    collector.happen(5)
    await collector.publish(1, 3)
    await wait_until(lambda: hub.applied() == 3)
    collector.incarnation = 2
    fields = encode_batch(
        spool_id="of a new disk", first=1, nonce="m", sent_at=1, signals=collector.signals[3:]
    )
    await collector.add(2, fields)

    await wait_until(lambda: hub.sessions() == {"s1", "s2", "s3", "s4", "s5"}, timeout=2)
