"""What is tried is counted: logins for themselves, and joins for themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from adsum_hub.auth.credentials import MOST_OF_ALL, MOST_OF_ONE, LoginRateLimit
from adsum_hub.join.joining import open_joining
from adsum_hub.redis_access import open_access
from adsum_hub.settings import HubSettings
from adsum_shared.connect import open_redis
from tests.seals import seal

pytestmark = pytest.mark.redis

ADDRESS = "203.0.113.7"


async def test_bad_join_tokens_keep_nobody_from_logging_in(redis_url: str):
    redis, roster = open_redis(redis_url), SimpleNamespace(views={}, hosts={})
    logins, asked = LoginRateLimit(redis), HubSettings()
    async with open_access(redis_url) as access:
        opened: Any = open_joining(asked, redis_url, access, roster, lambda: 0, None, None, seal())  # type: ignore[arg-type] # a fake
        bad = opened.strangers.limit
        for _ in range(MOST_OF_ONE):
            assert await bad.count(ADDRESS) == 0
        assert await bad.count(ADDRESS) > 0
        assert await logins.count(ADDRESS) == 0
        for number in range(MOST_OF_ALL):
            await bad.count(f"198.51.{number // 200}.{number % 200}")
        assert await bad.count("192.0.2.1") > 0
    assert await logins.count("192.0.2.1") == 0
    await redis.aclose()


async def test_what_an_address_tries_beyond_its_limit_locks_out_no_other(redis_url: str):
    async with open_redis(redis_url) as redis:
        logins = LoginRateLimit(redis)
        waits = [await logins.count(ADDRESS) for _ in range(MOST_OF_ALL + MOST_OF_ONE)]

        assert [wait > 0 for wait in waits].index(True) == MOST_OF_ONE
        assert all(waits[MOST_OF_ONE:])
        assert await logins.count("192.0.2.1") == 0
