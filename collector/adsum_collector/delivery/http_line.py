"""One keep-alive connection to a hub, one request at a time.

By h11 on bare streams: at rest, a request by httpx took 2.2 ms of CPU, and this takes a fifth.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

CONNECT_S = 4.0
#: Longer than a hub gives its Redis.
ANSWER_S = 8.0
#: Bytes a second at which a batch may still go.
SLOWEST = 16 << 10
#: Of an answer; ours have a few kB.
MOST_BYTES = 8 << 20
CHUNK = 1 << 16
#: What goes wrong on the way. A TLS error is an OSError.
BROKEN = (OSError, EOFError, h11.ProtocolError)


class Answer(NamedTuple):
    """headers: by name in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpLine:
    """url: without a path. Every method raises what is in BROKEN; then it is of no more use."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if tls else 80)
        self._named = parts.netloc
        self._tls = tls
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._http = h11.Connection(h11.CLIENT)

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        reader, writer = await self._open()
        length = {"host": self._named, "content-length": str(len(body))}
        request = h11.Request(method="POST", target=path, headers=[*(length | headers).items()])
        parts = (self._http.send(request), self._http.send(h11.Data(body)))
        end = self._http.send(h11.EndOfMessage())
        try:
            writer.write(b"".join(part for part in (*parts, end) if part))
        except RuntimeError as error:  # uvloop's, of a transport that closed a moment ago
            raise EOFError("Connection lost.") from error
        try:
            async with asyncio.timeout(ANSWER_S + len(body) / SLOWEST):
                await writer.drain()
                answer = await self._read(reader)
        except TimeoutError as error:
            raise TimeoutError("no answer within the time") from error
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        # What came beyond it would pass for the next answer.
        if done and not self._http.trailing_data[0]:
            self._http.start_next_cycle()
        else:
            await self.close()
        return answer

    async def close(self) -> None:
        streams, self._streams = self._streams, None
        self._http = h11.Connection(h11.CLIENT)
        if streams is not None:
            streams[1].transport.abort()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None:
            reader, writer = self._streams
            broken = reader.at_eof() or reader.exception() is not None or writer.is_closing()
            if broken or await _has_more(reader):
                await self.close()  # an idle connection was closed, as servers do
        if self._streams is None:
            name = self._host if self._tls else None
            try:
                async with asyncio.timeout(CONNECT_S):
                    self._streams = await asyncio.open_connection(
                        self._host, self._port, ssl=self._tls, server_hostname=name
                    )
            except TimeoutError as error:
                raise TimeoutError("it does not answer") from error
        return self._streams

    async def _read(self, reader: asyncio.StreamReader) -> Answer:
        head: h11.Response | None = None
        body = b""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                chunk = await reader.read(CHUNK)
                if not chunk and head is None:
                    raise EOFError("closed before it answered")
                self._http.receive_data(chunk)
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MOST_BYTES:
                    raise OSError("its answer has no end")
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise EOFError("closed before it answered")
        if head is None:
            raise EOFError("closed before it answered")
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        return Answer(head.status_code, named, body)


async def _has_more(reader: asyncio.StreamReader) -> bool:
    """Of a line at rest: what comes unasked, as a proxy's word of a time-out, answers nothing."""
    try:
        async with asyncio.timeout(0):
            await reader.read(1)
    except TimeoutError:
        return False
    except OSError:  # it breaks in this moment
        return True
    return True
