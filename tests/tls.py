"""TLS before a hub, as a reverse proxy ends it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def tls_before(
    port: int,
    tls_port: int,
    certificate: Path,
    key: Path,
    *,
    address: str = "localhost",
    inside: contextlib.AbstractContextManager[object] | None = None,
) -> Iterator[str]:
    """The URL. inside: entered by the thread that listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop = asyncio.new_event_loop()

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while part := await source.read(65536):
                sink.write(part)
                await sink.drain()
        finally:
            sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            far = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pump(reader, far[1]), pump(far[0], writer), return_exceptions=True)

    def run() -> None:
        with inside or contextlib.nullcontext():
            loop.run_forever()

    thread = threading.Thread(target=run)
    thread.start()
    opening = asyncio.start_server(serve, address, tls_port, ssl=context)
    server = asyncio.run_coroutine_threadsafe(opening, loop).result(5)

    async def end() -> None:
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    try:
        yield f"https://{address}" + ("" if tls_port == 443 else f":{tls_port}")
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
