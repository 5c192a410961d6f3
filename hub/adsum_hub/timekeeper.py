"""The timekeeper fires deadlines and takes silent hosts offline, unless the hub is deaf."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from adsum_hub.clock import Clock
from adsum_hub.host_troubles import Backlog
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.roster import Roster
from adsum_hub.trouble import Link, Writes
from adsum_shared.connect import wanted
from adsum_shared.state import HubTrouble

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
        self._roster = roster
        self._broadcast = broadcast
        self._link = link
        self._writes = writes
        self._clock = clock
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
