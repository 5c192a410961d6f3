"""Our wrapper in the status line of a settings file: put around the user's own, taken off. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from adsum_collector.hooks import json_text
from adsum_collector.hooks.events import STATUSLINE_NAME, Target

KEY: Final = "statusLine"

#: leave: not ours to touch. wrap: the user's own, if there is one. fill: the empty slot as well.
#: The last only on demand: a status line that prints nothing still takes a row of the screen, and
#: the hint "? for shortcuts" gives way to it (measured on 2.1.330).
Mode = Literal["leave", "wrap", "fill"]

# A quote stands in single quotes the way `shlex.quote` has it; how JSON spells it is kept.
_QUOTES = re.compile(r"\\u0027|\\.|'")
_QUOTED = {"'": "'\\\"'\\\"'", "\\u0027": "'\\\"\\u0027\\\"'"}
_UNQUOTES = re.compile(r"'\\\"('|\\u0027)\\\"'")


@dataclass(frozen=True, slots=True)
class StatusLine:
    """What the one slot for a status line holds.

    kind: none; other, which is not for us; own, the user's; wrapped, the user's in our wrapper;
    filled, our wrapper alone; altered, our wrapper in a shape we never wrote. command: the user's.
    words: how our wrapper is run.
    """

    kind: Literal["none", "other", "own", "wrapped", "filled", "altered"]
    command: str | None = None
    words: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """The Python and the file of our wrapper, which must be there or the line goes dark."""
        return (self.words[1], self.words[4]) if self.words else ()

    @property
    def socket(self) -> str | None:
        """Where it reports to; None: it is not ours."""
        return self.words[5] if self.words else None


def statusline_in(settings: dict[str, Any]) -> StatusLine:
    if KEY not in settings:
        return StatusLine("none")
    line = settings[KEY]
    command = line.get("command") if isinstance(line, dict) else None
    # A NUL cannot be handed to any program: such a command never ran.
    if not isinstance(command, str) or line.get("type") != "command" or "\0" in command:
        return StatusLine("other")
    if STATUSLINE_NAME not in command:
        return StatusLine("own", command)
    return _read(command)


def wrapped(text: str, target: Target, mode: Mode) -> str:
    """The text with our wrapper around the user's status line. Only its command is written."""
    line = statusline_in(json_text.parse(text))
    words = ["exec", target.python, "-I", "-S", str(target.statusline), str(target.socket)]
    if line.kind == "none" and mode == "fill":
        entry = {"type": "command", "command": shlex.join(words)}
        return json_text.append(text, json_text.root(text), entry, KEY)
    literal = _command_literal(text) if line.kind == "own" and mode != "leave" else None
    if literal is None:
        return text
    inner = _QUOTES.sub(lambda found: _QUOTED.get(found[0], found[0]), text[literal][1:-1])
    return _replaced(text, literal, f"\"{_prefix(words)}'{inner}'\"")


def unwrapped(text: str) -> str:
    """The text with the user's own status line again; undoes `wrapped`, whoever wrapped it."""
    if json_text.is_blank(text):
        return text
    line = statusline_in(json_text.parse(text))
    if line.kind == "filled":
        root = json_text.root(text)
        keys = [child.key for child in json_text.children(text, root)]
        return json_text.drop(text, root, {keys.index(KEY)})
    literal = _command_literal(text) if line.kind == "wrapped" else None
    if literal is None:
        return text
    start = f"\"{_prefix(line.words)}'"
    inner = _UNQUOTES.sub(r"\1", text[literal][len(start) : -2])
    if text[literal].startswith(start) and _decoded(f'"{inner}"') == line.command:
        return _replaced(text, literal, f'"{inner}"')
    # Written anew by another program since: the command is the same, its spelling is lost.
    return _replaced(text, literal, json.dumps(line.command, ensure_ascii=False))


def _read(command: str) -> StatusLine:
    """Of a command that names our wrapper."""
    try:
        words = shlex.split(command)
    except ValueError:
        return StatusLine("altered")
    shaped = words[:1] + words[2:4] == ["exec", "-I", "-S"] and len(words) in (6, 8)
    if not shaped or not words[4].endswith(STATUSLINE_NAME) or words[6:7] not in ([], ["--"]):
        return StatusLine("altered")
    if len(words) == 6:
        return StatusLine("filled", None, tuple(words))
    return StatusLine("wrapped", words[7], tuple(words[:6]))


def _prefix(words: Sequence[str]) -> str:
    """How our part of the command is written between JSON's quotes."""
    return json.dumps(f"{shlex.join(words)} -- ", ensure_ascii=False)[1:-1]


def _command_literal(text: str) -> slice | None:
    """Where the command stands, with its quotes. None: it stands twice, and the last one counts."""
    line = next(c for c in json_text.children(text, json_text.root(text)) if c.key == KEY)
    inside = [c for c in json_text.children(text, line.value_at) if c.key == "command"]
    return slice(inside[0].value_at, inside[0].end) if len(inside) == 1 else None


def _replaced(text: str, place: slice, literal: str) -> str:
    return text[: place.start] + literal + text[place.stop :]


def _decoded(literal: str) -> object:
    try:
        return json_text.parse(literal)
    except json_text.JsonTextError:
        return None
