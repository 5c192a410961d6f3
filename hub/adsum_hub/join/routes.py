"""REST v1 of machines that join and leave, and of what is done with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from adsum_hub.join.joining import Joining, token_of
from adsum_hub.join.leaving import NO_USER_STEP
from adsum_hub.join.machines import Machine
from adsum_hub.join.rights import NoRightsError
from adsum_hub.redis_access import unavailable
from adsum_hub.request_guard import log_refusal
from adsum_hub.rest.answers import SCHEMA, Problem, answers_of, as_json
from adsum_hub.rest.bodies import BadRequestError, read, takes
from adsum_hub.rest.join_answers import (
    HostChanged,
    JoinAsked,
    JoinCheckAsked,
    JoinChecked,
    Joined,
    JoinTokenAsked,
    JoinTokenMade,
    JoinTokens,
    LabelAsked,
    LeaveAsked,
    MachineSeen,
)
from adsum_hub.rest.sign_in_answers import Revoked
from adsum_shared.connect import UNAVAILABLE

REFUSED = {
    400: "No such request",
    401: "Not let in",
    403: "Not the role for it",
    409: "Not possible here",
    415: "Not JSON",
    503: "Redis does not answer",
}
OFTEN = {429: "Too many tries: see Retry-After"}
OVER = {410: "Used or expired", **OFTEN}
UNKNOWN = {404: "No such one"}


def join_router(joining: Joining) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["v1"])
    _add_tokens(router, joining)
    _add_join(router, joining)
    _add_machine(router, joining)
    _add_hosts(router, joining)
    return router


async def _answered(work: Awaitable[Any]) -> Response:
    try:
        done = await work
    except BadRequestError as error:
        return error.answer
    except NoRightsError as error:
        return as_json(Problem(f"Redis refuses: {error}.", NO_USER_STEP), 409)
    except UNAVAILABLE as error:
        return unavailable(error)
    answer: Response = as_json(done)
    answer.headers["cache-control"] = "no-store"
    return answer


def _add_tokens(router: APIRouter, joining: Joining) -> None:
    async def listed() -> JoinTokens:
        now = joining.clock()
        return JoinTokens(SCHEMA, now, [token_of(each) for each in await joining.tokens.all(now)])

    async def made(request: Request) -> JoinTokenMade:
        asked = await read(request, JoinTokenAsked)
        reached = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
        return await joining.make_token(asked, reached)

    async def gone(named: str) -> Revoked:
        await joining.revoke_token(named)
        return Revoked(SCHEMA, named)

    @router.get(
        "/join-tokens",
        summary="The join tokens that are good, without their secrets",
        responses=answers_of(JoinTokens, also=REFUSED),
        response_class=Response,
    )
    async def get() -> Response:
        return await _answered(listed())

    @router.post(
        "/join-tokens",
        summary="A token that lets a machine join; its secret is answered this once",
        responses=answers_of(JoinTokenMade, also=REFUSED),
        response_class=Response,
        openapi_extra=takes(JoinTokenAsked),
    )
    async def post(request: Request) -> Response:
        return await _answered(made(request))

    @router.delete(
        "/join-tokens/{named}",
        summary="A join token is good no more",
        responses=answers_of(Revoked, also={**REFUSED, **UNKNOWN}),
        response_class=Response,
    )
    async def delete(named: str) -> Response:
        return await _answered(gone(named))


def _add_join(router: APIRouter, joining: Joining) -> None:
    async def checked(request: Request) -> JoinChecked:
        return await joining.check((await read(request, JoinCheckAsked)).token, address_of(request))

    async def joined(request: Request) -> Joined:
        return await joining.join(await read(request, JoinAsked), address_of(request))

    async def noted(request: Request, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except BadRequestError as error:
            log_refusal(request.scope, str(error))
            raise

    @router.post(
        "/join/check",
        summary="Whether a machine could join by a token, which stays as it is",
        responses=answers_of(JoinChecked, also={**REFUSED, **OVER}),
        response_class=Response,
        openapi_extra=takes(JoinCheckAsked),
    )
    async def check(request: Request) -> Response:
        return await _answered(noted(request, checked(request)))

    @router.post(
        "/join",
        summary="A machine joins by a token",
        responses=answers_of(Joined, also={**REFUSED, **OVER}),
        response_class=Response,
        openapi_extra=takes(JoinAsked),
    )
    async def join(request: Request) -> Response:
        return await _answered(noted(request, joined(request)))


def _add_machine(router: APIRouter, joining: Joining) -> None:
    async def asking(request: Request) -> Machine:
        return await joining.machine_of(bearer_of(request), address_of(request))

    async def seen(request: Request) -> MachineSeen:
        return joining.seen(await asking(request))

    async def left(request: Request) -> HostChanged:
        # The body first: who is shut out while it comes must not have been let in before.
        asked = await read(request, LeaveAsked)
        return await joining.leaving.leave(await asking(request), undo=asked.undo)

    async def through_hub(request: Request) -> HostChanged:
        await read(request, msgspec.Raw)  # a page of elsewhere cannot send it; first, as above
        return await joining.leaving.go_through_hub(await asking(request))

    @router.post(
        "/machine/ingest",
        summary="The machine whose credential is shown cannot reach Redis: it needs no user there",
        responses=answers_of(HostChanged, also={**REFUSED, **OFTEN}),
        response_class=Response,
    )
    async def go_through_hub(request: Request) -> Response:
        return await _answered(through_hub(request))

    @router.get(
        "/machine",
        summary="What the hub has of the machine whose credential is shown",
        responses=answers_of(MachineSeen, also={**REFUSED, **OFTEN}),
        response_class=Response,
    )
    async def see(request: Request) -> Response:
        return await _answered(seen(request))

    @router.post(
        "/machine/leave",
        summary="The machine whose credential is shown leaves; all of it goes from the lists",
        responses=answers_of(HostChanged, also={**REFUSED, **OFTEN}),
        response_class=Response,
        openapi_extra=takes(LeaveAsked),
    )
    async def leave(request: Request) -> Response:
        return await _answered(left(request))


def _add_hosts(router: APIRouter, joining: Joining) -> None:
    async def named(request: Request, host_id: str) -> HostChanged:
        return await joining.hosts.rename(host_id, (await read(request, LabelAsked)).label)

    async def of_json(request: Request, work: Callable[[], Awaitable[HostChanged]]) -> HostChanged:
        await read(request, msgspec.Raw)  # a page of elsewhere cannot send it
        return await work()

    def add(verb: str, summary: str, work: Callable[[str], Awaitable[HostChanged]]) -> None:
        @router.post(
            f"/hosts/{{host_id}}/{verb}",
            summary=summary,
            responses=answers_of(HostChanged, also={**REFUSED, **UNKNOWN}),
            response_class=Response,
            name=f"{verb}_host",
        )
        async def post(request: Request, host_id: str) -> Response:
            return await _answered(of_json(request, lambda: work(host_id)))

    @router.post(
        "/hosts/{host_id}/rename",
        summary="A host is called by another name everywhere; an empty one gives it its own back",
        responses=answers_of(HostChanged, also={**REFUSED, **UNKNOWN}),
        response_class=Response,
        openapi_extra=takes(LabelAsked),
    )
    async def rename(request: Request, host_id: str) -> Response:
        return await _answered(named(request, host_id))

    add(
        "forget",
        "A host goes, with all there is of it; it comes back only by joining",
        joining.hosts.forget,
    )
    add(
        "revoke",
        "A machine's credential is good no more, and its identity may not join again",
        lambda host_id: joining.hosts.shut_out(host_id, for_good=True),
    )
    add(
        "reset",
        "A machine's credential is good no more, and its identity may join anew",
        lambda host_id: joining.hosts.shut_out(host_id, for_good=False),
    )


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def bearer_of(request: Request) -> str:
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" else ""
