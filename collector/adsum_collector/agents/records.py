"""What reading a transcript gives, whichever agent wrote it: signals, a past, and usage records."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from adsum_collector.agents.words import NAME_MAX, one_line
from adsum_shared.signals import AnySignal, CostReported, MetaChanged, PromptSubmitted

T = TypeVar("T", bound=msgspec.Struct)
#: What names a session; it is sent to others.
SESSION_ID: Final = r"[A-Za-z0-9_.-]{1,128}"
#: Ids are random but for their first letters, so what a prime leaves of them is as good as a hash
#: of cryptography, and takes two thirds of its time.
PRIME: Final = 2**61 - 1
#: What PRIME leaves. Where a word has 64 bits, it is what Python takes for the hash of an integer:
#: the same number in half the time of a division.
remainder: Final = hash if sys.hash_info.modulus == PRIME else PRIME.__rmod__
#: How exactly a record knows for how long its cache writes were to live.
NO_WRITES: Final = 0
UNSPLIT: Final = 1
SPLIT: Final = 2


class TranscriptFile(msgspec.Struct, frozen=True):
    """Whose lines a transcript holds. agent_id: a subagent's, None for the main agent's."""

    session_id: str
    agent_id: str | None = None


class UsageRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens of one message, as one line or several copies of it tell.

    key: names the message, in 61 bits. request: the request's id in 32 bits, 0 without one. at: ms.
    sidechain: told by an agent that is not the main one. writes: one of
    NO_WRITES, UNSPLIT (all of them counted as `cache_5m`), SPLIT.
    """

    key: int
    request: int
    at: int
    model: str
    fast: bool = False
    geo: str = ""
    sidechain: bool = False
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_5m: int = 0
    cache_1h: int = 0
    writes: int = NO_WRITES
    web_searches: int = 0


def joined(one: UsageRecord, other: UsageRecord) -> UsageRecord:
    """Both are of one message. The same whichever comes first, and however often either comes.

    Streamed copies grow, so each field is the largest that was told. Side questions repeat what
    the main agent said, with numbers of their own: it is heard before them.
    """
    if one.sidechain != other.sidechain:
        return other if one.sidechain else one
    writes = max(one.writes, other.writes)
    cache_5m, cache_1h = one.cache_5m, one.cache_1h
    if other.writes > one.writes:
        cache_5m, cache_1h = other.cache_5m, other.cache_1h
    elif other.writes == writes:
        cache_5m, cache_1h = max(cache_5m, other.cache_5m), max(cache_1h, other.cache_1h)
    return UsageRecord(
        key=one.key,
        request=one.request,
        at=min(one.at, other.at),
        model=max(one.model, other.model),
        fast=one.fast or other.fast,
        geo=max(one.geo, other.geo),
        sidechain=one.sidechain,
        input=max(one.input, other.input),
        output=max(one.output, other.output),
        cache_read=max(one.cache_read, other.cache_read),
        cache_5m=cache_5m,
        cache_1h=cache_1h,
        writes=writes,
        web_searches=max(one.web_searches, other.web_searches),
    )


class Private(Protocol):
    """What of a struct may be kept or told: see `adsum_shared.privacy`."""

    def __call__(self, struct: T, /) -> T: ...


class Lines(msgspec.Struct, frozen=True):
    """What some lines of a transcript say. context: to be given with the lines that follow.

    faults: lines that say nothing to us, and should: cause -> how many. is_session: they are of a session,
    as far as is known; of an agent whose files do not say so by their names, some are not.
    """

    signals: list[AnySignal]
    context: str
    faults: dict[str, int] = {}
    is_session: bool = True


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


#: Later than any time that a line may bear.
NEVER: Final = 1 << 53
_META: Final = tuple(set(Past.__struct_fields__) & set(MetaChanged.__struct_fields__))


def past_of(signals: Sequence[AnySignal]) -> Past | None:
    """signals: as they were seen at NEVER, so that what bears no time is told apart."""
    told: dict[str, Any] = {}
    for signal in signals:
        if isinstance(signal, MetaChanged):
            told |= {name: value for name in _META if (value := getattr(signal, name)) is not None}
    prompts = [each.text for each in signals if isinstance(each, PromptSubmitted) and each.text]
    times = [each.at for each in signals if 0 < each.at < NEVER]
    past = Past(
        **told,
        first_prompt=one_line(prompts[0], NAME_MAX) if prompts else None,
        started=min(times, default=0),
        ended=max(times, default=0),
    )
    return past if past != Past() else None
