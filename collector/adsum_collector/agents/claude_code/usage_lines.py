"""Reads usage records from a transcript's lines; most lines hold none.

Only the fields that count are decoded. What the quick decoder refuses is looked at again, field by
field: what the CLI changes next may cost time, and no tokens.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from zlib import crc32

import msgspec

from adsum_collector.agents.base import UsageLines
from adsum_collector.agents.claude_code.bodies import UNDECODABLE
from adsum_collector.agents.records import (
    NAME_MAX,
    NO_WRITES,
    PRIME,
    SESSION_ID,
    SPLIT,
    UNSPLIT,
    TranscriptFile,
    UsageRecord,
    model_name,
    remainder,
)

Bytes = bytes | bytearray | memoryview

#: A response holds some millions of tokens: more than this was never said.
TOKENS_MAX: Final = 10**8
#: Kept in one byte.
SEARCHES_MAX: Final = 255
Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]
Searches = Annotated[int, msgspec.Meta(ge=0, le=SEARCHES_MAX)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]
Name = Annotated[str, msgspec.Meta(max_length=NAME_MAX)]
ODD: Final = "odd usage"
UNCOUNTABLE: Final = (msgspec.ValidationError, ValueError, RecursionError)


class _Split(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: Tokens = 0
    ephemeral_5m_input_tokens: Tokens = 0


class _TokenCounts(msgspec.Struct, gc=False):
    input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_creation: _Split | None = None

    def writes(self) -> tuple[int, int, int]:
        """Written for five minutes, for an hour, and how exactly that is known."""
        flat, split = self.cache_creation_input_tokens, self.cache_creation
        if split is None:
            return flat, 0, UNSPLIT if flat else NO_WRITES
        cache_5m, cache_1h = split.ephemeral_5m_input_tokens, split.ephemeral_1h_input_tokens
        if not (cache_5m or cache_1h):
            return flat, 0, UNSPLIT if flat else NO_WRITES
        # the parts have been seen to be a little less than the whole
        rest = flat - cache_1h
        split_5m = cache_5m if cache_5m > rest else rest  # noqa: FURB136 - a call costs more than this
        return split_5m, cache_1h, SPLIT


class _Tools(msgspec.Struct, gc=False):
    web_search_requests: Searches = 0


class Iteration(_TokenCounts, gc=False):
    type: str = ""
    model: Name | None = None


class _AnswerUsage(_TokenCounts, gc=False):
    server_tool_use: _Tools | None = None
    inference_geo: Name | None = None
    #: Seldom of interest, and dear to decode: see `iterations_in`.
    iterations: msgspec.Raw = msgspec.Raw()
    speed: str | None = None


class _Answer(msgspec.Struct, gc=False):
    usage: _AnswerUsage
    id: str = ""
    model: Name = ""


class AnswerLine(msgspec.Struct, gc=False, kw_only=True):
    sidechain: bool = msgspec.field(name="isSidechain", default=False)
    message: _Answer
    request: str | None = msgspec.field(name="requestId", default=None)
    type: str
    timestamp: Time
    error: bool = msgspec.field(name="isApiErrorMessage", default=False)

    def takes_in(self, line: AnswerLine) -> bool:
        """The same message told again: nothing is new but output that has grown, kept here."""
        message, other = self.message, line.message
        if (
            self.request != line.request
            or self.timestamp > line.timestamp
            or self.sidechain != line.sidechain
            or self.type != line.type
            or self.error != line.error
        ):
            return False
        usage = message.usage
        output, grown = usage.output_tokens, other.usage.output_tokens
        if output == grown:
            return message == other
        usage.output_tokens = grown
        same = message == other
        if not same or output > grown:
            usage.output_tokens = output
        return same

    def outlive(self) -> None:
        """What it was decoded from may be overwritten now."""
        self.message.usage.iterations = self.message.usage.iterations.copy()


class _Kind(msgspec.Struct, gc=False):
    type: str = ""


decode_line = msgspec.json.Decoder(AnswerLine).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_iterations = msgspec.json.Decoder(list[Iteration]).decode


def iterations_in(raw: msgspec.Raw) -> list[Iteration]:
    """Raises one of UNCOUNTABLE."""
    with contextlib.suppress(*UNDECODABLE):
        return _decode_iterations(raw)
    every = [each for each in json.loads(bytes(raw)) if isinstance(each, dict)]
    known = [_numbers(each) | _only(each, type=str, model=str) for each in every]
    return msgspec.convert(known, list[Iteration])


def look_closer(raw: Bytes, faults: Counter[str]) -> AnswerLine | None:
    """A line not as expected. Fields of another type count as missing, but not numbers.

    Of searches too many to be true, as many count as can be.
    """
    text = bytes(raw).strip(b"\0\r\t ")  # a crash of the system leaves zeros
    try:
        if _decode_kind(text).type != "assistant":
            return None
    except UNDECODABLE:
        pass  # the CLI cuts texts within an emoji, and msgspec refuses what is left of it
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        faults["no JSON"] += 1
        return None
    if not isinstance(line, dict) or line.get("type") != "assistant":
        return None
    message = line.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("usage"), dict):
        return None
    try:
        known = _known(line, message, message["usage"])
        if _cut_searches(known["message"]["usage"].get("server_tool_use", {})):
            faults[ODD] += 1
        return msgspec.convert(known, AnswerLine)
    except UNCOUNTABLE:
        faults[ODD] += 1
        return None


def _cut_searches(tools: dict[str, Any]) -> bool:
    number = tools.get("web_search_requests")
    is_more = isinstance(number, int | float) and number > SEARCHES_MAX
    if is_more:
        tools["web_search_requests"] = SEARCHES_MAX
    return is_more


def _known(line: dict[str, Any], message: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    told = _numbers(usage) | _only(usage, speed=str, inference_geo=str)
    if _only(usage, iterations=list):
        told["iterations"] = msgspec.Raw(json.dumps(usage["iterations"]).encode())
    stamp = line.get("timestamp")
    if isinstance(stamp, str) and not stamp.endswith("Z") and "+" not in stamp:
        stamp += "Z"  # UTC, as all of the CLI's times are
    return {
        "type": "assistant",
        "message": _only(message, id=str, model=str) | {"usage": told},
        "timestamp": stamp,
        **_only(line, requestId=str, isSidechain=bool, isApiErrorMessage=bool),
    }


def _numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """Those given, also a level below; null means not given."""
    numbers = {
        name: value
        for name, value in fields.items()
        if name.endswith(("_tokens", "_requests")) and value is not None
    }
    for name in ("cache_creation", "server_tool_use"):
        if isinstance(below := fields.get(name), dict):
            numbers[name] = _numbers(below)
    return numbers


def _only(fields: dict[str, Any], **kinds: type) -> dict[str, Any]:
    """Fields of these types."""
    found = {
        name: fields[name] for name, kind in kinds.items() if isinstance(fields.get(name), kind)
    }
    return {
        name: _text(value) if isinstance(value, str) else value for name, value in found.items()
    }


def _text(text: str) -> str:
    """Without half an emoji, and no longer than a name may be."""
    return text.encode(errors="replace").decode()[:NAME_MAX]


ODD_NAME: Final = "odd name"
#: Kept in mind at most: there are some dozens, unless somebody makes them up.
MOST_NAMES: Final = 1000

_REGION: Final = re.compile(r"[\w.-]{1,40}")


_model: Final = functools.lru_cache(MOST_NAMES)(model_name)


@functools.lru_cache(MOST_NAMES)
def _region(name: str) -> str:
    """Those that can be none are none."""
    return name if _REGION.fullmatch(name) else ""


#: How lines begin that a fork does not repeat: the first one's time is when the file was begun.
OWN: Final = (b'{"type":"queue-operation"', b'{"type":"api-request')

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MS: Final = timedelta(milliseconds=1)
DAY_S: Final = 24 * 3600
#: As seconds it fits into four bytes.
LAST: Final = 2**32 * 1000
NOBODY: Final = "<synthetic>"
ADVICE: Final = b"advisor_message"
NO_ITERATIONS: Final = len(b"[]")
_number: Final = int.from_bytes
#: How an id begins that is one answer's own, whoever hands it on.
OWN_ID: Final = "msg_"
#: Of other ids: one that is drawn or counted has such a part, unless that is a word or a date, as in
#: the names of models.
_PART: Final = re.compile(r"[A-Za-z0-9]{8,}")
_DATE: Final = re.compile(r"20[0-9]{6}")


class _Stamped(msgspec.Struct, gc=False):
    timestamp: Time


class _Named(msgspec.Struct, gc=False):
    """What tells answers apart where no request's id does. ref: of the CLI's own, for each request."""

    ref: str | None = msgspec.field(name="requestRef", default=None)
    uuid: str | None = None


_decode_stamp = msgspec.json.Decoder(_Stamped).decode
_decode_named = msgspec.json.Decoder(_Named).decode


class Meter:
    """Reads the lines of one file. Copies of a message that follow each other are one record.

    faults: what should tell and does not: cause -> how often. Each line says all there is to know.
    """

    context = ""
    whose = None

    def __init__(self, _context: str = "") -> None:
        self.faults: Counter[str] = Counter()
        self._records: list[UsageRecord] = []
        self._last: AnswerLine | None = None

    def take(self, raws: Sequence[Bytes]) -> None:
        """Lines in the file's order; not all need tell anything."""
        # Not step by step for all: what a line becomes is used while the processor still holds it.
        last = self._last
        for raw in raws:
            try:
                line = decode_line(raw)
            except UNDECODABLE:
                closer = look_closer(raw, self.faults)
                if closer is None:
                    continue
                line = closer
            if last is None:
                last = line
            elif line.message.id != last.message.id or not last.takes_in(line):
                self._add(last)
                last = line
            else:
                continue
            if line.request is None:
                _stand_in(raw, line)
        if last is not None:
            last.outlive()
        self._last = last

    def records(self) -> list[UsageRecord]:
        """Of all lines that were taken since this was asked last."""
        if self._last is not None:
            self._add(self._last)
        records, self._records, self._last = self._records, [], None
        return records

    def _add(self, line: AnswerLine) -> None:
        message, request = line.message, line.request
        if line.type != "assistant" or line.error or message.model == NOBODY:
            return
        since, usage = line.timestamp - EPOCH, message.usage
        at = (since.days * DAY_S + since.seconds) * 1000 + since.microseconds // 1000
        if not 0 <= at < LAST:
            self.faults[ODD] += 1
            return
        identity = message.id or request or ""
        if not request and not identity.startswith(OWN_ID):
            if not _is_drawn(identity):
                # One word for all it answers, as some gateways give; what was asked differs.
                identity += f"/{usage.input_tokens}/{usage.cache_read_input_tokens}"
            # of this answer alone, or counted from one whenever the gateway starts
            identity += f"/{since.days}"
        model, geo = _model(message.model), usage.inference_geo or ""
        region = _region(geo) if geo else geo
        if model != message.model or region != geo:
            self.faults[ODD_NAME] += 1
        cache_5m, cache_1h, writes = usage.writes()
        tools = usage.server_tool_use
        record = UsageRecord(
            remainder(_number(identity.encode(), "big")),
            crc32(request.encode()) if request else 0,
            at,
            model,
            usage.speed == "fast",
            region,
            line.sidechain,
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens,
            cache_5m,
            cache_1h,
            writes,
            tools.web_search_requests if tools is not None else 0,
        )
        iterations = usage.iterations
        if len(iterations) > NO_ITERATIONS and ADVICE in bytes(iterations):
            self._add_advised(record, iterations)
        else:
            self._records.append(record)

    def _add_advised(self, record: UsageRecord, iterations: msgspec.Raw) -> None:
        """Other models may have been asked for advice; the message's own numbers leave it out."""
        try:
            self._records += [record, *_advice(record, iterations_in(iterations))]
        except UNCOUNTABLE:
            self.faults[ODD] += 1


def _is_drawn(identity: str) -> bool:
    """Whether it looks like one that is given once, and not to all that is answered."""
    return any(not part.isalpha() and not _DATE.fullmatch(part) for part in _PART.findall(identity))


def _stand_in(raw: Bytes, line: AnswerLine) -> None:
    """For the id of a request that a line does not tell, as behind gateways; copies share it.

    Without one the message's id has to do. Without that as well no two lines are known to be copies,
    but for those that a fork repeats.
    """
    message = line.message
    try:
        named = _decode_named(raw)
    except UNDECODABLE:
        named = _Named()
    if named.ref:
        line.request = named.ref
        if message.id and not message.id.startswith(OWN_ID):
            # Of a side agent's two messages under one id the requests do not tell: see `Merge`.
            message.id += f"/{named.ref}"
    elif not message.id:
        line.request = named.uuid or line.timestamp.isoformat()


def _advice(record: UsageRecord, iterations: list[Iteration]) -> list[UsageRecord]:
    return [
        UsageRecord(
            (record.key * 31 + number) % PRIME,
            record.request,
            record.at,
            _model(spent.model),
            False,  # noqa: FBT003 - the fields in their order
            record.geo,
            record.sidechain,
            spent.input_tokens,
            spent.output_tokens,
            spent.cache_read_input_tokens,
            *spent.writes(),
        )
        for number, spent in enumerate(iterations, 1)
        if spent.type == ADVICE.decode() and spent.model
    ]


def has_usage(raw: Bytes) -> bool:
    """Whether a line tells what a message used up."""
    meter = Meter()
    meter.take([raw])
    return bool(meter.records())


def own_time(raw: Bytes) -> int | None:
    """When a line that begins like one of OWN was written, ms."""
    try:
        return (_decode_stamp(raw).timestamp - EPOCH) // MS
    except UNDECODABLE:
        return None


#: How a line begins that a fork does not repeat; those it repeats have an uuid and begin with FORKED.
OWN_LINE: Final = b'{"type":"'
FORKED: Final = b'{"parentUuid":'
SESSION: Final = b'"sessionId":"'

_SESSION: Final = re.compile(SESSION_ID)
#: A subagent of the CLI's own, for a summary or a side question: no child of the session's, but what
#: it used up was used up.
_SIDE_REQUEST: Final = re.compile(
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
    if request := _SIDE_REQUEST.fullmatch(path):
        return TranscriptFile(request[1], request[2])
    beside = _BESIDE.fullmatch(path)
    return TranscriptFile("", beside[1]) if beside else None


def session_in(head: bytes) -> str | None:
    """Whose lines these are: of the first whole one that says."""
    for raw in _whole_lines(head):
        try:
            found = _decode_session(raw).id if SESSION in raw else ""
        except UNDECODABLE:
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


USAGE_LINES: Final = UsageLines(
    speaker=b'"role":"',
    follows=(b"a",),
    usage=b'"usage":{',
    any_usage=b'"usage"',
    answer=b'"assistant"',
    own=OWN,
    meter=Meter,
    has_usage=has_usage,
    own_time=own_time,
    session_in=session_in,
    begun_in=begun_in,
    used_by=used_by,
)
