"""`adsum hub backup` writes what Redis holds into a file, and `restore` writes it back.

The file is gzipped lines of JSON, a header first, a count last. Keys are written by their type and
not by DUMP, whose bytes another version of Redis, and Valkey, refuse.
"""

import asyncio
import gzip
import sys
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from redis.exceptions import ResponseError

from adsum.broker import broker_url
from adsum.config import read_settings
from adsum.outcome import CommandError, Exit, say
from adsum_shared import __version__, streams
from adsum_shared.connect import UNAVAILABLE, Redis, open_redis, require_recent
from adsum_shared.private_files import write_private
from adsum_shared.redis_errors import BrokerTooOldError, describe
from adsum_shared.redis_url import address_of
from adsum_shared.settings import AdsumSettings

FORMAT = 1
Kind = Literal["string", "hash", "set", "zset", "stream"]
#: What ends so soon is said anew by whoever said it: heartbeats, wishes, drafts.
PASSING_MS = 60_000
SCANNED = 1_000
KEPT = "Nothing was changed."


class BackupFileError(ValueError):
    """The text says what is wrong with the file."""


class StoredKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """ends_at: ms since 1970, None: never. value: in the form its type has in JSON."""

    key: str
    type: Kind
    ends_at: int | None
    value: Any


def text(value: Any) -> Any:
    """With str for all bytes in it: reversible for any, and plain to read where they are ASCII."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case dict():
            return {text(name): text(each) for name, each in value.items()}
        case list() | tuple():
            return [text(each) for each in value]
        case _:
            return value


def raw(value: Any) -> Any:
    """What `text` was given."""
    match value:
        case str():
            return value.encode("latin-1")
        case dict():
            return {raw(name): raw(each) for name, each in value.items()}
        case list():
            return [raw(each) for each in value]
        case _:
            return value


def pack(header: dict[str, Any], records: Iterable[StoredKey]) -> bytes:
    stored = [msgspec.json.encode(record) for record in records]
    first, last = {"adsum_backup": FORMAT, **header}, {"end": len(stored)}
    lines = [msgspec.json.encode(first), *stored, msgspec.json.encode(last), b""]
    return gzip.compress(b"\n".join(lines), mtime=0)


def unpack(packed: bytes) -> tuple[dict[str, Any], list[StoredKey]]:
    """The header, and all keys. Raises BackupFileError."""
    try:
        lines = gzip.decompress(packed).splitlines()
    except (EOFError, zlib.error) as error:
        raise BackupFileError("it ends in the middle, or was damaged") from error
    except gzip.BadGzipFile as error:
        raise BackupFileError("it is no backup, or was damaged") from error
    if not lines:
        raise BackupFileError("it is empty")
    header = _json(lines[0], 1)
    found = header.get("adsum_backup") if isinstance(header, dict) else None
    if not isinstance(found, int):
        raise BackupFileError("it is no backup of Adsum")
    if found > FORMAT:
        raise BackupFileError(f"it has format {found}, from a newer Adsum than this one")
    records: list[StoredKey] = []
    for number, line in enumerate(lines[1:], 2):
        if line.startswith(b"{"):
            if _json(line, number) != {"end": len(records)} or number < len(lines):
                raise BackupFileError("its last line does not fit the lines before it")
            return header, records
        records.append(_json(line, number, StoredKey))
    raise BackupFileError("it ends in the middle: its last line is not there")


def _json(line: bytes, number: int, kind: Any = Any) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError as error:
        raise BackupFileError(f"line {number} is no key of a backup") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BackupFileError(f"line {number} is not JSON") from error


async def read_all(redis: Any) -> list[StoredKey]:
    """Keys that belong together (the same tag in braces) are read at one moment.

    Else a stream might be trimmed by a snapshot that the backup does not have.
    """
    seconds, micros = await redis.time()  # Redis's clock, which is what ends its keys
    now = int(seconds) * 1000 + int(micros) // 1000
    found = []
    for _, keys in groupby(sorted(await keys_of(redis), key=_tag), _tag):
        found += await _read_together(redis, list(keys), now)
    return sorted(found, key=lambda record: record.key)


async def keys_of(redis: Any) -> set[bytes]:
    """SCAN may name one twice."""
    return {key async for key in redis.scan_iter(match=streams.ALL, count=SCANNED)}


def _tag(key: bytes) -> bytes:
    return key.partition(b"{")[2].partition(b"}")[0] or key


async def _read_together(redis: Any, keys: list[bytes], now: int) -> list[StoredKey]:
    types = [(key, text(await redis.type(key))) for key in keys]
    kept = [(key, kind) for key, kind in types if kind in get_args(Kind)]
    async with redis.pipeline(transaction=True) as moment:
        for key, kind in kept:
            moment.pttl(key)
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
                    moment.xinfo_stream(key)
        answers = iter(await moment.execute(raise_on_error=False))
    records = []
    for key, kind in kept:
        left, value = next(answers), next(answers)
        info = next(answers) if kind == "stream" else None
        # It ended between the two questions, or became another; then it did so before this moment.
        if left == -2 or isinstance(value, ResponseError) or 0 <= left <= PASSING_MS:
            continue
        if kind == "set":
            value = sorted(value)
        elif info:
            value = {"last": info["last-generated-id"], "entries": value}
        ends_at = None if left < 0 else now + left
        records.append(StoredKey(text(key), kind, ends_at, text(value)))
    return records


async def write_all(redis: Any, records: Iterable[StoredKey], there: Iterable[bytes]) -> None:
    """there: the keys of Adsum that lie there already; those that are not among the records go."""
    groups: dict[bytes, list[StoredKey]] = defaultdict(list)
    for record in records:
        groups[_tag(raw(record.key))].append(record)
    for group in groups.values():
        # Whole or not at all: a collector that runs meanwhile must not meet half a stream.
        async with redis.pipeline(transaction=True) as moment:
            for record in group:
                moment.delete(raw(record.key))
                _put(moment, record, raw(record.key), raw(record.value))
            await moment.execute()
    written = {raw(record.key) for group in groups.values() for record in group}
    # Last, so that a failure before leaves too much and never too little.
    for key in set(there) - written:
        await redis.delete(key)


def _put(moment: Any, record: StoredKey, key: bytes, value: Any) -> None:
    match record.type:
        case "string":
            moment.set(key, value)
        case "hash":
            moment.hset(key, mapping=value)
        case "set":
            moment.sadd(key, *value)
        case "zset":
            moment.zadd(key, dict(value))
        case _:
            entries, last = value[b"entries"], value[b"last"]
            for entry, fields in entries:
                moment.xadd(key, fields, id=entry)
            # The id it had got to tells collectors what was taken: entries may be trimmed.
            if not entries or entries[-1][0] != last:
                moment.xadd(key, {b"-": b""}, id=last)
                moment.xdel(key, last)
    if record.ends_at is not None:
        # One that has passed takes the key away again.
        moment.pexpireat(key, record.ends_at)


def back_up(to: str, state_dir: Path | None, redis_url: str | None) -> None:
    """to: a file that is not there yet, or `-` for stdout."""
    url = _url(state_dir, redis_url)
    there = CommandError(f"{to} is there already. Name another file, or move it away.")
    if to != "-" and Path(to).exists():
        raise there
    records: list[StoredKey] = _on(url, read_all)
    if not records:
        raise CommandError(f"Nothing of Adsum lies in {address_of(url)}, so no file was written.")
    packed = pack({"adsum": __version__, "schema": streams.SCHEMA_NUMBER}, records)
    try:
        if to == "-":
            sys.stdout.buffer.write(packed)
            sys.stdout.buffer.flush()
        else:  # for its owner alone, since titles and questions stand in it
            write_private(Path(to), packed, replace=False)
    except FileExistsError as error:
        raise there from error
    except OSError as error:
        raise CommandError(f"{to} cannot be written: {error.strerror}.") from error
    hosts = sum(record.key.endswith("}:snap") for record in records)
    say(f"{len(records)} keys, of {hosts} machines, from {address_of(url)}.")


def restore(source: str, state_dir: Path | None, redis_url: str | None, *, replace: bool) -> None:
    """source: a file, or `-` for stdin. Looks at all of it before anything is changed."""
    url = _url(state_dir, redis_url)
    address = address_of(url)
    try:
        packed = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        header, records = unpack(packed)
    except OSError as error:
        raise CommandError(f"{source} cannot be read: {error.strerror}. {KEPT}") from error
    except BackupFileError as error:
        raise CommandError(f"{source} cannot be restored: {error}. {KEPT}") from error
    schema = header.get("schema")
    if not isinstance(schema, int) or schema > streams.SCHEMA_NUMBER:
        raise CommandError(
            f"{source} is from Adsum {header.get('adsum')}, which is newer than this one "
            f"({__version__}). Upgrade this one first. {KEPT}"
        )

    async def put_back(redis: Redis) -> None:
        there = await keys_of(redis)
        if there and not replace:
            raise CommandError(
                f"{address} holds {len(there)} keys of Adsum already. Stop the hubs, and give "
                f"--replace to have the backup in their place. {KEPT}"
            )
        await write_all(redis, records, there)

    _on(url, put_back)
    say(f"{len(records)} keys are in {address} as the backup has them. Start the hubs again.")


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
