"""Edits hooks in the JSON that agents keep them in, as text, so that every byte that is not ours stays as it was. Pure.

`{"hooks": {EVENT: [{"matcher": …, "hooks": [HOOK, …]}, …]}}`: ours are put in as groups of their own, behind
the user's, and taken out so that all else stays.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from adsum_collector.agents.installer import SHIM_NAME

_BLANK = re.compile(r"[ \t\n\r]*")
_OUTSIDE_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')


class JsonTextError(ValueError):
    """What is wrong with a text, and where: line and column count from 1."""

    def __init__(self, cause: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {cause}")
        self.cause, self.line, self.column = cause, line, column


@dataclass(frozen=True, slots=True)
class _JsonMember:
    """A member of an object or an element of an array. start: of its key, or of its value."""

    key: str | None
    start: int
    value_at: int
    end: int
    value: Any


class _ConstantError(ValueError):
    pass


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantError(name)


# Numbers are never written back, so they are only recognised: the digits of a huge integer must
# not run into Python's limit.
_decoder = json.JSONDecoder(parse_int=float, parse_constant=_refuse_constant)


def parse(text: str) -> Any:
    """The value of a text. Raises JsonTextError for all that JSON.parse would refuse."""
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        # Of a comma before a bracket, Python 3.13 names the comma, and older ones the bracket.
        trailing = error.msg.startswith("Illegal trailing comma")
        position = _skip(text, error.pos + 1) if trailing else error.pos
        raise _failure(text, position, _cause(text, position, error.msg)) from error
    except _ConstantError as error:
        at = next(m.start() for m in _OUTSIDE_STRINGS.finditer(text) if m[0][0] != '"')
        raise _failure(text, at, f"{error} is not JSON") from error
    except RecursionError as error:
        raise JsonTextError("nested too deeply", 1, 1) from error


def children(text: str, at: int) -> list[_JsonMember]:
    """What the container whose bracket stands at `at` holds. The text has been parsed already."""
    in_object = text[at] == "{"
    found: list[_JsonMember] = []
    position = _skip(text, at + 1)
    while text[position] not in "}]":
        start, key = position, None
        if in_object:
            key, position = _decoder.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        value, end = _decoder.raw_decode(text, position)
        found.append(_JsonMember(key, start, position, end, value))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


def root(text: str) -> int:
    return _skip(text, 0)


def find(text: str, *path: str | int) -> int:
    """Where a value begins. path: keys and indexes; of keys that stand twice the last one counts."""
    at = root(text)
    for step in path:
        inside = children(text, at)
        at = (inside[step] if isinstance(step, int) else {c.key: c for c in inside}[step]).value_at
    return at


def is_blank(text: str) -> bool:
    return root(text) == len(text)


def append(text: str, at: int, value: Any, key: str | None = None) -> str:
    """The text with one more child at the end of the container at `at`, in the text's own style."""
    inside = children(text, at)
    close = _skip(text, inside[-1].end if inside else at + 1)
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _indent_unit(text)
    if inside:
        spread = "\n" in text[at : inside[0].start]
        indent = _indent_of(text, inside[-1].start)
    else:
        spread = unit is not None
        indent = _indent_of(text, at) + (unit or "")
    rendered = _render(value, key, newline, unit if spread else None, indent)
    if inside:
        comma = f",{newline}{indent}" if spread else ", "
        return text[: inside[-1].end] + comma + rendered + text[inside[-1].end :]
    if spread:
        outer = _indent_of(text, at)
        rendered = f"{newline}{indent}{rendered}{newline}{outer}"
    return text[: at + 1] + rendered + text[close:]


def drop(text: str, *path: str | int) -> str:
    """The text without the value at this path, undoes `append`."""
    at, gone = find(text, *path[:-1]), find(text, *path)
    inside = children(text, at)
    index = [child.value_at for child in inside].index(gone)
    if len(inside) == 1:
        return text[: at + 1] + text[_skip(text, inside[0].end) :]
    if index == len(inside) - 1:
        return text[: inside[index - 1].end] + text[inside[index].end :]
    return text[: inside[index].start] + text[inside[index + 1].start :]


def _indent_unit(text: str) -> str | None:
    """One step of the text's indentation; None when it is written on one line."""
    at = root(text)
    inside = children(text, at) if text[at] in "{[" else []
    if not inside:
        return "  "
    if "\n" not in text[at : inside[0].start]:
        return None
    return _indent_of(text, inside[0].start) or "  "


def _render(value: Any, key: str | None, newline: str, unit: str | None, indent: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    rendered = f"{newline}{indent}".join(lines)
    return rendered if key is None else f"{json.dumps(key)}: {rendered}"


def _indent_of(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _failure(text: str, position: int, cause: str) -> JsonTextError:
    before = text[:position]
    return JsonTextError(cause, before.count("\n") + 1, position - before.rfind("\n"))


def _cause(text: str, position: int, told: str) -> str:
    if text[position : position + 2] in ("//", "/*"):
        return "a comment; JSON has none, and the whole file is dropped for one"
    before = text[:position].rstrip()
    if before.endswith(",") and text[position : position + 1] in ("}", "]"):
        return "a comma with nothing after it"
    return told


_IsOurs = Callable[[object], bool]


class ShapeError(ValueError):
    """Valid JSON, but not what the agent reads as hooks."""


def parse_settings(text: str) -> dict[str, Any]:
    """The settings in the shape we edit. Raises JsonTextError or ShapeError."""
    if is_blank(text):
        return {}
    settings = parse(text)
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    shaped = isinstance(hooks, dict) and all(isinstance(value, list) for value in hooks.values())
    if not shaped:
        raise ShapeError('not an object whose "hooks" is an object of arrays')
    if doubled := _doubled_key(text, settings):
        raise ShapeError(f'the key "{doubled}" stands twice, and only the last one is read')
    return dict(settings)


def _doubled_key(text: str, settings: dict[str, Any]) -> str | None:
    for path in ((), ("hooks",)) if "hooks" in settings else ((),):
        seen: set[str | None] = set()
        for member in children(text, find(text, *path)):
            if member.key in seen:
                return member.key
            seen.add(member.key)
    return None


def hooks_in(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(event, hook) for event, _, _, hook in placed_hooks(settings)]


def placed_hooks(settings: Mapping[str, Any]) -> list[tuple[str, int, int, Any]]:
    """(event, which of its groups, which of that one's hooks, the hook)."""
    return [
        (event, at, index, hook)
        for event, groups in (settings.get("hooks") or {}).items()
        for at, group in enumerate(groups)
        for index, hook in enumerate(_group_hooks(group))
    ]


def _group_hooks(group: object) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def with_groups(text: str, groups: Mapping[str, dict[str, Any]]) -> str:
    """The text with one more group for each of these events."""
    settings = parse(text)
    events = settings.get("hooks") or {}
    if "hooks" not in settings:
        text = append(text, root(text), {}, "hooks")
    for event, group in groups.items():
        if event in events:
            text = append(text, find(text, "hooks", event), group)
        else:
            text = append(text, find(text, "hooks"), [group], event)
    return text


def without_hooks(text: str, is_ours: _IsOurs) -> str:
    """The text without our hooks, and without the brackets that held nothing else."""
    places = placed_hooks({} if is_blank(text) else parse(text))
    ours = [(event, at, index) for event, at, index, hook in places if is_ours(hook)]
    for event, at, index in reversed(ours):
        text = drop(text, *_emptied(text, ("hooks", event, at, "hooks", index)))
    return text


def _emptied(text: str, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Of one of our hooks, what would hold nothing without it: its group, matcher and all, or more."""
    if not _is_alone(text, path):
        return path
    path = path[:3]
    while len(path) > 1 and _is_alone(text, path):
        path = path[:-1]
    return path


def _is_alone(text: str, path: Sequence[str | int]) -> bool:
    return len(children(text, find(text, *path[:-1]))) == 1


def command_words(hook: Mapping[str, Any]) -> list[str]:
    """What a command hook runs. Without `args` a shell takes the words apart; ours are quoted for one."""
    command, args = hook.get("command"), hook.get("args")
    if not isinstance(command, str):
        return []
    if isinstance(args, list):
        return [command, *map(str, args)]
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return [command]


def runs_shim(hook: object) -> bool:
    """True for a command that some install of ours wrote, with whichever Python and socket."""
    words = command_words(hook) if isinstance(hook, dict) else []
    return any(SHIM_NAME in word.replace("\\", "/") for word in words)


def sockets_in(settings: Mapping[str, Any]) -> frozenset[str]:
    """Where the commands among our hooks hand on to; one with a dash finds it by itself."""
    ours = [command_words(hook) for _, hook in hooks_in(settings) if runs_shim(hook)]
    sockets = (word for words in ours for shim, word in pairwise(words) if SHIM_NAME in shim)
    return frozenset(sockets) - {"-"}
