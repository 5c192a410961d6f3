"""What somebody else may have written into a stream: left out, told, and nobody else suffers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from adsum_shared import streams
from adsum_shared.envelope import MOST_SIGNALS, Beat, encode_batch, encode_beat, encode_gap
from tests.half_hubs import HOST, FakeCollector, Hub, clock, stored
from tests.support import wait_until

pytestmark = pytest.mark.redis

OTHER = "00000000-bbbb-4000-8000-000000000002"


def fields(first: int, last: int, **change: Any) -> dict[bytes, bytes]:
    """A batch as a collector would send it, with some fields changed, or left out if None."""
    signal = b'{"kind":"prompt.submitted","session_id":"forged","at":1,"seen":1,"prompt_id":"p"}'
    whole = encode_batch(
        spool_id="sp",
        first=first,
        nonce="n",
        sent_at=clock(),
        signals=[signal] * min(10, last - first + 1),
    )
    whole[b"l"] = b"%d" % last
    changed = whole | {key.encode(): value for key, value in change.items()}
    return {key: value for key, value in changed.items() if value is not None}


#: Entry id, fields, and whether its numbers could be told apart, so that they count as lost.
BAD = {
    "no batch at all": ("1-2", {b"hello": b"world"}, False),
    "truncated body": ("1-2", fields(2, 2, b=b'[{"kind":"alive","sess'), True),
    "body that is no text": ("1-2", fields(2, 2, b=b"\xff\xfe\x00"), True),
    "body without an end": ("1-2", fields(2, 2, b=b"[" * 200_000), True),
    "body of 9 MB": ("1-2", fields(2, 2, b=b"[" + b" " * (9 << 20) + b"]"), True),
    "more numbers than signals": ("1-5", fields(2, 5, b=b"[]"), True),
    "neither body nor gap": ("1-2", fields(2, 2, b=None), True),
    "absurd count": (f"1-{MOST_SIGNALS + 2}", fields(2, MOST_SIGNALS + 2), False),
    "numbers that its id belies": ("1-2", fields(2, 10**15), False),
    "gap that its id belies": ("1-2", fields(2, 10**15, b=None, g=b"cap"), False),
    "number 0": ("1-2", fields(0, 2), False),
    "negative number": ("1-2", fields(2, 2, f=b"-7"), False),
    "number of 30 digits": ("1-2", fields(2, 2, l=b"1" + b"0" * 30), False),
    "spool id of 1 MB": ("1-2", fields(2, 2, sp=b"x" * (1 << 20)), False),
    "spool id that is no text": ("1-2", fields(2, 2, sp=b"\xff\xfe"), False),
    "no nonce": ("1-2", fields(2, 2, n=None), False),
    "absurd time": ("1-2", fields(2, 2, at=b"9" * 40), False),
    "foreign version": ("1-2", fields(2, 2, v=b"2"), False),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_entry_is_set_aside_told_and_stops_nobody(collector, hub_at, redis, kind):
    entry_id, bad, has_span = BAD[kind]
    other = FakeCollector(redis, OTHER)
    await other.join()
    hub = hub_at()
    collector.happen(6)
    other.happen(2)
    await collector.publish(1, 1)
    await redis.xadd(streams.inbox(HOST), bad, id=entry_id)
    await other.publish(1, 2)

    host = await wait_until(lambda: hub.roster.hosts.get(HOST))
    await wait_until(lambda: host.set_aside == 1)
    collector.incarnation = 2  # as a collector does that finds the stream moved
    await collector.publish(2, 6)

    lost = set(range(2, int(bad[b"l"]) + 1)) if has_span else set()
    expected = {f"s{number}" for number in range(1, 7) if number not in lost}
    await wait_until(lambda: hub.applied() == 6)
    assert {
        view.session_id for view in hub.roster.views.values() if view.host_id == HOST
    } == expected
    assert hub.roster.hosts[OTHER].applied == {"sp": 2}
    problem = host.view().problem or ""
    assert "left out" in problem or "batch format 2" in problem
    assert len(problem) < 500
    assert hub.roster.hosts[OTHER].view().problem is None
    assert hub.roster.counts["set_aside"] == hub.roster.counts["undecodable"] == 1
    assert [gap.reason for gap in host.gaps] == ["undecodable"] * has_span
    await wait_until(lambda: stored(redis, 6))
    assert not hub._tasks[0].done()


async def test_signals_that_make_no_sense_are_set_aside_one_by_one(collector, hub_at, redis):
    hub = hub_at()
    collector.happen(3)
    collector.signals[1:1] = [
        b'{"kind":"prompt.submitted","session_id":"","at":1,"seen":1}',
        b'{"kind":"prompt.submitted","session_id":"%s","at":1,"seen":1}' % (b"x" * 100_000),
        b'{"kind":"prompt.submitted","session_id":"later","at":1%s,"seen":1}' % (b"0" * 30),
        b'{"kind":"prompt.submitted","session_id":"s","at":"now","seen":1}',
        b'"no signal"',
    ]
    await collector.publish(1, 8)

    await wait_until(lambda: hub.applied() == 8)
    assert hub.sessions() == {"s1", "s2", "s3"}
    assert hub.roster.hosts[HOST].set_aside == 5
    await wait_until(lambda: stored(redis, 8))


async def test_a_gap_of_millions_is_no_bad_entry(collector, hub_at):
    hub = hub_at()
    gap = encode_gap(
        spool_id="sp", first=1, last=40_000_000, nonce="n", sent_at=clock(), reason="cap"
    )
    await collector.add(40_000_000, gap)

    await wait_until(lambda: hub.applied() == 40_000_000)
    assert hub.roster.counts["set_aside"] == 0


async def test_what_came_in_another_format_is_neither_counted_as_applied_nor_asked_for(
    collector, hub_at, redis
):
    hub = hub_at()
    collector.happen(2)
    await redis.xadd(streams.inbox(HOST), fields(1, 2, v=b"2"), id="1-2")
    beat = Beat(HOST, "lab", clock(), "n", "sp", seq=2, sent=2)
    await redis.set(streams.beat(HOST), encode_beat(beat), px=streams.BEAT_TTL_MS)
    await wait_until(lambda: hub.roster.counts["undecodable"] == 1)
    host = hub.roster.hosts[HOST]
    host.read_at -= 60_000

    await hub.heartbeats.hear()

    assert await redis.get(streams.want(HOST)) is None
    assert host.applied == {}
    assert "upgrade this hub" in (host.view().problem or "")
    # Its collector was set back to a format that we read, and sends what we have not applied.
    collector.incarnation = 2
    await collector.publish(1, 2)
    await wait_until(lambda: hub.sessions() == {"s1", "s2"})


@pytest.mark.parametrize(
    "beat",
    [
        b"\xff" * 100,
        b'{"odd":' + b"[" * 100_000,
        encode_beat(Beat(HOST, "lab", 1, "n", "sp")).replace(b"lab", b"\xff"),
        encode_beat(Beat(HOST, "lab", 10**20, "n", "sp")),
        encode_beat(Beat(HOST, "lab", -5, "n", "sp")),
        encode_beat(Beat(HOST, "lab", 33_000_000_000_000, "n", "sp")),  # the year 3015
        encode_beat(Beat(HOST, "lab", 1, "n", "sp", seq=10**30, sent=10**30)),
    ],
)
async def test_a_heartbeat_that_makes_no_sense_moves_no_clock(collector, hub_at, redis, beat):
    hub = hub_at()
    collector.happen(1)
    await collector.publish(1, 1)
    host = await wait_until(lambda: hub.roster.hosts.get(HOST))
    await wait_until(lambda: host.reachability == "live")
    offset = host.clock.offset_ms

    await redis.set(streams.beat(HOST), beat, px=streams.BEAT_TTL_MS)

    await wait_until(lambda: "heartbeat cannot be read" in (host.view().problem or ""))
    assert host.clock.offset_ms == offset
    await collector.beat()
    await wait_until(lambda: host.view().problem is None)
    await wait_until(lambda: stored(redis, 1))


@pytest.mark.parametrize("entry_id", [f"{2**53}-3", f"1-{2**53 + 1}", f"{2**64 - 1}-{2**64 - 1}"])
async def test_a_stream_that_reached_an_id_nothing_can_follow_is_deleted_and_begun_anew(
    collector, hub_at, redis, entry_id
):
    hubs = [hub_at(), hub_at()]
    collector.happen(6)
    await collector.publish(1, 2)
    await wait_until(lambda: all(hub.applied() == 2 for hub in hubs))

    await redis.xadd(streams.inbox(HOST), fields(3, 3), id=entry_id)

    async def is_gone() -> bool:
        return not await redis.exists(streams.inbox(HOST))

    await wait_until(is_gone)
    await wait_until(lambda: all(hub.roster.hosts[HOST].cursor == "0-0" for hub in hubs))
    collector.incarnation = 2
    await collector.publish(3, 6)
    await wait_until(lambda: all(hub.applied() == 6 for hub in hubs))
    await wait_until(lambda: stored(redis, 6))
    assert "nothing can follow" in (hubs[0].roster.hosts[HOST].view().problem or "") or (
        "nothing can follow" in (hubs[1].roster.hosts[HOST].view().problem or "")
    )
    again = hub_at()
    await wait_until(lambda: len(again.sessions()) >= 5)


async def test_a_stream_that_another_hub_has_begun_anew_is_not_deleted_once_more(
    collector, hub_at, redis
):
    hub = hub_at()
    collector.happen(3)
    await collector.publish(1, 2)
    await wait_until(lambda: hub.applied() == 2)
    host = hub.roster.hosts[HOST]

    await hub.consumer._places._heal(host, f"{2**53}-1")

    assert await redis.xlen(streams.inbox(HOST))


async def test_a_flood_of_big_bad_entries_leaves_the_loop_to_others(collector, hub_at, redis):
    hub: Hub = hub_at()
    collector.happen(1)
    bad = fields(
        2, 2, b=b'[{"kind":"alive","session_id":"s","at":1,"seen":1},' + b"7," * (1 << 21) + b"7]"
    )
    good = FakeCollector(redis, OTHER)
    await good.join()
    good.happen(1)
    await collector.publish(1, 1)
    for number in range(2, 12):
        await redis.xadd(streams.inbox(HOST), bad | {b"f": b"%d" % number, b"l": b"%d" % number}, id=f"1-{number}")  # fmt: skip
    await good.publish(1, 1)
    longest, last = 0.0, time.thread_time()
    while hub.roster.counts["undecodable"] < 10:
        await asyncio.sleep(0)
        now = time.thread_time()  # whoever else is at work here is not to blame
        longest, last = max(longest, now - last), now
        assert not hub._tasks[0].done()

    await wait_until(lambda: hub.roster.hosts[OTHER].applied == {"sp": 1})
    assert longest < 1.0
