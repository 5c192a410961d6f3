"""Removes from a signal what may not leave the machine, by the level its owner chose. Pure."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from adsum_shared.redact import digest, redact_text, redacted
from adsum_shared.signals import (
    MetaChanged,
    PromptSubmitted,
    QueuedItem,
    QueueReported,
    ToolFinished,
    TurnEnded,
    TurnFailed,
)

T = TypeVar("T")
Level = Literal["metadata", "redacted", "full"]

#: Names and joins: not prose, looked up by equality, never masked.
_NAMES = {
    *("id", "session_id", "agent", "agent_id", "prompt_id", "source", "role", "server"),
    *("tool_use_id", "request_id", "child_id", "task_id", "forked_from", "digest", "v"),
    *("binding", "verbs", "command_id", "verb", "trail", "report_id"),
}
#: Fields that hold what people and agents wrote: the level `metadata` leaves them out.
_TEXTS = {
    *("text", "summary", "title", "ai_title", "last_prompt", "last_answer", "payload"),
    *("suggestions", "last_message", "message", "description", "subject", "note", "notes", "host"),
}
#: What the level `metadata` lets out of any other text: one word, as names and states are. A model
#: may have brackets.
_WORD = re.compile(r"[A-Za-z0-9_.:\[\]-]{0,64}")
#: Models may have more, as `model-x@20270101` or `vendor/model`. Not an `arn:`, which names an account.
_MODEL = re.compile(r"(?!arn:)[A-Za-z0-9_.:@/\[\]-]{1,64}")
#: The registry says in two words what a session waits for.
_WORDS = re.compile(r"[A-Za-z-]{1,32} [A-Za-z-]{1,32}")
_NUMBERS = frozenset({int, bool, float})
PROMPT_MAX = 120
MESSAGE_MAX = 200
ERROR_MAX = 160
QUEUED_MAX = 500


def private_as(level: Level, salt: str) -> Callable[[T], T]:
    """A function from a signal to what of it may leave this machine."""
    if level == "full":
        return _whole
    terse = level == "metadata"
    return lambda signal: _struct(signal, salt, terse=terse)


def _whole(signal: T) -> T:
    """All of it, but of a queue no more than is shown: with each change the whole queue is told."""
    if not isinstance(signal, QueueReported):
        return signal
    replace = msgspec.structs.replace
    items = [replace(each, text=each.text[:QUEUED_MAX]) for each in signal.items]
    return replace(signal, items=items)


def _struct(value: T, salt: str, *, terse: bool) -> T:
    changes: dict[str, Any] = {}
    # getattr: the type says which fields there are, only the value says what is in them
    for name in value.__struct_fields__:  # type: ignore[attr-defined] # of every Struct
        old = getattr(value, name)
        if old is None or old.__class__ in _NUMBERS:
            continue
        if isinstance(old, list) and old and all(isinstance(each, msgspec.Struct) for each in old):
            new: Any = [_struct(each, salt, terse=terse) for each in old]
        elif isinstance(old, msgspec.Struct):
            new = _struct(old, salt, terse=terse)
        elif name == "models":
            new = {_model(key, salt) if terse else redact_text(key, salt): old[key] for key in old}
        else:
            shown = _terse if terse else _readable
            new = shown(value, name, old, salt)
        if new is not old and new != old:
            changes[name] = new
    return msgspec.structs.replace(value, **changes) if changes else value  # type: ignore[type-var] # a Struct, always


def _readable(value: object, name: str, old: Any, salt: str) -> Any:
    if name in _NAMES:
        return old
    # cut after masking: half a secret is not known for one
    masked = redacted(old, salt)
    cut = _CUTS.get((value.__class__, name))
    return cut(masked) if cut else masked


def _terse(value: Any, name: str, old: Any, salt: str) -> Any:
    if not isinstance(old, str) and name not in _TEXTS:
        return {} if isinstance(old, Mapping) else old
    if name == "model":
        return _model(old, salt)
    # a failed turn's error is one of a few words; a failed tool's is what it printed
    printed = name == "error" and isinstance(value, ToolFinished)
    if name not in _TEXTS and not printed:
        if _WORD.fullmatch(old) and redact_text(old, salt) == old:
            return old
        if name == "waiting_for" and _WORDS.fullmatch(old):
            return old
        if name in _NAMES:
            return digest(old, salt, size=16)
    return _default(value.__class__, name)


def _model(name: str, salt: str) -> str:
    """One that is no word is still another than the next: what they have used up is not mixed."""
    if _MODEL.fullmatch(name) and redact_text(name, salt) == name:
        return name
    return digest(name, salt, size=16)


@cache
def _default(kind: type, name: str) -> Any:
    """What stands for a text that must not leave and cannot be left out."""
    found = next(field.default for field in msgspec.structs.fields(kind) if field.name == name)
    return "other" if found is msgspec.NODEFAULT else found


def _first_line(text: str, limit: int) -> str | None:
    line = text.strip().partition("\n")[0].strip()
    return (line if len(line) <= limit else line[: limit - 1] + "…") or None


def _last_line(text: str, limit: int) -> str | None:
    """Its end: whether it asks something is told by its last letter."""
    line = text.strip().rpartition("\n")[2].strip()
    return (line if len(line) <= limit else "…" + line[1 - limit :]) or None


_CUTS: dict[tuple[type, str], Callable[[str], str | None]] = {
    (PromptSubmitted, "text"): lambda text: _first_line(text, PROMPT_MAX),
    # a first prompt may stand for a title
    (MetaChanged, "title"): lambda text: _first_line(text, PROMPT_MAX),
    (MetaChanged, "ai_title"): lambda text: _first_line(text, PROMPT_MAX),
    (MetaChanged, "last_prompt"): lambda text: _first_line(text, PROMPT_MAX),
    (MetaChanged, "last_answer"): lambda text: _last_line(text, MESSAGE_MAX),
    (TurnEnded, "last_message"): lambda text: _last_line(text, MESSAGE_MAX),
    (ToolFinished, "error"): lambda text: _first_line(text, ERROR_MAX),
    (TurnFailed, "message"): lambda text: _first_line(text, ERROR_MAX),
    (QueuedItem, "text"): lambda text: text[:QUEUED_MAX],
}
