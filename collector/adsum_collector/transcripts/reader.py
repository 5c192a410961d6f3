"""The next lines of one transcript: read, adapted, and accepted with how far that was."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import msgspec

from adsum_collector.agent import Transcripts
from adsum_collector.agents.records import TranscriptFile
from adsum_collector.agents.transcript import Lines
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import Intake
from adsum_collector.plain_file import open_transcript
from adsum_collector.transcripts.cursors import (
    Cursor,
    Elsewhere,
    Stamp,
    encode_cursor,
    find_cursors,
    key_of,
)
from adsum_collector.transcripts.files import Chunk, read_chunk, stripped
from adsum_collector.transcripts.followed import File
from adsum_shared.signals import AnySignal, CostReported, MetaChanged, SessionEnded, UsageTotalled

P = ParamSpec("P")
T = TypeVar("T")

#: What is worth telling of a session that is over. Not its gauges: nobody waits for them any more.
LASTING = (CostReported, MetaChanged, UsageTotalled)
#: From its end, where a line that bears a time is sought: in so much first, then in more.
LAST_BYTES = 16 << 10
MOST_LAST_BYTES = 4 << 20


class FileThreads:
    """A file system that hangs holds up whoever waits for it, and not the hooks."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, "transcripts")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        call = functools.partial(work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class TranscriptReader:
    """state: the spool's. now: ms of wall clock. faults: cause -> how often."""

    def __init__(
        self,
        intake: Intake,
        transcripts: Transcripts,
        *,
        state: Callable[[], Mapping[str, bytes]],
        now: Callable[[], int],
        threads: FileThreads,
        faults: Counter[str],
    ) -> None:
        self._intake = intake
        self._transcripts = transcripts
        self._state = state
        self._now = now
        self._threads = threads
        self._faults = faults
        self.read_at = 0

    async def written(self, paths: Sequence[str]) -> dict[str, int]:
        """When the last line of each was, ms; 0 if that cannot be said."""
        if not paths:
            return {}
        look = functools.partial(_last_written, self._transcripts.written)
        return await self._threads.run(lambda: {path: look(path) for path in paths})

    async def read(self, file: File, stamp: Stamp, *, muted: bool) -> bool:
        """One chunk; True if there may be more of it. file.read tells that its end was reached.

        muted: the session is over, and only usage, meta and its end are told of it.
        Raises FileNotFoundError.
        """
        own, others = self._cursors(file, stamp, muted=muted)
        try:
            chunk = await self._threads.run(
                read_chunk,
                file.path,
                own,
                others,
                with_sidecar=file.whose.agent_id is not None,
                waits=file.waits,
                now=self._now(),
            )
            if not chunk.waits:
                await self._tell(file, chunk, muted=muted)
        except FileNotFoundError:
            raise
        except OSError as error:
            failed = (stamp, error.errno)
            # tried again every few seconds: the same failure is one
            self._faults["unreadable"] += file.failed != failed
            file.failed = failed
            return False
        except SpoolUnavailable:
            # Nothing has advanced, so the next look reads it again.
            self._faults["not accepted"] += 1
            return False
        file.waits = chunk.waits
        # of one that holds nothing but what was told there is nothing to be read until it grows
        if not (chunk.more or (chunk.waits and chunk.waits.shared < chunk.stamp.size)):
            file.read = chunk.stamp
        return chunk.more

    def _cursors(
        self, file: File, stamp: Stamp, *, muted: bool
    ) -> tuple[Cursor | None, list[Elsewhere]]:
        """Its own and others'. Also while it grows: it may be written over by a copy that was read.

        What was told as of a session that is over is told again, and whole, once that lives.
        """
        kept = find_cursors(self._state(), file.path, stamp, file.whose.session_id)
        own = (each for each in (file.cursor, kept.own) if each and (muted or not each.muted))
        return next(own, None), [each for each in kept.others if muted or not each.cursor.muted]

    async def _tell(self, file: File, chunk: Chunk, *, muted: bool) -> None:
        """Raises SpoolUnavailable."""
        now, cursor = self._now(), chunk.cursor
        said = Lines([], cursor.context)
        if chunk.lines:
            said = self._transcripts.read(
                chunk.lines,
                file.whose,
                cursor.context,
                self._at_rest(chunk, now) if muted else now,
                chunk.sidecar,
                self._intake.private,
            )
        signals, owing = said.signals, False
        if not muted:
            signals = [*self._opening(chunk.head, file.whose, said.signals, now), *signals]
        else:
            owing = cursor.owing or bool(chunk.lines)
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
        self._faults.update(chunk.faults)
        self._faults.update(said.faults)
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


def _last_written(written: Callable[[Sequence[bytes]], int], path: str) -> int:
    at = 0
    with contextlib.suppress(OSError), os.fdopen(open_transcript(path), "rb", 0) as file:
        start = size = os.fstat(file.fileno()).st_size
        reach = LAST_BYTES
        while start and not at and reach <= MOST_LAST_BYTES:
            start = max(0, size - reach)
            data = os.pread(file.fileno(), reach, start)
            begin = data.find(b"\n") + 1 if start else 0
            at = written(stripped(data[begin : data.rfind(b"\n") + 1]))
            reach *= 4
    return at


def _ended(file: File, signals: Sequence[AnySignal], stamp: Stamp, now: int) -> SessionEnded:
    """A session that nobody runs any more ended when its last line was written."""
    at = max((signal.at for signal in signals), default=stamp.mtime_ns // 1_000_000)
    return SessionEnded(
        session_id=file.whose.session_id, at=at, seen=now, source="transcript", reason="process"
    )
