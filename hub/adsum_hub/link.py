"""Whether Redis answers the hub, in sentences for people."""

from __future__ import annotations

import logging

from adsum_shared.redis_errors import describe

log = logging.getLogger(__name__)

KEPT = "Nothing is lost: what does not get here waits on the machines' disks."


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
