"""How much each machine asks of this hub's ingest: requests and bytes. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

#: Requests a second of one machine, and how many may come in a burst. A collector has one on its
#: way at a time: under full load a hundred a second, at rest one.
RATE = 200.0
BURST = 600.0
#: And bytes, for RATE bodies of the greatest length would be 1.7 GB a second. More than a collector
#: sends at full speed: a batch of 512 kB at most in each hundredth of a second, 52 MB in a second.
BYTES_RATE = float(64 << 20)
BYTES_BURST = float(256 << 20)
#: Machines of which it is known; who asked longest ago is forgotten first.
MOST_KNOWN = 10_000


class _Left(NamedTuple):
    """at: s. size: of bytes; below nought what came beyond, for nobody knows it before it is read."""

    requests: float = BURST
    size: float = BYTES_BURST
    at: float = -math.inf


class Rate:
    """A guard of the hub's loop, not of any truth."""

    def __init__(self) -> None:
        self._left: dict[str, _Left] = {}

    def exceeded(self, host_id: str, now: float) -> int:
        """0: it may send a request. Else seconds to wait."""
        left = self._left.pop(host_id, _Left())
        requests = min(BURST, left.requests + (now - left.at) * RATE)
        size = min(BYTES_BURST, left.size + (now - left.at) * BYTES_RATE)
        wait_s = 0 if requests >= 1.0 else 1
        if size <= 0.0:
            wait_s = max(1, math.ceil(-size / BYTES_RATE))
        self._left[host_id] = _Left(requests if wait_s else requests - 1.0, size, now)
        if len(self._left) > MOST_KNOWN:
            del self._left[next(iter(self._left))]
        return wait_s

    def took(self, host_id: str, size: int) -> None:
        """So many bytes have come from it."""
        left = self._left.get(host_id)
        if left is not None:
            self._left[host_id] = left._replace(size=left.size - size)
