"""`adsum hub backup` and `restore`: what lies in Redis, into a file and back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import IO, Any

from adsum.backup import file as backup_file
from adsum.backup.file import BackupFileError, Record
from adsum.backup.keys import keys_of, read_all, write_all
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
from adsum_shared.outage import describe
from adsum_shared.settings import AdsumSettings

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
