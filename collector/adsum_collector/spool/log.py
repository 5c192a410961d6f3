"""Whether a file's write-ahead log has lost commits: SQLite drops them behind damage without a word."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

from adsum_collector.spool.connection import is_full
from adsum_collector.spool.directory import log_of

_HEADER = struct.Struct(">8xI4x8s8x")  # the size of a page, the salt of all frames since a reset
_FRAME = struct.Struct(">4xI8s8x")  # the size of the database if a commit ends here, the salt


def last_commit(path: Path) -> int:
    """The frame with which the last commit ends that the log of this file tells of; 0 if none.

    Frames of before the log's last reset bear another salt, those of what was taken back no size.
    """
    try:
        with log_of(path).open("rb") as file:
            head = file.read(_HEADER.size)
            if len(head) < _HEADER.size:
                return 0
            page_size, salt = _HEADER.unpack(head)
            found, at = 0, 0
            while len(frame := file.read(_FRAME.size)) == _FRAME.size:
                at += 1
                size, its = _FRAME.unpack(frame)
                if its == salt and size:
                    found = at
                file.seek(page_size, 1)
            return found
    except FileNotFoundError:
        return 0


def has_all(db: sqlite3.Connection, commit: int) -> bool:
    """Whether SQLite, when it opened the file, found everything up to that frame."""
    if not commit:
        return True
    try:
        _, frames, _ = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.OperationalError as error:
        if not is_full(error):
            raise
        return True  # nobody can tell
    return bool(frames >= commit)
