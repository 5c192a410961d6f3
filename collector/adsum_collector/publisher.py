"""The publisher: what the spool holds goes into the host's stream, once and in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from adsum_collector.errors import SpoolUnavailable, StreamMovedError
from adsum_collector.inbox import Inbox
from adsum_collector.problems import Problem
from adsum_collector.resume import EntryId, first_of, is_told_by, wanted_after, where_to_resume
from adsum_collector.spool import Spool
from adsum_collector.spool_files import Missing, Rows
from adsum_shared import streams
from adsum_shared.beat import Beat, encode_beat
from adsum_shared.connect import UNAVAILABLE, BrokerTooOldError, backoff, open_redis, wanted
from adsum_shared.envelope import encode_batch, encode_gap

log = logging.getLogger(__name__)

BATCH_SIGNALS = 100
BATCH_BYTES = 512 << 10
#: Under load a batch may gather this long. Batches of LOADED signals and more mean load; while we
#: gather, only batches of STILL_LOADED and more justify going on. A lone signal never waits.
LINGER_S = 0.02
LOADED = 8
STILL_LOADED = 50
#: Between two looks for a hub's request to replay.
LOOK_INTERVAL_S = 1.0
#: Between two looks whether the stream still is what we know of it.
CHECK_INTERVAL_S = 10.0
#: A request's key outlives our answer by a little: this long the same one is the old one.
SAME_WANT_S = 3.0
#: After a connection that held this long the next wait may be short again. Two copies of one
#: machine that push each other aside must not do so at full speed.
STEADY_S = 5.0


class Publisher:
    """One connection, one batch in flight. Runs until `drain`, through any outage of the broker.

    beat: builds the heartbeat from (sent, stopping); the loop that publishes writes it, so that it
    stops when publishing does. now: seconds of wall clock.
    """

    def __init__(
        self,
        spool: Spool,
        url: str,
        host_id: str,
        *,
        nonce: str,
        beat: Callable[[int, bool], Beat],
        now: Callable[[], float],
    ) -> None:
        self._spool = spool
        self._url = url
        self._host_id = host_id
        self._nonce = nonce
        self._beat = beat
        self._now = now
        self._problem = Problem(url, now)
        self._stopping = asyncio.Event()
        self._spool_id = ""
        self._incarnation = 0
        self._gathering = False
        self._answered_want: tuple[bytes, float] = (b"", 0.0)
        self._head: EntryId | None = None
        self._beat_due = self._look_due = self._check_due = 0.0
        self.sent = 0

    @property
    def problem(self) -> str | None:
        return self._problem.text

    async def run(self) -> None:
        """Returns once `drain` was called and the spool is empty, or the broker is away."""
        waits = backoff()
        while wanted():
            started = self._monotonic()
            if await self._connection() or self._stopping.is_set():
                return
            if self._monotonic() - started > STEADY_S:
                waits = backoff()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), next(waits))

    def drain(self) -> None:
        """Publish what is there, say goodbye, and return from `run`."""
        self._stopping.set()
        self._spool.added.set()

    async def _connection(self) -> bool:
        """One connection's life. True if it ended because all is published and we are stopping."""
        pool = open_redis(self._url)
        # The pool would mend a broken connection without a word, and the broker behind the new one
        # may have lost what we sent: this client keeps to one connection and fails with it.
        client = pool.client()
        inbox = Inbox(client, self._host_id)
        try:
            await inbox.require_recent()
            await inbox.enrol()
            await self._find_place(inbox)
            self._beat_due = self._look_due = 0.0
            self._check_due = self._monotonic() + CHECK_INTERVAL_S
            self._problem.connected()
            log.info("publishing to Redis at %s after number %d", self._problem.address, self.sent)
            await self._publish(inbox)
        except (*UNAVAILABLE, BrokerTooOldError, StreamMovedError, SpoolUnavailable) as error:
            self._problem.report(error)
            return False
        finally:
            with contextlib.suppress(*UNAVAILABLE):
                await client.aclose()
                await pool.aclose()
        return True

    async def _find_place(self, inbox: Inbox) -> None:
        spool = self._spool
        if self._spool_id != spool.spool_id:
            self._spool_id, self.sent = spool.spool_id, 0
        self._head = head = await inbox.head()
        if head is not None and not await self._is_ours(inbox, head):
            self._problem.report(StreamMovedError())
            await spool.begin_anew("copy", head.incarnation + 1)
            self.sent = 0
        place = where_to_resume(
            incarnation=spool.incarnation,
            last_seq=spool.last_seq,
            sent=self.sent,
            head=head,
            applied=await inbox.applied(spool.spool_id),
        )
        if place.rolled_back:
            log.warning("this disk is older than what was sent from it: a new spool begins")
            await spool.begin_anew("rollback", place.incarnation)
        elif place.incarnation != spool.incarnation:
            await spool.set_incarnation(place.incarnation)
        self._spool_id = spool.spool_id
        self._incarnation = place.incarnation
        self.sent = place.after

    async def _is_ours(self, inbox: Inbox, head: EntryId) -> bool:
        """Whether we have sent the stream's last entry: a copy of this disk counts as we do."""
        spool = self._spool
        if head.incarnation != spool.incarnation or not self.sent < head.seq <= spool.last_seq:
            return True  # then nothing of ours is left out on this entry's word
        if (entry := await inbox.read(head)) is None or entry.get(b"n") == self._nonce.encode():
            return True
        before = first_of(entry, head.seq) - 1
        found = await spool.read(before, head.seq - before, len(entry.get(b"b", b"")))
        bodies = found.bodies if isinstance(found, Rows) else None
        return is_told_by(entry, spool.spool_id, bodies)

    async def _publish(self, inbox: Inbox) -> None:
        while wanted():
            if self._spool.spool_id != self._spool_id:
                await self._find_place(inbox)  # the spool was damaged and began anew
            await self._keep_appointments(inbox)
            self._spool.added.clear()
            found = await self._spool.read(self.sent, BATCH_SIGNALS, BATCH_BYTES)
            self._problem.spool_read()
            if self._spool.spool_id != self._spool_id:
                continue  # these numbers are another spool's
            if found is not None:
                await self._send(inbox, found)
                await self._gather(found)
            elif self._stopping.is_set():
                # after the last batch: a hub that sees this has seen everything
                await inbox.beat(encode_beat(self._beat(self.sent, True)))  # noqa: FBT003 - `stopping`
                return
            else:
                await self._rest()

    async def _rest(self) -> None:
        wait = min(self._beat_due, self._look_due) - self._monotonic()
        if wait > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._spool.added.wait()

    async def _gather(self, sent: Rows | Missing) -> None:
        """While a batch is under way the next one gathers by itself; this is for more than that."""
        size = len(sent.bodies) if isinstance(sent, Rows) else 0
        self._gathering = size >= (STILL_LOADED if self._gathering else LOADED)
        until = self._monotonic() + LINGER_S
        while self._gathering and not self._stopping.is_set():
            left = until - self._monotonic()
            if left <= 0 or self._spool.last_seq - self.sent >= BATCH_SIGNALS:
                return
            await asyncio.sleep(min(left, LINGER_S / 4))

    async def _send(self, inbox: Inbox, found: Rows | Missing) -> None:
        about = {
            "spool_id": self._spool_id,
            "nonce": self._nonce,
            "sent_at": int(self._now() * 1000),
        }
        if isinstance(found, Missing):
            last = found.last
            fields = encode_gap(first=found.first, last=last, reason=found.reason, **about)  # type: ignore[arg-type] # a dict of their keywords
        else:
            last = found.first + len(found.bodies) - 1
            fields = encode_batch(first=found.first, signals=found.bodies, **about)  # type: ignore[arg-type] # as above
        entry = EntryId(self._incarnation, last)
        await inbox.add(entry, fields)
        self._head, self.sent = entry, last

    async def _keep_appointments(self, inbox: Inbox) -> None:
        now = self._monotonic()
        if now >= self._beat_due:
            await inbox.beat(encode_beat(self._beat(self.sent, False)))  # noqa: FBT003 - not stopping
            self._beat_due = now + streams.BEAT_INTERVAL_MS / 1000
        if now >= self._look_due:
            await self._look(inbox)
            self._look_due = now + LOOK_INTERVAL_S
        if now >= self._check_due:
            await self._check(inbox)
            self._check_due = now + CHECK_INTERVAL_S

    async def _check(self, inbox: Inbox) -> None:
        """A stream deleted or evicted under a living connection is no error of any command."""
        await inbox.enrol()
        if await inbox.head() != self._head:
            log.warning("the stream is not where we left it; looking for our place again")
            await self._find_place(inbox)

    async def _look(self, inbox: Inbox) -> None:
        """Learns what hubs have stored for good, and what they want again."""
        want, applied = await inbox.look(self._spool_id)
        # Beyond what we have sent, what hubs have under this spool_id came from a copy.
        await self._spool.acknowledge(min(applied, self.sent))
        after = wanted_after(want, self._spool_id, self._spool.last_seq)
        if want is None or after is None:
            return
        before, answered_at = self._answered_want
        if want == before and 0 <= self._now() - answered_at < SAME_WANT_S:
            return
        log.warning("a hub asked to replay after number %d", after)
        self._answered_want = (want, self._now())
        # Higher ids, or readers that are past the old ones would never see the replay.
        self._incarnation += 1
        await self._spool.set_incarnation(self._incarnation)
        self.sent = after

    @staticmethod
    def _monotonic() -> float:
        return asyncio.get_running_loop().time()
