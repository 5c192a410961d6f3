"""A full file written anew with fewer rows, in small steps, and put into the old one's place."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator

import msgspec

from adsum_collector.spool.connection import (
    connect_draft,
    connect_to_read,
    require_log,
    sync_directory,
    sync_file,
)
from adsum_collector.spool.directory import Sealed, draft_of
from adsum_collector.spool.gaps import Gap, with_gap
from adsum_collector.spool.salvage import readable
from adsum_collector.spool.schema import Meta, create_tables
from adsum_collector.spool.worth import Worth

#: What one step may take, and how much it may write: an fsync of that is as quick as a commit's.
STEP_S = 0.002
STEP_BYTES = 256 << 10

Row = tuple[int, bytes]
#: The rows of a file that are to stay, of those above a number, in order; None for a row that is
#: not to, and as a sign of life.
Choose = Callable[[sqlite3.Connection, Sealed, int], Iterator[Row | None]]


class Rewriting:
    """Nothing counts before `finish`. What is raised is SQLite's and the disk's.

    meta: the spool's. reason: why numbers of it will be missing.
    """

    def __init__(self, source: Sealed, meta: Meta, reason: str, choose: Choose) -> None:
        self.source = source
        self._meta = msgspec.structs.replace(meta, base=source.first - 1)
        self._reason = reason
        self._choose = choose
        self._draft = draft_of(source.path)
        self._written = False
        self._steps = self._copy()
        self.kept = 0
        self._kept_unsent = 0

    @property
    def lost(self) -> int:
        """How many numbers go with this that no hub has, and that were there before."""
        unsent = self.source.last - max(self.source.first - 1, self._meta.acked)
        return max(0, unsent - self._kept_unsent - self.source.absent)

    @property
    def absent(self) -> int:
        return self.source.last - self.source.first + 1 - self.kept

    @property
    def size(self) -> int:
        return self._draft.stat().st_size

    def step(self) -> bool:
        """False once the draft is whole."""
        return next(self._steps, False)

    def sync(self) -> None:
        """Between steps, with no lock held: it may take as long as a commit does."""
        if self._written:
            self._written = False
            sync_file(self._draft)

    def finish(self) -> Sealed:
        """From now on, durably, the draft is the file."""
        stat = self.source.path.stat()
        os.utime(self._draft, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as old as its rows are
        size = self.size
        sync_file(self._draft)
        self._draft.replace(self.source.path)
        sync_directory(self._draft.parent)
        return msgspec.structs.replace(
            self.source, size=size, gaps=tuple(self._gaps()), absent=self.absent
        )

    def close(self) -> None:
        self._steps.close()
        self._draft.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _chosen(self) -> Iterator[Iterator[Row | None]]:
        if not self.source.path.is_file():  # gone, or a pipe that we would wait for
            yield iter(())
            return
        with contextlib.closing(connect_to_read(self.source.path)) as source:
            yield self._choose(source, self.source, self._meta.acked)

    def _gaps(self) -> list[Gap]:
        """One for the whole file: of what it spans, what is no row will never come."""
        gaps = list(self.source.gaps)
        whole = (self.source.first, self.source.last, self._reason)
        return with_gap(gaps, whole) if self.absent else gaps

    def _copy(self) -> Generator[bool, None, None]:
        with contextlib.closing(connect_draft(self._draft)) as draft, self._chosen() as chosen:
            with _transaction(draft):
                create_tables(draft, self._meta)
            for rows in _steps(chosen):
                if rows:
                    with _transaction(draft):
                        draft.executemany("INSERT INTO signals VALUES (?, ?)", rows)
                    self.kept += len(rows)
                    self._kept_unsent += sum(seq > self._meta.acked for seq, _ in rows)
                    self._written = True
                yield True
            with _transaction(draft):
                draft.executemany("INSERT INTO gaps VALUES (?, ?, ?)", self._gaps())
                draft.execute("INSERT INTO meta VALUES ('absent', ?)", (self.absent,))
            # as all spool files are, so that reading it will not have to change it
            require_log(draft)
        self._written = True
        yield True


def thinned(db: sqlite3.Connection, source: Sealed, acked: int) -> Iterator[Row | None]:
    """What is worth keeping of what no hub has."""
    query = "SELECT seq, body FROM signals WHERE seq > ? ORDER BY seq"
    after = max(source.first - 1, acked)
    worth = Worth(source.first, source.last - source.first + 1)
    for seq, body in db.execute(query, (after,)):
        worth.consider(seq, body)
        yield None
    for _ in worth.judge_calls():
        yield None
    for seq, body in db.execute(query, (after,)):
        yield None if worth.is_spare(seq) else (seq, body)


def mended(db: sqlite3.Connection, source: Sealed, acked: int) -> Iterator[Row | None]:
    """What can still be read, also of what hubs have: one may ask for it again."""
    del acked
    return readable(db, source.first - 1, source.last)


def _steps(rows: Iterator[Row | None]) -> Iterator[list[Row]]:
    """Until a step's time is over, or it holds enough."""
    step: list[Row] = []
    size = 0
    until = time.perf_counter() + STEP_S
    for row in rows:
        if row is not None:
            step.append(row)
            size += len(row[1])
        if size > STEP_BYTES or time.perf_counter() > until:
            yield step
            step, size = [], 0
            until = time.perf_counter() + STEP_S
    yield step


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN")
    yield
    db.execute("COMMIT")
