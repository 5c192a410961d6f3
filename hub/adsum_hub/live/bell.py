"""A bell: an event that is set at once after a rest, and no more often than the rest allows."""

from __future__ import annotations

import asyncio


class Bell:
    """rung: for whoever waits, and clears it."""

    def __init__(self, rest_s: float) -> None:
        self.rung = asyncio.Event()
        self._rest_s = rest_s
        self._at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        rest = self._at + self._rest_s - loop.time()
        if rest > 0:
            self._timer = loop.call_later(rest, self._ring)
        else:
            self._ring()

    def _ring(self) -> None:
        self._timer = None
        self._at = asyncio.get_running_loop().time()
        self.rung.set()
