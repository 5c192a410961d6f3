"""A TCP proxy between client and broker that loses what a test wants lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Proxy:
    """lose_reply_to: once a request holding this passes, its reply is dropped and the line cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.lose_reply_to: bytes | None = None
        self.lost = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_server, from_server = None, None
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
            forth = asyncio.create_task(self._copy(reader, to_server))
            back = asyncio.create_task(self._copy(from_server, writer, watch=forth))
            await asyncio.wait({forth, back}, return_when=asyncio.FIRST_COMPLETED)
            forth.cancel()
            back.cancel()
        except OSError:
            pass
        finally:
            for each in (writer, to_server):
                if each is not None:
                    each.close()

    async def _copy(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        watch: asyncio.Task[None] | None = None,
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(1 << 16):
                if watch is not None and self._losing:
                    self._losing = False
                    self.lost += 1
                    return
                if watch is None and self.lose_reply_to and self.lose_reply_to in chunk:
                    self._losing = True
                    self.lose_reply_to = None
                sink.write(chunk)
                await sink.drain()

    _losing = False

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()


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
