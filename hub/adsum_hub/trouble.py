"""Judges whether Redis answers the hub and takes writes, in sentences for people."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError

from adsum_hub.clock import Clock
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.redis_errors import describe
from adsum_shared.state import HubTrouble

log = logging.getLogger(__name__)

KEPT = "Nothing is lost: what does not get here waits on the machines' disks."
#: A consumer that has not read for so long does not keep the list, whatever the process says.
STALE_MS = 10_000
PROBE_S = 2.0
#: Never comes to be: what is written there is nothing.
_PROBE_KEY = streams.beat("probe")


class Link:
    """address: Redis's, as it may be shown.

    read_at: when it was last read, hub's clock in ms; 0 = never.
    """

    def __init__(self, address: str = "its address") -> None:
        self.address = address
        self.problem: str | None = f"Not connected to Redis at {address} yet."
        self.read_at = 0
        #: times that reading began, the first included
        self.connects = 0

    def up(self, now: int) -> None:
        if self.problem is not None:
            self.connects += 1
            log.info("reading from Redis at %s", self.address)
        self.problem = None
        self.read_at = now

    def down(self, error: Exception) -> None:
        problem = describe(error, self.address, KEPT)
        if self.problem != problem:
            log.warning("%s", problem)
        self.problem = problem

    def is_blind(self, now: int) -> bool:
        """The hub does not hear: what it lists is as of `read_at`."""
        return self.problem is not None or now - self.read_at >= STALE_MS

    def blindness(self, now: int, started: int) -> HubTrouble | None:
        """started: when this hub did, hub's clock in ms as `now`."""
        if not self.is_blind(now):
            return None
        silent = f"Redis at {self.address} does not answer. See whether it hangs. {KEPT}"
        return HubTrouble(self.problem or silent, self.read_at or started, blind=True)


class NamesFullest(Protocol):
    def fullest(self) -> str:
        """A sentence on who takes most of Redis; empty: nobody stands out."""
        ...


class Writes:
    """Whether Redis takes writes.

    Tried, since where it takes none nothing comes in that would have to be saved and fail.
    """

    def __init__(
        self, redis: Redis, address: str, clock: Clock, room: NamesFullest | None = None
    ) -> None:
        self._room = room
        self._redis = redis
        self._address = address
        self._clock = clock
        self.problem: str | None = None
        self.since = 0

    async def watch(self) -> None:
        while wanted():
            await self.try_once()
            await asyncio.sleep(PROBE_S)

    async def try_once(self) -> None:
        """Nothing written is nothing changed, and yet it is refused as any other write would be."""
        try:
            await self._redis.setrange(_PROBE_KEY, 0, "")
        except NoPermissionError:
            # That this one command is forbidden says nothing of those we live on.
            self.problem = None
        except ResponseError as error:
            self.since = self.since if self.problem else self._clock()
            self.problem = describe(error, self._address, KEPT)
            if _is_full(error) and self._room and (who := self._room.fullest()):
                self.problem = f"{self.problem} {who}"
        except UNAVAILABLE:
            return  # whoever reads is told the same, and knows since when
        else:
            self.problem = None

    def refusal(self) -> HubTrouble | None:
        return None if self.problem is None else HubTrouble(self.problem, self.since)


def _is_full(error: ResponseError) -> bool:
    """Whether Redis has no room left. The client makes a class of it, or leaves the word."""
    return isinstance(error, OutOfMemoryError) or "OOM" in str(error)
