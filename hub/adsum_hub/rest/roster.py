"""Serves REST v1 of the roster as JSON: what is asked of it, and dismissing, archiving and restoring its sessions.

What people put aside here is shared with other hubs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Response
from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.facts import ACTIVITY_MAX
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.observed import report_of
from adsum_hub.past import Dismissal, happened
from adsum_hub.rest.api import (
    JSON_ONLY,
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    add_endpoints,
    as_json,
    endpoint,
)
from adsum_hub.roster import Roster
from adsum_hub.views import view_id
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.envelope import Counts
from adsum_shared.state import (
    AWAITING_REVIEW,
    ActivityEntry,
    Group,
    HostView,
    HubTrouble,
    SessionView,
    Summary,
)

MOST = 1000
MOST_MINUTES = 24 * 60
#: As many as are kept of a session.
MOST_ACTIVITY = ACTIVITY_MAX


class SessionQuery(msgspec.Struct):
    group: str | None = None
    state: str | None = None
    host: str | None = None
    project: str | None = None
    q: str | None = None
    agent: str | None = None


def matches(view: SessionView, query: SessionQuery) -> bool:
    """host: label or id. q: any of what a person would recognise the session by."""
    return (
        (query.group is None or view.state.group == query.group)
        and _is_in(view, query.state)
        and (query.host is None or query.host in (view.host, view.host_id))
        and (query.project is None or query.project == view.project)
        and query.agent in (None, view.agent)
        and (query.q is None or query.q.casefold() in _words(view))
    )


def _is_in(view: SessionView, state: str | None) -> bool:
    awaits = state == AWAITING_REVIEW and view.review is not None
    return awaits or state in (None, view.state.state)


def _words(view: SessionView) -> str:
    words = (
        *(view.title, view.project, view.host, view.cwd, view.session_id),
        *(view.state.label, view.agent),
    )
    return "\n".join(word for word in words if word).casefold()


class Sessions(msgspec.Struct):
    """total counts what matches, before limit and offset. now: the hub's clock, ms."""

    schema: int
    now: int
    total: int
    sessions: list[SessionView]
    trouble: HubTrouble | None


class SessionActivity(msgspec.Struct):
    """What a session did last, newest last; at most a hundred."""

    schema: int
    now: int
    entries: list[ActivityEntry]


class SessionSignals(msgspec.Struct):
    """What its witnesses said last, without what people and agents wrote, oldest first.

    now, since: the host's clock, as the signals'. held_since: from when on this hub has kept all
    signals, by the same clock; None: none yet. Those before `since` are the latest of their kind.
    """

    schema: int
    now: int
    since: int
    held_since: int | None
    signals: list[dict[str, Any]]


class Hosts(msgspec.Struct):
    """collectors: by host id, what each has done since it started; missing for older ones."""

    schema: int
    now: int
    hosts: list[HostView]
    trouble: HubTrouble | None
    collectors: dict[str, Counts] = {}


Sort = Literal["attention", "updated", "since"]
NO_SESSION = {404: "No such session"}


@dataclass(frozen=True, slots=True)
class RosterEndpoints:
    roster: Roster
    broadcast: Broadcast
    clock: Clock

    @endpoint("GET /sessions", "Who there is, who needs a human first")
    async def sessions(  # noqa: PLR0913 - the query parameters are the interface
        self,
        group: Group | None = None,
        state: str | None = None,
        host: str | None = None,
        project: str | None = None,
        q: str | None = None,
        agent: str | None = None,
        *,
        needs_you: bool = False,
        sort: Sort = "attention",
        limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
        offset: Annotated[int, Query(ge=0)] = 0,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Sessions | Response:
        trouble = self.broadcast.trouble
        tag = f'"{self.broadcast.epoch}-{self.roster.revision}-{trouble.since if trouble else 0}"'
        if if_none_match == tag:
            return Response(status_code=304, headers={"etag": tag})
        group = Group.NEEDS_YOU if needs_you else group
        query = SessionQuery(group, state, host, project, q, agent)
        found = [view for view in self.roster.views.values() if matches(view, query)]
        found.sort(key=_SORTS[sort])
        page = Sessions(SCHEMA, self.clock(), len(found), found[offset : offset + limit], trouble)
        return as_json(page, headers={"etag": tag})

    # Before the session itself, whose pattern takes every path below.
    @endpoint(
        "GET /sessions/{session_id:path}/activity", "What it did last, newest last", NO_SESSION
    )
    async def activity(
        self,
        session_id: str,
        limit: Annotated[int, Query(ge=1, le=MOST_ACTIVITY)] = MOST_ACTIVITY,
    ) -> SessionActivity:
        entries = self.roster.activity(session_id)
        if entries is None:
            raise _no_session(session_id)
        return SessionActivity(SCHEMA, self.clock(), entries[-limit:])

    @endpoint("GET /sessions/{session_id:path}/signals", "What its witnesses said last", NO_SESSION)
    async def signals(
        self, session_id: str, minutes: Annotated[int, Query(ge=1, le=MOST_MINUTES)] = 10
    ) -> SessionSignals:
        found, recent = self.roster.find(session_id), self.roster.recent
        if found is None:
            raise _no_session(session_id)
        host, facts = found
        ahead = host.clock.offset_ms
        now = self.clock() + ahead
        held = None if recent.since is None else recent.since + ahead
        batches, since = recent.batches(host.id, facts.session_id), now - minutes * 60_000
        # Megabytes may be to be decoded.
        told = await asyncio.to_thread(report_of, batches, facts.session_id, since)
        return SessionSignals(SCHEMA, now, since, held, told)

    @endpoint("GET /sessions/{session_id:path}", also=NO_SESSION)
    async def session(self, session_id: str) -> SessionView:
        view, found = self.roster.views.get(session_id), self.roster.find(session_id)
        if view is None and found is not None:
            view = self.roster.accounts.past_view(*found)
        if view is None:
            raise _no_session(session_id)
        return view

    @endpoint("GET /hosts")
    async def hosts(self) -> Hosts:
        now = self.clock()
        counts = {
            host.id: host.beat.counts
            for host in self.roster.hosts.values()
            if host.beat is not None and host.beat.counts is not None
        }
        listed = sorted(self.roster.all_hosts(now), key=lambda host: (host.label, host.id))
        return Hosts(SCHEMA, now, listed, self.broadcast.trouble, counts)

    @endpoint("GET /summary")
    async def summary(self) -> Summary:
        return self.roster.summary(self.clock())


def api_router(roster: Roster, broadcast: Broadcast, clock: Clock) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["v1"])
    return add_endpoints(router, RosterEndpoints(roster, broadcast, clock))


def _no_session(session_id: str) -> BadRequestError:
    step = "List them at /api/v1/sessions; an id is HOST_ID:SESSION_ID."
    return BadRequestError(404, f"There is no session {session_id[:200]!r}.", step)


_SORTS: dict[Sort, Callable[[SessionView], Any]] = {
    "attention": lambda view: (view.rank, view.id),
    "updated": lambda view: -view.updated_at,
    "since": lambda view: view.state.since,
}


log = logging.getLogger(__name__)

#: How long another hub may not know of a decision.
INTERVAL_S = 1.0
#: Kept of all sessions, the latest; of each some hundred bytes are read every second.
MOST_PUT_ASIDE = 5_000
#: Only what was read: another hub may have written a later one meanwhile.
_DELETE = """
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
"""
ANSWERS = {**REFUSED, **UNKNOWN}


class SessionDismissed(msgspec.Struct):
    """What holds of the session from now on: `dismissed`, `archived` or `restored`."""

    schema: int
    id: str
    kind: Literal["dismissed", "archived", "restored"]


@dataclass(frozen=True, slots=True)
class Dismissals:
    """Every hub keeps all of them in memory, and writes those that Redis has lost anew.

    (Rejected: a signal through the session's own stream, which has one writer and must not wait for a
    machine that is off: its sessions are those most often put away. Rejected: a field of the facts
    that the snapshot stores. The hub whose save loses takes over another's facts, without it.)
    """

    roster: Roster
    broadcast: Broadcast
    clock: Clock
    redis: Redis

    @endpoint(
        "POST /sessions/{session_id:path}/dismiss",
        "It needs nobody, until something happens there",
        ANSWERS,
        dependencies=[JSON_ONLY],
    )
    async def dismiss(self, session_id: str) -> SessionDismissed:
        return await self._decide(session_id, "dismissed")

    @endpoint(
        "POST /sessions/{session_id:path}/archive",
        "It is in the history, until something but its end happens there",
        ANSWERS,
        dependencies=[JSON_ONLY],
    )
    async def archive(self, session_id: str) -> SessionDismissed:
        return await self._decide(session_id, "archived")

    @endpoint(
        "POST /sessions/{session_id:path}/restore",
        "It is as if nobody had dismissed or archived it",
        ANSWERS,
        dependencies=[JSON_ONLY],
    )
    async def restore(self, session_id: str) -> SessionDismissed:
        return await self._decide(session_id, "restored")

    async def _decide(
        self, session_id: str, kind: Literal["dismissed", "archived", "restored"]
    ) -> SessionDismissed:
        """Raises BadRequestError."""
        await self.look()  # another hub's decision may be later than what was known here
        found = self.roster.find(session_id)
        if found is None:
            step = "List them at /api/v1/sessions; an id is HOST_ID:SESSION_ID."
            raise BadRequestError(404, f"There is no session {session_id[:200]!r}.", step)
        host, facts = found
        held = host.dismissals.get(facts.session_id)
        if kind == "restored" and (held is None or held.kind == kind):
            cause = "This session is neither dismissed nor archived."
            raise BadRequestError(409, cause, "There is nothing to take back.")
        if facts.past:
            cause = "This session is over, and in the history already."
            raise BadRequestError(409, cause, "There is nothing to put away.")
        at = max(host.clock.host_now(self.clock()), held.at + 1 if held is not None else 0)
        told = Dismissal(kind, at, happened(facts))
        # First there: what was answered holds at every hub, whatever becomes of this one.
        await self._write({session_id: told})
        self.roster.dismiss(host.id, facts.session_id, told)
        self.broadcast.notify()
        log.info("session %s is %s", session_id, kind)
        return SessionDismissed(SCHEMA, session_id, kind)

    async def watch(self) -> None:
        while wanted():
            try:
                await self.look()
            except UNAVAILABLE as error:
                log.debug("dismissals could not be read: %s", error)
            await asyncio.sleep(INTERVAL_S)

    async def look(self) -> None:
        """Takes over what other hubs have written, and writes what is missing there."""
        raw: Any = await self.redis.hgetall(streams.DISMISSALS)
        stored = {key.decode(errors="replace"): _decoded(value) for key, value in raw.items()}
        news = [
            self.roster.dismiss(*_parted(key), told)
            for key, told in stored.items()
            if told is not None
        ]
        lapsed = {view_id(*key) for key in self.roster.lapsed_dismissals()}
        lapsed |= {key for key, told in stored.items() if told is None} | self._drop_oldest()
        held = {
            view_id(host_id, key): told
            for host_id, told_of in self.roster.dismissals.items()
            for key, told in told_of.items()
        }
        if any(news):
            self.broadcast.notify()
        with contextlib.suppress(ResponseError):  # it takes no writes, which is told elsewhere
            for field, value in raw.items():
                if field.decode(errors="replace") in lapsed:
                    await self.redis.eval(_DELETE, 1, streams.DISMISSALS, field, value)
            await self._write(
                {
                    key: told
                    for key, told in held.items()
                    if (known := stored.get(key)) is None or known.at < told.at
                }
            )

    async def _write(self, told: dict[str, Dismissal]) -> None:
        if told:
            mapping = {key: msgspec.json.encode(each) for key, each in told.items()}
            await self.redis.hset(streams.DISMISSALS, mapping=mapping)  # type: ignore[arg-type] # of redis-py: bytes are fine

    def _drop_oldest(self) -> set[str]:
        """All hubs drop the same, or one would write anew what another has dropped."""
        every = [
            (told.at, host_id, key)
            for host_id, told_of in self.roster.dismissals.items()
            for key, told in told_of.items()
        ]
        gone = sorted(every, reverse=True, key=itemgetter(0, 1, 2))[MOST_PUT_ASIDE:]
        for _, host_id, key in gone:
            del self.roster.dismissals[host_id][key]
        return {view_id(host_id, key) for _, host_id, key in gone}


def dismissals_router(dismissals: Dismissals) -> APIRouter:
    return add_endpoints(APIRouter(prefix="/api/v1", tags=["v1"]), dismissals)


def _parted(key: str) -> tuple[str, str]:
    host_id, _, session_id = key.partition(":")
    return host_id, session_id


def _decoded(raw: bytes) -> Dismissal | None:
    try:
        return msgspec.json.decode(raw, type=Dismissal)
    except msgspec.DecodeError:
        return None
