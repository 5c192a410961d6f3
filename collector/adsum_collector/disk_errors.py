"""What an error of SQLite or of the system says about the disk and about the file."""

from __future__ import annotations

import errno
import sqlite3

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


def is_full(error: Exception) -> bool:
    return (
        getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
        or getattr(error, "errno", None) in _FULL
    )


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the error is one of the file, rather than of the disk, of rights or of memory."""
    # what Python itself could not decode bears no name
    return getattr(error, "sqlite_errorname", "SQLITE_CORRUPT").startswith(_DAMAGE)
