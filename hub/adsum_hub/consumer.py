"""The consumer: reads every host's stream from its own cursor and feeds the roster, in order."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.link import Link
from adsum_hub.replays import Replays
from adsum_hub.roster import Roster
from adsum_hub.snapshots import Snapshot, covers, load_snapshot
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, backoff, require_recent, wanted
from adsum_shared.envelope import Batch, DecodeError, decode_batch

log = logging.getLogger(__name__)

BLOCK_MS = 500
#: Entries of one host per read: small enough that one host's backlog does not starve the others.
COUNT = 50
#: While catching up, browsers and heartbeats get their turn this often.
TURN_S = 0.005
#: A connection that held this long was no failed attempt.
STEADY_S = 5.0
#: A host whose keys are of another type is looked at again after this time.
SET_ASIDE_S = 30.0

HOST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Consumer:
    """reader blocks and belongs to `follow` alone; redis is for everything else.

    arrived() is called after every read that changed something, so that it is told at once;
    greet() when there are new hosts, which nobody has heard yet.
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
        greet: Callable[[], Awaitable[None]],
    ) -> None:
        self._greet = greet
        self._roster = roster
        self._reader = reader
        self._redis = redis
        self._clock = clock
        self._link = link
        self._arrived = arrived
        self._replays = Replays()
        self._aside: dict[str, float] = {}

    async def follow(self) -> None:
        """Read for ever. Reconnects by itself; ends only with a broker that is too old."""
        pauses = backoff()
        loop = asyncio.get_running_loop()
        while wanted():
            since = loop.time()
            try:
                require_recent(await self._redis.info("server"))
                await self._resume()
                while wanted():
                    await self._discover()
                    await self._read()
                    self._link.up(self._clock())
            except UNAVAILABLE as error:
                self._link.down(error)
                await self._reader.connection_pool.disconnect()
                if loop.time() - since > STEADY_S:
                    pauses = backoff()
                await asyncio.sleep(next(pauses))

    async def _resume(self) -> None:
        """A stream that was wiped or rolled back restarts below our cursor: read it from 0.

        What it repeats is known by its numbers; what it lacks the collectors send again.
        """
        for host in self._followed():
            await self._find_place(host)

    async def _find_place(self, host: Host) -> None:
        head = await self._head(host.id)
        if _entry(head) < _entry(host.cursor):
            log.warning("the stream of %s went back from %s to %s", host.id, host.cursor, head)
            host.cursor = "0-0"

    async def _head(self, host_id: str) -> str:
        try:
            info: Any = await self._redis.xinfo_stream(streams.inbox(host_id))
        except ResponseError as error:
            if "no such key" in str(error):
                return "0-0"
            await self._set_aside_wrong_types([self._roster.hosts[host_id]])
            return self._roster.hosts[host_id].cursor
        head = info["last-generated-id"]
        return head.decode() if isinstance(head, bytes) else str(head)

    async def _discover(self) -> None:
        known: Any = await self._redis.smembers(streams.HOSTS)
        before = len(self._roster.hosts)
        for raw in known:
            host_id = raw.decode(errors="replace")
            if host_id in self._roster.hosts or not HOST_ID.fullmatch(host_id):
                continue
            troubles = {}
            try:
                snapshot = await load_snapshot(self._redis, host_id)
            except ResponseError as error:
                snapshot = Snapshot()
                troubles["save"] = f"Its saved state cannot be read ({error})."
            host = self._roster.add(host_id, snapshot, self._clock())
            host.troubles |= troubles
            await self._find_place(host)
            log.info("host %s: %d sessions restored", host_id, len(snapshot.sessions))
        if len(self._roster.hosts) > before:
            await self._greet()

    def _followed(self) -> list[Host]:
        now = asyncio.get_running_loop().time()
        return [host for host in self._roster.hosts.values() if self._aside.get(host.id, 0) <= now]

    async def _read(self) -> None:
        hosts = self._followed()
        if not hosts:
            await asyncio.sleep(BLOCK_MS / 1000)
            return
        cursors: Any = {streams.inbox(host.id): host.cursor for host in hosts}
        try:
            reply: Any = await self._reader.xread(cursors, count=COUNT, block=BLOCK_MS)
        except ResponseError:
            if not await self._set_aside_wrong_types(hosts):
                raise
            return
        turn = asyncio.get_running_loop().time()
        for key, entries in reply:
            host = self._roster.hosts[streams.host_of(key.decode())]
            for entry_id, fields in entries:
                await self._take(host, entry_id.decode(), fields)
                if asyncio.get_running_loop().time() - turn > TURN_S:
                    self._arrived()
                    await asyncio.sleep(0)
                    turn = asyncio.get_running_loop().time()
        if reply:
            self._arrived()

    async def _set_aside_wrong_types(self, hosts: list[Host]) -> bool:
        """Whoever's stream is no stream must not blind us to all others. Whether there was one."""
        found = False
        for host in hosts:
            kind: Any = await self._redis.type(streams.inbox(host.id))
            if kind in (b"stream", b"none"):
                host.troubles.pop("stream", None)
            else:
                found = True
                trouble = f"Its stream is a {kind.decode()}: something else wrote there."
                host.troubles["stream"] = trouble
                log.error("host %s: %s", host.id, trouble)
                self._aside[host.id] = asyncio.get_running_loop().time() + SET_ASIDE_S
        return found

    async def _take(self, host: Host, entry_id: str, fields: dict[bytes, bytes]) -> None:
        host.read_at = self._clock()
        try:
            batch = decode_batch(fields)
        except DecodeError as error:
            # Set aside, its numbers passed over as a gap: one bad entry must not block a host.
            self._roster.counts["undecodable"] += 1
            log.warning("entry %s of host %s set aside: %s", entry_id, host.id, error.cause)
            host.troubles["entry"] = f"Entry {entry_id} could not be read: {error.cause}."
            if error.span is not None:
                self._roster.apply(host.id, error.span, self._clock())
            host.cursor = entry_id
            return
        missing = self._roster.apply(host.id, batch, self._clock())
        if missing:
            await self._fill(host, batch, missing, entry_id)
        else:
            self._replays.filled(host.id)
        # `_fill` may have moved the cursor on, to where another hub has read.
        host.cursor = max(host.cursor, entry_id, key=_entry)

    async def _fill(self, host: Host, batch: Batch, missing: int, entry_id: str) -> None:
        """Numbers are missing: look whether another hub has them, else ask for them again.

        The batch itself is dropped: the replay brings it once more, after what is missing.
        """
        incarnation, _ = _entry(entry_id)
        verdict = self._replays.hole(host.id, batch.spool_id, missing, incarnation, self._clock())
        if verdict == "wait":
            return
        snapshot = await load_snapshot(self._redis, host.id)
        ahead = snapshot.applied.get(batch.spool_id, 0) >= missing
        if ahead and covers(snapshot.applied, host.applied):
            self._roster.reload(host.id, snapshot)
            missing = self._roster.apply(host.id, batch, self._clock())
            if not missing:
                self._replays.filled(host.id)
                return
        if verdict == "lost":
            log.error("host %s: numbers %d to %d are lost", host.id, missing, batch.first - 1)
            self._roster.skip(host.id, batch)
            self._roster.apply(host.id, batch, self._clock())
            return
        want = f"{batch.spool_id}:{missing}"
        log.warning("host %s: asking for a replay from %s", host.id, want)
        await self._redis.set(streams.want(host.id), want, nx=True, px=streams.WANT_TTL_MS)


def _entry(entry_id: str) -> tuple[int, int]:
    """A stream id as Redis orders it."""
    incarnation, _, seq = entry_id.partition("-")
    return int(incarnation), int(seq or 0)
