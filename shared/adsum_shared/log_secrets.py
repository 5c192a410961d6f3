"""Secrets in a log line: what redact.py knows, and what only logs hold, as cookies and URLs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from adsum_shared.redact import redact_text, redacted

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
        text = pattern.sub(_masked, text)
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


def _masked(match: re.Match[str]) -> str:
    whole, (start, end), at = match.group(), match.span("secret"), match.start()
    return whole[: start - at] + MASK + whole[end - at :]
