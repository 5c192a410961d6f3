"""The request guard checks Host and Origin, sets the page's headers, and logs what is refused.

It stands before the gate, which asks who is there. These two checks keep other pages in the same
browser out: Host stops DNS rebinding, Origin stops cross-site WebSockets. Strings must be equal;
matching a prefix has been bypassed with localhost.evil.example. An Origin has to name the very Host
that is asked: other people's pages may run at another name of this hub, or under plain http at the
name of one with TLS.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from adsum_hub.clock import Clock
from adsum_shared import AdsumError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

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
#: Sent only under a name that is https alone, as it counts for every port of that name.
HSTS = {"strict-transport-security": "max-age=31536000"}

#: Where no public URL says which one it is: a proxy that ends TLS may not tell.
EITHER = frozenset({"http", "https"})
PRESET = {"http": ":80", "https": ":443"}

#: In a scope: the hub's Refusals. The guard puts it there for everything behind it.
REFUSALS = "adsum.refusals"
SAID_MS = 60_000
#: So many of what was said are known; then the oldest may be said again.
MOST_SAID = 500
#: Lines in SAID_MS, whatever is refused: an attack from many addresses must not fill the disk.
MOST_LINES = 60


class PublicAddressError(AdsumError):
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


class Refusals:
    """Logs refused requests, at most once a minute for each address and reason."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], int] = {}
        self._since = self._lines = self._unsaid = 0

    def note(self, scope: Scope, why: str, kind: str = "") -> None:
        """kind: what makes a reason another one, if whoever asks could word it anew each time."""
        address, now = (scope.get("client") or ("?",))[0], self._clock()
        said = (address, kind or why)
        if now - self._said.get(said, -SAID_MS) < SAID_MS:
            return
        self._said.pop(said, None)
        self._said[said] = now
        if len(self._said) > MOST_SAID:
            del self._said[next(iter(self._said))]
        if not self._has_room(now):
            self._unsaid += 1
            return
        # Not "PATH: WHY": behind a path such as /tokens the first word passes for a secret.
        log.info("refused %s at %.100r, because: %s", address, scope["path"], why)

    def _has_room(self, now: int) -> bool:
        """Whether this minute has room for another line; a later line counts those that had none."""
        if now - self._since >= SAID_MS:
            if self._unsaid:
                log.info("refused %d times more, each not told of above", self._unsaid)
            self._since, self._lines, self._unsaid = now, 0, 0
        self._lines += 1
        return self._lines <= MOST_LINES


def log_refusal(scope: Scope, why: str, kind: str = "") -> None:
    refusals: Refusals | None = scope.get(REFUSALS)
    if refusals is not None:
        refusals.note(scope, why, kind)


class RequestGuard:
    """ASGI in front of everything: a request of a foreign Host or Origin goes no further."""

    def __init__(
        self, app: ASGIApp, hosts: Mapping[str, frozenset[str]], refusals: Refusals
    ) -> None:
        self._app, self._hosts, self._refusals = app, hosts, refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope[REFUSALS] = self._refusals
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            why = f"This hub does not answer to the name {host[:100]!r}."
            step = "Open it as http://127.0.0.1:PORT, or add the name to ADSUM_HUB_HOSTS."
        elif origin is not None and not self._is_own(origin, host, scope):
            why = f"Pages of {origin[:100]!r} may not use this hub."
            step = "Open the hub's own page; a proxy has to pass on Host and Origin unchanged."
        else:
            await self._app(scope, receive, _with_headers(scope, send, self._hosts[host]))
            return
        self._refusals.note(scope, why, "host" if host not in self._hosts else "origin")
        if scope["type"] == "websocket":
            await close_socket(receive, send, 1008, why)
        else:
            await JSONResponse({"error": why, "next": step}, 403)(scope, receive, send)

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


async def close_socket(receive: Receive, send: Send, code: int, why: str) -> None:
    # Accepted first: a refused handshake tells a page nothing, a close code says why.
    await receive()
    await send({"type": "websocket.accept"})
    reason = why.encode()[:120].decode(errors="ignore")
    await send({"type": "websocket.close", "code": code, "reason": reason})


def _with_headers(scope: Scope, send: Send, schemes: frozenset[str]) -> Send:
    if scope["type"] != "http":
        return send
    added = HEADERS | HSTS if schemes == {"https"} else HEADERS

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
