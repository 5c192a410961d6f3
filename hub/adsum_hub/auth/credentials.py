"""Keeps secrets in Redis by their digests alone, and limits how often somebody may try one."""

import hashlib
import ipaddress
import re
import secrets
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from adsum_hub.auth.seal import RecordSeal
from adsum_shared import streams
from adsum_shared.connect import Redis

Role = Literal["viewer", "operator", "admin"]
Kind = Literal["sign-in", "token"]
#: Why a code or a token lets nobody in.
CodeProblem = Literal["unknown", "used", "expired"]
T = TypeVar("T", bound=msgspec.Struct)

DAY_MS = 24 * 3_600_000
#: A sign-in ends when it was not used for so long, and in any case after SIGN_IN_MOST_MS.
SIGN_IN_IDLE_MS = 30 * DAY_MS
SIGN_IN_MOST_MS = 90 * DAY_MS


class Credential(msgspec.Struct, frozen=True):
    """The browser sign-in or token of one person or program: its name, role and times in ms.

    idle: it ends when it was not used for so long; None: it ends at `until` alone.
    where: what a browser says it is. hosts: the ids of those where an operator may do something; none:
    all of them. by: the id of the credential that made it, or its login link; empty: this machine's own.
    """

    id: str
    name: str
    role: Role
    since: int
    until: int
    seen: int
    idle: int | None = None
    where: str = ""
    hosts: tuple[str, ...] = ()
    by: str = ""

    @property
    def ends(self) -> int:
        return self.until if self.idle is None else min(self.until, self.seen + self.idle)


TOKEN_PREFIX = "adsum_"  # noqa: S105 - what a token begins with
_CODE = re.compile(r"[\w-]{32}", re.ASCII)
_COOKIE = re.compile(r"[\w-]{43}", re.ASCII)
_TOKEN = re.compile(rf"{TOKEN_PREFIX}[\w-]{{43}}", re.ASCII)
ID_LENGTH = 12


def make_code() -> str:
    """192 bits: nobody guesses one in its ten minutes, and it still fits a small QR."""
    return secrets.token_urlsafe(24)


def make_cookie() -> str:
    return secrets.token_urlsafe(32)


def make_token() -> str:
    """With a prefix that scanners of repositories, and people, recognise."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None


def is_cookie(text: str) -> bool:
    return _COOKIE.fullmatch(text) is not None


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def digest_of(secret: str) -> str:
    """What is kept of a secret.

    SHA-256, and not argon2: a slow, salted hash protects what people think up. These are 192 random
    bits and more, which no speed of guessing reaches; and a slow one would be paid for with each
    request, and handed to whoever wants to keep the hub busy.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def id_of(digest: str) -> str:
    """What a pass is named by when it is listed or revoked. No way back to the secret either."""
    return digest[:ID_LENGTH]


def csrf_of(cookie: str) -> str:
    """The proof that a request comes from the page: of the cookie, so it need not be kept."""
    return hashlib.sha256(b"adsum csrf\0" + cookie.encode()).hexdigest()


#: When a credential was last used is noted no more often: a write for each request would buy nobody
#: much.
COARSE_MS = 10 * 60_000
#: In LOGIN_TRIES_MS. Far more than people need; guessing a code would take 2^192.
MOST_OF_ONE = 20
MOST_OF_ALL = 300
ALL = "all"


#: What Redis has for the role of an operator of some machines. Hubs from before there were such do not
#: know the word, so they let nobody in by it; they would overlook `hosts`, and let them act anywhere.
OF_SOME = "operator-of-some"


class SecretStore(Generic[T]):
    """Records of secrets in Redis, each under the digest of its secret.

    index: a sorted set of those digests by the time when each ends, which finds them by id; it is
    kept for most_ms. Empty: there is none. A record that is not in it opens nothing: no admin could
    find it to revoke it. None of these methods takes a secret.
    """

    def __init__(
        self, redis: Redis, seal: RecordSeal, of: type[T], prefix: str, index: str, most_ms: int
    ) -> None:
        self._redis, self._of, self._prefix, self._index = redis, of, prefix, index
        self._seal, self._most_ms = seal, most_ms

    async def find(self, digest: str) -> T | None:
        key = self._prefix + digest
        async with self._redis.pipeline(transaction=False) as reads:
            reads.get(key)
            if self._index:
                reads.zscore(self._index, digest)
            raw, *scores = await reads.execute()
        if raw is not None and None in scores:
            self._seal.report(key, None, "it is in no list")
            return None
        return self._decoded(digest, raw)

    async def put(self, digest: str, record: T, *, ends: int, keep_ms: int, now: int) -> None:
        """ends: ms, when it is valid no more. keep_ms: how long Redis has it."""
        async with self._redis.pipeline(transaction=True) as writes:
            writes.set(self._prefix + digest, self._encoded(digest, record), px=max(1, keep_ms))
            writes.zremrangebyscore(self._index, "-inf", now)
            writes.zadd(self._index, {digest: ends})
            writes.pexpire(self._index, self._most_ms)
            await writes.execute()

    async def replace(self, digest: str, record: T, keep_ms: int) -> T | None:
        """Returns what stood there before; None: it was revoked in this moment, and stays so."""
        key, encoded = self._prefix + digest, self._encoded(digest, record)
        before = await self._redis.set(key, encoded, xx=True, get=True, px=max(1, keep_ms))
        return self._decoded(digest, cast("bytes | None", before))

    async def all(self, now: int) -> list[T]:
        """Lists those that are valid, the latest first."""
        listed = cast("list[bytes]", await self._redis.zrangebyscore(self._index, now, "+inf"))
        digests = [each.decode(errors="replace") for each in listed]
        stored = (
            await self._redis.mget([self._prefix + each for each in digests]) if digests else []
        )
        records = map(self._decoded, digests, cast("list[bytes | None]", stored))
        found: list[Any] = [each for each in records if each is not None]
        return sorted(found, key=lambda each: -each.since)

    async def digests_of(self, named: str) -> list[str]:
        """By id. More than one: somebody has planted a decoy in the list."""
        stored = cast("list[bytes]", await self._redis.zrange(self._index, 0, -1))
        digests = (each.decode(errors="replace") for each in stored)
        return [each for each in digests if id_of(each) == named]

    async def revoke(self, named: str) -> list[str]:
        """Remove all that have this id. Return their digests; none: there is no such one."""
        return [each for each in await self.digests_of(named) if await self.remove(each)]

    async def remove(self, digest: str) -> bool:
        """Return whether it was in the list. From now on the digest opens nothing, at any hub."""
        found: Any = await self.find(digest)
        if found is None and await self._redis.zscore(self._index, digest) is None:
            return False
        # The list's own times are not signed.
        most = self._seal.revoked.clock() + self._most_ms
        until = found.until if found else most
        await self._seal.revoked.add({digest: until})
        # Before the others learn of it: where that fails, the record is gone nevertheless.
        async with self._redis.pipeline(transaction=True) as writes:
            writes.delete(self._prefix + digest)
            writes.zrem(self._index, digest)
            _, removed = await writes.execute()
        await self._seal.publish(self._redis, {digest: until})
        return bool(removed)

    def _decoded(self, digest: str, raw: bytes | None) -> T | None:
        """None also for what this hub did not sign, was revoked or cannot be read: it lets nobody in."""
        record = self._seal.verify(self._prefix + digest, raw)
        if record is None:
            return None
        if digest in self._seal.revoked:
            self._seal.report_revoked(self._prefix + digest, None, digest)
            return None
        try:
            fields = msgspec.json.decode(record, type=dict[str, Any])
            if fields.get("role") == OF_SOME:
                if not fields.get("hosts"):
                    return None
                fields["role"] = "operator"
            return msgspec.convert(fields, self._of)
        except msgspec.DecodeError:
            return None

    def _encoded(self, digest: str, record: msgspec.Struct) -> bytes:
        fields = msgspec.to_builtins(record)
        if fields.get("hosts"):
            fields["role"] = OF_SOME
        return self._seal.sign(self._prefix + digest, msgspec.json.encode(fields))


class CredentialStore(SecretStore[Credential]):
    """The credentials of one kind."""

    def __init__(self, redis: Redis, kind: Kind, seal: RecordSeal) -> None:
        prefix, index = streams.entry_pass(kind, ""), streams.entry_passes(kind)
        super().__init__(redis, seal, Credential, prefix, index, streams.ENTRY_PASS_MOST_MS)

    async def issue(self, digest: str, credential: Credential, now: int) -> None:
        ends = credential.ends
        await self.put(digest, credential, ends=ends, keep_ms=ends - now, now=now)

    async def use(self, digest: str, credential: Credential, now: int) -> Credential:
        """Notes that it was used, unless that was noted lately."""
        if now - credential.seen < COARSE_MS:
            return credential
        used = msgspec.structs.replace(credential, seen=now)
        async with self._redis.pipeline(transaction=True) as writes:
            # XX, both: what was revoked in this moment is not brought back.
            key, encoded = self._prefix + digest, self._encoded(digest, used)
            writes.set(key, encoded, px=max(1, used.ends - now), xx=True)
            writes.zadd(self._index, {digest: used.ends}, xx=True)
            await writes.execute()
        return used


class LoginCode(msgspec.Struct, frozen=True):
    """until: ms. used: it has let somebody in. hosts, by: see Credential."""

    name: str
    role: Role
    until: int
    used: bool = False
    hosts: tuple[str, ...] = ()
    by: str = ""


class LoginCodes(SecretStore[LoginCode]):
    """Login codes. One that is over is kept for a day, to say what became of it; none is listed."""

    def __init__(self, redis: Redis, seal: RecordSeal) -> None:
        super().__init__(redis, seal, LoginCode, streams.login_code(""), "", 0)

    async def issue(self, digest: str, code: LoginCode) -> None:
        key, encoded = self._prefix + digest, self._encoded(digest, code)
        await self._redis.set(key, encoded, px=streams.LOGIN_CODE_KEEP_MS)

    async def take(self, digest: str, now: int) -> LoginCode | CodeProblem:
        if digest in self._seal.revoked:
            return "used"
        code = _checked(await self.find(digest), now)
        if not isinstance(code, LoginCode):
            return code
        if code.by in map(id_of, self._seal.revoked.current()):  # whoever made it was revoked
            return "unknown"
        over = msgspec.structs.replace(code, used=True)
        # Whoever gets back the unused one has it: of two logins at once, one.
        taken = _checked(await self.replace(digest, over, streams.LOGIN_CODE_KEEP_MS), now)
        if isinstance(taken, LoginCode):
            await self._seal.revoke(self._redis, digest, code.until)
        return taken


def _checked(code: LoginCode | None, now: int) -> LoginCode | CodeProblem:
    if code is None:
        return "unknown"
    if code.used:
        return "used"
    return code if now < code.until else "expired"


class LoginRateLimit:
    """Counts tries of one address and of all together.

    of: what is tried, if it is not a login; each kind is counted by itself and locks out no other.
    """

    def __init__(self, redis: Redis, of: str = "") -> None:
        self._redis, self._of = redis, of

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
