"""The loop that looks: registry files as they change, processes as they end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from adsum_collector.agent import Adapt
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.file_events import file_events
from adsum_collector.intake import Intake
from adsum_collector.liveness import (
    VANISHED_MS,
    Entry,
    Known,
    Work,
    news_of_absence,
    news_of_entry,
    news_of_processes,
    news_of_work,
    read_entry,
)
from adsum_collector.plain_file import open_plain
from adsum_collector.processes import Process, ProcessTable, cpu_ms
from adsum_shared.signals import MetaChanged, StatusReported

log = logging.getLogger(__name__)

#: Between two looks at everything, whatever else happens.
LOOK_INTERVAL_S = 1.0
#: A file above this is nobody's registry entry.
MOST_BYTES = 64 << 10

#: Of a process id: no other digits than these, and no more of them than one has.
_ENTRY = re.compile(r"[0-9]{1,10}\.json")

Stamp = tuple[int, int, int]


class Watch:
    """adapt: for a registry file's content.

    watched: session id -> process, of all sessions that have not ended. now: ms of wall clock.
    cpu: see `cpu_ms`.
    """

    def __init__(
        self,
        intake: Intake,
        *,
        directories: Sequence[Path],
        adapt: Adapt,
        watched: Callable[[], dict[str, Process]],
        table: ProcessTable,
        now: Callable[[], int],
        cpu: Callable[[int], int | None] = cpu_ms,
    ) -> None:
        self._intake = intake
        self._directories = directories
        self._adapt = adapt
        self._watched = watched
        self._table = table
        self._now = now
        self._cpu = cpu
        self._work: dict[Process, Work] = {}
        self._known: dict[Path, Known] = {}
        self._stamps: dict[Path, Stamp] = {}
        self._events = file_events(directories, _is_entry, recursive=False)
        self._wake = asyncio.Event()
        #: Set once it is known which of the sessions that have not ended have a process.
        self.settled = asyncio.Event()
        self._exits: dict[Process, int] = {}
        self.counts: Counter[str] = Counter()
        self.files = 0

    @property
    def agent_version(self) -> str | None:
        """What the agent that started last calls its version, if its registry says so."""
        told = [
            (known.entry.process.started, signal.version)
            for known in self._known.values()
            for signal in known.entry.signals
            if isinstance(signal, MetaChanged) and signal.version
        ]
        return max(told)[1] if told else None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_files(), name="registry files")
            try:
                while True:
                    self._wake.clear()
                    wait = await self.look()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(wait):
                            await self._wake.wait()
            finally:
                for descriptor in self._exits.values():
                    self._forget_exit(descriptor)

    async def look(self) -> float:
        """One look at everything; seconds until the next is due."""
        try:
            missing = await self._look_at_files()
            await self._look_at_processes()
        except SpoolUnavailable:
            # Nothing was marked as told, so the next look tells it.
            self.counts["not accepted"] += 1
            return LOOK_INTERVAL_S
        self._await_exits()
        self.settled.set()
        return VANISHED_MS / 1000 / 2 if missing else LOOK_INTERVAL_S

    async def _look_at_files(self) -> bool:
        """True while a file is missing that may yet return."""
        present = set(self._list())
        self.files = len(present)
        for path in self._stamps.keys() - present - self._known.keys():
            del self._stamps[path]
        for path in sorted(present):
            await self._look_at(path)
        missing = False
        for path in [path for path in self._known if path not in present]:
            missing |= not await self._miss(path)
        return missing

    def _list(self) -> Iterable[Path]:
        for directory in self._directories:
            with contextlib.suppress(OSError):
                self._events.enter(str(directory))
            with contextlib.suppress(OSError), os.scandir(directory) as entries:
                # `*.key` files beside them are secrets: only plain numbers are opened
                names = [entry.name for entry in entries]
                yield from (directory / name for name in names if _is_entry(name))

    async def _look_at(self, path: Path) -> None:
        now = self._now()
        known = self._known.get(path)
        try:
            stamp = _stamp(path)
            if self._stamps.get(path) == stamp and (known is None or not known.missing_since):
                return
            entry = self._read(path, now)
        except OSError:
            return  # gone since it was listed
        if entry is None:
            self._stamps[path] = stamp
            return
        news = news_of_entry(entry, known, self._watched(), now)
        if news:
            await self._intake.accept(news)
        self._known[path] = Known(entry)
        self._stamps[path] = stamp

    def _read(self, path: Path, now: int) -> Entry | None:
        with os.fdopen(open_plain(path), "rb") as file:
            raw = file.read(MOST_BYTES)
        try:
            signals = list(self._adapt(raw, now))
        except (ValueError, RecursionError):
            # Half-written, or another program's: the next change of the file brings it again.
            self.counts["unreadable"] += 1
            return None
        pid = next((s.pid for s in signals if isinstance(s, StatusReported) and s.pid), None)
        entry = read_entry(signals, self._table.started_of(pid or int(path.stem)))
        if entry is None:
            self.counts["no such process"] += 1
        return entry

    async def _miss(self, path: Path) -> bool:
        """True once a missing file has been dealt with."""
        known, now = self._known[path], self._now()
        if not known.missing_since:
            known.missing_since = now
        if now - known.missing_since < VANISHED_MS:
            return False
        if self._table.lives(known.entry.process):
            news = news_of_absence(known, self._watched(), now)
            if news:
                await self._intake.accept(news)
        del self._known[path]
        self._stamps.pop(path, None)
        return True

    async def _look_at_processes(self) -> None:
        watched = self._watched()
        gone = {process for process in set(watched.values()) if not self._table.lives(process)}
        news = news_of_processes(watched, gone, self._now())
        at_work, work = news_of_work(self._work, watched, self._cpu, self._now())
        if news or at_work:
            await self._intake.accept([*news, *at_work])
        self._work = work

    def _await_exits(self) -> None:
        """Linux tells of a process's end at once; elsewhere the next look finds out."""
        if not hasattr(os, "pidfd_open"):
            return
        processes = set(self._watched().values())
        for process in self._exits.keys() - processes:
            self._forget_exit(self._exits.pop(process))
        for process in processes - self._exits.keys():
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(process.pid)
                self._exits[process] = descriptor
                asyncio.get_running_loop().add_reader(descriptor, self._exited, process)

    def _exited(self, process: Process) -> None:
        self._forget_exit(self._exits.pop(process))
        self._wake.set()

    @staticmethod
    def _forget_exit(descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    async def _follow_files(self) -> None:
        """Wakes the loop early. Where the system tells nothing, the loop's own pace has to do."""
        with contextlib.closing(self._events):
            async for _ in self._events.changes():
                self._wake.set()


def _stamp(path: Path) -> Stamp:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _is_entry(name: str) -> bool:
    return _ENTRY.fullmatch(name) is not None
