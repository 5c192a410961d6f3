"""Reads usage records from the lines of one chat of Gemini CLI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from adsum_collector.agents.base import UsageLines
from adsum_collector.agents.records import PRIME, UsageRecord
from adsum_collector.agents.words import model_name, stamp_of

Bytes = bytes | bytearray | memoryview
ODD: Final = "odd usage"
#: As seconds it fits into four bytes.
LAST: Final = 2**32 * 1000
Tokens = Annotated[int, msgspec.Meta(ge=0, le=10**8)]


class _GeminiTokens(msgspec.Struct, gc=False):
    """input: with those from the cache. output: without the thoughts. tool: of a tool's own prompt."""

    input: Tokens = 0
    output: Tokens = 0
    cached: Tokens = 0
    thoughts: Tokens = 0
    tool: Tokens = 0


class _GeminiAnswer(msgspec.Struct, gc=False):
    type: str = ""
    id: str = ""
    timestamp: str = ""
    startTime: str = ""  # noqa: N815 - the file's name of it
    model: str = ""
    tokens: _GeminiTokens | None = None


_decode = msgspec.json.Decoder(_GeminiAnswer).decode
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ChatMeter:
    """See `adsum_collector.agents.base.UsageMeter`. An answer comes again with its calls, under its id."""

    context = ""
    whose = None

    def __init__(self, _context: str = "") -> None:
        self.faults: Counter[str] = Counter()
        self._records: list[UsageRecord] = []

    def take(self, raws: Sequence[Bytes], /) -> None:
        for raw in raws:
            try:
                line = _decode(raw)
            except _UNDECODABLE:
                self.faults[ODD] += b'"tokens"' in bytes(raw)
                continue
            if line.type == "gemini" and line.tokens is not None:
                self._add(line, line.tokens)

    def _add(self, line: _GeminiAnswer, tokens: _GeminiTokens) -> None:
        at = stamp_of(line.timestamp)
        if not 0 < at < LAST or not line.id:
            self.faults[ODD] += 1
            return
        key = int.from_bytes(line.id.encode(), "big") % PRIME
        read = min(tokens.cached, tokens.input)
        told = (tokens.input - read + tokens.tool, tokens.output + tokens.thoughts, read)
        named, plain = model_name(line.model), (False, "", False)
        self._records.append(UsageRecord(key, 0, at, named, *plain, *told))

    def records(self) -> list[UsageRecord]:
        records, self._records = self._records, []
        return records


def tells(raw: Bytes) -> bool:
    try:
        return _decode(raw).tokens is not None
    except _UNDECODABLE:
        return False


def line_time(raw: Bytes) -> int | None:
    """When a line was written, ms."""
    try:
        line = _decode(raw)
    except _UNDECODABLE:
        return None
    return stamp_of(line.timestamp or line.startTime) or None


USAGE_LINES: Final = UsageLines(
    speaker=b'"type":"',
    follows=(b'gemini"',),
    usage=b'"tokens":{',
    any_usage=b'"tokens"',
    answer=b'"gemini"',
    own=(),
    meter=ChatMeter,
    has_usage=tells,
    own_time=line_time,
    begun_in=lambda head: line_time(head[: max(head.find(b"\n"), 0)]),
)
