"""Keeps what is left to read, and starts the process that reads it where it is much."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

from adsum_collector.agents.records import TranscriptFile
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.reading import Errand, UsageBatch
from adsum_collector.usage.worker import Order, WorkerReport
from adsum_shared.state import ScanProgress

COMMAND: Final = (sys.executable, "-I", "-m", "adsum_collector.usage.worker")
#: A batch names its files, and what some of their sessions were about.
LINE_BYTES: Final = 64 << 20
#: From so much on two processes share it, where there are two cores.
MUCH_BYTES: Final = 32 << 20
#: Read by a thread; more is the process's.
LITTLE_BYTES: Final = 8 << 20
LITTLE_FILES: Final = 64
#: A file that rests for so long is one of a session that is over, if nothing says that it lives.
QUIET_MS: Final = 60_000
RETRY_MS: Final = 600_000


class _Seen(msgspec.Struct, frozen=True, eq=False):
    """A file as it was noticed. stamp: None if only its session's past is to be told."""

    whose: TranscriptFile
    stamp: Stamp | None = None


class Stale:
    """lives: whether a session does. now: ms of wall clock."""

    def __init__(self, lives: Callable[[str], bool], now: Callable[[], int]) -> None:
        self._lives = lives
        self._now = now
        self._read: dict[str, Stamp] = {}
        self._stale: dict[str, _Seen] = {}
        self._failed: dict[str, _Seen] = {}
        self._retried_at = now()
        self._young: dict[str, _Seen] = {}
        self._with_child: dict[str, _Seen] = {}
        self._with_thread: dict[str, _Seen] = {}

    def notice(self, path: str, whose: TranscriptFile, stamp: Stamp) -> bool:
        """Whether there is something to read."""
        self.forget(path)
        if _same(self._read.get(path), stamp):
            return False
        self._stale[path] = _Seen(whose, stamp)
        return True

    def forget(self, path: str) -> None:
        """There is nothing to read."""
        self._young.pop(path, None)
        self._failed.pop(path, None)
        self._stale.pop(path, None)

    def begin(self, read: Mapping[str, Stamp]) -> None:
        """read: how the files were that have been read to their ends."""
        self._read = dict(read)
        self._with_child = {}
        self._with_thread = {}
        for path, seen in list(self._stale.items()):
            if seen.stamp is not None and _same(self._read.get(path), seen.stamp):
                del self._stale[path]

    def owe(self, pasts: Iterable[tuple[str, str]]) -> None:
        """Files of which only their sessions' pasts are to be told, with those sessions."""
        for path, session_id in pasts:
            self._stale.setdefault(path, _Seen(TranscriptFile(session_id)))

    def retry(self, now: int) -> None:
        """What could not be read, once in a while: nobody may ever put that right."""
        if not 0 <= now - self._retried_at < RETRY_MS:
            self._retried_at = now
            self._stale = {**self._failed, **self._stale}
            self._failed = {}

    def errands(self, *, reads_much: bool) -> tuple[list[Errand], list[Errand]]:
        """For the thread; and for the process, if it is free and there is much.

        First the sessions that live, then the newest.
        """
        self._owe_the_rested()
        waiting = [path for path in self._stale if path not in self._with_child]
        waiting.sort(key=self._order)
        little: list[str] = []
        left = LITTLE_BYTES
        for path in waiting:
            if (growth := self._growth(path)) <= left and len(little) < LITTLE_FILES:
                little.append(path)
                left -= growth
        if len(little) == len(waiting) or not reads_much:
            self._with_thread = {path: self._stale[path] for path in little}
            return self._errands(little), []
        self._with_child = {path: self._stale[path] for path in waiting}
        return [], self._errands(waiting)

    def bytes_of(self, errands: Sequence[Errand]) -> int:
        return sum(self._growth(os.fsdecode(errand.path)) for errand in errands)

    def keep(self, done: Iterable[tuple[bytes, Stamp]]) -> None:
        """These were read to their ends, as they were when they were opened."""
        for raw, stamp in done:
            path = os.fsdecode(raw)
            self._read[path] = stamp
            for hands in (self._with_child, self._with_thread):
                seen = hands.pop(path, None)
                # noticed since: may have grown since
                if seen is not None and self._stale.get(path) is seen:
                    del self._stale[path]

    def settle(self, *, by_child: bool) -> None:
        """All were tried. What is left could not be read."""
        hands = self._with_child if by_child else self._with_thread
        for path, seen in hands.items():
            if self._stale.get(path) is seen:
                self._failed[path] = self._stale.pop(path)
        hands.clear()

    def _owe_the_rested(self) -> None:
        """Their pasts: they were read as soon as they came, and could still have been growing."""
        for path, seen in list(self._young.items()):
            if self._age(seen) > QUIET_MS:
                del self._young[path]
                self.owe([(path, seen.whose.session_id)])

    def _age(self, seen: _Seen) -> int:
        return self._now() - (seen.stamp.mtime_ns // 1_000_000 if seen.stamp else 0)

    def _order(self, path: str) -> tuple[bool, int]:
        seen = self._stale[path]
        return not self._lives(seen.whose.session_id), -(seen.stamp.mtime_ns if seen.stamp else 0)

    def _growth(self, path: str) -> int:
        seen = self._stale.get(path) or self._with_child.get(path)
        if seen is None or seen.stamp is None:
            return 0
        read = self._read.get(path)
        return seen.stamp.size - (read.size if read and read.size <= seen.stamp.size else 0)

    def _errands(self, paths: Iterable[str]) -> list[Errand]:
        return [self._errand(path, self._stale[path]) for path in paths]

    def _errand(self, path: str, seen: _Seen) -> Errand:
        lives = self._lives(seen.whose.session_id)
        is_over = seen.whose.agent_id is None and not lives
        past = is_over and self._age(seen) > QUIET_MS
        if is_over and not past:
            self._young[path] = seen
        return Errand(os.fsencode(path), seen.whose, past=past, urgent=lives)


def _same(one: Stamp | None, other: Stamp) -> bool:
    """Devices are numbered anew when a system starts, and nothing has changed by that."""
    return one is not None and (one.mtime_ns, one.size, one.inode) == (
        other.mtime_ns,
        other.size,
        other.inode,
    )


class ChildError(Exception):
    """It says why, for people."""

    def __init__(self, why: str, *, damage: bool = False) -> None:
        super().__init__(why)
        self.damage = damage


async def read_by_child(
    directory: Path, errands: Sequence[Errand], processes: int, command: Sequence[str] = COMMAND
) -> AsyncGenerator[UsageBatch, None]:
    """Raises ChildError, OSError."""
    child = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES
    )
    try:
        _make_idle(child.pid)
        async for report in _reports(child, Order(str(directory), errands, processes)):
            yield report
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _reports(child: Process, order: Order) -> AsyncIterator[WorkerReport]:
    assert child.stdin is not None  # noqa: S101 - both are pipes
    assert child.stdout is not None  # noqa: S101 - as above
    with contextlib.suppress(ConnectionError):  # what it says, or how it ends, tells why
        child.stdin.write(msgspec.json.encode(order) + b"\n")
        await child.stdin.drain()
    while line := await child.stdout.readline():
        try:
            report = msgspec.json.decode(line, type=WorkerReport)
        except msgspec.DecodeError as error:
            raise ChildError(f"Reading the history failed: {error}.") from error
        if report.failure is not None:
            raise ChildError(report.failure, damage=report.damage)
        if report.over:
            return
        yield report
    code = await child.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    raise ChildError(
        f"Reading the history was broken off ({how}). It goes on by itself where it was."
    )


def _make_idle(pid: int) -> None:
    """Its reads wait for everybody else's, where the system knows of that."""
    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        psutil.Process(pid).ionice(psutil.IOPRIO_CLASS_IDLE)


def _cores() -> int:
    # what this process may use, where the system knows of that
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


class HistoryTask:
    """At most one at a time. wake: set whenever there is news of it.

    progress: of what it has read; whoever reports what that was clears it, once it is reported.
    """

    def __init__(
        self, directory: Path, wake: asyncio.Event, command: Sequence[str] = COMMAND
    ) -> None:
        self._directory = directory
        self._wake = wake
        self._command = command
        self._task: asyncio.Task[None] | None = None
        self._batches: list[UsageBatch] = []
        self._began = 0.0
        self.progress: ScanProgress | None = None

    def is_free(self) -> bool:
        return self._task is None

    def begin(self, errands: Sequence[Errand], size: int) -> None:
        """size: how many bytes there are to read."""
        loop = asyncio.get_running_loop()
        self.progress = ScanProgress(len(errands), 0, size, 0)
        self._began = loop.time()
        processes = 2 if size >= MUCH_BYTES and _cores() > 1 else 1
        self._task = loop.create_task(self._run(errands, processes), name="usage history")
        self._task.add_done_callback(lambda _task: self._wake.set())

    def taken(self) -> list[UsageBatch]:
        """What has been kept since this was asked last."""
        batches, self._batches = self._batches, []
        return batches

    def is_over(self) -> bool:
        """True once. Raises what it ended with."""
        if self._task is None or not self._task.done():
            return False
        task, self._task = self._task, None
        task.result()
        return True

    async def stop(self) -> None:
        if self._task is not None:
            # Not again where a stop before was itself cancelled: it would not wait for its process.
            if not self._task.cancelling():
                self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # asked for, or it is complained of
        self._task, self.progress = None, None

    async def _run(self, errands: Sequence[Errand], processes: int) -> None:
        async with contextlib.aclosing(
            read_by_child(self._directory, errands, processes, self._command)
        ) as batches:
            async for batch in batches:
                self._batches.append(batch)
                self._advance(batch)
                self._wake.set()

    def _advance(self, batch: UsageBatch) -> None:
        if (progress := self.progress) is None:
            return
        passed = max(asyncio.get_running_loop().time() - self._began, 0.001)
        done = min(progress.bytes_done + batch.bytes_read, progress.bytes)
        rate = int(done / passed)
        self.progress = msgspec.structs.replace(
            progress,
            files_done=min(progress.files_done + len(batch.done), progress.files),
            bytes_done=done,
            bytes_per_s=rate,
            left_s=(progress.bytes - done) / rate if rate else None,
        )
