"""The tailer: lines that the agent adds to its transcripts become signals, soon and once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from adsum_collector.agent import Transcripts
from adsum_collector.agents.records import TranscriptFile
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.file_events import file_events
from adsum_collector.intake import Intake
from adsum_collector.plain_file import MOST_TRANSCRIPT_BYTES
from adsum_collector.processes import Process
from adsum_collector.transcripts.cursors import Stamp, outdated
from adsum_collector.transcripts.followed import File, Followed
from adsum_collector.transcripts.reader import FileThreads, TranscriptReader
from adsum_collector.transcripts.walk import SUFFIX, look_at, mains_of, newest_first
from adsum_shared.signals import AnySignal, MetaChanged

#: Between looks after a hook: the line it is about becomes visible 0.1 to 0.2 s later.
AFTER_HOOK_S = (0.06, 0.09, 0.25)
#: Between two looks at the files of living sessions, for file systems that tell no changes.
ROUND_S = 2.0
#: Between two walks over all files; and as many times what a walk takes, if that is more.
WALK_S = 30.0
WALK_SHARE = 2000
PRUNE_S = 3600.0
#: Called with every file that is noticed, whose it is if it is somebody's, and how it is now; None:
#: it is gone.
Observe = Callable[[str, TranscriptFile | None, Stamp | None], None]
#: How long the first walk waits while the files of living sessions are read; they may be far behind.
LIVING_S = 1.0


class Tailer:
    """directories: where `transcripts` knows files by their path below. now: ms of wall clock.

    state: the spool's. watched: session id -> process, of all sessions that have not ended.
    settled: set once it is known which of those processes live.
    """

    def __init__(
        self,
        intake: Intake,
        transcripts: Transcripts,
        *,
        directories: Sequence[Path],
        state: Callable[[], Mapping[str, bytes]],
        watched: Callable[[], Mapping[str, Process]],
        settled: asyncio.Event,
        now: Callable[[], int],
    ) -> None:
        self._intake = intake
        self._state = state
        self._watched = watched
        self._settled = settled
        self._now = now
        self._roots = [str(directory) for directory in directories]
        self._known = Followed(self._roots, transcripts.file_of, now())
        self._events = file_events(directories, lambda name: name.endswith(SUFFIX), recursive=True)
        self._threads = FileThreads()
        self.faults: Counter[str] = Counter()
        #: Paths of files that are not read for their size, and that.
        self.too_long: dict[str, int] = {}
        self.observe: Observe = lambda _path, _whose, _stamp: None
        self._reader = TranscriptReader(
            intake, transcripts, state=state, now=now, threads=self._threads, faults=self.faults
        )
        self._ready: dict[str, None] = {}
        self._due: dict[str, None] = {}
        self._unread: set[str] = set()
        self._absent: set[str] = set()
        self._unwatched: set[str] = set()
        self._looks: dict[str, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    @property
    def files(self) -> int:
        return len(self._known.files)

    @property
    def read_at(self) -> int:
        """When a line was read last, ms; 0 if none was."""
        return self._reader.read_at

    def lives(self, session_id: str) -> bool:
        return self._known.lives(session_id)

    def heard(self, signals: Sequence[AnySignal]) -> None:
        """What a hook said, once it is answered: its session's files may have grown."""
        for signal in signals:
            if isinstance(signal, MetaChanged) and signal.transcript:
                path = self._known.inside(signal.transcript)
                if path is None:
                    self.faults["outside"] += 1
                else:
                    self._known.expect(signal.session_id, path)
        for session_id in {signal.session_id for signal in signals}:
            self._known.hear(session_id, self._now())
            if timer := self._looks.pop(session_id, None):
                timer.cancel()
            self._look_at_session(session_id, 0)

    async def run(self) -> None:
        await self._settled.wait()
        try:
            await self._read_living()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(), name="transcript events")
                tasks.create_task(self._go_round(), name="transcript rounds")
                while True:
                    await self._step()
        finally:
            self._threads.close()

    async def _read_living(self) -> None:
        """Who has a process is shown first, however much history there is to be walked over."""
        self._known.watch(self._watched().keys())
        told = await self._threads.run(mains_of, self._roots, list(self._watched()))
        await self._notice(newest_first(told))
        loop = asyncio.get_running_loop()
        enough = loop.time() + LIVING_S
        while self._due and loop.time() < enough:
            await self._read_next()

    def _look_at_session(self, session_id: str, looks: int) -> None:
        self._look_soon(self._known.places(session_id))
        if looks < len(AFTER_HOOK_S):
            self._looks[session_id] = asyncio.get_running_loop().call_later(
                AFTER_HOOK_S[looks], self._look_at_session, session_id, looks + 1
            )
        else:
            self._looks.pop(session_id, None)

    def _look_soon(self, paths: Iterable[str]) -> None:
        self._ready.update(dict.fromkeys(paths))
        self._wake.set()

    async def _step(self) -> None:
        if self._ready:
            ready, self._ready = self._ready, {}
            told = await self._look_at(ready)
            self._absent -= {path for path in ready if path not in told or told[path] is not None}
            await self._notice(told)
        if self._due:
            await self._read_next()
        elif not self._ready:
            self._wake.clear()
            await self._wake.wait()

    async def _follow(self) -> None:
        with contextlib.closing(self._events):
            async for paths in self._events.changes():
                self._look_soon(paths)

    async def _go_round(self) -> None:
        loop = asyncio.get_running_loop()
        walk_at = prune_at = loop.time()
        while True:
            self._known.watch(self._watched().keys())
            places = map(self._known.places, self._known.recent(self._now()))
            if soon := self._absent.union(*places):
                self._look_soon(soon)
            began = loop.time()
            if began >= walk_at:
                present = await self._walk()
                walk_at = loop.time() + max(WALK_S, WALK_SHARE * (loop.time() - began))
                if began >= prune_at:
                    await self._prune(present)
                    prune_at = began + PRUNE_S
            self._look_at_unread()
            await asyncio.sleep(ROUND_S)

    async def _walk(self) -> set[str] | None:
        """All files there are; None if that cannot be said."""
        told, found = await self._threads.run(look_at, self._roots, self._enter, self._known.stamps)
        self._absent = {root for root in self._roots if root in told}
        for path in self._known.files.keys() - found:
            told.setdefault(path, None)
        await self._notice(newest_first(told))
        return None if self._absent else found

    async def _look_at(self, paths: Iterable[str]) -> dict[str, Stamp | None]:
        return (await self._threads.run(look_at, paths, self._enter))[0]

    def _enter(self, directory: str) -> None:
        """In a thread. Without events there are still hooks and rounds."""
        try:
            self._events.enter(directory)
        except FileNotFoundError:
            pass
        except OSError:
            # entered again at each walk
            self.faults["unwatched"] += directory not in self._unwatched
            self._unwatched.add(directory)

    async def _notice(self, told: Mapping[str, Stamp | None]) -> None:
        told = await self._known.by_one_path(told, self._look_at)
        written = await self._reader.written(self._known.doubtful(told))
        now = self._now()
        for path, stamp in told.items():
            self.too_long.pop(path, None)
            if stamp is None:
                self.observe(path, None, None)
                self._known.forget(path)
                continue
            file = self._known.notice(path, stamp, now, written.get(path, 0))
            self.observe(path, file.whose if file is not None else None, stamp)
            if file is None:
                continue
            if stamp.size > MOST_TRANSCRIPT_BYTES:
                self.too_long[path] = stamp.size
                continue
            if file.read != stamp:
                self._unread.add(path)
            muted = file.cursor is not None and file.cursor.muted
            if self._known.lives(file.whose.session_id) and (file.read != stamp or muted):
                self._due[path] = None
                self._wake.set()

    def _look_at_unread(self) -> None:
        """What could not be read, and what has no sign of life but has rested for long enough."""
        now = self._now()
        for path in list(self._unread):
            file = self._known.files.get(path)
            if file is None or not self._known.is_worth_reading(file, now):
                self._unread.discard(path)
            elif self._known.lives(file.whose.session_id) or self._known.is_over(file, now):
                self._due[path] = None
                self._wake.set()

    async def _read_next(self) -> None:
        path = next(iter(self._due))
        del self._due[path]
        if file := self._known.files.get(path):
            await self._read(file)

    async def _read(self, file: File) -> None:
        muted = not self._known.lives(file.whose.session_id)
        try:
            more = await self._reader.read(file, self._known.stamps[file.path], muted=muted)
        except FileNotFoundError:
            self._known.forget(file.path)
            return
        if more:
            self._due[file.path] = None

    async def _prune(self, present: set[str] | None) -> None:
        changes = outdated(self._state(), present, self._known.living(), self._now())
        try:
            await self._intake.accept([], state=changes)
        except SpoolUnavailable:
            self.faults["not accepted"] += 1
