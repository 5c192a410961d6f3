"""The spool's full files: read on from one to the next, unlinked whole from the oldest on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.spool.connection import is_damage
from adsum_collector.spool.directory import Sealed, unlink
from adsum_collector.spool.file import SpoolFile
from adsum_collector.spool.gaps import Gap, find_gap
from adsum_collector.spool.schema import Damaged


class SealedFiles:
    """Oldest first. One is open at a time, as the publisher reads them in order.

    damaged: file -> cause, of those that cannot be read to their end until they have been mended.
    """

    def __init__(self, files: Iterable[Sealed], damaged: Mapping[Sealed, str]) -> None:
        self._files = list(files)
        self._reader: SpoolFile | None = None
        self.damaged = dict(damaged)

    def __iter__(self) -> Iterator[Sealed]:
        return iter(tuple(self._files))

    def __bool__(self) -> bool:
        return bool(self._files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self._files)

    @property
    def newest(self) -> Sealed | None:
        return self._files[-1] if self._files else None

    def append(self, file: Sealed) -> None:
        self._files.append(file)

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]] | None:
        """None if no full file reaches beyond `after`. Raises sqlite3.Error, SpoolUnavailable.

        Nobody has checked these files since they were full: that takes 100 ms for each, during
        which no hook could be answered. Damage shows when its page is read.
        """
        if (file := self._after(after)) is None:
            return None
        if file not in self.damaged:
            try:
                return self._open(file).rows(after, limit)
            except Damaged as damage:
                self._mark(file, damage)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._mark(file, error)
        raise SpoolUnavailable(f"{file.path} is damaged; what can be read of it is being saved")

    def last_after(self, after: int) -> int | None:
        """Where the file ends that should hold what follows `after`."""
        file = self._after(after)
        return file.last if file else None

    def gap_at(self, seq: int) -> Gap | None:
        return find_gap((gap for file in self._files for gap in file.gaps), seq)

    def drop_acknowledged(self, acked: int, oldest: float) -> None:
        while self._files and self._files[0].last <= acked and self._files[0].sealed_at < oldest:
            self.drop_oldest()

    def drop_oldest(self) -> Sealed:
        oldest = self._files[0]
        self.remove(oldest)
        unlink(oldest.path)
        return oldest

    def remove(self, file: Sealed) -> None:
        """From here; on disk it stays."""
        self.close()
        self._files.remove(file)
        self.damaged.pop(file, None)

    def replace(self, old: Sealed, by: Sealed) -> None:
        self.close()
        self._files[self._files.index(old)] = by
        self.damaged.pop(old, None)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _after(self, after: int) -> Sealed | None:
        return next((file for file in self._files if file.last > after), None)

    def _open(self, file: Sealed) -> SpoolFile:
        if self._reader is None or self._reader.path != file.path:
            self.close()
            self._reader = SpoolFile.open_sealed(file.path)
        return self._reader

    def _mark(self, file: Sealed, cause: Exception) -> None:
        self.close()
        self.damaged[file] = str(cause)
