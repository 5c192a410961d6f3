"""Whoever waits for something new: all are woken at once, or each when it has waited long enough."""

from __future__ import annotations

import asyncio

#: An event loop's timers ring up to so much early.
EARLY_S = 0.001


class Waiters:
    """A thousand clients wait ten times a second, so each has no event and no time-out of its own."""

    def __init__(self) -> None:
        #: until when each waits; all wait equally long, so the first is due first
        self._due: dict[asyncio.Future[bool], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due)

    async def wait(self, longest_s: float) -> bool:
        """Whether there is something new; else so much time has passed. The same for all."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        due = self._due[waiter] = loop.time() + longest_s
        if self._timer is None:
            self._timer = loop.call_at(due, self._look)
        try:
            return await waiter
        finally:
            self._due.pop(waiter, None)

    def wake(self) -> None:
        waiting, self._due = self._due, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(True)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time() + EARLY_S, None
        for waiter, due in self._due.items():
            if due > now:
                self._timer = loop.call_at(due, self._look)
                return
            if not waiter.done():
                waiter.set_result(False)
