"""What to tell people when our batches do not get into the stream. Names no secret."""

from __future__ import annotations

import logging
from collections.abc import Callable

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    TimeoutError,
)

from adsum_collector.errors import SpoolUnavailable, StreamMovedError
from adsum_shared.connect import BrokerTooOldError, address_of

log = logging.getLogger(__name__)

#: How long a copy of this machine is told of after its last sign: both go on, and one that sends
#: little shows itself only now and then.
COPY_TOLD_S = 600.0
_KEPT = "Nothing is lost: signals wait on this disk."


class Problem:
    """What keeps the publisher from publishing, each cause until that one is over.

    now: seconds of wall clock.
    """

    def __init__(self, url: str, now: Callable[[], float]) -> None:
        self.address = address_of(url)
        self._now = now
        self._broker: str | None = f"Not connected to Redis at {self.address} yet."
        self._spool: str | None = None
        self._logged: str | None = None
        self._copy = str(StreamMovedError())
        self._copy_seen = float("-inf")

    @property
    def text(self) -> str | None:
        if self._spool or self._broker:
            return self._spool or self._broker
        return self._copy if 0 <= self._now() - self._copy_seen < COPY_TOLD_S else None

    def report(self, error: Exception) -> None:
        if isinstance(error, StreamMovedError):
            news = self._copy
            self._copy_seen = self._now()
        elif isinstance(error, SpoolUnavailable):
            news = self._spool = f"The spool fails: {error}. Look at that disk. {_KEPT}"
        else:
            news = self._broker = describe(error, self.address)
        if news != self._logged:
            log.warning("%s", news)
        self._logged = news

    def connected(self) -> None:
        self._broker = self._logged = None

    def spool_read(self) -> None:
        self._spool = None


def describe(error: Exception, address: str) -> str:
    """One sentence for the cause, one for the next step."""
    text = str(error)
    if isinstance(error, BrokerTooOldError):
        return text
    if isinstance(error, NoPermissionError) or text.startswith("NOPERM"):
        return (
            f"Redis at {address} forbids this user a command ({text}). "
            "Give this machine's user the rights docs/protocol.md lists."
        )
    if isinstance(error, AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return (
            f"Redis at {address} refused the password. "
            "Put the right one into the URL: redis://user:password@host:port (ADSUM_REDIS_URL)."
        )
    return _describe_state(error, text, address)


def _describe_state(error: Exception, text: str, address: str) -> str:
    if isinstance(error, OutOfMemoryError) or text.startswith("OOM"):
        return (
            f"Redis at {address} is out of memory. Start a hub, so that streams are trimmed, "
            f"or raise its maxmemory. {_KEPT}"
        )
    if isinstance(error, ReadOnlyError) or text.startswith("READONLY"):
        return (
            f"Redis at {address} is a read-only replica. "
            f"Point ADSUM_REDIS_URL at the primary. {_KEPT}"
        )
    if text.startswith("MISCONF"):
        return (
            f"Redis at {address} cannot save to its disk and takes no writes. "
            f"Look at its log and its free space. {_KEPT}"
        )
    if isinstance(error, BusyLoadingError) or text.startswith("LOADING"):
        return f"Redis at {address} is still loading its data. Wait. {_KEPT}"
    if isinstance(error, TimeoutError | OSError) or "onnect" in text:
        return (
            f"Redis at {address} cannot be reached ({text or type(error).__name__}). "
            f"Start it, or correct ADSUM_REDIS_URL. {_KEPT}"
        )
    return f"Redis at {address} answered: {text or type(error).__name__}. {_KEPT}"
