"""One mechanism of the collector's delivery each: without it, what this test shows would be lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio

import adsum_collector.spool.spool as spool_module
import adsum_collector.transcripts.tailer as tailer_module
from adsum_collector.delivery.publisher import Publisher
from adsum_collector.delivery.resume import read_runs
from adsum_collector.delivery.transports import RedisTransport
from adsum_collector.intake import HookDoor, Intake
from adsum_collector.listening.receiver import PATH, Receiver
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import Append, SpoolLimits
from adsum_shared import streams
from adsum_shared.connect import open_redis
from adsum_shared.envelope import Batch, Beat, Gap, decode_batch
from adsum_shared.signals import Alive, encode_signal
from tests.brokers import Broker
from tests.collectors import CollectorProcess, StandIn
from tests.proxies import proxy_to
from tests.support import wait_until
from tests.tailers import Rig, open_rig
from tests.transcripts import append, line

pytestmark = pytest.mark.redis

HOST = "00000000-aaaa-4000-8000-000000000001"
#: Full files after a few signals, and gone as soon as they may be.
TIGHT = SpoolLimits(min_free_bytes=0, rotate_bytes=4096, retention_s=-1.0)


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = open_redis(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[Spool]:
    spool = await Spool.open(tmp_path / "spool", TIGHT)
    yield spool
    await spool.close()


class Sender:
    """A publisher without the rest of its collector."""

    def __init__(self, spool: Spool, url: str) -> None:
        self.spool = spool
        self.publisher = Publisher(
            spool, RedisTransport(url), HOST, nonce="n", beat=self.beat, now=time.time
        )
        self._running = asyncio.create_task(self.publisher.run())

    def beat(self, sent: int, stopping: bool) -> Beat:
        return Beat(HOST, "lab", 0, "n", self.spool.spool_id, sent=sent, stopping=stopping)

    async def say(self, count: int) -> None:
        for number in range(count):
            told = Alive(session_id="s", at=1, seen=1, note=f"{number:03d}" + "x" * 400)
            await self.spool.append([encode_signal(told)])

    async def all_sent(self) -> None:
        await wait_until(lambda: self.publisher.sent == self.spool.last_seq)

    async def stop(self) -> None:
        self.publisher.drain()
        await self._running


@pytest.fixture
async def sender(spool: Spool, redis_url: str) -> AsyncIterator[Sender]:
    sender = Sender(spool, redis_url)
    yield sender
    await sender.stop()


async def entries(
    client: redis.asyncio.Redis, after: bytes = b"0-0"
) -> Sequence[tuple[bytes, Batch]]:
    found: Any = await client.xrange(streams.inbox(HOST), min=b"(" + after)
    return [(entry_id, decode_batch(fields)) for entry_id, fields in found]


async def replayed(client: redis.asyncio.Redis, spool: Spool) -> list[Batch]:
    """What comes, under higher ids than all before, when a hub wants everything again."""
    head = (await entries(client))[-1][0]
    await client.set(streams.want(HOST), f"{spool.spool_id}:1", px=streams.WANT_TTL_MS)

    async def again() -> list[Batch]:
        batches = [batch for _, batch in await entries(client, head)]
        return batches if batches and batches[-1].last == spool.last_seq else []

    batches: list[Batch] = await wait_until(again)
    return batches


async def test_nothing_leaves_the_spool_before_a_hub_has_stored_it(
    sender: Sender, client: redis.asyncio.Redis
) -> None:
    await sender.say(40)
    await sender.all_sent()

    again = await replayed(client, sender.spool)

    assert [batch.gap for batch in again if batch.gap] == []
    assert sum(len(batch.signals) for batch in again) == 40


async def test_after_a_flush_a_host_is_found_again_with_its_next_heartbeat(
    sender: Sender, client: redis.asyncio.Redis
) -> None:
    """A hub that starts just then knows nobody else."""
    await sender.say(1)
    await sender.all_sent()
    await client.flushall()

    await wait_until(lambda: client.exists(streams.beat(HOST)), timeout=5)
    await wait_until(lambda: client.sismember(streams.HOSTS, HOST), timeout=1)


async def test_what_a_hub_has_stored_leaves_the_spool_and_is_a_gap_when_wanted(
    sender: Sender,
    client: redis.asyncio.Redis,
    tmp_path: Path,
) -> None:
    await sender.say(40)
    await sender.all_sent()
    files = len(list((tmp_path / "spool").glob("*.db")))
    stored = b'{"%s":40}' % sender.spool.spool_id.encode()
    await client.hset(streams.snapshot(HOST), streams.APPLIED, stored)

    await wait_until(lambda: sender.spool.acked == 40)
    assert files > 3
    assert len(list((tmp_path / "spool").glob("*.db"))) == 1

    gap, *kept = await replayed(client, sender.spool)
    assert gap.gap == Gap("retention")
    assert kept[0].first == gap.last + 1


async def test_a_batch_whose_reply_is_lost_lies_in_the_stream_once(
    spool: Spool, redis_server: Broker, client: redis.asyncio.Redis
) -> None:
    async with proxy_to(redis_server.port) as proxy:
        sender = Sender(spool, proxy.url)
        for _ in range(3):
            proxy.lose_reply_to = b"XADD"
            lost = proxy.lost
            await sender.say(1)
            await wait_until(lambda: proxy.lost > lost)  # noqa: B023 - awaited here
            await sender.all_sent()
        await sender.stop()

    spans = [(batch.first, batch.last) for _, batch in await entries(client)]
    assert spans == [(1, 1), (2, 2), (3, 3)]


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setattr(tailer_module, "ROUND_S", 0.05)
    async with open_rig(tmp_path) as rig:
        yield rig


async def test_a_line_is_told_once_after_whichever_commit_the_collector_was_killed(
    rig: Rig,
) -> None:
    await rig.give_process()
    append(rig.main(), *(line(number) for number in range(2_000)))
    told: list[str] = []
    for room in (1, 2, 1, 2, 3, 1, 1 << 30):  # commits until it is killed
        assert "1999" not in told
        rig.intake.room = room
        await rig.restart()
        await wait_until(lambda: rig.tailer.faults["not accepted"] or "1999" in rig.notes())
        told += rig.notes()

    assert told == [str(number) for number in range(2_000)]


class StandInStatus:
    def facts(self) -> tuple[bool, dict[str, Any]]:
        return True, {}

    async def spool_status(self) -> Any:
        raise NotImplementedError


class HeldCommit:
    """The disk of a spool, which does not come back before it is told to."""

    def __init__(self, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
        # in the thread: on the loop it would hold the test as well
        monkeypatch.setattr(spool_module, "SLOW_COMMIT_S", 0.0)
        self._commit: Callable[[Sequence[Append]], list[int]] = spool._files.commit
        monkeypatch.setattr(spool._files, "commit", self._hold)
        self.begun, self.released = threading.Event(), threading.Event()

    def _hold(self, appends: Sequence[Append]) -> list[int]:
        self.begun.set()
        assert self.released.wait(10)
        return self._commit(appends)


async def test_a_hook_is_not_answered_while_its_commit_is_under_way(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver(
        {"test": HookDoor(StandIn().hook, Intake(spool, lambda signal: signal))},
        port=47892,
        token="t",
        status=StandInStatus(),
    )
    transport = httpx.ASGITransport(receiver)  # type: ignore[arg-type] # narrower than ASGI
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:47892") as http:
        held = HeldCommit(spool, monkeypatch)
        headers = {"authorization": "Bearer t", "content-type": "application/json"}
        posting = asyncio.create_task(
            http.post(PATH, content=b'{"session_id":"s"}', headers=headers)
        )
        try:
            await wait_until(held.begun.is_set)
            for _ in range(50):
                await asyncio.sleep(0)
            assert not posting.done()
        finally:
            held.released.set()
        assert (await posting).headers["x-adsum-seq"] == "1"


async def test_each_run_has_its_own_numbers_though_it_never_met_a_broker(tmp_path: Path) -> None:
    collector = CollectorProcess(tmp_path / "state", "redis://127.0.0.1:1")
    async with httpx.AsyncClient(timeout=10) as http:
        for note in ("of the first run", "of the second"):
            await asyncio.to_thread(collector.start)
            await collector.post(http, note)
            await asyncio.to_thread(collector.kill)

    spool = await Spool.open(collector.state_dir / "spool", SpoolLimits(min_free_bytes=0))
    runs = read_runs(spool.state, spool.spool_id)
    (first, end), (second, _) = runs.author(1), runs.author(2)
    await spool.close()

    assert end == 1
    assert first != second
