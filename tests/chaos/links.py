"""A TCP link of its own between each part and what it talks to, with all that a network does wrong."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from typing import NamedTuple

from tests.chaos.ports import own_port

CHUNK = 1 << 14
#: SO_LINGER with no time to linger: the close is a reset.
_RESET = struct.pack("ii", 1, 0)
GARBAGE = b"$-7\r\n\x00\xff!garbage\r\n"


class Link:
    """targets: the ports it leads to, in turn, past those where nobody listens.

    changes: what stands in a request that changes something. asks, answers: cleared, nothing passes in that direction, and nothing is refused either.

    lose_reply_to: once a request with this in it has passed, its reply is dropped and the line cut;
    `garble` says that the reply is garbage instead. bytes_per_s: 0 = as fast as it goes.
    """

    def __init__(self, *targets: int, changes: bytes = b"XADD") -> None:
        self._targets = itertools.cycle(targets)
        self._count = len(targets)
        self.changes = changes
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = own_port()
        self.asks, self.answers = asyncio.Event(), asyncio.Event()
        self.lose_reply_to: bytes | None = None
        self.garble = False
        self.bytes_per_s = 0
        self.lost = 0
        self.most_waiting = 0
        self.most_open = 0
        self.heal()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def accept(self) -> None:
        """Listen, always on the same port."""
        if self._server is None:
            self._server = await asyncio.start_server(self._open, "127.0.0.1", self.port)

    def refuse(self) -> None:
        """As if nobody listened there; and who is connected is cut off."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset()

    def reset(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    def heal(self) -> None:
        self.asks.set()
        self.answers.set()
        self.lose_reply_to, self.garble, self.bytes_per_s = None, False, 0

    async def close(self) -> None:
        self.refuse()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.most_open = max(self.most_open, len(self._writers))
        asks: asyncio.StreamWriter | None = None
        try:
            answers, asks = await self._reach()
            await self._pass(_Ends(reader, writer, answers, asks))
        except OSError:
            pass  # nobody listens there: the caller is cut off
        finally:
            self._writers.discard(writer)
            for each in (writer, asks):
                if each is not None:
                    each.close()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in range(self._count - 1):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", next(self._targets))
        return await asyncio.open_connection("127.0.0.1", next(self._targets))

    async def _pass(self, ends: _Ends) -> None:
        self._writers.add(ends.asks)
        line = _Line()
        forth = asyncio.create_task(self._pump(ends.reader, ends.asks, line, self.asks))
        back = asyncio.create_task(self._pump(ends.answers, ends.writer, line, self.answers))
        try:
            # What was asked before the caller hung up still arrives, however late that is.
            await asyncio.wait({forth, back}, return_when=asyncio.FIRST_COMPLETED)
            if not back.done():
                ends.asks.write_eof()
                await asyncio.wait({back}, timeout=1.0)
        finally:
            for each in (forth, back):
                each.cancel()
            await asyncio.gather(forth, back, return_exceptions=True)
            self._writers.discard(ends.asks)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        line: _Line,
        passing: asyncio.Event,
    ) -> None:
        forth = passing is self.asks
        with contextlib.suppress(OSError):
            while chunk := await source.read(CHUNK):
                await passing.wait()
                if forth and self.lose_reply_to and self.lose_reply_to in chunk:
                    line.losing, self.lose_reply_to = True, None
                elif not forth and line.losing:
                    self.lost += 1
                    if self.garble:
                        sink.write(GARBAGE)
                        await sink.drain()
                    return
                await self._send(sink, chunk)

    async def _send(self, sink: asyncio.StreamWriter, chunk: bytes) -> None:
        while chunk:
            step = len(chunk)
            if self.bytes_per_s:
                step = max(1, self.bytes_per_s // 50)
                await asyncio.sleep(0.02)
            sink.write(chunk[:step])
            chunk = chunk[step:]
            waiting = sink.transport.get_write_buffer_size()
            self.most_waiting = max(self.most_waiting, waiting)
            await sink.drain()


class _Ends(NamedTuple):
    """Of one connection: towards the caller, and towards the broker."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answers: asyncio.StreamReader
    asks: asyncio.StreamWriter


class _Line:
    """What both halves of a connection know."""

    losing = False


def _reset(writer: asyncio.StreamWriter) -> None:
    bare = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
