"""The spool's files as one row of numbers: appended at one end, unlinked whole at the other."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.identity import make_private
from adsum_collector.spool_file import Append, Meta, SpoolFile
from adsum_collector.spool_repair import (
    Limits,
    Sealed,
    create_anew,
    number_of,
    open_files,
    path_of,
    require_space,
    unlink,
)
from adsum_collector.spool_sealed import SealedFiles

#: How many message ids a new file inherits: a sender gives up after seconds.
KEPT_MESSAGES = 256
#: Seconds between two looks at the free space.
SPACE_CHECK_S = 1.0
#: Seconds between two attempts to read a failed file anew.
RECOVERY_S = 1.0


class Rows(msgspec.Struct, frozen=True):
    """Signals numbered `first` onwards, without a hole."""

    first: int
    bodies: list[bytes]


class Missing(msgspec.Struct, frozen=True):
    """Numbers this spool does not hold (any more)."""

    first: int
    last: int
    reason: str


class SpoolFiles:
    """Synchronous, for one caller at a time. now: seconds of wall clock."""

    def __init__(self, directory: Path, limits: Limits, now: Callable[[], float]) -> None:
        self._directory = directory
        self._limits = limits
        self._now = now
        self._suspect = False
        self._space_checked = float("-inf")
        self._logged = 0
        self._failed_at = float("-inf")
        make_private(directory)
        self._current, sealed = open_files(directory)
        self._sealed = SealedFiles(sealed)
        self._current.roll_out_log(limits.log_bytes)

    @property
    def meta(self) -> Meta:
        return self._current.meta

    @property
    def last(self) -> int:
        return self._current.last

    @property
    def size(self) -> int:
        return self._current.size + self._sealed.size

    @property
    def state(self) -> dict[str, bytes]:
        return self._current.state

    @property
    def log_is_long(self) -> bool:
        return self._logged > self._limits.log_bytes

    def commit(self, appends: Sequence[Append]) -> list[int]:
        """On disk when this returns. Raises SpoolUnavailable, and then nothing was accepted."""
        with self._trusted():
            self._require_space()
            if self._current.size >= self._limits.rotate_bytes:
                self._rotate()
            before = self._current.size
            numbers = self._current.insert(appends)
        # each commit rewrites at least the page it ends in
        self._logged += self._current.size - before + 4096
        return numbers

    def read(self, after: int, limit: int, limit_bytes: int) -> Rows | Missing | None:
        """What follows `after`; None at the end. At least one row, however big it is.

        Raises SpoolUnavailable. So do all below; and any of them may, as `commit` may, find the
        newest file damaged and go on with a new spool_id.
        """
        with self._trusted():
            if after >= self.last:
                return None
            rows = self._sealed.rows(after, limit)
            if rows is None:
                rows = self._current.rows(after, limit)
            if not rows or rows[0][0] != after + 1:
                # no row at all: the hole ends where the file ends that should hold it
                last = rows[0][0] - 1 if rows else self._sealed.last_after(after) or self.last
                return Missing(after + 1, last, self._reason(after + 1))
        bodies: list[bytes] = []
        for expected, (seq, body) in enumerate(rows, after + 1):
            limit_bytes -= len(body)
            if seq != expected or (bodies and limit_bytes < 0):
                break
            bodies.append(body)
        return Rows(after + 1, bodies)

    def acknowledge(self, seq: int) -> None:
        """Every hub has `seq` durably: files wholly below it go once they are old enough."""
        spool_id = self.meta.spool_id
        with self._trusted():
            if self.meta.spool_id != spool_id:
                return  # it was another spool's number
            acked = min(seq, self.last)
            if acked > self.meta.acked:
                self._remember_acked(msgspec.structs.replace(self.meta, acked=acked))
            self._sealed.drop_acknowledged(acked, self._now() - self._limits.retention_s)

    def set_incarnation(self, incarnation: int) -> None:
        with self._trusted():
            self._current.remember(msgspec.structs.replace(self.meta, incarnation=incarnation))

    def begin_anew(self, reason: str, incarnation: int) -> None:
        """A new spool_id; what no hub has confirmed is kept, under new numbers."""
        with self._trusted():
            old = self._current
            path = path_of(self._directory, number_of(old.path) + 1)
            self._current = create_anew(path, reason, incarnation, self._unconfirmed(), old.state)
            old.close()
            while self._sealed:
                self._sealed.drop_oldest()
            unlink(old.path)

    def checkpoint(self) -> None:
        self._current.checkpoint()
        self._logged = 0

    def close(self) -> None:
        self._sealed.close()
        with contextlib.suppress(sqlite3.Error):  # a full disk must not keep us from stopping
            self._current.checkpoint()
        self._current.close()

    @contextlib.contextmanager
    def _trusted(self) -> Iterator[None]:
        """Turns what SQLite and the disk say into SpoolUnavailable, and remembers to look again."""
        try:
            self._recover()
            yield
        except (sqlite3.Error, OSError) as error:
            self._suspect_after(error)
            raise SpoolUnavailable(f"{self._directory} cannot be used: {error}") from error

    def _remember_acked(self, meta: Meta) -> None:
        try:
            self._current.remember(meta)
        except sqlite3.Error as error:
            if not _is_full(error):
                raise
            # Deleting is what a full disk needs; the number itself comes again from the hub.
            self._current.undo()
            self._current.meta = meta

    def _recover(self) -> None:
        """After an error: believe only what can be read back."""
        if not self._suspect:
            return
        if 0 <= self._now() - self._failed_at < RECOVERY_S:
            raise SpoolUnavailable(f"{self._directory} failed a moment ago")
        self._failed_at = self._now()
        self._current.close()
        self._sealed.close()
        self._current, sealed = open_files(self._directory)
        self._sealed = SealedFiles(sealed)
        # Frames whose fsync failed may be in memory only: written out anew, they are no hole under
        # the commits that follow.
        self._current.checkpoint()
        self._logged = 0
        self._suspect = False

    def _suspect_after(self, error: Exception) -> None:
        """A full disk refuses and harms nothing. After any other error, who knows what is there."""
        self._suspect = not _is_full(error)
        try:
            self._current.undo()
        except sqlite3.Error:
            self._suspect = True

    def _require_space(self) -> None:
        now = self._now()
        if 0 <= now - self._space_checked < SPACE_CHECK_S:
            return
        require_space(self._directory, self._limits.min_free_bytes)
        self._space_checked = now

    def _rotate(self) -> None:
        old = self._current
        old.checkpoint()
        gaps = old.gaps()
        while self._sealed and self.size + self._limits.rotate_bytes > self._limits.cap_bytes:
            dropped = self._sealed.drop_oldest()
            if dropped.last > old.meta.acked:
                gaps.append((max(dropped.first, old.meta.acked + 1), dropped.last, "cap"))
        self._current = SpoolFile.create(
            path_of(self._directory, number_of(old.path) + 1),
            msgspec.structs.replace(old.meta, base=old.last),
            messages=dict(list(old.messages.items())[-KEPT_MESSAGES:]),
            state=old.state,
            gaps=[gap for gap in gaps if gap[1] > old.meta.acked],
        )
        old.close()
        size = old.path.stat().st_size
        self._current.roll_out_log(self._limits.log_bytes)
        self._logged = 0
        self._sealed.append(Sealed(old.path, old.first, old.last, size, self._now()))

    def _reason(self, seq: int) -> str:
        for first, last, reason in self._current.gaps():
            if first <= seq <= last:
                return reason
        return "retention" if seq <= self.meta.acked else "corrupt"

    def _unconfirmed(self) -> Iterator[bytes]:
        after = self.meta.acked
        while (found := self.read(after, 1000, 16 << 20)) is not None:
            if isinstance(found, Missing):
                after = found.last
                continue
            yield from found.bodies
            after += len(found.bodies)


def _is_full(error: Exception) -> bool:
    return getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
