"""The consumer: reads every host's stream from its own cursor and feeds the roster, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from adsum_hub.clock import Clock
from adsum_hub.roster import Roster
from adsum_hub.snapshots import covers, load_applied, load_snapshot, save_snapshot
from adsum_shared import streams
from adsum_shared.beat import decode_beat
from adsum_shared.connect import UNAVAILABLE, Redis, backoff, require_recent, wanted
from adsum_shared.envelope import Batch, DecodeError, decode_batch

log = logging.getLogger(__name__)

BLOCK_MS = 500
#: Entries of one host per read: small enough that one host's backlog does not starve the others.
COUNT = 200
SAVE_INTERVAL_S = 0.25
#: A replay asked for so often and never sent: the collector does not have these numbers either.
WANTS_BEFORE_SKIP = 5


class Link:
    """Whether Redis answers, for `/readyz` and the page. problem is a sentence for people."""

    def __init__(self) -> None:
        self.problem: str | None = "Not connected to Redis yet."
        self.read_at = 0

    def up(self, now: int) -> None:
        if self.problem is not None:
            log.info("reading from Redis")
        self.problem = None
        self.read_at = now

    def down(self, error: Exception) -> None:
        problem = f"Redis cannot be read ({str(error) or type(error).__name__}); trying again."
        if self.problem != problem:
            log.warning("%s", problem)
        self.problem = problem


class Consumer:
    """reader blocks and belongs to `follow` alone; redis is for everything else.

    arrived() is called after every read that changed something, so that it is told at once.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        reader: Redis,
        redis: Redis,
        clock: Clock,
        link: Link,
        arrived: Callable[[], None],
    ) -> None:
        self._roster = roster
        self._reader = reader
        self._redis = redis
        self._clock = clock
        self._link = link
        self._arrived = arrived
        self._wants: dict[str, tuple[str, int]] = {}

    async def follow(self) -> None:
        """Read for ever. Reconnects by itself; ends only with a broker that is too old."""
        pauses = backoff()
        while wanted():
            try:
                require_recent(await self._redis.info("server"))
                await self._resume()
                self._link.up(self._clock())
                pauses = backoff()
                while wanted():
                    await self._discover()
                    await self._read()
                    self._link.up(self._clock())
            except UNAVAILABLE as error:
                self._link.down(error)
                await self._reader.connection_pool.disconnect()
                await asyncio.sleep(next(pauses))

    async def _resume(self) -> None:
        """A stream that was wiped or rolled back restarts below our cursor: read it from 0.

        What it repeats is known by its numbers; what it lacks the collectors send again.
        """
        for host in self._roster.hosts.values():
            head = await self._head(host.id)
            if _entry(head) < _entry(host.cursor):
                log.warning("the stream of %s went back from %s to %s", host.id, host.cursor, head)
                host.cursor = "0-0"

    async def _head(self, host_id: str) -> str:
        try:
            info: Any = await self._redis.xinfo_stream(streams.inbox(host_id))
        except UNAVAILABLE as error:
            if "no such key" in str(error):
                return "0-0"
            raise
        head = info["last-generated-id"]
        return head.decode() if isinstance(head, bytes) else str(head)

    async def _discover(self) -> None:
        known: Any = await self._redis.smembers(streams.HOSTS)
        for host_id in {raw.decode() for raw in known} - self._roster.hosts.keys():
            snapshot = await load_snapshot(self._redis, host_id)
            host = self._roster.add(host_id, snapshot, self._clock())
            if _entry(await self._head(host_id)) < _entry(host.cursor):
                host.cursor = "0-0"
            log.info("host %s: %d sessions restored", host_id, len(snapshot.sessions))
            self._arrived()

    async def _read(self) -> None:
        cursors = {streams.inbox(host.id): host.cursor for host in self._roster.hosts.values()}
        if not cursors:
            await asyncio.sleep(BLOCK_MS / 1000)
            return
        streams_read: Any = cursors  # the library wants dict[KeyT, …], which is invariant
        reply: Any = await self._reader.xread(streams_read, count=COUNT, block=BLOCK_MS)
        for key, entries in reply:
            host_id = streams.host_of(key.decode())
            for entry_id, fields in entries:
                await self._take(host_id, entry_id.decode(), fields)
        if reply:
            self._arrived()

    async def _take(self, host_id: str, entry_id: str, fields: dict[bytes, bytes]) -> None:
        host = self._roster.hosts[host_id]
        try:
            batch = decode_batch(fields)
        except DecodeError as error:
            # Set aside, its numbers passed over as a gap: one bad entry must not block a host.
            self._roster.counts["undecodable"] += 1
            log.warning("entry %s of host %s set aside: %s", entry_id, host_id, error.cause)
            host.problem = f"Entry {entry_id} could not be read: {error.cause}."
            if error.span is not None:
                self._roster.apply(host_id, error.span, self._clock())
            host.cursor = entry_id
            return
        missing = self._roster.apply(host_id, batch, self._clock())
        if missing:
            await self._fill(host_id, batch, missing)
        else:
            self._wants.pop(host_id, None)
        # `_fill` may have moved the cursor on, to where another hub has read.
        host.cursor = max(host.cursor, entry_id, key=_entry)

    async def _fill(self, host_id: str, batch: Batch, missing: int) -> None:
        """Numbers are missing: look whether another hub has them, else ask for them again.

        The batch itself is dropped: the replay brings it once more, after what is missing.
        """
        snapshot = await load_snapshot(self._redis, host_id)
        if covers(snapshot.applied, self._roster.hosts[host_id].applied) and (
            snapshot.applied.get(batch.spool_id, 0) >= missing
        ):
            self._roster.reload(host_id, snapshot)
            missing = self._roster.apply(host_id, batch, self._clock())
            if not missing:
                return
        want = f"{batch.spool_id}:{missing}"
        if not await self._redis.set(streams.want(host_id), want, nx=True, px=streams.WANT_TTL_MS):
            return
        wanted, times = self._wants.get(host_id, (want, 0))
        self._wants[host_id] = (want, times + 1 if wanted == want else 1)
        log.warning("host %s: asked to replay from %s", host_id, want)
        if self._wants[host_id][1] > WANTS_BEFORE_SKIP:
            log.error("host %s: numbers %d to %d are lost", host_id, missing, batch.first - 1)
            self._roster.skip(host_id, batch)
            self._roster.apply(host_id, batch, self._clock())
            del self._wants[host_id]

    async def listen(self) -> None:
        """Heartbeats: who can be reached, and what time it is there."""
        while wanted():
            try:
                await self._hear()
            except UNAVAILABLE as error:
                self._link.down(error)
            await asyncio.sleep(1.0)

    async def _hear(self) -> None:
        hosts = list(self._roster.hosts)
        pipeline = self._redis.pipeline(transaction=False)
        for host_id in hosts:
            pipeline.get(streams.beat(host_id))
            pipeline.pttl(streams.beat(host_id))
        if not hosts:
            return
        replies = await pipeline.execute()
        now = self._clock()
        for host_id, raw, ttl in zip(hosts, replies[::2], replies[1::2], strict=True):
            beat = decode_beat(raw) if raw is not None else None
            if beat is not None and host_id in self._roster.hosts:
                age = max(0, streams.BEAT_TTL_MS - int(ttl))
                self._roster.hear(host_id, beat, age, now)
        self._arrived()

    async def save(self) -> None:
        """Persist for ever what has changed, each host at most every SAVE_INTERVAL_S."""
        while wanted():
            await asyncio.sleep(SAVE_INTERVAL_S)
            try:
                await self.save_once()
            except UNAVAILABLE as error:
                self._link.down(error)

    async def save_once(self) -> None:
        for host in list(self._roster.hosts.values()):
            if not host.needs_saving():
                continue
            header, dirty, gone = host.take_dirty()
            try:
                version = await save_snapshot(self._redis, host.id, header, dirty, gone)
            except BaseException:
                host.not_saved(set(dirty), gone)
                raise
            if version is not None:
                host.saved_as(version, header)
                continue
            host.not_saved(set(dirty), gone)
            host.lost_race(*await load_applied(self._redis, host.id))
            self._roster.counts["conflicts"] += 1


def _entry(entry_id: str) -> tuple[int, int]:
    """A stream id as Redis orders it."""
    incarnation, _, seq = entry_id.partition("-")
    return int(incarnation), int(seq or 0)
