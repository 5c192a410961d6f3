"""Secrets of joining: tokens, and what a machine shows afterwards. Pure but for chance."""

from __future__ import annotations

import re
import secrets

TOKEN_PREFIX = "adsum_join_"  # noqa: S105 - what a token begins with
MACHINE_PREFIX = "adsum_machine_"
HOST_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_HOST_ID = re.compile(HOST_ID)
_TOKEN = re.compile(rf"{TOKEN_PREFIX}[\w-]{{43}}", re.ASCII)
_MACHINE = re.compile(rf"{MACHINE_PREFIX}({HOST_ID})_[\w-]{{43}}", re.ASCII)


def make_join_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def make_machine_secret(host_id: str) -> str:
    """It says whose it is, so that nothing has to be searched for it."""
    return f"{MACHINE_PREFIX}{host_id}_{secrets.token_urlsafe(32)}"


def is_join_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def is_host_id(text: str) -> bool:
    return _HOST_ID.fullmatch(text) is not None


def host_in(secret: str) -> str | None:
    """Whose secret it says it is."""
    found = _MACHINE.fullmatch(secret)
    return found[1] if found else None
