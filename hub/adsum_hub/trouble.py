"""Judges whether Redis answers and takes writes, and keeps the list true to the clock."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError

from adsum_hub.clock import Clock
from adsum_hub.host_troubles import Backlog
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.redis_errors import describe
from adsum_shared.state import HubTrouble

if TYPE_CHECKING:  # `adsum doctor` asks for the words alone, and should not load the hub
    from adsum_hub.live.broadcast import Broadcast
    from adsum_hub.roster import Roster

log = logging.getLogger(__name__)

KEPT = "Nothing is lost: what does not get here waits on the machines' disks."
#: A consumer that has not read for so long does not keep the list, whatever the process says.
STALE_MS = 10_000
PROBE_S = 2.0
#: Never comes to be: what is written there is nothing.
_PROBE_KEY = streams.beat("probe")


class Link:
    """address: Redis's, as it may be shown.

    read_at: when it was last read, hub's clock in ms; 0 = never.
    """

    def __init__(self, address: str = "its address") -> None:
        self.address = address
        self.problem: str | None = f"Not connected to Redis at {address} yet."
        self.read_at = 0
        #: times that reading began, the first included
        self.connects = 0

    def up(self, now: int) -> None:
        if self.problem is not None:
            self.connects += 1
            log.info("reading from Redis at %s", self.address)
        self.problem = None
        self.read_at = now

    def down(self, error: Exception) -> None:
        problem = describe(error, self.address, KEPT)
        if self.problem != problem:
            log.warning("%s", problem)
        self.problem = problem

    def is_blind(self, now: int) -> bool:
        """The hub does not hear: what it lists is as of `read_at`."""
        return self.problem is not None or now - self.read_at >= STALE_MS

    def blindness(self, now: int, started: int) -> HubTrouble | None:
        """started: when this hub did, hub's clock in ms as `now`."""
        if not self.is_blind(now):
            return None
        silent = f"Redis at {self.address} does not answer. See whether it hangs. {KEPT}"
        return HubTrouble(self.problem or silent, self.read_at or started, blind=True)


class NamesFullest(Protocol):
    def fullest(self) -> str:
        """A sentence on who takes most of Redis; empty: nobody stands out."""
        ...


class Writes:
    """Whether Redis takes writes.

    Tried, since where it takes none nothing comes in that would have to be saved and fail.
    """

    def __init__(
        self, redis: Redis, address: str, clock: Clock, room: NamesFullest | None = None
    ) -> None:
        self._room, self._redis, self._address, self._clock = room, redis, address, clock
        self.problem: str | None = None
        self.since = 0

    async def watch(self) -> None:
        while wanted():
            await self.try_once()
            await asyncio.sleep(PROBE_S)

    async def try_once(self) -> None:
        """Nothing written is nothing changed, and yet it is refused as any other write would be."""
        try:
            await self._redis.setrange(_PROBE_KEY, 0, "")
        except NoPermissionError:
            # That this one command is forbidden says nothing of those we live on.
            self.problem = None
        except ResponseError as error:
            self.since = self.since if self.problem else self._clock()
            self.problem = describe(error, self._address, KEPT)
            if _is_full(error) and self._room and (who := self._room.fullest()):
                self.problem = f"{self.problem} {who}"
        except UNAVAILABLE:
            return  # whoever reads is told the same, and knows since when
        else:
            self.problem = None

    def refusal(self) -> HubTrouble | None:
        return None if self.problem is None else HubTrouble(self.problem, self.since)


def _is_full(error: ResponseError) -> bool:
    """Whether Redis has no room left. The client makes a class of it, or leaves the word."""
    return isinstance(error, OutOfMemoryError) or "OOM" in str(error)


#: To look at all deadlines and hosts after each of 200 flushes a second was a third of the load.
LOOK_S = 0.05
EXPIRE_MS = 60_000
#: A heartbeat tells how far a machine is, and none comes sooner.
BACKLOGS_MS = 1_000
#: Of what is wrong beside the list; each is a sentence or two.
MOST_SAID = 3
#: Redis restarted by its own supervisor is back sooner than anyone could read of it.
PATIENCE_MS = 2_000
#: After Redis is back, collectors take this long at most to find that out and say so.
RETURN_MS = 8_000


class HasNotes(Protocol):
    def notes(self) -> list[str]:
        """Sentences for people on what is wrong beside the list, as of now."""
        ...


class Timekeeper:
    """Tells everyone as well what keeps the list from being true."""

    def __init__(
        self,
        roster: Roster,
        broadcast: Broadcast,
        link: Link,
        writes: Writes,
        clock: Clock,
        *,
        others: Sequence[HasNotes] = (),
    ) -> None:
        self._roster, self._broadcast, self._link = roster, broadcast, link
        self._writes, self._clock = writes, clock
        self._started = clock()
        self._others = others
        #: sentence -> since when
        self._told: dict[str, int] = {}
        self._expire_at = 0
        self._deaf_since: int | None = None
        self._returned_at = 0
        self._patient_until = 0
        self._backlogs: dict[str, Backlog] = {}
        self._backlogs_at = 0

    async def run(self) -> None:
        while wanted():
            pause = self.look()
            self._broadcast.flushed.clear()
            await asyncio.sleep(min(pause, LOOK_S))
            with contextlib.suppress(TimeoutError):
                # What has just arrived may have set an earlier deadline.
                await asyncio.wait_for(self._broadcast.flushed.wait(), max(0.0, pause - LOOK_S))

    def look(self) -> float:
        """Returns the seconds until there is something to do, if nothing arrives before."""
        now, hears = self._clock(), self._hears(self._clock())
        if hears:
            self._roster.tick(now)
            if now >= self._backlogs_at:
                self._note_backlogs(now)
                self._backlogs_at = now + BACKLOGS_MS
            if now >= self._expire_at:
                self._roster.expire(now)
                self._expire_at = now + EXPIRE_MS
        trouble = self._link.blindness(now, self._started) or self._writes.refusal()
        if trouble is None or now - trouble.since >= PATIENCE_MS:
            self._broadcast.set_trouble(trouble or self._beside(now))
        self._broadcast.notify()
        # A deadline that has come while nobody is heard stays there until somebody is.
        due = self._roster.next_deadline() if hears else None
        # Nor is one worth waking for before anybody could know.
        soonest = max(0.001, self._broadcast.rest)
        return 1.0 if due is None else min(1.0, max(soonest, (due - self._clock()) / 1000))

    def _beside(self, now: int) -> HubTrouble | None:
        """What does not keep the list from being true; of many the first that were."""
        said = [note for each in self._others for note in each.notes()]
        self._told = {each: self._told.get(each, now) for each in said}
        if not said:
            return None
        more = f" And {len(said) - MOST_SAID} more." if len(said) > MOST_SAID else ""
        problem = " ".join(said[:MOST_SAID]) + more
        return HubTrouble(problem, min(self._told.values()))

    def _hears(self, now: int) -> bool:
        """Whether silence is the hosts' own: else nobody would be offline but this hub.

        After an outage they have to find their way back before theirs counts again.
        """
        if self._link.is_blind(now):
            if self._deaf_since is None:
                self._deaf_since = self._link.read_at or self._started
            return False
        if self._deaf_since is not None:
            self._returned_at = now
            self._patient_until = now + min(RETURN_MS, now - self._deaf_since)
            self._deaf_since = None
        return now >= self._patient_until or all(
            host.reachability == "offline" or host.clock.last_seen >= self._returned_at
            for host in self._roster.hosts.values()
        )

    def _note_backlogs(self, now: int) -> None:
        hosts = self._roster.hosts
        self._backlogs = {key: each for key, each in self._backlogs.items() if key in hosts}
        for host in hosts.values():
            beat, sentence = host.beat, None
            if beat is not None and host.reachability == "live":
                backlog = self._backlogs.setdefault(host.id, Backlog())
                applied = host.applied.get(beat.spool_id, 0)
                sentence = backlog.look(now, beat.spool_id, beat.seq, applied)
            if sentence is None:
                host.troubles.pop("backlog", None)
            else:
                host.troubles["backlog"] = sentence
