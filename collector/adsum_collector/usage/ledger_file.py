"""Opens the ledger's file, or quarantines it and begins a new one. Blocks."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
from pathlib import Path
from typing import Final

import msgspec

from adsum_collector.errors import is_damage, is_full
from adsum_shared.private_files import open_private

NAME: Final = "usage.db"
ASIDE: Final = ".aside"
APPLICATION: Final = 0x61647375
SCHEMA: Final = 1
#: Another process writes for a tenth of a second at most.
BUSY_S: Final = 10.0
#: What a batch of a history changes fits into both.
CACHE_KB: Final = 16_000
LOG_PAGES: Final = 4000

TABLES: Final = """
CREATE TABLE sources (
  id INTEGER PRIMARY KEY, begun INTEGER NOT NULL, session_id TEXT NOT NULL,
  UNIQUE (session_id, begun)
);
CREATE TABLE totals (
  id INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL, day TEXT NOT NULL, model TEXT NOT NULL,
  fast INTEGER NOT NULL, geo TEXT NOT NULL, long INTEGER NOT NULL,
  messages INTEGER NOT NULL DEFAULT 0, input INTEGER NOT NULL DEFAULT 0,
  output INTEGER NOT NULL DEFAULT 0, cache_read INTEGER NOT NULL DEFAULT 0,
  cache_5m INTEGER NOT NULL DEFAULT 0, cache_1h INTEGER NOT NULL DEFAULT 0,
  web_searches INTEGER NOT NULL DEFAULT 0,
  latest INTEGER NOT NULL DEFAULT 0,
  changes INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 0,
  UNIQUE (session_id, day, model, fast, geo, long)
);
CREATE INDEX untold ON totals (id) WHERE changes > told;
CREATE TABLE messages (key INTEGER PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE files (
  path BLOB PRIMARY KEY, session_id TEXT NOT NULL, child INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL, dev INTEGER NOT NULL,
  place BLOB NOT NULL, first INTEGER, first_s INTEGER,
  forked_from TEXT, fork_told INTEGER NOT NULL DEFAULT 1, past INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE told (reader TEXT NOT NULL);
"""


#: What whoever uses a ledger has to expect: the disk, and what it made of what was written.
SQL_ERRORS: Final = (sqlite3.Error, msgspec.DecodeError, struct.error)


class LedgerError(Exception):
    """The ledger cannot be used just now; what it says is for people."""


def open_ledger(directory: Path) -> tuple[sqlite3.Connection, str | None]:
    """And what to tell people, if another had to be set aside for it. Raises LedgerError."""
    path = directory / NAME
    try:
        try:
            return _opened(path), None
        except _ForeignError as error:
            why = str(error)
        except sqlite3.DatabaseError as error:
            if not is_spoilt(error):
                raise
            why = f"could not be read ({error})"
        set_aside(path)
        return _opened(path), _note(why)
    except (OSError, sqlite3.Error, _ForeignError) as error:
        raise LedgerError(sentence(error, directory)) from error


def set_aside(path: Path) -> None:
    """Only the latest is kept. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        path.replace(f"{path}{ASIDE}")
    for rest in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + rest).unlink(missing_ok=True)


def is_spoilt(error: Exception) -> bool:
    """Whether another file would do."""
    if isinstance(error, sqlite3.DatabaseError):
        return is_damage(error)
    return isinstance(error, msgspec.DecodeError | struct.error)


def replace_spoilt(directory: Path, error: Exception) -> str | None:
    """What to tell people."""
    try:
        set_aside(directory / NAME)
    except OSError:
        return None  # tried again, like all that follows
    return _note(f"could not be read ({error})")


def _note(why: str) -> str:
    return f"{NAME} {why}: it was set aside and usage is added up anew. Nothing is to be done."


def sentence(error: Exception, directory: Path) -> str:
    """What keeps usage from being added up, and the next step."""
    if is_full(error):
        return f"Usage waits: the disk of {directory} is full. Next: make room."
    return f"Usage waits: {directory / NAME} cannot be written to ({error}). Next: adsum doctor"


class _ForeignError(Exception):
    pass


def _opened(path: Path) -> sqlite3.Connection:
    os.close(open_private(path, os.O_CREAT | os.O_RDWR))  # SQLite itself follows links
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_S)
    try:
        # Not kept for the disk's sake: what a loss of power takes is read again.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        lay_out(db)
    except BaseException:
        db.close()
        raise
    return db


def lay_out(db: sqlite3.Connection) -> sqlite3.Connection:
    """Its tables, if there are none yet. Raises _ForeignError."""
    db.execute("BEGIN IMMEDIATE")
    if not _is_ours(db):
        for statement in TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    db.execute("COMMIT")
    return db


def _is_ours(db: sqlite3.Connection) -> bool:
    """False if there is nothing yet. Raises _ForeignError."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not application:
        return False
    if application != APPLICATION:
        raise _ForeignError("was not written by Adsum")
    if schema != SCHEMA:
        raise _ForeignError(f"was written by another version (schema {schema}, not {SCHEMA})")
    return True
