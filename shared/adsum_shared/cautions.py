"""What in a request may read as something else, so that a person is asked twice before it is allowed."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from adsum_shared.characters import escape_code, invisible_in, is_part_of_writing

#: Fields in people's language, in which joiners and selectors are part of writing.
PROSE: Final = frozenset(("description", "plan", "message"))
#: Fields that hold one path or URL.
PLACES: Final = frozenset(("file_path", "notebook_path", "path", "url"))
#: Of a word that is quoted in a caution.
MOST_WORD: Final = 60
#: The first words of the Unicode names of East Asian letters. One language mixes them, so they are one script.
_EAST_ASIAN: Final = frozenset(
    (
        "CJK",
        "HIRAGANA",
        "KATAKANA",
        "KATAKANA-HIRAGANA",
        "IDEOGRAPHIC",
        "BOPOMOFO",
        "HANGUL",
        "HALFWIDTH",
    )
)
#: Letters that belong to no script.
_COMMON: Final = frozenset(("MICRO", "MODIFIER", "FEMININE", "MASCULINE"))
_WORD: Final = re.compile(r"[^\W\d_](?:[^\W\d_]|[\u0300-\u036f])*")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
#: What ends a word of a shell command.
_APART: Final = re.compile(r"""[\s"'`=,;|&()<>{}\[\]]+""")
#: A heredoc without an end extends to the end of the text. Else a hostile text restarts the search at each `<<`.
_HEREDOC: Final = re.compile(
    r"(<<-?[ \t]*(['\"]?)(\w+)\2[^\n]*\n).*?(?:^[ \t]*\3\b|\Z)", re.DOTALL | re.MULTILINE
)
_QUOTED: Final = re.compile(r"""'[^']*'?|"(?:\\.|[^"\\])*\\?"?""", re.DOTALL)
_SUBSTITUTION: Final = re.compile(r"\$\([^)]*\)?|`[^`]*`?")
#: Where a command begins, past what sets variables or only runs another program.
_PROGRAM: Final = re.compile(
    r"(?:^|[\n;|&({`])[ \t]*"
    r"(?:(?:then|do|else|sudo|env|exec|nohup|time|command|xargs|\w+=[^\s;|&({`]*)[ \t]+)*"
    r"([^\s;|&()<>{}]+)"
)
_SLASH: Final = re.compile(r"[/\\]")
_ORIGIN: Final = re.compile(r"^\w+://[^/]*")
_HOST: Final = re.compile(r"(?:://|@)([^\s/:?#]+)")


def cautions_of(payload: Mapping[str, Any], rules: Iterable[str] = ()) -> tuple[str, ...]:
    """Return one sentence for each way to misread the request, in a fixed order.

    rules: the rules that the decision `always` would add.
    """
    code, prose = list(rules), list[str]()
    for name, value in payload.items():
        (prose if name in PROSE else code).extend(_texts(value))
    if all(map(_is_usual, (*code, *prose))):
        return ()
    return (
        *_hidden(code, prose),
        *_mixed(code),
        *_not_ascii("program", _programs(payload)),
        *_not_ascii("host", _hosts(payload)),
        *_not_ascii("path segment", _paths(payload)),
    )


def _is_usual(text: str) -> bool:
    return text.isascii() and not invisible_in(text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def _hidden(code: Iterable[str], prose: Iterable[str]) -> Iterator[str]:
    found = {sign for text in code for sign in invisible_in(text)}
    for text in prose:
        hidden = invisible_in(text)
        found |= {
            sign
            for at, sign in enumerate(text)
            if sign in hidden and not is_part_of_writing(text, at)
        }
    if found:
        points = sorted(f"U+{ord(sign):04X}" for sign in found)
        more = f" and {len(points) - 5} more" if len(points) > 5 else ""
        yield f"It holds characters that nobody can see: {', '.join(points[:5])}{more}."


def _mixed(code: Iterable[str]) -> Iterator[str]:
    for text in code:
        if text.isascii():
            continue
        for word in _WORD.findall(text):
            scripts = sorted({script for letter in word if (script := _script_of(letter))})
            if len(scripts) > 1:
                yield f"A word mixes {' and '.join(scripts)} letters: {_quoted(word)}."
                return


@functools.lru_cache(4096)
def _script_of(letter: str) -> str | None:
    """Return the script by a letter's name; None for one that belongs to none."""
    if letter.isascii():
        return "Latin"
    name = unicodedata.name(letter, "").split(" ", 1)[0]
    if name in _COMMON or not letter.isalpha():
        return None
    return "East Asian" if name in _EAST_ASIAN else name.capitalize()


def _not_ascii(what: str, words: Iterable[str]) -> Iterator[str]:
    odd = next((word for word in words if not word.isascii()), None)
    if odd is not None:
        yield f"A {what} is not plain ASCII: {_quoted(odd)}."


def _quoted(word: str) -> str:
    """Return the word, cut to MOST_WORD, with every character escaped that is not ASCII."""
    shown = _NOT_ASCII.sub(lambda sign: f"\\u{{{ord(sign[0]):x}}}", escape_code(word))
    return shown if len(shown) <= MOST_WORD else f"{shown[:MOST_WORD]}…"


def _command(payload: Mapping[str, Any]) -> str:
    return "\n".join(_texts(payload.get("command")))


def _programs(payload: Mapping[str, Any]) -> list[str]:
    """Return the first words of all commands in a shell command, but of texts that are quoted in it."""
    command = _HEREDOC.sub(r"\1", _command(payload))
    return _PROGRAM.findall(_QUOTED.sub(_without_text, command))


def _without_text(quoted: re.Match[str]) -> str:
    inner = quoted[0][1:].removesuffix(quoted[0][0])
    if not re.search(r"\s", inner):
        return inner
    return "" if quoted[0][0] == "'" else " ".join(_SUBSTITUTION.findall(inner))


def _hosts(payload: Mapping[str, Any]) -> list[str]:
    return _HOST.findall("\n".join((_command(payload), *_places(payload))))


def _paths(payload: Mapping[str, Any]) -> list[str]:
    words = [word for word in _APART.split(_command(payload)) if _SLASH.search(word)]
    return [
        segment
        for word in (*words, *_places(payload))
        for segment in _SLASH.split(_ORIGIN.sub("", word))
    ]


def _places(payload: Mapping[str, Any]) -> list[str]:
    return [text for name in PLACES & payload.keys() for text in _texts(payload[name])]
