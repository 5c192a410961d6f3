"""Connections to Redis on the loop that Adsum runs on: uvloop fails in its own words."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_shared.connect import open_redis

pytestmark = pytest.mark.redis


def test_a_write_to_a_transport_that_closed_a_moment_ago_is_a_lost_connection(redis_url):
    async def write() -> None:
        client = open_redis(redis_url)
        connection = client.connection_pool.make_connection()
        await connection.connect()
        connection._writer.transport.abort()  # as a reset does that nobody has read yet
        await asyncio.sleep(0)
        with pytest.raises(RedisConnectionError):
            await connection.send_command("PING", check_health=False)
        await client.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(write())
