"""What is done to full files in small steps: damaged ones are mended, the oldest are thinned."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from adsum_collector.spool.aside import Aside
from adsum_collector.spool.connection import is_damage
from adsum_collector.spool.directory import Sealed
from adsum_collector.spool.file import SpoolFile
from adsum_collector.spool.limits import Limits
from adsum_collector.spool.rewrite import Rewriting, mended, thinned
from adsum_collector.spool.sealed import SealedFiles

log = logging.getLogger(__name__)

#: A draft of more than this share of its file is not worth having.
MOST_SHARE = 0.9
#: Until a damaged file is tried again whose draft could not be written.
AGAIN_S = 5.0


class Tending:
    """One file at a time. now: seconds of wall clock."""

    def __init__(
        self, files: SealedFiles, aside: Aside, limits: Limits, now: Callable[[], float]
    ) -> None:
        self._files = files
        self._aside = aside
        self._limits = limits
        self._now = now
        self._work: Rewriting | None = None
        self._dense: set[Path] = set()
        self._replaced: int | None = None

    def is_due(self, acked: int) -> bool:
        return bool(self._work or self._files.damaged or self._next_to_shrink(acked))

    def must_go(self, acked: int, growth: int) -> list[Sealed]:
        """What is dropped at once where another full file of `growth` bytes joins the others.

        What hubs have goes before the cap is reached. What they lack stays until it is passed:
        until then it can be thinned.
        """
        size = self._files.size + growth
        going: list[Sealed] = []
        for file in self._files:
            room = growth if file.last <= acked else 0
            if size + room <= self._limits.cap_bytes:
                break
            going.append(file)
            size -= file.size
        return going

    def step(self, current: SpoolFile) -> float | None:
        """A few ms of work; seconds until the next step may come, None if there is nothing to do.

        Raises what the spool's own file does. A draft that fails is forgotten.
        """
        if self._work is None:
            return self._begin(current)
        work = self._work
        try:
            if work.step():
                return 0.0
        except (sqlite3.Error, OSError) as error:
            self._end()
            return self._fail(work.source, error)
        try:
            self._finish(work, current)
        finally:
            self._end()
        return 0.0

    def sync(self) -> None:
        """With no lock held: an fsync of what the last step has written, or the end of a file."""
        self._let_go()
        if (work := self._work) is not None:
            with contextlib.suppress(OSError):  # the one at the end decides
                work.sync()

    def mend_all(self, current: SpoolFile) -> None:
        """Before there is anybody to wait for it. What cannot be mended now can be later."""
        try:
            while self._files.damaged and self.step(current) == 0.0:
                pass
        except (sqlite3.Error, OSError) as error:
            log.warning("a damaged spool file could not be mended: %s", error)

    def close(self) -> None:
        self._let_go()
        self._end()

    def _end(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None

    def _begin(self, current: SpoolFile) -> float | None:
        acked = current.meta.acked
        if damaged := next(iter(self._files.damaged), None):
            self._work = Rewriting(damaged, current.meta, "corrupt", mended)
        elif (file := self._next_to_shrink(acked)) is None:
            return None
        elif file.last <= acked:
            self._files.drop_oldest()
        else:
            log.warning("the spool reaches its cap: %s is thinned", file.path.name)
            self._work = Rewriting(file, current.meta, "cap", thinned)
        return 0.0

    def _next_to_shrink(self, acked: int) -> Sealed | None:
        """Once the file that is being written would, when it is full, be beyond the cap."""
        newest = self._files.newest
        if newest is None or self._files.size + newest.size <= self._limits.cap_bytes:
            return None
        return next(
            (file for file in self._files if file.last <= acked or self._is_thick(file)), None
        )

    def _is_thick(self, file: Sealed) -> bool:
        return file.path not in self._dense and all(reason != "cap" for *_, reason in file.gaps)

    def _finish(self, work: Rewriting, current: SpoolFile) -> None:
        source = work.source
        self._dense.add(source.path)
        if source not in tuple(self._files):
            return  # it had to go meanwhile
        self._files.close()
        if source in self._files.damaged:
            self._finish_mending(work, current)
        elif work.size <= MOST_SHARE * source.size:
            self._replace(work)

    def _replace(self, work: Rewriting) -> None:
        """The old file's blocks, which take a while to free, are held until nobody is kept waiting."""
        self._let_go()
        self._replaced = os.open(work.source.path, os.O_RDONLY | os.O_CLOEXEC)
        self._files.replace(work.source, work.finish())

    def _let_go(self) -> None:
        replaced, self._replaced = self._replaced, None
        if replaced is not None:
            os.close(replaced)

    def _finish_mending(self, work: Rewriting, current: SpoolFile) -> None:
        source, now = work.source, self._now()
        cause = self._files.damaged[source]
        if work.kept:
            self._aside.take(source.path, cause, work.lost, now, stays=True)
            self._replace(work)
            return
        # The gap first: should we be killed in between, the file is found again.
        first = max(source.first, current.meta.acked + 1)
        if first <= source.last:
            current.add_gap((first, source.last, "corrupt"))
        self._files.remove(source)
        if source.path.exists():
            self._aside.take(source.path, cause, work.lost, now)

    def _fail(self, source: Sealed, error: Exception) -> float:
        log.warning("%s could not be written anew: %s", source.path.name, error)
        if source in self._files.damaged:
            return AGAIN_S
        self._dense.add(source.path)
        if isinstance(error, sqlite3.DatabaseError) and is_damage(error):
            self._files.damaged[source] = str(error)
        return 0.0
