"""The spool's files as one row of numbers: appended at one end, unlinked whole at the other."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

import msgspec

from adsum_collector.identity import make_private
from adsum_collector.spool.anew import KEPT_MESSAGES, Anew, create_successor, written_again
from adsum_collector.spool.aside import Aside
from adsum_collector.spool.connection import is_full
from adsum_collector.spool.directory import number_of, path_of, unlink
from adsum_collector.spool.doubt import Doubt
from adsum_collector.spool.file import Append, SpoolFile
from adsum_collector.spool.gaps import with_gap
from adsum_collector.spool.limits import Limits, SpaceCheck
from adsum_collector.spool.reading import Missing, Rows, first_after, read_after
from adsum_collector.spool.repair import open_files
from adsum_collector.spool.reserve import Reserve
from adsum_collector.spool.schema import Meta
from adsum_collector.spool.sealed import SealedFiles
from adsum_collector.spool.status import SpoolStatus, status_of
from adsum_collector.spool.tending import Tending

log = logging.getLogger(__name__)


class SpoolFiles:
    """Synchronous, for one caller at a time. now: seconds of wall clock."""

    def __init__(self, directory: Path, limits: Limits, now: Callable[[], float]) -> None:
        self._directory = directory
        self._limits = limits
        self._now = now
        self._space = SpaceCheck(directory, limits, now)
        self._logged = 0
        self._doubt = Doubt(directory, self._recover, self._undo, now)
        make_private(directory)
        self._aside = Aside(directory)
        self._reserve = Reserve(directory, limits.rotate_bytes // 4)
        self._current, self._sealed, self._tending = self._open()
        self._tending.mend_all(self._current)
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

    @property
    def wants_tending(self) -> bool:
        return self._tending.is_due(self.meta.acked)

    @property
    def notice(self) -> str | None:
        return self._aside.notice(self._now())

    def commit(self, appends: Sequence[Append]) -> list[int]:
        """On disk when this returns. Raises SpoolUnavailable, and then nothing was accepted."""
        with self._trusted():
            before = self._current.size
            if any(append.signals for append in appends):
                self._look_at_disk()
                if self._current.size >= self._limits.rotate_bytes:
                    self._rotate()
                before = self._current.size
                numbers = self._current.insert(appends)
            else:
                numbers = self._note(appends)
        # each commit rewrites at least the page it ends in
        self._logged += self._current.size - before + 4096
        return numbers

    def read(self, after: int, limit: int, limit_bytes: int) -> Rows | Missing | None:
        """What follows `after`; None at the end. At least one row, however big it is.

        Raises SpoolUnavailable. So do all below; and any of them may, as `commit` may, find the
        newest file damaged and go on with a new spool_id.
        """
        with self._trusted():
            return read_after(self._current, self._sealed, after, limit, limit_bytes)

    def acknowledge(self, seq: int) -> None:
        """Every hub has `seq` durably: files wholly below it go once they are old enough."""
        spool_id = self.meta.spool_id
        with self._trusted():
            if self.meta.spool_id != spool_id:
                return  # it was another spool's number
            acked = min(seq, self.last)
            if acked > self.meta.acked:
                self._current.remember(msgspec.structs.replace(self.meta, acked=acked))
            self._sealed.drop_acknowledged(acked, self._now() - self._limits.retention_s)

    def set_incarnation(self, incarnation: int) -> None:
        with self._trusted():
            self._current.remember(msgspec.structs.replace(self.meta, incarnation=incarnation))

    def begin_anew(self, reason: str, incarnation: int, **more: Unpack[Anew]) -> None:
        """A new spool_id; what no hub has is kept, under new numbers. Number 1 is a gap."""
        ours = self.meta.spool_id
        with self._trusted():
            if self.meta.spool_id == ours:  # else these are another spool's numbers
                self._begin_anew(reason, incarnation, more)

    def tend(self) -> float | None:
        """A few ms of work on full files: seconds until the next step, None if nothing is to do."""
        with self._trusted():
            return self._tending.step(self._current)

    def sync_draft(self) -> None:
        """Beside any other caller: what the last step has written is synced."""
        self._tending.sync()

    def checkpoint(self) -> None:
        self._logged = 0
        with self._trusted():
            self._current.checkpoint()

    def probe(self) -> None:
        """Whether something could be written now."""
        with self._trusted():
            self._look_at_disk()
            self._current.write_meta(self.meta)

    def status(self) -> SpoolStatus:
        with self._trusted():
            oldest = first_after(self._current, self._sealed, self.meta.acked)
            return status_of(
                self._current,
                list(self._sealed),
                self._aside.files,
                oldest,
                self._limits,
                self._now(),
            )

    def close(self) -> None:
        self._tending.close()
        self._sealed.close()
        with contextlib.suppress(sqlite3.Error):  # a full disk must not keep us from stopping
            self._current.checkpoint()
        self._current.close()
        self._reserve.keep()

    def _open(self, known: Meta | None = None) -> tuple[SpoolFile, SealedFiles, Tending]:
        current, full, damaged = open_files(self._directory, self._aside, self._now(), known)
        sealed = SealedFiles(full, damaged)
        return current, sealed, Tending(sealed, self._aside, self._limits, self._now)

    def _trusted(self) -> contextlib.AbstractContextManager[None]:
        return self._doubt.trusted()

    def _undo(self) -> None:
        self._current.undo()

    def _recover(self) -> None:
        """After an error: believe only what can be read back, and add nothing to it.

        Pages whose fsync failed may be in memory only, and the next fsync says nothing of them. So
        they are written out anew, and the next commit goes into a file of its own.
        """
        known, last = self.meta, self.last
        self._tending.close()
        self._current.close()
        self._sealed.close()
        self._current, self._sealed, self._tending = self._open(known)
        if self.meta.spool_id == known.spool_id and self.last < last:
            self._begin_anew("corrupt", 0, {})  # or numbers would be given twice
        else:
            self._rotate()

    def _begin_anew(self, reason: str, incarnation: int, more: Anew) -> None:
        old = self._current
        self._current = create_successor(old, self._sealed, reason, incarnation, more)
        old.close()
        while self._sealed:
            self._sealed.drop_oldest()
        unlink(old.path)

    def _look_at_disk(self) -> None:
        """Raises SpoolUnavailable. Once a second."""
        if not self._space.is_due:
            return
        if not self._current.path.exists():
            log.error("%s was deleted; what was in it is written again", self._current.path)
            make_private(self._directory)
            self._current = written_again(self._current)
        # what hubs have stays for their comfort only
        acked = self.meta.acked
        self._space.require(lambda: self._sealed.drop_acknowledged(acked, float("inf")))
        self._reserve.keep()

    def _note(self, appends: Sequence[Append]) -> list[int]:
        """What a full disk must not refuse, or nothing could be published from it any more."""
        try:
            return self._current.insert(appends)
        except sqlite3.Error as error:
            if not (is_full(error) and self._reserve.give_up()):
                raise
            self._current.undo()
            return self._current.insert(appends)

    def _rotate(self) -> None:
        old = self._current
        old.checkpoint()
        acked = old.meta.acked
        sealed = old.sealed(old.path.stat().st_size, self._now())
        going = self._tending.must_go(acked, sealed.size)
        gaps = [gap for gap in old.gaps if gap[1] > acked]
        for file in going:
            if file.last > acked:
                gaps = with_gap(gaps, (max(file.first, acked + 1), file.last, "cap"))
        # With the gaps in it, before anything goes: a kill in between leaves none without a reason.
        self._current = SpoolFile.create(
            path_of(self._directory, number_of(old.path) + 1),
            msgspec.structs.replace(old.meta, base=old.last),
            messages=dict(list(old.messages.items())[-KEPT_MESSAGES:]),
            state=old.state,
            gaps=gaps,
        )
        old.close()
        for _ in going:
            self._sealed.drop_oldest()
        if old.is_empty:
            unlink(old.path)
        else:
            self._sealed.append(sealed)
        self._current.roll_out_log(self._limits.log_bytes)
        self._logged = 0
