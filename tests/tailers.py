"""A tailer for tests: real files, a real spool, and a stand-in for the agent's adapter."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import Intake
from adsum_collector.processes import WatchedSessions
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_collector.transcripts.tailer import Tailer
from adsum_shared.signals import Alive, AnySignal, MetaChanged, ProcessSeen
from tests.support import wait_until
from tests.transcripts import STAND_IN

DAY_S = 24 * 3600


class SpyIntake(Intake):
    full = False
    room = 1 << 30  # how often it accepts before it is full

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool, lambda signal: signal)
        self.taken: list[AnySignal] = []

    async def accept(
        self,
        signals: Sequence[AnySignal],
        message_id: str | None = None,
        state: Mapping[str, bytes | None] | None = None,
    ) -> int:
        if self.full or not self.room:
            raise SpoolUnavailable("full")
        self.room -= 1
        number = await super().accept(signals, message_id, state)
        self.taken += signals
        return number


class Rig:
    transcripts = STAND_IN

    def __init__(self, spool: Spool, projects: Path) -> None:
        self.spool = spool
        self.projects = projects
        self.intake = SpyIntake(spool)
        self.settled = asyncio.Event()
        self.clock_off_ms = 0
        self._running: asyncio.Task[None] | None = None
        self.tailer = self._tailer()

    def _tailer(self) -> Tailer:
        return Tailer(
            self.intake,
            self.transcripts,
            directories=[self.projects],
            watched=WatchedSessions(self.spool),
            settled=self.settled,
            now=lambda: time.time_ns() // 1_000_000 + self.clock_off_ms,
        )

    def start(self) -> None:
        self.settled.set()
        self._running = asyncio.create_task(self.tailer.run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
            self._running = None

    async def restart(self) -> None:
        """As a new run of the collector would: nothing but the spool is kept."""
        await self.stop()
        self.intake.taken.clear()
        self.tailer = self._tailer()
        self.start()

    async def walked(self) -> None:
        """All files that are there have been seen."""
        await wait_until(lambda: self.tailer._known.stamps or not any(self.projects.rglob("*")))
        await wait_until(lambda: not self.tailer._ready and not self.tailer._due)

    def main(self, session: str = "s1", project: str = "p") -> Path:
        return self.projects / project / f"{session}.jsonl"

    def child(self, name: str, session: str = "s1") -> Path:
        return self.projects / "p" / session / "subagents" / f"agent-{name}.jsonl"

    def hook(self, session: str = "s1", path: Path | None = None) -> None:
        said: list[AnySignal] = [Alive(session_id=session, at=1, seen=1)]
        if path is not None:
            said.append(MetaChanged(session_id=session, at=1, seen=1, transcript=str(path)))
        self.tailer.heard(said)

    async def give_process(self, session: str = "s1") -> None:
        seen = ProcessSeen(session_id=session, at=1, seen=1, source="process", pid=os.getpid())
        await self.intake.accept([seen])
        self.intake.taken.clear()

    def notes(self) -> list[Any]:
        return [signal.note for signal in self.intake.taken if isinstance(signal, Alive)]

    def of(self, kind: type[AnySignal]) -> list[Any]:
        return [signal for signal in self.intake.taken if isinstance(signal, kind)]


def age(path: Path, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(path, (at, at))


@contextlib.asynccontextmanager
async def open_rig(directory: Path, kind: type[Rig] = Rig) -> AsyncIterator[Rig]:
    spool = await Spool.open(directory / "spool", SpoolLimits(min_free_bytes=0))
    rig = kind(spool, directory / "claude" / "projects")
    rig.projects.mkdir(parents=True)
    try:
        yield rig
    finally:
        await rig.stop()
        await spool.close()
