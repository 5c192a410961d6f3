"""Rosters of any size straight into Redis, as hubs would have stored them."""

from __future__ import annotations

import random
import uuid
from typing import Any

import msgspec
from msgspec.structs import replace

from adsum_shared import streams
from adsum_shared.connect import Redis
from adsum_shared.envelope import Beat, encode_batch, encode_beat
from adsum_shared.signals import Alive, encode_signal
from tests.scenes import STEPS, by_time, folded, play

#: As many hosts and sessions as are asked for are copies of so many, which makes writing quick.
DIFFERENT = 100
CHUNK = 500


def host_id(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


def session_id(number: int) -> str:
    return str(uuid.UUID(int=(1 << 100) + number))


def many_facts(now: int, dice: random.Random) -> list[bytes]:
    """Encoded facts of sessions with some fifty signals each, about 3 kB, as recorded ones are."""
    found = []
    for _ in range(DIFFERENT):
        scene = play(dice.choices(STEPS, k=dice.randint(2, 16)), late=40)
        shift = now - scene.t
        signals = [
            replace(signal, at=signal.at + shift, seen=signal.seen + shift)
            for signal in by_time(scene.streams)
        ]
        found.append(msgspec.json.encode(folded(signals)))
    return found


async def store(redis: Redis, hosts: int, sessions: int, now: int) -> list[str]:
    """The hosts' ids. Each has its share of the sessions; `beat` keeps them live."""
    facts = many_facts(now, random.Random(4))
    ids = [host_id(number) for number in range(hosts)]
    for number, each in enumerate(ids):
        fields: dict[Any, Any] = {
            streams.VERSION: 1,
            streams.CURSOR: "1-1",
            streams.APPLIED: b'{"sp":1}',
            streams.HOST: msgspec.json.encode({"label": f"box {number}", "last_seen": now}),
        }
        for session in range(number, sessions, hosts):
            told = facts[session % DIFFERENT].replace(
                b'"S"', f'"{session_id(session)}"'.encode(), 1
            )
            fields[streams.SESSION + session_id(session)] = told
            if len(fields) >= CHUNK:
                await redis.hset(streams.snapshot(each), mapping=fields)
                fields = {}
        if fields:
            await redis.hset(streams.snapshot(each), mapping=fields)
        await publish(redis, each, 1, [Alive(session_id="nobody", at=now, seen=now)], now)
    await beat(redis, ids, now)
    await redis.sadd(streams.HOSTS, *ids)
    return ids


async def beat(redis: Redis, ids: list[str], now: int) -> None:
    pipeline = redis.pipeline(transaction=False)
    for number, each in enumerate(ids):
        told = encode_beat(Beat(each, f"box {number}", now, "n", "sp", seq=1, sent=1))
        pipeline.set(streams.beat(each), told, px=streams.BEAT_TTL_MS)
    await pipeline.execute()


async def publish(redis: Redis, host: str, first: int, signals: list[Any], now: int) -> None:
    """One batch of a host's, as its collector would send it."""
    bodies = [encode_signal(signal) for signal in signals]
    fields: Any = encode_batch(spool_id="sp", first=first, nonce="n", sent_at=now, signals=bodies)
    await redis.xadd(streams.inbox(host), fields, id=f"1-{first + len(bodies) - 1}")
