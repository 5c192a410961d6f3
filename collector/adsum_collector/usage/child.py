"""Starts, hears and ends the process that reads the history."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

from adsum_collector.usage.reading import Batch, Errand
from adsum_collector.usage.wire import Order, Word
from adsum_shared.usage import ScanProgress

COMMAND: Final = (sys.executable, "-I", "-m", "adsum_collector.usage.worker")
#: A batch names its files, and what some of their sessions were about.
LINE_BYTES: Final = 64 << 20


class ChildError(Exception):
    """It says why, for people."""

    def __init__(self, why: str, *, damage: bool = False) -> None:
        super().__init__(why)
        self.damage = damage


async def read_by_child(
    directory: Path, errands: Sequence[Errand], command: Sequence[str] = COMMAND
) -> AsyncGenerator[Batch, None]:
    """Raises ChildError, OSError."""
    child = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES
    )
    try:
        _make_idle(child.pid)
        async for word in _words(child, Order(str(directory), errands)):
            yield word
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _words(child: Process, order: Order) -> AsyncIterator[Word]:
    assert child.stdin is not None  # noqa: S101 - both are pipes
    assert child.stdout is not None  # noqa: S101 - as above
    with contextlib.suppress(ConnectionError):  # what it says, or how it ends, tells why
        child.stdin.write(msgspec.json.encode(order) + b"\n")
        await child.stdin.drain()
    while line := await child.stdout.readline():
        try:
            word = msgspec.json.decode(line, type=Word)
        except msgspec.DecodeError as error:
            raise ChildError(f"Reading the history failed: {error}.") from error
        if word.failure is not None:
            raise ChildError(word.failure, damage=word.damage)
        if word.over:
            return
        yield word
    code = await child.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    raise ChildError(
        f"Reading the history was broken off ({how}). It goes on by itself where it was."
    )


def _make_idle(pid: int) -> None:
    """Its reads wait for everybody else's, where the system knows of that."""
    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        psutil.Process(pid).ionice(psutil.IOPRIO_CLASS_IDLE)


class HistoryTask:
    """At most one process at a time. wake: set whenever there is news of it."""

    def __init__(
        self, directory: Path, wake: asyncio.Event, command: Sequence[str] = COMMAND
    ) -> None:
        self._directory = directory
        self._wake = wake
        self._command = command
        self._task: asyncio.Task[None] | None = None
        self._batches: list[Batch] = []
        self._began = 0.0
        self.progress: ScanProgress | None = None

    def is_free(self) -> bool:
        return self._task is None

    def begin(self, errands: Sequence[Errand], size: int) -> None:
        """size: how many bytes there are to read."""
        loop = asyncio.get_running_loop()
        self.progress = ScanProgress(len(errands), 0, size, 0)
        self._began = loop.time()
        self._task = loop.create_task(self._run(errands), name="usage history")
        self._task.add_done_callback(lambda _task: self._wake.set())

    def taken(self) -> list[Batch]:
        """What has been kept since this was asked last."""
        batches, self._batches = self._batches, []
        return batches

    def is_over(self) -> bool:
        """True once. Raises what it ended with."""
        if self._task is None or not self._task.done():
            return False
        task, self._task, self.progress = self._task, None, None
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

    async def _run(self, errands: Sequence[Errand]) -> None:
        async with contextlib.aclosing(
            read_by_child(self._directory, errands, self._command)
        ) as batches:
            async for batch in batches:
                self._batches.append(batch)
                self._advance(batch)
                self._wake.set()

    def _advance(self, batch: Batch) -> None:
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
