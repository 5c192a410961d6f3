"""A TCP proxy between client and broker that loses, delays or spoils what a test wants it to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import Literal

#: lost: the reply is dropped and the line cut. reset: half of it, then RST. garbage: other bytes.
Spoiled = Literal["lost", "reset", "garbage"]

GARBAGE = b"\x00\xff:not a reply\r\n*-7\r\n$999999999999999999999\r\n+OK\r\n"


class Proxy:
    """lose_reply_to: once a request holding this passes, its reply is spoiled in the way of `how`.

    byte_s: seconds that each byte of a reply takes.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.lose_reply_to: bytes | None = None
        self.how: Spoiled = "lost"
        self.byte_s = 0.0
        self.lost = 0
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def go_silent(self) -> None:
        """As if the cable was pulled: nobody is told, nothing arrives. New connections are well."""
        for link in self._links:
            link.silent = True

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            link = _Link(self, reader, writer)
            self._links.add(link)
            try:
                await link.relay(self._target)
            finally:
                self._links.discard(link)

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()


class _Link:
    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._client = reader, writer
        self._spoils = False
        self.silent = False

    async def relay(self, port: int) -> None:
        reader, writer = self._client
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        try:
            forth = asyncio.create_task(self._forward(reader, to_server))
            back = asyncio.create_task(self._answer(from_server, writer))
            await asyncio.wait({forth, back}, return_when=asyncio.FIRST_COMPLETED)
            forth.cancel()
            back.cancel()
        finally:
            writer.close()
            to_server.close()

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        proxy = self._proxy
        with contextlib.suppress(OSError):
            while chunk := await source.read(1 << 16):
                if self.silent:
                    continue
                if proxy.lose_reply_to and proxy.lose_reply_to in chunk:
                    self._spoils, proxy.lose_reply_to = True, None
                sink.write(chunk)
                await sink.drain()

    async def _answer(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(1 << 16):
                if self.silent:
                    continue
                if self._spoils:
                    await self._spoil(chunk, sink)
                    return
                for at in range(len(chunk)) if self._proxy.byte_s else ():
                    sink.write(chunk[at : at + 1])
                    await asyncio.sleep(self._proxy.byte_s)
                if not self._proxy.byte_s:
                    sink.write(chunk)
                await sink.drain()

    async def _spoil(self, chunk: bytes, sink: asyncio.StreamWriter) -> None:
        self._proxy.lost += 1
        if self._proxy.how == "garbage":
            sink.write(GARBAGE)
            await sink.drain()
        elif self._proxy.how == "reset":
            sink.write(chunk[: len(chunk) // 2])
            await sink.drain()
            line: socket.socket = sink.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sink.transport.abort()


@contextlib.asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.open, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.close()
