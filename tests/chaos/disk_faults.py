"""Faults of a machine's disk: full, copied, set back, lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from tests.chaos.fleet import DISK_MB, Machine
from tests.chaos.part import Part
from tests.chaos.ports import own_port
from tests.chaos.scene import Scene
from tests.chaos.schedule import HOSTS, fault
from tests.support import wait_until

CHUNK = 1 << 20
#: Of its disk the collector leaves two per cent to others.
TOO_LITTLE = DISK_MB * (1 << 20) // 70
#: Both copies of a machine push each other aside; what they still hold goes out in this time.
DRAIN_S = 20.0
BULKY = 50_000


@fault("disk full", weight=4, targets=("C",), lasts=(0.5, 3.0))
@contextlib.asynccontextmanager
async def disk_full(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """Fuller than the collector wants it, or to the last byte."""
    machine = scene.machine(target)
    ballast = machine.state / "ballast"
    await asyncio.to_thread(_fill, ballast, dice.choice((0, TOO_LITTLE)))
    yield
    ballast.unlink()


def _fill(ballast: Path, leave: int) -> None:
    """Others write there meanwhile, so the last byte is found by trying."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while (left := shutil.disk_usage(ballast.parent).free - leave) > 0 or not leave:
            file.write(bytes(max(1, min(left, CHUNK))))


#: Not while its clock is off: what has no living session for an hour is history to its readers.
STATE = ("{}", "clock {}")


@fault(
    "spool deleted",
    weight=3,
    targets=HOSTS,
    lasts=(0.1, 1.0),
    touches=STATE,
    loses="machine's data",
)
@contextlib.asynccontextmanager
async def spool_deleted(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """While the collector is down, or under its hands."""
    machine = scene.machine(target)
    alive = dice.random() < 0.5
    scene.note("spool deleted", "while it ran" if alive else "")
    if not alive:
        await machine.part.kill()
    shutil.rmtree(machine.state / "spool")
    yield
    await machine.part.kill()
    _lost(machine, 0.0)
    scene.ended("spool deleted", target)
    await machine.part.start()


@fault(
    "old state restored",
    weight=4,
    targets=HOSTS,
    lasts=(0.5, 4.0),
    touches=STATE,
    loses="machine's data",
)
@contextlib.asynccontextmanager
async def state_restored(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """To what it was when the fault began."""
    machine = scene.machine(target)
    kept = machine.directory / f"before-{scene.number()}"
    copied = _copy(machine, kept)
    yield
    await machine.part.kill()
    shutil.rmtree(machine.state / "spool")
    shutil.copytree(kept / "spool", machine.state / "spool")
    _lost(machine, copied)
    scene.ended("old state restored", target)
    await machine.part.start()


def _lost(machine: Machine, since: float) -> None:
    """What was accepted and had not gone out is lost; it is not known how far files were read."""
    machine.generation += 1
    machine.allowed.lost.append((since, time.monotonic()))
    machine.allowed.repeat_lines = machine.allowed.gap = True


def _copy(machine: Machine, to: Path) -> float:
    """As a snapshot of the disk: of one moment, which is returned. What is sent later is not in it."""
    machine.part.freeze()
    try:
        shutil.copytree(machine.state, to, ignore=shutil.ignore_patterns("*.sock", "*.lock"))
        return time.monotonic()
    finally:
        machine.part.thaw()


class Twin:
    """A second collector on a copy of a machine's state directory, with agents of its own."""

    generation = 0

    def __init__(self, machine: Machine, state: Path, label: str) -> None:
        self.name = machine.name
        self.state = state
        self.port = own_port()
        self.token = machine.token
        claude = machine.directory / f"{label}-claude"
        self.part: Part = machine.collector(state, self.port, claude, f"{machine.name}-{label}")

    async def backlog(self) -> int:
        async with httpx.AsyncClient(timeout=1.0, trust_env=False) as client:
            facts = (await client.get(f"{self.part.url}/readyz")).json()
        return int(facts["stream"]["backlog"])


@fault("state cloned", weight=4, targets=HOSTS, lasts=(1.5, 5.0), loses="machine's data")
@contextlib.asynccontextmanager
async def state_cloned(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    machine = scene.machine(target)
    label = f"twin{scene.number()}"
    state = machine.directory / label
    _copy(machine, state)
    machine.allowed.gap = True
    twin = Twin(machine, state, label)
    scene.fleet.twins.append(twin.part)
    await twin.part.start()
    senders = [scene.sender(twin, f"{label}{at}") for at in range(2)]
    sending = [asyncio.create_task(sender.run()) for sender in senders]
    try:
        yield
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
    labels = {sender.label for sender in senders}
    await wait_until(lambda: _is_shown(scene, twin, labels), timeout=DRAIN_S, interval=0.1)
    scene.ended("state cloned", target)
    await twin.part.stop()


async def _is_shown(scene: Scene, twin: Twin, labels: set[str]) -> bool:
    """Whether every hub has what the twin accepted from these senders.

    An empty backlog is not enough: Redis may lose its data before a hub has read it, and a twin that
    was stopped by then sends nothing again.
    """
    prefixes = tuple(f"{twin.name}-{label}-" for label in labels)
    accepted = {
        each.id
        for each in scene.ledger.sent
        if each.outcome == "ok" and each.session.startswith(prefixes)
    }
    try:
        empty = await twin.backlog() == 0
    except httpx.TransportError:
        return False
    return empty and all(accepted <= watcher.seen.keys() for watcher in scene.watchers.values())


@fault("spool over its cap", weight=2, targets=("B",), lasts=(1.0, 3.0), touches=("{}", "link {}"))
@contextlib.asynccontextmanager
async def over_cap(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """More than the spool may hold, while nothing goes out; what memory holds may die with it."""
    machine, link = scene.machine(target), scene.fleet.links[target]
    machine.allowed.gap = True
    link.refuse()
    sender = scene.sender(machine, f"bulky{scene.number()}")
    for _ in range(machine.cap_mb * 60):
        await sender.hook(sender.session(), "hook", BULKY)
    yield
    if dice.random() < 0.5:
        await machine.part.kill()
        await machine.part.start()
    machine.allowed.lost.append((0.0, time.monotonic()))
    await link.accept()
