"""REST v1: the roster as JSON, described by an OpenAPI document made from the same structs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, FastAPI, Header, Query, Response

from adsum_hub.broadcast import Broadcast
from adsum_hub.clock import Clock
from adsum_hub.link import Link
from adsum_hub.roster import Roster
from adsum_hub.views import attention_order
from adsum_shared.state import ActivityEntry, Group, HostView, SessionView, Summary

SCHEMA = 1
MOST = 1000
#: A consumer that has not read for so long is not ready, whatever the process says.
STALE_MS = 10_000


class Sessions(msgspec.Struct):
    """total counts what matches, before limit and offset. now: the hub's clock, ms."""

    schema: int
    now: int
    total: int
    sessions: list[SessionView]


class Activity(msgspec.Struct):
    """What a session did last, newest last; at most a hundred."""

    schema: int
    now: int
    entries: list[ActivityEntry]


class Hosts(msgspec.Struct):
    schema: int
    now: int
    hosts: list[HostView]


class Problem(msgspec.Struct):
    """error: what is wrong; next: what to do about it."""

    error: str
    next: str


class Readiness(msgspec.Struct):
    """lag_ms: since Redis was last read. problem: a sentence for people."""

    ready: bool
    lag_ms: int | None
    problem: str | None
    hosts: int
    sessions: int
    clients: int
    counts: dict[str, int]


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


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


_TYPES = (Sessions, SessionView, Activity, Hosts, Summary, Problem, Readiness)
_SCHEMAS, _COMPONENTS = msgspec.json.schema_components(
    _TYPES, ref_template="#/components/schemas/{name}"
)
_REF: dict[type, dict[str, Any]] = dict(zip(_TYPES, _SCHEMAS, strict=True))


def _answers(kind: type, *, also: dict[int, str] | None = None) -> dict[int | str, dict[str, Any]]:
    def content(of: type) -> dict[str, Any]:
        return {"application/json": {"schema": _REF[of]}}

    answers: dict[int | str, dict[str, Any]] = {
        200: {"description": "OK", "content": content(kind)}
    }
    for status, why in (also or {}).items():
        answers[status] = {"description": why, "content": content(Problem)}
    return answers


# Every endpoint is a coroutine although none awaits: a plain function would run in a thread, beside
# the loop that changes the roster under its hands.


def api_router(roster: Roster, broadcast: Broadcast, clock: Clock) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["v1"])

    @router.get(
        "/sessions",
        summary="Who there is, who needs a human first",
        responses=_answers(Sessions),
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
        tag = f'"{broadcast.epoch}-{roster.revision}"'
        if if_none_match == tag:
            return Response(status_code=304, headers={"etag": tag})
        query = SessionQuery(Group.NEEDS_YOU if needs_you else group, state, host, project, q)
        found = [view for view in roster.views.values() if matches(view, query)]
        found.sort(key=_SORTS[sort])
        page = found[offset : offset + limit]
        return _json(Sessions(SCHEMA, clock(), len(found), page), headers={"etag": tag})

    # Before the session itself, whose pattern takes every path below.
    @router.get(
        "/sessions/{session_id:path}/activity",
        summary="What it did last, newest last",
        responses=_answers(Activity, also={404: "No such session"}),
        response_class=Response,
    )
    async def activity(session_id: str) -> Response:
        entries = roster.activity(session_id)
        if entries is None:
            return _no_session(session_id)
        return _json(Activity(SCHEMA, clock(), entries))

    @router.get(
        "/sessions/{session_id:path}",
        responses=_answers(SessionView, also={404: "No such session"}),
        response_class=Response,
    )
    async def session(session_id: str) -> Response:
        view = roster.views.get(session_id)
        return _no_session(session_id) if view is None else _json(view)

    @router.get("/hosts", responses=_answers(Hosts), response_class=Response)
    async def hosts() -> Response:
        return _json(Hosts(SCHEMA, clock(), _by_label(roster.all_hosts())))

    @router.get("/summary", responses=_answers(Summary), response_class=Response)
    async def summary() -> Response:
        return _json(roster.summary())

    return router


def _no_session(session_id: str) -> Response:
    return _json(
        Problem(
            f"There is no session {session_id[:200]!r}.",
            "List them at /api/v1/sessions; an id is HOST_ID:SESSION_ID.",
        ),
        404,
    )


_SORTS: dict[str, Callable[[SessionView], Any]] = {
    "attention": attention_order,
    "updated": lambda view: -view.updated_at,
    "since": lambda view: view.state.since,
}


def _by_label(hosts: Iterable[HostView]) -> list[HostView]:
    return sorted(hosts, key=lambda host: (host.label, host.id))


def health_router(roster: Roster, broadcast: Broadcast, link: Link, clock: Clock) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/livez", summary="The process answers")
    async def livez() -> Response:
        return Response("ok", media_type="text/plain")

    @router.get(
        "/readyz",
        summary="The roster is being kept",
        responses=_answers(Readiness),
        response_class=Response,
    )
    async def readyz() -> Response:
        lag = clock() - link.read_at if link.read_at else None
        ready = link.problem is None and lag is not None and lag < STALE_MS
        readiness = Readiness(
            ready=ready,
            lag_ms=lag,
            problem=link.problem,
            hosts=len(roster.hosts),
            sessions=len(roster.views),
            clients=broadcast.clients,
            counts=dict(roster.counts),
        )
        return _json(readiness, 200 if ready else 503)

    return router


def describe(app: FastAPI) -> None:
    """Put our structs into the OpenAPI document, so that it stays the contract."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        document.setdefault("components", {}).setdefault("schemas", {}).update(_COMPONENTS)
        return document

    app.openapi = openapi  # type: ignore[method-assign]
