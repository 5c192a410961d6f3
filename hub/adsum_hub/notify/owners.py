"""Whose a push subscription is: the sign-in or token it was made with, and whether that is good."""

from __future__ import annotations

from typing import Literal, NamedTuple

from adsum_shared import streams
from adsum_shared.connect import Redis

#: In a scope: the Owner that the gate let in; nothing for this machine's own command line.
OWNER = "adsum.owner"


class Owner(NamedTuple):
    """digest: of the secret. It is in Redis already, as the name of the pass."""

    kind: Literal["sign-in", "token"]
    digest: str


class Owners:
    """Asked of Redis anew each time: what was revoked is told nothing more."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def gone(self, owners: set[Owner]) -> set[Owner]:
        """Those whose pass has ended, as its key expires then. Raises what Redis raises."""
        asked = sorted(owners)
        keys = [streams.entry_pass(each.kind, each.digest) for each in asked]
        stored = await self._redis.mget(keys) if keys else []
        return {each for each, held in zip(asked, stored, strict=True) if held is None}
