"""Connections to Redis: our time-outs, our back-off, and the classes of error that mean "later"."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import redis.asyncio
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


def open_redis(url: str, *, block_s: float = 0.0) -> Redis:
    """A client with one connection. block_s: the longest a command of this client blocks.

    The library would retry an XADD whose reply was lost and double the entry, so retry is None and
    the loop that uses the client decides. Give each blocking reader a client of its own.
    """
    return redis.asyncio.Redis.from_url(
        url,
        protocol=2,
        retry=None,
        max_connections=1 if block_s else 8,
        socket_timeout=block_s + 5.0,
        socket_connect_timeout=3.0,
        health_check_interval=15,
        decode_responses=False,
    )


def wanted() -> bool:
    """False once the current task has been cancelled: the condition of every loop around Redis.

    The client waits with asyncio.wait_for, and in Python 3.11 that loses a cancellation which
    arrives just as the awaited future is done. A loop `while True` would then run on for ever, and
    the process with it.
    """
    task = asyncio.current_task()
    return task is None or not task.cancelling()


def backoff(first_s: float = 0.1, most_s: float = 5.0) -> Iterator[float]:
    """Seconds to wait before each further try: doubling, with full jitter."""
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
