"""The unix socket takes messages of the shim and the status line: a line of JSON each.

A hook that waits for a decision keeps its connection open: its second line is what the hook prints.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from adsum_collector.agents.base import Adapt, Asked
from adsum_collector.control.holds import Held
from adsum_collector.control.remote import HoldingHook, RemoteControl
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import HookDoor, ReportIntake, is_report, understand
from adsum_collector.listening.sockets import unix_peer_uid
from adsum_collector.processes import ProcessTable
from adsum_shared import WallClock
from adsum_shared.signals import Alive, AnySignal, CostReported, GaugesReported, ProcessSeen

log = logging.getLogger(__name__)

VERSION = 1
#: A hook carries its tool's whole output. What is kept of it is small.
MOST_BYTES = 16 << 20
#: A line beyond this waits until it is one of few that are read: the bound on memory.
LARGE_BYTES = 1 << 20
MOST_LARGE_AT_ONCE = 4
MOST_CONNECTIONS = 64
TIMEOUT_S = 5.0


class _ShimMessage(msgspec.Struct):
    """hold: its hook waits for what it is to print. unattended: nobody sits at its terminal."""

    v: int
    id: str
    at: int
    pid: int
    body: msgspec.Raw
    agent: str = ""
    hold: bool = False
    unattended: bool = False


class _Heard(NamedTuple):
    """One message, understood. at: when its hook fired, ms. name: the agent's."""

    door: HookDoor
    name: str
    message: _ShimMessage
    at: int
    signals: list[AnySignal]
    asked: Asked | None


_decoder: msgspec.json.Decoder[_ShimMessage] = msgspec.json.Decoder(_ShimMessage)


class LocalSocket:
    """doors: by the agent's name; whoever names none is the first's. ticks: of the first.

    now: ms of wall clock. control: holds what waits; None: nothing is held. reports: take what
    sessions say of themselves.
    """

    def __init__(
        self,
        doors: Mapping[str, HookDoor],
        ticks: Ticks,
        *,
        table: ProcessTable,
        now: WallClock,
        control: RemoteControl | None = None,
        reports: ReportIntake | None = None,
    ) -> None:
        self._doors, self._reports = doors, reports
        self._first_name, self._first = next(iter(doors.items()))
        self._control, self._ticks, self._table, self._now = control, ticks, table, now
        self._connections: set[asyncio.Task[None]] = set()
        #: Connections that have sent no whole line, oldest first. The oldest is closed for a new connection.
        self._silent: dict[asyncio.StreamWriter, None] = {}
        self._held: set[asyncio.Task[None]] = set()
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
            for task in self._held:  # whoever stops has not decided
                task.cancel()
            if self._connections:
                await asyncio.wait(self._connections, timeout=1.0)

    def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MOST_CONNECTIONS:
            self.refused["too many connections"] += 1
            gives_way = next(iter(self._silent), writer)
            self._silent.pop(gives_way, None)
            gives_way.close()
            if gives_way is writer:
                return
        self._silent[writer] = None
        task = asyncio.create_task(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        task.add_done_callback(self._held.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            uid = unix_peer_uid(writer.get_extra_info("socket"))
            if uid is not None and uid != os.getuid():
                self.refused["another user"] += 1
                return
            held = None
            async with asyncio.timeout(TIMEOUT_S):
                while held is None and (line := await self._read(reader, writer)):
                    if is_statusline(line):  # unanswered: its sender does not wait for anything
                        await self._hear(line)
                        continue
                    if self._reports is not None and is_report(line):
                        writer.write(await self._reports.answer(line) + b"\n")
                        await writer.drain()
                        continue
                    # whom it may hold for must be known
                    reply, held = await self._answer(line, may_hold=uid is not None)
                    writer.write(reply + b"\n")
                    await writer.drain()
            if held is not None and self._control is not None:
                await self._wait(held, reader, writer)
        except ValueError:
            self.refused["too long"] += 1
        except (TimeoutError, OSError):
            self.refused["broken off"] += 1
        finally:
            self._silent.pop(writer, None)
            writer.close()

    async def _wait(
        self, held: Held, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Beside the others: the bound on these is how many requests are held."""
        task = asyncio.current_task()
        assert self._control is not None and task is not None  # noqa: S101, PT018 - so it was held
        self._connections.discard(task)
        self._held.add(task)
        await self._control.wait(held, reader, writer)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """A line, or what came before the end. Raises ValueError beyond the limit."""
        self._silent[writer] = None
        line = await self._read_line(reader)
        self._silent.pop(writer, None)
        return line

    async def _read_line(self, reader: asyncio.StreamReader) -> bytes:
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

    async def _answer(self, line: bytes, *, may_hold: bool) -> tuple[bytes, Held | None]:
        try:
            seq, held = await self._take(line, may_hold=may_hold)
        except SpoolUnavailable as error:
            return self._refuse(str(error), retry=True), None
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            return self._refuse(str(error), retry=False), None
        self.accepted += 1
        self.heard_at = self._now()
        told = {"ok": True, "seq": seq}
        return msgspec.json.encode(told if held is None else {**told, "held": True}), held

    async def _hear(self, line: bytes) -> None:
        tick = await understand(self._ticks.read, line, self._now())
        signals = self._ticks.news(tick)
        try:
            await self._first.intake.accept(signals)
        except SpoolUnavailable:
            self._ticks.forget(signals)

    async def _take(self, line: bytes, *, may_hold: bool) -> tuple[int, Held | None]:
        now = self._now()
        heard = await understand(self._parse, line, now)
        door, message, signals = heard.door, heard.message, heard.signals
        started = self._table.started_of(message.pid)
        if signals and started is not None:
            session_id = signals[0].session_id
            seen = ProcessSeen(
                session_id=session_id,
                at=heard.at,
                seen=now,
                source="process",
                pid=message.pid,
                started=started,
            )
            signals.append(seen)
        control, held = self._control, None
        if control is not None and may_hold and message.hold:
            hook = HoldingHook(heard.name, message.id, heard.at, attended=not message.unattended)
            held = await control.offer(hook, heard.asked, signals)
        try:
            state = control.announced(held) if control is not None and held is not None else None
            seq = await door.intake.accept(signals, message.id, state)
        except BaseException:
            if control is not None and held is not None:
                control.withdraw(held)
            raise
        door.heard(signals)
        return seq, held

    def _parse(self, line: bytes, now: int) -> _Heard:
        message = _decoder.decode(line)
        if message.v != VERSION:
            raise ValueError(f"version {message.v}, this collector speaks {VERSION}")
        at = message.at if 0 <= now - message.at <= OLDEST_MS else now
        name = message.agent or self._first_name
        door = self._doors.get(name)
        if door is None:
            raise ValueError(f"no agent {message.agent[:40]!r} is known here")
        body = bytes(message.body)
        asked = self._control.asked(name, body) if self._control and message.hold else None
        return _Heard(door, name, message, at, list(door.hook(body, at)), asked)

    def _refuse(self, error: str, *, retry: bool) -> bytes:
        self.refused["spool" if retry else "malformed"] += 1
        return msgspec.json.encode({"ok": False, "error": error, "retry": retry})


#: Between two ticks of a session that say the same. A status line is drawn several times a second
#: while its session works.
PAUSE_MS = 10_000
#: Between two tellings of what a session has cost and how full its context is: they change with
#: every answer, and those of its subagents.
COUNT_PAUSE_MS = 2_000
COUNTS = (CostReported, GaugesReported)
Counts = dict[type[AnySignal], AnySignal]
MOST_SESSIONS = 256


#: How far a message's own time may lie back: a shim gives up after 5 s, and a tick that waited longer
#: is no sign of life any more.
OLDEST_MS = 10_000

_OURS = re.compile(rb'\{"v":\d+,"kind":"statusline')
# Taken apart by its frame, because what it frames may be no JSON, and is the adapter's to judge.
_TICK = re.compile(rb'\{"v":1,"kind":"statusline","at":(\d{1,15}),"body":(.*)\}\s*', re.DOTALL)


class _Outcome(msgspec.Struct):
    outcome: Literal["failed", "hung"]
    exit: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0


class Tick(NamedTuple):
    """at: ms, 0 if it is no sign of life. outcome: what went wrong."""

    at: int = 0
    signals: Sequence[AnySignal] = ()
    outcome: str | None = None


class _Last(NamedTuple):
    """said: without what counts, told: of what counts, by kind; both without their times."""

    at: int
    said: list[AnySignal]
    counted_at: int
    told: Counts


def is_statusline(line: bytes) -> bool:
    return _OURS.match(line) is not None


class Ticks:
    """heard_at: when the last came, ms. outcomes: what went wrong, also with the user's command."""

    def __init__(self, adapt: Adapt) -> None:
        self._adapt = adapt
        self._last: OrderedDict[str, _Last] = OrderedDict()
        self._held: dict[str, Counts] = {}
        self.heard_at = 0
        self.outcomes: Counter[str] = Counter()

    def read(self, line: bytes, now: int) -> Tick:
        """What the wrapper sent. Changes nothing, so it may run in a thread. now: ms."""
        try:
            if tick := _TICK.fullmatch(line):
                at = min(int(tick[1]), now)
                return Tick(at, self._adapt(tick[2], at)) if now - at <= OLDEST_MS else Tick()
            said = msgspec.json.decode(line, type=_Outcome)
            return Tick(outcome="hung" if said.outcome == "hung" else f"exit code {said.exit}")
        except (ValueError, msgspec.DecodeError, RecursionError):
            return Tick(outcome="malformed")

    def news(self, tick: Tick) -> Sequence[AnySignal]:
        """What of it is worth keeping."""
        at, signals, outcome = tick
        if outcome is not None:
            self.outcomes[outcome] += 1
        self.heard_at = at or self.heard_at
        if not signals:
            return []
        session_id = signals[0].session_id
        counts = {type(signal): signal for signal in signals if isinstance(signal, COUNTS)}
        others = [signal for signal in signals if not isinstance(signal, COUNTS)]
        news = self._unsaid(session_id, others, at)
        self._held[session_id] = self._held.get(session_id, {}) | counts
        self._last.move_to_end(session_id)
        if len(self._last) > MOST_SESSIONS:
            gone, _ = self._last.popitem(last=False)
            self._held.pop(gone, None)
        return [*news, *self._counted(at)]

    def _unsaid(
        self, session_id: str, signals: Sequence[AnySignal], at: int
    ) -> Sequence[AnySignal]:
        said = [_timeless(signal) for signal in signals]
        last = self._last.get(session_id)
        if last is None:
            self._last[session_id] = _Last(at, said, at - COUNT_PAUSE_MS, {})
            return signals
        repeats = last.said == said
        if repeats and 0 <= at - last.at < PAUSE_MS:
            return []
        self._last[session_id] = last._replace(at=at, said=said)
        return [s for s in signals if isinstance(s, Alive)] if repeats else signals

    def _counted(self, now: int) -> list[AnySignal]:
        """What has changed of any session, and was not told so shortly before.

        What is held back is told with the next tick, whosever it is: without a clock of its own,
        the last of a burst may wait for that. Transcripts tell the same as soon as they are read.
        """
        news: list[AnySignal] = []
        for session_id, counts in list(self._held.items()):
            last = self._last[session_id]
            changed = {
                kind: count
                for kind, count in counts.items()
                if last.told.get(kind) != _timeless(count)
            }
            if changed and 0 <= now - last.counted_at < COUNT_PAUSE_MS:
                continue
            del self._held[session_id]
            if changed:
                told = {kind: _timeless(count) for kind, count in changed.items()}
                self._last[session_id] = last._replace(counted_at=now, told=last.told | told)
                news += changed.values()
        return news

    def forget(self, signals: Sequence[AnySignal]) -> None:
        """They could not be kept: the next tick says it again."""
        self.outcomes["not kept"] += 1
        for signal in signals:
            self._last.pop(signal.session_id, None)
            self._held.pop(signal.session_id, None)


def _timeless(signal: AnySignal) -> AnySignal:
    return msgspec.structs.replace(signal, at=0, seen=0)
