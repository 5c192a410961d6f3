"""The records that reading a transcript for usage gives, whichever agent wrote it.

Apart from all else of agents: the process that reads a history starts with little to import.
"""

from __future__ import annotations

from typing import Final

import msgspec

#: What names a session; it is sent to others.
SESSION_ID: Final = r"[A-Za-z0-9_.-]{1,128}"
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
