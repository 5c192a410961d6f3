"""Which cases were told, in Redis: two hubs do not both tell one, and a restart repeats none."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Literal

from adsum_shared import streams
from adsum_shared.connect import Redis

Claim = Literal["won", "told", "held"]
_TOLD = b"told"
_CHUNK = 500


class Marks:
    """A claim lapses by itself: a hub that dies over a message leaves it to the others.

    If it dies between a message and its mark, that message is told twice. Rejected: to mark before
    sending, which would swallow it instead.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._me = secrets.token_hex(8).encode()

    async def begin(self, rules: Iterable[str], now: int) -> dict[str, int]:
        """Rule id -> since when there is such a rule; `now` for one that is not known yet."""
        begun: dict[str, int] = {}
        for rule in rules:
            key, ttl = streams.notify_rule(rule), streams.NOTIFY_KEEP_MS
            if not await self._redis.set(key, now, nx=True, px=ttl):
                await self._redis.pexpire(key, ttl)
            stored = await self._redis.get(key)
            begun[rule] = int(stored) if stored is not None and stored.isdigit() else now
        return begun

    async def claim(self, marks: Sequence[str]) -> list[Claim]:
        """held: another hub is at it; if it dies, the claim is free after NOTIFY_CLAIM_MS."""
        found: list[Claim] = []
        for start in range(0, len(marks), _CHUNK):
            keys = [streams.notify_mark(mark) for mark in marks[start : start + _CHUNK]]
            pipeline = self._redis.pipeline(transaction=False)
            for key in keys:
                pipeline.set(key, self._me, nx=True, px=streams.NOTIFY_CLAIM_MS)
                pipeline.get(key)
            replies = await pipeline.execute()
            found += [self._claimed(value) for value in replies[1::2]]
        return found

    def _claimed(self, value: bytes | None) -> Claim:
        # Our own: also where the reply to the first try was lost.
        if value == self._me:
            return "won"
        return "told" if value == _TOLD else "held"

    async def tell(self, marks: Sequence[str]) -> None:
        for start in range(0, len(marks), _CHUNK):
            pipeline = self._redis.pipeline(transaction=False)
            for mark in marks[start : start + _CHUNK]:
                pipeline.set(streams.notify_mark(mark), _TOLD, px=streams.NOTIFY_KEEP_MS)
            await pipeline.execute()

    async def free(self, marks: Sequence[str]) -> None:
        """Claims given back, and marks of what may be told again."""
        for start in range(0, len(marks), _CHUNK):
            keys = [streams.notify_mark(mark) for mark in marks[start : start + _CHUNK]]
            pipeline = self._redis.pipeline(transaction=False)  # in a cluster no DEL takes them all
            for key in keys:
                pipeline.delete(key)
            await pipeline.execute()
