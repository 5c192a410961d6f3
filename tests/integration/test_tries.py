"""What is tried is counted: logins for themselves, and joins for themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from adsum_hub.auth.tries import MOST_OF_ALL, MOST_OF_ONE, Tries
from adsum_hub.join.opening import joined_by
from adsum_hub.settings import HubSettings
from adsum_shared.connect import open_redis

pytestmark = pytest.mark.redis

ADDRESS = "203.0.113.7"


async def test_bad_join_tokens_keep_nobody_from_logging_in(redis_url: str):
    redis, roster = open_redis(redis_url), SimpleNamespace(views={}, hosts={})
    logins, asked = Tries(redis), HubSettings()
    opened: Any = joined_by(asked, redis_url, roster, lambda: 0, lambda: None)  # type: ignore[arg-type] # a fake
    async with opened as joining:
        for _ in range(MOST_OF_ONE):
            assert await joining.tries.count(ADDRESS) == 0
        assert await joining.tries.count(ADDRESS) > 0
        assert await logins.count(ADDRESS) == 0
        for number in range(MOST_OF_ALL):
            await joining.tries.count(f"198.51.{number // 200}.{number % 200}")
        assert await joining.tries.count("192.0.2.1") > 0
    assert await logins.count("192.0.2.1") == 0
    await redis.aclose()
