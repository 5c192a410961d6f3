"""What to tell people when our batches do not get into the stream. Names no secret."""

from __future__ import annotations

import logging
from collections.abc import Callable

from redis.exceptions import ResponseError

from adsum_collector.errors import (
    DeliveryError,
    HubError,
    SpoolUnavailable,
    StreamMovedError,
    StreamUnusableError,
)
from adsum_shared.connect import BrokerTooOldError
from adsum_shared.host_keys import OddReplyError
from adsum_shared.redis_errors import cause_of

log = logging.getLogger(__name__)

#: How long a notice is told after its last cause: of two copies both go on, and one that sends
#: little shows itself only now and then.
NOTICE_S = 600.0
_KEPT = "Nothing is lost: signals wait on this disk."
#: What is told of a spool that is left; see `Runs.why_to_leave`.
LEFT = {
    "copy": str(StreamMovedError()),
    "rollback": "This disk is older than what was sent from it: it was set back, or is a copy. "
    "It begins a new spool and sends what it holds that no hub has.",
}
HUBS_FIRST = (
    "Publishing waits until a hub has read what lies in the stream; if none runs, start one. "
    f"{_KEPT}"
)


class DeliveryProblem:
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
            self._broker = self._describe(error)
            self._refused = isinstance(error, ResponseError | OddReplyError)
            self._refused |= isinstance(error, DeliveryError) and error.refused
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

    def _describe(self, error: Exception) -> str:
        if isinstance(error, HubError):
            return f"{error} {_KEPT}"
        if isinstance(error, OddReplyError | StreamUnusableError):
            return f"{self.place}: {error} {_KEPT}"
        if isinstance(error, BrokerTooOldError):
            return str(error)
        return f"{self.place} {cause_of(error)} {_KEPT}"

    def _log(self, news: str) -> None:
        if news not in self._logged:
            log.warning("%s", news)
            self._logged.add(news)
