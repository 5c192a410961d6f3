"""The consumer reads every host's stream from its own cursor and feeds the roster, in order; the saver persists what changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.consumer.heartbeats import Heartbeats, Places
from adsum_hub.host import Host
from adsum_hub.inbox import is_poisoned, read_entry
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.roster import Roster
from adsum_hub.snapshots import (
    MOST_AT_ONCE,
    NewerSchemaError,
    Snapshot,
    load_header,
    load_snapshot,
    save_snapshot,
)
from adsum_hub.trouble import Link
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, backoff, require_recent, wanted
from adsum_shared.envelope import DecodeError
from adsum_shared.redis_errors import describe

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
HOST_ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Between two looks at the set of hosts.
DISCOVERY_S = 0.5
#: Names per reply, and how long one turn may last. The set is open to whoever writes to Redis, and
#: 100,000 names in it must not stop the reading of hosts: a look then takes several turns.
SCANNED = 1_000
LOOK_S = 0.02
#: Hosts that are followed. One read waits on all their streams, which costs Redis some
#: microseconds a stream each time.
MOST_HOSTS = 10_000


class Consumer:
    """Reads every host's stream. reader blocks and belongs to `follow` alone; redis is for everything else."""

    def __init__(
        self,
        roster: Roster,
        heartbeats: Heartbeats,
        *,
        reader: Redis,
        redis: Redis,
        clock: Clock,
        link: Link,
        broadcast: Broadcast,
    ) -> None:
        self._roster, self._reader, self._redis, self._clock = roster, reader, redis, clock
        self._link, self._broadcast = link, broadcast
        self._holes = heartbeats.holes
        self._places = heartbeats.holes.places
        self._discovery = Discovery(roster, redis, self._places, clock, heartbeats)
        #: more may lie in the streams than the last read gave, so the next one does not block
        self._behind = True
        self._count = COUNT

    async def follow(self) -> None:
        """Read for ever. Reconnects by itself; ends only with a broker that is too old."""
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
                        self._broadcast.restored()
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
                    self._broadcast.notify()
                    await asyncio.sleep(0)
                    turn = asyncio.get_running_loop().time()
        if reply:
            self._broadcast.notify()
            if not self._behind:
                # What comes meanwhile is told no earlier: one read for all of it.
                await asyncio.sleep(self._broadcast.rest)

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
                self._roster.recent.keep(host.id, fields, now)
                self._holes.filled(host)
        # `fill` may have moved the cursor on, to where another hub has read.
        host.read_to(entry_id)
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


class Discovery:
    """Which hosts there are, and what is stored of each, taken over as they are met."""

    def __init__(
        self, roster: Roster, redis: Redis, places: Places, clock: Clock, heartbeats: Heartbeats
    ) -> None:
        self._roster, self._redis, self._places, self._clock = roster, redis, places, clock
        self._heartbeats = heartbeats
        self._cursor = 0
        self._due = 0.0
        #: whether every host was met that there was at the start
        self.complete = False

    async def look(self) -> None:
        """One turn, from where the last one ended. Often called, and mostly there is nothing to do."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._due:
            return
        until = loop.time() + LOOK_S
        met: list[Host] = []
        while wanted():
            scan: Any = self._redis.sscan
            self._cursor, names = await scan(streams.HOSTS, self._cursor, count=SCANNED)
            await self._take_out([name for name in names if not HOST_ID.fullmatch(name)])
            for host_id in await self._with_keys(names):
                met += await self._add(host_id)
            if self._cursor == 0:
                self._due = loop.time() + DISCOVERY_S
                self.complete = True
                break
            if loop.time() > until:
                break
        if met:  # these alone: at a start there are many turns, and many hosts already
            await self._heartbeats.greet(met)

    async def _take_out(self, names: list[bytes]) -> None:
        """What is no host's name: else all of it is read again twice a second."""
        if not names:
            return
        with contextlib.suppress(ResponseError):  # as where this hub may only read
            await self._redis.srem(streams.HOSTS, *names)
        log.warning("%d names in the set of hosts were none", len(names))

    async def _with_keys(self, names: list[bytes]) -> list[str]:
        """Those we do not follow yet and of which there is anything: the others are mere names."""
        found = [name.decode() for name in names if HOST_ID.fullmatch(name)]
        unknown = [host_id for host_id in found if not self._roster.hosts.knows(host_id)]
        if not unknown:
            return []
        pipeline = self._redis.pipeline(transaction=False)
        for host_id in unknown:
            pipeline.exists(
                streams.inbox(host_id), streams.snapshot(host_id), streams.beat(host_id)
            )
        counts = await pipeline.execute()
        return [host_id for host_id, count in zip(unknown, counts, strict=True) if count]

    async def _add(self, host_id: str) -> list[Host]:
        if len(self._roster.hosts) >= MOST_HOSTS:
            if not self._roster.counts["hosts_left_out"]:
                log.error("more than %d hosts: the others are not followed", MOST_HOSTS)
            self._roster.counts["hosts_left_out"] += 1
            return []
        trouble = None
        try:
            snapshot = await load_snapshot(self._redis, host_id)
        except ResponseError as error:
            snapshot = Snapshot()
            trouble = f"Its saved state cannot be read ({error})."
        host = self._roster.add(host_id, snapshot, self._clock())
        if trouble is not None:
            host.troubles["save"] = trouble
        await self._places.find(host)
        log.info("host %s: %d sessions restored", host_id, len(snapshot.sessions))
        await asyncio.sleep(0)
        return [host]


INTERVAL_S = 0.25
#: Where many hosts are to be saved: a round takes a tenth of the time, or comes this often.
LONGEST_S = 1.0
REST = 10


class Saver:
    def __init__(self, roster: Roster, redis: Redis, link: Link) -> None:
        self._roster, self._redis, self._link = roster, redis, link

    async def run(self) -> None:
        took, loop = 0.0, asyncio.get_running_loop()
        while wanted():
            await asyncio.sleep(min(LONGEST_S, max(INTERVAL_S, REST * took)))
            began = loop.time()
            try:
                await self.save_once()
            except UNAVAILABLE as error:
                self._link.down(error)
            took = loop.time() - began

    async def save_once(self) -> None:
        for host in list(self._roster.hosts.values()):
            if not host.saved.is_due(host.applied, host.cursor):
                continue
            try:
                await self._save(host)
                host.troubles.pop("save", None)
            except ResponseError as error:
                # READONLY, OOM, MISCONF or a key of another type: said, and tried again. The
                # other hosts' snapshots are not held up by this one's.
                cause = describe(error, self._link.address, "The state is kept in memory.")
                trouble = f"Its state cannot be saved: {cause}"
                if host.troubles.get("save") != trouble:
                    log.warning("host %s: %s", host.id, trouble)
                host.troubles["save"] = trouble

    async def _save(self, host: Host) -> None:
        header, dirty, gone = host.take_dirty()
        # of the same moment, whatever is folded while it is written
        whole = dict(host.facts) if len(dirty) > MOST_AT_ONCE else None
        keep = host.saved.keep(dirty)
        stored, seen = None, header.version
        try:
            stored = await save_snapshot(
                self._redis, host.id, header, dirty, gone, keep=keep, whole=whole
            )
        except NewerSchemaError as error:
            log.warning("host %s: stored by a newer version, schema %d", host.id, error.schema)
        finally:
            if stored is None:
                host.saved.refused(dirty, gone, host.facts)
        if stored is not None:
            host.saved.written(stored.version, header, keep.aside)
            if stored.behind:
                log.warning("the stream of %s begins anew below %s", host.id, host.cursor)
                host.rewind()
            return
        self._roster.counts["conflicts"] += 1
        found = await load_header(self._redis, host.id)
        if host.saved.version == seen:  # else it has been looked at meanwhile, and later than this
            host.overtaken(found, self._link.read_at)
