"""The types that reading a transcript takes and gives, whichever agent wrote it."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from adsum_shared.signals import AnySignal, CostReported

T = TypeVar("T", bound=msgspec.Struct)


class Private(Protocol):
    """What of a struct may be kept or told: see `adsum_shared.privacy`."""

    def __call__(self, struct: T, /) -> T: ...


class Lines(msgspec.Struct, frozen=True):
    """What some lines of a transcript say. context: to be given with the lines that follow.

    faults: lines that say nothing to us, and should: cause -> how many.
    """

    signals: list[AnySignal]
    context: str
    faults: dict[str, int] = {}


class Past(msgspec.Struct, frozen=True):
    """What the head and the tail of a session's main file tell of it; None or 0 is not told.

    title: given by a human. started, ended: the first and the last time its lines bear, ms. A fork
    begins with copies of its parent's lines and their times. cost: the last of its own cost report.
    """

    title: str | None = None
    ai_title: str | None = None
    first_prompt: str | None = None
    cwd: str | None = None
    project: str | None = None
    branch: str | None = None
    worktree: str | None = None
    model: str | None = None
    mode: str | None = None
    version: str | None = None
    pr: str | None = None
    last_prompt: str | None = None
    last_answer: str | None = None
    cost: CostReported | None = None
    started: int = 0
    ended: int = 0
