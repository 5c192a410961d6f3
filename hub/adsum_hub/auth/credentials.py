"""What a request shows to be let in: a cookie's secret or a token."""

from __future__ import annotations

import re
from typing import NamedTuple

from starlette.datastructures import Headers

from adsum_hub.auth.entry import Kind
from adsum_hub.auth.secret import TOKEN_PREFIX, is_cookie, is_token

_PORT = re.compile(r":(\d{1,5})\Z")


class Shown(NamedTuple):
    kind: Kind
    secret: str


class NoTokenError(ValueError):
    """There is a bearer, and it cannot be one of ours."""


def cookie_name(host: str, *, secure: bool) -> str:
    """host: of the Host header.

    Cookies know no ports: without the port in its name, of two hubs at two ports of one machine (or
    at the ends of two tunnels) each would sign the other's browsers out.
    """
    port = _PORT.search(host)
    name = f"adsum-{port[1]}" if port else "adsum"
    return f"__Host-{name}" if secure else name


def shown_in(headers: Headers, name: str) -> Shown | None:
    """A token counts before a cookie. Raises NoTokenError.

    Another scheme than ours is a proxy's before us, as is a bearer that is none of ours when there
    is a cookie.
    """
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    cookie = _cookie(headers, name)
    if scheme.lower() != "bearer":
        return cookie
    bearer = bearer.strip()
    if is_token(bearer):
        return Shown("token", bearer)
    if cookie is not None and not bearer.startswith(TOKEN_PREFIX):
        return cookie
    raise NoTokenError


def _cookie(headers: Headers, name: str) -> Shown | None:
    for line in headers.getlist("cookie"):
        for pair in line.split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name and is_cookie(value):
                return Shown("sign-in", value)
    return None
