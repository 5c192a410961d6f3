"""Serves REST v1 of machines that join and leave."""

from __future__ import annotations

from functools import partial

import msgspec
from fastapi import APIRouter, Request

from adsum_hub.auth.sign_in import Revoked
from adsum_hub.join.joining import JoinAnswer, JoinAsked, JoinChecked, Joining, MachineSeen
from adsum_hub.join.leaving import HostChanged
from adsum_hub.join.machines import JoinedMachine
from adsum_hub.join.tokens import JoinToken, JoinTokenAsked, JoinTokenMade
from adsum_hub.request_guard import log_refusal
from adsum_hub.rest.api import (
    JSON_ONLY,
    OFTEN,
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    address_of,
    bearer_of,
    endpoint,
)

OVER = {**REFUSED, 410: "Used or expired", **OFTEN}
#: Many of these answers hold a secret.
_served = partial(endpoint, headers={"cache-control": "no-store"})


class JoinTokens(msgspec.Struct):
    schema: int
    now: int
    tokens: list[JoinToken]


class JoinCheckAsked(msgspec.Struct):
    token: str


class LeaveAsked(msgspec.Struct):
    """undo: of a joining that failed. Its token is good again."""

    undo: bool = False


class LabelAsked(msgspec.Struct):
    """label: empty: what the machine calls itself."""

    label: str


def join_router(joining: Joining) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["v1"])
    _add_tokens(router, joining)
    _add_join(router, joining)
    _add_machine(router, joining)
    _add_hosts(router, joining)
    return router


def _add_tokens(router: APIRouter, joining: Joining) -> None:
    summary = "The join tokens that are good, without their secrets"

    @_served(router, "GET /join-tokens", summary, REFUSED)
    async def join_tokens() -> JoinTokens:
        now = joining.clock()
        found = await joining.tokens.all(now)
        return JoinTokens(
            SCHEMA, now, [msgspec.convert(each, JoinToken, from_attributes=True) for each in found]
        )

    summary = "A token that lets a machine join; its secret is answered this once"

    @_served(router, "POST /join-tokens", summary, REFUSED)
    async def make_join_token(request: Request, asked: JoinTokenAsked) -> JoinTokenMade:
        reached = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
        return await joining.make_token(asked, reached)

    summary = "A join token is good no more"

    @_served(router, "DELETE /join-tokens/{named}", summary, {**REFUSED, **UNKNOWN})
    async def revoke_join_token(named: str) -> Revoked:
        await joining.revoke_token(named)
        return Revoked(SCHEMA, named)


def _add_join(router: APIRouter, joining: Joining) -> None:
    summary = "Whether a machine could join by a token, which stays as it is"

    @_served(router, "POST /join/check", summary, OVER)
    async def check(request: Request, asked: JoinCheckAsked) -> JoinChecked:
        try:
            return await joining.check(asked.token, address_of(request))
        except BadRequestError as error:
            log_refusal(request.scope, str(error))
            raise

    @_served(router, "POST /join", "A machine joins by a token", OVER)
    async def join(request: Request, asked: JoinAsked) -> JoinAnswer:
        try:
            return await joining.join(asked, address_of(request))
        except BadRequestError as error:
            log_refusal(request.scope, str(error))
            raise


def _add_machine(router: APIRouter, joining: Joining) -> None:
    often = {**REFUSED, **OFTEN}

    # Not a dependency: it would be let in before the body is there, and may be shut out meanwhile.
    async def asking(request: Request) -> JoinedMachine:
        return await joining.machine_of(bearer_of(request), address_of(request))

    summary = "The machine whose credential is shown cannot reach Redis: it needs no user there"

    @_served(router, "POST /machine/ingest", summary, often, dependencies=[JSON_ONLY])
    async def go_through_hub(request: Request) -> HostChanged:
        return await joining.leaving.go_through_hub(await asking(request))

    @_served(
        router, "GET /machine", "What the hub has of the machine whose credential is shown", often
    )
    async def see(request: Request) -> MachineSeen:
        return joining.seen(await asking(request))

    summary = "The machine whose credential is shown leaves; all of it goes from the lists"

    @_served(router, "POST /machine/leave", summary, often)
    async def leave(request: Request, asked: LeaveAsked) -> HostChanged:
        return await joining.leaving.leave(await asking(request), undo=asked.undo)


def _add_hosts(router: APIRouter, joining: Joining) -> None:
    also = {**REFUSED, **UNKNOWN}
    summary = "A host is called by another name everywhere; an empty one gives it its own back"

    @_served(router, "POST /hosts/{host_id}/rename", summary, also)
    async def rename_host(host_id: str, asked: LabelAsked) -> HostChanged:
        return await joining.hosts.rename(host_id, asked.label)

    summary = "A host goes, with all there is of it; it comes back only by joining"

    @_served(router, "POST /hosts/{host_id}/forget", summary, also, dependencies=[JSON_ONLY])
    async def forget_host(host_id: str) -> HostChanged:
        return await joining.hosts.forget(host_id)

    summary = "A machine's credential is good no more, and its identity may not join again"

    @_served(router, "POST /hosts/{host_id}/revoke", summary, also, dependencies=[JSON_ONLY])
    async def revoke_host(host_id: str) -> HostChanged:
        return await joining.hosts.shut_out(host_id, for_good=True)

    summary = "A machine's credential is good no more, and its identity may join anew"

    @_served(router, "POST /hosts/{host_id}/reset", summary, also, dependencies=[JSON_ONLY])
    async def reset_host(host_id: str) -> HostChanged:
        return await joining.hosts.shut_out(host_id, for_good=False)
