"""Connections to Redis: our time-outs, our back-off, and the classes of error that mean "later"."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import redis.asyncio
from redis.exceptions import RedisError

from adsum_shared.redis_cluster import ClusterReader, ClusterRedis, Slots
from adsum_shared.redis_connections import WaitingPool, honest
from adsum_shared.redis_errors import BrokerTooOldError, ExhaustedError
from adsum_shared.redis_sentinel import SentinelRedis, open_master
from adsum_shared.redis_url import RedisUrlError, address_of, kind_of, read_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = [
    "OLDEST",
    "UNAVAILABLE",
    "BrokerTooOldError",
    "ExhaustedError",
    "Redis",
    "RedisUrlError",
    "address_of",
    "backoff",
    "check_url",
    "db_of",
    "every_server",
    "open_redis",
    "redis_version",
    "require_recent",
    "wanted",
]

Redis = redis.asyncio.Redis

#: Anything Redis can answer or fail with. LOADING, READONLY, OOM, MISCONF, BUSY, NOPERM and a
#: refused connection all mean the same to us: degraded, visible, tried again.
UNAVAILABLE = (RedisError, OSError)

#: Of one client, unless it asks for others.
CONNECTIONS = 8

#: Streams with explicit ids, ACL key patterns and XTRIM MINID came with 6.2.
OLDEST = (6, 2)


def check_url(url: str) -> None:
    """Raises RedisUrlError with the next step in its text."""
    try:
        if kind_of(url) != "one":
            _try(read_url(url).of(("host", 1)))
            return
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        # A / ? or # that stands bare in a password ends the host part there, and the rest of the
        # password, up to the @, would pass for a path.
        torn = place if parts.scheme == "unix" else "@" in parts.path + parts.query + parts.fragment
        if not torn:
            _try(url)
            return
    except (ValueError, TypeError):
        pass  # its words quote the URL
    raise RedisUrlError(
        "ADSUM_REDIS_URL (or --redis-url) is no Redis URL. It looks like redis://host:6379, "
        "rediss://user:password@host:6379, unix:///path, "
        "redis+sentinel://host:26379,host2:26379/mymaster or redis+cluster://host:6379,host2:6379. "
        "Signs like / ? # @ : % in a password are written as %2F %3F %23 %40 %3A %25."
    )


def db_of(url: str) -> int:
    """The number of the database that clients of this URL go to."""
    if kind_of(url) != "one":
        several = read_url(url)
        return int(several.db or dict(parse_qsl(several.query)).get("db", "0"))
    return int(redis.asyncio.connection.parse_url(url).get("db", 0))


def _try(url: str) -> None:
    """Makes what would connect, and does not: an option that nobody knows shows itself."""
    redis.asyncio.ConnectionPool.from_url(url).make_connection()  # type: ignore[no-untyped-call] # the library's


def open_redis(url: str, *, block_s: float = 0.0, connections: int = CONNECTIONS) -> Redis:
    """A client of one server, of the master that Sentinels name, or of a cluster.

    block_s: the longest a command of this client blocks. Give each blocking reader a client of its
    own. connections: the most it opens, to each server. Whoever asks while all are in use waits for
    one, and is answered ExhaustedError after `POOL_WAIT_S`.
    """
    if (kind := kind_of(url)) == "one":
        return _open_one(url, block_s=block_s, connections=connections)
    several = read_url(url)
    open_one = functools.partial(_open_one, connections=connections)
    if kind == "sentinel":
        return open_master(several, open_one, **_options(block_s, connections))
    # A reader waits beside its connections, none of which blocks.
    slots = Slots(several, open_one)
    return ClusterReader(slots) if block_s else ClusterRedis(slots)


def _open_one(url: str, *, block_s: float = 0.0, connections: int = CONNECTIONS) -> Redis:
    pool = WaitingPool.from_url(url, **_options(block_s, connections))
    pool.connection_class = honest(pool.connection_class)
    return redis.asyncio.Redis.from_pool(pool)


def _options(block_s: float, connections: int) -> dict[str, Any]:
    # The library would retry an XADD whose reply was lost and double the entry, so retry is None and
    # the loop that uses the client decides.
    return {
        "protocol": 2,
        "retry": None,
        "max_connections": 1 if block_s else connections,
        "socket_timeout": block_s + 5.0,
        "socket_connect_timeout": 3.0,
        "health_check_interval": 15,
        "decode_responses": False,
    }


@contextlib.asynccontextmanager
async def every_server(client: Redis) -> AsyncIterator[list[tuple[Redis, bool]]]:
    """All that hold, or would take over, what this client writes to; and whether each is a master.

    Users are no data: each server has its own.
    """
    if isinstance(client, ClusterRedis | SentinelRedis):
        async with client.servers() as servers:
            yield servers
    else:
        yield [(client, True)]


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
