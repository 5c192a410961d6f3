"""Connections over real sockets, bounded before anything of them reaches an application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from adsum_shared import bounded_http as module
from adsum_shared.bounded_http import MOST_AHEAD, MOST_HEAD_BYTES, bounded_http
from tests.support import wait_until

POST = b"POST /take HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /echo HTTP/1.1\r\nHost: x\r\n"
WHOLE = GET + b"\r\n"
OK = b"HTTP/1.1 200 OK"


class Served:
    """answers: to what it answers. Requests of /wait are answered once `released` is set."""

    def __init__(self, most: int, per_address: int | None) -> None:
        self.bodies: list[bytes] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.gone = 0
        self.released = asyncio.Event()
        self.bound = socket.create_server(("127.0.0.1", 0))
        http = bounded_http(most, 64, per_address)
        self.limits: module.ConnectionLimits = http.keywords["limits"]
        config = uvicorn.Config(
            self.answer, interface="asgi3", http=http, lifespan="off", log_config=None, ws="none"
        )
        self.server = uvicorn.Server(config)

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        if scope["path"] == "/wait":
            await self.released.wait()
        if scope["path"] == "/large":
            body = b"x" * 50_000_000
        if scope["path"] == "/take":
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.gone += 1
                    return
                body += message["body"]
                more = message["more_body"]
            self.bodies.append(body)
            body = b""
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def connect(
        self, *sent: bytes, of: str = "127.0.0.1"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            *self.bound.getsockname(), local_addr=(of, 0)
        )
        self._writers.append(writer)
        for each in sent:
            writer.write(each)
        return reader, writer

    async def end(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def ask(self, *sent: bytes) -> bytes:
        """The beginning of all it answers until it closes."""
        reader, writer = await self.connect(*sent)
        return await self.rest(reader, writer)

    @staticmethod
    async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        answer = b""
        with contextlib.suppress(ConnectionError):
            try:
                async with asyncio.timeout(8):
                    while part := await reader.read(65_536):
                        answer += part
            except TimeoutError:
                raise AssertionError("the connection is still open after 8 s") from None
        writer.transport.abort()
        return answer[:4000]

    @property
    def count(self) -> int:
        return len(self.server.server_state.connections)


@contextlib.asynccontextmanager
async def serving(most: int = 100, per_address: int | None = None) -> AsyncIterator[Served]:
    served = Served(most, per_address)
    task = asyncio.create_task(served.server.serve(sockets=[served.bound]))
    await wait_until(lambda: served.server.started)
    try:
        yield served
    finally:
        served.released.set()
        await served.end()
        served.server.should_exit = True
        await task
        served.bound.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as found:
        yield found


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        GET + b"X: " + b"x" * 200_000,
        GET + b"a:\r\n" * 50_000,
        b"GET /" + b"x" * 200_000,
        b"\r\n" * 100_000,
        CHUNKED + b"0\r\nX: " + b"x" * 200_000,
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 50_000,
        CHUNKED + b"1;" + b"x" * 200_000,
    ],
    ids=["header", "headers", "url", "lines", "trailer", "trailers", "extension"],
)
@pytest.mark.parametrize("slice_", [4096, 1_000_000])
async def test_what_is_no_body_is_bounded(served: Served, sent: bytes, slice_: int) -> None:
    reader, writer = await served.connect(sent[:slice_])
    with contextlib.suppress(ConnectionError):
        for at in range(slice_, len(sent), slice_):
            writer.write(sent[at : at + slice_])
            await writer.drain()
    await wait_until(lambda: not served.count)
    await served.rest(reader, writer)

    assert sum(served.limits.closed.values()) == 1


async def test_a_head_up_to_the_bound_passes_and_a_longer_one_is_told_so(served: Served) -> None:
    room = MOST_HEAD_BYTES - len(GET) - len(b"X: \r\nConnection: close\r\n\r\n") - 1
    passes = await served.ask(GET + b"X: " + b"x" * room + b"\r\nConnection: close\r\n\r\n")
    refused = await served.ask(GET + b"X: " + b"x" * MOST_HEAD_BYTES)

    assert passes.startswith(OK)
    assert refused.startswith(b"HTTP/1.1 431 ")
    assert b"more than 32 kB" in refused


async def test_large_bodies_pass_one_after_the_other_on_one_connection(served: Served) -> None:
    bodies = [b"x" * 3_000_000, b"y" * 40_000, b"z"]
    requests = [POST + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies]
    reader, writer = await served.connect()
    for request in requests:
        writer.write(request)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(OK)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in [b"q" * 9] * 20_000)
    writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(OK)
    writer.close()

    assert served.bodies == [*bodies, b"q" * 180_000]
    assert not served.limits.closed


@pytest.mark.parametrize("first", [b"", WHOLE], ids=["first", "next"])
async def test_a_head_that_dribbles_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr(module, "HEAD_S", 0.3)
    reader, writer = await served.connect(first)
    if first:
        await reader.readuntil(b"\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        for byte in GET * 3:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
            if served.limits.closed:
                break

    assert served.limits.closed
    assert (await served.rest(reader, writer)).startswith(b"HTTP/1.1 408 ")


async def test_one_that_asks_nothing_is_closed_and_not_logged(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEAD_S", 0.1)

    assert await served.ask() == b""
    assert not served.limits.closed


async def test_one_that_waits_for_its_answer_is_not_hurried(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEAD_S", 0.05)
    monkeypatch.setattr(module, "GRACE_S", 0.01)
    monkeypatch.setattr(module, "STALL_S", 0.05)
    reader, writer = await served.connect(GET.replace(b"echo", b"wait") + b"\r\n")
    await asyncio.sleep(0.3)
    served.released.set()

    assert (await reader.readuntil(b"\r\n\r\n")).startswith(OK)
    writer.close()


async def test_a_body_that_dribbles_is_given_up_and_one_that_comes_is_not(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STALL_S", 0.2)
    monkeypatch.setattr(module, "LEAST_BYTES", 1000)
    slow, slow_writer = await served.connect(POST + b"Content-Length: 100000\r\n\r\n")
    reader, writer = await served.connect(POST + b"Content-Length: 100000\r\n\r\n")
    for _ in range(50):
        writer.write(b"x" * 2000)
        if not slow_writer.transport.is_closing():
            slow_writer.write(b"x")
        await asyncio.sleep(0.02)

    assert (await reader.readuntil(b"\r\n\r\n")).startswith(OK)
    assert await served.rest(slow, slow_writer) == b""
    assert served.gone == 1
    writer.close()


async def test_the_rest_of_a_body_that_was_answered_is_not_read_for_ever(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEFTOVER_S", 0.2)
    reader, writer = await served.connect(
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    )
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(OK)
    for _ in range(200):
        if (
            writer.transport.is_closing()
        ):  # by an end, or by a reset where our bytes met a closed socket
            break
        writer.write(b"x" * 100)
        await asyncio.sleep(0.01)

    assert writer.transport.is_closing()


async def test_after_a_body_that_was_answered_early_the_connection_serves_and_then_ends(
    served: Served,
) -> None:
    served.server.config.timeout_keep_alive = 1
    reader, writer = await served.connect(
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"
    )
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"cde" + WHOLE)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(OK)
    writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"cde")

    assert await served.rest(reader, writer) == b""  # the idle time-out of the server holds


async def test_an_answer_that_nobody_takes_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STALL_S", 0.2)
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(served.bound.getsockname())
        stuck.sendall(GET.replace(b"echo", b"large") + b"\r\n")
        await wait_until(lambda: served.limits.closed["its answer was taken too slowly"] == 1)
        await wait_until(lambda: not served.count)


async def test_requests_ahead_of_their_answers_are_bounded(served: Served) -> None:
    waiting = GET.replace(b"echo", b"wait") + b"\r\n"
    fine, fine_writer = await served.connect(waiting * MOST_AHEAD)
    await served.ask(waiting * (MOST_AHEAD + 5))
    served.released.set()

    assert sum(served.limits.closed.values()) == 1
    for _ in range(MOST_AHEAD):
        assert (await fine.readuntil(b"\r\n\r\n")).startswith(OK)
    fine_writer.close()


async def test_when_full_the_oldest_that_has_asked_nothing_gives_way_then_the_longest_idle(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(most=20) as served:
        busy, _busy_writer = await served.connect(GET.replace(b"echo", b"wait") + b"\r\n")
        idle, idle_writer = await served.connect(WHOLE)
        await idle.readuntil(b"\r\n\r\n")
        half = [await served.connect(GET) for _ in range(18)]
        await wait_until(lambda: served.count == 20)
        asked = [await served.connect(WHOLE) for _ in range(18)]
        for reader, _ in asked:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(OK)
        assert all([await served.rest(*each) == b"" for each in half])
        idle_writer.write(WHOLE)
        assert (await idle.readuntil(b"\r\n\r\n")).startswith(OK)
        await served.connect(WHOLE)
        await wait_until(asked[0][0].at_eof)
        served.released.set()

        assert (await busy.readuntil(b"\r\n\r\n")).startswith(OK)
        assert served.count <= 20
    said = [each for each in caplog.messages if "20 connections are open" in each]
    assert len(said) == 1


async def test_when_all_are_at_work_a_new_one_is_turned_away() -> None:
    async with serving(most=16) as served:
        for _ in range(16):
            await served.connect(GET.replace(b"echo", b"wait") + b"\r\n")
        await wait_until(lambda: served.count == 16)

        assert await served.ask(WHOLE) == b""
        assert len(served.server.server_state.tasks) == 16


async def test_an_address_beyond_its_share_closes_its_own_and_loopback_has_no_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(most=40, per_address=8) as served:
        local = [await served.connect(GET) for _ in range(12)]
        await wait_until(lambda: served.count == 12)
        monkeypatch.setattr(module, "_is_shared", lambda address: address == "127.0.0.2")
        other, other_writer = await served.connect(GET, of="127.0.0.2")
        for _ in range(12):
            await served.connect(GET)
        await wait_until(local[11][0].at_eof)
        other_writer.write(b"\r\n")

        assert (await other.readuntil(b"\r\n\r\n")).startswith(OK)
        assert served.limits.closed.total() == 12


def test_the_soft_limit_of_files_is_raised_and_bounds_the_connections() -> None:
    code = (
        "import resource\n"
        "from adsum_shared.bounded_http import bounded_http\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 600))\n"
        "limits = bounded_http(4096, 256, 512).keywords['limits']\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], limits._most, limits._most_per_address)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert found.split() == ["600", "344", "172"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 600
