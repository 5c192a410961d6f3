"""What reading a transcript takes and gives, whichever agent wrote it."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from adsum_shared.signals import AnySignal

T = TypeVar("T", bound=msgspec.Struct)


class Private(Protocol):
    """What of a struct may be kept or told: see `adsum_shared.privacy`."""

    def __call__(self, struct: T, /) -> T: ...


class TranscriptFile(msgspec.Struct, frozen=True):
    """Whose lines a transcript holds. agent_id: a subagent's, None for the main agent's."""

    session_id: str
    agent_id: str | None = None


class Lines(msgspec.Struct, frozen=True):
    """What some lines of a transcript say. context: to be given with the lines that follow.

    faults: lines that say nothing to us, and should: cause -> how many.
    """

    signals: list[AnySignal]
    context: str
    faults: dict[str, int] = {}
