"""The spool that all of the collector writes to and publishes from, and how full it is and what is wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from adsum_collector.errors import SpoolUnavailable, StartError, is_full
from adsum_collector.spool.spool_directory import (
    Quarantined,
    Rows,
    Sealed,
    SpoolDirectory,
    quarantined_in,
    spool_paths,
)
from adsum_collector.spool.spool_file import (
    Append,
    Damaged,
    Span,
    SpoolFile,
    SpoolGap,
    SpoolLimits,
    connect,
    log_of,
    require_ours,
)
from adsum_shared import Timer
from adsum_shared.signals import decode_signal


class FileStatus(msgspec.Struct, frozen=True):
    """missing: how many of the numbers from first to last are known not to be in it."""

    name: str
    first: int
    last: int
    bytes: int
    missing: int


class SpoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """sent: highest number in the stream, null if only a running collector could tell.

    confirmed: every hub has this number and all below. waiting: how many signals none has
    confirmed. oldest_waiting_ms: age of the first of them. cap, free and reserve are bytes;
    nothing is accepted while less than the reserve is free.
    """

    directory: str
    spool_id: str
    first: int
    last: int
    confirmed: int
    waiting: int
    oldest_waiting_ms: int | None
    files: list[FileStatus]
    bytes: int
    cap: int
    free: int
    reserve: int
    gaps: list[SpoolGap]
    quarantined: list[Quarantined]
    schema: int = 2
    running: bool = True
    sent: int | None = None
    problem: str | None = None


class EmptySpoolError(Exception):
    """No spool file is there, or none that can be read. The text says which."""


def status_of(files: SpoolDirectory) -> SpoolStatus:
    """Raises SpoolUnavailable."""
    with files.trusted():
        after = files.meta.acked
        while isinstance(found := files.read(after, 1, 0), SpoolGap):
            after = found.last
        oldest = found.bodies[0] if found else None
        return _status(files.current, files.sealed, oldest, files.limits, files.now())


def offline_status(directory: Path, limits: SpoolLimits, now: float) -> SpoolStatus:
    """How the spool stands while no collector runs: not a byte of its files changes.

    now: seconds of wall clock. Raises EmptySpoolError, OSError, sqlite3.Error.
    """
    sealed: list[Sealed] = []
    faults: list[str] = []
    current: SpoolFile | None = None
    oldest: bytes | None = None
    with contextlib.ExitStack() as opened:
        for path in reversed(spool_paths(directory)):
            try:
                file = opened.enter_context(_readable(path))
            except (Damaged, sqlite3.DatabaseError) as damage:
                if not (isinstance(damage, Damaged) and damage.unfinished):
                    faults.append(f"{path.name} cannot be used: {damage}.")
                continue
            if current is None:
                current = file
            elif file.meta.spool_id == current.meta.spool_id:
                sealed.insert(0, Sealed.of(file))
            rows = list(file.rows(max(current.meta.acked, file.meta.base), 1))
            oldest = rows[0][1] if rows else oldest
        if current is None:
            raise EmptySpoolError(" ".join(faults) or "There is none yet.")
        status = _status(current, sealed, oldest, limits, now)
    return msgspec.structs.replace(status, running=False, problem=" ".join(faults) or None)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[SpoolFile]:
    """Raises Damaged, sqlite3.Error, OSError.

    What a killed collector has left in the log can only be seen by who may write: so in a copy.
    """
    require_ours(path)
    log = log_of(path)
    with contextlib.ExitStack() as opened:
        if log.exists() and log.stat().st_size:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="adsum-")))
            shutil.copyfile(log, folder / log.name)
            db = connect(Path(shutil.copyfile(path, folder / path.name)))
        else:
            uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
            db = sqlite3.connect(uri, uri=True, isolation_level=None)
        opened.callback(db.close)
        yield SpoolFile.over(path, db)


def _status(
    current: SpoolFile,
    sealed: Sequence[Sealed],
    oldest: bytes | None,
    limits: SpoolLimits,
    now: float,
) -> SpoolStatus:
    """oldest: the first signal that waits."""
    directory, acked = current.path.parent, current.meta.acked
    files = [*sealed, Sealed.of(current)]
    free, reserve = limits.space(directory)
    return SpoolStatus(
        directory=str(directory),
        spool_id=current.meta.spool_id,
        first=files[0].first,
        last=current.last,
        confirmed=acked,
        waiting=current.last - acked - _missing(current.gaps, acked + 1, current.last),
        oldest_waiting_ms=_age(oldest, int(now * 1000)),
        files=[
            FileStatus(
                f.path.name, f.first, f.last, f.bytes, _missing(current.gaps, f.first, f.last)
            )
            for f in files
        ],
        bytes=sum(file.bytes for file in files),
        cap=limits.cap_bytes,
        free=free,
        reserve=reserve,
        gaps=current.gaps,
        quarantined=quarantined_in(directory),
    )


def _missing(gaps: Sequence[SpoolGap], first: int, last: int) -> int:
    return sum(max(0, min(last, gap.last) - max(first, gap.first) + 1) for gap in gaps)


def _age(body: bytes | None, now_ms: int) -> int | None:
    if body is None:
        return None
    try:
        return max(0, now_ms - decode_signal(body).seen)
    except (msgspec.DecodeError, RecursionError):
        return None


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
