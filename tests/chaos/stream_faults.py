"""Faults in the stream itself: what nobody of ours has written, and requests nobody has made."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import AsyncIterator
from typing import Any

from adsum_shared import streams
from adsum_shared.envelope import encode_batch
from adsum_shared.signals import Alive, encode_signal
from tests.chaos.scene import Scene
from tests.chaos.schedule import HOSTS, fault

KEYS = ("keys",)


@fault("replay asked by a stranger", weight=3, targets=HOSTS, lasts=(0.01, 0.02), touches=KEYS)
@contextlib.asynccontextmanager
async def replay_asked(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """Of the whole spool, or from somewhere in it."""
    host_id = scene.machine(target).host_id

    async def ask(redis: Any) -> None:
        raw = await redis.get(streams.beat(host_id))
        if raw is None:
            return
        beat = json.loads(raw)
        seq = dice.choice((1, max(1, beat.get("seq", 1) // 2)))
        await redis.set(streams.want(host_id), f"{beat['spool_id']}:{seq}", px=streams.WANT_TTL_MS)

    await scene.broker(ask)
    yield


@fault(
    "entry forged",
    weight=4,
    targets=HOSTS,
    lasts=(0.01, 0.02),
    touches=("keys", "{}"),
    loses="machine's data",
)
@contextlib.asynccontextmanager
async def entry_forged(scene: Scene, target: str, dice: random.Random) -> AsyncIterator[None]:
    """No batch at all, one of a spool that is nobody's, or one of a stranger under our own name."""
    machine = scene.machine(target)
    machine.allowed.gap = True
    how = dice.choice(("no batch", "another spool", "a stranger", "a stranger's gap"))
    scene.note("entry forged", how)

    async def forge(redis: Any) -> None:
        key = streams.inbox(machine.host_id)
        raw = await redis.get(streams.beat(machine.host_id))
        if raw is None or not await redis.exists(key):
            return
        beat = json.loads(raw)
        head = (await redis.xinfo_stream(key))["last-generated-id"].decode()
        incarnation, _, seq = head.partition("-")
        first, count = int(seq) + 1, dice.choice((1, 3))
        fields = _fields(scene, machine.name, beat["spool_id"], first, count, how)
        await redis.xadd(key, fields, id=f"{incarnation}-{int(seq) + count}")

    await scene.broker(forge)
    yield


def _fields(
    scene: Scene, host: str, spool_id: str, first: int, count: int, how: str
) -> dict[bytes, bytes]:
    if how == "no batch":
        return {b"hello": b"world"}
    now = int(time.time() * 1000)
    ids = [scene.ledger.name("forged") for _ in range(count)]
    session = f"{host}-forged"
    scene.ledger.send(ids, session, "forged", host, time.monotonic())
    signals = [
        encode_signal(Alive(session_id=session, at=now, seen=now, note=name)) for name in ids
    ]
    if how == "another spool":
        spool_id, first = f"{scene.number():016x}", 1
    fields = encode_batch(
        spool_id=spool_id, first=first, nonce="f" * 16, sent_at=now, signals=signals
    )
    return fields | {b"b": b"[{"} if how == "a stranger's gap" else fields
