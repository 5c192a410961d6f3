"""Reads usage records from the lines of one rollout.

Since 0.169 a line of its own tells of each response, under its id; before, and after it, totals are
told. Of a response that both tell the line of its own counts: a killed turn writes no total.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec

from adsum_collector.agents.base import UsageLines
from adsum_collector.agents.codex.rollout import Thread, signals_from_lines
from adsum_collector.agents.records import (
    NAME_MAX,
    NEVER,
    NO_WRITES,
    UNSPLIT,
    TranscriptFile,
    UsageRecord,
    model_name,
    remainder,
)

Bytes = bytes | bytearray | memoryview

#: Of one response, and of a thread: beyond, nobody has counted.
TOKENS_MAX: Final = 10**8
TOTAL_MAX: Final = 10**12
ODD: Final = "odd usage"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MS: Final = timedelta(milliseconds=1)
DAY_S: Final = 24 * 3600
#: As seconds it fits into four bytes.
LAST: Final = 2**32 * 1000
#: Lines that tell what was used up, or what has to be known of it.
TELLING: Final = frozenset(
    {
        *("session_meta", "turn_context", "token_usage_record"),
        *("token_count", "thread_settings_applied", "task_started"),
    }
)
_TELLING: Final = re.compile(rb'"type":\s*"(?:%s)"' % "|".join(TELLING).encode())
#: How a line begins that tells of what happened; its kind stands within.
EVENT: Final = b'"event_msg"'
HEAD_BYTES: Final = 128
#: What the service calls its dearer, quicker way.
FAST: Final = frozenset({"priority", "fast"})
USUAL: Final = frozenset({"", "auto", "default", "standard"})

Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOTAL_MAX)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class _Spent(msgspec.Struct, gc=False):
    """input_tokens: with those from and to the cache. output_tokens: with the reasoning."""

    input_tokens: Tokens = 0
    cached_input_tokens: Tokens = 0
    cache_write_input_tokens: Tokens = 0
    output_tokens: Tokens = 0


class _Info(msgspec.Struct, gc=False):
    total: msgspec.Raw = msgspec.field(name="total_token_usage", default=msgspec.Raw())
    last: _Spent | None = msgspec.field(name="last_token_usage", default=None)


class _Applied(msgspec.Struct, gc=False):
    service_tier: str | None = None


class _Payload(msgspec.Struct, gc=False):
    type: str | None = None
    model: str | None = None
    response_id: str | None = None
    usage: _Spent | None = None
    info: _Info | None = None
    thread_settings: _Applied | None = None


class _RolloutLine(msgspec.Struct, gc=False):
    timestamp: Time
    type: str = ""
    payload: _Payload = msgspec.field(default_factory=_Payload)

    @property
    def kind(self) -> str:
        return (self.payload.type or "") if self.type == "event_msg" else self.type


class _Begin(msgspec.Struct, gc=False):
    id: str = ""


class _FirstLine(msgspec.Struct, gc=False):
    payload: _Begin


class _Known(msgspec.Struct, omit_defaults=True):
    """thread: see `Thread`, as a text; id: its own. total: the last that was told.

    recorded: what a line of its own told last of a response, as it is written.
    """

    id: str = ""
    thread: str = ""
    model: str = ""
    tier: str = ""
    total: str = ""
    recorded: str = ""


_decode = msgspec.json.Decoder(_RolloutLine).decode
_decode_total = msgspec.json.Decoder(_Spent).decode
_decode_first = msgspec.json.Decoder(_FirstLine).decode
_decode_known = msgspec.json.Decoder(_Known).decode
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class RolloutMeter:
    """See `adsum_collector.agents.base.UsageMeter`.

    Whose lines these are, and which ones only repeat its parent's, `rollout` says: what is a copy
    there is one here, and counts where it was said.
    """

    def __init__(self, context: str = "") -> None:
        self.faults: Counter[str] = Counter()
        self._known = _decode_known(context) if context else _Known()
        self._thread = Thread.of(self._known.thread)
        self._recorded = self._known.recorded.encode()
        self._records: list[UsageRecord] = []

    @property
    def context(self) -> str:
        self._known.recorded = self._recorded.decode()
        return msgspec.json.encode(self._known).decode()

    @property
    def whose(self) -> TranscriptFile | None:
        """A child's and a review's are its session's: what they used up, somebody pays there."""
        thread = self._thread
        is_own = thread.kind in ("", "session")
        return None if is_own else TranscriptFile(thread.session, self._known.id)

    def records(self) -> list[UsageRecord]:
        records, self._records = self._records, []
        return records

    def take(self, raws: Sequence[Bytes]) -> None:
        for each in raws:
            raw = bytes(each)
            if self._recorded and self._recorded in raw and raw.find(EVENT, 0, HEAD_BYTES) > 0:
                continue  # the total that follows a response
            try:
                line = _decode(raw)
                if line.payload.usage is None:
                    self._read(raw, line)
                elif not self._thread.copied:
                    begin = raw.find(b"{", raw.find(b'"usage"'))
                    self._recorded = raw[begin : raw.find(b"}", begin) + 1]
                    self._add(line, line.payload.response_id or raw.hex(), line.payload.usage)
            except _UNDECODABLE:
                self.faults[ODD] += bool(_TELLING.search(raw))

    def _read(self, raw: bytes, line: _RolloutLine) -> None:
        known, payload, kind = self._known, line.payload, line.kind
        if kind == "session_meta" or (kind == "task_started" and self._thread.copied):
            self._place(raw)
        elif kind == "turn_context":
            if not payload.model or payload.model != known.model:
                known.model = model_name((payload.model or "")[:NAME_MAX])
        elif kind == "thread_settings_applied":
            applied = payload.thread_settings
            if applied is not None and applied.service_tier is not None:
                known.tier = applied.service_tier
        elif kind == "token_count" and payload.info is not None:
            self._count(line, payload.info)

    def _place(self, raw: bytes) -> None:
        known = self._known
        known.id = known.id or _decode_first(raw).payload.id
        file = TranscriptFile(known.id)
        known.thread = signals_from_lines([raw], file, known.thread, NEVER).context
        self._thread = Thread.of(known.thread)

    def _count(self, line: _RolloutLine, info: _Info) -> None:
        """A total that was told before has nothing new, as at the begin of a compaction.

        The first in a file may be what a fork has from its parent, which it does not repeat (0.169).
        """
        known, total, last = self._known, bytes(info.total).decode(), info.last
        before, known.total = known.total, total
        if total == before or last is None:
            return
        is_first = not before and not self._recorded
        if not self._thread.copied and not (is_first and _decode_total(total) != last):
            self._add(line, f"{known.id} {line.timestamp} {total}", last)

    def _add(self, line: _RolloutLine, identity: str, spent: _Spent) -> None:
        """Every response of a history passes here: little is called, as a call costs more than this."""
        known, since = self._known, line.timestamp - EPOCH
        at = (since.days * DAY_S + since.seconds) * 1000 + since.microseconds // 1000
        read, written = spent.cached_input_tokens, spent.cache_write_input_tokens
        plain, output = spent.input_tokens - read - written, spent.output_tokens
        if not 0 <= at < LAST or spent.input_tokens > TOKENS_MAX or output > TOKENS_MAX:
            self.faults[ODD] += 1
            return
        if plain < 0:
            read = min(read, spent.input_tokens)
            plain, written = 0, spent.input_tokens - read
        if spent.input_tokens or output:
            key = remainder(int.from_bytes(identity.encode(), "big"))
            model, tier, writes = known.model, known.tier, UNSPLIT if written else NO_WRITES
            is_fast = tier in FAST
            if not is_fast and tier not in USUAL:
                model = f"{model}-{tier}"  # of another tier than the two that have prices
            if model is not known.model or not model:
                model = model_name(model)
            told = UsageRecord(
                key, 0, at, model, is_fast, "", False,  # noqa: FBT003 - the fields in their order
                plain, output, read, written, 0, writes,
            )  # fmt: skip
            self._records.append(told)


def tells(raw: Bytes) -> bool:
    """Whether a line has to be read, however it is written."""
    try:
        return _decode(raw).kind in TELLING
    except _UNDECODABLE:
        return False


def stamp(raw: Bytes) -> int | None:
    """When a line was written, ms."""
    try:
        return (_decode(raw).timestamp - EPOCH) // MS
    except _UNDECODABLE:
        return None


USAGE_LINES: Final = UsageLines(
    speaker=b'"type":"',
    # Most lines of events are large and tell nothing.
    follows=(b"t", b"session_meta", b'event_msg","payload":{"type":"t'),
    usage=b'"total_tokens"',
    any_usage=b'"payload"',
    # Before anything is used up, a file says of which model: it is found by that.
    answer=b'"turn_context"',
    own=(),
    meter=RolloutMeter,
    has_usage=tells,
    own_time=stamp,
    begun_in=lambda head: stamp(head[: max(head.find(b"\n"), 0)]),
)
