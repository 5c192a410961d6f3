"""The tailer turns lines that the agent adds to its transcripts into signals, soon and once."""

import asyncio
import contextlib
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from adsum_collector.agents.base import Transcripts
from adsum_collector.agents.records import Lines, TranscriptFile
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.file_events import file_events
from adsum_collector.intake import Intake
from adsum_collector.line_reader import (
    MOST_TRANSCRIPT_BYTES,
    last_lines,
    open_transcript,
    split_lines,
)
from adsum_collector.processes import WatchedSessions
from adsum_collector.transcripts.cursors import (
    SUFFIX,
    Chunk,
    Cursor,
    Elsewhere,
    Stamp,
    encode_cursor,
    find_cursors,
    key_of,
    outdated,
    read_chunk,
)
from adsum_collector.transcripts.files import (
    FollowedFile,
    TranscriptFiles,
    look_at,
    mains_of,
    newest_first,
)
from adsum_shared import WallClock
from adsum_shared.signals import AnySignal, CostReported, MetaChanged, SessionEnded, UsageTotalled

#: Between looks after a hook: the line it is about becomes visible 0.1 to 0.2 s later.
AFTER_HOOK_S = (0.06, 0.09, 0.25)
#: Between two looks at the files of living sessions, for file systems that tell no changes.
ROUND_S = 2.0
#: Between two walks over all files; and as many times what a walk takes, if that is more.
WALK_S = 30.0
WALK_SHARE = 2000
PRUNE_S = 3600.0
#: How long the first walk waits while the files of living sessions are read; they may be far behind.
LIVING_S = 1.0

#: What is worth telling of a session that is over. Not its gauges: nobody waits for them any more.
LASTING = (CostReported, MetaChanged, UsageTotalled)
#: From its end, where a line that bears a time is sought: in so much first, then in more.
LAST_BYTES = 16 << 10
MOST_LAST_BYTES = 4 << 20

T = TypeVar("T")


class Observer(Protocol):
    """noticed: a file, whose it is if it is somebody's, and how it is now; None: it is gone.

    walked: all files there are have been noticed.
    """

    def noticed(self, path: str, whose: TranscriptFile | None, stamp: Stamp | None) -> None: ...

    def walked(self) -> None: ...


class Tailer:
    """directories: where `transcripts` knows files by their path below. now: ms of wall clock.

    others: directories of other agents, whose cursors are not ours. settled: set once it is known which of the watched processes live.
    """

    def __init__(
        self,
        intake: Intake,
        transcripts: Transcripts,
        *,
        directories: Sequence[Path],
        watched: WatchedSessions,
        settled: asyncio.Event,
        now: WallClock,
        others: Sequence[Path] = (),
    ) -> None:
        self._intake, self._transcripts = intake, transcripts
        self._others = tuple(key_of(f"{directory}/") for directory in others)
        self._watched, self._settled, self._now = watched, settled, now
        self.roots = [str(directory) for directory in directories]
        self._known = TranscriptFiles(self.roots, transcripts.file_of, now())
        self._events = file_events(directories, lambda name: name.endswith(SUFFIX), recursive=True)
        self._threads = ThreadPoolExecutor(2, "transcripts")
        self.faults: Counter[str] = Counter()
        #: Paths of files that are not read for their size, and that.
        self.too_long: dict[str, int] = {}
        self.observer: Observer | None = None
        #: When a line was read last, ms; 0 if none was.
        self.read_at = 0
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
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _read_living(self) -> None:
        """Who has a process is shown first, however much history there is to be walked over."""
        self._known.watch(self._watched.look().keys())
        sessions = list(self._watched.look())
        told = await self._in_thread(lambda: mains_of(self.roots, sessions))
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
            told, _ = await self._look_at(ready)
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
            self._known.watch(self._watched.look().keys())
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
        told, found = await self._look_at(self.roots, self._known.stamps)
        self._absent = {root for root in self.roots if root in told}
        for path in self._known.files.keys() - found:
            told.setdefault(path, None)
        await self._notice(newest_first(told))
        if self.observer is not None:
            self.observer.walked()
        return None if self._absent else found

    async def _look_at(
        self, paths: Iterable[str], known: Mapping[str, Stamp] | None = None
    ) -> tuple[dict[str, Stamp | None], set[str]]:
        return await self._in_thread(lambda: look_at(paths, self._enter, known, self.roots))

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
        written = await self._written(self._known.doubtful(told))
        now = self._now()
        for path, stamp in told.items():
            self.too_long.pop(path, None)
            if stamp is None:
                self._known.forget(path)
            file = self._known.notice(path, stamp, now, written.get(path, 0)) if stamp else None
            if self.observer is not None:
                self.observer.noticed(path, file.whose if file else None, stamp)
            if file is None or stamp is None:
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

    async def _written(self, paths: Sequence[str]) -> dict[str, int]:
        """When the last line of each was, ms; 0 if that cannot be said."""
        if not paths:
            return {}
        look = functools.partial(_last_written, self._transcripts.written)
        return await self._in_thread(lambda: {path: look(path) for path in paths})

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

    async def _read(self, file: FollowedFile) -> None:
        """One chunk. Of a session that is over only usage, meta and its end are told: it is muted."""
        stamp, muted = self._known.stamps[file.path], not self._known.lives(file.whose.session_id)
        own, others = self._cursors(file, stamp, muted=muted)
        read = functools.partial(
            read_chunk,
            file.path,
            own,
            others,
            with_sidecar=file.whose.agent_id is not None,
            waits=file.waits,
            now=self._now(),
        )
        try:
            chunk = await self._in_thread(read)
            if not chunk.waits:
                await self._report(file, chunk, muted=muted)
        except FileNotFoundError:
            self._known.forget(file.path)
            return
        except OSError as error:
            failed = (stamp, error.errno)
            # tried again every few seconds: the same failure is one
            self.faults["unreadable"] += file.failed != failed
            file.failed = failed
            return
        except SpoolUnavailable:
            # Nothing has advanced, so the next look reads it again.
            self.faults["not accepted"] += 1
            return
        file.waits = chunk.waits
        # of one that holds nothing but what was told there is nothing to be read until it grows
        if not (chunk.more or (chunk.waits and chunk.waits.shared < chunk.stamp.size)):
            file.read = chunk.stamp
        if chunk.more:
            self._due[file.path] = None

    def _cursors(
        self, file: FollowedFile, stamp: Stamp, *, muted: bool
    ) -> tuple[Cursor | None, list[Elsewhere]]:
        """Its own and others'. Also while it grows: it may be written over by a copy that was read.

        What was told as of a session that is over is told again, and whole, once that lives.
        """
        kept = find_cursors(self._intake.spool.state, file.path, stamp, file.whose.session_id)
        own = (each for each in (file.cursor, kept.own) if each and (muted or not each.muted))
        return next(own, None), [each for each in kept.others if muted or not each.cursor.muted]

    async def _report(self, file: FollowedFile, chunk: Chunk, *, muted: bool) -> None:
        """Raises SpoolUnavailable."""
        now, cursor = self._now(), chunk.cursor
        said = Lines([], cursor.context)
        if chunk.lines:
            said = self._transcripts.read(
                chunk.lines,
                file.whose,
                cursor.context or self._transcripts.opening(chunk.head, file.whose),
                self._at_rest(chunk, now) if muted else now,
                chunk.sidecar,
                self._intake.private,
            )
        signals, owing = said.signals, False
        if not muted:
            signals = [*self._opening(chunk.head, file.whose, said.signals, now), *signals]
        else:
            owing = cursor.owing or (bool(chunk.lines) and said.is_session)
            # Where nothing was left out there is nothing to be told again.
            muted = cursor.muted or bool(chunk.lines)
            lasting = [each for each in signals if isinstance(each, LASTING)]
            # A prompt's id would tell the hub of a turn, and a session that has turns has been alive.
            signals = [msgspec.structs.replace(each, seen=now, prompt_id=None) for each in lasting]
            if owing and not chunk.more:
                signals.append(_ended(file, said.signals, chunk.stamp, now))
                owing = False
        cursor = msgspec.structs.replace(
            cursor, context=said.context, at=now, muted=muted, owing=owing
        )
        if signals or chunk.moved:
            await self._intake.accept(signals, state={key_of(file.path): encode_cursor(cursor)})
        file.cursor = cursor
        self.faults.update(chunk.faults)
        self.faults.update(said.faults)
        if chunk.lines:
            self.read_at = now

    def _at_rest(self, chunk: Chunk, now: int) -> int:
        """No line of a session that is over is later than its last.

        What bears no time is not of now: the hub would take that for a sign of life.
        """
        rested = chunk.stamp.mtime_ns // 1_000_000
        return min(self._transcripts.written(chunk.lines) or rested, rested, now)

    def _opening(
        self, head: Sequence[bytes], whose: TranscriptFile, said: Sequence[AnySignal], now: int
    ) -> list[AnySignal]:
        """What a session is called whose file is read from its tail on: else by a later prompt."""
        past = self._transcripts.history(head, [], whose) if head and not whose.agent_id else None
        if past is None:
            return []
        title, ai_title = past.title, past.ai_title or past.first_prompt
        if not (title or ai_title):
            return []
        at = min([each.at for each in said], default=now)
        return [
            MetaChanged(
                session_id=whose.session_id,
                at=min(past.started or at, at),
                seen=now,
                source="transcript",
                title=title,
                ai_title=ai_title,
            )
        ]

    async def _prune(self, present: set[str] | None) -> None:
        state = {
            k: value
            for k, value in self._intake.spool.state.items()
            if not k.startswith(self._others)
        }
        changes = outdated(state, present, self._known.living(), self._now())
        try:
            await self._intake.accept([], state=changes)
        except SpoolUnavailable:
            self.faults["not accepted"] += 1

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """A file system that hangs holds up whoever waits for it, and not the hooks."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _last_written(written: Callable[[Sequence[bytes]], int], path: str) -> int:
    with contextlib.suppress(OSError), os.fdopen(open_transcript(path), "rb", 0) as file:
        size, reach = os.fstat(file.fileno()).st_size, LAST_BYTES
        while True:
            start, data = last_lines(file.fileno(), size, reach, MOST_LAST_BYTES)
            at = written(split_lines(data))
            if at or not start or reach >= MOST_LAST_BYTES:
                return at
            reach *= 4
    return 0


def _ended(
    file: FollowedFile, signals: Sequence[AnySignal], stamp: Stamp, now: int
) -> SessionEnded:
    """A session that nobody runs any more ended when its last line was written."""
    at = max((signal.at for signal in signals), default=stamp.mtime_ns // 1_000_000)
    return SessionEnded(
        session_id=file.whose.session_id, at=at, seen=now, source="transcript", reason="process"
    )
