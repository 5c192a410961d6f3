"""Keeps when each session is to be looked at again. Pure."""

from __future__ import annotations

import heapq

#: A session by its host's id and its own.
Key = tuple[str, str]


class Alarms:
    """One for each session; a later one takes its place.

    Nearly every signal moves a session's alarm to later. So its place in the heap stays as it is,
    and only what comes up is looked at again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, Key]] = []
        #: the one entry in the heap that counts, and when the alarm is truly due: no sooner
        self._entry: dict[Key, int] = {}
        self._due: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, key: Key, due: int | None, now: int) -> None:
        if due is None:
            self._due.pop(key, None)
            return
        # Never in the past: what is due by then and changes nothing would spin.
        due = self._due[key] = max(due, now + 1)
        entry = self._entry.get(key)
        if entry is None or due < entry:
            self._push(key, due)

    def _push(self, key: Key, at: int) -> None:
        self._entry[key] = at
        heapq.heappush(self._heap, (at, key))

    def ring(self, now: int) -> list[Key]:
        """Those whose time has come; each rings once."""
        rung: list[Key] = []
        while (at := self.next()) is not None and at <= now:
            _, key = heapq.heappop(self._heap)
            del self._entry[key], self._due[key]
            rung.append(key)
        return rung

    def next(self) -> int | None:
        """When the next one rings."""
        while self._heap:
            at, key = self._heap[0]
            due = self._due.get(key)
            if self._entry.get(key) == at and due == at:
                return at
            heapq.heappop(self._heap)
            if self._entry.get(key) == at:
                del self._entry[key]
                if due is not None:
                    self._push(key, due)
        return None
