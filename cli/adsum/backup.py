"""`adsum hub backup` writes what Redis holds into a file, and `restore` writes it back.

The file is gzipped lines of JSON, a header first, a count last. Keys are written by their type and
not by DUMP, whose bytes another version of Redis, and Valkey, refuse.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import shutil
import sys
import tempfile
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal, get_args

import msgspec
from redis.exceptions import ResponseError

from adsum.broker import broker_url
from adsum.config import read_settings
from adsum.outcome import CommandError, Exit
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

FORMAT = 1
Kind = Literal["string", "hash", "set", "zset", "stream"]
#: What ends so soon is said anew by whoever said it: heartbeats, wishes, drafts.
PASSING_MS = 60_000
SCANNED = 1_000


class BackupFileError(ValueError):
    """The text says what is wrong with the file."""


class StoredKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """ends_at: ms since 1970, None: never. value: in the form its type has in JSON."""

    key: str
    type: Kind
    ends_at: int | None
    value: Any


def text(raw: bytes) -> str:
    """Reversible for any bytes, and plain to read where they are ASCII."""
    return raw.decode("latin-1")


def raw(told: str) -> bytes:
    return told.encode("latin-1")


def write(file: IO[bytes], header: dict[str, Any], records: Iterable[StoredKey]) -> int:
    """The number of keys."""
    count = 0
    with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(_line({"adsum_backup": FORMAT, **header}))
        for count, record in enumerate(records, 1):  # noqa: B007 - the last is the number of all
            packed.write(_line(record))
        packed.write(_line({"end": count}))
    return count


def read_header(file: IO[bytes]) -> dict[str, Any]:
    """Raises BackupFileError."""
    return _header(next(_lines(file), b""))


def read(file: IO[bytes]) -> Iterator[StoredKey]:
    """Raises BackupFileError, at the latest behind the last record: look at all before you use one."""
    lines = _lines(file)
    _header(next(lines, b""))
    for count, line in enumerate(lines):
        if line.startswith(b"{"):
            if _json(line, count + 2) != {"end": count} or next(lines, None) is not None:
                raise BackupFileError("its last line does not fit the lines before it")
            return
        yield _json(line, count + 2, StoredKey)
    raise BackupFileError("it ends in the middle: its last line is not there")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as packed:
            yield from packed
    except (EOFError, zlib.error) as error:
        raise BackupFileError("it ends in the middle, or was damaged") from error
    except gzip.BadGzipFile as error:
        raise BackupFileError("it is no backup, or was damaged") from error


def _json(line: bytes, number: int, kind: Any = Any) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError as error:
        raise BackupFileError(f"line {number} is no key of a backup") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BackupFileError(f"line {number} is not JSON") from error


def _header(line: bytes) -> dict[str, Any]:
    if not line:
        raise BackupFileError("it is empty")
    header = _json(line, 1)
    found = header.get("adsum_backup") if isinstance(header, dict) else None
    if not isinstance(found, int):
        raise BackupFileError("it is no backup of Adsum")
    if found > FORMAT:
        raise BackupFileError(f"it has format {found}, from a newer Adsum than this one")
    return dict(header)


def _line(told: Any) -> bytes:
    return msgspec.json.encode(told) + b"\n"


# Reading. Keys that belong together (the same tag in braces) are read at one moment: a stream must
# not be trimmed by a snapshot that the backup does not have.


async def read_all(redis: Any) -> list[StoredKey]:
    found: list[StoredKey] = []
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


async def _read_together(redis: Any, keys: list[bytes], now: int) -> list[StoredKey]:
    types: list[Any] = [text(await redis.type(key)) for key in keys]
    kept = [(key, kind) for key, kind in zip(keys, types, strict=True) if kind in get_args(Kind)]
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
        records.append(StoredKey(text(key), kind, ends_at, _told(kind, value, last)))
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


async def write_all(redis: Any, records: Iterable[StoredKey], there: Iterable[bytes]) -> None:
    """there: the keys of Adsum that lie there already; those that are not among the records go."""
    groups: dict[str, list[StoredKey]] = defaultdict(list)
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


def _put(moment: Any, key: bytes, record: StoredKey) -> None:
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
    records: list[StoredKey] = _on(url, read_all)
    if not records:
        raise CommandError(f"Nothing of Adsum lies in {address_of(url)}, so no file was written.")
    header = {"adsum": __version__, "schema": streams.SCHEMA_NUMBER}
    if to == "-":
        write(sys.stdout.buffer, header, records)
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
            header = read_header(file)
            count = sum(1 for _ in read(file))
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
    await write_all(redis, read(file), there)


def _url(state_dir: Path | None, redis_url: str | None) -> str:
    return broker_url(
        read_settings(AdsumSettings, state_dir=state_dir, redis_url=redis_url),
        "No Redis URL is set, and no embedded broker runs. Set ADSUM_REDIS_URL (or give "
        "--redis-url), or start `adsum up`.",
    )


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


def _write_file(path: Path, header: dict[str, Any], records: list[StoredKey]) -> None:
    """Complete or not there; for its owner alone, since titles and questions stand in it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            write(file, header, records)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
