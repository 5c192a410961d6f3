"""The spool numbers a signal, puts it on disk, and keeps it until every hub has it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from adsum_collector.errors import SpoolUnavailable, StartError, is_full
from adsum_collector.spool.spool_directory import Rows, Span, SpoolDirectory
from adsum_collector.spool.spool_file import Append, SpoolGap, SpoolLimits
from adsum_collector.spool.status import SpoolStatus, status_of

__all__ = ["Rows", "Spool", "SpoolGap"]

T = TypeVar("T")
Pending = list[tuple[Append, asyncio.Future[int]]]
Committed = tuple[str, list[int]] | Exception

#: Appends that may wait for a commit; beyond it the spool says that it cannot keep up.
MOST_PENDING = 1024
#: How many are kept in memory so that the publisher, when it keeps pace, reads no file.
RECENT_SIGNALS = 2048
RECENT_BYTES = 4 << 20
#: Seconds a commit may take on the event loop; a slower disk gets the thread.
SLOW_COMMIT_S = 0.003
#: After a failed commit: seconds between two tries of the disk.
PROBE_S = 2.0


class Spool:
    """One connection, one caller at a time: the lock is held by the loop or by the one thread.

    A commit takes along whatever was appended while the last one ran. Where the disk is quick it
    runs on the loop itself: two thread switches would cost as much again as the fsync.
    """

    def __init__(self, files: SpoolDirectory) -> None:
        self._files = files
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "spool")
        self._lock = threading.Lock()
        self._pending: Pending = []
        self._flushing = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._commit_s = 0.0
        self._recent = Recent()
        self._probing: asyncio.Task[None] | None = None
        #: why the last commit failed, until one succeeds or the disk can be written again
        self.problem: str | None = None
        self.spool_id = ""
        self.added = asyncio.Event()
        self._read_numbers()

    @classmethod
    async def open(
        cls,
        directory: Path,
        limits: SpoolLimits | None = None,
        now: Callable[[], float] = time.time,
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
        if not self._flushing:
            # Not at once: what other connections sent in this turn of the loop joins the commit.
            self._flushing = True
            self._quiet.clear()
            self._loop.call_soon(self._flush)
        return await done

    async def read(self, after: int, limit: int, limit_bytes: int) -> Rows | SpoolGap | None:
        """What follows number `after`; None at the end. Raises SpoolUnavailable.

        Numbers mean something in one spool only: what was read belongs to the spool_id that was
        there before, and to nobody if it is another one afterwards.
        """
        if after >= self.last_seq:
            return None
        if found := self._recent.read(after, limit, limit_bytes):
            return found
        try:
            return await self._in_thread(lambda: self._files.read(after, limit, limit_bytes))
        finally:
            self._read_meta()

    async def acknowledge(self, seq: int) -> None:
        """Raises SpoolUnavailable."""
        spool_id = self.spool_id
        if seq > self.acked:
            await self._in_thread(lambda: self._files.acknowledge(seq, spool_id))
            self._read_meta()

    async def set_incarnation(self, incarnation: int) -> None:
        """Raises SpoolUnavailable."""
        await self._in_thread(lambda: self._files.set_incarnation(incarnation))
        self._read_meta()

    async def begin_anew(
        self,
        reason: str,
        incarnation: int,
        *,
        without: Sequence[Span] = (),
        spool_id: str = "",
        state: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """A new spool_id, for numbers that can no longer be trusted to mean what they say.

        Arguments as of SpoolDirectory.begin_anew. Raises SpoolUnavailable. Does nothing if the
        spool is another one by the time.
        """
        ours = self.spool_id
        await self._in_thread(
            lambda: self._files.begin_anew(
                reason,
                incarnation,
                instead_of=ours,
                without=without,
                spool_id=spool_id,
                state=state,
            )
        )
        self._read_numbers()

    async def status(self) -> SpoolStatus:
        """Raises SpoolUnavailable."""
        return await self._in_thread(lambda: status_of(self._files))

    async def close(self) -> None:
        """Pending appends are committed first."""
        await self._quiet.wait()
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self._in_thread(self._files.close)
        self._thread.shutdown()

    def _read_meta(self) -> None:
        """All but last_seq: a commit that runs meanwhile tells its numbers when it settles."""
        meta = self._files.meta
        if meta.spool_id != self.spool_id:
            self._read_numbers()
            return
        self.incarnation = meta.incarnation
        self.acked = meta.acked
        self.size = self._files.size

    def _read_numbers(self) -> None:
        """The one place where the spool_id changes: what memory holds goes with the old one."""
        if self._files.meta.spool_id != self.spool_id:
            self.spool_id = self._files.meta.spool_id
            self._recent.forget()
        self.last_seq = self._files.last
        self.state = self._files.state
        self._read_meta()

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        def run() -> T:
            with self._lock:
                return work()

        return self._loop.run_in_executor(self._thread, run)

    def _flush(self) -> None:
        batch, self._pending = self._pending, []
        if self._commit_s < SLOW_COMMIT_S and self._lock.acquire(blocking=False):
            try:
                committed = self._commit(batch)
            finally:
                self._lock.release()
            self._settle(batch, committed)
            return
        committing = self._in_thread(lambda: self._commit(batch))
        committing.add_done_callback(lambda future: self._settle(batch, future.result()))

    def _commit(self, batch: Pending) -> Committed:
        """The spool_id as well: it may be another one by the time this is settled."""
        started = time.perf_counter()
        try:
            numbers = self._files.commit([append for append, _ in batch])
        except Exception as error:  # noqa: BLE001 - it belongs to the callers, who wait for it
            return error
        else:
            return self._files.meta.spool_id, numbers
        finally:
            self._commit_s += (time.perf_counter() - started - self._commit_s) / 8

    def _settle(self, batch: Pending, committed: Committed) -> None:
        self._read_numbers()
        if isinstance(committed, Exception):
            self._fail(batch, committed)
        else:
            self.problem = None
            spool_id, numbers = committed
            for (append, done), number in zip(batch, numbers, strict=True):
                if spool_id == self.spool_id:
                    self._recent.add(append.signals, number)
                if not done.cancelled():
                    done.set_result(number)
            self.added.set()
        self._flushing = bool(self._pending)
        if self._flushing:
            self._loop.call_soon(self._flush)
        else:
            self._quiet.set()
        if self._files.log_is_long:
            self._thread.submit(self._checkpoint)

    def _checkpoint(self) -> None:
        """In the thread: it costs several fsyncs, for which no sender should wait."""
        with self._lock, contextlib.suppress(SpoolUnavailable):  # the next commit meets it too
            if self._files.log_is_long:
                self._files.checkpoint()

    def _fail(self, batch: Pending, error: Exception) -> None:
        self.problem = str(error)
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe(), name="spool: probe")
        for _, done in batch:
            if not done.cancelled():
                done.set_exception(error)

    async def _probe(self) -> None:
        """The problem is to end with its cause, also if nobody has anything to append."""
        while self.problem is not None:
            await asyncio.sleep(PROBE_S)
            try:
                await self._in_thread(self._files.probe)
            except SpoolUnavailable as error:
                self.problem = self.problem and str(error)
            else:
                self.problem = None
            self._read_meta()


class Recent:
    """The newest signals in memory, without a hole in their numbers, which are all of one spool."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, bodies: Sequence[bytes], last: int) -> None:
        first = last - len(bodies) + 1
        if self._held and first <= self._held[-1][0]:
            return  # a message that came twice
        if self._held and first != self._held[-1][0] + 1:
            self.forget()
        self._held.extend(enumerate(bodies, first))
        self._bytes += sum(map(len, bodies))
        while len(self._held) > RECENT_SIGNALS or self._bytes > RECENT_BYTES:
            self._bytes -= len(self._held.popleft()[1])

    def read(self, after: int, limit: int, limit_bytes: int) -> Rows | None:
        """None if what follows `after` is not here."""
        if not self._held or not self._held[0][0] <= after + 1 <= self._held[-1][0]:
            return None
        skip = after + 1 - self._held[0][0]
        bodies: list[bytes] = []
        for _, body in itertools.islice(self._held, skip, skip + limit):
            limit_bytes -= len(body)
            if bodies and limit_bytes < 0:
                break
            bodies.append(body)
        return Rows(after + 1, bodies)

    def forget(self) -> None:
        self._held.clear()
        self._bytes = 0
