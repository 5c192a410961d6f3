"""A client of Codex's control socket: the API of the background server that runs a home's sessions.

The wire is WebSocket over a Unix socket that only its user may open; each text frame holds one object
of JSON-RPC without the member `jsonrpc`. Both sides may ask. Codex promises no stability: what this
module relies on was seen with 0.169.0, and docs/codex.md tells how the socket behaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import WebSocketException

from adsum_collector.agents.codex.trust import CLIENT, SOCKET

WITHIN_S: Final = 10.0
#: A frame above this ends the connection: nothing that a guest is told is so long.
MOST_BYTES: Final = 8 << 20
#: Messages that nobody has taken yet. Beyond, the connection ends, and the next one begins with a look.
MOST_WAITING: Final = 2048
#: The server makes every client a listener of the subagents that start while it is there. Of what it
#: then says of each of their words nothing is needed.
UNHEARD: Final = (
    *("item/started", "item/completed", "item/agentMessage/delta", "item/plan/delta"),
    *("item/reasoning/textDelta", "item/reasoning/summaryTextDelta"),
    *("item/reasoning/summaryPartAdded", "item/commandExecution/outputDelta"),
    *("item/commandExecution/terminalInteraction", "item/fileChange/outputDelta"),
    *("item/fileChange/patchUpdated", "item/mcpToolCall/progress"),
    *("turn/diff/updated", "turn/plan/updated", "thread/tokenUsage/updated"),
    *("item/autoApprovalReview/started", "item/autoApprovalReview/completed"),
)


class ControlSocketError(Exception):
    """The server is not there, refuses, or speaks otherwise than expected. Its text says which."""


class ServerRefusedError(ControlSocketError):
    """The server says no, and has done nothing."""


class ServerMessage(msgspec.Struct):
    """What the server says of its own accord: a notification, or with an id a request.

    params: the object as it came. emitted: ms of wall clock, 0 if not told.
    """

    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | None = None
    emitted: int = 0


class _Frame(msgspec.Struct):
    """A message of the server's, or, without a method, an answer to ours."""

    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | None = None
    emitted: int = msgspec.field(name="emittedAtMs", default=0)
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Frame).decode


class ControlSocket:
    """One connection, already introduced. unreadable: frames that were neither of the two."""

    def __init__(self, wire: ClientConnection) -> None:
        self._wire = wire
        self._asked = 0
        self._awaited: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._said: asyncio.Queue[ServerMessage | None] = asyncio.Queue(MOST_WAITING)
        self.unreadable = 0

    async def call(self, method: str, params: dict[str, Any]) -> msgspec.Raw:
        """What the server answers, within WITHIN_S. Raises ControlSocketError."""
        self._asked += 1
        number = self._asked
        answer = self._awaited[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._send({"id": number, "method": method, "params": params})
                result: msgspec.Raw = await answer
                return result
        except TimeoutError:
            raise ControlSocketError(f"Codex does not answer {method}") from None
        finally:
            self._awaited.pop(number, None)

    async def answer(self, request_id: int | str, result: dict[str, Any]) -> None:
        """To a request of the server's. Whoever answers first wins. Raises ControlSocketError."""
        await self._send({"id": request_id, "result": result})

    async def notify(self, method: str) -> None:
        """Raises ControlSocketError."""
        await self._send({"method": method})

    async def next(self) -> ServerMessage:
        """The next thing the server says of its own accord. Raises ControlSocketError at the end."""
        said = await self._said.get()
        if said is None:
            raise ControlSocketError("Codex has closed the connection")
        return said

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            await self._wire.send(msgspec.json.encode(message).decode())
        except (OSError, WebSocketException) as error:
            raise ControlSocketError(str(error) or type(error).__name__) from error

    async def read(self) -> None:
        """Sorts what comes until the connection ends, and then lets everybody know who waits."""
        with contextlib.suppress(OSError, WebSocketException):
            async for frame in self._wire:
                if self._said.full():
                    break
                self._take(frame)
        for answer in self._awaited.values():
            if not answer.done():
                answer.set_exception(ControlSocketError("Codex has closed the connection"))
        if self._said.full():
            self._said.get_nowait()
        self._said.put_nowait(None)

    def _take(self, frame: str | bytes) -> None:
        try:
            said = _decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.unreadable += 1
            return
        if said.method:
            about = said.params, said.id, said.emitted
            self._said.put_nowait(ServerMessage(said.method, *about))
            return
        answer = self._awaited.get(said.id) if isinstance(said.id, int) else None
        if answer is None or answer.done():
            return
        if not said.result:
            answer.set_exception(ServerRefusedError(f"Codex refuses: {_words(said.error)}"))
        else:
            answer.set_result(said.result)


def _words(error: msgspec.Raw) -> str:
    try:
        told = msgspec.json.decode(error or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = {}
    return str(told.get("message", "no reason given"))[:200]


def socket_of(directory: Path) -> str:
    """The socket itself, below a directory that a link in this home names."""
    return os.path.realpath(directory / SOCKET)


@contextlib.asynccontextmanager
async def connected(path: str, unheard: tuple[str, ...] = UNHEARD) -> AsyncIterator[ControlSocket]:
    """A connection that has said hello, until the end of the block. Raises ControlSocketError.

    unheard: notifications that the server is asked to leave out. Nothing is subscribed to by this.
    """
    try:
        wire = await unix_connect(
            path, "ws://localhost/", open_timeout=WITHIN_S, max_size=MOST_BYTES, compression=None
        )
    except (OSError, TimeoutError, WebSocketException) as error:
        raise ControlSocketError(str(error) or type(error).__name__) from error
    socket = ControlSocket(wire)
    reading = asyncio.create_task(socket.read(), name="control socket of Codex")
    able = {"experimentalApi": True, "optOutNotificationMethods": list(unheard)}
    try:
        await socket.call("initialize", {"clientInfo": CLIENT, "capabilities": able})
        await socket.notify("initialized")
        yield socket
    finally:
        reading.cancel()
        await wire.close()
        await asyncio.wait([reading])
