"""Takes by REST what other programs tell a session or do with it: reports of its work, and a lifecycle.

What an agent reports is handed to the machine it runs on. That machine's collector makes it a signal like
any other, so that it is kept and told of like them.
(Rejected: to write it into the host's stream; that has one writer. Rejected: a key of hubs' own, as
for dismissals; a report belongs to what the session did, and outlives Redis on its machine's disk.)

Suspending and resuming are there by the names that other dashboards have for them: an agent is a session.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request

from adsum_hub.auth.gate import GRANT, Grant
from adsum_hub.clock import Clock
from adsum_hub.command_stream import append
from adsum_hub.control import CommandAsked, CommandTold, Decisions
from adsum_hub.facts import Facts
from adsum_hub.fold.activity import entries
from adsum_hub.host import Host
from adsum_hub.rest.api import (
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    add_endpoints,
    bearer_of,
    endpoint,
    too_many,
)
from adsum_hub.rest.roster import MOST_ACTIVITY, SessionActivity
from adsum_hub.roster import Roster
from adsum_hub.views import report_view, view_id
from adsum_shared.commands import (
    HEARTBEAT,
    REPORT_FIELD,
    REPORT_PREFIX,
    REPORT_TTL_MS,
    REPORTER_MAX,
    ReportError,
    SelfReport,
    TokenOf,
    is_token,
    read_token,
    require_sound,
    require_text,
)
from adsum_shared.connect import Redis
from adsum_shared.redact import redact_text
from adsum_shared.signals import Alive, Signal, WorkReported, encode_signal
from adsum_shared.state import Group, ReportView, SessionView

#: For its machine to have taken it; and between two looks whether it has.
MOST_WAIT_S = 3.0
LOOK_S = 0.02
#: On their way at once, of one session: an agent reports when it is done, not in a loop.
AT_ONCE = 4
#: Of one session in the long run, and at once after a pause. Its machine's commands lie in the same
#: short stream, and would be pushed out of it by a loop.
EACH_S = 1.0
BURST = 5
SUMMARY_MAX = 400
ANSWERS = {**REFUSED, **UNKNOWN, 429: "Too many, or too often"}
TOKEN_STEP = "In that session, run: adsum report --token"  # noqa: S105 - a sentence


class ReportAsked(SelfReport, frozen=True, forbid_unknown_fields=True):
    """status: `passed`, `blocked` or `failed`."""


class SpecialistReport(msgspec.Struct, frozen=True, rename="camel"):
    """As others send it: the name of who reports stands in the address."""

    issue_id: str
    status: str
    notes: str | None = None


class AgentHeartbeat(msgspec.Struct, frozen=True):
    """tool: which one it uses. timestamp is not believed: the time is when its machine has it."""

    state: Literal["active", "idle"]
    tool: str | None = None
    timestamp: str | None = None
    summary: str | None = None


class ReportTaken(msgspec.Struct):
    """Its machine has it, on disk. report: as the session shows it."""

    schema: int
    id: str
    report: ReportView | None


class HeartbeatTaken(msgspec.Struct):
    """It is on its way to the session's machine."""

    schema: int
    id: str


class Place(msgspec.Struct):
    host: Host
    facts: Facts

    @property
    def id(self) -> str:
        return view_id(self.host.id, self.facts.session_id)


@dataclass(frozen=True, slots=True)
class ReportEndpoints:
    """Whoever shows a token of a session reports for that one alone; operators for any."""

    roster: Roster
    clock: Clock
    redis: Redis
    under_way: Counter[str] = field(default_factory=Counter)
    #: by session, of this loop's clock: the time when it will have paused for all that it has reported
    paid: dict[str, float] = field(default_factory=dict)
    #: of the marks that stand for secrets on the way; its machine masks by its own once more
    salt: str = field(default_factory=lambda: secrets.token_hex(16))

    @endpoint(
        "POST /v1/sessions/{session_id:path}/report",
        "A session's own word of its work, by its token or an operator's",
        ANSWERS,
    )
    async def report(self, session_id: str, request: Request, asked: ReportAsked) -> ReportTaken:
        """Raises BadRequestError."""
        return await self._reported(self._place(session_id, request), asked, request)

    @endpoint(
        "POST /specialists/{name}/report-status",
        "The same, of the session whose token is shown",
        ANSWERS,
    )
    async def report_status(
        self, name: str, request: Request, asked: SpecialistReport
    ) -> ReportTaken:
        """Raises BadRequestError."""
        told = read_token(bearer_of(request))
        if told is None:
            cause = "Which session reports is told by its token, and none is shown."
            raise BadRequestError(401, cause, f"{TOKEN_STEP}; send it as Authorization: Bearer.")
        place = self._place(view_id(told.host_id, told.session_id), request)
        by = SelfReport(asked.status, asked.issue_id or None, asked.notes, name)
        return await self._reported(place, by, request)

    @endpoint(
        "POST /agents/{session_id}/heartbeat",
        "A session says that it is at work, or not: a sign of life, which no state rests on",
        ANSWERS,
        status=202,
    )
    async def heartbeat(
        self, session_id: str, request: Request, asked: AgentHeartbeat
    ) -> HeartbeatTaken:
        """Raises BadRequestError."""
        place = self._place(session_id, request)
        with _refused():
            require_text("tool", asked.tool, REPORTER_MAX, lines=False)
            require_text("summary", asked.summary, SUMMARY_MAX)
        said = " ".join(word for word in (asked.state, asked.tool) if word)
        note = f"{said}: {asked.summary}" if asked.summary else said
        named = {"event": HEARTBEAT, "note": redact_text(note, self.salt)}
        with self._one_of_few(place):
            await self._hand_on(place, Alive, **named)
        return HeartbeatTaken(SCHEMA, place.id)

    @endpoint("GET /agents/{session_id}/activity", "What it did last, newest last", UNKNOWN)
    async def agent_activity(
        self,
        session_id: str,
        limit: Annotated[int, Query(ge=1, le=MOST_ACTIVITY)] = MOST_ACTIVITY,
    ) -> SessionActivity:
        """Raises BadRequestError."""
        place = self._found(session_id)
        told = entries(place.facts, place.host.clock.offset_ms)[-limit:]
        return SessionActivity(SCHEMA, self.clock(), told)

    async def _reported(self, place: Place, asked: SelfReport, request: Request) -> ReportTaken:
        with _refused():
            require_sound(asked)
        grant: Grant | None = request.scope.get(GRANT)
        said = {
            "status": asked.status,
            "issue": asked.issue and redact_text(asked.issue, self.salt),
            "notes": asked.notes and redact_text(asked.notes, self.salt),
            "by": asked.by or (grant.name if grant is not None else None),
        }
        report_id = secrets.token_hex(16)
        with self._one_of_few(place):
            await self._hand_on(place, WorkReported, report_id=report_id, **said)
            until = asyncio.get_running_loop().time() + MOST_WAIT_S
            while asyncio.get_running_loop().time() < until:
                found = self.roster.find(place.id)
                facts = found[1] if found is not None else place.facts
                if facts.report is not None and facts.report.id == report_id:
                    offset_ms = place.host.clock.offset_ms
                    return ReportTaken(SCHEMA, place.id, report_view(facts, offset_ms))
                await asyncio.sleep(LOOK_S)
        cause = f"{place.host.label} has not taken it within {MOST_WAIT_S:.0f} s."
        step = "It may still come within seconds: look at the session, then send it again."
        raise BadRequestError(503, cause, step, {"retry-after": str(REPORT_TTL_MS // 1000)})

    async def _hand_on(self, place: Place, kind: type[Signal], **said: Any) -> None:
        """Raises BadRequestError, UNAVAILABLE. Its machine gives it its time."""
        host, facts = place.host, place.facts
        if host.reachability == "offline":
            cause = f"{host.label} is offline, so it would not get there."
            raise BadRequestError(409, cause, "On that machine, run: adsum report")
        if host.beat is None or host.beat.report_key is None:
            cause = (
                f"No session of {host.label} has a token, so its collector listens for no reports."
            )
            raise BadRequestError(409, cause, TOKEN_STEP)
        signal = kind(session_id=facts.session_id, at=0, seen=0, agent=facts.agent, **said)
        await append(self.redis, host.id, {REPORT_FIELD: encode_signal(signal)})

    @contextmanager
    def _one_of_few(self, place: Place) -> Iterator[None]:
        """Raises BadRequestError."""
        if self.under_way[place.id] >= AT_ONCE:
            raise too_many("This session reports too much at once.", 1, "Send the next one later.")
        self._count(place.id, asyncio.get_running_loop().time())
        self.under_way[place.id] += 1
        try:
            yield
        finally:
            self.under_way[place.id] -= 1
            if not self.under_way[place.id]:
                del self.under_way[place.id]

    def _count(self, key: str, now: float) -> None:
        """now: s. Raises BadRequestError."""
        for each in [each for each, paid in self.paid.items() if paid <= now]:
            del self.paid[each]
        paid = self.paid.get(key, now) + EACH_S
        if (wait := paid - now - BURST * EACH_S) > 0:
            cause = "This session reports too often."
            step = f"Report what has changed: one in {EACH_S:g} s, {BURST} after a pause."
            raise too_many(cause, math.ceil(wait), step)
        self.paid[key] = paid

    def _found(self, named: str) -> Place:
        """named: HOST_ID:SESSION_ID, or a session's own id where that is no two machines'.

        Raises BadRequestError.
        """
        keys = [named] if ":" in named else []
        keys = keys or [key for key in self.roster.views if key.partition(":")[2] == named]
        found = self.roster.find(keys[0]) if len(keys) == 1 else None
        if found is None:
            step = "List them at /api/v1/sessions; an id is HOST_ID:SESSION_ID."
            raise BadRequestError(404, f"There is no session {named[:200]!r}.", step)
        return Place(*found)

    def _place(self, named: str, request: Request) -> Place:
        """The session that is reported of, if whoever asks may. Raises BadRequestError."""
        bearer = bearer_of(request)
        if not bearer.startswith(REPORT_PREFIX):  # then the gate has asked for an operator
            return self._found(named)
        told = read_token(bearer)
        host = self.roster.hosts.get(told.host_id) if told is not None else None
        if told is None or host is None or not _has_made(host, told):
            raise BadRequestError(401, "This token is no session's.", TOKEN_STEP)
        place = self._found(named)
        if place.id != view_id(told.host_id, told.session_id):
            cause = "This token is another session's."
            raise BadRequestError(403, cause, "A session reports for itself alone.")
        return place


def _has_made(host: Host, told: TokenOf) -> bool:
    """Whether the host's collector has made this token."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = host.beat.report_key if host.beat is not None else None
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key or ""))
    except ValueError:
        return False
    return is_token(public, told)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except ReportError as error:
        raise BadRequestError(400, error.cause, error.step) from error


def reports_router(reports: ReportEndpoints) -> APIRouter:
    """Before the roster's own: the pattern of a session takes every path below it."""
    return add_endpoints(APIRouter(prefix="/api", tags=["v1"]), reports)


class ResumeAsked(msgspec.Struct, frozen=True):
    """message: what it is told, as a prompt."""

    message: str | None = None


class Nothing(msgspec.Struct, frozen=True):
    """No more than `{}` is asked for."""


class AgentRuntime(msgspec.Struct, frozen=True):
    """state: `uninitialized`: nobody has heard of it. since: hub clock, ms. session: its id here."""

    schema: int
    id: str
    state: Literal["active", "idle", "suspended", "uninitialized"]
    since: int | None = None
    session: str | None = None


OR_OVER = {**REFUSED, **UNKNOWN, 410: "It is over"}


@dataclass(frozen=True, slots=True)
class AgentEndpoints:
    """agent_id: a session's id, or HOST_ID:SESSION_ID."""

    decisions: Decisions

    @endpoint("GET /agents/{agent_id}", "What an agent is at: active, idle, suspended or unknown")
    async def runtime(self, agent_id: str) -> AgentRuntime:
        view = self._view(agent_id)
        if view is None:
            return AgentRuntime(SCHEMA, agent_id, "uninitialized")
        return AgentRuntime(SCHEMA, agent_id, runtime_state(view), view.state.since, view.id)

    @endpoint("POST /agents/{agent_id}/suspend", "As the command `suspend`", OR_OVER, status=202)
    async def suspend(self, agent_id: str, request: Request, nothing: Nothing) -> CommandTold:
        """Raises BadRequestError."""
        del nothing
        return await self._give(agent_id, request, CommandAsked("suspend"))

    @endpoint("POST /agents/{agent_id}/resume", "As the command `resume`", OR_OVER, status=202)
    async def resume(self, agent_id: str, request: Request, asked: ResumeAsked) -> CommandTold:
        """Raises BadRequestError."""
        return await self._give(agent_id, request, CommandAsked("resume", text=asked.message))

    async def _give(self, agent_id: str, request: Request, asked: CommandAsked) -> CommandTold:
        view = self._view(agent_id)
        if view is None:
            step = "List them at /api/v1/sessions."
            raise BadRequestError(404, f"There is no agent {agent_id[:200]!r}.", step)
        return await self.decisions.give(view.id, request, asked)

    def _view(self, agent_id: str) -> SessionView | None:
        """Raises BadRequestError: several machines have one of this id."""
        views = self.decisions.roster.views
        if agent_id in views:
            return views[agent_id]
        found = [each for each in views.values() if each.session_id == agent_id]
        if len(found) > 1:
            step = "Name it HOST_ID:SESSION_ID."
            raise BadRequestError(409, f"There are {len(found)} agents of this id.", step)
        return found[0] if found else None


def runtime_state(view: SessionView) -> Literal["active", "idle", "suspended"]:
    """Whatever it waits for, an agent that does not work is idle to those who know four states."""
    if view.state.state == "suspended":
        return "suspended"
    return "active" if view.state.group is Group.AUTONOMOUS else "idle"


def agents_router(endpoints: AgentEndpoints) -> APIRouter:
    return add_endpoints(APIRouter(prefix="/api", tags=["agents"]), endpoints)
