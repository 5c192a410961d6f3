"""What to tell people when our batches do not get into the stream. Names no secret."""

from __future__ import annotations

import logging
from collections.abc import Callable

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)

from adsum_collector.errors import (
    HubError,
    SpoolUnavailable,
    StreamMovedError,
    StreamUnusableError,
)
from adsum_shared.connect import BrokerTooOldError
from adsum_shared.host_keys import OddReplyError
from adsum_shared.redis_errors import told_of

log = logging.getLogger(__name__)

#: How long a notice is told after its last cause: of two copies both go on, and one that sends
#: little shows itself only now and then.
NOTICE_S = 600.0
_KEPT = "Nothing is lost: signals wait on this disk."
#: What is told of a spool that is left; see `runs.why_to_leave`.
LEFT = {
    "copy": str(StreamMovedError()),
    "rollback": "This disk is older than what was sent from it: it was set back, or is a copy. "
    "It begins a new spool and sends what it holds that no hub has.",
}
HUBS_FIRST = (
    "Publishing waits until a hub has read what lies in the stream; if none runs, start one. "
    f"{_KEPT}"
)


class Problem:
    """What keeps the publisher from publishing, each cause until that one is over; and notices.

    place: where they are published to, as `Transport.place` has it. now: seconds of wall clock.
    """

    def __init__(self, place: str, now: Callable[[], float]) -> None:
        self.place = place
        self._now = now
        self._broker: str | None = f"Not connected to {place} yet."
        self._refused = False
        self._spool: str | None = None
        self._stream: str | None = None
        self._logged: set[str] = set()
        self._notices: dict[str, float] = {}

    @property
    def text(self) -> str | None:
        """All of them, the most important first."""
        now = self._now()
        notices = [text for text, at in self._notices.items() if 0 <= now - at < NOTICE_S]
        told = [self._spool, self._broker or self._stream, *notices]
        return " ".join(text for text in told if text) or None

    def report(self, error: Exception) -> None:
        if isinstance(error, StreamMovedError):
            self.notice(str(error))
        elif isinstance(error, SpoolUnavailable):
            self._spool = f"The spool fails: {error}. Look at that disk. {_KEPT}"
            self._log(self._spool)
        else:
            self._broker = describe(error, self.place)
            self._refused = isinstance(error, ResponseError | OddReplyError | StreamUnusableError)
            self._refused |= isinstance(error, HubError) and error.refused
            self._log(self._broker)

    def notice(self, text: str) -> None:
        """Told for a while."""
        self._notices[text] = self._now()
        self._log(text)

    def held_up(self, text: str | None) -> None:
        """By the stream itself, on a connection that is well."""
        self._stream = text
        if text:
            self._log(text)

    def reached(self) -> None:
        """The broker answers; what it has refused it may refuse again."""
        if not self._refused:
            self._broker = None

    def connected(self) -> None:
        self._broker = None
        self._logged.clear()

    def spool_read(self) -> None:
        self._spool = None

    def _log(self, news: str) -> None:
        if news not in self._logged:
            log.warning("%s", news)
            self._logged.add(news)


def describe(error: Exception, place: str) -> str:
    """One sentence for the cause, one for the next step."""
    text = str(error)
    if isinstance(error, BrokerTooOldError):
        return text
    if isinstance(error, HubError):
        return f"{text} {_KEPT}"
    if isinstance(error, OddReplyError | StreamUnusableError):
        return f"{place}: {text} {_KEPT}"
    if (told := told_of(error)) is not None:
        return f"{place} {told} {_KEPT}"
    for kind, words, cause in _CAUSES:
        if (kind is not None and isinstance(error, kind)) or text.startswith(words):
            return f"{place} {cause.format(text=text)} {_KEPT}"
    if isinstance(error, TimeoutError) and "connect" not in text:
        return (
            f"{place} does not answer. It hangs or is overloaded, or the network drops "
            f"what is sent: look at its machine and at the way there. {_KEPT}"
        )
    if isinstance(error, TimeoutError | OSError) or "onnect" in text:
        return (
            f"{place} cannot be reached ({text or type(error).__name__}). "
            f"Start it, or correct ADSUM_REDIS_URL. {_KEPT}"
        )
    return f"{place} answered: {text or type(error).__name__}. Look at its log. {_KEPT}"


#: The client's class for an answer, if it has one; how the answer begins otherwise; what to say.
_CAUSES: tuple[tuple[type[Exception] | None, tuple[str, ...], str], ...] = (
    (
        NoPermissionError,
        ("NOPERM",),
        "forbids this user a command ({text}). Give this machine's user the rights docs/protocol.md lists.",
    ),
    (
        AuthenticationError,
        ("NOAUTH", "WRONGPASS"),
        "refused the password, or wants one. "
        "Put the right one into the URL: redis://user:password@host:port (ADSUM_REDIS_URL). A machine "
        "that joined may have been shut out: `adsum hosts` on the hub's machine says so.",
    ),
    (
        OutOfMemoryError,
        ("OOM",),
        "is out of memory. Start a hub, so that streams are trimmed, or raise its maxmemory.",
    ),
    (
        ReadOnlyError,
        ("READONLY",),
        "is a read-only replica. Point ADSUM_REDIS_URL at the primary.",
    ),
    (
        None,
        ("MISCONF",),
        "cannot save to its disk and takes no writes. Look at its log and its free space.",
    ),
    (
        None,
        ("NOREPLICAS",),
        "has fewer replicas than it wants (NOREPLICAS) and takes no writes. "
        "Start them, or lower its min-replicas-to-write.",
    ),
    (
        MasterDownError,
        ("MASTERDOWN",),
        "has lost its primary and answers nothing. Start that, or point ADSUM_REDIS_URL at the "
        "new one.",
    ),
    (
        None,
        ("BUSY",),
        "is busy with somebody's script and answers nobody. Wait; or end it: redis-cli SCRIPT KILL.",
    ),
    (BusyLoadingError, ("LOADING",), "is still loading its data. Wait."),
    (
        None,
        ("max number of clients",),
        "has no connection left for us. Raise its maxclients, or end what holds them.",
    ),
)
