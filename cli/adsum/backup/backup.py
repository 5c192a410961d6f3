"""`adsum hub backup` and `restore`: what lies in Redis, into a file and back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from redis.exceptions import ResponseError

from adsum.backup import file as backup_file
from adsum.backup.file import TYPES, BackupFileError, Record, raw, text
from adsum.config import read_settings, require_url
from adsum.outcome import CommandError, Exit
from adsum.parts.broker import is_ready, place_of
from adsum.text.saying import say
from adsum_shared import __version__, streams
from adsum_shared.connect import (
    UNAVAILABLE,
    BrokerTooOldError,
    Redis,
    address_of,
    open_redis,
    require_recent,
)
from adsum_shared.redis_errors import describe
from adsum_shared.settings import AdsumSettings

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


KEPT = "Nothing was changed."


def back_up(to: str, state_dir: Path | None, redis_url: str | None) -> None:
    """to: a file that is not there yet, or `-` for stdout."""
    url = _url(state_dir, redis_url)
    if to != "-" and Path(to).exists():
        raise CommandError(f"{to} is there already. Name another file, or move it away.")
    records: list[Record] = _on(url, read_all)
    if not records:
        raise CommandError(f"Nothing of Adsum lies in {address_of(url)}, so no file was written.")
    header = {"adsum": __version__, "schema": streams.SCHEMA_NUMBER}
    if to == "-":
        backup_file.write(sys.stdout.buffer, header, records)
        sys.stdout.buffer.flush()
    else:
        _write_file(Path(to), header, records)
    hosts = sum(record.key.endswith("}:snap") for record in records)
    say(f"{len(records)} keys, of {hosts} machines, from {address_of(url)}.")


def restore(source: str, state_dir: Path | None, redis_url: str | None, *, replace: bool) -> None:
    """source: a file, or `-` for stdin. Looks at all of it before anything is changed."""
    url = _url(state_dir, redis_url)
    with _opened(source) as file:
        try:
            header = backup_file.read_header(file)
            count = sum(1 for _ in backup_file.read(file))
        except BackupFileError as error:
            raise CommandError(f"{source} cannot be restored: {error}. {KEPT}") from error
        schema = header.get("schema")
        if not isinstance(schema, int) or schema > streams.SCHEMA_NUMBER:
            raise CommandError(
                f"{source} is from Adsum {header.get('adsum')}, which is newer than this one "
                f"({__version__}). Upgrade this one first. {KEPT}"
            )
        _on(url, lambda redis: _put_back(redis, file, address_of(url), replace=replace))
    say(f"{count} keys are in {address_of(url)} as the backup has them. Start the hubs again.")


async def _put_back(redis: Redis, file: IO[bytes], address: str, *, replace: bool) -> None:
    there = {key async for key in keys_of(redis)}
    if there and not replace:
        raise CommandError(
            f"{address} holds {len(there)} keys of Adsum already. Stop the hubs, and give --replace "
            f"to have the backup in their place. {KEPT}"
        )
    await write_all(redis, backup_file.read(file), there)


def _url(state_dir: Path | None, redis_url: str | None) -> str:
    """The given one, or the embedded broker's while it runs."""
    settings = read_settings(AdsumSettings, state_dir=state_dir, redis_url=redis_url)
    if settings.redis_url:
        require_url(settings.redis_url)
        return settings.redis_url
    place = place_of(settings.state_dir)
    if not asyncio.run(is_ready(place.socket)):
        raise CommandError(
            "No Redis URL is set, and no embedded broker runs. Set ADSUM_REDIS_URL (or give "
            "--redis-url), or start `adsum up`."
        )
    return place.url


def _on(url: str, work: Callable[[Redis], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with open_redis(url) as redis:
            require_recent(await redis.info("server"))
            return await work(redis)

    try:
        return asyncio.run(run())
    except BrokerTooOldError as error:
        raise CommandError(str(error)) from error
    except UNAVAILABLE as error:
        said = describe(error, address_of(url), "Nothing is lost; try again once it answers.")
        raise CommandError(said, Exit.UNREACHABLE) from error


@contextlib.contextmanager
def _opened(source: str) -> Iterator[IO[bytes]]:
    """It is read twice, so stdin is kept in a file that has no name."""
    try:
        with tempfile.TemporaryFile() if source == "-" else Path(source).open("rb") as file:
            if source == "-":
                shutil.copyfileobj(sys.stdin.buffer, file)
            yield file
    except OSError as error:
        raise CommandError(f"{source} cannot be read: {error.strerror}. {KEPT}") from error


def _write_file(path: Path, header: dict[str, Any], records: list[Record]) -> None:
    """Complete or not there; for its owner alone, since titles and questions stand in it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            backup_file.write(file, header, records)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
