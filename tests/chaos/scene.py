"""One run as its faults see it: the fleet, what is sent, what is shown, and a log of what was done."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from redis.asyncio import Redis

from adsum_shared.connect import UNAVAILABLE
from tests.chaos.fleet import Fleet, Machine
from tests.chaos.ledger import Ledger
from tests.chaos.load import Sender
from tests.chaos.watcher import Watcher


class Done(msgspec.Struct):
    """A fault that was done. Times: monotonic seconds; ended 0 while it lasts."""

    kind: str
    target: str
    began: float
    ended: float = 0.0
    note: str = ""


class Scene:
    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        self.fleet = fleet
        self.ledger = Ledger()
        self.watchers = {name: Watcher(name, part.url) for name, part in fleet.hubs.items()}
        self.faults: list[Done] = []
        self.line_faults: list[tuple[float, str, str]] = []
        self._copies = 0
        self.rng = rng

    def machine(self, name: str) -> Machine:
        return self.fleet.machines[name]

    def note(self, kind: str, words: str) -> None:
        """Something about the latest fault of this kind."""
        for each in reversed(self.faults):
            if each.kind == kind:
                each.note = words
                return

    def ended(self, kind: str, target: str) -> None:
        """From here on it is recovery, whatever is still to be waited for."""
        for each in reversed(self.faults):
            if (each.kind, each.target) == (kind, target) and not each.ended:
                each.ended = time.monotonic()
                return

    def number(self) -> int:
        self._copies += 1
        return self._copies

    def is_shown(self, name: str) -> bool:
        return any(name in watcher.seen for watcher in self.watchers.values())

    async def broker(self, work: Callable[[Any], Awaitable[Any]], password: str = "") -> Any:
        """Straight to the broker, past every link; None if it does not answer."""
        login = f":{password}@" if password else ""
        # No PING of its own: a broker that cannot save refuses even that.
        url = f"redis://{login}127.0.0.1:{self.fleet.broker.port}"
        client = Redis.from_url(url, retry=None, health_check_interval=0, socket_timeout=3.0)
        try:
            async with asyncio.timeout(3.0):
                return await work(client)
        except (*UNAVAILABLE, TimeoutError):
            return None
        finally:
            await client.aclose()

    def sender(self, machine: Any, label: str) -> Sender:
        return Sender(machine, self.ledger, random.Random(self.rng.getrandbits(32)), label)
