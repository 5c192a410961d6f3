"""Serves signing in and out, login links and tokens, by page and by REST."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from adsum_hub.auth.credentials import (
    SIGN_IN_IDLE_MS,
    SIGN_IN_MOST_MS,
    CodeProblem,
    Credential,
    CredentialStore,
    Kind,
    LoginCode,
    LoginCodes,
    LoginRateLimit,
    Role,
    csrf_of,
    digest_of,
    id_of,
    is_code,
    make_code,
    make_cookie,
    make_token,
    origin_of,
)
from adsum_hub.auth.gate import (
    GRANT,
    AccessDeniedError,
    Authenticator,
    CredentialReader,
    Grant,
    Lookup,
)
from adsum_hub.auth.seal import RecordSeal
from adsum_hub.clock import Clock
from adsum_hub.notify.push import OWNER, SubscriptionOwner
from adsum_hub.redis_access import Bulkhead, RedisAccess
from adsum_hub.rest.api import (
    OFTEN,
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    Problem,
    add_endpoints,
    address_of,
    as_json,
    endpoint,
    too_many,
)
from adsum_hub.settings import HubSettings
from adsum_shared import AdsumError, streams
from adsum_shared.connect import UNAVAILABLE, Redis, backoff, wanted
from adsum_shared.people import is_plain, is_reserved
from adsum_shared.private_files import write_private

log = logging.getLogger(__name__)

#: In the state directory, beside hub.json, which says where the hub is.
TOKEN_FILE = "hub.token"  # noqa: S105 - a name
MOST_NAME = 64
MOST_WHERE = 160
MOST_TOKENS = 500
MOST_HOSTS = 100
_HOST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LEAST_TOKEN_S = 60
MOST_TOKEN_S = streams.ENTRY_PASS_MOST_MS // 1000
ANOTHER = "Ask for another: `adsum login` on the hub's machine prints one."
WHY: dict[CodeProblem, tuple[int, str]] = {
    "unknown": (401, "No login link has this code."),
    "used": (410, "This login link was used already: each lets one browser in, once."),
    "expired": (410, "This login link has expired: it is good for ten minutes."),
}


OVER = {**REFUSED, 410: "Used or expired", **OFTEN}
NO_SIGN_IN = "This hub asks nobody to sign in (ADSUM_SIGN_IN=off)."
NO_SIGN_IN_STEP = "Open its page; or restart it without that setting."


class LoginLinkAsked(msgspec.Struct):
    """Whom the link will let in, and as what. hosts: see Credential."""

    role: Role = "admin"
    name: str = ""
    hosts: tuple[str, ...] = ()


class LoginLink(msgspec.Struct):
    """public_url: where the hub is reached from elsewhere; None: nobody has said so. until: ms."""

    schema: int
    code: str
    public_url: str | None
    name: str
    role: Role
    until: int


class TokenAsked(msgspec.Struct):
    """hosts: see Credential."""

    role: Role
    name: str
    expires_s: int
    hosts: tuple[str, ...] = ()


class Token(msgspec.Struct):
    """since, seen, until: ms. seen: when it was last used, to ten minutes; 0: never. by: see Credential."""

    id: str
    name: str
    role: Role
    since: int
    seen: int
    until: int
    hosts: tuple[str, ...] = ()
    by: str = ""


class TokenMade(msgspec.Struct):
    """secret: shown here and never again."""

    schema: int
    secret: str
    token: Token


class Me(msgspec.Struct, omit_defaults=True):
    """csrf: to be sent as x-csrf-token with what changes something; empty: not needed.

    sign_in: False where the hub asks nobody who it is; then everybody is an admin. demo: all that it
    shows is made up. hosts: see Credential. decides: False where the hub signs no decision.
    """

    name: str
    role: Role
    csrf: str
    sign_in: bool
    demo: bool = False
    hosts: tuple[str, ...] = ()
    decides: bool = True


class LoginAsked(msgspec.Struct):
    code: str


class SignedOut(msgspec.Struct):
    schema: int


class SignIn(msgspec.Struct):
    """A browser that is signed in. since, seen, ends: ms. where: what it says it is."""

    id: str
    name: str
    role: Role
    since: int
    seen: int
    ends: int
    where: str
    hosts: tuple[str, ...] = ()
    by: str = ""


class SignIns(msgspec.Struct):
    schema: int
    now: int
    sign_ins: list[SignIn]


class Tokens(msgspec.Struct):
    schema: int
    now: int
    tokens: list[Token]


class Revoked(msgspec.Struct):
    """tokens, sign_ins: the ids of what it made, directly or by others, and that is still good."""

    schema: int
    id: str
    tokens: list[str] = []
    sign_ins: list[str] = []


class LoginAccess(NamedTuple):
    """What a login needs, on the connections kept for strangers."""

    codes: LoginCodes
    limit: LoginRateLimit
    sign_ins: CredentialStore
    bulkhead: Bulkhead


@dataclass(frozen=True, slots=True)
class CredentialIssuer:
    """Makes and revokes login links, sign-ins and tokens.

    codes, stores: on the connections of those who are let in.

    public_url: where people elsewhere reach the hub; None: nobody has said.
    """

    authenticator: Authenticator
    reader: CredentialReader
    login_access: LoginAccess
    codes: LoginCodes
    stores: dict[Kind, CredentialStore]
    clock: Clock
    public_url: str | None

    @endpoint("POST /login", "A browser signs in with the code of a login link", OVER, logged=True)
    async def login(self, request: Request, asked: LoginAsked) -> Me | Response:
        code, address = asked.code.strip(), address_of(request)
        if not is_code(code):
            raise BadRequestError(400, "This is no code of a login link.", ANOTHER)
        async with self.login_access.bulkhead.turn(origin_of(address)):
            taken = await self._take(digest_of(code), address)
            secret, now = make_cookie(), self.clock()
            digest, where = digest_of(secret), request.headers.get("user-agent", "")
            credential = Credential(
                id_of(digest),
                taken.name,
                taken.role,
                now,
                now + SIGN_IN_MOST_MS,
                now,
                SIGN_IN_IDLE_MS,
                "".join(each for each in where if each.isprintable())[:MOST_WHERE],
                taken.hosts,
                taken.by,
            )
            await self.login_access.sign_ins.issue(digest, credential, now)
        log.info("%r signed in as %s from %s (%s)", taken.name, taken.role, address, credential.id)
        if (before := self._cookie(request)) is not None:
            await self._sign_out(before)  # this browser has a new one
        me = Me(credential.name, credential.role, csrf_of(secret), sign_in=True, hosts=taken.hosts)
        return self._with_cookie(request, as_json(me), secret)

    async def _take(self, code: str, address: str) -> LoginCode:
        """code: its digest. Raises BadRequestError."""
        if wait := await self.login_access.limit.count(address):
            refusal = too_many("Too many logins were tried.", wait, f"Try again in {wait} s.")
        else:
            taken = await self.login_access.codes.take(code, self.clock())
            if isinstance(taken, LoginCode):
                return taken
            refusal = BadRequestError(*WHY[taken], ANOTHER)
        self.authenticator.refused["login"] += 1
        raise refusal

    @endpoint("POST /logout", "This browser's sign-in ends", REFUSED)
    async def logout(self, request: Request) -> SignedOut | Response:
        secret = self._cookie(request)
        if secret is None:
            step = "A token is revoked instead: `adsum hub tokens revoke ID`."
            raise BadRequestError(409, "There is no sign-in of a browser here.", step)
        await self._sign_out(secret)
        return self._with_cookie(request, as_json(SignedOut(SCHEMA)), None)

    async def _sign_out(self, secret: str) -> None:
        digest = digest_of(secret)
        self.authenticator.forget(digest)
        if await self.stores["sign-in"].remove(digest):
            log.info("signed out (%s)", id_of(digest))

    def _cookie(self, request: Request) -> str | None:
        """The secret of this browser's sign-in, good or not."""
        try:
            shown = self.reader.shown(request.scope)
        except AccessDeniedError:
            return None
        return shown.secret if shown is not None and shown.kind == "sign-in" else None

    def _with_cookie(self, request: Request, answer: Response, secret: str | None) -> Response:
        """secret: None takes it away. It lasts as long as a sign-in can; when it ends the hub knows."""
        answer.set_cookie(
            self.reader.cookie_name(request.scope),
            secret or "",
            max_age=SIGN_IN_MOST_MS // 1000 if secret else 0,
            path="/",
            secure=self.reader.is_secure(request.scope),
            httponly=True,
            samesite="strict",
        )
        answer.headers["cache-control"] = "no-store"
        return answer

    @endpoint(
        "POST /login-links", "A link that lets one browser in, once, within ten minutes", REFUSED
    )
    async def make_login_link(self, request: Request, asked: LoginLinkAsked) -> LoginLink:
        return await self.login_link(asked, _maker(request))

    async def login_link(self, asked: LoginLinkAsked, by: str = "") -> LoginLink:
        """by: see Credential."""
        name = _name(asked.name or asked.role)
        require_reach(asked.role, asked.hosts)
        secret, until = make_code(), self.clock() + streams.LOGIN_CODE_MS
        code = LoginCode(name, asked.role, until, hosts=asked.hosts, by=by)
        await self.codes.issue(digest_of(secret), code)
        log.info("made a login link for %r as %s", name, asked.role)
        return LoginLink(SCHEMA, secret, self.public_url, name, asked.role, until)

    @endpoint("GET /sign-ins", "The browsers that are signed in", REFUSED)
    async def sign_ins(self) -> SignIns:
        now = self.clock()
        found = await self.stores["sign-in"].all(now)
        return SignIns(SCHEMA, now, msgspec.convert(found, list[SignIn], from_attributes=True))

    @endpoint(
        "DELETE /sign-ins/{named}",
        "A browser is signed out, and what it has open is closed; the answer names what it made",
        {**REFUSED, **UNKNOWN},
    )
    async def revoke_sign_in(self, named: str) -> Revoked:
        return await self._revoke("sign-in", named)

    @endpoint("GET /tokens", "The tokens that are good, without their secrets", REFUSED)
    async def tokens(self) -> Tokens:
        now = self.clock()
        found = await self.stores["token"].all(now)
        return Tokens(SCHEMA, now, msgspec.convert(found, list[Token], from_attributes=True))

    @endpoint("POST /tokens", "A token for the API; its secret is answered this once", REFUSED)
    async def make_token(self, request: Request, asked: TokenAsked) -> TokenMade:
        name, now = _name(asked.name), self.clock()
        require_reach(asked.role, asked.hosts)
        if not LEAST_TOKEN_S <= asked.expires_s <= MOST_TOKEN_S:
            step = f"Give {LEAST_TOKEN_S} to {MOST_TOKEN_S} seconds: a minute to 366 days."
            raise BadRequestError(400, "expires_s is out of range.", step)
        if len(await self.stores["token"].all(now)) >= MOST_TOKENS:
            step = "Revoke those that nobody uses: `adsum hub tokens list` says when each was used."
            raise BadRequestError(409, f"There are {MOST_TOKENS} tokens already.", step)
        secret = make_token()
        digest, until = digest_of(secret), now + asked.expires_s * 1000
        who = (id_of(digest), name, asked.role, now, until, 0)
        credential = Credential(*who, hosts=asked.hosts, by=_maker(request))
        await self.stores["token"].issue(digest, credential, now)
        log.info("made token %s for %r as %s", credential.id, name, credential.role)
        token = msgspec.convert(credential, Token, from_attributes=True)
        return TokenMade(SCHEMA, secret, token)

    @endpoint(
        "DELETE /tokens/{named}",
        "A token is good no more; the answer names what it made",
        {**REFUSED, **UNKNOWN},
    )
    async def revoke_token(self, named: str) -> Revoked:
        return await self._revoke("token", named)

    async def _revoke(self, kind: Kind, named: str) -> Revoked:
        """Raises BadRequestError: there is no such one."""
        digests = await self.stores[kind].revoke(named)
        if not digests:
            cause = f"There is no {kind} {named[:40]!r}."
            raise BadRequestError(404, cause, f"List them: `adsum hub {kind}s list`.")
        for digest in digests:
            self.authenticator.forget(digest)
        log.info("revoked the %s %s", kind, named)
        made = await self._made_by(named)
        return Revoked(SCHEMA, named, made["token"], made["sign-in"])

    async def _made_by(self, named: str) -> dict[Kind, list[str]]:
        """The ids of what is good and was made by it, directly or by others."""
        now, family = self.clock(), {named}
        good = {kind: await store.all(now) for kind, store in self.stores.items()}
        every = [each for found in good.values() for each in found]
        while more := {each.id for each in every if each.by in family} - family:
            family |= more
        return {
            kind: [each.id for each in found if each.id in family] for kind, found in good.items()
        }


def _maker(request: Request) -> str:
    """The id of the credential that asks; empty: this machine's own."""
    owner: SubscriptionOwner | None = request.scope.get(OWNER)
    return id_of(owner.digest) if owner is not None else ""


def _name(name: str) -> str:
    """Raises BadRequestError."""
    name = name.strip()
    if not 0 < len(name) <= MOST_NAME or not is_plain(name):
        step = f"Give 1 to {MOST_NAME} characters: letters of one script, and of others those of ASCII."
        raise BadRequestError(400, "This is no name.", step)
    if is_reserved(name):
        step = "Give a person's name: this one names a machine, a rule or a session's rest."
        raise BadRequestError(400, "This name is reserved.", step)
    return name


def require_reach(role: Role, hosts: tuple[str, ...]) -> None:
    """Raises BadRequestError."""
    if hosts and role != "operator":
        step = "Give the role operator with them, or leave them out."
        raise BadRequestError(400, "Machines are named for operators alone.", step)
    if len(hosts) > MOST_HOSTS or not all(map(_HOST_ID.fullmatch, hosts)):
        step = f"Give at most {MOST_HOSTS} ids of machines, as /api/v1/hosts has them."
        raise BadRequestError(400, "These are no machines.", step)


@contextlib.contextmanager
def machine_token(state_dir: Path) -> Iterator[str]:
    """Writes the token of this machine's own command line; yields its digest. Raises OSError.

    Each run of a hub has a new one, and removes it at its end.

    Kept from run to run it would open a later hub to whoever, with an account on this machine, had
    listened on the port of a dead one when a command asked there.
    """
    secret, file = make_token(), state_dir / TOKEN_FILE
    write_private(file, f"{secret}\n".encode())
    try:
        yield digest_of(secret)
    finally:
        # Another hub of this directory may have put its own there.
        with contextlib.suppress(OSError, ValueError):
            if file.read_text(encoding="ascii").strip() == secret:
                file.unlink()


class MachineTokenError(AdsumError):
    """The token of this machine cannot be written. The text names the file, the cause, the next step."""


@contextlib.asynccontextmanager
async def signing_in(
    settings: HubSettings, access: RedisAccess, clock: Clock, seal: RecordSeal
) -> AsyncIterator[CredentialIssuer | None]:
    """Opens what signing in needs; None where nobody has to sign in. Raises MachineTokenError."""
    if not settings.sign_in:
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            machine = stack.enter_context(machine_token(settings.state_dir))
        except OSError as error:
            raise MachineTokenError(
                f"{settings.state_dir / TOKEN_FILE} cannot be written ({error.strerror}). Without it no "
                "command on this machine gets in: free space there, or set ADSUM_STATE_DIR."
            ) from error
        known = Lookup(_stores(access.known, seal), access.people)
        unknown = Lookup(_stores(access.strangers, seal), access.unknown)
        yield CredentialIssuer(
            Authenticator(known, unknown, machine, clock),
            CredentialReader(settings.public_url),
            LoginAccess(
                LoginCodes(access.strangers, seal),
                LoginRateLimit(access.strangers),
                CredentialStore(access.strangers, "sign-in", seal),
                access.logins,
            ),
            LoginCodes(access.hub, seal),
            _stores(access.hub, seal),
            clock,
            settings.public_url,
        )


def _stores(redis: Redis, seal: RecordSeal) -> dict[Kind, CredentialStore]:
    kinds: tuple[Kind, ...] = ("sign-in", "token")
    return {kind: CredentialStore(redis, kind, seal) for kind in kinds}


async def greet(signing: CredentialIssuer, url: str, say: Callable[[str], None]) -> None:
    """Shows a first login link to whoever started the hub by hand, as soon as Redis takes one."""
    for pause in backoff():
        try:
            link = await signing.login_link(LoginLinkAsked())
        except UNAVAILABLE:
            if not wanted():
                return
            await asyncio.sleep(pause)
        else:
            say(f"{signing.public_url or url}/login#{link.code}")
            return


class SignInQuestions:
    """What anybody may ask about signing in. demo: all that the hub shows is made up."""

    def __init__(self, *, demo: bool) -> None:
        self._demo = demo

    @endpoint("GET /me", "Who is asking, and what they may do", {401: "Not signed in"})
    async def me(self, request: Request) -> Me:
        grant: Grant | None = request.scope.get(GRANT)
        if grant is None:
            return Me("", "admin", "", sign_in=False, demo=self._demo, decides=self._demo)
        return Me(
            grant.name, grant.role, grant.csrf, sign_in=True, demo=self._demo, hosts=grant.hosts
        )


def sign_in_router(signing: CredentialIssuer | None, *, demo: bool = False) -> APIRouter:
    """None: nobody has to sign in; the paths are there all the same, and say so."""

    def refuse() -> None:
        if signing is None:
            raise BadRequestError(409, NO_SIGN_IN, NO_SIGN_IN_STEP)

    router = APIRouter(prefix="/api/v1", tags=["v1"])
    add_endpoints(router, SignInQuestions(demo=demo))

    @router.get("/login", include_in_schema=False)
    async def get() -> Response:
        # A code in an address would stand in logs, and whatever previews a link would use it up.
        problem = Problem("A code is sent by POST, as JSON.", "Open /login in a browser.")
        return as_json(problem, 405, {"allow": "POST"})

    guarded = APIRouter(dependencies=[Depends(refuse)])  # it comes before whatever needs `signing`
    router.include_router(add_endpoints(guarded, signing, CredentialIssuer))
    return router
