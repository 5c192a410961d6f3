"""Broadcast: every change encoded once and sent to all, coalesced for whoever cannot keep up.

A change goes out at once as long as a budget of sends lasts; then one message per TICK_S carries
all that changed, 70 to 150 times cheaper than a frame per change and client. A tick for everything
after the first change was rejected: at 100 changes a second it adds 25 ms to nearly all of them.
No client has a queue: it has an offset. One that comes late for its next message gets all it has
missed as one, the latest view of each session, or a fresh snapshot.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import Any, NamedTuple

import msgspec

from adsum_hub.clock import Clock
from adsum_hub.roster import Changes, Roster

TICK_S = 0.05
#: A flush costs FLUSH_COST plus one per client; about 10 us each, so at most a tenth of a core.
SENDS_PER_S = 10_000
SENDS_SAVED = 1_000
FLUSH_COST = 20
#: Of silence, after which a client is told that the hub is still there.
HEARTBEAT_S = 10.0
RING_MESSAGES = 4096
RING_BYTES = 4_000_000
#: A client that has missed more than this gets a snapshot instead.
MERGED_BYTES = 1_000_000

_encode = msgspec.json.Encoder().encode


class Delta(NamedTuple):
    """One message's worth of changes; the views are encoded already. None: it is gone."""

    offset: int
    sessions: dict[str, msgspec.Raw | None]
    hosts: dict[str, msgspec.Raw | None]
    message: bytes


def merge(views: Iterable[dict[str, msgspec.Raw | None]]) -> dict[str, msgspec.Raw | None]:
    """The latest of each."""
    merged: dict[str, msgspec.Raw | None] = {}
    for each in views:
        merged |= each
    return merged


def parts(
    sessions: dict[str, msgspec.Raw | None], hosts: dict[str, msgspec.Raw | None]
) -> dict[str, Any]:
    return {
        "sessions": [raw for raw in sessions.values() if raw is not None],
        "gone": [key for key, raw in sessions.items() if raw is None],
        "hosts": [raw for raw in hosts.values() if raw is not None],
        "gone_hosts": [key for key, raw in hosts.items() if raw is None],
    }


class Broadcast:
    """epoch names this run of the hub: offsets of another run mean nothing here."""

    def __init__(self, roster: Roster, clock: Clock) -> None:
        self.epoch = secrets.token_hex(8)
        self.offset = 0
        self.clients = 0
        #: set by every flush: deadlines may have moved
        self.flushed = asyncio.Event()
        self._roster = roster
        self._clock = clock
        self._ring: deque[Delta] = deque()
        self._ring_bytes = 0
        self._wakers: set[asyncio.Event] = set()
        self._flushed = 0.0
        self._budget = float(SENDS_SAVED)
        self._timer: asyncio.TimerHandle | None = None
        self._snapshot: tuple[int, bytes] | None = None

    def tell(self) -> None:
        """Something may have changed. Sent now, or with the next tick if the budget is spent."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        passed = loop.time() - self._flushed
        affordable = self._budget + passed * SENDS_PER_S >= FLUSH_COST + self.clients
        if affordable or passed >= TICK_S:
            self.flush()
        else:
            self._timer = loop.call_later(TICK_S - passed, self.flush)

    def flush(self) -> None:
        self._timer = None
        changes = self._roster.take_changes(self._clock())
        self.flushed.set()
        if not changes:
            return
        self._spend()
        self.offset += 1
        self._append(changes)
        for waker in self._wakers:
            waker.set()

    def _spend(self) -> None:
        now = asyncio.get_running_loop().time()
        saved = min(SENDS_SAVED, self._budget + (now - self._flushed) * SENDS_PER_S)
        self._budget = max(0.0, saved - FLUSH_COST - self.clients)
        self._flushed = now

    def _append(self, changes: Changes) -> None:
        sessions: dict[str, msgspec.Raw | None] = dict.fromkeys(changes.gone)
        hosts: dict[str, msgspec.Raw | None] = dict.fromkeys(changes.gone_hosts)
        sessions |= {view.id: msgspec.Raw(_encode(view)) for view in changes.sessions}
        hosts |= {view.id: msgspec.Raw(_encode(view)) for view in changes.hosts}
        message = self._message("deltas", parts(sessions, hosts))
        self._ring.append(Delta(self.offset, sessions, hosts, message))
        self._ring_bytes += len(message)
        while len(self._ring) > RING_MESSAGES or (
            self._ring_bytes > RING_BYTES and len(self._ring) > 1
        ):
            self._ring_bytes -= len(self._ring.popleft().message)

    def _message(self, kind: str, body: dict[str, Any]) -> bytes:
        header = {"type": kind, "epoch": self.epoch, "offset": self.offset, "now": self._clock()}
        return _encode(header | body)

    def snapshot(self) -> bytes:
        """Everything, as of `offset`. Kept for the others who connect at the same offset."""
        if self._snapshot is None or self._snapshot[0] != self.offset:
            body = {
                "sessions": list(self._roster.views.values()),
                "hosts": list(self._roster.all_hosts()),
            }
            self._snapshot = (self.offset, self._message("snapshot", body))
        return self._snapshot[1]

    def since(self, offset: int) -> bytes | None:
        """One message with all changes after `offset`, or None if they are not kept any more."""
        missed = self.offset - offset
        if missed < 0 or missed > len(self._ring):
            return None
        if missed == 1:
            return self._ring[-1].message
        deltas = [self._ring[index - missed] for index in range(missed)]
        if sum(len(delta.message) for delta in deltas) > MERGED_BYTES:
            return None
        sessions = merge(delta.sessions for delta in deltas)
        return self._message("deltas", parts(sessions, merge(delta.hosts for delta in deltas)))

    async def subscribe(self, epoch: str | None, offset: int | None) -> AsyncGenerator[bytes, None]:
        """Messages for one client, for ever: what it missed or a snapshot, then what changes."""
        at = offset if epoch == self.epoch and offset is not None else -1
        waker = asyncio.Event()
        self._wakers.add(waker)
        self.clients += 1
        try:
            if at < 0 or self.since(at) is None:
                # The offset belongs to the message, not to the moment its sending has ended.
                message, at = self.snapshot(), self.offset
                yield message
            while True:
                waker.clear()
                if at != self.offset:
                    message, at = self.since(at) or self.snapshot(), self.offset
                    yield message
                    continue
                try:
                    await asyncio.wait_for(waker.wait(), HEARTBEAT_S)
                except TimeoutError:
                    yield self._message("tick", {})
        finally:
            self._wakers.discard(waker)
            self.clients -= 1
