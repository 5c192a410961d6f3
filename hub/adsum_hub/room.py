"""Measures how much of Redis each machine takes, and trims what no collector needs.

No rule of Redis bounds what a user may write under its own key, so this is looked after instead. A
stream that goes is not lost: its collector holds what no hub has saved, and sends it again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.host_troubles import SHOWN_MS, filled
from adsum_hub.roster import Roster
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted

log = logging.getLogger(__name__)

INTERVAL_S = 2.0
#: Hosts asked about in one round trip.
SLICE = 500
#: A stream may grow so far once, as when hubs were away for days. A machine whose stream does so
#: again within SHOWN_MS is kept out for a while; a heartbeat is never too long by accident.
FORGIVEN = 1
#: Of all that Redis is full of, a machine with less than this is not worth naming.
WORTH_NAMING = 16 << 20


class Room:
    """most: bytes of one stream. pause(): ends a machine's access for a while; whether it could."""

    def __init__(
        self,
        roster: Roster,
        redis: Redis,
        clock: Clock,
        most: int,
        pause: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._roster = roster
        self._redis: Any = redis
        self._clock, self._most, self._pause = clock, most, pause
        #: bytes, of those that take some, and when each was last found to take too much
        self._taken: dict[str, int] = {}
        self._cleared: dict[str, list[int]] = {}

    async def watch(self) -> None:
        while wanted():
            try:
                await self.measure()
            except UNAVAILABLE as error:
                log.debug("what machines take of Redis could not be measured: %s", error)
            await asyncio.sleep(INTERVAL_S)

    async def measure(self) -> None:
        hosts, taken = list(self._roster.hosts.values()), dict[str, int]()
        for start in range(0, len(hosts), SLICE):
            some = hosts[start : start + SLICE]
            pipeline = self._redis.pipeline(transaction=False)
            for host in some:
                # All of it is counted: of a few parts one would not come upon the big ones.
                pipeline.memory_usage(streams.inbox(host.id), samples=0)
            replies = await pipeline.execute(raise_on_error=False)
            for host, size in zip(some, map(_size, replies), strict=True):
                if size > self._most:
                    key, now = streams.inbox(host.id), self._clock()
                    await self._clear(host, key, "stream", size, now, forgiven=FORGIVEN)
                elif size > WORTH_NAMING:
                    taken[host.id] = size
        self._taken = taken

    async def clear_beat(self, host: Host, now: int) -> None:
        key = streams.beat(host.id)
        size = await self._redis.strlen(key)
        await self._clear(host, key, "heartbeat", size, now, forgiven=0)

    async def _clear(
        self, host: Host, key: str, what: str, size: int, now: int, *, forgiven: int
    ) -> None:
        # Not UNLINK, which gives the room back a moment later: all others wait for it.
        await self._redis.delete(key)
        times = [at for at in self._cleared.get(host.id, ()) if now - at < SHOWN_MS]
        self._cleared[host.id] = [*times, now][-FORGIVEN - 1 :]
        paused = len(times) >= forgiven and await self._keep_out(host)
        text = filled(what, size, streams.PAUSED_MS if paused else 0)
        host.troubles.note("room", text, now)
        log.error("host %s: %s", host.id, text)

    async def _keep_out(self, host: Host) -> bool:
        try:
            return await self._pause(host.id)
        except UNAVAILABLE as error:  # it is found again where it goes on
            log.warning("host %s could not be kept out of Redis: %s", host.id, error)
            return False

    def notes(self) -> list[str]:
        """On machines that have filled Redis, for everybody."""
        now, hosts = self._clock(), self._roster.hosts
        recent = [key for key, times in self._cleared.items() if now - times[-1] < SHOWN_MS]
        self._cleared = {key: self._cleared[key] for key in recent}
        return [
            f"{hosts[key].label} filled Redis: see `adsum hosts`." for key in recent if key in hosts
        ]

    def fullest(self) -> str:
        """Who takes most of a Redis that is full; empty: no machine takes much."""
        known = {key: size for key, size in self._taken.items() if key in self._roster.hosts}
        if not known:
            return self.notes()[0] if self.notes() else ""
        most = max(known, key=lambda key: known[key])
        return f"Most of it is {self._roster.hosts[most].label}'s: {known[most] >> 20} MB."


def _size(reply: Any) -> int:
    """None: there is no such key. An error: nobody may ask, or it is being loaded."""
    return 0 if reply is None or isinstance(reply, ResponseError) else int(reply)
