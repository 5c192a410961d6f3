"""`/ingest` does for machines that reach only the hub what they would ask of Redis.

A hub keeps nothing of it: any of several may answer, each request anew. Redis refuses what comes
twice, and what it answers the machine is told as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from adsum_hub.join.joining import Joining
from adsum_hub.join.machines import JoinedMachine
from adsum_hub.rest.api import BadRequestError, Problem, address_of, as_json, bearer_of, unavailable
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, open_redis, wanted
from adsum_shared.host_keys import (
    KIND,
    MOST_BEAT,
    MOST_BYTES,
    MOST_COMMANDS,
    PATH,
    FoundCommand,
    KeysReply,
    KeysRequest,
    OddReplyError,
    carry_out,
    decode_request,
    encode,
    ms_of,
)
from adsum_shared.redis_errors import ExhaustedError, describe

#: Bodies beyond SMALL that are read at once; more wait, unread.
SMALL = 64 << 10
BIG_AT_ONCE = 16
#: Of one machine: a collector sends one at a time, and may have given up the one before.
READING = 2
#: How long one may take: so long, and what a slow line takes for a batch, as a collector has it.
BODY_S = 20.0
SLOWEST = 16 << 10
#: What collectors put into a batch, unless one signal alone is bigger.
MOST_BATCH = 512 << 10
#: An entry of ours has eight.
MOST_FIELDS = 16
KEPT = "It tries again by itself."
UPGRADE = "Upgrade the collector, or the hub: they do not understand each other."
OTHER = (
    "This credential is another machine's: the state directory was copied, or its identity renewed."
)
OTHER_STEP = "Join again: adsum join --again, by a new token."
_ID = re.compile(r"(\d{1,20})-(\d{1,20})", re.ASCII)
#: Of Redis: the highest that either half of an id can be.
MOST_HALF = 2**64 - 1

#: Requests a second of one machine, and how many may come in a burst. A collector has one on its
#: way at a time: under full load a hundred a second, at rest one.
RATE = 200.0
BURST = 600.0
#: And bytes, for RATE bodies of the greatest length would be 1.7 GB a second. More than a collector
#: sends at full speed: a batch of 512 kB at most in each hundredth of a second, 52 MB in a second.
BYTES_RATE = float(64 << 20)
BYTES_BURST = float(256 << 20)
#: Machines of which it is known; who asked longest ago is forgotten first.
MOST_KNOWN = 10_000
#: Each for one request at a time.
CONNECTIONS = 8
#: Longest wait for a command, well within a collector's patience; and between two looks at who waits.
MOST_WAIT_S = 5.0
LOOK_MS = 200


class _Left(NamedTuple):
    """at: s. size: of bytes; below nought what came beyond, for nobody knows it before it is read."""

    requests: float = BURST
    size: float = BYTES_BURST
    at: float = -math.inf


class IngestRate:
    """How much each machine asks: requests and bytes. A guard of the hub's loop, not of any truth."""

    def __init__(self) -> None:
        self._left: dict[str, _Left] = {}

    def exceeded(self, host_id: str, now: float) -> int:
        """0: it may send a request. Else seconds to wait."""
        left = self._left.pop(host_id, _Left())
        requests = min(BURST, left.requests + (now - left.at) * RATE)
        size = min(BYTES_BURST, left.size + (now - left.at) * BYTES_RATE)
        wait_s = 0 if requests >= 1.0 else 1
        if size <= 0.0:
            wait_s = max(1, math.ceil(-size / BYTES_RATE))
        self._left[host_id] = _Left(requests if wait_s else requests - 1.0, size, now)
        if len(self._left) > MOST_KNOWN:
            del self._left[next(iter(self._left))]
        return wait_s

    def took(self, host_id: str, size: int) -> None:
        """So many bytes have come from it."""
        left = self._left.get(host_id)
        if left is not None:
            self._left[host_id] = left._replace(size=left.size - size)


class IngestConnection(NamedTuple):
    """server: names the run of the Redis it leads to; empty where that may not be asked."""

    client: Any
    server: str


class IngestPool:
    """Ingest's own connections to Redis: bounded in number, and none that broke is used again.

    One that fails is thrown away, and the idle ones with it: they lead to the same Redis.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._idle: list[IngestConnection] = []
        self._room = asyncio.Semaphore(CONNECTIONS)

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[IngestConnection]:
        """Raises what is in UNAVAILABLE."""
        async with self._room:
            taken = self._idle.pop() if self._idle else await self._open()
            try:
                yield taken
            except BaseException as error:
                await _close(taken.client)
                if isinstance(error, UNAVAILABLE):
                    await self.close()
                raise
            self._idle.append(taken)

    async def _open(self) -> IngestConnection:
        client: Any = self._redis.client()
        info: dict[str, Any] = {}
        try:
            await client.initialize()
            if client.connection is not None:  # of a cluster: not one server, but several
                info = await client.info("server")
        except NoPermissionError:
            pass
        except BaseException:
            await _close(client)
            raise
        return IngestConnection(client, str(info.get("run_id", "")))

    async def close(self) -> None:
        while self._idle:
            await _close(self._idle.pop().client)


class AwaitedCommands:
    """Reads the streams of all machines that wait for commands here, with one blocking command.

    A machine waits once: a newer request takes the place of an older one. reader: of nobody else.
    """

    def __init__(self, reader: Redis) -> None:
        self._reader: Any = reader
        self._waiting: dict[str, tuple[str, asyncio.Future[KeysReply]]] = {}
        self._wake = asyncio.Event()

    async def after(self, host_id: str, last: str, wait_s: float) -> KeysReply:
        """Raises what is in UNAVAILABLE, BadRequestError."""
        key = streams.commands(host_id)
        if key not in self._waiting and len(self._waiting) >= MOST_KNOWN:
            raise _too_often(1)
        reply: asyncio.Future[KeysReply] = asyncio.get_running_loop().create_future()
        _, older = self._waiting.pop(key, (None, None))
        if older is not None and not older.done():
            older.set_result(KeysReply(commands=[]))
        self._waiting[key] = last, reply
        self._wake.set()
        try:
            async with asyncio.timeout(min(wait_s, MOST_WAIT_S)):
                return await reply
        except TimeoutError:
            return KeysReply(commands=[])
        finally:
            if self._waiting.get(key, (None, None))[1] is reply:
                del self._waiting[key]

    async def run(self) -> None:
        while wanted():
            self._wake.clear()
            if not self._waiting:
                await self._wake.wait()
            try:
                await self._read()
            except (*UNAVAILABLE, ResponseError) as error:
                for _, reply in self._waiting.values():
                    if not reply.done():
                        reply.set_exception(RedisConnectionError(str(error)))
                await asyncio.sleep(LOOK_MS / 1000)

    async def _read(self) -> None:
        """Whoever begins to wait meanwhile is asked for in the next turn."""
        asked = {key: last for key, (last, reply) in self._waiting.items() if not reply.done()}
        if not asked:
            await asyncio.sleep(0)
            return
        found = await self._reader.xread(asked, count=MOST_COMMANDS, block=LOOK_MS)
        now_ms = ms_of(await self._reader.time()) if found else 0
        for key, entries in found:
            last, reply = self._waiting.get(key.decode(), ("", None))
            if reply is None or reply.done() or last != asked[key.decode()]:
                continue
            given = [FoundCommand(each.decode(), fields) for each, fields in entries]
            reply.set_result(KeysReply(commands=given, now_ms=now_ms))


async def _close(client: Any) -> None:
    with contextlib.suppress(*UNAVAILABLE):
        if client.connection is not None:
            # The client would only give it back, and the pool hand it out again.
            await client.connection.disconnect(nowait=True)
        await client.aclose()


class Ingest:
    """address: Redis's, as it may be shown."""

    def __init__(
        self, joining: Joining, pool: IngestPool, awaited: AwaitedCommands, address: str
    ) -> None:
        self._joining, self._pool, self._address = joining, pool, address
        self.awaited = awaited
        self._rate = IngestRate()
        self._big = asyncio.Semaphore(BIG_AT_ONCE)
        self._reading: Counter[str] = Counter()

    def route(self) -> Route:
        return Route(PATH, self.answer, methods=["POST"], include_in_schema=False)

    async def answer(self, request: Request) -> Response:
        try:
            told = await self._answered(request)
        except BadRequestError as error:
            return error.answer
        except OddReplyError as error:
            return as_json(Problem(f"In Redis, {error}", KEPT), 409)
        except ExhaustedError as error:
            return unavailable(error)
        except UNAVAILABLE as error:
            cause = describe(error, self._address, "")
            return as_json(Problem(cause.strip(), KEPT), 503)
        return Response(encode(told), 200, {"cache-control": "no-store"}, KIND)

    async def _answered(self, request: Request) -> KeysReply:
        """Raises BadRequestError, OddReplyError, and what is in UNAVAILABLE."""
        _require_readable(request)
        # Each time anew, in Redis: whoever was shut out is so from this moment on.
        machine = await self._machine_of(bearer_of(request), address_of(request))
        now = asyncio.get_running_loop().time()
        if wait_s := self._rate.exceeded(machine.host_id, now):
            raise _too_often(wait_s)
        asked = _checked(await self._body(request, machine.host_id))
        if asked.host_id != machine.host_id:
            raise BadRequestError(403, OTHER, OTHER_STEP)
        if asked.commands:
            told = await self.awaited.after(asked.host_id, asked.commands, asked.wait_s)
            # Of another Redis it gets none from before its own end: ids are times.
            told.server = asked.server
            return told
        try:
            return await self._done(asked)
        except RedisConnectionError:  # it had broken while idle; what arrived even so is `there`
            return await self._done(asked)

    async def _machine_of(self, secret: str, address: str) -> JoinedMachine:
        try:
            return await self._joining.machine_of(secret, address)
        except RedisConnectionError:
            await self._joining.machines.hang_up()
            return await self._joining.machine_of(secret, address)

    async def _done(self, asked: KeysRequest) -> KeysReply:
        async with self._pool.one() as taken:
            if asked.server and asked.server != taken.server:
                return KeysReply(server=taken.server)
            # It filled Redis: those with a user of their own have none for that long.
            paused_ms = await taken.client.pttl(streams.paused(asked.host_id))
            if paused_ms <= 0:
                told = await carry_out(taken.client, asked.host_id, asked)
                told.server = taken.server
                return told
        raise _too_often(-(-paused_ms // 1000))

    async def _body(self, request: Request, host_id: str) -> bytes:
        """Raises BadRequestError. One that sends slowly must not take all the room there is."""
        if self._reading[host_id] >= READING:
            raise _too_often(1)
        length = _length(request)
        is_small = length is not None and length <= SMALL
        patience_s = BODY_S if is_small else BODY_S + MOST_BATCH / SLOWEST
        body = bytearray()
        self._reading[host_id] += 1
        try:
            turn = contextlib.nullcontext() if is_small else self._big
            async with turn, asyncio.timeout(patience_s):
                async for part in request.stream():
                    body += part
                    self._rate.took(host_id, len(part))
                    if len(body) > MOST_BYTES:
                        raise _too_long()
        except TimeoutError as error:
            cause = f"The request did not arrive within {patience_s:.0f} s."
            raise BadRequestError(408, cause, KEPT) from error
        except ClientDisconnect as error:  # nobody reads this
            raise BadRequestError(408, "The connection broke off.", KEPT) from error
        finally:
            self._reading[host_id] -= 1
            if not self._reading[host_id]:
                del self._reading[host_id]
        return bytes(body)


def _require_readable(request: Request) -> None:
    """Raises BadRequestError. A page from elsewhere cannot send this kind without asking first."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != KIND:
        raise BadRequestError(415, f"This takes {KIND} only.", UPGRADE)
    if (_length(request) or 0) > MOST_BYTES:
        raise _too_long()


def _length(request: Request) -> int | None:
    given = request.headers.get("content-length", "")
    return int(given) if given.isascii() and given.isdecimal() else None


def _too_often(wait_s: int) -> BadRequestError:
    cause = "This machine asks too often, or for too much."
    return BadRequestError(429, cause, KEPT, {"retry-after": str(wait_s)})


def _too_long() -> BadRequestError:
    return BadRequestError(413, "This is too long.", UPGRADE)


def _checked(raw: bytes) -> KeysRequest:
    """Raises BadRequestError. An absurd id would be the last that the stream ever takes."""
    try:
        asked = decode_request(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(400, f"The request cannot be read: {error}.", UPGRADE) from error
    if asked.add is not None:
        _require_id(asked.add.id, 1, streams.MOST_ID)
        if not 0 < len(asked.add.fields) <= MOST_FIELDS:
            raise BadRequestError(400, "An entry has 1 to 16 fields.", UPGRADE)
    if len(asked.beat or b"") > MOST_BEAT:
        raise BadRequestError(413, "This heartbeat is too long.", UPGRADE)
    if asked.commands:
        _require_id(asked.commands, 0, MOST_HALF)
    if asked.after:  # what stands in a stream may be of others
        _require_id(asked.after, 0, MOST_HALF)
    return asked


def _require_id(text: str, least: int, most: int) -> None:
    """Raises BadRequestError. least, most: that either half of it may be."""
    found = _ID.fullmatch(text)
    if found is None or not all(least <= int(half) <= most for half in found.groups()):
        raise BadRequestError(400, f"{text[:60]!r} is no entry's id.", UPGRADE)


@contextlib.asynccontextmanager
async def open_ingest(redis_url: str, joining: Joining, address: str) -> AsyncIterator[Ingest]:
    redis, reader = open_redis(redis_url), open_redis(redis_url, block_s=LOOK_MS / 1000)
    pool = IngestPool(redis)
    try:
        yield Ingest(joining, pool, AwaitedCommands(reader), address)
    finally:
        await pool.close()
        await redis.aclose()
        await reader.aclose()
