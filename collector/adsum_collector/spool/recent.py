"""The newest signals in memory, so that a publisher that keeps pace reads no file."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

from adsum_collector.spool.reading import Rows

MOST_BYTES = 4 << 20


class Recent:
    """Without a hole in their numbers, which are all of one spool."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, bodies: Sequence[bytes], last: int, most: int) -> None:
        """most: how many are kept."""
        first = last - len(bodies) + 1
        if self._held and first <= self._held[-1][0]:
            return  # a message that came twice
        if self._held and first != self._held[-1][0] + 1:
            self.forget()
        self._held.extend(enumerate(bodies, first))
        self._bytes += sum(map(len, bodies))
        while len(self._held) > most or self._bytes > MOST_BYTES:
            self._bytes -= len(self._held.popleft()[1])

    def read(self, after: int, limit: int, limit_bytes: int) -> Rows | None:
        """None if what follows `after` is not here."""
        if not self._held or not self._held[0][0] <= after + 1 <= self._held[-1][0]:
            return None
        skip = after + 1 - self._held[0][0]
        bodies: list[bytes] = []
        for _, body in itertools.islice(self._held, skip, skip + limit):
            limit_bytes -= len(body)
            if bodies and limit_bytes < 0:
                break
            bodies.append(body)
        return Rows(after + 1, bodies)

    def forget(self) -> None:
        self._held.clear()
        self._bytes = 0
