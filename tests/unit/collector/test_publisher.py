"""The publisher's own rules that need no broker: how batches gather, what is told, who comes next."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import InvalidResponse, NoPermissionError

import adsum_collector.delivery.publisher as publisher_module
from adsum_collector.delivery.publisher import Publisher
from adsum_collector.delivery.resume import EntryId, Head, HubProgress
from adsum_collector.delivery.transports import Inbox, StreamLook, TransportConnection
from adsum_collector.errors import StreamUnusableError
from adsum_collector.spool.spool import Rows, Spool, SpoolGap
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared.envelope import Beat
from adsum_shared.host_keys import KeysReply, KeysRequest, OddReplyError
from tests.support import wait_until


class FakeInbox(Inbox):
    """Takes everything; a batch takes `latency` seconds."""

    def __init__(self, latency: float = 0.0) -> None:
        self.key = "k"
        self.batches: list[int] = []
        self.beats: list[bytes] = []
        self.last: Head | None = None
        self.beyond: Head | None = None
        self.replay: bytes | None = None
        self.told: list[Mapping[bytes, bytes]] = []
        self.have = HubProgress()
        self.refuse: list[Exception] = []
        self.latency = latency

    async def head(self) -> Head | None:
        return self.beyond or self.last

    async def look(
        self, spool_id: str, after: EntryId | None, *, others: bool = True
    ) -> StreamLook:
        return StreamLook(self.beyond if others else None, await self.stored(spool_id), self.replay)

    async def stored(self, spool_id: str) -> HubProgress:
        return self.have

    async def add(self, entry: EntryId, fields: Mapping[bytes, bytes]) -> None:
        await asyncio.sleep(self.latency)
        if self.refuse:
            raise self.refuse.pop()
        self.last = Head(entry, fields[b"sp"].decode(), fields[b"n"].decode())
        self.beyond = None
        self.told.append(fields)
        self.batches.append(int(fields[b"l"]) - int(fields[b"f"]) + 1)

    async def beat(self, beat: bytes) -> None:
        self.beats.append(beat)

    def carry(self, beat: bytes) -> None:
        self.beats.append(beat)


class FakeTransport:
    """Always well: what is asked on its line, the fake inbox answers."""

    via = None
    place = "Redis at redis://127.0.0.1:1"

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[TransportConnection]:
        yield FakeLine()


class FakeLine:
    async def ask(self, host_id: str, asked: KeysRequest) -> KeysReply:
        raise NotImplementedError


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
            spool, FakeTransport(), "h", nonce="n", beat=beat, now=lambda: 1.0
        )

    async def sent(self, number: int) -> None:
        await wait_until(lambda: self.publisher.sent >= number, interval=0.0005)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0))
    yield Bench(spool, FakeInbox(), monkeypatch)
    await spool.close()


async def test_what_waits_goes_in_few_batches(bench: Bench) -> None:
    for _ in range(3):
        await bench.spool.append([b"{}"] * 1000)
    bench.publisher.drain()
    await bench.publisher.run()

    assert bench.inbox.batches == [1000, 1000, 1000]


async def test_a_lone_signal_does_not_wait_for_company(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "LINGER_S", 10.0)
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
    assert max(waits) < publisher_module.LINGER_S


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


@pytest.mark.parametrize("step", ["rows", "write"], ids=["a read", "a new incarnation"])
async def test_a_disk_that_fails_is_a_visible_problem_and_publishing_goes_on_after_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    await bench.spool.append([b"{}"])
    failing = bench.spool._files.current

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

    async def read_late(after: int, limit: int, limit_bytes: int) -> Rows | SpoolGap | None:
        if bench.spool.spool_id == old:
            await bench.spool.begin_anew("corrupt", 0)
        return await read(after, limit, limit_bytes)

    monkeypatch.setattr(bench.spool, "read", read_late)
    bench.publisher.drain()
    await bench.publisher.run()

    assert {about[b"sp"] for about in bench.inbox.told} == {bench.spool.spool_id.encode()}


async def test_what_hubs_have_beyond_what_is_sent_confirms_nothing(bench: Bench) -> None:
    await bench.spool.append([b"{}"] * 3)
    position = bench.publisher._position
    await position.find(bench.inbox)
    position.sent = 2
    bench.inbox.have = HubProgress(applied=3)

    await position.look(bench.inbox)

    assert bench.spool.acked == 2


async def test_what_another_spool_had_confirmed_confirms_nothing_of_the_new_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.spool.append([b"{}"] * 3)
    position = bench.publisher._position
    await position.find(bench.inbox)
    position.sent = 3

    async def answer_late(_spool_id: str) -> HubProgress:
        await bench.spool.begin_anew("corrupt", 0)
        return HubProgress(applied=3)

    monkeypatch.setattr(bench.inbox, "stored", answer_late)
    await position.look(bench.inbox)

    assert bench.spool.acked == 0


async def test_a_spool_that_is_damaged_while_it_is_left_keeps_its_signals(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.spool.append([b"{}"] * 3)
    position = bench.publisher._position
    bench.inbox.have = HubProgress(runs={"n": 3, "a copy's": 4})
    await position.find(bench.inbox)
    assert not position.free

    async def answer_late(_spool_id: str) -> HubProgress:
        if position.spool_id == bench.spool.spool_id:
            await bench.spool.begin_anew("corrupt", 0)
        return HubProgress(EntryId(99, 0), 0, bench.inbox.have.runs if not position.free else {})

    monkeypatch.setattr(bench.inbox, "stored", answer_late)
    await position.look(bench.inbox)

    found = await bench.spool.read(1, 9, 999)
    assert isinstance(found, Rows)
    assert found.bodies == [b"{}"] * 3


async def test_an_entry_holds_signals_of_one_run(bench: Bench) -> None:
    await bench.publisher.join()
    await bench.spool.append([b"{}"] * 3)
    later = Publisher(bench.spool, FakeTransport(), "h", nonce="later", beat=beat, now=lambda: 1.0)
    await later.join()
    await bench.spool.append([b"{}"] * 2)
    later.drain()
    await later.run()

    assert [(about[b"n"], about[b"f"], about[b"l"]) for about in bench.inbox.told] == [
        (b"n", b"1", b"3"),
        (b"later", b"4", b"5"),
    ]


async def test_a_gap_over_numbers_of_two_runs_is_told_of_each(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.publisher.join()
    await bench.spool.append([b"{}"] * 3)
    later = Publisher(bench.spool, FakeTransport(), "h", nonce="later", beat=beat, now=lambda: 1.0)
    await later.join()
    await bench.spool.append([b"{}"] * 2)

    async def forgotten(after: int, _limit: int, _bytes: int) -> SpoolGap | None:
        return SpoolGap(after + 1, 5, "cap") if after < 5 else None

    monkeypatch.setattr(bench.spool, "read", forgotten)
    later.drain()
    await later.run()

    assert [(about[b"n"], about[b"f"], about[b"l"]) for about in bench.inbox.told] == [
        (b"n", b"1", b"3"),
        (b"later", b"4", b"5"),
    ]


@pytest.mark.parametrize(
    ("nonce", "told"), [("a copy's", True), ("n", False)], ids=["a copy's", "ours, come late"]
)
async def test_an_entry_beyond_ours_is_told_and_gone_around_when_there_is_something_to_send(
    bench: Bench, nonce: str, told: bool
) -> None:
    await bench.spool.append([b"{}"])
    running = asyncio.create_task(bench.publisher.run())
    await bench.sent(1)
    before = bench.spool.incarnation

    bench.inbox.beyond = Head(EntryId(before + 3, 1), "another", nonce)
    bench.publisher._look_due = 0.0
    bench.spool.added.set()
    await wait_until(lambda: bench.publisher._position.moved)
    assert bench.spool.incarnation == before  # that costs a commit
    assert ("looks like a copy" in (bench.publisher.problem or "")) == told

    await bench.spool.append([b"{}"])
    await bench.sent(2)
    assert bench.spool.incarnation == before + 4
    bench.publisher.drain()
    await running


async def test_what_is_refused_again_and_again_stays_told_in_the_heartbeat(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "backoff", lambda: itertools.repeat(0.001))
    problems: list[str | None] = []

    def listen(sent: int, stopping: bool) -> Beat:
        problems.append(bench.publisher.problem)
        return beat(sent, stopping)

    monkeypatch.setattr(bench.publisher, "_beat", listen)
    bench.inbox.refuse = [NoPermissionError("this user may not run 'xadd'") for _ in range(5)]
    await bench.spool.append([b"{}"])
    running = asyncio.create_task(bench.publisher.run())
    await bench.sent(1)

    assert problems[0] is None
    assert len(problems) == 6
    assert all("may not run 'xadd'" in str(problem) for problem in problems[1:])
    assert bench.publisher.problem is None
    bench.publisher.drain()
    await running


async def test_a_stop_does_not_wait_for_a_stream_that_cannot_be_used(bench: Bench) -> None:
    bench.inbox.last = Head(EntryId(2**63, 1))
    await bench.spool.append([b"{}"])
    running = asyncio.create_task(bench.publisher.run())
    await wait_until(lambda: "absurd id" in (bench.publisher.problem or ""))

    bench.publisher.drain()
    await asyncio.wait_for(running, 1)

    assert b'"stopping":true' in bench.inbox.beats[-1]
    assert bench.inbox.told == []


@pytest.mark.parametrize(
    "error", [StreamUnusableError("k"), OddReplyError("odd"), InvalidResponse()]
)
async def test_whatever_redis_answers_publishing_goes_on_after_it(
    bench: Bench, error: Exception
) -> None:
    bench.inbox.refuse = [error]
    await bench.spool.append([b"{}"])
    running = asyncio.create_task(bench.publisher.run())
    await bench.sent(1)

    assert bench.publisher.problem is None
    bench.publisher.drain()
    await running
