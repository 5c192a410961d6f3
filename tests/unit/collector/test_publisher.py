"""The publisher's own rules that need no broker: how batches gather."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import adsum_collector.publisher as publisher_module
from adsum_collector.inbox import Inbox
from adsum_collector.publisher import Publisher
from adsum_collector.resume import EntryId
from adsum_collector.spool import Spool
from adsum_collector.spool_files import Missing, Rows
from adsum_collector.spool_repair import Limits
from adsum_shared.beat import Beat
from tests.support import wait_until


class FakeInbox(Inbox):
    """Takes everything; a batch takes `latency` seconds."""

    def __init__(self, latency: float = 0.0) -> None:
        self.batches: list[int] = []
        self.beats: list[bytes] = []
        self.last: EntryId | None = None
        self.replay: bytes | None = None
        self.told: list[Mapping[bytes, bytes]] = []
        self.stored = 0
        self.latency = latency

    async def require_recent(self) -> None:
        pass

    async def enrol(self) -> None:
        pass

    async def head(self) -> EntryId | None:
        return self.last

    async def applied(self, spool_id: str) -> int:
        return 0

    async def look(self, spool_id: str) -> tuple[bytes | None, int]:
        return self.replay, self.stored

    async def add(self, entry: EntryId, fields: Mapping[bytes, bytes]) -> None:
        await asyncio.sleep(self.latency)
        self.last = entry
        self.told.append(fields)
        self.batches.append(int(fields[b"l"]) - int(fields[b"f"]) + 1)

    async def beat(self, beat: bytes) -> None:
        self.beats.append(beat)


def beat(sent: int, stopping: bool) -> Beat:
    return Beat(
        host_id="h", label="l", at=0, nonce="n", spool_id="sp", sent=sent, stopping=stopping
    )


class Bench:
    """A publisher on a real spool, whose every connection is the fake inbox."""

    def __init__(self, spool: Spool, inbox: FakeInbox, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spool = spool
        self.inbox = inbox
        monkeypatch.setattr(publisher_module, "Inbox", lambda _client, _host_id: inbox)
        self.publisher = Publisher(
            spool, "redis://127.0.0.1:1", "h", nonce="n", beat=beat, now=lambda: 1.0
        )

    async def sent(self, number: int) -> None:
        await wait_until(lambda: self.publisher.sent >= number, interval=0.0005)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spool = await Spool.open(tmp_path / "spool", Limits(min_free_bytes=0))
    yield Bench(spool, FakeInbox(), monkeypatch)
    await spool.close()


async def test_what_waits_goes_in_few_batches(bench: Bench) -> None:
    for _ in range(3):
        await bench.spool.append([b"{}"] * 100)
    bench.publisher.drain()
    await bench.publisher.run()

    assert bench.inbox.batches == [100, 100, 100]


async def test_a_lone_signal_does_not_wait_for_company(bench: Bench) -> None:
    running = asyncio.create_task(bench.publisher.run())
    loop = asyncio.get_running_loop()
    waits = []
    for _ in range(20):
        started = loop.time()
        number = await bench.spool.append([b"{}"])
        await bench.sent(number)
        waits.append(loop.time() - started)
    bench.publisher.drain()
    await running

    assert bench.inbox.batches == [1] * 20
    assert sorted(waits)[10] < publisher_module.LINGER_S / 2


async def test_under_load_batches_gather(bench: Bench) -> None:
    running = asyncio.create_task(bench.publisher.run())
    for _ in range(200):
        await asyncio.gather(*(bench.spool.append([b"{}"]) for _ in range(10)))
    bench.publisher.drain()
    await running

    assert sum(bench.inbox.batches) == 2000
    assert len(bench.inbox.batches) < 100


async def test_after_the_load_a_lone_signal_is_quick_again(bench: Bench) -> None:
    await bench.spool.append([b"{}"] * 500)
    running = asyncio.create_task(bench.publisher.run())
    await bench.sent(500)
    await bench.spool.append([b"{}"])
    await bench.sent(501)

    assert not bench.publisher._gathering
    bench.publisher.drain()
    await running


async def test_the_last_heartbeat_says_goodbye(bench: Bench) -> None:
    await bench.spool.append([b"{}"])
    bench.publisher.drain()
    await bench.publisher.run()

    assert b'"stopping":true' in bench.inbox.beats[-1]
    assert b'"sent":1' in bench.inbox.beats[-1]
    assert b"stopping" not in bench.inbox.beats[0]


async def test_a_stream_deleted_under_a_living_connection_is_noticed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "CHECK_INTERVAL_S", 0.01)
    await bench.spool.append([b"{}"] * 3)
    running = asyncio.create_task(bench.publisher.run())
    await bench.sent(3)
    before = bench.spool.incarnation

    bench.inbox.last = None
    await wait_until(lambda: sum(bench.inbox.batches) >= 6)  # all three again

    assert bench.spool.incarnation > before
    bench.publisher.drain()
    await running


async def test_one_request_to_replay_is_answered_once(bench: Bench) -> None:
    await bench.spool.append([b"{}"] * 3)
    running = asyncio.create_task(bench.publisher.run())
    await bench.sent(3)
    bench.inbox.replay = bench.spool.spool_id.encode() + b":2"
    for _ in range(3):
        bench.publisher._look_due = 0.0
        bench.spool.added.set()
        await wait_until(lambda: bench.publisher._look_due > 0)
    await bench.sent(3)

    assert bench.inbox.batches == [3, 2]
    bench.publisher.drain()
    await running


@pytest.mark.parametrize("step", ["rows", "remember"], ids=["a read", "a new incarnation"])
async def test_a_disk_that_fails_is_a_visible_problem_and_publishing_goes_on_after_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    await bench.spool.append([b"{}"])
    bench.spool._forget_recent()
    failing = bench.spool._files._current

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(failing, step, fail)
    running = asyncio.create_task(bench.publisher.run())

    await bench.sent(1)  # once its file was opened anew

    assert "The spool fails" in caplog.text
    assert "disk I/O error" in caplog.text
    assert bench.publisher.problem is None
    bench.publisher.drain()
    await running
    assert bench.inbox.batches == [1]


async def test_what_was_read_of_another_spool_is_not_sent_under_the_old_id(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.spool.append([b"{}"])
    read, old = bench.spool.read, bench.spool.spool_id

    async def read_late(after: int, limit: int, limit_bytes: int) -> Rows | Missing | None:
        if bench.spool.spool_id == old:
            await bench.spool.begin_anew("corrupt", 0)
        return await read(after, limit, limit_bytes)

    monkeypatch.setattr(bench.spool, "read", read_late)
    bench.publisher.drain()
    await bench.publisher.run()

    assert {about[b"sp"] for about in bench.inbox.told} == {bench.spool.spool_id.encode()}


async def test_what_hubs_have_of_a_copy_confirms_nothing_that_we_have_not_sent(
    bench: Bench,
) -> None:
    await bench.spool.append([b"{}"] * 3)
    bench.publisher._spool_id, bench.publisher.sent = bench.spool.spool_id, 2
    bench.inbox.stored = 3

    await bench.publisher._look(bench.inbox)

    assert bench.spool.acked == 2
