"""The hub's half of delivery without its web half, and a collector's half without a spool."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from redis.asyncio import Redis

from adsum_hub.clock import Clock
from adsum_hub.consumer.consumer import Consumer, Saver
from adsum_hub.consumer.heartbeats import Heartbeats
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.redis_access import Room
from adsum_hub.roster import Roster
from adsum_hub.snapshots import load_header
from adsum_hub.trouble import Link
from adsum_shared import streams
from adsum_shared.connect import open_redis
from adsum_shared.envelope import Beat, encode_batch, encode_beat
from adsum_shared.signals import PromptSubmitted, encode_signal

HOST = "00000000-aaaa-4000-8000-000000000001"


def clock() -> int:
    return int(time.time() * 1000)


async def never(_host_id: str) -> bool:
    """Nobody here has a user of its own."""
    return False


class FakeCollector:
    """Writes what a publisher would: explicit ids, one writer."""

    def __init__(self, redis: Redis, host_id: str = HOST) -> None:
        self.redis = redis
        self.host_id = host_id
        self.incarnation = 1
        self.spool_id = "sp"
        self.nonce = "n"
        self.signals: list[bytes] = []

    async def join(self) -> None:
        await self.redis.sadd(streams.HOSTS, self.host_id)
        await self.beat()

    async def beat(self, *, stopping: bool = False) -> None:
        beat = Beat(
            self.host_id, "lab", clock(), "n", "sp", seq=len(self.signals), stopping=stopping
        )
        key = streams.beat(self.host_id)
        await self.redis.set(key, encode_beat(beat), px=streams.BEAT_TTL_MS)

    def happen(self, count: int = 1) -> None:
        """Each signal is a prompt of a session of its own, so a lost one shows."""
        for _ in range(count):
            now, number = clock(), len(self.signals) + 1
            prompt = PromptSubmitted(
                session_id=f"s{number}",
                at=now,
                seen=now,
                prompt_id=f"p{number}",
                text=f"do {number}",
            )
            self.signals.append(encode_signal(prompt))

    async def publish(self, first: int, last: int) -> None:
        fields = encode_batch(
            spool_id=self.spool_id,
            first=first,
            nonce=self.nonce,
            sent_at=clock(),
            signals=self.signals[first - 1 : last],
        )
        await self.add(last, fields)

    async def add(self, last: int, fields: dict[bytes, bytes]) -> None:
        entry_id = f"{self.incarnation}-{last}"
        await self.redis.xadd(streams.inbox(self.host_id), fields, id=entry_id)  # type: ignore[arg-type]


class Drained(Broadcast):
    """Nobody listens, so all that has changed is in the list at once."""

    def __init__(self, roster: Roster, clock: Clock) -> None:
        super().__init__(roster, clock)
        self._drained = roster

    def notify(self) -> None:
        while self._drained.take_changes(clock()).more:
            pass


class Hub:
    """A hub without its web half."""

    def __init__(self, url: str) -> None:
        self.redis = open_redis(url)
        self.reader = open_redis(url, block_s=1)
        self.roster = Roster()
        self.link = Link()
        self.room = Room(self.roster, self.redis, clock, 128 << 20, never)
        broadcast = Drained(self.roster, clock)
        self.heartbeats = Heartbeats(
            self.roster, self.redis, clock, self.link, broadcast, self.room
        )
        self.consumer = Consumer(
            self.roster,
            self.heartbeats,
            reader=self.reader,
            redis=self.redis,
            clock=clock,
            link=self.link,
            broadcast=broadcast,
        )
        self.saver = Saver(self.roster, self.redis, self.link)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *, saving: bool = True) -> None:
        loops: list[Callable] = [self.consumer.follow, self.heartbeats.listen]
        if saving:
            loops.append(self.saver.run)
        self._tasks = [asyncio.create_task(loop()) for loop in loops]

    async def stop(self) -> None:
        """As kill -9 would: nothing is saved on the way out."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.redis.aclose()
        await self.reader.aclose()

    def sessions(self) -> set[str]:
        return {view.session_id for view in self.roster.views.values()}

    def applied(self) -> int:
        host = self.roster.hosts.get(HOST)
        return host.applied.get("sp", 0) if host else 0


async def stored(redis: Redis, seq: int) -> bool:
    return (await load_header(redis, HOST)).applied.get("sp") == seq
