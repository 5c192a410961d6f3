"""Lends machines the hub's connections to Redis, bounds what each takes of it, and answers when it cannot be asked.

Strangers are all who have shown nothing that this hub knows: those who log in or join, and those whose
token, sign-in or machine's credential has yet to be looked up. They have connections of their own, so
that however many they are, nobody who is known waits for them. Each kind of request has a bulkhead:
a number that may ask at once, and a bound for those that wait.

The policy for a Redis that cannot be asked, for the whole hub:

- Too much asked at once is no sign that Redis is away. It is ExhaustedError, answered by 503 and
  Retry-After, and nobody is let in or shut out by it.
- While Redis is away, nothing is changed: 503. Whoever was let in within the last minutes may look
  on, and do no more (`auth.gate`).

No rule of Redis bounds what a user may write under its own key, so Room looks after that instead. A
stream that goes is not lost: its collector holds what no hub has saved, and sends it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.host_troubles import SHOWN_MS, filled
from adsum_hub.roster import Roster
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, open_redis, wanted
from adsum_shared.redis_errors import ExhaustedError

T = TypeVar("T")

#: Of one bulkhead, inside and waiting.
MOST_WAITING = 4_000
#: In so many parts Redis's silence is measured, so many times our own loop has come round meanwhile.
PARTS = 10


class Bulkhead:
    """Bounds how many requests of one kind ask Redis at once, how many wait, and for how long."""

    def __init__(self, at_once: int, *, of_one: int, wait_s: float) -> None:
        """of_one: the most of one address, person or machine, inside and waiting."""
        self.at_once, self._of_one, self._wait_s = at_once, of_one, wait_s
        self._turn = asyncio.Semaphore(at_once)
        self._here: Counter[str] = Counter()
        self._all = 0

    @contextlib.asynccontextmanager
    async def turn(self, whose: str) -> AsyncIterator[None]:
        """Raises ExhaustedError."""
        if self._here[whose] >= self._of_one or self._all >= MOST_WAITING:
            raise ExhaustedError(f"{self._here[whose]} requests of one asker wait already")
        self._here[whose] += 1
        self._all += 1
        try:
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._turn.acquire()
            except TimeoutError as error:
                raise ExhaustedError(f"no turn came within {self._wait_s:.0f} s") from error
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._all -= 1
            self._here[whose] -= 1
            if not self._here[whose]:
                del self._here[whose]


@dataclass(frozen=True, slots=True)
class RedisAccess:
    """Connections, and the bulkheads before them.

    hub: for what the hub itself does, and whoever is let in. known: looks up the credentials of people
    and machines that this hub knows, and nothing else. strangers: for all others.
    """

    hub: Redis
    known: Redis
    strangers: Redis
    people: Bulkhead = field(default_factory=lambda: Bulkhead(8, of_one=256, wait_s=5.0))
    machines: Bulkhead = field(default_factory=lambda: Bulkhead(8, of_one=8, wait_s=5.0))
    logins: Bulkhead = field(default_factory=lambda: Bulkhead(8, of_one=64, wait_s=5.0))
    #: A hundred machines may join at once from one address; a joining takes some twenty commands.
    joins: Bulkhead = field(default_factory=lambda: Bulkhead(8, of_one=256, wait_s=30.0))
    unknown: Bulkhead = field(default_factory=lambda: Bulkhead(8, of_one=64, wait_s=5.0))


#: Each bulkhead's turns are its connections, so that inside one nobody waits for a connection.
KNOWN_CONNECTIONS = 16
STRANGERS_CONNECTIONS = 24


@contextlib.asynccontextmanager
async def open_access(redis_url: str) -> AsyncIterator[RedisAccess]:
    hub = open_redis(redis_url)
    known = open_redis(redis_url, connections=KNOWN_CONNECTIONS)
    strangers = open_redis(redis_url, connections=STRANGERS_CONNECTIONS)
    try:
        yield RedisAccess(hub, known, strangers)
    finally:
        for each in (hub, known, strangers):
            await each.aclose()


async def answered_within(work: Coroutine[Any, Any, T], most_s: float) -> T:
    """Raises TimeoutError when Redis says nothing for so long.

    Time in which our own loop was held up does not count: a hub that has too much to do would take
    itself for cut off.
    """
    asking = asyncio.ensure_future(work)
    try:
        for _ in range(PARTS):
            await asyncio.wait({asking}, timeout=most_s / PARTS)
            if asking.done():
                return asking.result()
        raise TimeoutError
    finally:
        asking.cancel()


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
                pipeline.get(streams.cleared(host.id))
            replies = await pipeline.execute(raise_on_error=False)
            for host, cleared in zip(some, replies[1::2], strict=True):
                self._note_cleared(host, cleared)
            for host, size in zip(some, map(_size, replies[::2]), strict=True):
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
        with contextlib.suppress(ResponseError):  # full all the same
            await self._redis.set(streams.cleared(host.id), f"{now} {text}", px=SHOWN_MS)

    def _note_cleared(self, host: Host, stored: Any) -> None:
        """Report and count what another hub has deleted."""
        at, _, text = stored.decode().partition(" ") if isinstance(stored, bytes) else ("", "", "")
        times = self._cleared.get(host.id, [])
        if at.isdecimal() and int(at) not in times:
            self._cleared[host.id] = [*times, int(at)][-FORGIVEN - 1 :]
            host.troubles.note("room", text, self._clock())

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
