"""Secrets: how they are made, what they look like, and what of them is kept."""

from __future__ import annotations

import hashlib
import re
import secrets

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
