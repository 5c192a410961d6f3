"""What was last known of each pass, for a while: Redis is not asked each time, and may be away."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from adsum_hub.auth.entry import Pass

#: A pass is looked up again after this, so a revoked one opens nothing for longer.
FRESH_MS = 2_000
#: While Redis does not answer, one that was good is good for so long after it was last seen there.
AWAY_MS = 15 * 60_000
MOST = 2_000


class Known(NamedTuple):
    held: Pass
    at: int


class Held:
    """By digest; the least recently used goes first when there are MOST."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()

    def keep(self, digest: str, held: Pass, now: int) -> None:
        self._known[digest] = Known(held, now)
        self._known.move_to_end(digest)
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def drop(self, digest: str) -> None:
        self._known.pop(digest, None)

    def within(self, digest: str, age_ms: int, now: int) -> Pass | None:
        """As it was not longer ago than that."""
        known = self._known.get(digest)
        if known is None or now - known.at >= age_ms:
            return None
        self._known.move_to_end(digest)
        return known.held
