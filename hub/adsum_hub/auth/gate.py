"""ASGI behind the doors: whoever has no pass, or not the role for it, goes no further."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from adsum_hub.auth.credentials import NoTokenError, Shown, cookie_name, shown_in
from adsum_hub.auth.keeper import TOKEN_STEP, Grant, Keeper, RefusedError
from adsum_hub.auth.roles import MORE_TO_VIEWERS, READING, Role, covers, needed_for
from adsum_hub.auth.secret import digest_of
from adsum_hub.live.live import LAPSE
from adsum_hub.notify.owners import OWNER, Owner
from adsum_hub.readiness import STRANGER
from adsum_hub.refusals import note
from adsum_hub.rest.answers import Problem, as_json

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: In a scope: the Grant of whoever asks.
GRANT = "adsum.grant"
CSRF_HEADER = "x-csrf-token"
#: Asked by programs: one that is led to a sign-in would take that page for its answer.
NO_PAGES = ("/api/", "/openapi", "/metrics")
#: Longer ones are not led back to.
MOST_NEXT = 1_500
RETRY_S = "5"


class Reception:
    """Reads what a request shows. public: the hub's public URL, if it has one."""

    def __init__(self, public: str | None) -> None:
        parts = urlsplit(public or "")
        self._secure_host = parts.netloc if parts.scheme == "https" else None

    def is_secure(self, scope: Scope) -> bool:
        """Under https as the browser sees it: a proxy that ends TLS may not tell."""
        if scope["scheme"] in ("https", "wss"):
            return True
        host = Headers(scope=scope).get("host", "")
        return self._secure_host is not None and host == self._secure_host

    def cookie_name(self, scope: Scope) -> str:
        host = Headers(scope=scope).get("host", "")
        return cookie_name(host, secure=self.is_secure(scope))

    def shown(self, scope: Scope) -> Shown | None:
        """Raises RefusedError."""
        try:
            return shown_in(Headers(scope=scope), self.cookie_name(scope))
        except NoTokenError as error:
            cause = "What the Authorization header holds is no token of Adsum."
            raise RefusedError(401, cause, TOKEN_STEP, noteworthy=True) from error


class Gate:
    def __init__(self, app: ASGIApp, keeper: Keeper, reception: Reception) -> None:
        self._app = app
        self._keeper = keeper
        self._reception = reception

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        needed = needed_for(scope.get("method", "GET"), scope["path"])
        if needed is not None:
            try:
                await self._admit(scope, needed)
            except RefusedError as refused:
                self._note(scope, refused)
                await _refuse(refused, scope, receive, send)
                return
        elif scope["path"] in MORE_TO_VIEWERS:
            try:
                await self._admit(scope, "viewer")
            except RefusedError:
                scope[STRANGER] = True
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope, needed: Role) -> None:
        """Raises RefusedError."""
        shown = self._reception.shown(scope)
        grant = await self._keeper.let_in(shown)
        if not covers(grant.role, needed):
            cause = f"This needs the role {needed}, and you are signed in as {grant.role}."
            step = f"Ask an admin for a login link or a token of the role {needed}."
            raise RefusedError(403, cause, step, noteworthy=True)
        if scope["type"] == "http" and scope["method"] not in READING:
            _require_csrf(grant, Headers(scope=scope))
        scope[GRANT] = grant
        if grant.by is not None and shown is not None:
            scope[OWNER] = Owner(grant.by, digest_of(shown.secret))
        if scope["type"] == "websocket" and shown is not None:
            scope[LAPSE] = lambda: self._keeper.lapse(shown)

    def _note(self, scope: Scope, refused: RefusedError) -> None:
        """One line, of what was shown and is wrong: not of everybody who has yet to sign in."""
        if not refused.noteworthy:
            return
        self._keeper.refused["role" if refused.status == 403 else "pass"] += 1
        note(scope, str(refused))


def _require_csrf(grant: Grant, headers: Headers) -> None:
    given = headers.get(CSRF_HEADER, "").encode()
    if grant.csrf and not hmac.compare_digest(given, grant.csrf.encode()):
        cause = f"This lacks the {CSRF_HEADER} header that goes with your sign-in."
        step = "Load the page anew; a script takes it from /api/v1/me, or uses a token."
        raise RefusedError(403, cause, step, noteworthy=True)


async def _refuse(refused: RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        # Accepted first: a refused handshake tells a page nothing, a close code says why.
        await receive()
        await send({"type": "websocket.accept"})
        reason = f"{refused} {refused.step}".encode()[:120].decode(errors="ignore")
        await send({"type": "websocket.close", "code": refused.close, "reason": reason})
        return
    await _answer(refused, scope)(scope, receive, send)


def _answer(refused: RefusedError, scope: Scope) -> Response:
    headers = {"retry-after": RETRY_S} if refused.status == 503 else {}
    if not _is_page(scope):
        if refused.status == 401:
            headers["www-authenticate"] = "Bearer"
        return as_json(Problem(str(refused), refused.step), refused.status, headers)
    if refused.status == 401 and "authorization" not in Headers(scope=scope):
        return RedirectResponse(_login(scope), 302)
    return PlainTextResponse(f"{refused}\n{refused.step}\n", refused.status, headers)


def _is_page(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] in ("GET", "HEAD") and not path.startswith(NO_PAGES)


def _login(scope: Scope) -> str:
    """Where to sign in, and where to go then."""
    query = scope.get("query_string", b"").decode("latin-1")
    wanted = scope["path"] + (f"?{query}" if query else "")
    if wanted == "/" or len(wanted) > MOST_NEXT:
        return "/login"
    return f"/login?next={quote(wanted, safe='/', errors='replace')}"
