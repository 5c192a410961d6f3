"""A client whose connections are all in use: who asks then waits, not for ever, and none is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_shared import connect
from adsum_shared.connect import UNAVAILABLE, open_redis
from adsum_shared.redis_errors import ExhaustedError, describe

pytestmark = pytest.mark.redis

MOST = 2


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Any]:
    async with open_redis(redis_url, connections=MOST) as client:
        yield client


async def opened(client: Any) -> int:
    """How many connections it has."""
    pool = client.connection_pool
    return len(pool._available_connections) + len(pool._in_use_connections)


async def test_a_hundred_at_once_are_answered_by_two_connections(client: Any) -> None:
    answers = await asyncio.gather(*(client.incr("pool") for _ in range(100)))

    assert sorted(answers) == list(range(1, 101))
    assert await opened(client) == MOST


async def test_who_waits_too_long_is_told_so_and_not_that_redis_is_away(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "POOL_WAIT_S", 0.05)
    blocked = [asyncio.create_task(client.blpop("nothing", 1)) for _ in range(MOST)]
    await asyncio.sleep(0)
    with pytest.raises(ExhaustedError, match="all 2 connections were in use") as told:
        await client.ping()

    assert isinstance(told.value, UNAVAILABLE)
    assert not isinstance(told.value, RedisConnectionError)
    assert "Redis at redis://r is asked too much" in describe(told.value, "redis://r", "")
    await asyncio.gather(*blocked)
    assert await client.ping()


async def test_who_gives_up_waiting_takes_no_connection_along(client: Any) -> None:
    blocked = [asyncio.create_task(client.blpop("nothing", 1)) for _ in range(MOST)]
    await asyncio.sleep(0)
    crowd = [asyncio.create_task(client.ping()) for _ in range(20)]
    await asyncio.sleep(0.01)
    for each in crowd[::2]:
        each.cancel()
    for each in blocked:
        each.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await each

    assert await asyncio.gather(*crowd[1::2]) == [True] * 10
    assert await asyncio.gather(*(client.ping() for _ in range(20))) == [True] * 20
    assert await opened(client) == MOST


async def test_a_connection_that_cannot_be_opened_is_given_back() -> None:
    async with open_redis("redis://127.0.0.1:1", connections=MOST) as client:
        for _ in range(3 * MOST):
            with pytest.raises(RedisConnectionError):
                await client.ping()
