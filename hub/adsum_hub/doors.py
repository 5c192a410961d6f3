"""Who may knock: exact Host and Origin, and the headers that keep a page to itself.

Nobody signs in yet, so the hub answers on loopback only, and these two checks keep other pages in
the same browser out: Host stops DNS rebinding, Origin stops cross-site WebSockets. Exact strings;
matching a prefix has been bypassed with localhost.evil.example.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    # Revalidated by ETag each time: after an upgrade no old module meets a new one.
    "cache-control": "no-cache",
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class PublicAddressError(RuntimeError):
    """The hub was told to listen where others can reach it, and nobody signs in yet."""


def require_loopback(host: str, *, allowed: bool) -> None:
    """Raises PublicAddressError with the next step in its text."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not allowed:
        raise PublicAddressError(
            f"The hub will not listen on {host}: anyone who reaches it would see everything, since "
            "nobody signs in yet. Keep ADSUM_HUB_HOST=127.0.0.1, or set ADSUM_HUB_ALLOW_PUBLIC=1 "
            "if the port is published on loopback only or stands behind a proxy that asks who it is."
        )


def known_hosts(port: int, further: Iterable[str]) -> frozenset[str]:
    """Host header values we answer to."""
    names = ("127.0.0.1", "localhost", "[::1]")
    hosts = {f"{name}:{port}" for name in names} | set(further)
    return frozenset(hosts | set(names) if port == 80 else hosts)


class Doors:
    """ASGI in front of everything: a request of a foreign Host or Origin goes no further."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = frozenset(
            f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            why = f"This hub does not answer to the name {host[:100]!r}."
            step = "Open it as http://127.0.0.1:PORT, or add the name to ADSUM_HUB_HOSTS."
        elif origin is not None and origin not in self._origins:
            why = f"Pages of {origin[:100]!r} may not use this hub."
            step = "Open the hub's own page."
        else:
            await self._app(scope, receive, _with_headers(scope, send))
            return
        if scope["type"] == "websocket":
            # Accepted first: a refused handshake tells a page nothing, a close code says why.
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": 1008, "reason": why[:120]})
            return
        await JSONResponse({"error": why, "next": step}, 403)(scope, receive, send)


def _with_headers(scope: Scope, send: Send) -> Send:
    if scope["type"] != "http":
        return send

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
