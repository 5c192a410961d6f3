"""A real collector process and a real broker: every way in which the way between them can break."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio

from adsum_collector.delivery.resume import EntryId, Head, HubProgress
from adsum_collector.delivery.transports import Inbox, RedisConnection
from adsum_collector.errors import StreamMovedError
from adsum_shared import streams
from adsum_shared.connect import open_redis
from adsum_shared.envelope import Beat, decode_beat
from adsum_shared.state import HostWitness
from tests.brokers import Broker
from tests.collectors import CollectorProcess, applied_notes, batches
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60)]


@pytest.fixture
def collector(tmp_path: Path, redis_url: str) -> Iterator[CollectorProcess]:
    collector = CollectorProcess(tmp_path / "state", redis_url)
    yield collector
    collector.kill()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10) as client:
        yield client


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = open_redis(redis_url)
    yield client
    await client.aclose()


async def notes(client: redis.asyncio.Redis, collector: CollectorProcess) -> list[str]:
    try:
        return await applied_notes(client, collector.host_id)
    except redis.exceptions.ConnectionError:
        return []


async def arrives(
    client: redis.asyncio.Redis,
    collector: CollectorProcess,
    expected: list[str],
    timeout: float = 20,
) -> None:
    async def is_there() -> bool:
        return await notes(client, collector) == expected

    await wait_until(is_there, timeout=timeout)


async def store(client: redis.asyncio.Redis, collector: CollectorProcess, applied: int) -> None:
    """What a hub does when it has stored its snapshot."""
    spool_id = collector.ready()["spool"]["spool_id"]
    field = json.dumps({spool_id: applied})
    await client.hset(streams.snapshot(collector.host_id), streams.APPLIED, field)


async def beat_of(client: redis.asyncio.Redis, collector: CollectorProcess) -> Beat:
    raw = await client.get(streams.beat(collector.host_id))
    beat = decode_beat(raw)
    assert beat is not None
    return beat


async def test_hooks_go_into_the_stream_in_order_with_the_numbers_told(
    collector: CollectorProcess, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    collector.start()
    numbers = [await collector.post(http, f"n{at}") for at in range(10)]

    await arrives(client, collector, [f"n{at}" for at in range(10)])
    assert numbers == list(range(1, 11))
    assert await client.smembers(streams.HOSTS) == {collector.host_id.encode()}
    beat = await beat_of(client, collector)
    assert (beat.host_id, beat.stopping) == (collector.host_id, False)
    assert 0 < await client.pttl(streams.beat(collector.host_id)) <= streams.BEAT_TTL_MS


async def test_the_heartbeat_says_how_each_witness_is_heard(
    collector: CollectorProcess, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    async def heard() -> HostWitness | None:
        found = (await beat_of(client, collector)).witnesses[0]
        return found if found.heard_at else None

    collector.start()
    await wait_until(lambda: client.exists(streams.beat(collector.host_id)))
    before = {each.name: each.state for each in (await beat_of(client, collector)).witnesses}
    await collector.post(http, "heard")

    hook = await wait_until(heard)

    names = {"hook", "shim", "transcript", "registry", "process", "statusline", "usage"}
    assert before.keys() == names
    assert before["hook"] == "silent"
    assert (hook.name, hook.state) == ("hook", "ok")
    assert abs(hook.heard_at - time.time() * 1000) < 5_000
    assert collector.ready()["witnesses"][0]["state"] == "ok"


async def test_a_stop_publishes_what_is_there_and_says_goodbye(
    collector: CollectorProcess, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    collector.start()
    for at in range(50):
        await collector.post(http, f"n{at}")

    assert collector.stop() == 0

    assert await notes(client, collector) == [f"n{at}" for at in range(50)]
    beat = await beat_of(client, collector)
    assert (beat.stopping, beat.seq, beat.sent) == (True, 50, 50)


async def test_without_a_broker_hooks_are_accepted_and_published_once_there_is_one(
    tmp_path: Path, http: httpx.AsyncClient
) -> None:
    broker = Broker(tmp_path / "late")
    collector = CollectorProcess(tmp_path / "state", broker.url).start()
    try:
        for at in range(5):
            await collector.post(http, f"n{at}")
        facts = collector.ready()
        assert facts["ready"]
        assert "cannot be reached" in facts["problem"]
        broker.start()
        client = open_redis(broker.url)
        await arrives(client, collector, [f"n{at}" for at in range(5)])
        await client.aclose()
        assert collector.ready()["problem"] is None
    finally:
        collector.kill()
        broker.kill()


async def test_a_stop_without_a_broker_is_quick_and_loses_nothing(
    tmp_path: Path, http: httpx.AsyncClient
) -> None:
    broker = Broker(tmp_path / "late")
    collector = CollectorProcess(tmp_path / "state", broker.url).start()
    await collector.post(http, "kept")
    assert collector.stop() == 0

    broker.start()
    collector.start()
    client = open_redis(broker.url)
    try:
        await arrives(client, collector, ["kept"])
    finally:
        await client.aclose()
        collector.kill()
        broker.kill()


async def test_a_killed_broker_costs_nothing(
    collector: CollectorProcess,
    redis_server: Broker,
    http: httpx.AsyncClient,
    client: redis.asyncio.Redis,
) -> None:
    collector.start()
    expected = []
    for round_ in range(3):
        for at in range(20):
            expected.append(f"{round_}.{at}")
            await collector.post(http, expected[-1])
            if at == 10:
                redis_server.kill()
            if at == 15:
                redis_server.start()

    await arrives(client, collector, expected)


async def test_a_wiped_broker_gets_everything_that_no_hub_has_stored(
    collector: CollectorProcess,
    redis_server: Broker,
    http: httpx.AsyncClient,
    client: redis.asyncio.Redis,
) -> None:
    collector.start()
    for at in range(10):
        await collector.post(http, f"n{at}")
    await arrives(client, collector, [f"n{at}" for at in range(10)])
    before = (await client.xinfo_stream(streams.inbox(collector.host_id)))["last-generated-id"]
    redis_server.kill()
    redis_server.wipe()
    redis_server.start()

    # by the broken connection, long before the next look at a stream that seems to be in order
    await arrives(client, collector, [f"n{at}" for at in range(10)], timeout=8)
    first = (await client.xrange(streams.inbox(collector.host_id), count=1))[0][0]
    assert int(first.split(b"-")[0]) > int(before.split(b"-")[0])  # beyond every reader's cursor


async def test_a_hub_that_wants_numbers_again_gets_them_under_higher_ids(
    collector: CollectorProcess, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    collector.start()
    for at in range(10):
        await collector.post(http, f"n{at}")
    await arrives(client, collector, [f"n{at}" for at in range(10)])
    inbox = streams.inbox(collector.host_id)
    cursor = (await client.xinfo_stream(inbox))["last-generated-id"]
    spool_id = collector.ready()["spool"]["spool_id"]

    await client.set(streams.want(collector.host_id), f"{spool_id}:4", px=streams.WANT_TTL_MS)

    async def replayed() -> list[Any]:
        return list(await client.xrange(inbox, min=b"(" + cursor))

    entries = await wait_until(replayed)
    assert entries[0][1][b"f"] == b"4"
    assert entries[-1][1][b"l"] == b"10"
    await collector.post(http, "after")
    await arrives(client, collector, [*(f"n{at}" for at in range(10)), "after"])


async def test_numbers_that_are_gone_come_as_a_gap(
    tmp_path: Path, redis_url: str, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    # a cap of one megabyte: files of 256 kB, of which few are kept
    collector = CollectorProcess(tmp_path / "state", redis_url, spool_cap_mb="1").start()
    try:
        for at in range(25):
            await collector.post(http, f"{at:02d}" + "x" * 60_000)
        collector.stop()  # what it still has in memory must not help out
        collector.start()
        spool = collector.ready()["spool"]
        await client.set(streams.want(collector.host_id), f"{spool['spool_id']}:1", px=5000)

        async def has_gap() -> bool:
            return any(batch.gap for batch in await batches(client, collector.host_id))

        await wait_until(has_gap)
        gap = next(b for b in await batches(client, collector.host_id) if b.gap)
        assert (gap.first, gap.gap.reason if gap.gap else "") == (1, "cap")
        assert gap.last < 25
    finally:
        collector.kill()


async def test_a_copy_of_a_machine_is_told_and_both_go_on(
    tmp_path: Path, collector: CollectorProcess, redis_url: str, http: httpx.AsyncClient
) -> None:
    collector.start()
    await collector.post(http, "one")
    twin = CollectorProcess(tmp_path / "twin", redis_url)
    twin.state_dir.mkdir(mode=0o700)
    (twin.state_dir / "host.json").write_bytes((collector.state_dir / "host.json").read_bytes())
    twin.start()
    try:
        await twin.post(http, "two")
        await wait_until(lambda: twin.ready()["stream"]["backlog"] == 0, timeout=20)
        await collector.post(http, "three")
        await wait_until(lambda: collector.ready()["stream"]["backlog"] == 0, timeout=20)
    finally:
        twin.kill()


@pytest.mark.core
@pytest.mark.slow
async def test_under_concurrent_hooks_a_killed_collector_keeps_every_number_it_told(
    collector: CollectorProcess, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    told: dict[int, str] = {}

    async def hook(round_: int, name: int) -> None:
        for at in range(10_000):
            note = f"{round_}.{name}.{at}"
            try:
                seq = await collector.post(http, note)
            except httpx.TransportError:
                return  # nobody knows whether this one was accepted
            assert told.setdefault(seq, note) == note

    for round_ in range(3):
        await asyncio.to_thread(collector.start)
        before = len(told)
        senders = [asyncio.create_task(hook(round_, name)) for name in range(8)]
        await wait_until(lambda: len(told) > before + 150, timeout=20)  # noqa: B023 - awaited here
        await asyncio.to_thread(collector.kill)
        await asyncio.gather(*senders)

    await asyncio.to_thread(collector.start)
    await wait_until(lambda: collector.ready()["stream"]["backlog"] == 0, timeout=20)
    applied = await notes(client, collector)
    assert len(told) > 450
    assert {seq: applied[seq - 1] for seq in told} == told
    assert len(applied) == len(set(applied))


async def test_an_entry_that_is_there_already_is_no_error_and_one_beyond_is(
    client: redis.asyncio.Redis,
) -> None:
    inbox = Inbox(RedisConnection(client), "h")
    await inbox.add(EntryId(3, 7), {b"n": b"ours", b"sp": b"sp"})

    await inbox.add(EntryId(3, 7), {b"n": b"ours", b"sp": b"sp"})
    with pytest.raises(StreamMovedError, match="looks like a copy"):
        await inbox.add(EntryId(3, 5), {b"n": b"ours", b"sp": b"sp"})
    for others in ({b"n": b"a copy's", b"sp": b"sp"}, {b"n": b"ours", b"sp": b"another"}):
        with pytest.raises(StreamMovedError):
            await inbox.add(EntryId(3, 7), others)

    assert await client.xlen(streams.inbox("h")) == 1
    assert await inbox.head() == Head(EntryId(3, 7), "sp", "ours")
    assert await Inbox(RedisConnection(client), "nobody").head() is None


async def test_a_stream_tells_its_last_id_also_without_its_entries(
    client: redis.asyncio.Redis,
) -> None:
    inbox = Inbox(RedisConnection(client), "h")
    assert (await inbox.look("sp", None)).other is None
    for seq in (1, 2):
        await inbox.add(EntryId(1, seq), {b"n": b"n%d" % seq, b"sp": b"sp"})

    assert (await inbox.look("sp", None)).other == Head(EntryId(1, 1), "sp", "n1")
    assert (await inbox.look("sp", EntryId(1, 1))).other == Head(EntryId(1, 2), "sp", "n2")
    assert (await inbox.look("sp", EntryId(1, 2))).other is None
    await client.xdel(streams.inbox("h"), "1-2")
    assert await inbox.head() == Head(EntryId(1, 2))
    await client.xtrim(streams.inbox("h"), maxlen=0)
    assert await inbox.head() == Head(EntryId(1, 2))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, HubProgress()),
        (
            {"cur": "4-7", "applied": '{"sp":7,"old":9}', "runs": '{"sp":{"b":5,"a":7}}'},
            HubProgress(EntryId(4, 7), 7, {"b": 5, "a": 7}),
        ),
        ({"cur": "4-7", "applied": '{"sp":7}'}, HubProgress(EntryId(4, 7), 7)),
        ({"cur": "4-7", "applied": "{}", "runs": "{}"}, HubProgress(EntryId(4, 7), 0, {})),
        ({"cur": "x", "applied": '{"sp":-5}', "runs": '{"sp":7}'}, HubProgress()),
        ({"cur": "1", "applied": "[", "runs": "\udcff"}, HubProgress()),
    ],
    ids=["nothing", "all", "no runs", "of other spools", "odd values", "no JSON"],
)
async def test_what_hubs_have_stored_is_read_whatever_lies_there(
    client: redis.asyncio.Redis, fields: dict[str, str], expected: HubProgress
) -> None:
    for name, value in fields.items():
        raw = value.encode(errors="surrogateescape")
        await client.hset(streams.snapshot("h"), name, raw)

    assert await Inbox(RedisConnection(client), "h").stored("sp") == expected


async def test_an_old_redis_is_named_with_what_is_needed(
    tmp_path: Path, http: httpx.AsyncClient
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A Redis 5 as far as it is asked: INFO tells its version, everything else is OK."""
        while request := await reader.read(4096):
            info = b"redis_version:5.0.7\r\n"
            for command in request.split(b"*")[1:]:
                if b"\r\nINFO\r\n" in command:
                    writer.write(b"$%d\r\n%s\r\n" % (len(info), info))
                else:
                    writer.write(b"+PONG\r\n" if b"PING" in command else b"+OK\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    collector = CollectorProcess(tmp_path / "state", f"redis://127.0.0.1:{port}")
    await asyncio.to_thread(collector.start)
    try:
        await collector.post(http, "kept")

        async def problem() -> str:
            facts = (await http.get(f"{collector.url}/readyz")).json()
            return str(facts["stream"]["problem"])

        await wait_until(lambda: problem_says(problem, "Redis 5.0 is too old"))
    finally:
        await asyncio.to_thread(collector.kill)
        server.close()


async def problem_says(problem: Callable[[], Awaitable[str]], words: str) -> bool:
    return words in await problem()
