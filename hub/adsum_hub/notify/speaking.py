"""What every channel is to the notifier: something that takes a message, and how it has fared."""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

import msgspec

from adsum_hub.notify.words import Message

log = logging.getLogger(__name__)

#: Failures in a row from which on a channel is a trouble of the hub's; fewer may be a moment's.
FAILING = 3


class Outcome(NamedTuple):
    """error: None = told. It holds no secret. again_s: the least to wait; None: the usual."""

    error: str | None = None
    again_s: float | None = None


class Health(msgspec.Struct):
    """Since this hub started. sent, failed: tries. dropped: given up, or left out as too many.

    in_row: failures since a success. Times: hub clock, ms. error: the last one, for people,
    without a secret. told: the log knows that it keeps failing.
    """

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    in_row: int = 0
    sent_at: int | None = None
    failed_at: int | None = None
    error: str | None = None
    told: bool = False

    def went_well(self, now: int) -> None:
        self.sent += 1
        self.in_row = 0
        self.sent_at = now

    def went_wrong(self, error: str, now: int) -> None:
        self.failed += 1
        self.in_row += 1
        self.failed_at = now
        self.error = error

    def tell(self, channel: str) -> None:
        """One line when it begins to keep failing, one when that is over: a page keeps neither."""
        failing = self.in_row >= FAILING
        if failing and not self.told:
            log.warning("channel %s keeps failing: %s", channel, self.error)
        elif self.told and not failing:
            log.info("channel %s gets through again", channel)
        self.told = failing


class Speaker(Protocol):
    health: Health

    async def name(self) -> str | None:
        """What claims call it; the same in every hub that speaks here. None: nobody listens."""

    async def say(self, message: Message) -> Outcome:
        """Comes back within SAY_S, whatever the other side does. Raises what Redis raises."""


#: Shorter than a claim holds.
SAY_S = 40.0
