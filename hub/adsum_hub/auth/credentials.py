"""Secrets, what the hub keeps of them, and what each role may do. Pure."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Literal

import msgspec

Role = Literal["viewer", "operator", "admin"]
Kind = Literal["sign-in", "token"]

DAY_MS = 24 * 3_600_000
#: A sign-in ends when it was not used for so long, and in any case after SIGN_IN_MOST_MS.
SIGN_IN_IDLE_MS = 30 * DAY_MS
SIGN_IN_MOST_MS = 90 * DAY_MS


class Credential(msgspec.Struct, frozen=True):
    """The browser sign-in or token of one person or program: its name, role and times in ms.

    idle: it ends when it was not used for so long; None: it ends at `until` alone.
    where: what a browser says it is.
    """

    id: str
    name: str
    role: Role
    since: int
    until: int
    seen: int
    idle: int | None = None
    where: str = ""

    @property
    def ends(self) -> int:
        return self.until if self.idle is None else min(self.until, self.seen + self.idle)


TOKEN_PREFIX = "adsum_"  # noqa: S105 - what a token begins with
_CODE = re.compile(r"[\w-]{32}", re.ASCII)
_COOKIE = re.compile(r"[\w-]{43}", re.ASCII)
_TOKEN = re.compile(rf"{TOKEN_PREFIX}[\w-]{{43}}", re.ASCII)
ID_LENGTH = 12


def make_code() -> str:
    """192 bits: nobody guesses one in its ten minutes, and it still fits a small QR."""
    return secrets.token_urlsafe(24)


def make_cookie() -> str:
    return secrets.token_urlsafe(32)


def make_token() -> str:
    """With a prefix that scanners of repositories, and people, recognise."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None


def is_cookie(text: str) -> bool:
    return _COOKIE.fullmatch(text) is not None


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def digest_of(secret: str) -> str:
    """What is kept of a secret.

    SHA-256, and not argon2: a slow, salted hash protects what people think up. These are 192 random
    bits and more, which no speed of guessing reaches; and a slow one would be paid for with each
    request, and handed to whoever wants to keep the hub busy.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def id_of(digest: str) -> str:
    """What a pass is named by when it is listed or revoked. No way back to the secret either."""
    return digest[:ID_LENGTH]


def csrf_of(cookie: str) -> str:
    """The proof that a request comes from the page: of the cookie, so it need not be kept."""
    return hashlib.sha256(b"adsum csrf\0" + cookie.encode()).hexdigest()


#: Each may do what those before it may.
ROLES: tuple[Role, ...] = ("viewer", "operator", "admin")

#: The page's own files and its way in hold nothing of anybody's; health is for probes.
OPEN = frozenset(
    {
        "/livez",
        "/readyz",
        "/login",
        "/api/v1/login",
        # By a join token, or by what a machine was given when it joined.
        "/api/v1/join",
        "/api/v1/join/check",
        "/api/v1/machine",
        "/api/v1/machine/leave",
        "/api/v1/machine/ingest",
        "/ingest",
        # A worker whose update is led elsewhere stays the old one.
        "/sw.js",
    }
)
OPEN_FOLDER = "/static/"
#: Anybody may ask; whoever may look at the list is told more.
MORE_TO_VIEWERS = frozenset({"/readyz"})
#: Who may enter at all is for admins, reading it too.
ADMINS = ("/api/v1/tokens", "/api/v1/join-tokens", "/api/v1/sign-ins", "/api/v1/login-links")
READING = frozenset({"GET", "HEAD", "OPTIONS"})
CHANGING: dict[tuple[str, str], Role] = {
    ("POST", "/api/v1/logout"): "viewer",
    # One's own browser.
    ("POST", "/api/v1/notify/subscriptions"): "viewer",
    ("DELETE", "/api/v1/notify/subscriptions"): "viewer",
    ("POST", "/api/v1/notify/test"): "operator",
}


def covers(role: Role, needed: Role) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)


def needed_for(method: str, path: str) -> Role | None:
    """None: anybody may. What changes something and is not in the table is for admins."""
    if path in OPEN or path.startswith(OPEN_FOLDER):
        return None
    if any(path == each or path.startswith(f"{each}/") for each in ADMINS):
        return "admin"
    return "viewer" if method in READING else CHANGING.get((method, path), "admin")
