"""Reads what an ended session was about from both ends of its file. Blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from adsum_collector.agents.records import TranscriptFile
from adsum_collector.agents.transcript import Past
from adsum_collector.line_reader import first_lines, last_lines, open_transcript, split_lines
from adsum_shared.signals import KnownSignal, MetaChanged, SessionEnded

TAIL_BYTES: Final = 32 << 10
#: Sought so far from the end for a line that is whole.
MOST_TAIL_BYTES: Final = 4 << 20
DAY_MS: Final = 24 * 3600 * 1000

History = Callable[[Sequence[bytes], Sequence[bytes], TranscriptFile], Past | None]


def read_past(
    path: str, whose: TranscriptFile, begun: int, history: History, now: int
) -> Past | None:
    """begun: when the file was, ms, if that is known: a fork's copies are older. Raises OSError.

    What is dated more than a day after both now and the file's own time is not believed.
    """
    descriptor = open_transcript(path)
    try:
        stat = os.fstat(descriptor)
        _, tail = last_lines(descriptor, stat.st_size, TAIL_BYTES, MOST_TAIL_BYTES)
        past = history(first_lines(descriptor), split_lines(tail), whose)
    finally:
        os.close(descriptor)
    if past is None:
        return None
    rested = stat.st_mtime_ns // 1_000_000
    is_ahead = past.ended > max(now, rested) + DAY_MS
    # At now it would be a sign of life to the hub.
    ended = past.ended if 0 < past.ended <= now else min(rested, now)
    started = min(max(past.started, begun) or ended, ended)
    cost = None if is_ahead else past.cost
    return msgspec.structs.replace(past, started=started, ended=ended, cost=cost)


def past_signals(past: Past, session_id: str, seen: int) -> list[KnownSignal]:
    """The first prompt stands for a title where there is none.

    As one that a machine gave: should the session go on and be given another, that is a later one.
    """
    told = {
        name: value
        for name in Past.__struct_fields__
        if name in MetaChanged.__struct_fields__ and (value := getattr(past, name)) is not None
    }
    if past.first_prompt and not (past.title or past.ai_title):
        told["ai_title"] = past.first_prompt
    about = MetaChanged(
        session_id=session_id, at=past.started, seen=seen, source="transcript", **told
    )
    return [
        about,
        *_books(past, seen),
        SessionEnded(
            session_id=session_id,
            at=past.ended,
            seen=seen,
            source="transcript",
            reason="process",
        ),
    ]


def _books(past: Past, seen: int) -> list[KnownSignal]:
    """As old as they are, or the session's end: later ones may have been told while it lived."""
    if past.cost is None:
        return []
    at = min(past.cost.at, past.ended)
    return [msgspec.structs.replace(past.cost, at=at, seen=seen)]
