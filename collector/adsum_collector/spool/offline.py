"""How the spool stands while no collector runs: read from its files, of which not a byte changes."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from adsum_collector.spool.aside import files_set_aside
from adsum_collector.spool.connection import connect, connect_to_read
from adsum_collector.spool.directory import Sealed, log_of, spool_paths
from adsum_collector.spool.file import SpoolFile
from adsum_collector.spool.limits import Limits
from adsum_collector.spool.schema import Damaged, read_meta, require_ours
from adsum_collector.spool.status import SpoolStatus, status_of


class EmptySpoolError(Exception):
    """No spool file is there, or none that can be read. The text says which."""


def offline_status(directory: Path, limits: Limits, now: float) -> SpoolStatus:
    """now: seconds of wall clock. Raises EmptySpoolError, OSError, sqlite3.Error."""
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
                stat = path.stat()
                sealed.insert(0, file.sealed(stat.st_size, stat.st_mtime))
            rows = file.rows(max(current.meta.acked, file.meta.base), 1)
            oldest = rows[0][1] if rows else oldest
        if current is None:
            raise EmptySpoolError(" ".join(faults) or "There is none yet.")
        status = status_of(current, sealed, files_set_aside(directory), oldest, limits, now)
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
            db = connect_to_read(path)
        opened.callback(db.close)
        meta, stored = read_meta(db)
        file = SpoolFile(path, db, meta)
        file.absent = int(stored.get("absent", 0))
        yield file
