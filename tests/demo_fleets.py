"""The demo's fleet before a roster whose clock is the test's: no process, no broker, no waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvicorn

from adsum.demo import MACHINES, SCRIPT, Machine, history, play_on, players
from adsum_hub.app import build_app, listen, server_config
from adsum_hub.domains.show import open_domains
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.request_guard import known_hosts
from adsum_hub.roster import Accounts, Roster, local_day
from adsum_hub.snapshots import Snapshot
from adsum_hub.trouble import Link
from adsum_hub.usage.budgets import Overspent, read_budgets
from adsum_hub.usage.prices import known_price, open_book
from adsum_hub.usage.spending import Spending
from adsum_shared.envelope import Batch
from adsum_shared.signals import AnySignal, decode_signal, encode_signal
from tests.support import wait_until

MINUTE = 60_000
#: A working day at noon, so that it is the same day nearly everywhere.
START = int(datetime(2026, 11, 18, 12, 0, tzinfo=UTC).timestamp() * 1000)


class Audience:
    """What a hub knows of the demo, at whatever moment of it."""

    def __init__(self, start: int = START) -> None:
        self.start = self.now = start
        book = open_book(Path("/nonexistent"), known_price).book
        spending = Spending(book, local_day)
        accounts = Accounts(spending, Overspent(read_budgets(SCRIPT["budgets"]), spending))
        # Their clock stands, or on a busy machine one would be too slow and be skipped.
        self.roster = Roster(accounts, open_domains([], lambda: 0.0))
        self._told: Counter[str] = Counter()
        for machine in MACHINES:
            self.roster.add(machine.host_id, Snapshot(), start)
            self._tell(machine, list(history(machine, start)))
        self._players = list(players(start))

    def at(self, now: int) -> Audience:
        self.now = now
        for _, machine, said in play_on(self._players, now):
            self._tell(machine, said)
        for machine in MACHINES:
            gone = machine.says_goodbye and not machine.is_connected(now - self.start)
            age = self._age(machine)
            beat = machine.beat(
                now - age, now - self.start, nonce="demo", spool_id="demo", stopping=gone
            )
            self.roster.hear(machine.host_id, beat, age, now)
        for _ in range(3):
            self.roster.tick(now)
            while self.roster.take_changes(now) or self.roster.settle(now):
                pass
            self.roster.next_deadline()
        return self

    @staticmethod
    def _age(machine: Machine) -> int:
        """Since its last sign."""
        return {"cedar": 14_000, "dune": 9 * MINUTE}.get(machine.label, 0)

    def _tell(self, machine: Machine, signals: Sequence[AnySignal]) -> None:
        """As they come over the wire."""
        host, sent_at = machine.host_id, self.now - self._age(machine) + machine.skew_ms
        first, self._told[host] = self._told[host] + 1, self._told[host] + len(signals)
        decoded = tuple(decode_signal(encode_signal(each)) for each in signals)
        batch = Batch("demo", first, self._told[host], "demo", sent_at, decoded)
        self.roster.apply(host, batch, self.now)


class FrozenHub:
    """The hub's own app and page before one moment of the demo, which never passes."""

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FrozenHub:
        roster, now = self.audience.roster, self.audience.now
        broadcast = Broadcast(roster, lambda: now)
        broadcast.flush()
        bound = listen("127.0.0.1", 0)
        port = bound.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        app = build_app(roster, broadcast, Link(), lambda: now, known_hosts(port, ()), demo=True)
        self._server = uvicorn.Server(server_config(app))
        self._task = asyncio.create_task(self._server.serve(sockets=[bound]))
        await wait_until(lambda: self._server.started)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._server.should_exit = True
        await self._task
