"""One run: start the fleet, load it, let the faults happen, heal, and wait for all to be as promised."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Coroutine
from pathlib import Path
from typing import Any, Literal

from adsum_collector.transcripts.tailer import WALK_S
from tests.chaos.bounds import Bounds
from tests.chaos.broker_faults import PASSWORD, stop_scripts
from tests.chaos.evidence import Report
from tests.chaos.faults import KINDS, Fault, draw
from tests.chaos.fleet import Fleet
from tests.chaos.lines import Writer
from tests.chaos.load import Sender, SocketSender, StoryTeller
from tests.chaos.oracle import Finding
from tests.chaos.recovery import recoveries
from tests.chaos.scene import Done, Scene
from tests.chaos.schedule import HOSTS
from tests.chaos.verdict import look
from tests.chaos.views import Views, gaps_of
from tests.support import wait_until

Via = Literal["redis", "ingest", "mixed"]
#: A fresh event of every host is on every hub's WebSocket this soon after the last fault.
LIVE_S = 5.0
#: With more runnable processes than cores, each gets a share of a core, and the limit grows with them.
CORES = os.cpu_count() or 1
#: And everything else, within this.
SETTLE_S = 20.0
#: A user may have 128 inotify instances. A collector that gets none finds a new transcript at its next walk.
ALIKE_S = WALK_S + 10.0
#: Clean at once is not enough: a late replay could still double something.
CLEAN_LOOKS = 3


def through_hubs(dice: random.Random, via: Via) -> list[str]:
    """The machines that go through the hubs. mixed: one or two of the three."""
    if via == "mixed":
        return dice.sample(HOSTS, dice.choice((1, 2)))
    return list(HOSTS) if via == "ingest" else []


class Conductor:
    def __init__(
        self, seed: int, seconds: float, root: Path, only: Collection[str] = (), via: Via = "mixed"
    ) -> None:
        self.seed = seed
        self.seconds = seconds
        self.only = only
        self.fleet = Fleet(root, seconds, through_hubs(self._dice("ways"), via))
        self.scene: Scene | None = None
        self.findings: list[Finding] = []
        self.told: dict[str, Views] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._loading: list[asyncio.Task[None]] = []
        self._held: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self) -> Report:
        started = time.monotonic()
        try:
            await self.fleet.start()
            return await self._play()
        finally:
            for task in [*self._tasks, *self._loading]:
                task.cancel()
            await asyncio.gather(*self._tasks, *self._loading, return_exceptions=True)
            await self.fleet.stop()
            self.took = time.monotonic() - started

    def _dice(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")

    async def _play(self) -> Report:
        scene = self.scene = Scene(self.fleet, self._dice("scene"))
        bounds = Bounds(self.fleet)
        self._do(bounds.watch(), *(watcher.follow() for watcher in scene.watchers.values()))
        stories, writers = self._load(scene)
        planned = draw(self._dice("faults"), self.seconds, self.only)
        skipped = self.fleet.skipped
        await self._happen(scene, [each for each in planned if each.kind not in skipped])
        healed = await self._heal(scene)
        live = await self._require_life(scene, healed)
        await self._quiet(writers)
        settled = await self._settle(scene, stories, healed)
        for watcher in scene.watchers.values():
            self.findings += watcher.findings
        self.findings += bounds.verdict()
        self.findings += [Finding("odd", "a collector", answer) for answer in scene.ledger.odd]
        return Report(
            seed=self.seed,
            seconds=self.seconds,
            events=Counter(each.outcome for each in scene.ledger.sent),
            faults=Counter(each.kind for each in scene.faults),
            line_faults=Counter(kind for _, _, kind in scene.line_faults),
            findings=[str(each) for each in self.findings],
            kinds=Counter(each.kind for each in self.findings),
            recovery_s=recoveries(
                scene.faults,
                scene.ledger.sent,
                {name: watcher.seen for name, watcher in scene.watchers.items()},
            ),
            live_s=live,
            settled_s=settled,
            most=dict(bounds.most),
            gaps=gaps_of(self.told),
            skipped=self.fleet.skipped,
            only=list(self.only),
        )

    def _do(self, *work: Coroutine[Any, Any, None]) -> None:
        self._tasks += [asyncio.create_task(each) for each in work]

    def _load(self, scene: Scene) -> tuple[list[StoryTeller], list[Writer]]:
        senders: list[Sender] = []
        stories: list[StoryTeller] = []
        writers: list[Writer] = []
        for name, machine in self.fleet.machines.items():
            ledger = scene.ledger
            senders += [
                Sender(machine, ledger, self._dice(f"{name}h{at}"), f"h{at}") for at in (1, 2)
            ]
            senders.append(SocketSender(machine, ledger, self._dice(f"{name}s"), "s"))
            stories.append(StoryTeller(machine, ledger, self._dice(f"{name}r"), "r"))
            writers.append(Writer(machine, ledger, self._dice(f"{name}l"), scene.is_shown))
            writers[-1].faults = scene.line_faults
        loads = [each.run() for each in senders + stories] + [each.run() for each in writers]
        self._loading = [asyncio.create_task(each) for each in loads]
        return stories, writers

    async def _happen(self, scene: Scene, planned: list[Fault]) -> None:
        began = time.monotonic()
        happening = [asyncio.create_task(self._fault(scene, each, began)) for each in planned]
        try:
            await asyncio.sleep(self.seconds)
            await asyncio.gather(*happening)
        finally:
            for task in happening:
                task.cancel()
            await asyncio.gather(*happening, return_exceptions=True)

    async def _fault(self, scene: Scene, fault: Fault, began: float) -> None:
        await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
        kind = KINDS[fault.kind]
        async with contextlib.AsyncExitStack() as held:
            # On a slow machine the one before may still be waiting for its part to start.
            for thing in sorted(each.format(fault.target) for each in kind.touches):
                await held.enter_async_context(self._held[thing])
            done = Done(fault.kind, fault.target, time.monotonic())
            scene.faults.append(done)
            async with kind.act(scene, fault.target, random.Random(fault.dice)):
                await asyncio.sleep(fault.lasts)
            done.ended = done.ended or time.monotonic()

    async def _heal(self, scene: Scene) -> float:
        """Nothing is left of any fault, even if one broke off. The moment from which that is so."""
        broker = self.fleet.broker
        if broker.process is None:
            await asyncio.to_thread(broker.start)
        assert broker.process is not None
        broker.process.send_signal(signal.SIGCONT)
        await stop_scripts(scene)
        await scene.broker(lambda redis: redis.config_set("requirepass", ""), PASSWORD)

        async def settings(redis: Any) -> None:
            await redis.config_set("maxmemory", "0")
            await redis.config_set("save", "")
            await redis.replicaof("NO", "ONE")

        await scene.broker(settings)
        for link in self.fleet.links.values():
            link.heal()
            await link.accept()
        for machine in self.fleet.machines.values():
            machine.set_clock(0)
            (machine.state / "ballast").unlink(missing_ok=True)
        for part in self.fleet.parts:
            part.thaw()
            await part.start()
        return max((fault.ended for fault in scene.faults), default=time.monotonic())

    async def _require_life(self, scene: Scene, healed: float) -> float:
        """A fresh event of every host, from when the last fault ended to the last hub's client."""
        sent = {}
        for name, machine in self.fleet.machines.items():
            probe = scene.sender(machine, "probe")
            fresh = functools.partial(probe.fresh, "probe")
            sent[name] = await wait_until(fresh, SETTLE_S)
        seen = [watcher.seen for watcher in scene.watchers.values()]

        def all_shown() -> bool:
            return all(name in each for each in seen for name in sent.values())

        with contextlib.suppress(AssertionError):
            await wait_until(all_shown, SETTLE_S)
        took = time.monotonic() - healed
        if took > LIVE_S * max(1.0, os.getloadavg()[0] / CORES):
            late = [host for host, name in sent.items() if not all(name in each for each in seen)]
            self.findings.append(
                Finding("slow", "all hosts", f"{took:.1f} s after the last fault; never: {late}")
            )
        return took

    async def _quiet(self, writers: list[Writer]) -> None:
        for task in self._loading:
            task.cancel()
        for result in await asyncio.gather(*self._loading, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        for writer in writers:
            await writer.finish()

    async def _settle(self, scene: Scene, stories: list[StoryTeller], healed: float) -> float:
        """Until several looks in a row find nothing; what the last one finds otherwise, stays."""
        deadline, clean, since = time.monotonic() + ALIKE_S, 0, 0.0
        found: list[Finding] = []
        while True:
            last, (found, self.told) = found, await look(scene, stories)
            now = time.monotonic()
            clean, since = (0, 0.0) if found else (clean + 1, since or now)
            if clean >= CLEAN_LOOKS:
                return since - healed
            if now > deadline:
                # What is under way between two questions is no difference that stays.
                self.findings += [each for each in found if each in last]
                return 0.0
            await asyncio.sleep(0.4)
