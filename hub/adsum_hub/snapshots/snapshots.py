"""Snapshots: a host's facts, cursor and applied numbers in Redis, written by compare-and-set.

The script writes facts and cursor and trims the stream in one step. Without the comparison a hub
that was frozen and thaws would put an old state over a newer one, whose entries are trimmed by
then: up to 98 % of the state was lost so in directed runs.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
from redis.exceptions import ResponseError

from adsum_hub.facts import Facts
from adsum_hub.snapshots.fields import (
    HEADER,
    HostRecord,
    Keep,
    Snapshot,
    decode_facts,
    decode_header,
    session_of,
)
from adsum_shared import streams
from adsum_shared.connect import Redis

__all__ = ["HostRecord", "Snapshot", "Stored", "load_header", "load_snapshot", "save_snapshot"]

log = logging.getLogger(__name__)

_SCRIPT = files("adsum_hub.snapshots").joinpath("save.lua").read_text()
#: Sessions decoded or encoded before the loop gets its turn: some milliseconds.
SLICE = 200
#: Fields per reply of a scan.
SCANNED = 500
#: More sessions than that are not put into one script, but whole, bit by bit, into a draft, which
#: then takes the snapshot's place: 100,000 in one command held Redis up for a second, or never got
#: through the client's time-out. (Rejected: a draft that begins as a copy. COPY took as long.)
MOST_AT_ONCE = 1_000
DRAFT_BYTES = 1 << 20
#: A draft whose hub died goes by itself; every bit of it that is written prolongs it.
DRAFT_TTL_MS = 60_000


class Stored(NamedTuple):
    """version: after a save. behind: the stream's ids begin anew, below the cursor that was saved."""

    version: int
    behind: bool = False


class NewerSchemaError(Exception):
    """A newer version has written it; nothing was changed."""

    def __init__(self, schema: int) -> None:
        super().__init__(schema)
        self.schema = schema


async def load_header(redis: Redis, host_id: str) -> Snapshot:
    """All but the sessions."""
    try:
        found: Any = await redis.hmget(streams.snapshot(host_id), list(HEADER))
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        # One host's key: it must not end the reading of all others, over and over.
        return Snapshot(problem="its key is of another type")
    pairs = zip(HEADER, found, strict=True)
    return decode_header({name.encode(): value for name, value in pairs if value is not None})


async def load_snapshot(redis: Redis, host_id: str) -> Snapshot:
    """Of one moment. The loop has its turn while it is decoded."""
    fields = await _fields(redis, streams.snapshot(host_id))
    header = decode_header(fields)
    if header.problem is not None:
        log.warning("header of the snapshot of %s unreadable: %s", host_id, header.problem)
        return header
    sessions: dict[str, Facts] = {}
    unreadable: list[str] = []
    aside: list[str] = []
    for count, (field, value) in enumerate(fields.items(), 1):
        if count % SLICE == 0:
            await asyncio.sleep(0)
        if (kept := session_of(field, streams.ASIDE)) is not None:
            aside.append(kept)
        if (session_id := session_of(field, streams.SESSION)) is None:
            continue
        facts = decode_facts(value)
        if facts is None:
            log.warning("facts of session %.40r of %s unreadable", session_id, host_id)
            unreadable.append(session_id)
        else:
            sessions[session_id] = facts
    return msgspec.structs.replace(
        header, sessions=sessions, unreadable=tuple(unreadable), aside=tuple(aside)
    )


async def _fields(redis: Redis, key: str) -> dict[bytes, bytes]:
    """In slices: HGETALL of 100,000 sessions holds Redis up for half a second."""
    scan: Any = redis.hscan
    cursor, found = await scan(key, 0, count=SCANNED)
    if cursor == 0:
        return dict(found)  # one reply, so of one moment
    version = await redis.hget(key, streams.VERSION)
    fields: dict[bytes, bytes] = {}
    cursor = -1
    while cursor:
        cursor, found = await scan(key, max(0, cursor), count=SCANNED)
        fields |= found
    if version == await redis.hget(key, streams.VERSION):
        return fields
    # Another hub has written meanwhile, so these are of several moments.
    whole: Any = await redis.hgetall(key)
    return dict(whole)


async def save_snapshot(
    redis: Redis,
    host_id: str,
    header: Snapshot,
    dirty: Mapping[str, Facts],
    gone: Iterable[str],
    *,
    keep: Keep = Keep(),  # noqa: B008 - immutable
    whole: Mapping[str, Facts] | None = None,
) -> Stored | None:
    """None when another hub has written since `header.version`. Raises NewerSchemaError.

    whole: all sessions there are, of the header's moment, where there are too many dirty ones.
    """
    draft = streams.draft(host_id, secrets.token_hex(4))
    fields: list[Any] = []
    if whole is not None:
        try:
            await _draw_up(redis, draft, whole)
        except ResponseError:
            # Out of memory, perhaps: what is drawn up by then would keep everybody else from it.
            await redis.unlink(draft)
            raise
    else:
        for session_id, facts in dirty.items():
            fields += (streams.SESSION + session_id, msgspec.json.encode(facts))
    moved = [word for key in keep.aside for word in (streams.SESSION + key, streams.ASIDE + key)]
    if whole is not None:
        moved += [word for field in keep.fields for word in (field, field)]
    answer: Any = await redis.eval(
        _SCRIPT,
        3,
        streams.snapshot(host_id),
        streams.inbox(host_id),
        draft,
        header.version,
        header.cursor,
        msgspec.json.encode(header.applied),
        msgspec.json.encode(header.host),
        msgspec.json.encode(header.runs),
        streams.SCHEMA_NUMBER,
        keep.above,
        "draft" if whole is not None else "",
        len(fields) // 2,
        len(moved) // 2,
        *fields,
        *moved,
        *(prefix + key for key in gone for prefix in (streams.SESSION, streams.ASIDE)),
    )
    if answer[0] == 1:
        return Stored(int(answer[1]), behind=bool(answer[2]))
    if whole is not None:
        await redis.unlink(draft)
    if answer[0] == -1:
        raise NewerSchemaError(int(answer[1]))
    return None


async def _draw_up(redis: Redis, draft: str, whole: Mapping[str, Facts]) -> None:
    """Write the sessions beside the snapshot; the script puts the whole in its place at once.

    Until then nothing refers to it: a hub that dies over this has changed nothing.
    """
    fields: list[Any] = []
    size = 0
    for count, (session_id, facts) in enumerate(whole.items(), 1):
        value = msgspec.json.encode(facts)
        size += len(value)
        fields += (streams.SESSION + session_id, value)
        if count % SLICE == 0:
            await asyncio.sleep(0)
        if size >= DRAFT_BYTES or count == len(whole):
            more = (
                redis.pipeline()
            )  # both at once, or a hub that dies in between leaves it for ever
            more.hset(draft, items=fields)
            more.pexpire(draft, DRAFT_TTL_MS)
            await more.execute()
            fields, size = [], 0
