"""Serves dismissing, archiving and restoring sessions, and shares these decisions with other hubs."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

import msgspec
from fastapi import APIRouter
from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.past import Dismissal, happened
from adsum_hub.rest.api import (
    JSON_ONLY,
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    add_endpoints,
    endpoint,
)
from adsum_hub.roster import Roster
from adsum_hub.views import view_id
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted

log = logging.getLogger(__name__)

#: How long another hub may not know of a decision.
INTERVAL_S = 1.0
#: Kept of all sessions, the latest; of each some hundred bytes are read every second.
MOST = 5_000
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
        gone = sorted(every, reverse=True, key=itemgetter(0, 1, 2))[MOST:]
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
