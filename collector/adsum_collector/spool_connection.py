"""How the spool opens SQLite: durable with every commit, and no other process beside us."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

#: What a burst may leave of its log.
LOG_LIMIT = 16 << 20


def connect(path: Path) -> sqlite3.Connection:
    """One connection per file, so no shared-memory index and no lock calls: raises DatabaseError.

    The log is checkpointed by us, outside the commits that a sender waits for.
    """
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
