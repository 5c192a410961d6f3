"""The gate asks every request for a credential of the role that its path needs."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from adsum_hub.auth.credentials import (
    TOKEN_PREFIX,
    Credential,
    CredentialStore,
    Kind,
    Role,
    csrf_of,
    digest_of,
    is_cookie,
    is_token,
    origin_of,
)
from adsum_hub.clock import Clock
from adsum_hub.live.live import LAPSE
from adsum_hub.notify.push import OWNER, SubscriptionOwner
from adsum_hub.redis_access import Bulkhead, answered_within
from adsum_hub.request_guard import close_socket, log_refusal
from adsum_hub.rest.api import AWAY_STEP, BUSY, BUSY_STEP, Problem, as_json, bearer_in
from adsum_shared.commands import REPORT_PREFIX
from adsum_shared.connect import UNAVAILABLE, wanted
from adsum_shared.people import MACHINE
from adsum_shared.redis_errors import ExhaustedError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)

#: In a scope, true: whoever asks would have to sign in to be told all of it.
STRANGER = "adsum.stranger"

#: In a scope: the Grant of whoever asks.
GRANT = "adsum.grant"
CSRF_HEADER = "x-csrf-token"
#: Asked by programs: one that is led to a sign-in would take that page for its answer.
NO_PAGES = ("/api/", "/openapi", "/metrics")
#: Longer ones are not led back to.
MOST_NEXT = 1_500
RETRY_S = "5"
#: A page waits for nobody longer; the hub's own connection may take several seconds to give up.
ANSWER_S = 1.0
#: After a failure Redis is left alone for so long.
RETRY_MS = 1_000
#: How often the credential of an open WebSocket is checked again.
LOOK_S = 2.0

NOT_IN = 4401
LATER = 1013

SIGN_IN_STEP = (
    "Open a login link: `adsum login` on the hub's machine prints one. A command line elsewhere "
    "needs ADSUM_TOKEN: `adsum hub tokens create` makes one."
)
TOKEN_STEP = "Set ADSUM_TOKEN to another: `adsum hub tokens create` on the hub's machine makes one."  # noqa: S105 - a sentence
AWAY = "Redis does not answer, so only those who were here lately can be let in, and only to look."
#: A credential is looked up again after this, so a revoked one opens nothing for longer.
FRESH_MS = 2_000
#: While Redis does not answer, one that was good is good for so long after it was last seen there.
AWAY_MS = 15 * 60_000
MOST_CACHED = 2_000
_PORT = re.compile(r":(\d{1,5})\Z")


class AccessDeniedError(Exception):
    """status: of the answer. close: of a WebSocket. noteworthy: something was shown that is wrong."""

    def __init__(self, status: int, cause: str, step: str, *, noteworthy: bool = False) -> None:
        super().__init__(cause)
        self.status, self.step, self.noteworthy = status, step, noteworthy

    @property
    def close(self) -> int:
        return LATER if self.status == 503 else NOT_IN


class Grant(msgspec.Struct, frozen=True):
    """by: None is this machine's own command line. csrf: empty where none is needed.

    hosts: see Credential.
    """

    name: str
    role: Role
    by: Kind | None
    csrf: str = ""
    hosts: tuple[str, ...] = ()


class Presented(NamedTuple):
    kind: Kind
    secret: str


def cookie_name(host: str, *, secure: bool) -> str:
    """host: of the Host header.

    Cookies know no ports: without the port in its name, of two hubs at two ports of one machine (or
    at the ends of two tunnels) each would sign the other's browsers out.
    """
    port = _PORT.search(host)
    name = f"adsum-{port[1]}" if port else "adsum"
    return f"__Host-{name}" if secure else name


def shown_in(headers: Headers, name: str) -> Presented | None:
    """A token counts before a cookie. Raises AccessDeniedError.

    Another scheme than ours is a proxy's before us, as is a bearer that is none of ours when there
    is a cookie.
    """
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    cookie = _cookie(headers, name)
    if scheme.lower() != "bearer":
        return cookie
    bearer = bearer.strip()
    if is_token(bearer):
        return Presented("token", bearer)
    if cookie is not None and not bearer.startswith(TOKEN_PREFIX):
        return cookie
    cause = "What the Authorization header holds is no token of Adsum."
    raise AccessDeniedError(401, cause, TOKEN_STEP, noteworthy=True)


def _cookie(headers: Headers, name: str) -> Presented | None:
    for line in headers.getlist("cookie"):
        for pair in line.split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name and is_cookie(value):
                return Presented("sign-in", value)
    return None


class CredentialReader:
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

    def shown(self, scope: Scope) -> Presented | None:
        """Raises AccessDeniedError."""
        return shown_in(Headers(scope=scope), self.cookie_name(scope))


class CredentialCache(OrderedDict[str, tuple[Credential, int]]):
    """Credentials as Redis last gave them, and when: it is not asked each time, and may be away.

    By digest. The least recently used is evicted when there are more than MOST_CACHED.
    """

    def keep(self, digest: str, credential: Credential, now: int) -> None:
        self[digest] = credential, now
        self.move_to_end(digest)
        if len(self) > MOST_CACHED:
            self.popitem(last=False)

    def within(self, digest: str, age_ms: int, now: int) -> Credential | None:
        """The credential, if Redis gave it not longer ago than age_ms."""
        credential, at = self.get(digest, (None, now))
        if credential is None or now - at >= age_ms:
            return None
        self.move_to_end(digest)
        return credential


class Lookup:
    """Where credentials are looked up: with connections and a bulkhead of their own."""

    def __init__(self, stores: Mapping[Kind, CredentialStore], bulkhead: Bulkhead) -> None:
        self.stores, self.bulkhead = stores, bulkhead
        self.away_until = 0


class Authenticator:
    """Turns a cookie or a token into a Grant, by Redis or by what it said lately.

    known: looks up credentials that were valid lately. unknown: whatever strangers may make up.

    machine: digest of the token that this machine's own command line shows.
    """

    def __init__(self, known: Lookup, unknown: Lookup, machine: str, clock: Clock) -> None:
        self._known, self._unknown, self._machine, self._clock = known, unknown, machine, clock
        self._cache = CredentialCache()
        #: what -> times that it was refused since this hub started: see Gate and CredentialIssuer
        self.refused: Counter[str] = Counter()

    async def authenticate(
        self,
        shown: Presented | None,
        *,
        address: str = "",
        only_looks: bool = False,
        fresh_ms: int = FRESH_MS,
    ) -> Grant:
        """address: of whoever asks. only_looks: the request changes nothing. Raises AccessDeniedError.

        fresh_ms: maximum age of a cached credential while Redis responds.
        """
        if shown is None:
            raise AccessDeniedError(401, "You are not signed in.", SIGN_IN_STEP)
        digest = digest_of(shown.secret)
        if shown.kind == "token" and hmac.compare_digest(digest, self._machine):
            return Grant(MACHINE, "admin", None)
        credential = self._cache.within(digest, fresh_ms, self._clock())
        sure = credential is not None
        if credential is None:
            credential, sure = await self._ask(shown.kind, digest, address, fresh_ms)
        if credential is None or self._clock() >= credential.ends:
            raise _over(shown.kind)
        csrf = csrf_of(shown.secret) if shown.kind == "sign-in" else ""
        if sure:
            return Grant(credential.name, credential.role, shown.kind, csrf, credential.hosts)
        # It may have been revoked since.
        if not only_looks:
            raise AccessDeniedError(503, AWAY, AWAY_STEP)
        return Grant(credential.name, "viewer", shown.kind, csrf)

    async def lapse(self, shown: Presented) -> tuple[int, str]:
        """Waits until `shown` is no longer valid; returns the code to close a WebSocket with, and why."""
        while wanted():
            await asyncio.sleep(LOOK_S)
            try:
                await self.authenticate(shown, only_looks=True)
            except AccessDeniedError as refused:
                again = " Sign in again." if refused.status == 401 else ""
                return refused.close, f"{refused}{again}"
        raise asyncio.CancelledError

    def forget(self, digest: str) -> None:
        """Drops a credential that this hub has revoked, before it is looked up again."""
        self._cache.pop(digest, None)

    async def _ask(
        self, kind: Kind, digest: str, address: str, fresh_ms: int
    ) -> tuple[Credential | None, bool]:
        """The credential, and whether it is Redis that gave it now. Raises AccessDeniedError."""
        is_known = self._cache.within(digest, AWAY_MS, self._clock()) is not None
        lookup = self._known if is_known else self._unknown
        if self._clock() < lookup.away_until:
            return self._remembered(digest), False
        try:
            async with lookup.bulkhead.turn(digest if is_known else origin_of(address)):
                # Others may have been answered about it while this one waited.
                now = self._clock()
                if (credential := self._cache.within(digest, fresh_ms, now)) is not None:
                    return credential, True
                if now < lookup.away_until:
                    return self._remembered(digest), False
                looking = self._look_up(lookup.stores[kind], digest, now)
                return await answered_within(looking, ANSWER_S), True
        except ExhaustedError as error:  # ours, not Redis's: nothing is believed for it
            raise AccessDeniedError(503, BUSY, BUSY_STEP) from error
        except (*UNAVAILABLE, TimeoutError) as error:
            log.debug("a credential could not be looked up: %s", error)
            lookup.away_until = self._clock() + RETRY_MS
        return self._remembered(digest), False

    async def _look_up(self, store: CredentialStore, digest: str, now: int) -> Credential | None:
        credential = await store.find(digest)
        if credential is None or now >= credential.ends:
            self._cache.pop(digest, None)
            return None
        self._cache.keep(digest, credential, now)
        with contextlib.suppress(*UNAVAILABLE):  # a note for people, of a credential that is valid
            credential = await store.use(digest, credential, now)
            self._cache.keep(digest, credential, now)
        return credential

    def _remembered(self, digest: str) -> Credential:
        """Raises AccessDeniedError: Redis is away, and it was not here lately."""
        credential = self._cache.within(digest, AWAY_MS, self._clock())
        if credential is None:
            raise AccessDeniedError(503, AWAY, AWAY_STEP)
        return credential


def _over(kind: Kind) -> AccessDeniedError:
    if kind == "token":
        cause = "This token is not valid: it is wrong, has expired or was revoked."
        return AccessDeniedError(401, cause, TOKEN_STEP, noteworthy=True)
    cause = "This sign-in is over: it has expired or was revoked."
    return AccessDeniedError(401, cause, SIGN_IN_STEP, noteworthy=True)


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
#: What is done to a session, below its id.
SESSIONS = "/api/v1/sessions/"
#: What a session says of itself, by operators too. Its own token gets no further than here.
_REPORTING = re.compile(
    r"/api/(v1/sessions/.+/report|agents/[^/]+/heartbeat|specialists/[^/]+/report-status)"
)
#: The same by the names that others have for it.
_AGENTS = re.compile(r"/api/agents/[^/]+/(suspend|resume)")


def covers(role: Role, needed: Role) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)


def needed_for(method: str, path: str) -> Role | None:
    """None: anybody may. What changes something and is not in the table is for admins."""
    if path in OPEN or path.startswith(OPEN_FOLDER):
        return None
    if any(path == each or path.startswith(f"{each}/") for each in ADMINS):
        return "admin"
    if method in READING:
        return "viewer"
    acts = method == "POST" and (
        path.startswith(SESSIONS) or _REPORTING.fullmatch(path) or _AGENTS.fullmatch(path)
    )
    return "operator" if acts else CHANGING.get((method, path), "admin")


class Gate:
    """ASGI middleware: a request without a valid credential of the role it needs goes no further."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, reception: CredentialReader
    ) -> None:
        self._app, self._authenticator, self._reception = app, authenticator, reception

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        needed = needed_for(scope.get("method", "GET"), scope["path"])
        if needed is not None and not _reports(scope):
            try:
                await self._admit(scope, needed)
            except AccessDeniedError as refused:
                self._note(scope, refused)
                if scope["type"] == "websocket":
                    await close_socket(receive, send, refused.close, f"{refused} {refused.step}")
                else:
                    await _answer(refused, scope)(scope, receive, send)
                return
        elif scope["path"] in MORE_TO_VIEWERS:
            try:
                await self._admit(scope, "viewer")
            except AccessDeniedError:
                scope[STRANGER] = True
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope, needed: Role) -> None:
        """Raises AccessDeniedError."""
        shown = self._reception.shown(scope)
        # A socket only listens; a request that is answered while Redis is away must change nothing.
        reads = scope["type"] == "websocket" or scope["method"] in READING
        grant = await self._authenticator.authenticate(
            shown,
            address=(scope.get("client") or ("",))[0],
            only_looks=reads and needed == "viewer",
            # An admin's credential makes others: a revoked one must not do so for a moment more.
            fresh_ms=0 if needed == "admin" else FRESH_MS,
        )
        if not covers(grant.role, needed):
            cause = f"This needs the role {needed}, and you are signed in as {grant.role}."
            step = f"Ask an admin for a login link or a token of the role {needed}."
            raise AccessDeniedError(403, cause, step, noteworthy=True)
        if scope["type"] == "http" and scope["method"] not in READING:
            if needed == "operator":
                require_in_reach(grant, scope["path"])
            _require_csrf(grant, Headers(scope=scope))
        scope[GRANT] = grant
        if grant.by is not None and shown is not None:
            scope[OWNER] = SubscriptionOwner(grant.by, digest_of(shown.secret))
        if scope["type"] == "websocket" and shown is not None:
            scope[LAPSE] = lambda: self._authenticator.lapse(shown)

    def _note(self, scope: Scope, refused: AccessDeniedError) -> None:
        """Logs and counts wrong credentials, not everybody who has yet to sign in."""
        if not refused.noteworthy:
            return
        self._authenticator.refused["role" if refused.status == 403 else "pass"] += 1
        log_refusal(scope, str(refused))


def _reports(scope: Scope) -> bool:
    """By a session's own token, which `ReportEndpoints` checks: it knows the machine that made it."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    shown = bearer_in(Headers(scope=scope).get("authorization", ""))
    return shown.startswith(REPORT_PREFIX) and _REPORTING.fullmatch(scope["path"]) is not None


def require_in_reach(grant: Grant, path: str) -> None:
    """Raises AccessDeniedError: it is done to a session of a machine that is not among these."""
    host = re.split("[:/]", path.removeprefix(SESSIONS), maxsplit=1)[0]
    if grant.hosts and not (path.startswith(SESSIONS) and host in grant.hosts):
        cause = "What you are signed in as may do nothing on this machine."
        step = "Ask an admin for a token or a login link whose --hosts name it."
        raise AccessDeniedError(403, cause, step, noteworthy=True)


def _require_csrf(grant: Grant, headers: Headers) -> None:
    given = headers.get(CSRF_HEADER, "").encode()
    if grant.csrf and not hmac.compare_digest(given, grant.csrf.encode()):
        cause = f"This lacks the {CSRF_HEADER} header that goes with your sign-in."
        step = "Load the page anew; a script takes it from /api/v1/me, or uses a token."
        raise AccessDeniedError(403, cause, step, noteworthy=True)


def _answer(refused: AccessDeniedError, scope: Scope) -> Response:
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
