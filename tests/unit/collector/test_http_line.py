"""The connection to a hub: kept, closed, cut, and an answer that is none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import adsum_collector.delivery.http_line as module
from adsum_collector.delivery.http_line import BROKEN, HttpLine

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nretry-after: 7\r\n\r\nok"
CHUNKED = b"HTTP/1.1 503 no\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


class Server:
    """Answers each request with the next of `answers`; None: it closes without one."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0
        self.serving: list[asyncio.Task[None] | None] = []
        self.after: Callable[[asyncio.StreamWriter], None] = lambda _: None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.serving.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                self.after(writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(*answers: bytes | None) -> AsyncIterator[tuple[Server, HttpLine]]:
    server = Server(*answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    line = HttpLine(f"http://127.0.0.1:{server.port}", None)
    try:
        yield server, line
    finally:
        await line.close()
        listening.close()
        await asyncio.gather(*(task for task in server.serving if task is not None))


async def test_one_connection_serves_all_requests() -> None:
    async with served(OK, CHUNKED, OK) as (server, line):
        answers = [await line.post("/ingest", {"x": "y"}, b"a" * n) for n in (0, 3, 1 << 20)]

        assert [(each.status, each.body) for each in answers] == [
            (200, b"ok"),
            (503, b"ok"),
            (200, b"ok"),
        ]
        assert answers[0].headers["retry-after"] == "7"
        assert server.connections == 1
        first = server.requests[1].lower()
        assert first.startswith(b"post /ingest http/1.1\r\n")
        assert b"host: 127.0.0.1:%d\r\n" % server.port in first
        assert first.endswith(b"x: y\r\n\r\naaa")


async def test_an_idle_connection_that_the_server_closed_is_opened_anew() -> None:
    async with served(OK, OK) as (server, line):
        server.after = lambda writer: writer.close()
        await line.post("/", {}, b"")
        await asyncio.sleep(0.05)

        assert (await line.post("/", {}, b"")).status == 200
        assert server.connections == 2


async def test_an_answer_that_ends_the_connection_is_still_one() -> None:
    closing = b"HTTP/1.1 401 no\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno"
    async with served(closing, OK) as (server, line):
        assert (await line.post("/", {}, b"")).status == 401
        assert (await line.post("/", {}, b"")).status == 200
        assert server.connections == 2


async def test_what_comes_beyond_an_answer_is_not_the_next_one() -> None:
    async with served(OK + OK.replace(b"200 OK", b"299 no"), OK) as (server, line):
        assert (await line.post("/", {}, b"")).status == 200
        assert (await line.post("/", {}, b"")).status == 200
        assert server.connections == 2


async def test_what_comes_unasked_on_an_idle_line_answers_nothing() -> None:
    """As a proxy says that it waited too long."""
    writers: list[asyncio.StreamWriter] = []
    async with served(OK, OK) as (server, line):
        server.after = writers.append
        await line.post("/", {}, b"")
        writers[0].write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await asyncio.sleep(0.05)

        assert (await line.post("/", {}, b"")).status == 200
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [None, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", b"-ERR\r\n\r\n", b"\x00\xff\r\n\r\n"],
    ids=["none", "half", "another protocol", "garbage"],
)
async def test_an_answer_that_is_none_breaks_the_line(answer: bytes | None) -> None:
    async with served(answer) as (server, line):
        server.after = lambda writer: writer.close()
        with pytest.raises(BROKEN):
            await line.post("/", {}, b"")


async def test_a_server_that_is_silent_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.05)
    async with served(b"") as (_, line):
        with pytest.raises(TimeoutError, match="no answer"):
            await line.post("/", {}, b"")


async def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    async with served(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n" + b"x" * 99) as (_, line):
        with pytest.raises(OSError, match="no end"):
            await line.post("/", {}, b"")


async def test_a_write_that_the_loop_refuses_is_a_line_that_broke() -> None:
    """uvloop says RuntimeError of a transport that closed a moment ago, which would end the process."""

    class Closed:
        transport: Any = None

        def write(self, _: bytes) -> None:
            raise RuntimeError("the handler is closed")

        def is_closing(self) -> bool:
            return False

    async with served(OK) as (_, line):
        await line.post("/", {}, b"")
        assert line._streams is not None
        reader, writer = line._streams
        line._streams = reader, Closed()  # type: ignore[assignment] # as far as it is used
        with pytest.raises(BROKEN, match=r"Connection lost\."):
            await line.post("/", {}, b"")
        line._streams = reader, writer
