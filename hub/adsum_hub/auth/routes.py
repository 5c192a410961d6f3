"""REST v1 of signing in: me, login and logout, login links, sign-ins, tokens."""

from __future__ import annotations

from typing import cast

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from adsum_hub.auth.credentials import SIGN_IN_MOST_MS, Role, csrf_of
from adsum_hub.auth.gate import GRANT, AccessDeniedError, Grant
from adsum_hub.auth.sign_in import (
    CredentialIssuer,
    LoginLink,
    LoginLinkAsked,
    Token,
    TokenAsked,
    TokenMade,
    token_of,
)
from adsum_hub.request_guard import log_refusal
from adsum_hub.rest.api import (
    OFTEN,
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    Problem,
    address_of,
    as_json,
    endpoint,
)

NO_SIGN_IN = "This hub asks nobody to sign in (ADSUM_SIGN_IN=off)."
NO_SIGN_IN_STEP = "Open its page; or restart it without that setting."


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


class Tokens(msgspec.Struct):
    schema: int
    now: int
    tokens: list[Token]


class Revoked(msgspec.Struct):
    schema: int
    id: str


def sign_in_router(signing: CredentialIssuer | None, *, demo: bool = False) -> APIRouter:
    """None: nobody has to sign in; the paths are there all the same, and say so."""

    def refuse() -> None:
        if signing is None:
            raise BadRequestError(409, NO_SIGN_IN, NO_SIGN_IN_STEP)

    router = APIRouter(prefix="/api/v1", tags=["v1"])

    @endpoint(router, "GET /me", "Who is asking, and what they may do", {401: "Not signed in"})
    async def me(request: Request) -> Me:
        grant: Grant | None = request.scope.get(GRANT)
        if grant is None:
            return Me("", "admin", "", sign_in=False, demo=demo)
        return Me(grant.name, grant.role, grant.csrf, sign_in=True, demo=demo)

    @router.get("/login", include_in_schema=False)
    async def get() -> Response:
        # A code in an address would stand in logs, and whatever previews a link would use it up.
        problem = Problem("A code is sent by POST, as JSON.", "Open /login in a browser.")
        return as_json(problem, 405, {"allow": "POST"})

    guarded = APIRouter(dependencies=[Depends(refuse)])
    issuer = cast("CredentialIssuer", signing)  # `refuse` comes before whatever uses it
    _add_sign_ins(guarded, issuer)
    _add_tokens(guarded, issuer)
    router.include_router(guarded)
    return router


def _add_sign_ins(router: APIRouter, signing: CredentialIssuer) -> None:
    over = {**REFUSED, 410: "Used or expired", **OFTEN}

    @endpoint(router, "POST /login", "A browser signs in with the code of a login link", over)
    async def login(request: Request, asked: LoginAsked) -> Me | Response:
        where = request.headers.get("user-agent", "")
        try:
            found = await signing.sign_in(asked.code.strip(), address_of(request), where)
        except BadRequestError as error:
            log_refusal(request.scope, str(error))
            raise
        secret, credential = found
        if (before := _cookie(signing, request)) is not None:
            await signing.sign_out(before)  # this browser has a new one
        me = Me(credential.name, credential.role, csrf_of(secret), sign_in=True)
        return _with_cookie(signing, request, as_json(me), secret)

    @endpoint(router, "POST /logout", "This browser's sign-in ends", REFUSED)
    async def logout(request: Request) -> SignedOut | Response:
        secret = _cookie(signing, request)
        if secret is None:
            step = "A token is revoked instead: `adsum hub tokens revoke ID`."
            raise BadRequestError(409, "There is no sign-in of a browser here.", step)
        await signing.sign_out(secret)
        return _with_cookie(signing, request, as_json(SignedOut(SCHEMA)), None)

    @endpoint(
        router,
        "POST /login-links",
        "A link that lets one browser in, once, within ten minutes",
        REFUSED,
    )
    async def make_login_link(asked: LoginLinkAsked) -> LoginLink:
        return await signing.link(asked)

    @endpoint(router, "GET /sign-ins", "The browsers that are signed in", REFUSED)
    async def sign_ins() -> SignIns:
        now = signing.clock()
        found = await signing.stores["sign-in"].all(now)
        return SignIns(
            SCHEMA, now, [msgspec.convert(each, SignIn, from_attributes=True) for each in found]
        )

    summary = "A browser is signed out, and what it has open is closed"

    @endpoint(router, "DELETE /sign-ins/{named}", summary, {**REFUSED, **UNKNOWN})
    async def revoke_sign_in(named: str) -> Revoked:
        await signing.revoke("sign-in", named)
        return Revoked(SCHEMA, named)


def _add_tokens(router: APIRouter, signing: CredentialIssuer) -> None:
    @endpoint(router, "GET /tokens", "The tokens that are good, without their secrets", REFUSED)
    async def tokens() -> Tokens:
        now = signing.clock()
        found = await signing.stores["token"].all(now)
        return Tokens(SCHEMA, now, [token_of(each) for each in found])

    summary = "A token for the API; its secret is answered this once"

    @endpoint(router, "POST /tokens", summary, REFUSED)
    async def make_token(asked: TokenAsked) -> TokenMade:
        return await signing.make_token(asked)

    @endpoint(router, "DELETE /tokens/{named}", "A token is good no more", {**REFUSED, **UNKNOWN})
    async def revoke_token(named: str) -> Revoked:
        await signing.revoke("token", named)
        return Revoked(SCHEMA, named)


def _cookie(signing: CredentialIssuer, request: Request) -> str | None:
    """The secret of this browser's sign-in, good or not."""
    try:
        shown = signing.reader.shown(request.scope)
    except AccessDeniedError:
        return None
    return shown.secret if shown is not None and shown.kind == "sign-in" else None


def _with_cookie(
    signing: CredentialIssuer, request: Request, answer: Response, secret: str | None
) -> Response:
    """secret: None takes it away. It lasts as long as a sign-in can; when it ends the hub knows."""
    answer.set_cookie(
        signing.reader.cookie_name(request.scope),
        secret or "",
        max_age=SIGN_IN_MOST_MS // 1000 if secret else 0,
        path="/",
        secure=signing.reader.is_secure(request.scope),
        httponly=True,
        samesite="strict",
    )
    answer.headers["cache-control"] = "no-store"
    return answer
