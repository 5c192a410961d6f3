"""Faults of processes: killed, frozen, stopped and started again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator

from tests.chaos.part import Part
from tests.chaos.scene import Scene
from tests.chaos.schedule import HOSTS, HUBS, fault


def _part(scene: Scene, target: str) -> Part:
    return scene.fleet.hubs.get(target) or scene.machine(target).part


@fault("collector killed", weight=6, targets=HOSTS, lasts=(0.1, 1.5))
@contextlib.asynccontextmanager
async def collector_killed(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    async with _killed(scene, "collector killed", target):
        yield


@fault("hub killed", weight=5, targets=HUBS, lasts=(0.1, 2.0), loses="hubs")
@contextlib.asynccontextmanager
async def hub_killed(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    async with _killed(scene, "hub killed", target):
        yield


@contextlib.asynccontextmanager
async def _killed(scene: Scene, kind: str, target: str) -> AsyncIterator[None]:
    part = _part(scene, target)
    await part.kill()
    yield
    scene.ended(kind, target)
    await part.start()


@fault(
    "both hubs killed", weight=2, targets=("hubs",), lasts=(0.1, 1.0), touches=HUBS, loses="hubs"
)
@contextlib.asynccontextmanager
async def both_killed(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    hubs = scene.fleet.hubs.values()
    await asyncio.gather(*(hub.kill() for hub in hubs))
    yield
    scene.ended("both hubs killed", target)
    await asyncio.gather(*(hub.start() for hub in hubs))


@fault("collector stopped", weight=2, targets=HOSTS, lasts=(0.1, 1.0))
@contextlib.asynccontextmanager
async def collector_stopped(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    part = _part(scene, target)
    await part.stop()
    yield
    scene.ended("collector stopped", target)
    await part.start()


@fault(
    "hubs restarted in turn",
    weight=2,
    targets=("hubs",),
    lasts=(0.1, 1.0),
    touches=HUBS,
    loses="hubs",
)
@contextlib.asynccontextmanager
async def hubs_rolled(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    first, second = scene.fleet.hubs.values()
    await first.stop()
    await first.start()
    yield
    await second.stop()
    scene.ended("hubs restarted in turn", target)
    await second.start()


@fault("collector frozen", weight=3, targets=HOSTS, lasts=(0.2, 3.0))
@fault("hub frozen", weight=4, targets=HUBS, lasts=(0.2, 3.0))
@contextlib.asynccontextmanager
async def frozen(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    _part(scene, target).freeze()
    yield
    _part(scene, target).thaw()


@fault("zombie hub", weight=4, targets=HUBS, lasts=(0.4, 0.8), touches=HUBS, loses="hubs")
@contextlib.asynccontextmanager
async def zombie_hub(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """It sleeps while the other one stores more, wakes when that is dead, and dies of what it does."""
    hubs = scene.fleet.hubs
    sleeper, other = hubs[target], hubs[next(name for name in HUBS if name != target)]
    sleeper.freeze()
    yield
    await other.kill()
    sleeper.thaw()
    await asyncio.sleep(dice.uniform(0.002, 0.06))
    await sleeper.kill()
    scene.ended("zombie hub", target)
    await asyncio.gather(sleeper.start(), other.start())


@fault("broker killed", weight=4, targets=("broker",), lasts=(0.05, 2.0))
@contextlib.asynccontextmanager
async def broker_killed(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    scene.fleet.broker.kill()
    yield
    scene.ended("broker killed", target)
    await asyncio.to_thread(scene.fleet.broker.start)


@fault("broker frozen", weight=3, targets=("broker",), lasts=(0.2, 3.0))
@contextlib.asynccontextmanager
async def broker_frozen(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    process = scene.fleet.broker.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    yield
    process.send_signal(signal.SIGCONT)


@fault(
    "browser gone for a while", weight=2, targets=HUBS, lasts=(0.1, 0.2), touches=("browser {}",)
)
@contextlib.asynccontextmanager
async def browser_gone(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    watcher = scene.watchers[target]
    watcher.drop(dice.choice((None, None, ("another", 5), watcher.future)))
    yield


@fault("clock jumped", weight=2, targets=HOSTS, lasts=(0.5, 4.0), touches=("clock {}",))
@contextlib.asynccontextmanager
async def clock_jumped(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    seconds = dice.choice((5, 3600, 80_000)) * dice.choice((-1, 1))
    scene.machine(target).set_clock(seconds)
    scene.note("clock jumped", f"{seconds:+} s")
    yield
    scene.machine(target).set_clock(0)
