"""REST v1 of signing in: me, login and logout, login links, sign-ins, tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from adsum_hub.auth.credentials import SIGN_IN_MOST_MS, Kind, csrf_of
from adsum_hub.auth.gate import GRANT, AccessDeniedError, Grant, Presented
from adsum_hub.auth.sign_in import CredentialIssuer, token_of
from adsum_hub.redis_access import unavailable
from adsum_hub.request_guard import log_refusal
from adsum_hub.rest.answers import SCHEMA, Problem, answers_of, as_json
from adsum_hub.rest.bodies import BadRequestError, read, takes
from adsum_hub.rest.sign_in_answers import (
    LoginAsked,
    LoginLink,
    LoginLinkAsked,
    Me,
    Revoked,
    SignedOut,
    SignIn,
    SignIns,
    TokenAsked,
    TokenMade,
    Tokens,
)
from adsum_shared.connect import UNAVAILABLE

REFUSED = {
    400: "No such request",
    401: "Not signed in",
    403: "Not the role for it",
    409: "Not possible here",
    415: "Not JSON",
    503: "Redis does not answer",
}
NOBODY = Me("", "admin", "", sign_in=False)
NO_SIGN_IN = "This hub asks nobody to sign in (ADSUM_SIGN_IN=off)."
NO_SIGN_IN_STEP = "Open its page; or restart it without that setting."


def sign_in_router(signing: CredentialIssuer | None, *, demo: bool = False) -> APIRouter:
    """None: nobody has to sign in; the paths are there all the same, and say so."""
    router = APIRouter(prefix="/api/v1", tags=["v1"])
    _add_me(router, demo=demo)
    _add_login(router, signing)
    _add_logout(router, signing)
    _add_links(router, signing)
    _add_sign_ins(router, signing)
    _add_tokens(router, signing)
    return router


async def _answered(
    signing: CredentialIssuer | None, work: Callable[[CredentialIssuer], Awaitable[Any]]
) -> Response:
    if signing is None:
        return as_json(Problem(NO_SIGN_IN, NO_SIGN_IN_STEP), 409)
    try:
        done = await work(signing)
    except BadRequestError as error:
        return error.answer
    except UNAVAILABLE as error:
        return unavailable(error)
    return done if isinstance(done, Response) else as_json(done)


def _add_me(router: APIRouter, *, demo: bool) -> None:
    @router.get(
        "/me",
        summary="Who is asking, and what they may do",
        responses=answers_of(Me, also={401: "Not signed in"}),
        response_class=Response,
    )
    async def me(request: Request) -> Response:
        grant: Grant | None = request.scope.get(GRANT)
        found = NOBODY if grant is None else Me(grant.name, grant.role, grant.csrf, sign_in=True)
        return as_json(msgspec.structs.replace(found, demo=demo))


def _add_login(router: APIRouter, signing: CredentialIssuer | None) -> None:
    async def login(signing: CredentialIssuer, request: Request) -> Response:
        code = (await read(request, LoginAsked)).code.strip()
        address = request.client.host if request.client else ""
        before = _cookie(signing, request)
        where = request.headers.get("user-agent", "")
        try:
            secret, credential = await signing.sign_in(code, address, where)
        except BadRequestError as error:
            log_refusal(request.scope, str(error))
            raise
        if before is not None:
            await signing.sign_out(before)  # this browser has a new one
        me = Me(credential.name, credential.role, csrf_of(secret), sign_in=True)
        return _with_cookie(signing, request, as_json(me), secret)

    @router.post(
        "/login",
        summary="A browser signs in with the code of a login link",
        responses=answers_of(
            Me, also={**REFUSED, 410: "Used or expired", 429: "Too many tries: see Retry-After"}
        ),
        response_class=Response,
        openapi_extra=takes(LoginAsked),
    )
    async def post(request: Request) -> Response:
        return await _answered(signing, lambda found: login(found, request))

    @router.get("/login", include_in_schema=False)
    async def get() -> Response:
        # A code in an address would stand in logs, and whatever previews a link would use it up.
        problem = Problem("A code is sent by POST, as JSON.", "Open /login in a browser.")
        return as_json(problem, 405, {"allow": "POST"})


def _add_logout(router: APIRouter, signing: CredentialIssuer | None) -> None:
    async def logout(signing: CredentialIssuer, request: Request) -> Response:
        secret = _cookie(signing, request)
        if secret is None:
            step = "A token is revoked instead: `adsum hub tokens revoke ID`."
            raise BadRequestError(409, "There is no sign-in of a browser here.", step)
        await signing.sign_out(secret)
        return _with_cookie(signing, request, as_json(SignedOut(SCHEMA)), None)

    @router.post(
        "/logout",
        summary="This browser's sign-in ends",
        responses=answers_of(SignedOut, also=REFUSED),
        response_class=Response,
    )
    async def post(request: Request) -> Response:
        return await _answered(signing, lambda found: logout(found, request))


def _add_links(router: APIRouter, signing: CredentialIssuer | None) -> None:
    async def link(signing: CredentialIssuer, request: Request) -> LoginLink:
        return await signing.link(await read(request, LoginLinkAsked))

    @router.post(
        "/login-links",
        summary="A link that lets one browser in, once, within ten minutes",
        responses=answers_of(LoginLink, also=REFUSED),
        response_class=Response,
        openapi_extra=takes(LoginLinkAsked),
    )
    async def post(request: Request) -> Response:
        return await _answered(signing, lambda found: link(found, request))


def _add_sign_ins(router: APIRouter, signing: CredentialIssuer | None) -> None:
    async def listed(signing: CredentialIssuer) -> SignIns:
        now = signing.clock()
        credential = await signing.stores["sign-in"].all(now)
        return SignIns(
            SCHEMA,
            now,
            [msgspec.convert(each, SignIn, from_attributes=True) for each in credential],
        )

    @router.get(
        "/sign-ins",
        summary="The browsers that are signed in",
        responses=answers_of(SignIns, also=REFUSED),
        response_class=Response,
    )
    async def get() -> Response:
        return await _answered(signing, listed)

    @router.delete(
        "/sign-ins/{named}",
        summary="A browser is signed out, and what it has open is closed",
        responses=answers_of(Revoked, also={**REFUSED, 404: "No such one"}),
        response_class=Response,
    )
    async def delete(named: str) -> Response:
        return await _answered(signing, lambda found: _revoked(found, "sign-in", named))


def _add_tokens(router: APIRouter, signing: CredentialIssuer | None) -> None:
    async def listed(signing: CredentialIssuer) -> Tokens:
        now = signing.clock()
        return Tokens(
            SCHEMA, now, [token_of(each) for each in await signing.stores["token"].all(now)]
        )

    async def made(signing: CredentialIssuer, request: Request) -> TokenMade:
        return await signing.make_token(await read(request, TokenAsked))

    @router.get(
        "/tokens",
        summary="The tokens that are good, without their secrets",
        responses=answers_of(Tokens, also=REFUSED),
        response_class=Response,
    )
    async def get() -> Response:
        return await _answered(signing, listed)

    @router.post(
        "/tokens",
        summary="A token for the API; its secret is answered this once",
        responses=answers_of(TokenMade, also=REFUSED),
        response_class=Response,
        openapi_extra=takes(TokenAsked),
    )
    async def post(request: Request) -> Response:
        return await _answered(signing, lambda found: made(found, request))

    @router.delete(
        "/tokens/{named}",
        summary="A token is good no more",
        responses=answers_of(Revoked, also={**REFUSED, 404: "No such one"}),
        response_class=Response,
    )
    async def delete(named: str) -> Response:
        return await _answered(signing, lambda found: _revoked(found, "token", named))


async def _revoked(signing: CredentialIssuer, kind: Kind, named: str) -> Revoked:
    await signing.revoke(kind, named)
    return Revoked(SCHEMA, named)


def _cookie(signing: CredentialIssuer, request: Request) -> str | None:
    """The secret of this browser's sign-in, good or not."""
    try:
        shown: Presented | None = signing.reader.shown(request.scope)
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
