"""Heartbeats: who can be reached, what time it is there, and whether anything of theirs is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.link import Link
from adsum_hub.roster import Roster
from adsum_shared import streams
from adsum_shared.beat import Beat, decode_beat
from adsum_shared.connect import UNAVAILABLE, Redis, wanted

INTERVAL_S = 1.0
#: A host of which nothing is read for so long, though its stream is said to hold more, has lost it.
QUIET_MS = 2_000


class Heartbeats:
    def __init__(
        self, roster: Roster, redis: Redis, clock: Clock, link: Link, arrived: Callable[[], None]
    ) -> None:
        self._roster = roster
        self._redis = redis
        self._clock = clock
        self._link = link
        self._arrived = arrived

    async def listen(self) -> None:
        while wanted():
            try:
                await self.hear()
            except UNAVAILABLE as error:
                self._link.down(error)
            await asyncio.sleep(INTERVAL_S)

    async def hear(self) -> None:
        hosts = list(self._roster.hosts.values())
        if not hosts:
            return
        pipeline = self._redis.pipeline(transaction=False)
        for host in hosts:
            pipeline.get(streams.beat(host.id))
            pipeline.pttl(streams.beat(host.id))
        # One host's key of another type must not silence the others.
        replies = await pipeline.execute(raise_on_error=False)
        now = self._clock()
        for host, raw, ttl in zip(hosts, replies[::2], replies[1::2], strict=True):
            if isinstance(raw, ResponseError):
                host.troubles["heartbeat"] = f"Its heartbeat cannot be read ({raw})."
                continue
            host.troubles.pop("heartbeat", None)
            beat = decode_beat(raw) if raw is not None else None
            if beat is not None:
                age = max(0, streams.BEAT_TTL_MS - int(ttl))
                self._roster.hear(host.id, beat, age, now)
                await self._ask_for_lost_tail(host, beat, now)
        self._arrived()

    async def _ask_for_lost_tail(self, host: Host, beat: Beat, now: int) -> None:
        """No entry behind the hole will come to show it: the host may stay quiet for hours."""
        applied = host.applied.get(beat.spool_id, 0)
        if applied >= beat.sent or now - host.read_at < QUIET_MS:
            return
        want = f"{beat.spool_id}:{applied + 1}"
        await self._redis.set(streams.want(host.id), want, nx=True, px=streams.WANT_TTL_MS)
