"""Encodes every change once and sends it to all, coalesced for whoever cannot keep up.

A change goes out at once as long as a budget of sends lasts; then one message carries all that
changed until the budget allows the next, TICK_S later at most: 70 to 150 times cheaper than a frame
per change and client. A tick for everything after the first change was rejected: at 100 changes a
second it adds 25 ms to nearly all of them.
No client has a queue: it has an offset. One that comes late for its next message gets all it has
missed as one, the latest view of each session, or a fresh snapshot.
"""

import asyncio
import contextlib
import gc
import secrets
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from heapq import nsmallest
from typing import Any, NamedTuple

import msgspec

from adsum_hub.clock import Clock
from adsum_hub.roster import Changes, Roster
from adsum_shared.state import Group, HostView, HubTrouble, SessionView

#: An event loop's timers ring up to so much early.
EARLY_S = 0.001


class Waiters:
    """Whoever waits for something new: all are woken at once, or each when it has waited long enough.

    A thousand clients wait ten times a second, so each has no event and no time-out of its own.
    """

    def __init__(self) -> None:
        #: until when each waits; all wait equally long, so the first is due first
        self._due: dict[asyncio.Future[bool], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due)

    async def wait(self, longest_s: float) -> bool:
        """Whether there is something new; else so much time has passed. The same for all."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        due = self._due[waiter] = loop.time() + longest_s
        if self._timer is None:
            self._timer = loop.call_at(due, self._look)
        try:
            return await waiter
        finally:
            self._due.pop(waiter, None)

    def wake(self) -> None:
        waiting, self._due = self._due, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(True)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time() + EARLY_S, None
        for waiter, due in self._due.items():
            if due > now:
                self._timer = loop.call_at(due, self._look)
                return
            if not waiter.done():
                waiter.set_result(False)


class SendBudget:
    """What costs is done at once while a budget lasts, and then as often as that allows.

    per_s: units that a second brings. saved: the most that are kept for a burst.
    """

    def __init__(self, per_s: float, saved: float) -> None:
        self._per_s, self._saved, self._left = per_s, saved, saved
        self._at = 0.0

    def wait(self, cost: float, now: float, longest: float) -> float:
        """The seconds until so much can be spent; no more than `longest` after the last time."""
        short = cost - self._at_hand(now)
        if short <= 0:
            return 0.0
        return max(0.0, min(short / self._per_s, self._at + longest - now))

    def spend(self, cost: float, now: float) -> None:
        self._left = max(0.0, self._at_hand(now) - cost)
        self._at = now

    def _at_hand(self, now: float) -> float:
        return min(self._saved, self._left + (now - self._at) * self._per_s)


RING_MESSAGES = 4096
RING_BYTES = 4_000_000
#: A client that has missed more than this gets a snapshot instead.
MERGED_BYTES = 1_000_000

#: By id; None: it is gone.
Views = dict[str, msgspec.Raw | None]


class Delta(NamedTuple):
    """One message's worth of changes."""

    sessions: Views
    hosts: Views
    message: bytes


def merge(views: Iterable[Views]) -> Views:
    """The latest of each."""
    merged: Views = {}
    for each in views:
        merged |= each
    return merged


def parts(sessions: Views, hosts: Views) -> dict[str, Any]:
    return {
        "sessions": [raw for raw in sessions.values() if raw is not None],
        "gone": [key for key, raw in sessions.items() if raw is None],
        "hosts": [raw for raw in hosts.values() if raw is not None],
        "gone_hosts": [key for key, raw in hosts.items() if raw is None],
    }


class RecentDeltas:
    """The latest changes, encoded once each; several are merged for a client that has missed them.

    `count` is always that of the newest: 1 means the last one alone.
    """

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()
        self._bytes = 0

    def append(self, delta: Delta) -> None:
        self._deltas.append(delta)
        self._bytes += len(delta.message)
        while len(self._deltas) > RING_MESSAGES or (
            self._bytes > RING_BYTES and len(self._deltas) > 1
        ):
            self._bytes -= len(self._deltas.popleft().message)

    def can_merge(self, count: int) -> bool:
        """Whether so many are kept, and few enough bytes to be one message."""
        if not 0 <= count <= len(self._deltas):
            return False
        if count <= 1:
            return True
        return (
            sum(len(self._deltas[-index].message) for index in range(1, count + 1)) <= MERGED_BYTES
        )

    def newest(self) -> bytes:
        return self._deltas[-1].message

    def merged(self, count: int) -> dict[str, Any]:
        deltas = [self._deltas[index - count] for index in range(count)]
        sessions = merge(delta.sessions for delta in deltas)
        return parts(sessions, merge(delta.hosts for delta in deltas))


#: Of a section, as many as most screens hold: a card more is a millisecond later. And of those on
#: hosts that are offline, which stand below.
FIRST, FIRST_AWAY = 8, 2
#: Fewer than that make no second part.
FEW = 100
#: A later part is that large at least, and there are no more of them than that: each is deflated once
#: for all who come in one moment, and kept until they have taken it.
LEAST, MOST = 500, 6


class ListSnapshot(NamedTuple):
    """at: the hub's clock, ms. messages: one, or the parts."""

    offset: int
    at: int
    trouble: HubTrouble | None
    messages: tuple[bytes, ...]


def bodies(
    views: Sequence[SessionView], hosts: Sequence[HostView], *, in_parts: bool
) -> list[dict[str, Any]]:
    """Of the messages. The hosts are in the first, what is still to come in all but the last."""
    whole: dict[str, Any] = {"sessions": views, "hosts": hosts}
    if not in_parts or len(views) <= FEW:
        return [whole]
    first = _first(views)
    named = {view.id for view in first}
    rest = [view for view in views if view.id not in named]
    size = max(LEAST, -(-len(rest) // MOST))
    parts: list[dict[str, Any]] = [{"sessions": first, "hosts": hosts}]
    parts += [{"sessions": rest[at : at + size]} for at in range(0, len(rest), size)]
    more: Counter[Group] = Counter()
    for part, after in zip(reversed(parts[:-1]), reversed(parts[1:]), strict=True):
        more.update(view.state.group for view in after["sessions"] if _is_here(view))
        part["more"] = {group.value: more[group] for group in Group}
    return parts


def _first(views: Sequence[SessionView]) -> list[SessionView]:
    """Of each section and of those of hosts that are offline, in the order of all clients."""
    places: defaultdict[tuple[Group, bool], list[SessionView]] = defaultdict(list)
    for view in views:
        places[view.state.group, _is_here(view)].append(view)
    return [
        view
        for (_, here), place in places.items()
        for view in nsmallest(
            FIRST if here else FIRST_AWAY, place, key=lambda view: (view.rank, view.id)
        )
    ]


def _is_here(view: SessionView) -> bool:
    return view.reachability != "offline"


TICK_S = 0.2
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


class Phase(Enum):
    """READING what was stored, SETTLING (all is read, not all resolved), and then LIVE."""

    READING = auto()
    SETTLING = auto()
    LIVE = auto()


class Broadcast:
    """epoch names this run of the hub: offsets of another run mean nothing here."""

    def __init__(self, roster: Roster, clock: Clock) -> None:
        self.epoch = secrets.token_hex(8)
        self.offset = 0
        self.clients = 0
        #: the seconds until what arrives now is sent
        self.rest = 0.0
        #: what keeps the list from being true; None: nothing
        self.trouble: HubTrouble | None = None
        self._phase = Phase.LIVE
        #: set after a flush: deadlines may have moved. For whoever waits, and clears it
        self.flushed = asyncio.Event()
        #: told of every change at once, so they only note it
        self.listeners: list[Callable[[Changes], None]] = []
        self._roster, self._clock = roster, clock
        self.measures = roster.measures
        self._recent = RecentDeltas()
        self._waiters = Waiters()
        self._budget = SendBudget(SENDS_PER_S, SENDS_SAVED)
        self._timer: asyncio.TimerHandle | None = None
        #: by whether it is in parts
        self._snapshots: dict[bool, ListSnapshot] = {}
        #: by the offset they begin after, up to now
        self._merged: dict[int, bytes] = {}
        #: whether anybody was: before that, no change has to be kept for one who has missed it
        self._told = False

    @property
    def restoring(self) -> bool:
        """Until what was stored is in the list, no client gets any of it.

        To one that comes back after a restart it would look as if sessions had vanished, or gone
        back in time.
        """
        return self._phase is not Phase.LIVE

    def begin_restoring(self) -> None:
        self._phase = Phase.READING

    def notify(self) -> None:
        """Something may have changed. Sent now, or after `rest`, when notified again."""
        loop = asyncio.get_running_loop()
        wait = self.rest = self._budget.wait(self._cost(), loop.time(), TICK_S)
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
        if not self._is_reading():
            self._flush()
        if self._timer is None:
            self.measures.flushed()

    def _flush(self) -> None:
        changes = self._roster.take_changes(self._clock())
        self.flushed.set()
        restored = self._phase is Phase.SETTLING and not changes.more
        if changes.more or (restored and self._roster.settle(self._clock())):
            rest = 0.0 if self.restoring else REST_S
            self._timer = asyncio.get_running_loop().call_later(rest, self.flush)
        elif restored:
            self._phase = Phase.LIVE
            self._wake()
        if not changes:
            return
        for heard in self.listeners:
            heard(changes)
        self._budget.spend(self._cost(), asyncio.get_running_loop().time())
        self.offset += 1
        self.measures.encoded(changes.sessions, changes.gone, self.offset, self._clock())
        self._merged.clear()
        if self._told or not self.restoring:
            self._append(changes)
        self._wake()

    def _is_reading(self) -> bool:
        """What was stored is resolved when all is read: earlier its hosts are not heard, so all twice."""
        if self.restoring:
            gc.freeze()  # what is restored lives on: the collector need not look at it again
        return self._phase is Phase.READING and not (self.trouble and self.trouble.blind)

    def set_trouble(self, trouble: HubTrouble | None) -> None:
        """Told to everyone at once; it changes nothing in the list, so no offset either."""
        if trouble != self.trouble:
            self.trouble = trouble
            self._wake()

    def restored(self) -> None:
        """All that was stored has been read; once it is resolved as well, clients are let in.

        Called after every read, and only the first is news. To notify each time spent the budget on
        what was read before a pause, and let what came during it wait for a second one.
        """
        if self._phase is Phase.READING:
            self._phase = Phase.SETTLING
            self.notify()

    def _wake(self) -> None:
        self._waiters.wake()

    def _append(self, changes: Changes) -> None:
        sessions: Views = dict.fromkeys(changes.gone)
        hosts: Views = dict.fromkeys(changes.gone_hosts)
        sessions |= {view.id: msgspec.Raw(_encode(view)) for view in changes.sessions}
        hosts |= {view.id: msgspec.Raw(_encode(view)) for view in changes.hosts}
        message = self._message("deltas", parts(sessions, hosts))
        self._recent.append(Delta(sessions, hosts, message))

    def _message(self, kind: str, body: dict[str, Any]) -> bytes:
        header = {"type": kind, "epoch": self.epoch, "offset": self.offset, "now": self._clock()}
        return _encode(header | body)

    def _tick(self) -> bytes:
        return self._message("tick", self._trouble_field())

    def _trouble_field(self) -> dict[str, Any]:
        return {"trouble": self.trouble} if self.trouble is not None else {}

    def snapshot(self, seen: int = NOTHING, *, in_parts: bool = False) -> ListSnapshot:
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
            messages = tuple(
                self._message("snapshot", each | self._trouble_field()) for each in made
            )
            kept = self._snapshots[in_parts] = ListSnapshot(
                self.offset, now, self.trouble, messages
            )
        return kept

    def _can_merge(self, offset: int) -> bool:
        return self._recent.can_merge(self.offset - offset)

    def since(self, offset: int) -> bytes:
        """One message with all changes after `offset`, where they can be merged."""
        missed = self.offset - offset
        if missed == 1:
            return self._recent.newest()
        message = self._merged.get(offset)
        if message is None:
            # Whoever is late is so together with others: a busy hub's clients all are.
            message = self._message("deltas", self._recent.merged(missed))
            self._merged[offset] = message
        return message

    async def subscribe(
        self, epoch: str | None, offset: int | None, *, in_parts: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Messages for one client, for ever: what it missed or a snapshot, then what changes."""
        at = offset if epoch == self.epoch and offset is not None else NOTHING
        # What it was told last. One that comes back may have been told anything: it gets a tick.
        sent_trouble: tuple[HubTrouble | None] | None = None
        with self._client():
            await self._let_in()
            while True:
                # The offset belongs to the message, not to the moment its sending has ended.
                if at != self.offset and not self._can_merge(at):
                    at, _, trouble, whole = self.snapshot(at, in_parts=in_parts)
                    sent_trouble = (trouble,)
                    for message in whole:
                        yield message
                    continue
                if at != self.offset:
                    before, message, at = at, self.since(at), self.offset
                    yield message
                    # Whoever asks for the next has handed this one to the client's socket. What
                    # one that comes back had missed, perhaps since yesterday, is not measured.
                    if sent_trouble is not None:
                        self.measures.sent(before, at, self._clock())
                    continue
                if sent_trouble != (self.trouble,):
                    sent_trouble = (self.trouble,)
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
