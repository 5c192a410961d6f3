"""The publisher: what the spool holds goes into the host's stream, once and in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from adsum_collector.delivery.arrival import Arrival
from adsum_collector.delivery.inbox import Inbox
from adsum_collector.delivery.place import Place
from adsum_collector.delivery.problems import DeliveryProblem
from adsum_collector.delivery.transport import Transport
from adsum_collector.errors import DeliveryError, SpoolUnavailable
from adsum_collector.spool.spool import Rows, Spool, SpoolGap
from adsum_shared import streams
from adsum_shared.beat import Beat, encode_beat
from adsum_shared.connect import UNAVAILABLE, BrokerTooOldError, backoff, wanted
from adsum_shared.envelope import encode_batch, encode_gap
from adsum_shared.host_keys import OddReplyError

log = logging.getLogger(__name__)

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
_PASSING = (
    *UNAVAILABLE,
    BrokerTooOldError,
    DeliveryError,
    OddReplyError,
    SpoolUnavailable,
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
        now: Callable[[], float],
        arrival: Arrival | None = None,
    ) -> None:
        self._spool = spool
        self._transport = transport
        self._host_id = host_id
        self._arrival = arrival
        self._beat = beat
        self._now = now
        self._problem = DeliveryProblem(transport.place, now)
        self._place = Place(spool, nonce, self._problem, now)
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
        return self._place.sent if self._place.spool_id == self._spool.spool_id else 0

    @property
    def replays(self) -> int:
        """Begun since the start, because a hub asked."""
        return self._place.replays

    async def join(self) -> None:
        """Before the spool accepts anything of this run. Raises SpoolUnavailable."""
        await self._place.join()

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
                await line.greet()
                self._problem.reached()
                inbox = Inbox(line, self._host_id)
                if self._arrival is not None:
                    if told := await self._arrival.settle(inbox):
                        self._problem.notice(told)
                    inbox = Inbox(line, self._arrival.host_id)
                # Before anything else that may be refused: it tells what was refused the last time.
                await self._write_beat(inbox)
                await self._place.find(inbox)
                self._look_due = 0.0
                self._check_due = self._monotonic() + CHECK_INTERVAL_S
                self._problem.connected()
                log.info("publishing to %s after number %d", self._problem.place, self.sent)
                await self._publish(inbox)
        except _PASSING as error:
            self._problem.report(error)
            self._wait_s = error.wait_s if isinstance(error, DeliveryError) else 0.0
            return False
        return True

    async def _publish(self, inbox: Inbox) -> None:
        place = self._place
        while wanted():
            if self._spool.spool_id != place.spool_id:
                await place.find(inbox)  # the spool was damaged and began anew
            await self._keep_appointments(inbox)
            self._spool.added.clear()
            found = await self._read() if place.free else None
            if self._spool.spool_id != place.spool_id:
                continue  # these numbers are another spool's
            if found is not None and not place.moved:
                await self._send(inbox, found)
                await self._gather(found)
            elif found is not None:
                await place.find(inbox)
            elif self._stopping.is_set():
                # after the last batch: a hub that sees this has seen everything
                await self._write_beat(inbox, stopping=True)
                return
            else:
                await self._rest()

    async def _read(self) -> Rows | SpoolGap | None:
        """What comes next, of one run."""
        _, end = self._place.author()
        most = BATCH_SIGNALS if end is None else min(BATCH_SIGNALS, end - self.sent)
        found = await self._spool.read(self.sent, most, BATCH_BYTES)
        self._problem.spool_read()
        if isinstance(found, SpoolGap) and end is not None and found.last > end:
            return SpoolGap(found.first, end, found.reason)
        return found

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

    async def _send(self, inbox: Inbox, found: Rows | SpoolGap) -> None:
        about = {
            "spool_id": self._place.spool_id,
            "nonce": self._place.author()[0],
            "sent_at": int(self._now() * 1000),
        }
        if isinstance(found, SpoolGap):
            last = found.last
            fields = encode_gap(first=found.first, last=last, reason=found.reason, **about)  # type: ignore[arg-type] # a dict of their keywords
        else:
            last = found.first + len(found.bodies) - 1
            fields = encode_batch(first=found.first, signals=found.bodies, **about)  # type: ignore[arg-type] # as above
        await self._place.send(inbox, last, fields)
        if not isinstance(found, SpoolGap):
            self.published += len(found.bodies)
            self.published_bytes += len(fields[b"b"])

    async def _keep_appointments(self, inbox: Inbox) -> None:
        now = self._monotonic()
        beats = now >= self._beat_due
        if beats or now >= self._look_due:
            # Together: at rest, a machine then asks once a second.
            if beats:
                inbox.carry(self._heartbeat())
            await self._place.look(inbox)
            self._look_due = now + LOOK_INTERVAL_S
        if now >= self._check_due:
            await self._place.check(inbox)
            self._check_due = now + CHECK_INTERVAL_S

    async def _write_beat(self, inbox: Inbox, *, stopping: bool = False) -> None:
        await inbox.beat(self._heartbeat(stopping=stopping))

    def _heartbeat(self, *, stopping: bool = False) -> bytes:
        self._beat_due = self._monotonic() + streams.BEAT_INTERVAL_MS / 1000
        return encode_beat(self._beat(self.sent, stopping))

    @staticmethod
    def _monotonic() -> float:
        return asyncio.get_running_loop().time()
