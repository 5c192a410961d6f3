"""Signs the records of Redis that open something, and refuses those that were not signed or were revoked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from adsum_hub.auth.sealed import sealed, unsealed
from adsum_hub.clock import Clock
from adsum_shared import streams
from adsum_shared.connect import Redis
from adsum_shared.private_files import write_private

log = logging.getLogger(__name__)
T = TypeVar("T")

REVOKED_FILE = "revoked.json"
#: Of a machine's secret, which has no end.
NEVER = 0
#: Hubs' clocks may differ so much: another hub may have deleted a revocation because it had ended. A request
#: that began before a revocation takes less.
MINUTE_MS = 60_000
#: Refused records that are logged one by one.
MOST_REPORTED = 100
REFUSED_NOTE = (
    "Records in Redis that open nothing: {}. This hub did not sign them, or they were revoked. Somebody "
    "who can write to Redis may have put them there. Read the hub's log, which names them, and change "
    "the password of the Redis user hub."
)
HIDDEN_NOTE = (
    "Revocations that this hub had published were missing in Redis. It published them again. Either Redis "
    "lost data, or somebody deletes them so that other hubs accept revoked credentials. If Redis lost "
    "none: change the password of the Redis user hub, and read the lists of tokens and sign-ins."
)


class Revocation(msgspec.Struct, frozen=True):
    """until: ms, when the credential would have ended; NEVER: it has no end."""

    until: int


class RevokedCredentials:
    """The digests of revoked credentials, in a file of this hub until each would have ended.

    An old record of one has a valid MAC, so without this list it would be good again once somebody
    puts it back.
    """

    def __init__(self, file: Path | None, clock: Clock) -> None:
        """file: None keeps them in memory only. Raises OSError, DecodeError."""
        self._file, self.clock = file, clock
        self._writing = asyncio.Lock()
        self._until: dict[str, int] = self._read()
        #: By digest: when it was revoked, in this run and within a minute.
        self._recent: dict[str, int] = {}

    def __contains__(self, digest: str) -> bool:
        return digest in self._until

    def is_recent(self, digest: str) -> bool:
        """Return whether Redis may still have its record: nobody has put that back."""
        return self.clock() - self._recent.get(digest, -MINUTE_MS) < MINUTE_MS

    def current(self) -> dict[str, int]:
        now = self.clock()
        return {key: until for key, until in self._until.items() if until == NEVER or until > now}

    async def add(self, revoked: Mapping[str, int]) -> None:
        """Return once they are on disk. An error is logged: they count in this run."""
        self._until = {**self.current(), **revoked}
        recent = {key: at for key, at in self._recent.items() if self.is_recent(key)}
        self._recent = recent | dict.fromkeys(revoked, self.clock())
        if self._file is None:
            return
        try:
            async with self._writing:
                content = msgspec.json.encode(self._until)
                await asyncio.to_thread(write_private, self._file, content)
        except OSError as error:
            log.warning("%s cannot be written: %s. Free space there.", self._file, error)

    def _read(self) -> dict[str, int]:
        try:
            content = self._file.read_bytes() if self._file else b"{}"
            return msgspec.json.decode(content, type=dict[str, int])
        except FileNotFoundError:
            return {}


class RecordSeal:
    """Signs records, and returns the content of those that it signed.

    secret: None until the hub has compared its own with Redis; all methods then fail as they do
    while Redis is away.
    """

    def __init__(self, secret: bytes | None, revoked: RevokedCredentials) -> None:
        self.secret, self.revoked = secret, revoked
        self._reported: set[str] = set()
        #: Digests whose revocation this hub has published in this run.
        self._published: set[str] = set()
        #: sentences for everybody
        self.remarks: list[str] = []

    def sign(self, key: str, record: bytes, field: str | None = None) -> bytes:
        """Raises UNAVAILABLE."""
        return sealed(self._secret, key, record, field)

    def verify(self, key: str, raw: bytes | None, field: str | None = None) -> bytes | None:
        """Return the record; None, and report it, if it is not ours. Raises UNAVAILABLE."""
        if raw is None:
            return None
        record = unsealed(self._secret, key, raw, field)
        if record is None:
            self.report(key, field, "this hub's secret did not sign it")
        return record

    @property
    def _secret(self) -> bytes:
        if self.secret is None:
            raise RedisConnectionError("the hub has not compared its secret with Redis yet")
        return self.secret

    def report(self, key: str, field: str | None, why: str) -> None:
        """Log a refused record once, and show that there is one."""
        prefix, _, digest = key.rpartition(":")
        # An id behind `token:` would be masked in the log, as a token is.
        name = f"{digest[:12]} of {prefix}" if field is None else f"{field[:40]!r} of {key}"
        if name in self._reported or len(self._reported) >= MOST_REPORTED:
            return
        self._reported.add(name)
        log.error("a record in Redis opens nothing, %s: %s", why, name)

    def report_revoked(self, key: str, field: str | None, digest: str) -> None:
        """Report a revoked record, unless it may be a request that began before the revocation."""
        if not self.revoked.is_recent(digest):
            self.report(key, field, "it was revoked")

    def notes(self) -> list[str]:
        """What everybody is shown."""
        refused = [REFUSED_NOTE.format(len(self._reported))] if self._reported else []
        return [*self.remarks, *refused]

    async def revoke(self, redis: Redis, digest: str, until: int) -> None:
        """First on this hub's disk, then for the other hubs. Raises UNAVAILABLE."""
        await self.revoked.add({digest: until})
        await self.publish(redis, {digest: until})

    async def exchange(self, redis: Redis) -> None:
        """Take over what other hubs have revoked, and publish what Redis lacks. Raises UNAVAILABLE."""
        server: Any = redis
        current = self.revoked.current()
        fields = await self._hash(redis, lambda: server.hkeys(streams.REVOKED))
        published = {field.decode(errors="replace") for field in fields}
        unknown = published - current.keys()
        if ended := [digest for digest in unknown if digest in self.revoked]:
            await server.hdel(streams.REVOKED, *ended)
        if new := sorted(unknown.difference(ended)):
            records = zip(new, await server.hmget(streams.REVOKED, new), strict=True)
            read = {digest: self._revocation(digest, raw) for digest, raw in records}
            if valid := {digest: until for digest, until in read.items() if until is not None}:
                await self.revoked.add(valid)
        if missing := {key: until for key, until in current.items() if key not in published}:
            later = self.revoked.clock() + MINUTE_MS
            if any(
                missing[key] == NEVER or missing[key] > later
                for key in missing.keys() & self._published
            ):
                self._note_hidden()
            await self.publish(redis, missing)

    def _revocation(self, digest: str, raw: bytes | None) -> int | None:
        record = self.verify(streams.REVOKED, raw, digest)
        return None if record is None else msgspec.json.decode(record, type=Revocation).until

    async def publish(self, redis: Redis, revoked: Mapping[str, int]) -> None:
        """Tell the other hubs. Raises UNAVAILABLE."""
        server: Any = redis
        fields: dict[Any, Any] = {
            digest: self.sign(streams.REVOKED, msgspec.json.encode(Revocation(until)), digest)
            for digest, until in revoked.items()
        }
        await self._hash(redis, lambda: server.hset(streams.REVOKED, mapping=fields))
        self._published = (self._published & self.revoked.current().keys()) | revoked.keys()

    async def _hash(self, redis: Redis, command: Callable[[], Awaitable[T]]) -> T:
        """Run a command on the revocations; if somebody put another type there, delete that first."""
        try:
            return await command()
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
        self._note_hidden()
        await redis.delete(streams.REVOKED)
        return await command()

    def _note_hidden(self) -> None:
        if HIDDEN_NOTE not in self.remarks:
            log.error("%s", HIDDEN_NOTE)
            self.remarks.append(HIDDEN_NOTE)
