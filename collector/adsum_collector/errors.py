"""The errors that stop a collector: from starting, from accepting a signal, from publishing one."""

import errno
import sqlite3
from pathlib import Path

from adsum_shared import AdsumError


class StartError(AdsumError):
    """The collector cannot start. The text is for people: the thing, the cause, the next step."""


class SpoolUnavailable(RuntimeError):  # noqa: N818 - a state of the spool, said to the sender
    """The spool cannot promise durability now. The text says why; nothing was accepted."""


class DeliveryError(Exception):
    """What ends a connection to the stream, by either way, and is tried again on the next.

    wait_s: how long it is no use to try again. refused: something answers, and will again so.
    """

    wait_s = 0.0
    refused = False


class StreamMovedError(DeliveryError):
    """The stream is not where we left it: a copy of this machine writes to it."""

    def __init__(self) -> None:
        super().__init__(
            "Another collector uses this machine's identity: this looks like a copy of a machine. "
            "On the copy, stop the collector, run `adsum collector new-identity`, and start it again."
        )


class StreamUnusableError(DeliveryError):
    """An id that nobody of ours gave is so high that none can follow."""

    refused = True

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Somebody has written an entry with an absurd id into {key}, after which none of ours "
            "can follow. A hub deletes that stream; if none runs, start one. "
            "Look who else may write to this Redis."
        )


class HubError(DeliveryError):
    """The way through a hub does not work. The text names the hub, the cause and the next step."""

    def __init__(self, text: str, wait_s: float = 0.0, *, refused: bool = False) -> None:
        super().__init__(text)
        self.wait_s, self.refused = wait_s, refused


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


def shown(path: Path) -> str:
    """A path, for people."""
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
