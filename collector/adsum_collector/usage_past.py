"""What a session that is over was about: from both ends of its main file. Blocks; only ever reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from adsum_collector.agents.transcript import Past, TranscriptFile
from adsum_collector.plain_file import open_plain
from adsum_shared.signals import KnownSignal, MetaChanged, SessionEnded

HEAD_BYTES: Final = 32 << 10
TAIL_BYTES: Final = 32 << 10
#: Sought so far from the end for a line that is whole.
MOST_TAIL_BYTES: Final = 4 << 20

History = Callable[[Sequence[bytes], Sequence[bytes], TranscriptFile], Past | None]


def read_past(path: str, whose: TranscriptFile, begun: int, history: History) -> Past | None:
    """begun: when the file was, ms, if that is known: a fork's copies are older. Raises OSError."""
    descriptor = open_plain(path)
    try:
        stat = os.fstat(descriptor)
        past = history(_head(descriptor), _tail(descriptor, stat.st_size), whose)
    finally:
        os.close(descriptor)
    if past is None:
        return None
    ended = past.ended or stat.st_mtime_ns // 1_000_000
    return msgspec.structs.replace(
        past, started=min(max(past.started, begun) or ended, ended), ended=ended
    )


def past_signals(past: Past, session_id: str, seen: int) -> list[KnownSignal]:
    """The first prompt stands for a title where there is none."""
    told = {
        name: value
        for name in Past.__struct_fields__
        if name in MetaChanged.__struct_fields__ and (value := getattr(past, name)) is not None
    }
    if past.first_prompt and not (past.title or past.ai_title):
        told["title"] = past.first_prompt
    return [
        MetaChanged(session_id=session_id, at=past.started, seen=seen, source="transcript", **told),
        SessionEnded(
            session_id=session_id,
            at=past.ended,
            seen=seen,
            source="transcript",
            reason="process",
        ),
    ]


def _head(descriptor: int) -> list[bytes]:
    data = os.pread(descriptor, HEAD_BYTES, 0)
    return _lines(data[: data.rfind(b"\n") + 1].removeprefix(b"\xef\xbb\xbf"))


def _tail(descriptor: int, size: int) -> list[bytes]:
    reach = TAIL_BYTES
    while True:
        start = max(0, size - reach)
        data = os.pread(descriptor, reach, start)
        begin = data.find(b"\n") + 1 if start else 0
        end = data.rfind(b"\n") + 1
        if begin < end or start == 0 or reach >= MOST_TAIL_BYTES:
            return _lines(data[begin:end])
        reach *= 4


def _lines(data: bytes) -> list[bytes]:
    return [line for each in data.split(b"\n") if (line := each.strip(b"\0\r\t "))]
