"""One host's keys in Redis, as the collector uses them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
from redis.exceptions import NoPermissionError, ResponseError

from adsum_collector.errors import StreamMovedError
from adsum_collector.resume import EntryId
from adsum_shared import streams
from adsum_shared.connect import Redis, require_recent

_applied: msgspec.json.Decoder[dict[str, int]] = msgspec.json.Decoder(dict[str, int])


class Inbox:
    """Every method raises what the client raises: see `adsum_shared.connect.UNAVAILABLE`."""

    def __init__(self, client: Redis, host_id: str) -> None:
        self._redis: Any = client  # its stubs leave open whether a command is awaited
        self._host_id = host_id

    async def require_recent(self) -> None:
        """Raises BrokerTooOldError."""
        with contextlib.suppress(NoPermissionError):  # a locked-down user need not see it
            require_recent(await self._redis.info("server"))

    async def enrol(self) -> None:
        with contextlib.suppress(NoPermissionError):  # there the operator has added the host
            await self._redis.sadd(streams.HOSTS, self._host_id)

    async def head(self) -> EntryId | None:
        """The last id ever given in the stream, trimmed or not; None if there is no stream."""
        try:
            info = await self._redis.xinfo_stream(streams.inbox(self._host_id))
        except ResponseError as error:
            if "no such key" in str(error):
                return None
            raise
        return EntryId.parse(info["last-generated-id"])

    async def read(self, entry: EntryId) -> Mapping[bytes, bytes] | None:
        """The entry's fields; None if it was trimmed."""
        found = await self._redis.xrange(streams.inbox(self._host_id), str(entry), str(entry))
        return found[0][1] if found else None

    async def applied(self, spool_id: str) -> int:
        """The number up to which hubs have stored what they made of our signals."""
        raw = await self._redis.hget(streams.snapshot(self._host_id), streams.APPLIED)
        return _applied_of(raw, spool_id)

    async def look(self, spool_id: str) -> tuple[bytes | None, int]:
        """A hub's request to replay, if there is one, and the applied number."""
        want = await self._redis.get(streams.want(self._host_id))
        return want, await self.applied(spool_id)

    async def add(self, entry: EntryId, fields: Mapping[bytes, bytes]) -> None:
        """Redis itself refuses an id that is there already. Raises StreamMovedError.

        That happens when an earlier try of this run arrived and only its answer was lost. A copy of
        this machine counts as we do and may have taken the very same id: its run has another nonce.
        """
        try:
            await self._redis.xadd(streams.inbox(self._host_id), fields, id=str(entry))
        except ResponseError as error:
            if "equal or smaller" not in str(error):
                raise
            there = await self.read(entry)
            if there is None or there.get(b"n") != fields.get(b"n"):
                raise StreamMovedError from error

    async def beat(self, beat: bytes) -> None:
        await self._redis.set(streams.beat(self._host_id), beat, px=streams.BEAT_TTL_MS)


def _applied_of(raw: bytes | None, spool_id: str) -> int:
    if raw is None:
        return 0
    try:
        return _applied.decode(raw).get(spool_id, 0)
    except msgspec.DecodeError:
        return 0  # a foreign value: publish as if no hub had stored anything
