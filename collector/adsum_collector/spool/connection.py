"""How the spool opens SQLite: durable with every commit, and no other process beside us."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

#: What a burst may leave of its log.
LOG_LIMIT = 16 << 20

_FULL = (errno.ENOSPC, errno.EDQUOT)
#: A sector that cannot be read is damage like any other. What SQLite calls an ERROR is a table or a
#: column that should be there.
_DAMAGE = (
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
    "SQLITE_ERROR",
    "SQLITE_IOERR_READ",
    "SQLITE_IOERR_SHORT_READ",
    "SQLITE_IOERR_CORRUPTFS",
)


def connect(path: Path) -> sqlite3.Connection:
    """One connection per file, so no shared-memory index and no lock calls: raises DatabaseError.

    The log is checkpointed by us, outside the commits that a sender waits for.
    """
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        require_log(db)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def require_log(db: sqlite3.Connection) -> None:
    """SQLite keeps the mode it has, without an error, where the disk refuses the change."""
    if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise sqlite3.OperationalError("the disk takes no write-ahead log")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """For a file that nobody writes to and whose log is empty: leaves no trace on the disk."""
    uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def connect_draft(path: Path) -> sqlite3.Connection:
    """For a file that counts for nothing before it is whole and synced."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    return db


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    sync_file(directory)


def is_full(error: Exception) -> bool:
    return (
        getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
        or getattr(error, "errno", None) in _FULL
    )


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether it tells of the file, rather than of the disk, of rights or of memory."""
    # what Python itself could not decode bears no name
    return getattr(error, "sqlite_errorname", "SQLITE_CORRUPT").startswith(_DAMAGE)
