"""REST v1: the roster as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Response

from adsum_hub.clock import Clock
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.rest.answers import SCHEMA, Activity, Hosts, Problem, Sessions, answers_of, as_json
from adsum_hub.roster import Roster
from adsum_shared.state import Group, HostView, SessionView, Summary

MOST = 1000


class SessionQuery(msgspec.Struct):
    group: str | None = None
    state: str | None = None
    host: str | None = None
    project: str | None = None
    q: str | None = None


def matches(view: SessionView, query: SessionQuery) -> bool:
    """host: label or id. q: any of what a person would recognise the session by."""
    return (
        (query.group is None or view.state.group == query.group)
        and (query.state is None or view.state.state == query.state)
        and (query.host is None or query.host in (view.host, view.host_id))
        and (query.project is None or query.project == view.project)
        and (query.q is None or query.q.casefold() in _words(view))
    )


def _words(view: SessionView) -> str:
    words = (view.title, view.project, view.host, view.cwd, view.session_id, view.state.label)
    return "\n".join(word for word in words if word).casefold()


# Every endpoint is a coroutine although none awaits: a plain function would run in a thread, beside
# the loop that changes the roster under its hands.


def api_router(roster: Roster, broadcast: Broadcast, clock: Clock) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["v1"])

    @router.get(
        "/sessions",
        summary="Who there is, who needs a human first",
        responses=answers_of(Sessions),
        response_class=Response,
    )
    async def sessions(  # noqa: PLR0913 - the query parameters are the interface
        group: Group | None = None,
        state: str | None = None,
        host: str | None = None,
        project: str | None = None,
        q: str | None = None,
        *,
        needs_you: bool = False,
        sort: Literal["attention", "updated", "since"] = "attention",
        limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
        offset: Annotated[int, Query(ge=0)] = 0,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        trouble = broadcast.trouble
        tag = f'"{broadcast.epoch}-{roster.revision}-{trouble.since if trouble else 0}"'
        if if_none_match == tag:
            return Response(status_code=304, headers={"etag": tag})
        query = SessionQuery(Group.NEEDS_YOU if needs_you else group, state, host, project, q)
        found = [view for view in roster.views.values() if matches(view, query)]
        found.sort(key=_SORTS[sort])
        page = found[offset : offset + limit]
        return as_json(Sessions(SCHEMA, clock(), len(found), page, trouble), headers={"etag": tag})

    # Before the session itself, whose pattern takes every path below.
    @router.get(
        "/sessions/{session_id:path}/activity",
        summary="What it did last, newest last",
        responses=answers_of(Activity, also={404: "No such session"}),
        response_class=Response,
    )
    async def activity(session_id: str) -> Response:
        entries = roster.activity(session_id)
        if entries is None:
            return _no_session(session_id)
        return as_json(Activity(SCHEMA, clock(), entries))

    @router.get(
        "/sessions/{session_id:path}",
        responses=answers_of(SessionView, also={404: "No such session"}),
        response_class=Response,
    )
    async def session(session_id: str) -> Response:
        view, found = roster.views.get(session_id), roster.find(session_id)
        if view is None and found is not None:
            view = roster.accounts.past_view(*found)
        return _no_session(session_id) if view is None else as_json(view)

    @router.get("/hosts", responses=answers_of(Hosts), response_class=Response)
    async def hosts() -> Response:
        now = clock()
        counts = {
            host.id: host.beat.counts
            for host in roster.hosts.values()
            if host.beat is not None and host.beat.counts is not None
        }
        listed = _by_label(roster.all_hosts(now))
        return as_json(Hosts(SCHEMA, now, listed, broadcast.trouble, counts))

    @router.get("/summary", responses=answers_of(Summary), response_class=Response)
    async def summary() -> Response:
        return as_json(roster.summary(clock()))

    return router


def _no_session(session_id: str) -> Response:
    return as_json(
        Problem(
            f"There is no session {session_id[:200]!r}.",
            "List them at /api/v1/sessions; an id is HOST_ID:SESSION_ID.",
        ),
        404,
    )


_SORTS: dict[str, Callable[[SessionView], Any]] = {
    "attention": lambda view: (view.rank, view.id),
    "updated": lambda view: -view.updated_at,
    "since": lambda view: view.state.since,
}


def _by_label(hosts: Iterable[HostView]) -> list[HostView]:
    return sorted(hosts, key=lambda host: (host.label, host.id))
