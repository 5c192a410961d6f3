"""What REST takes and answers of signing in. A secret is answered once, where it is made."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["viewer", "operator", "admin"]


class Me(msgspec.Struct, omit_defaults=True):
    """csrf: to be sent as x-csrf-token with what changes something; empty: not needed.

    sign_in: False where the hub asks nobody who it is; then everybody is an admin. demo: all that it
    shows is made up.
    """

    name: str
    role: Role
    csrf: str
    sign_in: bool
    demo: bool = False


class LoginAsked(msgspec.Struct):
    code: str


class SignedOut(msgspec.Struct):
    schema: int


class LoginLinkAsked(msgspec.Struct):
    """Whom the link will let in, and as what."""

    role: Role = "admin"
    name: str = ""


class LoginLink(msgspec.Struct):
    """public_url: where the hub is reached from elsewhere; None: nobody has said so. until: ms."""

    schema: int
    code: str
    public_url: str | None
    name: str
    role: Role
    until: int


class SignIn(msgspec.Struct):
    """A browser that is signed in. since, seen, ends: ms. where: what it says it is."""

    id: str
    name: str
    role: Role
    since: int
    seen: int
    ends: int
    where: str


class SignIns(msgspec.Struct):
    schema: int
    now: int
    sign_ins: list[SignIn]


class TokenAsked(msgspec.Struct):
    role: Role
    name: str
    expires_s: int


class Token(msgspec.Struct):
    """since, seen, until: ms. seen: when it was last used, to ten minutes; 0: never."""

    id: str
    name: str
    role: Role
    since: int
    seen: int
    until: int


class Tokens(msgspec.Struct):
    schema: int
    now: int
    tokens: list[Token]


class TokenMade(msgspec.Struct):
    """secret: shown here and never again."""

    schema: int
    secret: str
    token: Token


class Revoked(msgspec.Struct):
    schema: int
    id: str
