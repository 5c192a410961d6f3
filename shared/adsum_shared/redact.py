"""Makes text safe to keep and to show: it masks secrets, and what a terminal would obey. Pure.

Secrets are known by their shape or their name; in logs also by what only logs hold, as cookies and URLs.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from adsum_shared.characters import is_invisible, replace_invisible

_KEY = (
    r"(?:pass(?:word|wd|phrase)|secret|token|authorization|api[_-]?key|private[_-]?key"
    r"|access[_-]?key|credential)"
)
_KEY_NAME = re.compile(rf"(?i){_KEY}")
_KEY_HINTS = "passw|passphrase|secret|token|authorization|key|credential"


#: Kind -> (lower-case texts, one of which every match contains: cheap to look for; the pattern). A
#: group `secret` in it, if there is one, is all that is masked. Every repetition that something must
#: follow is bounded, or starts only where a word does: agents print megabytes without a space.
_RULES = {
    "private_key": (
        "private key-----",
        r"(?s)-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
        r".*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    ),
    "anthropic_key": ("sk-ant-", r"\bsk-ant-[\w-]{10,}"),
    "openai_key": ("sk-", r"\bsk-(?:proj-|svcacct-)?[\w-]{20,}"),
    "stripe_key": ("k_live_|k_test_", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    "github_pat": (
        "ghp_|gho_|ghu_|ghs_|ghr_|github_pat_",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    ),
    "gitlab_pat": ("glpat-", r"\bglpat-[\w-]{16,}"),
    "slack_token": ("xox", r"\bxox[abeoprs]-[\w-]{8,}"),
    "aws_key": ("akia|asia", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "google_key": ("aiza", r"\bAIza[\w-]{30,}"),
    "npm_token": ("npm_", r"\bnpm_[A-Za-z0-9]{30,}"),
    "pypi_token": ("pypi-", r"\bpypi-[\w-]{30,}"),
    "hf_token": ("hf_", r"\bhf_[A-Za-z0-9]{20,}"),
    "jwt": ("eyj", r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    "url_password": ("://", r"://[^\s/:@]{0,256}:(?P<secret>[^\s/@]{1,512})@"),
    "bearer": ("bearer", r"(?i)\bbearer\s{1,9}(?=\S{0,512}\d|\S{20})(?P<secret>[\w.~+/-]{8,}=*)"),
    "basic": (
        "authorization",
        r"(?i)authorization[\"']?\s{0,9}[:=]\s{0,9}[\"']?basic\s{1,9}(?P<secret>[\w+/-]+=*)",
    ),
    "value": (
        _KEY_HINTS,
        rf"(?i)(?:{_KEY}[\w-]{{0,40}}[\"']?\s{{0,9}}[:=]\s{{0,9}}"
        rf"|(?<![\w-])--[\w-]{{0,40}}{_KEY}[\w-]{{0,40}}\s{{1,9}})[\"']?"
        r"(?!\[redacted:|bearer\b|basic\b)(?P<secret>[^\s\"',;&|)}\]]{4,})",
    ),
}
_HINTS = tuple(
    (kind, re.compile(pattern), hint)
    for kind, (hints, pattern) in _RULES.items()
    for hint in hints.split("|")
)


def redact_text(text: str, salt: str) -> str:
    """Secrets become `[redacted:<kind>:<mark>]`: equal secrets bear equal marks, under one salt."""
    lower = text.lower()
    # a plain loop: most texts end here, and a generator would cost more than the search
    for kind, pattern, hint in _HINTS:
        if hint in lower:
            text = pattern.sub(_masking(kind, salt), text)
    return text


def redacted(value: Any, salt: str, key: str = "") -> Any:
    """The same of every text in a value as JSON has it. key: what the value is called there."""
    if isinstance(value, str):
        if key and value and _KEY_NAME.search(key):
            return _mark("value", value, salt)
        return redact_text(value, salt)
    if isinstance(value, Mapping):
        return {
            redact_text(name, salt): redacted(inner, salt, name) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [redacted(inner, salt, key) for inner in value]
    return value


def _masking(kind: str, salt: str) -> Callable[[re.Match[str]], str]:
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
    return f"[redacted:{kind}:{digest(secret, salt, size=2)}]"


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
    # A token, whether or not a word before it says that it is one; those of machines are longer.
    re.compile(r"\b(?P<secret>adsum_[\w-]{43,256})"),
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
