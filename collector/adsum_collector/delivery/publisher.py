"""The publisher copies the spool into the host's stream, once and in order, under an identity that is ours alone.

First it recognises a state directory that was moved here, or is a copy of one in use (Arrival). A
fingerprint changes for harmless reasons: a container is made anew, a machine-id is written afresh,
a disk is put into another computer. Then the machine is to go on as the one it was; a new identity
would leave its sessions behind under the old one. It is a copy for certain if the old identity is
in use while we hold its directory: somebody else renews its heartbeat. Only then do we become a
new machine. Where nobody does (the original sleeps, Redis forgot), we stay the old one; should the
original come back, both are told that they are two, each under a spool of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec
from redis.exceptions import ResponseError

from adsum_collector.delivery.resume import (
    CollectorRun,
    EntryId,
    Head,
    HubProgress,
    Runs,
    read_runs,
    wanted_after,
    where_to_resume,
    written,
)
from adsum_collector.delivery.transports import Inbox, Transport
from adsum_collector.errors import (
    DeliveryError,
    HubError,
    SpoolUnavailable,
    StartError,
    StreamMovedError,
    StreamUnusableError,
)
from adsum_collector.spool.spool import Rows, Spool, SpoolGap
from adsum_collector.state_dir import Identity, confirm_identity, renew_identity
from adsum_shared import Timer, streams
from adsum_shared.connect import UNAVAILABLE, backoff, wanted
from adsum_shared.envelope import NONCE_BEFORE, Beat, encode_batch, encode_beat, encode_gap
from adsum_shared.host_keys import OddReplyError
from adsum_shared.redis_errors import BrokerTooOldError, cause_of

log = logging.getLogger(__name__)

#: Between two looks at the heartbeat. It is renewed every two seconds, and gone after ten.
LOOK_S = 0.5
#: In the spool's state: under whose identity it is told; and, until it is known whether it is a
#: copy, the last number it brought along.
HOST = "host"
ARRIVED = "arrived"


class Arrival:
    """adopt: called with the identity that this machine has from now on."""

    def __init__(
        self, state_dir: Path, identity: Identity, spool: Spool, adopt: Callable[[Identity], None]
    ) -> None:
        self._state_dir, self._identity, self._spool = state_dir, identity, spool
        self._adopt = adopt
        self._brought = spool.last_seq

    @property
    def host_id(self) -> str:
        return self._identity.host_id

    async def begin(self) -> None:
        """Before the spool accepts anything, and again if that failed. Raises SpoolUnavailable."""
        state, host = self._spool.state, self.host_id.encode()
        is_others = state.get(HOST, host) != host
        changes: dict[str, bytes | None] = {}
        if state.get(HOST) != host:
            changes[HOST] = host
        if self._identity.moved != (ARRIVED in state):
            brought = 0 if is_others else self._brought
            changes[ARRIVED] = b"%d" % brought if self._identity.moved else None
        if is_others:
            # What the directory brought along is the original's, which has it too and sends it.
            without = [(1, int(state[ARRIVED]))] if ARRIVED in state else []
            await self._spool.begin_anew("copy", 0, without=without, state=changes)
        elif changes:
            await self._spool.append([], state=changes)

    async def settle(self, inbox: Inbox) -> str | None:
        """Whether we go on as who we were. If not, what to tell people. Raises SpoolUnavailable."""
        told: str | None = None
        if self._identity.moved:
            other = await alive_elsewhere(inbox)
            if other is not None:
                told = (
                    f"This machine's state directory is a copy of {other.label}'s, which is in use "
                    "elsewhere: it has joined as a new machine. Nothing else is to be done."
                )
            self._identity = self._settled(is_copy=other is not None)
            self._adopt(self._identity)
        await self.begin()
        return told

    def _settled(self, *, is_copy: bool) -> Identity:
        identity = self._identity
        try:
            if is_copy:
                here = identity.fingerprint
                return renew_identity(self._state_dir, identity.label, fingerprint=here)
            log.info("this state directory has another machine around it, and is no copy in use")
            return confirm_identity(self._state_dir, identity)
        except (OSError, StartError) as error:
            raise SpoolUnavailable(f"{self._state_dir} cannot be written to: {error}") from error


async def alive_elsewhere(inbox: Inbox) -> Beat | None:
    """The heartbeat of our identity, if somebody renews it while we do not.

    One that only stands there is the last of a collector that was killed. Takes ten seconds then.
    """
    first = await inbox.last_beat()
    while (beat := await inbox.last_beat()) is not None and not beat.stopping:
        if beat != first:
            return beat
        await asyncio.sleep(LOOK_S)
    return None


BATCH_SIGNALS = 1000
BATCH_BYTES = 512 << 10
#: Under load a batch may gather this long. Batches of LOADED signals and more mean load; while we
#: gather, only batches of STILL_LOADED and more justify going on. A lone signal never waits.
LINGER_S = 0.02
LOADED = 8
STILL_LOADED = 50
#: Between two looks at what hubs have and want, and whether somebody else writes.
LOOK_INTERVAL_S = 1.0
#: Between two looks whether the stream still is there.
CHECK_INTERVAL_S = 10.0
#: After a connection that held this long the next wait may be short again. Two copies of one
#: machine that push each other aside must not do so at full speed.
STEADY_S = 5.0
#: What ends a connection and is tried again on the next.
_PASSING = (*UNAVAILABLE, BrokerTooOldError, DeliveryError, OddReplyError, SpoolUnavailable)
#: How long a notice is told after its last cause: of two copies both go on, and one that sends
#: little shows itself only now and then.
NOTICE_S = 600.0
_KEPT = "Nothing is lost: signals wait on this disk."
#: What is told of a spool that is left; see `Runs.why_to_leave`.
LEFT = {
    "copy": str(StreamMovedError()),
    "rollback": "This disk is older than what was sent from it: it was set back, or is a copy. "
    "It begins a new spool and sends what it holds that no hub has.",
}
HUBS_FIRST = (
    "Publishing waits until a hub has read what lies in the stream; if none runs, start one. "
    f"{_KEPT}"
)
#: A request's key outlives our answer by a little: this long the same one is the old one.
SAME_WANT_S = 3.0


class DeliveryProblem:
    """What keeps the publisher from publishing, each cause until that one is over; and notices.

    place: where they are published to, as `Transport.place` has it. now: seconds of wall clock.
    """

    def __init__(self, place: str, now: Timer) -> None:
        self.place, self._now = place, now
        self._broker: str | None = f"Not connected to {place} yet."
        self._refused = self._well = False
        self._spool: str | None = None
        self._stream: str | None = None
        self._logged: set[str] = set()
        self._notices: dict[str, float] = {}

    @property
    def text(self) -> str | None:
        """All of them, the most important first."""
        now = self._now()
        notices = [text for text, at in self._notices.items() if 0 <= now - at < NOTICE_S]
        told = [self._spool, self._broker or self._stream, *notices]
        return " ".join(text for text in told if text) or None

    def report(self, error: Exception) -> None:
        self._well &= isinstance(error, StreamMovedError)
        if isinstance(error, StreamMovedError):
            self.notice(str(error))
        elif isinstance(error, SpoolUnavailable):
            self._spool = f"The spool fails: {error}. Look at that disk. {_KEPT}"
            self._log(self._spool)
        else:
            self._broker = self._describe(error)
            self._refused = isinstance(error, ResponseError | OddReplyError)
            self._refused |= isinstance(error, DeliveryError) and error.refused
            self._log(self._broker)

    def notice(self, text: str) -> None:
        """Told for a while."""
        self._notices[text] = self._now()
        self._log(text)

    def held_up(self, text: str | None) -> None:
        """By the stream itself, on a connection that is well."""
        self._stream = text
        if text:
            self._log(text)

    def reached(self) -> None:
        """The broker answers; what it has refused it may refuse again."""
        if not self._refused:
            self._broker = None

    def publishing(self) -> None:
        """The broker took a batch, or none waits. A connection alone does not end a refused XADD."""
        if not self._well:
            self._well, self._broker = True, None
            self._logged.clear()

    def spool_read(self) -> None:
        self._spool = None

    def _describe(self, error: Exception) -> str:
        if isinstance(error, HubError):
            return f"{error} {_KEPT}"
        if isinstance(error, OddReplyError | StreamUnusableError):
            return f"{self.place}: {error} {_KEPT}"
        if isinstance(error, BrokerTooOldError):
            return str(error)
        return f"{self.place} {cause_of(error)} {_KEPT}"

    def _log(self, news: str) -> None:
        if news not in self._logged:
            log.warning("%s", news)
            self._logged.add(news)


class _Leaving(msgspec.Struct, frozen=True):
    """Why and when (ms) a spool is left, the one that follows it, and the id of its first entry."""

    reason: str
    at: int
    next_id: str
    fence: EntryId


class StreamPosition:
    """sent: the last number of our spool that is in the stream. now: seconds of wall clock.

    free: whether we may publish. moved: others have written since: `find` before the next entry.
    """

    def __init__(self, spool: Spool, nonce: str, problem: DeliveryProblem, now: Timer) -> None:
        self._spool, self._nonce, self._problem, self._now = spool, nonce, problem, now
        self._held = (spool.spool_id, spool.last_seq)
        self._runs = Runs()
        self._leaving: _Leaving | None = None
        self._answered_want: tuple[bytes, float] = (b"", 0.0)
        self.head: EntryId | None = None
        self.spool_id = ""
        self.incarnation = 0
        self.sent = 0
        self.replays = 0
        self.free = False
        self.moved = False

    async def join(self) -> None:
        """Enter our run into the spool's list, before it accepts anything. Raises SpoolUnavailable."""
        spool = self._spool
        spool_id = spool.spool_id
        runs = read_runs(spool.state, spool_id)
        if self._nonce not in runs:
            last = self._held[1] if self._held[0] == spool_id else spool.last_seq
            joined = runs.joined_by(self._nonce, last)
            await spool.append([], state=written(spool.state, spool_id, joined))
            runs = Runs(joined)
        self._runs = runs

    async def find(self, inbox: Inbox) -> None:
        """Where to go on, or why not to: then `free` is False, and this is to be called again."""
        await self.join()
        spool = self._spool
        if self.spool_id != spool.spool_id:
            self.spool_id, self.sent, self._leaving = spool.spool_id, 0, None
        self.free = self.moved = False
        head = await inbox.head()
        self.head = head.id if head else None
        if head is not None and not head.id.leaves_room:
            self._problem.held_up(str(StreamUnusableError(inbox.key)))
            return
        stored, leaving = await inbox.stored(self.spool_id), self._leaving
        if leaving is not None and head is not None and head.id >= leaving.fence:
            await self._follow(inbox, leaving, stored)
        elif reason := leaving.reason if leaving else self._why_to_leave(head, stored):
            await self._leave(inbox, reason, head)
        else:
            await self._go_on(head, stored)

    async def _go_on(self, head: Head | None, stored: HubProgress) -> None:
        place = where_to_resume(
            incarnation=self._spool.incarnation,
            spool_id=self.spool_id,
            sent=self.sent,
            head=head,
            applied=stored.applied,
        )
        if place.incarnation != self._spool.incarnation:
            await self._spool.set_incarnation(place.incarnation)
        self.incarnation = place.incarnation
        self.sent = place.after
        self._problem.held_up(None)
        self.free = True

    async def read(self) -> Rows | SpoolGap | None:
        """What comes next, of one run: an entry names the run whose numbers it holds."""
        _, end = self._runs.author(self.sent + 1)
        most = BATCH_SIGNALS if end is None else min(BATCH_SIGNALS, end - self.sent)
        found = await self._spool.read(self.sent, most, BATCH_BYTES)
        self._problem.spool_read()
        if isinstance(found, SpoolGap) and end is not None and found.last > end:
            return msgspec.structs.replace(found, last=end)
        return found

    async def send(self, inbox: Inbox, found: Rows | SpoolGap) -> int:
        """The next entry; returns the bytes of its signals. Raises StreamMovedError."""
        (nonce, _), (before, _) = map(self._runs.author, (found.first, found.first - 1))
        fields = (
            self._gap(self.spool_id, nonce, found)
            if isinstance(found, SpoolGap)
            else encode_batch(
                spool_id=self.spool_id,
                nonce=nonce,
                sent_at=int(self._now() * 1000),
                first=found.first,
                signals=found.bodies,
            )
        )
        entry = EntryId(self.incarnation, found.last)
        await inbox.add(entry, {**fields, NONCE_BEFORE: before.encode()})
        self.head, self.sent = entry, found.last
        return len(fields.get(b"b", b""))

    async def look(self, inbox: Inbox) -> None:
        """Learns what hubs have stored for good, what they want again, and who else is here."""
        if not self.free:
            await self.find(inbox)
            return
        other, stored, want = await inbox.look(self.spool_id, self.head, others=not self.moved)
        poisoned = other is not None and not other.id.leaves_room
        if poisoned or self._why_to_leave(other, stored):
            await self.find(inbox)
            return
        if other is not None:
            # A higher incarnation costs a commit, so it waits until we have something to send.
            self.moved = True
            if other.nonce not in self._runs:
                self._problem.report(StreamMovedError())
        if self._spool.spool_id == self.spool_id:
            await self._spool.acknowledge(min(stored.applied, self.sent))
            await self._replay(want)

    async def check(self, inbox: Inbox) -> None:
        """A stream deleted or evicted under a living connection is no error of any command."""
        head = await inbox.head()
        if (head.id if head else None) != self.head:
            log.warning("the stream is not where we left it; looking for our place again")
            await self.find(inbox)

    async def _replay(self, want: bytes | None) -> None:
        after = wanted_after(want, self.spool_id, self._spool.last_seq)
        if want is None or after is None:
            return
        before, answered_at = self._answered_want
        if want == before and 0 <= self._now() - answered_at < SAME_WANT_S:
            return
        log.warning("a hub asked to replay after number %d", after)
        self._answered_want = (want, self._now())
        self.replays += 1
        # Higher ids, or readers that are past the old ones would never see the replay.
        self.incarnation += 1
        await self._spool.set_incarnation(self.incarnation)
        self.sent = after

    def _why_to_leave(self, head: Head | None, stored: HubProgress) -> str | None:
        ours = head if head and head.spool_id == self.spool_id else None
        return self._runs.why_to_leave(ours, stored, self._spool.last_seq)

    async def _leave(self, inbox: Inbox, reason: str, head: Head | None) -> None:
        """Our numbers are given out elsewhere too: go on under a spool_id of our own.

        The new spool's first entry goes ahead and closes the stream to whatever of ours is still
        under way: its id is above all we have tried, also where Redis lost those entries.
        """
        self._hold_up(reason)
        newest = max(self._spool.incarnation, head.id.incarnation if head else 0)
        before, fence = self._leaving, EntryId(newest + 1, 1)
        next_id = before.next_id if before else secrets.token_hex(8)
        at = before.at if before else int(self._now() * 1000)
        self._leaving = _Leaving(reason, at, next_id, fence)
        await self._spool.set_incarnation(fence.incarnation)
        await inbox.add(fence, self._gap(next_id, self._nonce, SpoolGap(1, 1, reason, at)))
        self.head = fence

    async def _follow(self, inbox: Inbox, leaving: _Leaving, stored: HubProgress) -> None:
        """The new spool begins once hubs have spoken on all that lies in the stream.

        Before that we could not tell what of ours they have.
        """
        self._hold_up(leaving.reason)
        if stored.cursor < leaving.fence:
            return
        if self._spool.spool_id == self.spool_id:  # else it was damaged meanwhile
            ours = self._runs.delivered(stored.runs, self._spool.last_seq)
            await self._spool.begin_anew(
                leaving.reason,
                leaving.fence.incarnation,
                without=ours,
                spool_id=leaving.next_id,
                state=written(self._spool.state, leaving.next_id, [CollectorRun(self._nonce)]),
                at=leaving.at,
            )
            log.warning("a new spool begins; hubs had of the old one: %s", ours)
            if self._spool.spool_id == leaving.next_id:
                self.spool_id, self.sent, self._leaving = leaving.next_id, 1, None
        await self.find(inbox)

    def _hold_up(self, reason: str) -> None:
        self._problem.notice(LEFT[reason])
        self._problem.held_up(HUBS_FIRST)

    def _gap(self, spool_id: str, nonce: str, gap: SpoolGap) -> dict[bytes, bytes]:
        return encode_gap(
            spool_id=spool_id,
            nonce=nonce,
            sent_at=int(self._now() * 1000),
            first=gap.first,
            last=gap.last,
            reason=gap.reason,
            lost_at=gap.at,
        )


class Publisher:
    """One connection, one batch in flight. Runs until `drain`, through any outage of the broker.

    beat: builds the heartbeat from (sent, stopping); the loop that publishes writes it, so that it
    stops when publishing does. now: seconds of wall clock. arrival: whose host_id may replace ours.
    """

    def __init__(
        self,
        spool: Spool,
        transport: Transport,
        host_id: str,
        *,
        nonce: str,
        beat: Callable[[int, bool], Beat],
        now: Timer,
        arrival: Arrival | None = None,
    ) -> None:
        self._spool, self._transport, self._host_id = spool, transport, host_id
        self._arrival, self._beat = arrival, beat
        self._problem = DeliveryProblem(transport.place, now)
        self._position = StreamPosition(spool, nonce, self._problem, now)
        self._stopping = asyncio.Event()
        self._gathering = False
        #: signals and their bytes, since the start
        self.published = self.published_bytes = 0
        self._beat_due = self._look_due = self._check_due = self._wait_s = 0.0

    @property
    def problem(self) -> str | None:
        return self._problem.text

    @property
    def sent(self) -> int:
        """The last number of this spool that is in the stream, as far as we know."""
        return self._position.sent if self._position.spool_id == self._spool.spool_id else 0

    @property
    def replays(self) -> int:
        """Begun since the start, because a hub asked."""
        return self._position.replays

    async def join(self) -> None:
        """Before the spool accepts anything of this run. Raises SpoolUnavailable."""
        await self._position.join()

    async def run(self) -> None:
        """Returns once `drain` was called and the spool is empty, or the broker is away."""
        waits = backoff()
        while wanted():
            self._wait_s, started = 0.0, self._monotonic()
            if await self._connection() or self._stopping.is_set():
                return
            if self._monotonic() - started > STEADY_S:
                waits = backoff()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._wait_s + next(waits))

    def drain(self) -> None:
        """Publish what is there, say goodbye, and return from `run`."""
        self._stopping.set()
        self._spool.added.set()

    async def _connection(self) -> bool:
        """One connection's life. True if it ended because all is published and we are stopping."""
        try:
            async with self._transport.open() as line:
                self._problem.reached()
                inbox = Inbox(line, self._host_id)
                if self._arrival is not None:
                    if told := await self._arrival.settle(inbox):
                        self._problem.notice(told)
                    inbox = Inbox(line, self._arrival.host_id)
                # Before anything else that may be refused: it tells what was refused the last time.
                await self._write_beat(inbox)
                await self._position.find(inbox)
                self._look_due = 0.0
                self._check_due = self._monotonic() + CHECK_INTERVAL_S
                log.info("publishing to %s after number %d", self._problem.place, self.sent)
                await self._publish(inbox)
        except _PASSING as error:
            self._problem.report(error)
            self._wait_s = error.wait_s if isinstance(error, DeliveryError) else 0.0
            return False
        return True

    async def _publish(self, inbox: Inbox) -> None:
        position = self._position
        while wanted():
            if self._spool.spool_id != position.spool_id:
                await position.find(inbox)  # the spool was damaged and began anew
            await self._keep_appointments(inbox)
            self._spool.added.clear()
            found = await position.read() if position.free else None
            if self._spool.spool_id != position.spool_id:
                continue  # these numbers are another spool's
            if found is not None and not position.moved:
                self.published_bytes += await position.send(inbox, found)
                self.published += len(found.bodies) if isinstance(found, Rows) else 0
                self._problem.publishing()
                await self._gather(found)
            elif found is not None:
                await position.find(inbox)
            else:
                if position.free:
                    self._problem.publishing()
                if self._stopping.is_set():
                    # after the last batch: a hub that sees this has seen everything
                    await self._write_beat(inbox, stopping=True)
                    return
                await self._rest()

    async def _rest(self) -> None:
        wait = min(self._beat_due, self._look_due) - self._monotonic()
        if wait > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._spool.added.wait()

    async def _gather(self, sent: Rows | SpoolGap) -> None:
        """While a batch is under way the next one gathers by itself; this is for more than that."""
        size = len(sent.bodies) if isinstance(sent, Rows) else 0
        self._gathering = size >= (STILL_LOADED if self._gathering else LOADED)
        until = self._monotonic() + LINGER_S
        while self._gathering and not self._stopping.is_set():
            left = until - self._monotonic()
            if left <= 0 or self._spool.last_seq - self.sent >= BATCH_SIGNALS:
                return
            await asyncio.sleep(min(left, LINGER_S / 4))

    async def _keep_appointments(self, inbox: Inbox) -> None:
        now = self._monotonic()
        beats = now >= self._beat_due
        if beats or now >= self._look_due:
            # Together: at rest, a machine then asks once a second.
            if beats:
                inbox.carry(self._heartbeat())
            await self._position.look(inbox)
            self._look_due = now + LOOK_INTERVAL_S
        if now >= self._check_due:
            await self._position.check(inbox)
            self._check_due = now + CHECK_INTERVAL_S

    async def _write_beat(self, inbox: Inbox, *, stopping: bool = False) -> None:
        await inbox.beat(self._heartbeat(stopping=stopping))

    def _heartbeat(self, *, stopping: bool = False) -> bytes:
        self._beat_due = self._monotonic() + streams.BEAT_INTERVAL_MS / 1000
        return encode_beat(self._beat(self.sent, stopping))

    @staticmethod
    def _monotonic() -> float:
        return asyncio.get_running_loop().time()
