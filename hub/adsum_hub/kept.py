"""What was made of each session last, so that as much of it as still holds is not made again."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: More sessions than that are never at work at once. Of more, those kept longest go.
KEPT = 10_000


class Kept(dict[K, V]):
    """Whoever looks something up checks that it holds: it was made of the very same parts."""

    def keep(self, key: K, value: V) -> V:
        if len(self) >= KEPT and key not in self:
            del self[next(iter(self))]
        self[key] = value
        return value
