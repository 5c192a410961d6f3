"""Find the characters because of which a person may misread a request, so that allowing it takes two presses."""

from __future__ import annotations

import functools
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from adsum_shared.characters import escape_code, invisible_in, is_part_of_writing, without_invisible

#: Fields in people's language. Joiners and selectors are part of writing there.
PROSE: Final = frozenset(("description", "plan", "message"))
#: The names of fields that are not searched for paths and hosts: prose, and the contents of files.
_TEXTS: Final = re.compile(
    r"(?:^|_)(?:body|command|content|description|diff|message|patch|plan|prompt|query|questions"
    r"|reason|source|string|text|title)$"
)
#: The names of fields that hold one path, URL or host, with or without a slash.
_PLACES: Final = re.compile(r"(?:paths?|directory|host|ur[il]|endpoint)$")
#: The most characters of a word that a caution quotes.
MOST_WORD: Final = 60
#: The first words of the Unicode names of East Asian letters. Japanese and Korean mix them, so they count as one script.
_EAST_ASIAN: Final = re.compile("CJK|HIRAGANA|KATAKANA|IDEOGRAPHIC|BOPOMOFO|HANGUL|HALFWIDTH")
#: Letters that belong to no script.
_COMMON: Final = frozenset(("MICRO", "MODIFIER", "FEMININE", "MASCULINE", "COMBINING"))
_WORD: Final = re.compile(r"[^\W\d_](?:[^\W\d_]|[\u0300-\u036f])*")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
#: The characters between two words of a shell command.
_SEPARATORS: Final = re.compile(r"""[\s"'`=,;|&()<>{}\[\]]+""")
_UNQUOTED_WORD: Final = re.compile(r"""[^\s"'`;|&()<>{}]+""")
#: A quoted text or a heredoc, or a backslash or comment that keeps a quote from beginning one. `code`: the part
#: that is no text. A heredoc without an end extends to the end of the command, so the search stays linear.
_QUOTED: Final = re.compile(
    r"""(?P<start>(?:\A|[\n;|&({`])[ \t]*)?(?:
        (?P<code>\\.|(?<![^\s;&|()<>])\#[^\n]*)
        |(?P<inner>"\$\(cat[ ])?(?<!<)<<-?[ \t]*(?P<mark>['"]?)(?P<name>\w++)(?P=mark)(?P<rest>[^\n]*+)
            (?P<body>.*?)(?:(?P<end>\n[ \t]*(?P=name)(?!\w)(?(inner)\s*\)"))|\Z)
        |'[^']*'
        |(?P<double>"(?:\\.?|[^"\\])*+"?)
    )""",
    re.DOTALL | re.VERBOSE,
)
#: Where quotes do not show what runs: a shell takes a text as a command, `$'` or `((` has other rules.
_RUNS_TEXT: Final = re.compile(r"(?<![\w.-])(?:(?:ba|c|da|fi|k|s|tc|z)?sh|eval)(?![\w.-])|\(\(|\$'")
_SUBSTITUTION: Final = re.compile(r"\$\(|`")
#: How a patch begins, and each of its lines that names a file.
_PATCH: Final = "*** "
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
    if all(text.isascii() and not invisible_in(text) for text in (*code, *prose)):
        return ()
    command, places = _command(payload.get("command")), list(_places(payload))
    paths = (_ORIGIN.sub("", place) for place in (*_paths(command), *places))
    segments = (segment for path in paths for segment in _SLASH.split(path))
    return (
        *_hidden(code, prose),
        *_mixed(code),
        *_not_ascii("word that the shell may run", _words(command)),
        *_not_ascii("host", _HOST.findall("\n".join((command, *places)))),
        *_not_ascii("path segment", segments),
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _hidden(code: Iterable[str], prose: Iterable[str]) -> Iterator[str]:
    characters = {character for text in code for character in invisible_in(text)}
    for text in prose:
        invisible = invisible_in(text)
        characters |= {
            character
            for at, character in enumerate(text)
            if character in invisible and not is_part_of_writing(text, at)
        }
    if characters:
        points = sorted(f"U+{ord(character):04X}" for character in characters)
        more = f" and {len(points) - 5} more" if len(points) > 5 else ""
        yield f"The request contains invisible characters: {', '.join(points[:5])}{more}."


def _mixed(code: Iterable[str]) -> Iterator[str]:
    for text in code:
        if text.isascii():
            continue
        for word in _WORD.findall(text):
            scripts = sorted({script for letter in set(word) if (script := script_of(letter))})
            if len(scripts) > 1:
                yield f"A word mixes {' and '.join(scripts)} letters: {_quoted(word)}."
                return


@functools.lru_cache(4096)
def script_of(letter: str) -> str | None:
    """Return the script that the letter's Unicode name gives, or None if it belongs to no script."""
    if letter.isascii():
        return "Latin"
    name = unicodedata.name(letter, "").split(" ", 1)[0]
    if name in _COMMON or unicodedata.category(letter)[0] not in "LM":
        return None
    return "East Asian" if _EAST_ASIAN.match(name) else name.capitalize()


def _not_ascii(kind: str, words: Iterable[str]) -> Iterator[str]:
    word = next((word for word in words if not word.isascii()), None)
    if word is not None:
        yield f"A {kind} is not plain ASCII: {_quoted(word)}."


def _quoted(word: str) -> str:
    """Return the word, cut to MOST_WORD, with every character escaped that is not ASCII."""
    escaped = _NOT_ASCII.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", escape_code(word))
    return escaped if len(escaped) <= MOST_WORD else f"{escaped[:MOST_WORD]}…"


def _command(value: Any) -> str:
    """Return the shell command, or an empty text if there is only a patch or no command."""
    command = value if isinstance(value, str) else shlex.join(_texts(value))
    return "" if command.startswith(_PATCH) else command


def _words(command: str) -> list[str]:
    """Return the words outside quotes, without options and paths. This is a heuristic, not a parser."""
    code = command if _RUNS_TEXT.search(command) else _QUOTED.sub(_without_text, command)
    words = _UNQUOTED_WORD.findall(without_invisible(code))
    return [word for word in words if not (word.startswith("-") or _SLASH.search(word))]


def _without_text(match: re.Match[str]) -> str:
    """Return the part of the match that is code, or all of it where a program's name is quoted."""
    if match["name"] is not None:
        is_text = match["end"] and (match["mark"] or not _SUBSTITUTION.search(match["body"]))
        return f"{match['rest']}\n" if is_text else match[0]
    is_code = match["code"] or match["start"] is not None
    return match[0] if is_code or _SUBSTITUTION.search(match["double"] or "") else ""


def _paths(text: str) -> list[str]:
    return [word for word in _SEPARATORS.split(text) if _SLASH.search(word)]


def _places(value: Any, name: str = "") -> Iterator[str]:
    """Yield the paths, URLs and hosts of all fields but texts, and the head lines of a patch."""
    if isinstance(value, str):
        if name == "command":
            yield from (line for line in value.splitlines() if line.startswith(_PATCH))
        elif not _TEXTS.search(name):
            yield from [value] if _PLACES.search(name.lower()) else _paths(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _paths(key)
            yield from _places(item, key)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _places(item, name)
