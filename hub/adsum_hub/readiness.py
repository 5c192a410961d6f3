"""`/livez` and `/readyz`: whether the process answers, and whether its list is to be trusted."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from adsum_hub.clock import Clock
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.rest.api import as_json, endpoint
from adsum_hub.roster import Roster
from adsum_hub.trouble import Link, blindness

#: In a scope, true: whoever asks would have to sign in to be told all of it.
STRANGER = "adsum.stranger"


class Ready(msgspec.Struct):
    """All that `/readyz` tells whoever has not signed in, where people have to."""

    ready: bool


class Readiness(msgspec.Struct):
    """ready: the list is as true as what the machines report; not while Redis cannot be read.

    lag_ms: since Redis was last read. problem: sentences for people; one may be there although the
    list is true, such as that Redis takes no writes. backlog: signals of all machines, known of by
    their heartbeats, that are not part of the list yet. counts: since this hub started.
    """

    ready: bool
    lag_ms: int | None
    problem: str | None
    backlog: int
    hosts: int
    sessions: int
    clients: int
    counts: dict[str, int]


def health_router(roster: Roster, broadcast: Broadcast, link: Link, clock: Clock) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/livez", summary="The process answers")
    async def livez() -> Response:
        return Response("ok", media_type="text/plain")

    @endpoint(router, "GET /readyz", "The roster is being kept")
    async def readyz(request: Request) -> Readiness | Response:
        now = clock()
        blind, told = blindness(link, now, now), broadcast.trouble
        ready = blind is None and not broadcast.restoring
        if STRANGER in request.scope:
            return as_json(Ready(ready), 200 if ready else 503)
        # What was told of reading may be over since; the rest is not looked at anew here.
        trouble = blind or (told if told is not None and not told.blind else None)
        problem = trouble.problem if trouble else None
        if problem is None and broadcast.restoring:
            problem = f"The list is being restored: {len(roster.views)} sessions so far."
        readiness = Readiness(
            ready=ready,
            lag_ms=now - link.read_at if link.read_at else None,
            problem=problem,
            backlog=sum(host.backlog for host in roster.all_hosts()),
            hosts=len(roster.hosts),
            sessions=len(roster.views),
            clients=broadcast.clients,
            counts=dict(roster.counts),
        )
        return as_json(readiness, 200 if ready else 503)

    return router
