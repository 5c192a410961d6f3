"""Makes join tokens and machines' secrets, checks them by what Redis keeps; and what machines ask."""

import re
import secrets
from typing import Literal

import msgspec

from adsum_hub.auth.credentials import CodeProblem, SecretStore
from adsum_hub.auth.seal import RecordSeal
from adsum_hub.join.machines import Way
from adsum_shared import streams
from adsum_shared.connect import Redis
from adsum_shared.state import Reachability

TOKEN_PREFIX = "adsum_join_"  # noqa: S105 - what a token begins with
MACHINE_PREFIX = "adsum_machine_"
_HOST_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
HOST_ID = re.compile(_HOST_ID)
JOIN_TOKEN = re.compile(rf"{TOKEN_PREFIX}[\w-]{{43}}", re.ASCII)
_MACHINE = re.compile(rf"{MACHINE_PREFIX}({_HOST_ID})_[\w-]{{43}}", re.ASCII)


def make_machine_secret(host_id: str) -> str:
    """It says whose it is, so that nothing has to be searched for it."""
    return f"{MACHINE_PREFIX}{host_id}_{secrets.token_urlsafe(32)}"


def host_in(secret: str) -> str | None:
    """Whose secret it says it is."""
    found = _MACHINE.fullmatch(secret)
    return found[1] if found else None


class JoinTokenAsked(msgspec.Struct):
    """label: what the machine is to be called; empty: what it calls itself."""

    expires_s: int = 3600
    reusable: bool = False
    label: str = ""


class JoinToken(msgspec.Struct):
    """since, until: ms. uses: how many machines have joined by it."""

    id: str
    since: int
    until: int
    reusable: bool
    label: str
    uses: int


class JoinTokens(msgspec.Struct):
    schema: int
    now: int
    tokens: list[JoinToken]


class JoinTokenMade(msgspec.Struct):
    """secret: shown here and never again. command: the one line to type on the machine.

    note: what would keep other machines from joining; None: nothing that is known.
    """

    schema: int
    secret: str
    command: str
    token: JoinToken
    note: str | None


#: What a machine that joins asks for; auto: whatever the hub offers and is reached from there.
Via = Literal["auto", "redis", "ingest"]


class JoinChecked(msgspec.Struct):
    """The token is good. version: the hub's. wire: of batches it reads. now: its clock, ms."""

    schema: int
    version: str
    wire: int
    now: int


class JoinCheckAsked(msgspec.Struct):
    token: str


class LeaveAsked(msgspec.Struct):
    """undo: of a joining that failed. Its token is good again."""

    undo: bool = False


class JoinAsked(msgspec.Struct):
    """former: the secret of an earlier joining, which proves that the identity is the machine's.

    via: machines that are older than ingest can do nothing but Redis.
    """

    token: str
    host_id: str
    label: str
    former: str = ""
    via: Via = "redis"


class JoinAnswer(msgspec.Struct):
    """redis_url: with the machine's login in it; empty where it goes through the hub.

    secret: what it shows to the hub. warning: what is not as it should be; None: nothing. why: of the way.
    command_keys: by which hubs sign commands, in hex by their ids.
    """

    schema: int
    host_id: str
    label: str
    way: Way
    redis_url: str
    secret: str
    warning: str | None
    why: str = ""
    command_keys: dict[str, str] = {}


class MachineSeen(msgspec.Struct):
    """What the hub has of the machine that asks. applied: the number of its last signal.

    command_keys: by which hubs sign commands, in hex by their ids.
    """

    schema: int
    host_id: str
    label: str
    listed: bool
    applied: int
    reachability: Reachability
    command_keys: dict[str, str] = {}


class HostChanged(msgspec.Struct):
    schema: int
    id: str


class LabelAsked(msgspec.Struct):
    """label: empty: what the machine calls itself."""

    label: str


class StoredJoinToken(msgspec.Struct, frozen=True):
    """since, until: ms. by: the host that has used it up, of one that is not reusable."""

    id: str
    since: int
    until: int
    reusable: bool
    label: str
    uses: int = 0
    by: str | None = None


class JoinTokenStore(SecretStore[StoredJoinToken]):
    """One that is over is known for a day, to say so."""

    def __init__(self, redis: Redis, seal: RecordSeal) -> None:
        prefix, most_ms = streams.join_token(""), streams.JOIN_TOKEN_MOST_MS
        super().__init__(redis, seal, StoredJoinToken, prefix, streams.JOIN_TOKENS, most_ms)

    async def issue(self, digest: str, held: StoredJoinToken, now: int) -> None:
        await self.put(digest, held, ends=held.until, keep_ms=_kept_ms(held, now), now=now)

    async def look(self, digest: str, now: int) -> StoredJoinToken | CodeProblem:
        """As `take` would find it."""
        return _checked(await self.find(digest), now)

    async def take(self, digest: str, host_id: str, now: int) -> StoredJoinToken | CodeProblem:
        held = await self.look(digest, now)
        if not isinstance(held, StoredJoinToken):
            return held
        by = None if held.reusable else host_id
        over = msgspec.structs.replace(held, uses=held.uses + 1, by=by)
        # Whoever gets back the unused one has it: of two machines at once, one.
        before = await self.replace(digest, over, _kept_ms(held, now))
        return held if held.reusable and before else _checked(before, now)

    async def free(self, named: str, host_id: str, now: int) -> None:
        """By id: if that host has used it up, whose joining came to nothing. As often as one likes."""
        digest, held = await self._found(named)
        if held is not None and held.by == host_id:
            await self._use_less(digest, held, now)

    async def discount(self, named: str, now: int) -> None:
        """By id: if it lets many in, one less has joined by it. Each time it is asked."""
        digest, held = await self._found(named)
        if held is not None and held.reusable:
            await self._use_less(digest, held, now)

    async def retire(self, named: str) -> None:
        """By id: unless it lets many in. Who is shut out may be undoing its joining, which frees it."""
        _, held = await self._found(named)
        if held is not None and not held.reusable:
            await self.revoke(named)

    async def all(self, now: int) -> list[StoredJoinToken]:
        return [held for held in await super().all(now) if held.by is None]

    async def _found(self, named: str) -> tuple[str, StoredJoinToken | None]:
        for digest in await self.digests_of(named):
            if (held := await self.find(digest)) is not None:
                return digest, held
        return "", None

    async def _use_less(self, digest: str, held: StoredJoinToken, now: int) -> None:
        fewer = msgspec.structs.replace(held, uses=max(0, held.uses - 1), by=None)
        await self.replace(digest, fewer, _kept_ms(held, now))


def _kept_ms(held: StoredJoinToken, now: int) -> int:
    return held.until - now + streams.JOIN_TOKEN_KEEP_MS


def _checked(held: StoredJoinToken | None, now: int) -> StoredJoinToken | CodeProblem:
    if held is None:
        return "unknown"
    if held.by is not None:
        return "used"
    return held if now < held.until else "expired"
