"""The unix socket: the door of the shim and of the status line, a line of JSON a message."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from adsum_collector.agent import Adapt
from adsum_collector.errors import SpoolUnavailable, StartError
from adsum_collector.intake import Intake
from adsum_collector.ticks import Ticks, is_statusline
from adsum_shared.signals import AnySignal, ProcessSeen

log = logging.getLogger(__name__)

FILE = "collector.sock"
VERSION = 1
#: A hook carries its tool's whole output. What is kept of it is small.
MOST_BYTES = 16 << 20
#: A line beyond this waits until it is one of few that are read: the bound on memory.
LARGE_BYTES = 1 << 20
MOST_LARGE_AT_ONCE = 4
MOST_CONNECTIONS = 64
TIMEOUT_S = 5.0
#: How far a message's own time may lie back: a shim gives up after 5 s.
OLDEST_MS = 10_000


class _Message(msgspec.Struct):
    v: int
    id: str
    at: int
    pid: int
    body: msgspec.Raw
    ppid: int = 0
    env: dict[str, str] = {}


_decoder: msgspec.json.Decoder[_Message] = msgspec.json.Decoder(_Message)


class LocalSocket:
    """started_of: a living process's start time in ms, None if it is gone. now: ms.

    heard: told what a hook said once that is accepted; returns at once.
    """

    def __init__(
        self,
        intake: Intake,
        adapt: Adapt,
        ticks: Ticks,
        *,
        started_of: Callable[[int], int | None],
        peer_uid: Callable[[socket.socket], int | None],
        now: Callable[[], int],
        heard: Callable[[Sequence[AnySignal]], None] = lambda _signals: None,
    ) -> None:
        self._intake = intake
        self._adapt = adapt
        self._ticks = ticks
        self._started_of = started_of
        self._peer_uid = peer_uid
        self._now = now
        self._heard = heard
        self._connections: set[asyncio.Task[None]] = set()
        self._large_slots = asyncio.Semaphore(MOST_LARGE_AT_ONCE)
        self.accepted = 0
        self.heard_at = 0
        self.refused: Counter[str] = Counter()

    async def serve(self, listener: socket.socket) -> None:
        """Until cancelled; then connections end with what they are at."""
        server = await asyncio.start_unix_server(self._open, sock=listener, limit=LARGE_BYTES)
        try:
            await server.serve_forever()
        finally:
            server.close()
            if self._connections:
                await asyncio.wait(self._connections, timeout=1.0)

    def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MOST_CONNECTIONS:
            self.refused["too many connections"] += 1
            writer.close()
            return
        task = asyncio.create_task(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            uid = self._peer_uid(writer.get_extra_info("socket"))
            if uid is not None and uid != os.getuid():
                self.refused["another user"] += 1
                return
            async with asyncio.timeout(TIMEOUT_S):
                while line := await self._read(reader):
                    if is_statusline(line):  # unanswered: its sender does not wait for anything
                        await self._hear(line)
                        continue
                    writer.write(await self._answer(line) + b"\n")
                    await writer.drain()
        except ValueError:
            self.refused["too long"] += 1
        except (TimeoutError, OSError):
            self.refused["broken off"] += 1
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """A line, or what came before the end. Raises ValueError beyond the limit."""
        try:
            return await reader.readuntil()
        except asyncio.IncompleteReadError as error:
            return error.partial
        except asyncio.LimitOverrunError as error:
            held = error.consumed
        async with self._large_slots:
            line = bytearray()
            while True:
                line += await reader.readexactly(held)
                if len(line) > MOST_BYTES:
                    raise ValueError("too long")
                try:
                    return bytes(line + await reader.readuntil())
                except asyncio.IncompleteReadError as error:
                    return bytes(line + error.partial)
                except asyncio.LimitOverrunError as error:
                    held = error.consumed

    async def _answer(self, line: bytes) -> bytes:
        try:
            seq = await self._take(line)
        except SpoolUnavailable as error:
            return self._refuse(str(error), retry=True)
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            return self._refuse(str(error), retry=False)
        self.accepted += 1
        self.heard_at = self._now()
        return msgspec.json.encode({"ok": True, "seq": seq})

    async def _hear(self, line: bytes) -> None:
        signals = self._ticks.hear(line, self._now())
        try:
            await self._intake.accept(signals)
        except SpoolUnavailable:
            self._ticks.forget(signals)

    async def _take(self, line: bytes) -> int:
        message = _decoder.decode(line)
        if message.v != VERSION:
            raise ValueError(f"version {message.v}, this collector speaks {VERSION}")
        now = self._now()
        at = message.at if 0 <= now - message.at <= OLDEST_MS else now
        signals = list(self._adapt(bytes(message.body), at))
        started = self._started_of(message.pid)
        if signals and started is not None:
            session_id = signals[0].session_id
            seen = ProcessSeen(
                session_id=session_id,
                at=at,
                seen=now,
                source="process",
                pid=message.pid,
                started=started,
            )
            signals.append(seen)
        seq = await self._intake.accept(signals, message.id)
        self._heard(signals)
        return seq

    def _refuse(self, error: str, *, retry: bool) -> bytes:
        self.refused["spool" if retry else "malformed"] += 1
        return msgspec.json.encode({"ok": False, "error": error, "retry": retry})


def listen(path: Path) -> socket.socket:
    """Bound and private. Replaces the file a dead collector left; raises StartError for a live one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and _is_answered(path):
            raise StartError(
                f"Another program listens on {path}. Stop it, or name another ADSUM_STATE_DIR."
            )
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(MOST_CONNECTIONS)
    except StartError:
        listener.close()
        raise
    except OSError as error:
        listener.close()
        raise StartError(
            f"The socket {path} cannot be opened ({error}). A path longer than about 100 bytes is "
            "too long for the system: then name a shorter ADSUM_STATE_DIR."
        ) from error
    listener.settimeout(0)
    return listener


def _is_answered(path: Path) -> bool:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
