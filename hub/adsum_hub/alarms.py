"""Alarms: when the state of which session changes by itself. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable

#: A session by its host's id and its own.
Key = tuple[str, str]


class Alarms:
    def __init__(self) -> None:
        self._heap: list[tuple[int, Key]] = []
        self._due: dict[Key, int] = {}
        #: resolved, and when; its deadline is still to be found
        self._unset: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def resolved(self, key: Key, now: int) -> None:
        self._unset[key] = now

    def ring(self, now: int) -> list[Key]:
        """Those whose time has come; each rings once."""
        rung: list[Key] = []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._due.get(key) == at:
                del self._due[key]
                rung.append(key)
        return rung

    def set(self, find: Callable[[Key, int], int | None], now: int, most: int) -> None:
        """find: the deadline of what was resolved at a time. At most so many at once."""
        for _ in range(min(most, len(self._unset))):
            key, since = self._unset.popitem()
            due = find(key, since)
            if due is None:
                self._due.pop(key, None)
            elif self._due.get(key) != due:
                # Never in the past: a deadline that resolve() does not act on would spin.
                at = max(due, now + 1)
                self._due[key] = at
                heapq.heappush(self._heap, (at, key))

    def next(self, now: int) -> int | None:
        """When the next one rings; at once while some are still to be set."""
        if self._unset:
            return now
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # a later signal has moved it
        return self._heap[0][0] if self._heap else None
