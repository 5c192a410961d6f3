"""Whose a file is that only its usage is read of, and what the begin of any tells of its age."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from adsum_collector.agents.claude_code.usage_lines import OWN, own_time
from adsum_collector.agents.transcript_file import SESSION_ID, TranscriptFile

#: How a line begins that a fork does not repeat; those it repeats have an uuid and begin with FORKED.
OWN_LINE: Final = b'{"type":"'
FORKED: Final = b'{"parentUuid":'
SESSION: Final = b'"sessionId":"'

_SESSION: Final = re.compile(SESSION_ID)
#: A subagent of the CLI's own, for a summary or a side question: no child of the session's, but what
#: it used up was used up.
_CHORE: Final = re.compile(
    rf"(?:.*/)?({SESSION_ID})/subagents/agent-((?:acompact|aside_question)-[\w-]+)\.jsonl",
    re.ASCII | re.DOTALL,
)
#: Where older releases kept subagents: beside the sessions. What folders above `projects` are called
#: is the user's affair.
_BESIDE: Final = re.compile(
    r"(?!.*/(?:subagents|tool-results)/(?!(?:.*/)?projects/))(?:.*/)?agent-([A-Za-z0-9_-]+)\.jsonl",
    re.ASCII | re.DOTALL,
)


class _Session(msgspec.Struct, gc=False):
    id: str = msgspec.field(name="sessionId", default="")


_decode_session = msgspec.json.Decoder(_Session).decode


def used_by(path: str) -> TranscriptFile | None:
    """Whose a file is that tells of nothing but usage; None if it is none.

    One beside the sessions is nobody's by its path, "": see `session_in`.
    """
    if chore := _CHORE.fullmatch(path):
        return TranscriptFile(chore[1], chore[2])
    beside = _BESIDE.fullmatch(path)
    return TranscriptFile("", beside[1]) if beside else None


def session_in(head: bytes) -> str | None:
    """Whose lines these are: of the first whole one that says."""
    for raw in _whole_lines(head):
        try:
            found = _decode_session(raw).id if SESSION in raw else ""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if _SESSION.fullmatch(found):
            return found
    return None


def begun_in(head: bytes) -> int | None:
    """When a file was begun, ms: just then; or, if negative, then at the latest. None: it may be ever so old.

    A fork repeats, in one go, what has an uuid, with its time. So what stands before the first line
    of its own and has none does not tell whose it was; what is just before it was there by then.
    """
    repeatable = None
    for raw in _whole_lines(head):
        if raw.startswith(FORKED):
            repeatable = raw
        elif raw.startswith(OWN_LINE):
            if repeatable is not None and (at := own_time(repeatable)):
                return -at
            if repeatable is None and raw.startswith(OWN) and (at := own_time(raw)):
                return at
    return None


def _whole_lines(head: bytes) -> Iterator[bytes]:
    start, stop = 0, head.find(b"\n")
    while stop >= 0:
        yield head[start:stop]
        start = stop + 1
        stop = head.find(b"\n", start)
