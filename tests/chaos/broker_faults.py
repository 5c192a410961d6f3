"""Faults of the broker and of its data: wiped, rolled back, refusing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
from collections.abc import AsyncIterator
from typing import Any

from redis.exceptions import RedisError

from adsum_shared import streams
from tests.chaos.scene import Scene
from tests.chaos.schedule import HOSTS, fault

BROKER = ("broker",)
PASSWORD = "another"
SPIN = "while true do end"


@fault("broker wiped", weight=3, targets=BROKER, lasts=(0.05, 1.0), loses="broker's data")
@contextlib.asynccontextmanager
async def wiped(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    scene.fleet.broker.kill()
    scene.fleet.broker.wipe()
    yield
    scene.ended("broker wiped", target)
    await asyncio.to_thread(scene.fleet.broker.start)


@fault("broker rolled back", weight=4, targets=BROKER, lasts=(0.3, 4.0), loses="broker's data")
@contextlib.asynccontextmanager
async def rolled_back(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """To the copy of its files that was made when the fault began."""
    broker = scene.fleet.broker
    kept = broker.directory.with_name("broker-before")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(broker.directory / "appendonlydir", kept)
    yield
    broker.kill()
    broker.wipe()
    shutil.copytree(kept, broker.directory / "appendonlydir")
    scene.ended("broker rolled back", target)
    await asyncio.to_thread(broker.start)


@fault("FLUSHALL", weight=3, targets=BROKER, lasts=(0.01, 0.02), loses="broker's data")
@contextlib.asynccontextmanager
async def flushed(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    await scene.broker(lambda redis: redis.flushall())
    yield


@fault(
    "key deleted",
    weight=5,
    targets=HOSTS,
    lasts=(0.01, 0.02),
    touches=("keys",),
    loses="broker's data",
)
@contextlib.asynccontextmanager
async def key_deleted(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    host_id = scene.machine(target).host_id
    each = dice.choice((streams.inbox, streams.snapshot, streams.want, streams.beat, None))
    key = each(host_id) if each else streams.HOSTS
    scene.note("key deleted", key.rpartition(":")[2])
    await scene.broker(lambda redis: redis.delete(key))
    yield


@fault("out of memory", weight=2, targets=BROKER, lasts=(0.3, 2.5))
@contextlib.asynccontextmanager
async def out_of_memory(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    await scene.broker(lambda redis: redis.config_set("maxmemory", "1mb"))
    yield
    await scene.broker(lambda redis: redis.config_set("maxmemory", "0"))


@fault("MISCONF", weight=2, targets=BROKER, lasts=(0.3, 2.5))
@contextlib.asynccontextmanager
async def misconf(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """Where its dump should go is a directory: it cannot save, and says so at every write."""
    (scene.fleet.broker.directory / "dump.rdb").mkdir(exist_ok=True)

    async def fail(redis: Any) -> None:
        await redis.config_set("save", "3600 1")
        await redis.bgsave()

    await scene.broker(fail)
    yield
    await scene.broker(lambda redis: redis.config_set("save", ""))


@fault("READONLY", weight=2, targets=BROKER, lasts=(0.3, 2.5))
@contextlib.asynccontextmanager
async def readonly(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """A replica of nobody."""
    await scene.broker(lambda redis: redis.replicaof("127.0.0.1", "1"))
    yield
    await scene.broker(lambda redis: redis.replicaof("NO", "ONE"))


@fault("BUSY", weight=2, targets=BROKER, lasts=(0.3, 2.0))
@contextlib.asynccontextmanager
async def busy(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    spinning = asyncio.create_task(scene.broker(lambda redis: redis.eval(SPIN, 0)))
    yield
    await stop_scripts(scene)
    await spinning


async def stop_scripts(scene: Scene) -> None:
    async def kill(redis: Any) -> None:
        with contextlib.suppress(RedisError):  # none runs
            await redis.script_kill()

    await scene.broker(kill)


@fault("password changed", weight=2, targets=BROKER, lasts=(0.3, 2.0))
@contextlib.asynccontextmanager
async def password_changed(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    async def change(redis: Any) -> None:
        await redis.config_set("requirepass", PASSWORD)
        await redis.client_kill_filter(_type="normal", skipme=True)

    await scene.broker(change)
    yield
    await scene.broker(lambda redis: redis.config_set("requirepass", ""), PASSWORD)


@fault("clients killed", weight=3, targets=BROKER, lasts=(0.01, 0.02), touches=("clients",))
@contextlib.asynccontextmanager
async def clients_killed(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    await scene.broker(lambda redis: redis.client_kill_filter(_type="normal", skipme=True))
    yield
