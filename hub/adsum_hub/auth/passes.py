"""Passes in Redis: sign-ins of browsers and tokens, by digest, listed, renewed by use, revoked."""

from __future__ import annotations

from typing import cast

import msgspec

from adsum_hub.auth.entry import Kind, Pass
from adsum_hub.auth.secret import id_of
from adsum_shared import streams
from adsum_shared.connect import Redis

#: When a pass was last used is noted no more often: a write for each request would buy nobody much.
COARSE_MS = 10 * 60_000


class Passes:
    """All of one kind. Only digests come in here, no secret."""

    def __init__(self, redis: Redis, kind: Kind) -> None:
        self.kind = kind
        self._redis = redis
        self._list = streams.entry_passes(kind)

    def _key(self, digest: str) -> str:
        return streams.entry_pass(self.kind, digest)

    async def find(self, digest: str) -> Pass | None:
        return _decoded(await self._redis.get(self._key(digest)))

    async def issue(self, digest: str, held: Pass, now: int) -> None:
        async with self._redis.pipeline(transaction=True) as writes:
            writes.set(self._key(digest), msgspec.json.encode(held), px=held.ends - now)
            writes.zremrangebyscore(self._list, "-inf", now)
            writes.zadd(self._list, {digest: held.ends})
            writes.pexpire(self._list, streams.ENTRY_PASS_MOST_MS)
            await writes.execute()

    async def use(self, digest: str, held: Pass, now: int) -> Pass:
        """Notes that it was used, unless that was noted lately."""
        if now - held.seen < COARSE_MS:
            return held
        used = msgspec.structs.replace(held, seen=now)
        async with self._redis.pipeline(transaction=True) as writes:
            # XX, both: what was revoked in this moment is not brought back.
            encoded = msgspec.json.encode(used)
            writes.set(self._key(digest), encoded, px=max(1, used.ends - now), xx=True)
            writes.zadd(self._list, {digest: used.ends}, xx=True)
            await writes.execute()
        return used

    async def all(self, now: int) -> list[Pass]:
        """The latest made first."""
        digests = cast("list[bytes]", await self._redis.zrangebyscore(self._list, now, "+inf"))
        keys = [self._key(digest.decode()) for digest in digests]
        stored = await self._redis.mget(keys) if keys else []
        found = [held for held in map(_decoded, stored) if held is not None]
        return sorted(found, key=lambda held: -held.since)

    async def revoke(self, named: str) -> str | None:
        """By id. The digest of what is no more; None: there is no such one."""
        stored = cast("list[bytes]", await self._redis.zrange(self._list, 0, -1))
        digests = (each.decode() for each in stored)
        digest = next((each for each in digests if id_of(each) == named), None)
        if digest is None or not await self.remove(digest):
            return None
        return digest

    async def remove(self, digest: str) -> bool:
        """Whether it was there."""
        async with self._redis.pipeline(transaction=True) as writes:
            writes.delete(self._key(digest))
            writes.zrem(self._list, digest)
            removed, _ = await writes.execute()
        return bool(removed)


def _decoded(stored: object) -> Pass | None:
    """None also for what cannot be read: nobody is let in by it."""
    if stored is None:
        return None
    try:
        return msgspec.json.decode(cast("bytes", stored), type=Pass)
    except msgspec.DecodeError:
        return None
