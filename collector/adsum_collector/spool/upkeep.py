"""What the spool does besides its users' wishes: work on full files, another try of a failed disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, TypeVar

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.spool.files import SpoolFiles

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Between two steps of the work on full files, which take a third of that.
PAUSE_S = 0.006
#: After a failure: until that work goes on, and between two tries of the disk.
AGAIN_S = 2.0


class InThread(Protocol):
    """Runs it in the spool's thread; alone: while nobody else uses the files."""

    def __call__(self, work: Callable[[], T], *, alone: bool = True) -> Awaitable[T]: ...


class Upkeep:
    """problem: why the last commit failed, until one succeeds or the disk can be written again.

    changed: called when files may be others than before.
    """

    def __init__(self, files: SpoolFiles, in_thread: InThread, changed: Callable[[], None]) -> None:
        self._files = files
        self._in_thread = in_thread
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.problem: str | None = None

    def look(self) -> None:
        if self._files.wants_tending:
            self._start("tend", self._tend)

    def committed(self) -> None:
        self.problem = None

    def failed(self, error: Exception) -> None:
        self.problem = str(error)
        self._start("probe", self._probe)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        if name not in self._tasks:
            task = self._tasks[name] = asyncio.create_task(work(), name=f"spool: {name}")
            task.add_done_callback(lambda _: self._tasks.pop(name))

    async def _tend(self) -> None:
        """In steps, so that no sender waits for it longer than for another one's sync."""
        try:
            while (pause := await self._in_thread(self._files.tend)) is not None:
                await self._in_thread(self._files.sync_draft, alone=False)
                await asyncio.sleep(max(pause, PAUSE_S))
        except SpoolUnavailable as error:
            log.warning("full spool files stay as they are for now: %s", error)
            await asyncio.sleep(AGAIN_S)
        self._changed()

    async def _probe(self) -> None:
        """The problem is to end with its cause, also if nobody has anything to append."""
        while self.problem is not None:
            await asyncio.sleep(AGAIN_S)
            try:
                await self._in_thread(self._files.probe)
            except SpoolUnavailable as error:
                self.problem = self.problem and str(error)
            else:
                self.problem = None
            self._changed()
