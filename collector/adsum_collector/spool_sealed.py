"""The spool's full files: read on from one to the next, unlinked whole from the oldest on."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable

from adsum_collector.spool_file import Damaged, SpoolFile
from adsum_collector.spool_repair import Sealed, set_aside, unlink

log = logging.getLogger(__name__)


class SealedFiles:
    """Oldest first. One is open at a time, as the publisher reads them in order."""

    def __init__(self, files: Iterable[Sealed] = ()) -> None:
        self._files = list(files)
        self._reader: SpoolFile | None = None

    def __bool__(self) -> bool:
        return bool(self._files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self._files)

    def append(self, file: Sealed) -> None:
        self._files.append(file)

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]] | None:
        """None if no full file reaches beyond `after`. Raises sqlite3.Error, but not for damage.

        Nobody has checked these files since they were full: that takes 100 ms for each, during
        which no hook could be answered. Damage shows when its page is read.
        """
        while (file := self._after(after)) is not None:
            try:
                return self._open(file).rows(after, limit)
            except Damaged as damage:
                self._give_up(file, damage)
            except sqlite3.DatabaseError as error:
                if not getattr(error, "sqlite_errorname", "").startswith(
                    ("SQLITE_CORRUPT", "SQLITE_NOTADB")
                ):
                    raise
                self._give_up(file, error)
        return None

    def last_after(self, after: int) -> int | None:
        """Where the file ends that should hold what follows `after`."""
        file = self._after(after)
        return file.last if file else None

    def drop_acknowledged(self, acked: int, oldest: float) -> None:
        while self._files and self._files[0].last <= acked and self._files[0].sealed_at < oldest:
            self.drop_oldest()

    def drop_oldest(self) -> Sealed:
        self.close()
        oldest = self._files.pop(0)
        unlink(oldest.path)
        return oldest

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

    def _give_up(self, file: Sealed, cause: Exception) -> None:
        self.close()
        self._files.remove(file)
        set_aside(file.path, cause)
