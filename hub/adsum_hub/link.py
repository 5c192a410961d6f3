"""Whether Redis answers the hub, in a sentence for people."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


class Link:
    """read_at: when Redis was last read, hub's clock in ms; 0 = never."""

    def __init__(self) -> None:
        self.problem: str | None = "Not connected to Redis yet."
        self.read_at = 0

    def up(self, now: int) -> None:
        if self.problem is not None:
            log.info("reading from Redis")
        self.problem = None
        self.read_at = now

    def down(self, error: Exception) -> None:
        problem = f"Redis cannot be read ({str(error) or type(error).__name__}); trying again."
        if self.problem != problem:
            log.warning("%s", problem)
        self.problem = problem
