"""How often a channel is spoken to: a few messages at once, then one in a while. Pure."""

from __future__ import annotations

BURST = 5
#: Ten thousand agents that stop in one hour are so many messages to each person, and no more.
EVERY_MS = 12_000
FIRST_AGAIN_MS = 5_000
MOST_AGAIN_MS = 600_000


class Pace:
    """failures: in a row. What waits meanwhile stays pending, and is told together if it stands."""

    def __init__(self) -> None:
        self.failures = 0
        self._filled_at = 0  # when the last of the burst is saved up again
        self._not_before = 0

    def free_at(self, now: int) -> int:
        """When the next message may go; now, if at once."""
        return max(now, self._not_before, self._filled_at - (BURST - 1) * EVERY_MS)

    def spent(self, now: int) -> None:
        self.failures = 0
        self._filled_at = max(now, self._filled_at) + EVERY_MS

    def failed(self, now: int, again_s: float | None) -> int:
        """When to try again: later each time, and no sooner than the other side wishes."""
        usual = min(MOST_AGAIN_MS, FIRST_AGAIN_MS * 2 ** min(self.failures, 10))
        self.failures += 1
        self._not_before = now + max(usual, int((again_s or 0.0) * 1000))
        return self._not_before
