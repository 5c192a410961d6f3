"""Login codes, sign-ins and tokens in Redis, and the rate limit of logins. Only digests come in here."""

from __future__ import annotations

import ipaddress
from typing import Literal, cast

import msgspec

from adsum_hub.auth.credentials import Credential, Kind, Role, id_of
from adsum_shared import streams
from adsum_shared.connect import Redis

#: Why a code lets nobody in.
CodeProblem = Literal["unknown", "used", "expired"]
#: When a credential was last used is noted no more often: a write for each request would buy nobody
#: much.
COARSE_MS = 10 * 60_000
#: In LOGIN_TRIES_MS. Far more than people need; guessing a code would take 2^192.
MOST_OF_ONE = 20
MOST_OF_ALL = 300
ALL = "all"


class LoginCode(msgspec.Struct, frozen=True):
    """until: ms. used: it has let somebody in."""

    name: str
    role: Role
    until: int
    used: bool = False


class LoginCodes:
    """Login codes by digest. A code that is over is kept for a day, to say what became of it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def put(self, digest: str, code: LoginCode) -> None:
        key, encoded = streams.login_code(digest), msgspec.json.encode(code)
        await self._redis.set(key, encoded, px=streams.LOGIN_CODE_KEEP_MS)

    async def take(self, digest: str, now: int) -> LoginCode | CodeProblem:
        key = streams.login_code(digest)
        code = _code_in(cast("bytes | None", await self._redis.get(key)), now)
        if not isinstance(code, LoginCode):
            return code
        over = msgspec.json.encode(msgspec.structs.replace(code, used=True))
        # Whoever gets back the unused one has it: of two logins at once, one.
        before = await self._redis.set(key, over, xx=True, get=True, px=streams.LOGIN_CODE_KEEP_MS)
        return _code_in(cast("bytes | None", before), now)


def _code_in(stored: bytes | None, now: int) -> LoginCode | CodeProblem:
    if stored is None:
        return "unknown"
    try:
        code = msgspec.json.decode(stored, type=LoginCode)
    except msgspec.DecodeError:
        return "unknown"
    if code.used:
        return "used"
    return code if now < code.until else "expired"


class CredentialStore:
    """The credentials of one kind, each under the digest of its secret."""

    def __init__(self, redis: Redis, kind: Kind) -> None:
        self.kind = kind
        self._redis = redis
        self._list = streams.entry_passes(kind)

    def _key(self, digest: str) -> str:
        return streams.entry_pass(self.kind, digest)

    async def find(self, digest: str) -> Credential | None:
        return _credential_in(await self._redis.get(self._key(digest)))

    async def issue(self, digest: str, credential: Credential, now: int) -> None:
        async with self._redis.pipeline(transaction=True) as writes:
            writes.set(self._key(digest), msgspec.json.encode(credential), px=credential.ends - now)
            writes.zremrangebyscore(self._list, "-inf", now)
            writes.zadd(self._list, {digest: credential.ends})
            writes.pexpire(self._list, streams.ENTRY_PASS_MOST_MS)
            await writes.execute()

    async def use(self, digest: str, credential: Credential, now: int) -> Credential:
        """Notes that it was used, unless that was noted lately."""
        if now - credential.seen < COARSE_MS:
            return credential
        used = msgspec.structs.replace(credential, seen=now)
        async with self._redis.pipeline(transaction=True) as writes:
            # XX, both: what was revoked in this moment is not brought back.
            encoded = msgspec.json.encode(used)
            writes.set(self._key(digest), encoded, px=max(1, used.ends - now), xx=True)
            writes.zadd(self._list, {digest: used.ends}, xx=True)
            await writes.execute()
        return used

    async def all(self, now: int) -> list[Credential]:
        """Lists those that are valid, the latest first."""
        digests = cast("list[bytes]", await self._redis.zrangebyscore(self._list, now, "+inf"))
        keys = [self._key(digest.decode()) for digest in digests]
        stored = await self._redis.mget(keys) if keys else []
        found = [credential for credential in map(_credential_in, stored) if credential is not None]
        return sorted(found, key=lambda credential: -credential.since)

    async def revoke(self, named: str) -> str | None:
        """Removes one by its id. Returns its digest; None if there is no such one."""
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


def _credential_in(stored: object) -> Credential | None:
    """None also for what cannot be read, so that it lets nobody in."""
    if stored is None:
        return None
    try:
        return msgspec.json.decode(cast("bytes", stored), type=Credential)
    except msgspec.DecodeError:
        return None


class LoginRateLimit:
    """Counts tries of one address and of all together.

    of: what is tried, if it is not a login; each kind is counted by itself and locks out no other.
    """

    def __init__(self, redis: Redis, of: str = "") -> None:
        self._redis = redis
        self._of = of

    async def count(self, address: str) -> int:
        """Returns 0 to go on, else the seconds to wait. Counts before the code is looked at, or a burst passes.

        What an address tries beyond its own limit does not count towards that of all, or whoever has
        one address could lock everybody out.
        """
        wait = await self._counted(origin_of(address), MOST_OF_ONE)
        return wait or await self._counted(ALL, MOST_OF_ALL)

    async def _counted(self, whose: str, most: int) -> int:
        key = streams.login_tries(self._of + whose)
        async with self._redis.pipeline(transaction=True) as counting:
            # The time runs from the first try on. (PEXPIRE NX would say it, from Redis 7 on.)
            counting.set(key, 0, px=streams.LOGIN_TRIES_MS, nx=True)
            counting.incr(key)
            counting.pttl(key)
            _, number, left_ms = await counting.execute()
        return max(1, -(-left_ms // 1000)) if number > most else 0


def origin_of(address: str) -> str:
    """The address, or the /64 network of an IPv6 one: whoever has one address has 2^64 of them."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False).network_address)
