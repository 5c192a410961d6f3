"""The fields of a transcript's line that tell what its message used up, and no others.

What the quick decoder refuses is looked at again, field by field: what the CLI changes next may
cost time, and no tokens.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from adsum_collector.agents.claude_code.bodies import NAME_MAX
from adsum_collector.agents.usage import NO_WRITES, SPLIT, UNSPLIT

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
UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
UNCOUNTABLE: Final = (msgspec.ValidationError, ValueError, RecursionError)


class _Split(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: Tokens = 0
    ephemeral_5m_input_tokens: Tokens = 0


class Spent(msgspec.Struct, gc=False):
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


class Iteration(Spent, gc=False):
    type: str = ""
    model: Name | None = None


class Usage(Spent, gc=False):
    server_tool_use: _Tools | None = None
    inference_geo: Name | None = None
    #: Seldom of interest, and dear to decode: see `iterations_in`.
    iterations: msgspec.Raw = msgspec.Raw()
    speed: str | None = None


class Message(msgspec.Struct, gc=False):
    usage: Usage
    id: str = ""
    model: Name = ""


class Line(msgspec.Struct, gc=False, kw_only=True):
    sidechain: bool = msgspec.field(name="isSidechain", default=False)
    message: Message
    request: str | None = msgspec.field(name="requestId", default=None)
    type: str
    timestamp: Time
    error: bool = msgspec.field(name="isApiErrorMessage", default=False)

    def takes_in(self, line: Line) -> bool:
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


decode_line = msgspec.json.Decoder(Line).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_iterations = msgspec.json.Decoder(list[Iteration]).decode


def iterations_in(raw: msgspec.Raw) -> list[Iteration]:
    """Raises one of UNCOUNTABLE."""
    with contextlib.suppress(*UNDECODABLE):
        return _decode_iterations(raw)
    every = [each for each in json.loads(bytes(raw)) if isinstance(each, dict)]
    known = [_numbers(each) | _only(each, type=str, model=str) for each in every]
    return msgspec.convert(known, list[Iteration])


def look_closer(raw: Bytes, faults: Counter[str]) -> Line | None:
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
        return msgspec.convert(known, Line)
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
