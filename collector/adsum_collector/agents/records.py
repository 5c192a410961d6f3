"""What reading an agent's hooks and lines gives: texts cut to size, signals, a past, and usage records."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import Any, Final, Protocol, TypeVar

import msgspec

from adsum_shared.characters import CONTROL
from adsum_shared.commands import NotObeyedError
from adsum_shared.signals import AnySignal, CostReported, Delivery, MetaChanged, PromptSubmitted

#: Of a name: a tool's, a kind's, an id.
NAME_MAX = 256
SUMMARY_MAX = 160
#: As long as a path can be.
PATH_MAX = 4096
#: Of a request's payload, in bytes of JSON, about: it is shown whole while the request is open.
PAYLOAD_MAX = 8_000
#: How deep, how many in one list or object, and how large a number: beyond, only an attack goes.
DEPTH_MAX = 16
ITEMS_MAX = 200
NUMBER_MAX = 1 << 53


#: Of a model's name, as long as the hub takes it; what one is called that has none.
MODEL_MAX = 200
UNNAMED = "unknown"
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


def model_name(name: str) -> str:
    """As it is reported, so that no name can cost the tokens beside it."""
    return _UNPRINTABLE.sub("", name).strip()[:MODEL_MAX].strip() or UNNAMED


def one_line(text: object, limit: int = SUMMARY_MAX) -> str | None:
    """The text's first line that is not empty."""
    if not isinstance(text, str):
        return None
    line = text.strip().split("\n", 1)[0].strip()
    return shorten(line, limit) if line else None


def name_of(value: object, limit: int = NAME_MAX) -> str | None:
    return value[:limit] if isinstance(value, str) and value else None


def project_of(cwd: str | None) -> str | None:
    return PurePath(cwd.replace("\\", "/")).name or None if cwd else None


#: The input fields that say most of a call, as most agents name them, and those that hold a path.
_TELLING = ("command", "question", "query", "url", "pattern", "description", "prompt", "name")
_PATHS = ("filePath", "file_path", "absolute_path", "dir_path", "path")


def call_summary(value: Mapping[str, Any]) -> str | None:
    """One short line about a call of a tool whose fields nobody here knows."""
    asked = value.get("questions")
    first = asked[0] if isinstance(asked, list) and asked else None
    if isinstance(first, dict):
        return call_summary({name: text for name, text in first.items() if name != "questions"})
    paths = [project_of(one_line(value.get(name), PATH_MAX)) for name in _PATHS]
    lines = [*(one_line(value.get(name)) for name in _TELLING), *paths]
    return next((line for line in lines if line), None)


def text_of(content: object) -> str | None:
    """A text, or the texts of a list of blocks."""
    if isinstance(content, list):
        texts = [block.get("text") for block in content if isinstance(block, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else None


def stamp_of(text: object) -> int:
    """Milliseconds; 0 for none, or for what is no time."""
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) and text else None
        return max(int(at.timestamp() * 1000), 0) if at else 0
    except (ValueError, OverflowError, OSError):
        return 0


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def payload(value: Mapping[str, Any]) -> dict[str, Any]:
    """The request's input to show in full, its texts cut so that the whole stays bounded."""
    whole = plain(value)
    if len(msgspec.json.encode(whole)) <= PAYLOAD_MAX:
        return whole
    return {key: _cut(item, PAYLOAD_MAX // 2) for key, item in list(whole.items())[:20]}


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """What every reader can take of an input, however long its texts are."""
    found: dict[str, Any] = _plain(dict(value), DEPTH_MAX)
    return found


#: Of a reason, an answer or a note that somebody gives from elsewhere.
TEXT_MAX = 4_000


def require_text(text: str | None, what: str) -> str:
    """Raises NotObeyedError: too long, or with what a terminal would obey."""
    text = (text or "").strip()
    if len(text) > TEXT_MAX:
        raise NotObeyedError(f"{what} is too long: {TEXT_MAX} characters at most")
    if CONTROL.search(text):
        raise NotObeyedError(f"{what} holds control characters")
    return text


def bounded(value: list[Any] | None) -> list[Any] | None:
    """A request's suggestions: all of them, or none."""
    whole: list[Any] = _plain(value or [], DEPTH_MAX)
    return whole if len(msgspec.json.encode(whole)) <= PAYLOAD_MAX else None


#: A command that commits or opens a pull request; what git and the forges' tools then print.
_DELIVERS = re.compile(
    r"\bgit\b[^\n|;&]*\b(?:commit|cherry-pick|revert)\b|\b(?:gh pr|glab mr) create\b"
)
_COMMITTED = re.compile(
    r"^\[(detached HEAD|[^\s\[\]]{1,200})(?: \(root-commit\))? ([0-9a-f]{7,40})\] .*(\n Date: )?",
    re.MULTILINE,
)
_OPENED = re.compile(
    r"^https://[^\s/]{1,200}/\S{1,300}/(?:pull|merge_requests|pull-requests)/\d{1,9}$", re.MULTILINE
)
SHA_SHOWN = 12
DELIVERIES_MAX = 32


def delivers(command: object) -> bool:
    """Whether a shell's command commits, or opens a pull request, if it succeeds."""
    return isinstance(command, str) and _DELIVERS.search(command) is not None


def deliveries(output: object) -> list[Delivery] | None:
    """What a command that `delivers` says it has made.

    Git prints a date under a commit whose author's date is not now: of an amended one. Output alone
    proves nothing: who reads a log, or asks for a pull request's address, prints the same lines.
    """
    if not isinstance(output, str):
        return None
    found = [
        Delivery("amend" if dated else "commit", sha[:SHA_SHOWN], None if " " in branch else branch)
        for branch, sha, dated in _COMMITTED.findall(output)
    ]
    found += [Delivery("pull_request", address) for address in _OPENED.findall(output)]
    return found[:DELIVERIES_MAX] or None


def _plain(value: object, depth: int) -> Any:
    """What every reader can take: not nested too deep, no number that is none to others."""
    if isinstance(value, dict | list) and not depth:
        return "…"
    if isinstance(value, dict):
        items = list(value.items())[:ITEMS_MAX]
        return {key[:NAME_MAX]: _plain(item, depth - 1) for key, item in items}
    if isinstance(value, list):
        return [_plain(item, depth - 1) for item in value[:ITEMS_MAX]]
    if isinstance(value, int) and abs(value) > NUMBER_MAX:
        return shorten(str(value), 32)
    return value


def _cut(value: object, budget: int) -> object:
    if isinstance(value, str):
        return shorten(value, budget)
    if isinstance(value, dict | list) and len(msgspec.json.encode(value)) > budget:
        return shorten(msgspec.json.encode(value).decode(), budget)
    return value


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
