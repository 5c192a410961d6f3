"""The keys of Adsum in a Redis, read for a backup and written back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from typing import Any

from redis.exceptions import ResponseError

from adsum.backup.file import TYPES, Record, raw, text
from adsum_shared import streams

#: What ends so soon is said anew by whoever said it: heartbeats, wishes, drafts.
PASSING_MS = 60_000
SCANNED = 1_000


# Reading. Keys that belong together (the same tag in braces) are read at one moment: a stream must
# not be trimmed by a snapshot that the backup does not have.


async def read_all(redis: Any) -> list[Record]:
    found: list[Record] = []
    now = await _now(redis)
    for keys in _together([key async for key in keys_of(redis)]):
        found += await _read_together(redis, keys, now)
    return sorted(found, key=lambda record: record.key)


async def keys_of(redis: Any) -> AsyncIterator[bytes]:
    """Each once, though SCAN may name one twice."""
    seen: set[bytes] = set()
    async for key in redis.scan_iter(match=streams.ALL, count=SCANNED):
        if key not in seen:
            seen.add(key)
            yield key


def _together(keys: list[bytes]) -> list[list[bytes]]:
    groups: dict[str, list[bytes]] = defaultdict(list)
    for key in keys:
        groups[_tag(text(key))].append(key)
    return list(groups.values())


def _tag(key: str) -> str:
    return key.partition("{")[2].partition("}")[0] or key


async def _read_together(redis: Any, keys: list[bytes], now: int) -> list[Record]:
    types = [text(await redis.type(key)) for key in keys]
    kept = [(key, kind) for key, kind in zip(keys, types, strict=True) if kind in TYPES]
    async with redis.pipeline(transaction=True) as moment:
        for key, kind in kept:
            moment.pttl(key)
            _ask(moment, key, kind)
            if kind == "stream":
                moment.xinfo_stream(key)
        answers = iter(await moment.execute(raise_on_error=False))
    records = []
    for key, kind in kept:
        left, value = next(answers), next(answers)
        last = next(answers) if kind == "stream" else None
        # It ended between the two questions, or became another; then it did so before this moment.
        if left == -2 or isinstance(value, ResponseError) or 0 <= left <= PASSING_MS:
            continue
        ends_at = None if left < 0 else now + left
        records.append(Record(text(key), kind, ends_at, _told(kind, value, last)))
    return records


def _ask(moment: Any, key: bytes, kind: str) -> None:
    match kind:
        case "string":
            moment.get(key)
        case "hash":
            moment.hgetall(key)
        case "set":
            moment.smembers(key)
        case "zset":
            moment.zrange(key, 0, -1, withscores=True)
        case _:
            moment.xrange(key)


def _told(kind: str, value: Any, info: Any) -> Any:
    match kind:
        case "string":
            return text(value)
        case "hash":
            return _texts(value)
        case "set":
            return sorted(map(text, value))
        case "zset":
            return [[text(member), score] for member, score in value]
        case _:
            entries = [[text(entry), _texts(fields or {})] for entry, fields in value]
            return {"last": text(info["last-generated-id"]), "entries": entries}


def _texts(fields: dict[bytes, bytes]) -> dict[str, str]:
    return {text(name): text(value) for name, value in fields.items()}


# Writing.


async def write_all(redis: Any, records: Iterable[Record], there: Iterable[bytes]) -> None:
    """there: the keys of Adsum that lie there already; those that are not among the records go."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[_tag(record.key)].append(record)
    for group in groups.values():
        # Whole or not at all: a collector that runs meanwhile must not meet half a stream.
        async with redis.pipeline(transaction=True) as moment:
            for record in group:
                moment.delete(raw(record.key))
                _put(moment, raw(record.key), record)
            await moment.execute()
    written = {raw(record.key) for group in groups.values() for record in group}
    # Last, so that a failure before leaves too much and never too little.
    for key in set(there) - written:
        await redis.delete(key)


def _put(moment: Any, key: bytes, record: Record) -> None:
    value = record.value
    match record.type:
        case "string":
            moment.set(key, raw(value))
        case "hash":
            moment.hset(key, mapping=_raws(value))
        case "set":
            moment.sadd(key, *map(raw, value))
        case "zset":
            moment.zadd(key, {raw(member): score for member, score in value})
        case _:
            _put_stream(moment, key, value["entries"], value["last"])
    if record.ends_at is not None:
        # One that has passed takes the key away again.
        moment.pexpireat(key, record.ends_at)


def _put_stream(moment: Any, key: bytes, entries: list[Any], last: str) -> None:
    """With the id it had got to, which tells collectors what was taken: entries may be trimmed."""
    for entry, fields in entries:
        moment.xadd(key, _raws(fields), id=entry)
    if not entries or entries[-1][0] != last:
        moment.xadd(key, {b"-": b""}, id=last)
        moment.xdel(key, last)


def _raws(fields: dict[str, str]) -> dict[bytes, bytes]:
    return {raw(name): raw(value) for name, value in fields.items()}


async def _now(redis: Any) -> int:
    """ms, by Redis's clock, which is what ends its keys."""
    seconds, micros = await redis.time()
    return int(seconds) * 1000 + int(micros) // 1000
