"""The lull: what a session uses is told at most once a second, if nothing else has changed. Pure."""

from __future__ import annotations

import heapq

from adsum_hub.alarms import Key

LULL_MS = 1_000


class Lull:
    """now: the hub's clock, ms."""

    def __init__(self) -> None:
        self._told: dict[Key, int] = {}
        self._due: list[tuple[int, Key]] = []
        self._held: set[Key] = set()

    def holds(self, key: Key, now: int) -> bool:
        """Whether to wait with a change of usage alone; it is due by itself then."""
        told = self._told.get(key, 0)
        if now - told >= LULL_MS:
            return False
        if key not in self._held:
            self._held.add(key)
            heapq.heappush(self._due, (told + LULL_MS, key))
        return True

    def told(self, key: Key, now: int) -> None:
        """With all that it used until now."""
        self._told[key] = now
        self._held.discard(key)

    def forget(self, key: Key) -> None:
        self._told.pop(key, None)
        self._held.discard(key)

    def due(self, now: int) -> list[Key]:
        found: list[Key] = []
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            if key in self._held:
                self._held.discard(key)
                found.append(key)
        return found

    def next(self) -> int | None:
        while self._due and self._due[0][1] not in self._held:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None
