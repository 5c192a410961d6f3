"""Makes text safe to keep and to show: it masks secrets, and what a terminal would obey. Pure.

`secrets.toml` has the shapes and names of secrets. Logs hide more: what only they hold, as the values in URLs.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from adsum_shared.characters import is_invisible, replace_invisible

_Mask = Callable[[re.Match[str]], str]


class _Rules(NamedTuple):
    key_name: re.Pattern[str]
    #: Kind, hints, pattern.
    shapes: list[tuple[str, list[str], re.Pattern[str]]]
    long_word: re.Pattern[str]
    service_token: re.Pattern[str]
    #: Hint, the program's command, its options.
    commands: list[tuple[str, re.Pattern[str], re.Pattern[str]]]


@cache
def _rules() -> _Rules:
    """Return `secrets.toml`, compiled at the first use: most commands of the command line need none."""
    import tomllib

    secrets = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text(encoding="utf-8"))

    def compiled(pattern: str) -> re.Pattern[str]:
        while fragment := re.search("<([A-Z]+)>", pattern):
            pattern = pattern.replace(fragment[0], secrets["fragments"][fragment[1]])
        return re.compile(pattern, re.VERBOSE)

    shapes, options, services = (secrets[name] for name in ("rules", "options", "service_tokens"))
    return _Rules(
        compiled("(?i)<KEY>"),
        [(kind, hints.split("|"), compiled(rule)) for kind, (hints, rule) in shapes.items()],
        compiled(services["hint"]),
        compiled(services["pattern"]),
        [
            (hint, compiled(rf"\b{program}<REST>"), compiled(f"{option}<ARGUMENT>"))
            for hint, (program, option) in options.items()
        ],
    )


def redact_text(text: str, salt: str) -> str:
    """Replace secrets by `[redacted:<kind>:<mark>]`, equal ones by equal marks; no salt, no mark."""
    lower, rules = text.lower(), _rules()
    # plain loops: most texts end here, and a generator would cost more than the search
    for kind, hints, pattern in rules.shapes:
        for hint in hints:
            if hint in lower:
                text = pattern.sub(_masking(kind, salt), text)
                break
    if rules.long_word.search(text):
        text = rules.service_token.sub(_masking("service_token", salt), text)
    mask = _masking("argument", salt)
    for hint, command, option in rules.commands:
        if hint in lower:
            text = _mask_options(text, command, option, mask)
    return text


def redacted(value: Any, salt: str, key: str = "") -> Any:
    """The same of every text in a value as JSON has it. key: what the value is called there."""
    if isinstance(value, str):
        if key and value and _rules().key_name.search(key):
            return _mark("value", value, salt)
        return redact_text(value, salt)
    if isinstance(value, Mapping):
        return {
            redact_text(name, salt): redacted(inner, salt, name) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [redacted(inner, salt, key) for inner in value]
    return value


def _mask_options(text: str, command: re.Pattern[str], option: re.Pattern[str], mask: _Mask) -> str:
    return command.sub(lambda match: option.sub(mask, match[0]), text)


def _masking(kind: str, salt: str) -> _Mask:
    def mask(match: re.Match[str]) -> str:
        secret = match["secret"] if "secret" in match.re.groupindex else match.group()
        return _with(match, _mark(kind, secret, salt))

    return mask


def _with(match: re.Match[str], mark: str) -> str:
    """The match with the mark in place of its secret: of its group `secret`, or all of it."""
    start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
    whole, at = match.group(), match.start()
    return whole[: start - at] + mark + whole[end - at :]


def _mark(kind: str, secret: str, salt: str) -> str:
    return f"[redacted:{kind}:{digest(secret, salt, size=2)}]" if salt else f"[redacted:{kind}]"


def digest(text: str, salt: str, size: int) -> str:
    """Equal for equal texts, under one salt."""
    raw = text.encode(errors="replace")
    return hashlib.blake2b(raw, key=salt.encode(), digest_size=size).hexdigest()


#: Too short to be taken for a secret by what looks for those afterwards.
MASK = "***"
#: Of a line; the rest of one is cut off, or a foreign text of megabytes would be looked through.
MOST_SIGNS = 20_000

#: Each has a group `secret`, which is all that is masked.
_MORE = (
    # To the end of the line: a cookie's own name says nothing of which of its values is a secret.
    re.compile(
        r"(?i)\b(?:(?:set-)?cookie|authorization)(?:[\"']?\s{0,9}[:=]|[\"']\s{0,9},)\s{0,9}"
        r"(?P<secret>[^\r\n]{1,4096})"
    ),
    # Whatever a URL is asked with: which names mean secrets, each service decides for itself.
    re.compile(r"[?&][\w.\[\]-]{1,64}=(?P<secret>[^\s&#\"'<>]{1,4096})"),
    re.compile(r"://(?P<secret>[^\s/?#@\"'<>]{1,512})@"),
    # A login link's code stands behind the hash.
    re.compile(r"/login(?:\?[^\s#]{0,2000})?#(?P<secret>[\w-]{1,128})"),
)
#: Fields by whose name alone the value is one.
_NAMES = re.compile(r"(?i)cookie|authorization")


def without_secrets(text: str, salt: str) -> str:
    if len(text) > MOST_SIGNS:
        text = f"{text[:MOST_SIGNS]}… (cut off)"
    for pattern in _MORE:
        text = pattern.sub(lambda match: _with(match, MASK), text)
    return redact_text(text, salt)


def fields_without_secrets(fields: Mapping[str, Any], salt: str) -> dict[str, Any]:
    """The same of every field of a log entry. What is no text becomes one, as a renderer would do."""
    return {name: _field(name, value, salt) for name, value in fields.items()}


def _field(name: str, value: Any, salt: str) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if _NAMES.search(name):
        return MASK
    return redacted(without_secrets(str(value), salt), salt, name)


#: Titles, labels, projects and models are whatever somebody called them. What a terminal would obey or
#: nobody would see becomes a space; in JSON it is escaped, so that the value stays what it was.
_BREAKS: Final = re.compile(r"[\0\r\n\t]+")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7e]")


def clean(text: str | None) -> str:
    """One line of it."""
    return _BREAKS.sub(" ", replace_invisible(text or "", "\0")).strip()


def safe(text: str) -> str:
    """As it is laid out: its lines and tabs stay."""
    return replace_invisible(text, " ")


def to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    """Encode the value as JSON. Visible characters stay; invisible ones are escaped."""
    written = json.dumps(value, ensure_ascii=False, indent=indent, **options)
    return _NOT_ASCII.sub(_in_json, written)


def _in_json(sign: re.Match[str]) -> str:
    return json.dumps(sign[0])[1:-1] if is_invisible(sign[0]) else sign[0]
