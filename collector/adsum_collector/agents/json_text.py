"""Edits strict JSON as text, so that every byte that is not ours stays as its owner wrote it."""

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

_BLANK = re.compile(r"[ \t\n\r]*")
_OUTSIDE_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')


class JsonTextError(ValueError):
    """What is wrong with a text, and where: line and column count from 1."""

    def __init__(self, cause: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {cause}")
        self.cause, self.line, self.column = cause, line, column


@dataclass(frozen=True, slots=True)
class JsonMember:
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


def children(text: str, at: int) -> list[JsonMember]:
    """What the container whose bracket stands at `at` holds. The text has been parsed already."""
    in_object = text[at] == "{"
    found: list[JsonMember] = []
    position = _skip(text, at + 1)
    while text[position] not in "}]":
        start, key = position, None
        if in_object:
            key, position = _decoder.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        value, end = _decoder.raw_decode(text, position)
        found.append(JsonMember(key, start, position, end, value))
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
    unit = indent_unit(text)
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


def indent_unit(text: str) -> str | None:
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
