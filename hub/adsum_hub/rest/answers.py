"""The hub's REST answers: their structs, and the OpenAPI document that is made from them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from adsum_hub.rest.join_answers import (
    HostChanged,
    JoinAsked,
    JoinCheckAsked,
    JoinChecked,
    Joined,
    JoinToken,
    JoinTokenAsked,
    JoinTokenMade,
    JoinTokens,
    LabelAsked,
    LeaveAsked,
    MachineSeen,
)
from adsum_hub.rest.notify_answers import (
    Notify,
    NotifyTest,
    NotifyTestAsked,
    PushEndpoint,
    PushSubscription,
    Subscribed,
)
from adsum_hub.rest.sign_in_answers import (
    LoginAsked,
    LoginLink,
    LoginLinkAsked,
    Me,
    Revoked,
    SignedOut,
    SignIns,
    TokenAsked,
    TokenMade,
    Tokens,
)
from adsum_shared.beat import Counts
from adsum_shared.state import ActivityEntry, History, HostView, HubTrouble, SessionView, Summary
from adsum_shared.usage import Budgets, UsageReport

SCHEMA = 1


class Sessions(msgspec.Struct):
    """total counts what matches, before limit and offset. now: the hub's clock, ms."""

    schema: int
    now: int
    total: int
    sessions: list[SessionView]
    trouble: HubTrouble | None


class Activity(msgspec.Struct):
    """What a session did last, newest last; at most a hundred."""

    schema: int
    now: int
    entries: list[ActivityEntry]


class Hosts(msgspec.Struct):
    """collectors: by host id, what each has done since it started; missing for older ones."""

    schema: int
    now: int
    hosts: list[HostView]
    trouble: HubTrouble | None
    collectors: dict[str, Counts] = {}


class Problem(msgspec.Struct):
    """error: what is wrong; next: what to do about it."""

    error: str
    next: str


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


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


_TYPES = (
    Sessions,
    SessionView,
    Activity,
    Hosts,
    Summary,
    Problem,
    Readiness,
    UsageReport,
    Budgets,
    History,
    Notify,
    NotifyTest,
    NotifyTestAsked,
    PushEndpoint,
    PushSubscription,
    Subscribed,
    LoginAsked,
    LoginLink,
    LoginLinkAsked,
    Me,
    Revoked,
    SignedOut,
    SignIns,
    TokenAsked,
    TokenMade,
    Tokens,
    JoinToken,
    JoinTokenAsked,
    JoinTokenMade,
    JoinTokens,
    JoinCheckAsked,
    JoinChecked,
    JoinAsked,
    Joined,
    MachineSeen,
    LeaveAsked,
    LabelAsked,
    HostChanged,
)


def components(
    kinds: Iterable[type], ref_template: str
) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """As msgspec's, the same from every Python: before 3.13 docstrings keep their indentation."""
    refs, found = msgspec.json.schema_components(kinds, ref_template=ref_template)
    for each in found.values():
        if "description" in each:
            each["description"] = inspect.cleandoc(each["description"])
    return refs, found


_SCHEMAS, _COMPONENTS = components(_TYPES, "#/components/schemas/{name}")
_REF: dict[type, dict[str, Any]] = dict(zip(_TYPES, _SCHEMAS, strict=True))


def answers_of(
    kind: type, *, also: dict[int, str] | None = None, csv: bool = False
) -> dict[int | str, dict[str, Any]]:
    def content(of: type) -> dict[str, Any]:
        return {"application/json": {"schema": _REF[of]}}

    answers: dict[int | str, dict[str, Any]] = {
        200: {"description": "OK", "content": content(kind)}
    }
    if csv:
        answers[200]["content"]["text/csv"] = {"schema": {"type": "string"}}
    for status, why in (also or {}).items():
        answers[status] = {"description": why, "content": content(Problem)}
    return answers


def explain(app: FastAPI) -> None:
    """Have parameters that cannot be, and what is not there, told of as every other error is."""

    async def refuse(_: Request, error: Exception) -> Response:
        wrong = error.errors() if isinstance(error, RequestValidationError) else []
        said = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in wrong)
        problem = Problem(f"A parameter cannot be used. {said[:500]}.", "See /openapi.json.")
        return as_json(problem, 422)

    async def miss(request: Request, error: Exception) -> Response:
        """Routers raise it: nothing is at an address, or it takes other methods."""
        missed = error if isinstance(error, HTTPException) else HTTPException(500)
        said = {404: "There is nothing here.", 405: f"This address does not take {request.method}."}
        cause = said.get(missed.status_code, missed.detail)
        problem = Problem(cause, "See /openapi.json for what there is.")
        return as_json(problem, missed.status_code, dict(missed.headers or {}))

    app.add_exception_handler(RequestValidationError, refuse)
    app.add_exception_handler(HTTPException, miss)


def describe(app: FastAPI) -> None:
    """Put our structs into the OpenAPI document, so that it stays the contract."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        document.setdefault("components", {}).setdefault("schemas", {}).update(_COMPONENTS)
        return document

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI documents it
