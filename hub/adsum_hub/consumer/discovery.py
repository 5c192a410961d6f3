"""Discovery: which hosts there are, and what is stored of each, taken over as they are met."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.consumer.places import Places
from adsum_hub.host import Host
from adsum_hub.roster import Roster
from adsum_hub.snapshots.fields import Snapshot
from adsum_hub.snapshots.snapshots import load_snapshot
from adsum_shared import streams
from adsum_shared.connect import Redis, wanted

log = logging.getLogger(__name__)

HOST_ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Between two looks at the set of hosts.
INTERVAL_S = 0.5
#: Names per reply, and how long one turn may last. The set is open to whoever writes to Redis, and
#: 100,000 names in it must not stop the reading of hosts: a look then takes several turns.
SCANNED = 1_000
TURN_S = 0.02
#: Hosts that are followed. One read waits on all their streams, which costs Redis some
#: microseconds a stream each time.
MOST_HOSTS = 10_000


class Discovery:
    """greet() is awaited with new hosts, which nobody has heard yet."""

    def __init__(
        self,
        roster: Roster,
        redis: Redis,
        places: Places,
        clock: Clock,
        greet: Callable[[Sequence[Host]], Awaitable[None]],
    ) -> None:
        self._roster = roster
        self._redis = redis
        self._places = places
        self._clock = clock
        self._greet = greet
        self._cursor = 0
        self._due = 0.0
        #: whether every host was met that there was at the start
        self.complete = False

    async def look(self) -> None:
        """One turn, from where the last one ended. Often called, and mostly there is nothing to do."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._due:
            return
        until = loop.time() + TURN_S
        met: list[Host] = []
        while wanted():
            scan: Any = self._redis.sscan
            self._cursor, names = await scan(streams.HOSTS, self._cursor, count=SCANNED)
            await self._take_out([name for name in names if not HOST_ID.fullmatch(name)])
            for host_id in await self._with_keys(names):
                met += await self._add(host_id)
            if self._cursor == 0:
                self._due = loop.time() + INTERVAL_S
                self.complete = True
                break
            if loop.time() > until:
                break
        if met:  # these alone: at a start there are many turns, and many hosts already
            await self._greet(met)

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
