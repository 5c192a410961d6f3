"""Lends machines the hub's connections to Redis, and answers when Redis cannot be asked.

Strangers are all who have shown nothing that this hub knows: those who log in or join, and those whose
token, sign-in or machine's credential has yet to be looked up. They have connections of their own, so
that however many they are, nobody who is known waits for them. Each kind of request has a bulkhead:
a number that may ask at once, and a bound for those that wait.

The policy for a Redis that cannot be asked, for the whole hub:

- Too much asked at once is no sign that Redis is away. It is ExhaustedError, answered by 503 and
  Retry-After, and nobody is let in or shut out by it.
- While Redis is away, nothing is changed: 503. Whoever was let in within the last minutes may look
  on, and do no more (`auth.gate`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from adsum_shared.connect import Redis, open_redis
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
