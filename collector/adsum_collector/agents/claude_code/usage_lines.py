"""A line of a transcript as what its message used up; most lines are about something else."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zlib import crc32

import msgspec

from adsum_collector.agents.claude_code.usage_fields import (
    ODD,
    UNCOUNTABLE,
    UNDECODABLE,
    Bytes,
    Iteration,
    Line,
    Time,
    decode_line,
    iterations_in,
    look_closer,
)
from adsum_collector.agents.claude_code.usage_names import MODELS, ODD_NAME, REGIONS
from adsum_collector.agents.usage import Record

#: In the head of a line with a message, before who said it; and near the end of an assistant's.
ROLE: Final = b'"role":"'
ASSISTANT_INITIAL: Final = ord("a")
USAGE: Final = b'"usage":{'
#: How lines begin that a fork does not repeat: the first one's time is when the file was begun.
OWN: Final = (b'{"type":"queue-operation"', b'{"type":"api-request')

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MS: Final = timedelta(milliseconds=1)
DAY_S: Final = 24 * 3600
#: As seconds it fits into four bytes.
LAST: Final = 2**32 * 1000
#: Ids are random but for their first letters, so what a prime leaves of them is as good as a hash
#: of cryptography, and takes two thirds of its time.
PRIME: Final = 2**61 - 1
NOBODY: Final = "<synthetic>"
ADVICE: Final = b"advisor_message"
NO_ITERATIONS: Final = len(b"[]")
_number: Final = int.from_bytes
#: What PRIME leaves. Where a word has 64 bits, it is what Python takes for the hash of an integer:
#: the same number in half the time of a division.
_remainder: Final = hash if sys.hash_info.modulus == PRIME else PRIME.__rmod__
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

    faults: what should tell and does not: cause -> how often.
    """

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self._records: list[Record] = []
        self._last: Line | None = None

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
                self._tell(last)
                last = line
            else:
                continue
            if line.request is None:
                _stand_in(raw, line)
        if last is not None:
            last.outlive()
        self._last = last

    def records(self) -> list[Record]:
        """Of all lines that were taken since this was asked last."""
        if self._last is not None:
            self._tell(self._last)
        records, self._records, self._last = self._records, [], None
        return records

    def _tell(self, line: Line) -> None:
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
        model, geo = MODELS[message.model], usage.inference_geo or ""
        region = REGIONS[geo] if geo else geo
        if model != message.model or region != geo:
            self.faults[ODD_NAME] += 1
        cache_5m, cache_1h, writes = usage.writes()
        tools = usage.server_tool_use
        record = Record(
            _remainder(_number(identity.encode(), "big")),
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
            self._tell_advised(record, iterations)
        else:
            self._records.append(record)

    def _tell_advised(self, record: Record, iterations: msgspec.Raw) -> None:
        """Other models may have been asked for advice; the message's own numbers leave it out."""
        try:
            self._records += [record, *_advice(record, iterations_in(iterations))]
        except UNCOUNTABLE:
            self.faults[ODD] += 1


def _is_drawn(identity: str) -> bool:
    """Whether it looks like one that is given once, and not to all that is answered."""
    return any(not part.isalpha() and not _DATE.fullmatch(part) for part in _PART.findall(identity))


def _stand_in(raw: Bytes, line: Line) -> None:
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


def _advice(record: Record, iterations: list[Iteration]) -> list[Record]:
    return [
        Record(
            (record.key * 31 + number) % PRIME,
            record.request,
            record.at,
            MODELS[spent.model],
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


def tells(raw: Bytes) -> bool:
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
