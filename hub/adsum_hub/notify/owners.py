"""Whose a push subscription is: the sign-in or token it was made with, and whether that is good."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from starlette.datastructures import Headers

from adsum_shared import streams
from adsum_shared.connect import Redis

if TYPE_CHECKING:
    from starlette.types import Scope

#: Where the gate, which stands above, leaves what it found.
GRANT = "adsum.grant"


class Owner(NamedTuple):
    """digest: of the secret. It is in Redis already, as the name of the pass."""

    kind: Literal["sign-in", "token"]
    digest: str


def owner_of(scope: Scope) -> Owner | None:
    """None: this machine's own command line, which is no browser.

    A browser may hold cookies of several hubs: the grant's csrf proof says which let it in.
    """
    grant, headers = scope.get(GRANT), Headers(scope=scope)
    if grant is None or grant.by is None:
        return None
    if grant.by == "token":
        secret = headers.get("authorization", "").partition(" ")[2].strip()
        return Owner("token", _sha256(secret.encode()))
    for secret in _cookies(headers):
        if hmac.compare_digest(_sha256(b"adsum csrf\0" + secret.encode()), grant.csrf):
            return Owner("sign-in", _sha256(secret.encode()))
    return None


def _cookies(headers: Headers) -> Iterator[str]:
    for line in headers.getlist("cookie"):
        for pair in line.split(";"):
            yield pair.strip().partition("=")[2]


def _sha256(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


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
