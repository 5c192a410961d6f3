"""One host's keys in Redis, as the collector uses them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from redis.exceptions import NoPermissionError, ResponseError

from adsum_collector.errors import OddReplyError, StreamMovedError, StreamUnusableError
from adsum_collector.resume import EntryId, Head, Stored
from adsum_shared import streams
from adsum_shared.beat import Beat, decode_beat
from adsum_shared.connect import Redis, require_recent

_applied = msgspec.json.Decoder(dict[str, int])
_runs = msgspec.json.Decoder(dict[str, dict[str, int]])
_CURSOR = re.compile(rb"\d{1,20}-\d{1,20}")


class Inbox:
    """Every method raises OddReplyError, and what the client raises: `connect.UNAVAILABLE`."""

    def __init__(self, client: Redis, host_id: str) -> None:
        self._redis: Any = client  # its stubs leave open whether a command is awaited
        self.key = streams.inbox(host_id)
        self._host_id = host_id

    async def require_recent(self) -> None:
        """Raises BrokerTooOldError."""
        with _understood("INFO"), contextlib.suppress(NoPermissionError):
            # a locked-down user need not see it
            require_recent(await self._redis.info("server"))

    async def enrol(self) -> None:
        with _understood(streams.HOSTS), contextlib.suppress(NoPermissionError):
            # without the right to it, the operator has added the host
            await self._redis.sadd(streams.HOSTS, self._host_id)

    async def head(self) -> Head | None:
        """None if there is no stream."""
        with _understood(self.key):
            try:
                info = await self._redis.xinfo_stream(self.key)
            except ResponseError as error:
                if "no such key" in str(error):
                    return None
                raise
            last = EntryId.parse(info["last-generated-id"])
            entry_id, fields = info["last-entry"] or (b"0-0", {})
            return _head_of(last, fields if EntryId.parse(entry_id) == last else {})

    async def after(self, entry: EntryId | None) -> Head | None:
        """The first entry beyond one of ours: somebody else's, or of an earlier try."""
        with _understood(self.key):
            low = f"({entry}" if entry else "-"
            found = await self._redis.xrange(self.key, min=low, count=1)
            return _head_of(EntryId.parse(found[0][0]), found[0][1]) if found else None

    async def stored(self, spool_id: str) -> Stored:
        """Foreign values in it count as if no hub had stored anything."""
        key = streams.snapshot(self._host_id)
        with _understood(key):
            fields = [streams.CURSOR, streams.APPLIED, streams.RUNS]
            cursor, applied, runs = await self._redis.hmget(key, fields)
            found = _decoded(_runs, runs)
            return Stored(
                EntryId.parse(cursor) if _CURSOR.fullmatch(cursor or b"") else EntryId(0, 0),
                max(0, (_decoded(_applied, applied) or {}).get(spool_id, 0)),
                None if found is None else found.get(spool_id, {}),
            )

    async def want(self) -> bytes | None:
        """A hub's request to replay, if there is one."""
        key = streams.want(self._host_id)
        with _understood(key):
            found: bytes | None = await self._redis.get(key)
            return found

    async def add(self, entry: EntryId, fields: Mapping[bytes, bytes]) -> None:
        """Redis itself refuses an id that is not above all others.

        Where an earlier try of this run arrived and only its answer was lost, all is well. A copy
        of this machine counts as we do and may have taken the very same id: its run has another
        nonce. Raises StreamMovedError, StreamUnusableError.
        """
        with _understood(self.key):
            try:
                await self._redis.xadd(self.key, fields, id=str(entry))
            except ResponseError as error:
                if "exhausted" in str(error):
                    raise StreamUnusableError(self.key) from error
                if "equal or smaller" not in str(error):
                    raise
                there = await self._redis.xrange(self.key, str(entry), str(entry))
                if not there or any(there[0][1].get(k) != fields.get(k) for k in (b"n", b"sp")):
                    raise StreamMovedError from error

    async def beat(self, beat: bytes) -> None:
        await self._redis.set(streams.beat(self._host_id), beat, px=streams.BEAT_TTL_MS)

    async def last_beat(self) -> Beat | None:
        """The heartbeat that stands there, whoever wrote it."""
        key = streams.beat(self._host_id)
        with _understood(key):
            raw = await self._redis.get(key)
            return None if raw is None else decode_beat(raw)


@contextlib.contextmanager
def _understood(key: str) -> Iterator[None]:
    """What answers may be no Redis, or what lies under the key nothing of ours."""
    try:
        yield
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        raise OddReplyError(
            f"something else was written under the key {key}. Look at what it is; once it is "
            f"removed (redis-cli DEL '{key}') this mends itself."
        ) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise OddReplyError(
            f"the answer about {key} makes no sense ({type(error).__name__}: {error}). "
            "Look whether that address is a Redis."
        ) from error


def _head_of(entry: EntryId, fields: Mapping[bytes, bytes]) -> Head:
    spool_id, nonce = fields.get(b"sp", b""), fields.get(b"n", b"")
    return Head(entry, spool_id.decode(errors="replace"), nonce.decode(errors="replace"))


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes | None) -> Any:
    try:
        return None if raw is None else decoder.decode(raw)
    except msgspec.DecodeError:
        return None
