"""Faults of the network between one part and the broker."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from tests.chaos.scene import Scene
from tests.chaos.schedule import HOSTS, HUBS, fault

PARTS = (*HOSTS, *HUBS)
LINK = ("link {}",)


@fault("connection refused", weight=3, targets=PARTS, lasts=(0.1, 2.0), touches=LINK)
@contextlib.asynccontextmanager
async def refused(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    link = scene.fleet.links[target]
    link.refuse()
    yield
    await link.accept()


@fault("connections reset", weight=3, targets=PARTS, lasts=(0.3, 1.5), touches=LINK)
@contextlib.asynccontextmanager
async def reset(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    async def again() -> None:
        while True:
            scene.fleet.links[target].reset()
            await asyncio.sleep(dice.uniform(0.05, 0.4))

    async with _meanwhile(again()):
        yield


@fault("replies lost", weight=5, targets=PARTS, lasts=(0.3, 2.0), touches=LINK)
@contextlib.asynccontextmanager
async def replies_lost(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    async with _losing(scene, target, dice, garble=False):
        yield


@fault("replies garbled", weight=2, targets=PARTS, lasts=(0.3, 1.0), touches=LINK)
@contextlib.asynccontextmanager
async def replies_garbled(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    async with _losing(scene, target, dice, garble=True):
        yield


@contextlib.asynccontextmanager
async def _losing(
    scene: Scene, target: str, dice: random.Random, *, garble: bool
) -> AsyncIterator[None]:
    """Of the requests that change something, again and again."""
    link = scene.fleet.links[target]
    link.garble = garble

    async def again() -> None:
        while True:
            link.lose_reply_to = link.changes
            await asyncio.sleep(dice.uniform(0.05, 0.5))

    async with _meanwhile(again()):
        yield
    link.heal()


@fault("half-open", weight=4, targets=PARTS, lasts=(0.3, 4.0), touches=LINK)
@contextlib.asynccontextmanager
async def half_open(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """Nothing passes, in one direction or both; then all of it does, or the line breaks."""
    link = scene.fleet.links[target]
    asks, answers = dice.choice(((True, False), (False, True), (True, True)))
    breaks = dice.random() < 0.5
    if asks:
        link.asks.clear()
    if answers:
        link.answers.clear()
    yield
    if breaks:
        link.reset()
    link.heal()


@fault("slow link", weight=3, targets=PARTS, lasts=(0.5, 3.0), touches=LINK)
@contextlib.asynccontextmanager
async def slow(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    scene.fleet.links[target].bytes_per_s = dice.choice((1_000, 8_000, 40_000))
    yield
    scene.fleet.links[target].heal()


@contextlib.asynccontextmanager
async def _meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
