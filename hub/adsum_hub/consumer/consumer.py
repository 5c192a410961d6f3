"""The consumer: reads every host's stream from its own cursor and feeds the roster, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.consumer.discovery import Discovery
from adsum_hub.consumer.holes import Holes
from adsum_hub.consumer.places import Places
from adsum_hub.host import Host
from adsum_hub.inbox.entries import is_poisoned, order, read_entry
from adsum_hub.roster import Roster
from adsum_hub.trouble import Link
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, backoff, require_recent, wanted
from adsum_shared.envelope import DecodeError

log = logging.getLogger(__name__)

BLOCK_MS = 500
#: Entries of one host per read: small enough that one host's backlog does not starve the others.
COUNT = 50
#: Bytes of one host that a read is to bring at most, going by its entries that came last: whoever
#: writes entries of 16 MB gets them read one by one, and not fifty at once.
HEAVY = 8 << 20
#: While catching up, browsers and heartbeats get their turn this often.
TURN_S = 0.005
#: A connection that held this long was no failed attempt.
STEADY_S = 5.0


class Consumer:
    """reader blocks and belongs to `follow` alone; redis is for everything else.

    arrived() is called after every read that changed something, so that it is told at once;
    greet() with new hosts, which nobody has heard yet.
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
        greet: Callable[[Sequence[Host]], Awaitable[None]],
    ) -> None:
        self._roster = roster
        self._reader = reader
        self._redis = redis
        self._clock = clock
        self._link = link
        self._arrived = arrived
        self._places = Places(redis, clock)
        self._holes = Holes(roster, redis, clock)
        self._discovery = Discovery(roster, redis, self._places, clock, greet)
        #: more may lie in the streams than the last read gave, so the next one does not block
        self._behind = True
        self._count = COUNT

    async def follow(self, restored: Callable[[], None] = lambda: None) -> None:
        """Read for ever. Reconnects by itself; ends only with a broker that is too old.

        restored() is called when all that was stored, and what lay in the streams, has been read.
        """
        pauses = backoff()
        loop = asyncio.get_running_loop()
        while wanted():
            since = loop.time()
            try:
                require_recent(await self._redis.info("server"))
                await self._resume()
                self._count = 1  # nobody knows what lies there
                while wanted():
                    await self._discovery.look()
                    await self._read()
                    self._link.up(self._clock())
                    if self._discovery.complete and not self._behind:
                        restored()
            except UNAVAILABLE as error:
                self._link.down(error)
                await self._reader.connection_pool.disconnect()
                if loop.time() - since > STEADY_S:
                    pauses = backoff()
                await asyncio.sleep(next(pauses))

    async def _resume(self) -> None:
        for host in self._followed():
            await self._places.find(host)

    def _followed(self) -> list[Host]:
        return [host for host in self._roster.hosts.values() if not self._places.is_aside(host)]

    async def _read(self) -> None:
        hosts = self._followed()
        if not hosts:
            self._behind = False
            await asyncio.sleep(BLOCK_MS / 1000)
            return
        cursors: Any = {streams.inbox(host.id): host.cursor for host in hosts}
        try:
            block = None if self._behind else BLOCK_MS
            count = self._count
            reply: Any = await self._reader.xread(cursors, count=count, block=block)
        except ResponseError:
            if not await self._places.set_aside_wrong_types(hosts):
                raise
            return
        self._behind = any(len(entries) == count for _, entries in reply)
        self._count = next_count(reply)
        turn = asyncio.get_running_loop().time()
        for key, entries in reply:
            host = self._roster.hosts[streams.host_of(key.decode())]
            at = cursors[key.decode()]
            for entry_id, fields in entries:
                # Somebody else moved it while we let go: what was read goes on from another place,
                # and with a cursor beyond what lies in between that would be trimmed unread.
                if host.cursor != at or not await self._take(host, entry_id.decode(), fields):
                    break
                at = host.cursor
                if asyncio.get_running_loop().time() - turn > TURN_S:
                    self._arrived()
                    await asyncio.sleep(0)
                    turn = asyncio.get_running_loop().time()
        if reply:
            self._arrived()
            if not self._behind:
                # What comes meanwhile is told no earlier: one read for all of it.
                await asyncio.sleep(self._roster.rest)

    async def _take(self, host: Host, entry_id: str, fields: dict[bytes, bytes]) -> bool:
        """Whether to go on with what follows in this stream."""
        now = host.read_at = self._clock()
        try:
            batch = read_entry(entry_id, fields)
        except DecodeError as error:
            # Set aside, its numbers passed over as a gap: one bad entry must not block a host. One
            # of another version is not even passed over: a hub that can read it will ask for it.
            if self._roster.set_aside(host.id, entry_id, error, now):
                log.warning("host %s: %s", host.id, host.troubles.sentences(None))
            if error.span is not None:
                self._roster.apply(host.id, error.span, now)
        else:
            missing = self._roster.apply(host.id, batch, now)
            if missing:
                await self._holes.fill(host, batch, missing, entry_id)
            else:
                self._holes.filled(host)
        # `fill` may have moved the cursor on, to where another hub has read.
        host.cursor = max(host.cursor, entry_id, key=order)
        if is_poisoned(entry_id):
            await self._places.find(host)
            return False
        return True


def next_count(reply: Sequence[tuple[bytes, Sequence[tuple[bytes, dict[bytes, bytes]]]]]) -> int:
    """Of entries like the biggest of these, how many a read may bring of each host."""
    biggest = max(
        (
            sum(map(len, fields)) + sum(map(len, fields.values()))
            for _, entries in reply
            for _, fields in entries
        ),
        default=0,
    )
    return max(1, min(COUNT, HEAVY // max(1, biggest)))
