"""What a spool file looks like inside, and how to tell one from every other file."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
from pathlib import Path
from typing import Any

import msgspec

from adsum_collector.spool.connection import connect_to_read

#: Kept as the file's user_version; 0 in files of the versions that did not say.
VERSION = 1
SCHEMA = """
CREATE TABLE signals (seq INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE messages (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE gaps (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""
#: At offset 18 of an SQLite file that is written through a log, as all spool files are.
_HAS_LOG = 2
_TABLES = frozenset({"signals", "messages", "state", "gaps", "meta"})


class Damaged(Exception):  # noqa: N818 - what the file is
    """The file cannot be trusted.

    unfinished: it was never completed, so nothing was in it. sound: what is wrong with it is none
    of its signals' fault.
    """

    def __init__(self, cause: str, *, unfinished: bool = False, sound: bool = False) -> None:
        super().__init__(cause)
        self.unfinished = unfinished
        self.sound = sound


class Meta(msgspec.Struct):
    """base: the number before the file's first. acked: every hub has this number and all below."""

    spool_id: str
    incarnation: int
    acked: int
    base: int


def create_tables(db: sqlite3.Connection, meta: Meta) -> None:
    """Within the caller's transaction."""
    for statement in SCHEMA.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.executemany("INSERT INTO meta VALUES (?, ?)", msgspec.structs.asdict(meta).items())


def require_ours(path: Path) -> None:
    """Raises Damaged for what is no spool file, before it is opened to be written.

    SQLite would wait for a pipe, and turn another program's database into one with a log.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise Damaged("it is a link to nothing") from error
    if not stat.S_ISREG(mode):
        raise Damaged("it is a directory" if stat.S_ISDIR(mode) else "it is no plain file")
    with path.open("rb") as file:
        head = file.read(100)
    if not head:
        return
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise Damaged("it is no database")
    if head[18] != _HAS_LOG:
        with contextlib.closing(connect_to_read(path)) as db:
            read_meta(db)


def _require_known(version: int) -> None:
    if version > VERSION:
        raise Damaged(
            f"a newer version of Adsum has written it: its schema is {version}, and this version "
            f"reads {VERSION}",
            sound=True,
        )


def read_meta(db: sqlite3.Connection) -> tuple[Meta, dict[str, Any]]:
    """Also as it is stored. Raises Damaged, DatabaseError."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if not tables and not version:
        raise Damaged("it was never finished", unfinished=True)
    if not tables >= _TABLES:
        raise Damaged("it is another program's database")
    _require_known(version)
    stored = dict(db.execute("SELECT key, value FROM meta"))
    try:
        return msgspec.convert(stored, Meta), stored
    except msgspec.ValidationError as error:
        raise Damaged(f"it does not say whose numbers it holds: {error}") from error
