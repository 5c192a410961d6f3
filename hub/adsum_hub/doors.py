"""Who may knock: exact Host and Origin, and the headers that keep a page to itself.

Who is let in, the gate behind asks; these two checks keep other pages in the same browser out: Host
stops DNS rebinding, Origin stops cross-site WebSockets. Exact strings; matching a prefix has been
bypassed with localhost.evil.example. An Origin is of the very Host that is asked: what runs at
another name of this hub's, or under plain http at the name of one with TLS, may be others'.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from adsum_hub.refusals import REFUSALS, Refusals

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; "
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


#: Of all headers together. No browser sends so many, and each would be looked through.
MOST_HEADER_BYTES = 64 * 1024
#: Where no public URL says which one it is: a proxy that ends TLS may not tell.
EITHER = frozenset({"http", "https"})
PRESET = {"http": ":80", "https": ":443"}


class PublicAddressError(RuntimeError):
    """The hub was told to listen where others can reach it, without what that takes."""


def require_address(host: str, *, sign_in: bool, public_url: str | None, allowed: bool) -> None:
    """Raises PublicAddressError with the next step in its text."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if loopback:
        return
    if not sign_in:
        raise PublicAddressError(
            f"The hub will not listen on {host} with ADSUM_SIGN_IN=off: anyone who reaches it would "
            "see everything and may change it. Keep ADSUM_HUB_HOST=127.0.0.1, or leave out "
            "ADSUM_SIGN_IN."
        )
    if not allowed and not (public_url or "").startswith("https://"):
        raise PublicAddressError(
            f"The hub will not listen on {host} without TLS before it: sign-ins would cross the "
            "network in clear. Keep ADSUM_HUB_HOST=127.0.0.1; or put a proxy with TLS before it and "
            "set ADSUM_PUBLIC_URL=https://…; or, where the port is published on loopback only or "
            "the network is yours, set ADSUM_HUB_ALLOW_PUBLIC=1."
        )


def known_hosts(
    port: int, further: Iterable[str], public_url: str | None = None
) -> dict[str, frozenset[str]]:
    """Host header values we answer to, each with the schemes that its own page may have come by."""
    names = ("127.0.0.1", "localhost", "[::1]")
    hosts = [*(f"{name}:{port}" for name in names), *further, *(names if port == 80 else ())]
    known = dict.fromkeys(hosts, EITHER)
    if public_url is not None:
        scheme, _, host = public_url.partition("://")
        known[host] = frozenset({scheme})
    return known


class Doors:
    """ASGI in front of everything: a request of a foreign Host or Origin goes no further."""

    def __init__(
        self, app: ASGIApp, hosts: Mapping[str, frozenset[str]], refusals: Refusals
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope[REFUSALS] = self._refusals
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADER_BYTES:
            problem = {
                "error": f"The headers are longer than {MOST_HEADER_BYTES // 1024} kB.",
                "next": "Clear this site's cookies in the browser.",
            }
            self._refusals.note(scope, problem["error"])
            await _turn_away(problem, 431, scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            why = f"This hub does not answer to the name {host[:100]!r}."
            step = "Open it as http://127.0.0.1:PORT, or add the name to ADSUM_HUB_HOSTS."
        elif origin is not None and not self._is_own(origin, host, scope):
            why = f"Pages of {origin[:100]!r} may not use this hub."
            step = "Open the hub's own page; a proxy has to pass on Host and Origin unchanged."
        else:
            await self._app(scope, receive, _with_headers(scope, send))
            return
        self._refusals.note(scope, why, "host" if host not in self._hosts else "origin")
        await _turn_away({"error": why, "next": step}, 403, scope, receive, send)

    def _is_own(self, origin: str, host: str, scope: Scope) -> bool:
        """Where a proxy tells that the browser came by https, a page under plain http is another's."""
        schemes = self._hosts[host]
        if scope["scheme"] in ("https", "wss"):
            schemes = schemes & {"https"} or schemes
        # Browsers leave the preset port out of an Origin, and some proxies put it into Host.
        hosts = [
            (each, name) for each in schemes for name in (host, host.removesuffix(PRESET[each]))
        ]
        return any(origin == f"{scheme}://{name}" for scheme, name in hosts)


async def _turn_away(
    problem: dict[str, str], status: int, scope: Scope, receive: Receive, send: Send
) -> None:
    if scope["type"] == "websocket":
        # Accepted first: a refused handshake tells a page nothing, a close code says why.
        await receive()
        await send({"type": "websocket.accept"})
        reason = problem["error"].encode()[:120].decode(errors="ignore")
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    await JSONResponse(problem, status)(scope, receive, send)


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
