"""Broadcast: every change encoded once and sent to all, coalesced for whoever cannot keep up.

A change goes out at once as long as a budget of sends lasts; then one message carries all that
changed until the budget allows the next, TICK_S later at most: 70 to 150 times cheaper than a frame
per change and client. A tick for everything after the first change was rejected: at 100 changes a
second it adds 25 ms to nearly all of them.
No client has a queue: it has an offset. One that comes late for its next message gets all it has
missed as one, the latest view of each session, or a fresh snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import msgspec

from adsum_hub.changes import Changes
from adsum_hub.clock import Clock
from adsum_hub.live.bell import Bell
from adsum_hub.live.pace import Pace
from adsum_hub.live.ring import Delta, Ring, Views, parts
from adsum_hub.live.snapshot_parts import Snapshot, bodies
from adsum_hub.live.waiters import Waiters
from adsum_hub.roster import Roster
from adsum_shared.state import HubTrouble

TICK_S = 0.2
#: To look at all deadlines and hosts after each of 200 flushes a second was a third of the load.
LOOK_S = 0.05
#: For whoever comes back with more to tell.
GRACE_S = 0.005
#: Where one flush could not take all that has changed, the next follows after this.
REST_S = 0.002
#: A flush costs FLUSH_COST plus one per client; about 10 us each, so at most a tenth of a core. With
#: it goes the read of what it tells. Where nobody looks nobody waits for it, so it goes in ticks.
SENDS_PER_S = 5_000
SENDS_SAVED = 500
FLUSH_COST = 25
UNSEEN_COST = 100
#: Of silence, after which a client is told that the hub is still there.
HEARTBEAT_S = 5.0
#: The offset of a client that has nothing of this run.
NOTHING = -1
#: How old the clock in a snapshot may be. All who come in this time share one.
SHARED_MS = 1_000

_encode = msgspec.json.Encoder().encode


class Broadcast:
    """epoch names this run of the hub: offsets of another run mean nothing here."""

    def __init__(self, roster: Roster, clock: Clock) -> None:
        self.epoch = secrets.token_hex(8)
        self.offset = 0
        self.clients = 0
        #: what keeps the list from being true; None: nothing
        self.trouble: HubTrouble | None = None
        #: Until what was stored is in the list, nobody is told of it: to a client that comes back
        #: after a restart it would look as if sessions had vanished, or gone back in time.
        self.restoring = False
        self._bell = Bell(LOOK_S)
        #: set after a flush: deadlines may have moved
        self.flushed = self._bell.rung
        #: told of every change at once, so they only note it
        self.listeners: list[Callable[[Changes], None]] = []
        self._roster = roster
        self._clock = clock
        self._ring = Ring()
        self._waiters = Waiters()
        self._pace = Pace(SENDS_PER_S, SENDS_SAVED)
        self._timer: asyncio.TimerHandle | None = None
        #: by whether it is in parts
        self._snapshots: dict[bool, Snapshot] = {}
        #: by the offset they begin after, up to now
        self._merged: dict[int, bytes] = {}
        self._restored = False
        #: whether anybody was: before that, no change has to be kept for one who has missed it
        self._told = False

    def tell(self) -> None:
        """Something may have changed. Sent now, or after the roster's `rest`, when told again."""
        loop = asyncio.get_running_loop()
        wait = self._roster.rest = self._pace.wait(self._cost(), loop.time(), TICK_S)
        if not wait:
            self.flush()
        elif self._timer is None:
            self._timer = loop.call_later(wait + GRACE_S, self.flush)

    def _cost(self) -> int:
        return FLUSH_COST + self.clients if self.clients else UNSEEN_COST

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._is_reading():
            return
        changes = self._roster.take_changes(self._clock())
        self._bell.ring()
        restored = self._restored and self.restoring and not changes.more
        if changes.more or (restored and self._roster.settle(self._clock())):
            rest = 0.0 if self.restoring else REST_S
            self._timer = asyncio.get_running_loop().call_later(rest, self.flush)
        elif restored:
            self.restoring = False
            self._wake()
        if not changes:
            return
        for heard in self.listeners:
            heard(changes)
        self._pace.spend(self._cost(), asyncio.get_running_loop().time())
        self.offset += 1
        self._merged.clear()
        if self._told or not self.restoring:
            self._append(changes)
        self._wake()

    def _is_reading(self) -> bool:
        """What was stored is resolved when all is read: earlier its hosts are not heard, so all twice."""
        if self.restoring:
            gc.freeze()  # what is restored lives on: the collector need not look at it again
        return self.restoring and not self._restored and not (self.trouble and self.trouble.blind)

    def own_up(self, trouble: HubTrouble | None) -> None:
        """Told to everyone at once; it changes nothing in the list, so no offset either."""
        if trouble != self.trouble:
            self.trouble = trouble
            self._wake()

    def restored(self) -> None:
        """All that was stored has been read; once it is resolved as well, clients are let in."""
        if not self._restored:
            self._restored = True
            self.tell()

    def _wake(self) -> None:
        self._waiters.wake()

    def _append(self, changes: Changes) -> None:
        sessions: Views = dict.fromkeys(changes.gone)
        hosts: Views = dict.fromkeys(changes.gone_hosts)
        sessions |= {view.id: msgspec.Raw(_encode(view)) for view in changes.sessions}
        hosts |= {view.id: msgspec.Raw(_encode(view)) for view in changes.hosts}
        message = self._message("deltas", parts(sessions, hosts))
        self._ring.append(Delta(sessions, hosts, message))

    def _message(self, kind: str, body: dict[str, Any]) -> bytes:
        header = {"type": kind, "epoch": self.epoch, "offset": self.offset, "now": self._clock()}
        return _encode(header | body)

    def _tick(self) -> bytes:
        return self._message("tick", self._owning_up())

    def _owning_up(self) -> dict[str, Any]:
        return {"trouble": self.trouble} if self.trouble is not None else {}

    def snapshot(self, seen: int = NOTHING, *, in_parts: bool = False) -> Snapshot:
        """Everything. Whoever comes within SHARED_MS gets the same, and what has changed since.

        Encoding it anew at every offset would block a busy hub to which all its clients come back.
        Whoever has seen a later offset of this run gets a newer one: no page goes back in time.
        """
        kept, now = self._snapshots.get(in_parts), self._clock()
        fresh = kept is not None and now - kept.at <= SHARED_MS and self._can_merge(kept.offset)
        stale = kept is not None and kept.offset < min(seen, self.offset)
        if kept is None or not fresh or stale or kept.trouble != self.trouble:
            views, hosts = list(self._roster.views.values()), list(self._roster.all_hosts(now))
            made = bodies(views, hosts, in_parts=in_parts)
            messages = tuple(self._message("snapshot", each | self._owning_up()) for each in made)
            kept = self._snapshots[in_parts] = Snapshot(self.offset, now, self.trouble, messages)
        return kept

    def _can_merge(self, offset: int) -> bool:
        return self._ring.can_merge(self.offset - offset)

    def since(self, offset: int) -> bytes:
        """One message with all changes after `offset`, where they can be merged."""
        missed = self.offset - offset
        if missed == 1:
            return self._ring.newest()
        message = self._merged.get(offset)
        if message is None:
            # Whoever is late is so together with others: a busy hub's clients all are.
            message = self._message("deltas", self._ring.merged(missed))
            self._merged[offset] = message
        return message

    async def subscribe(
        self, epoch: str | None, offset: int | None, *, in_parts: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Messages for one client, for ever: what it missed or a snapshot, then what changes."""
        at = offset if epoch == self.epoch and offset is not None else NOTHING
        # What it was told last. One that comes back may have been told anything: it gets a tick.
        told: tuple[HubTrouble | None] | None = None
        with self._client():
            await self._let_in()
            while True:
                # The offset belongs to the message, not to the moment its sending has ended.
                if at != self.offset and not self._can_merge(at):
                    at, _, trouble, whole = self.snapshot(at, in_parts=in_parts)
                    told = (trouble,)
                    for message in whole:
                        yield message
                    continue
                if at != self.offset:
                    message, at = self.since(at), self.offset
                    yield message
                    continue
                if told != (self.trouble,):
                    told = (self.trouble,)
                    yield self._tick()
                    continue
                if not await self._waiters.wait(HEARTBEAT_S) and at == self.offset:
                    yield self._tick()

    @contextlib.contextmanager
    def _client(self) -> Iterator[None]:
        self.clients += 1
        try:
            yield
        finally:
            self.clients -= 1

    async def _let_in(self) -> None:
        # Without Redis there is nothing to wait for, and whoever comes has to learn of it. Any other
        # trouble does not keep the list from becoming whole.
        while self.restoring and not (self.trouble and self.trouble.blind):
            await self._waiters.wait(HEARTBEAT_S)
        self._told = True
