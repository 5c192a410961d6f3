"""Secrets in texts, known by their shape or their name, and masked. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
        whole = match.group()
        if "secret" not in match.re.groupindex:
            return _mark(kind, whole, salt)
        start, end = match.span("secret")
        at = match.start()
        return whole[: start - at] + _mark(kind, match["secret"], salt) + whole[end - at :]

    return mask


def _mark(kind: str, secret: str, salt: str) -> str:
    return f"[redacted:{kind}:{digest(secret, salt, size=2)}]"


def digest(text: str, salt: str, size: int) -> str:
    """Equal for equal texts, under one salt."""
    raw = text.encode(errors="replace")
    return hashlib.blake2b(raw, key=salt.encode(), digest_size=size).hexdigest()
