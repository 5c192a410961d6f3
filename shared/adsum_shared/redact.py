"""What may leave a machine: secrets are masked in every text, or no text leaves at all. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from adsum_shared.signals import ToolFinished

T = TypeVar("T")
Level = Literal["metadata", "redacted", "full"]

#: Names and joins: not prose, looked up by equality, never masked.
_NAMES = frozenset(
    {
        "session_id",
        "agent",
        "agent_id",
        "prompt_id",
        "source",
        "tool_use_id",
        "request_id",
        "child_id",
        "task_id",
        "digest",
        "v",
    }
)
#: Fields that hold what people and agents wrote: the level `metadata` leaves them out.
_TEXTS = frozenset(
    {
        "text",
        "summary",
        "title",
        "payload",
        "suggestions",
        "last_message",
        "message",
        "description",
        "subject",
        "note",
    }
)

_KEY = (
    r"(?:pass(?:word|wd|phrase)|secret|token|authorization|api[_-]?key|private[_-]?key"
    r"|access[_-]?key|credential)"
)
_KEY_NAME = re.compile(rf"(?i){_KEY}")
_KEY_HINTS = ("passw", "passphrase", "secret", "token", "authorization", "key", "credential")


class _Rule(NamedTuple):
    """hints: lower-case texts, one of which every match contains: cheap to look for.

    A group `secret` in the pattern, if there is one, is all that is masked.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


#: Every repetition that something must follow is bounded, or starts only where a word does: agents
#: print megabytes without a space.
_RULES: tuple[_Rule, ...] = (
    _Rule(
        "private_key",
        ("private key-----",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
            r".*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
    ),
    _Rule("anthropic_key", ("sk-ant-",), re.compile(r"\bsk-ant-[\w-]{10,}")),
    _Rule("openai_key", ("sk-",), re.compile(r"\bsk-(?:proj-|svcacct-)?[\w-]{20,}")),
    _Rule(
        "stripe_key", ("k_live_", "k_test_"), re.compile(r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{10,}")
    ),
    _Rule(
        "github_pat",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"),
    ),
    _Rule("gitlab_pat", ("glpat-",), re.compile(r"\bglpat-[\w-]{16,}")),
    _Rule("slack_token", ("xox",), re.compile(r"\bxox[abeoprs]-[\w-]{8,}")),
    _Rule("aws_key", ("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    _Rule("google_key", ("aiza",), re.compile(r"\bAIza[\w-]{30,}")),
    _Rule("npm_token", ("npm_",), re.compile(r"\bnpm_[A-Za-z0-9]{30,}")),
    _Rule("pypi_token", ("pypi-",), re.compile(r"\bpypi-[\w-]{30,}")),
    _Rule("hf_token", ("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{20,}")),
    _Rule("jwt", ("eyj",), re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")),
    _Rule(
        "url_password",
        ("://",),
        re.compile(r"://[^\s/:@]{0,256}:(?P<secret>[^\s/@]{1,512})@"),
    ),
    _Rule(
        "bearer",
        ("bearer",),
        re.compile(r"(?i)\bbearer\s{1,9}(?=\S{0,512}\d|\S{20})(?P<secret>[\w.~+/-]{8,}=*)"),
    ),
    _Rule(
        "basic",
        ("authorization",),
        re.compile(
            r"(?i)authorization[\"']?\s{0,9}[:=]\s{0,9}[\"']?basic\s{1,9}(?P<secret>[\w+/-]+=*)"
        ),
    ),
    _Rule(
        "value",
        _KEY_HINTS,
        re.compile(
            rf"(?i)(?:{_KEY}[\w-]{{0,40}}[\"']?\s{{0,9}}[:=]\s{{0,9}}"
            rf"|(?<![\w-])--[\w-]{{0,40}}{_KEY}[\w-]{{0,40}}\s{{1,9}})[\"']?"
            r"(?!\[redacted:|bearer\b|basic\b)(?P<secret>[^\s\"',;&|)}\]]{4,})"
        ),
    ),
)


_HINTS = tuple((rule, hint) for rule in _RULES for hint in rule.hints)


def redact_text(text: str, salt: str) -> str:
    """Secrets become `[redacted:<kind>:<mark>]`: equal secrets bear equal marks, under one salt."""
    lower = text.lower()
    # a plain loop: most texts end here, and a generator would cost more than the search
    for rule, hint in _HINTS:
        if hint in lower:
            text = rule.pattern.sub(_masking(rule.kind, salt), text)
    return text


def private_as(level: Level, salt: str) -> Callable[[T], T]:
    """A function from a signal to what of it may leave this machine."""
    if level == "full":
        return lambda signal: signal
    texts = _TEXTS if level == "metadata" else frozenset()
    return lambda signal: _struct(signal, salt, texts)


def _struct(value: T, salt: str, dropped: frozenset[str]) -> T:
    changes: dict[str, Any] = {}
    # getattr: the type says which fields there are, only the value says what is in them
    for name in value.__struct_fields__:  # type: ignore[attr-defined]
        if name in _NAMES:
            continue
        old = getattr(value, name)
        if old is None or old.__class__ is int or old.__class__ is bool:
            continue
        new = None if _is_dropped(value, name, dropped) else _value(old, salt, dropped)
        if new is not old:
            changes[name] = new
    return msgspec.structs.replace(value, **changes) if changes else value  # type: ignore[type-var]


def _is_dropped(value: object, name: str, dropped: frozenset[str]) -> bool:
    # a failed turn's error is one of a few words; a failed tool's is what it printed
    return name in dropped or bool(dropped and name == "error" and isinstance(value, ToolFinished))


def _value(value: Any, salt: str, dropped: frozenset[str], key: str = "") -> Any:
    if isinstance(value, str):
        if key and value and _KEY_NAME.search(key):
            return _mark("value", value, salt)
        return redact_text(value, salt)
    if isinstance(value, Mapping):
        return {
            redact_text(name, salt): _value(inner, salt, dropped, name)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_value(inner, salt, dropped, key) for inner in value]
    if isinstance(value, msgspec.Struct):
        return _struct(value, salt, dropped)
    return value


def _masking(kind: str, salt: str) -> Callable[[re.Match[str]], str]:
    def mask(match: re.Match[str]) -> str:
        whole = match.group()
        if "secret" not in match.re.groupindex:
            return _mark(kind, whole, salt)
        start, end = match.span("secret")
        at = match.start()
        return whole[: start - at] + _mark(kind, match["secret"], salt) + whole[end - at :]

    return mask


def _mark(kind: str, secret: str, salt: str) -> str:
    digest = hashlib.blake2b(secret.encode(errors="replace"), key=salt.encode(), digest_size=2)
    return f"[redacted:{kind}:{digest.hexdigest()}]"
