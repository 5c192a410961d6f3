"""The spool numbers a signal, puts it on disk, and keeps it until every hub has it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from adsum_collector.errors import SpoolUnavailable, StartError, is_full
from adsum_collector.spool.spool_directory import Rows, SpoolDirectory
from adsum_collector.spool.spool_file import Append, Span, SpoolGap, SpoolLimits
from adsum_collector.spool.status import SpoolStatus, status_of
from adsum_shared import Timer

__all__ = ["Rows", "Spool", "SpoolGap"]

T = TypeVar("T")

#: Appends that may wait for a commit; beyond it the spool says that it cannot keep up.
MOST_PENDING = 1024
#: Seconds a commit may take on the event loop; a slower disk gets the thread.
SLOW_COMMIT_S = 0.003
#: After a failed commit: seconds between two tries of the disk.
PROBE_S = 2.0


class Spool:
    """One connection, one caller at a time: the lock is held by the loop or by the one thread.

    A commit takes along whatever was appended while the last one ran. What is known of the files
    (spool_id and the rest, see `_refresh`) changes on the loop only, after a call.
    """

    def __init__(self, files: SpoolDirectory) -> None:
        self._files = files
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "spool")
        self._lock = threading.Lock()
        self._pending: list[tuple[Append, asyncio.Future[int]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._commit_s = 0.0
        self._probing: asyncio.Task[None] | None = None
        #: why the last commit failed, until one succeeds or the disk can be written again
        self.problem: str | None = None
        self.added = asyncio.Event()
        self._refresh()

    @classmethod
    async def open(
        cls, directory: Path, limits: SpoolLimits | None = None, now: Timer = time.time
    ) -> Spool:
        """Raises StartError."""
        try:
            files = await asyncio.to_thread(SpoolDirectory, directory, limits or SpoolLimits(), now)
            return cls(files)
        except (sqlite3.Error, OSError) as error:
            step = "Free some space on" if is_full(error) else "Look at that directory and"
            raise StartError(
                f"The spool in {directory} cannot be opened ({error}). {step} its disk, then start "
                "again; nothing in it has been changed."
            ) from error

    @property
    def notice(self) -> str | None:
        """What to tell people of damage that is over."""
        return self._files.notice

    async def append(
        self,
        signals: Sequence[bytes],
        *,
        message_id: str | None = None,
        state: Mapping[str, bytes | None] | None = None,
    ) -> int:
        """The last signal's number, once it is on disk. Raises SpoolUnavailable."""
        if len(self._pending) >= MOST_PENDING:
            raise SpoolUnavailable(f"{MOST_PENDING} appends wait for the disk already")
        done: asyncio.Future[int] = self._loop.create_future()
        self._pending.append((Append(signals, message_id, state or {}), done))
        if self._flushing is None:
            # Not at once: what other connections sent in this turn of the loop joins the commit.
            self._flushing = self._loop.create_task(self._flush(), name="spool: commits")
        return await done

    async def read(self, after: int, limit: int, limit_bytes: int) -> Rows | SpoolGap | None:
        """What follows number `after`; None at the end. Raises SpoolUnavailable.

        Numbers mean something in one spool only: what was read belongs to the spool_id that was
        there before, and to nobody if it is another one afterwards.
        """
        if after >= self.last_seq:
            return None
        # A little that was just written the system still has in memory; a full file takes a while.
        is_recent = after >= self._files.meta.base and self.last_seq - after <= limit // 4
        return await self._call(
            partial(self._files.read, after, limit, limit_bytes), quick=is_recent
        )

    async def acknowledge(self, seq: int) -> None:
        """Raises SpoolUnavailable."""
        if seq > self.acked:
            await self._call(partial(self._files.acknowledge, seq, self.spool_id))

    async def set_incarnation(self, incarnation: int) -> None:
        """Raises SpoolUnavailable."""
        await self._call(partial(self._files.set_incarnation, incarnation))

    async def begin_anew(
        self,
        reason: str,
        incarnation: int,
        *,
        without: Sequence[Span] = (),
        spool_id: str = "",
        state: Mapping[str, bytes | None] | None = None,
        at: int = 0,
    ) -> None:
        """A new spool_id, for numbers that can no longer be trusted to mean what they say.

        Arguments as of SpoolDirectory.begin_anew. Raises SpoolUnavailable. Does nothing if the
        spool is another one by the time.
        """
        files, ours = self._files, self.spool_id
        await self._call(
            partial(files.begin_anew, reason, incarnation, ours, without, spool_id, state, at)
        )

    async def status(self) -> SpoolStatus:
        """Raises SpoolUnavailable."""
        return await self._call(partial(status_of, self._files))

    async def close(self) -> None:
        """Pending appends are committed first."""
        if self._flushing is not None:
            await asyncio.shield(self._flushing)
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self._call(self._files.close)
        self._thread.shutdown()

    async def _call(self, work: Callable[[], T], *, quick: bool = False) -> T:
        """In the thread; on the loop, if it is quick, the disk is, and nobody else is at the files.

        Two thread switches would cost as much again as the fsync.
        """
        try:
            if quick and self._commit_s < SLOW_COMMIT_S and self._lock.acquire(blocking=False):
                try:
                    return work()
                finally:
                    self._lock.release()
            return await self._loop.run_in_executor(self._thread, self._locked, work)
        finally:
            self._refresh()

    def _locked(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()

    def _refresh(self) -> None:
        current = self._files.current  # one that goes together, whatever the thread does next
        meta = current.meta
        self.spool_id, self.incarnation, self.acked = meta.spool_id, meta.incarnation, meta.acked
        self.last_seq, self.state = current.last, current.state
        self.size = self._files.size

    async def _flush(self) -> None:
        try:
            while self._pending:
                await self._commit_pending()
        finally:  # else nobody would ever be answered again
            self._flushing = None

    async def _commit_pending(self) -> None:
        batch, self._pending = self._pending, []
        try:
            commit = partial(self._commit, [append for append, _ in batch])
            numbers = await self._call(commit, quick=True)
        except Exception as error:  # noqa: BLE001 - it belongs to the callers, who wait for it
            self.problem = str(error)
            if self._probing is None or self._probing.done():
                self._probing = asyncio.create_task(self._probe(), name="spool: probe")
            for _, done in batch:
                if not done.cancelled():
                    done.set_exception(error)
        else:
            self.problem = None
            for (_, done), number in zip(batch, numbers, strict=True):
                if not done.cancelled():
                    done.set_result(number)
            self.added.set()

    def _commit(self, appends: Sequence[Append]) -> list[int]:
        started = time.perf_counter()
        try:
            return self._files.commit(appends)
        finally:
            self._commit_s += (time.perf_counter() - started - self._commit_s) / 8

    async def _probe(self) -> None:
        """The problem is to end with its cause, also if nobody has anything to append."""
        while self.problem is not None:
            await asyncio.sleep(PROBE_S)
            try:
                await self._call(self._files.probe)
            except SpoolUnavailable as error:
                self.problem = self.problem and str(error)
            else:
                self.problem = None
