"""Connections to Redis: our time-outs, our back-off, and the classes of error that mean "later"."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

if TYPE_CHECKING:
    from collections.abc import Iterator

Redis = redis.asyncio.Redis

#: Anything Redis can answer or fail with. LOADING, READONLY, OOM, MISCONF, BUSY, NOPERM and a
#: refused connection all mean the same to us: degraded, visible, tried again.
UNAVAILABLE = (RedisError, OSError)

#: Streams with explicit ids, ACL key patterns and XTRIM MINID came with 6.2.
OLDEST = (6, 2)


class BrokerTooOldError(RuntimeError):
    """The broker lacks commands we cannot do without."""


class RedisUrlError(ValueError):
    """The URL cannot be used. The text holds nothing of it: any part may be a password's."""


def check_url(url: str) -> None:
    """Raises RedisUrlError with the next step in its text."""
    try:
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        # A / ? or # that stands bare in a password ends the host part there, and the rest of the
        # password, up to the @, would pass for a path.
        torn = place if parts.scheme == "unix" else "@" in parts.path + parts.query + parts.fragment
        if not torn:
            open_redis(url).connection_pool.make_connection()  # type: ignore[no-untyped-call] # the library's
            return
    except (ValueError, TypeError):
        pass  # its words quote the URL
    raise RedisUrlError(
        "ADSUM_REDIS_URL (or --redis-url) is no Redis URL. It looks like redis://host:6379, "
        "rediss://user:password@host:6379 or unix:///path. Signs like / ? # @ : % in a password "
        "are written as %2F %3F %23 %40 %3A %25."
    )


def address_of(url: str) -> str:
    """What may be shown of a URL that `check_url` lets pass: not the login, nor the query."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix:{parts.path}"
    host = parts.hostname or "localhost"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port or 6379}"


def open_redis(url: str, *, block_s: float = 0.0) -> Redis:
    """A client with one connection. block_s: the longest a command of this client blocks.

    The library would retry an XADD whose reply was lost and double the entry, so retry is None and
    the loop that uses the client decides. Give each blocking reader a client of its own.
    """
    client = redis.asyncio.Redis.from_url(
        url,
        protocol=2,
        retry=None,
        max_connections=1 if block_s else 8,
        socket_timeout=block_s + 5.0,
        socket_connect_timeout=3.0,
        health_check_interval=15,
        decode_responses=False,
    )
    pool = client.connection_pool
    pool.connection_class = _honest(pool.connection_class)
    return client


def _honest(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """A connection that tells of a lost peer by ConnectionError whenever it is noticed.

    uvloop answers a write to a transport that closed a moment ago with RuntimeError, which the
    library passes on, and which would end the process as an error of our own does.
    """

    class Honest(kind):  # type: ignore[misc,valid-type] # a base known at run time only
        async def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
            try:
                await super().send_packed_command(*args, **kwargs)
            except RuntimeError as error:
                await self.disconnect(nowait=True)
                raise RedisConnectionError("Connection lost.") from error

    return Honest


def wanted() -> bool:
    """False once the current task has been cancelled: the condition of every loop around Redis.

    The client waits with asyncio.wait_for, and in Python 3.11 that loses a cancellation which
    arrives just as the awaited future is done. A loop `while True` would then run on for ever, and
    the process with it.
    """
    task = asyncio.current_task()
    return task is None or not task.cancelling()


def backoff(first_s: float = 0.1, most_s: float = 2.0) -> Iterator[float]:
    """Seconds to wait before each further try: doubling, with full jitter.

    The most is what a host may stay late after the broker is back; the tries of 1,000 collectors
    are then 1,000 a second, which Redis does not notice.
    """
    limit = first_s
    while True:
        yield random.uniform(0.0, limit)  # noqa: S311 - jitter, not a secret
        limit = min(most_s, limit * 2)


def redis_version(info: dict[str, str]) -> tuple[int, int]:
    """(major, minor) of INFO server. Valkey answers with the Redis version it descends from."""
    major, minor = str(info.get("redis_version", "0.0")).split(".")[:2]
    return int(major), int(minor)


def require_recent(info: dict[str, str]) -> None:
    """Raises BrokerTooOldError with the next step in its text."""
    version = redis_version(info)
    if version < OLDEST:
        raise BrokerTooOldError(
            f"Redis {version[0]}.{version[1]} is too old: Adsum needs Redis 6.2 or Valkey 7.2, or newer. "
            "Upgrade it, or leave out the Redis URL to run the embedded broker."
        )
