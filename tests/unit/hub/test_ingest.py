"""Ingest's own rules, without a server: what is let through, how often, and on which connection."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from fakeredis import FakeAsyncRedis
from redis.exceptions import ConnectionError, NoPermissionError
from starlette.applications import Starlette
from starlette.testclient import TestClient

import adsum_hub.join.ingest as ingest_module
from adsum_collector.delivery.publisher import BATCH_BYTES
from adsum_collector.delivery.transports import PACE_S
from adsum_hub.join.ingest import (
    BURST,
    BYTES_BURST,
    BYTES_RATE,
    RATE,
    READING,
    AwaitedCommands,
    Ingest,
    IngestPool,
    IngestRate,
)
from adsum_hub.rest.api import BadRequestError
from adsum_shared import streams
from adsum_shared.host_keys import (
    KIND,
    MOST_BEAT,
    MOST_BYTES,
    PATH,
    KeysReply,
    KeysRequest,
    NewEntry,
    OddReplyError,
    decode_reply,
    encode,
)

OURS = {"authorization": "Bearer ours", "content-type": KIND}


class Client:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.connection: Any = None if redis.is_cluster else self
        self.closed = False

    async def initialize(self) -> None: ...

    async def info(self, _: str) -> dict[str, str]:
        if self._redis.refusal:
            raise self._redis.refusal
        return {"run_id": self._redis.run_id}

    async def pttl(self, _: str) -> int:
        return -2

    async def disconnect(self, *, nowait: bool) -> None:
        assert nowait

    async def aclose(self) -> None:
        self.closed = True


class Redis:
    def __init__(self) -> None:
        self.run_id = "one"
        self.refusal: Exception | None = None
        self.is_cluster = False
        self.clients: list[Client] = []

    def client(self) -> Client:
        self.clients.append(Client(self))
        return self.clients[-1]


class Joining:
    """Lets in who shows `ours`, as host `h`. broken: connections that lay idle for too long."""

    def __init__(self) -> None:
        self.machines = self
        self.broken = 0
        self.addresses: set[str] = set()

    async def hang_up(self) -> None:
        self.broken = 0

    async def machine_of(self, secret: str, address: str) -> Any:
        self.addresses.add(address)
        if self.broken:
            raise ConnectionError("Connection closed by server.")
        if secret != "ours":
            raise BadRequestError(401, "Not valid.", "Join again.")
        return SimpleNamespace(host_id="h")


class Bench:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.redis = Redis()
        self.done: list[KeysRequest] = []
        self.outcome: Exception | None = None
        self.tried = 0

        async def carry_out(_: Any, host_id: str, asked: KeysRequest) -> KeysReply:
            assert host_id == "h"
            self.tried += 1
            if self.outcome:
                raise self.outcome
            self.done.append(asked)
            return KeysReply(added="new")

        monkeypatch.setattr(ingest_module, "carry_out", carry_out)
        lines: Any = IngestPool(self.redis)  # type: ignore[arg-type] # as far as it is asked
        self.joining = Joining()
        ingest = Ingest(self.joining, lines, AwaitedCommands(self.redis), "redis://r:6379")  # type: ignore[arg-type] # as above
        self.client = TestClient(Starlette(routes=[ingest.route()]))
        self.ingest = ingest

    def post(self, asked: KeysRequest | bytes, **headers: str) -> Any:
        body = asked if isinstance(asked, bytes) else encode(asked)
        return self.client.post(PATH, content=body, headers={**OURS, **headers})


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_what_is_asked_is_done_and_which_redis_it_was_is_told(bench: Bench) -> None:
    asked = KeysRequest(add=NewEntry("1-1", {b"b": b"[]"}), host_id="h")

    answer = bench.post(asked)

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert decode_reply(answer.content) == KeysReply(added="new", server="one")
    assert bench.done == [asked]


def test_of_another_redis_than_the_machine_knows_nothing_is_done(bench: Bench) -> None:
    answer = bench.post(KeysRequest(host_id="h", server="before"))

    assert decode_reply(answer.content) == KeysReply(server="one")
    assert bench.done == []


@pytest.mark.parametrize(
    ("asked", "headers", "status"),
    [
        (KeysRequest(host_id="h"), {"authorization": "Bearer theirs"}, 401),
        (KeysRequest(host_id="h"), {"authorization": ""}, 401),
        (KeysRequest(host_id="another"), {}, 403),
        (KeysRequest(host_id="h"), {"content-type": "application/json"}, 415),
        (b"\xc1", {}, 400),
        (msgspec.msgpack.encode({"beat": 7}), {}, 400),
        (b"x" * (MOST_BYTES + 1), {}, 413),
        (KeysRequest(host_id="h", beat=b"x" * (MOST_BEAT + 1)), {}, 413),
        (KeysRequest(host_id="h", add=NewEntry("*", {b"b": b""})), {}, 400),
        (KeysRequest(host_id="h", add=NewEntry(f"1-{2**53}", {b"b": b""})), {}, 400),
        (KeysRequest(host_id="h", add=NewEntry("0-1", {b"b": b""})), {}, 400),
        (KeysRequest(host_id="h", add=NewEntry("1-1", {})), {}, 400),
        (KeysRequest(host_id="h", after="+ COUNT 9"), {}, 400),
        (KeysRequest(host_id="h", after=f"{2**64}-0"), {}, 400),
        (KeysRequest(host_id="h", after=f"1-{2**64}"), {}, 400),
    ],
)
def test_what_is_not_to_pass_does_not(
    bench: Bench, asked: KeysRequest | bytes, headers: dict[str, str], status: int
) -> None:
    answer = bench.post(asked, **headers)

    assert answer.status_code == status
    assert set(answer.json()) == {"error", "next"}
    assert bench.done == []


def test_a_body_without_a_length_is_cut_off_where_it_becomes_too_long(bench: Bench) -> None:
    parts = (b"x" * (1 << 20) for _ in range(1 + (MOST_BYTES >> 20) + 1))

    answer = bench.client.post(PATH, content=parts, headers=OURS)

    assert answer.status_code == 413


def test_connections_that_broke_while_they_lay_idle_turn_no_machine_away(bench: Bench) -> None:
    bench.joining.broken = 8

    assert bench.post(KeysRequest(host_id="h")).status_code == 200


async def test_a_machine_that_hangs_up_is_no_fault_of_the_hub(bench: Bench) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in OURS.items()]
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers}
    await bench.client.app(scope, receive, send)

    assert sent[0]["status"] == 408
    assert bench.done == []


async def test_a_machine_that_sends_slowly_takes_no_others_room(bench: Bench) -> None:
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in OURS.items()]
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers}
    slow = [asyncio.create_task(bench.client.app(scope, never, send)) for _ in range(READING + 5)]
    await asyncio.gather(*slow[READING:])

    assert {each["status"] for each in sent if "status" in each} == {429}
    assert not any(task.done() for task in slow[:READING])
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert not bench.ingest._reading


def test_a_redis_that_is_away_is_told_with_when_to_try_again(bench: Bench) -> None:
    bench.outcome = ConnectionError("Error 111 connecting to r:6379.")

    answer = bench.post(KeysRequest(host_id="h"))

    assert answer.status_code == 503
    assert bench.tried == 2  # an idle connection may have broken long ago; a new one has not
    assert "Redis at redis://r:6379 cannot be reached" in answer.json()["error"]


def test_what_lies_there_for_others_is_told_as_it_is(bench: Bench) -> None:
    bench.outcome = OddReplyError("something else was written under the key k.")

    answer = bench.post(KeysRequest(host_id="h"))

    assert (answer.status_code, "under the key k" in answer.json()["error"]) == (409, True)


def test_a_machine_that_asks_without_end_is_held_back_and_no_other() -> None:
    rate = IngestRate()
    passed = sum(not rate.exceeded("a", 100.0) for _ in range(int(BURST) + 50))

    assert passed == int(BURST)
    assert rate.exceeded("a", 100.0)
    assert not rate.exceeded("b", 100.0)
    assert not rate.exceeded("a", 100.0 + 2 / RATE)


def test_a_machine_that_sends_without_end_waits_for_what_it_sent_and_no_other_does() -> None:
    rate = IngestRate()
    assert rate.exceeded("a", 100.0) == 0
    rate.took("a", int(BYTES_BURST + 3 * BYTES_RATE))

    assert rate.exceeded("a", 100.0) == 3
    assert rate.exceeded("b", 100.0) == 0
    assert rate.exceeded("a", 102.5) == 1
    assert rate.exceeded("a", 103.1) == 0


def test_a_collector_that_drains_at_full_speed_is_never_held_back() -> None:
    """By its own pause and the size of its batches, and whatever the burst is."""
    rate, now = IngestRate(), 0.0
    assert rate.exceeded("a", now) == 0
    rate.took("a", int(BYTES_BURST) - BATCH_BYTES)
    for _ in range(2_000):
        assert rate.exceeded("a", now) == 0
        rate.took("a", BATCH_BYTES + 4096)
        now += PACE_S


def test_bytes_are_counted_as_they_come_and_told_of_with_when_to_go_on(bench: Bench) -> None:
    bench.post(KeysRequest(host_id="h", beat=b"x" * MOST_BEAT))
    assert bench.ingest._rate._left["h"].size <= BYTES_BURST - MOST_BEAT
    bench.ingest._rate.took("h", int(BYTES_BURST + 6.5 * BYTES_RATE))

    answer = bench.post(KeysRequest(host_id="h"))

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert len(bench.done) == 1


def test_who_shows_a_credential_is_told_apart_by_address(bench: Bench) -> None:
    bench.post(KeysRequest(host_id="h"))

    assert bench.joining.addresses == {"testclient"}


@pytest.mark.parametrize("after", [f"{2**64 - 1}-{2**64 - 1}", "0-0", ""])
def test_any_id_that_a_stream_may_hold_is_looked_beyond(bench: Bench, after: str) -> None:
    assert bench.post(KeysRequest(host_id="h", after=after)).status_code == 200


async def test_a_connection_that_fails_is_not_used_again_and_the_idle_ones_neither() -> None:
    redis = Redis()
    lines: Any = IngestPool(redis)  # type: ignore[arg-type] # as far as it is asked
    async with lines.one(), lines.one():
        pass
    with pytest.raises(ConnectionError):
        async with lines.one():
            raise ConnectionError
    redis.run_id = "two"
    async with lines.one() as line:
        assert line.server == "two"

    assert [each.closed for each in redis.clients] == [True, True, False]


class Pooled(FakeAsyncRedis):
    async def info(self, *_: Any, **__: Any) -> dict[str, str]:
        return {"run_id": "one"}


async def test_a_connection_that_fails_goes_back_to_no_pool_alive() -> None:
    async with Pooled() as redis:
        lines = IngestPool(redis)
        async with lines.one() as first, lines.one() as second:
            used = [first.client.connection, second.client.connection]
        with pytest.raises(ConnectionError):
            async with lines.one():
                raise ConnectionError

        assert [each.is_connected for each in used] == [False, False]


async def test_where_the_server_may_not_be_asked_or_is_several_it_has_no_name() -> None:
    redis = Redis()
    lines: Any = IngestPool(redis)  # type: ignore[arg-type] # as far as it is asked
    redis.refusal = NoPermissionError("info")
    async with lines.one() as line:
        assert line.server == ""
    await lines.close()
    redis.refusal, redis.is_cluster = None, True
    async with lines.one() as line:
        assert line.server == ""
    await lines.close()
    redis.is_cluster, redis.refusal = False, ConnectionError("gone")
    with pytest.raises(ConnectionError):
        async with lines.one():
            pass
    assert all(each.closed for each in redis.clients)


class Streams:
    """A Redis that has commands for some; asked for how long to wait, it waits for news."""

    def __init__(self) -> None:
        self.there: dict[str, list[tuple[bytes, dict[bytes, bytes]]]] = {}
        self.asked: list[dict[str, str]] = []

    async def xread(self, asked: dict[str, str], count: int, block: int) -> Any:
        self.asked.append(dict(asked))
        await asyncio.sleep(0.001)
        return [(key.encode(), self.there[key]) for key in asked if key in self.there]

    async def time(self) -> tuple[int, int]:
        return 7, 5_000


async def test_one_reader_waits_for_the_commands_of_all_machines() -> None:
    streams_: Any = Streams()
    awaited = AwaitedCommands(streams_)
    running = asyncio.create_task(awaited.run())
    one, two = (asyncio.create_task(awaited.after(each, "0-0", 5.0)) for each in ("a", "b"))
    await asyncio.sleep(0.01)

    streams_.there[streams.commands("b")] = [(b"5-0", {b"c": b"{}"})]
    told = await two

    assert told.commands is not None
    assert [each.id for each in told.commands] == ["5-0"]
    assert told.now_ms == 7_005
    assert not one.done()
    assert {len(each) for each in streams_.asked} >= {2}
    newer = asyncio.create_task(awaited.after("a", "0-0", 0.01))
    assert (await one).commands == []  # a machine waits once
    assert (await newer).commands == []
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
