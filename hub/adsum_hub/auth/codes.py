"""One-time login codes in Redis: made, looked at, and used up by exactly one login."""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from adsum_hub.auth.roles import Role
from adsum_shared import streams
from adsum_shared.connect import Redis

#: Why a code lets nobody in.
Worthless = Literal["unknown", "used", "expired"]


class Code(msgspec.Struct, frozen=True):
    """until: ms. used: it has let somebody in."""

    name: str
    role: Role
    until: int
    used: bool = False


class Codes:
    """By digest. A code that is over is kept for a day, to say what became of it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def put(self, digest: str, code: Code) -> None:
        key, encoded = streams.login_code(digest), msgspec.json.encode(code)
        await self._redis.set(key, encoded, px=streams.LOGIN_CODE_KEEP_MS)

    async def take(self, digest: str, now: int) -> Code | Worthless:
        key = streams.login_code(digest)
        code = _read(cast("bytes | None", await self._redis.get(key)), now)
        if not isinstance(code, Code):
            return code
        over = msgspec.json.encode(msgspec.structs.replace(code, used=True))
        # Whoever gets back the unused one has it: of two logins at once, one.
        before = await self._redis.set(key, over, xx=True, get=True, px=streams.LOGIN_CODE_KEEP_MS)
        return _read(cast("bytes | None", before), now)


def _read(stored: bytes | None, now: int) -> Code | Worthless:
    if stored is None:
        return "unknown"
    try:
        code = msgspec.json.decode(stored, type=Code)
    except msgspec.DecodeError:
        return "unknown"
    if code.used:
        return "used"
    return code if now < code.until else "expired"
