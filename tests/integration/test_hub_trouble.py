"""A hub whose Redis is away, read-only, full or frozen tells browsers so, and when it is over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis
from websockets.asyncio.client import connect

from adsum_shared import streams
from tests.brokers import Broker
from tests.hub_processes import HubProcess, started
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(90), pytest.mark.slow]


@pytest.fixture
def hub(tmp_path: Path, redis_server: Broker) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path / "hub", redis_server.url)
    with started(hub):
        yield hub


@pytest.fixture
async def told(hub: HubProcess) -> AsyncIterator[list[dict[str, Any]]]:
    """What a browser that stays connected is told."""
    messages: list[dict[str, Any]] = []

    async def listen() -> None:
        async with connect(hub.url.replace("http", "ws") + "/ws", proxy=None) as socket:
            await socket.send('{"epoch": null, "offset": null}')
            async for text in socket:
                messages.append(json.loads(text))  # noqa: PERF401 - read while it grows

    task = asyncio.create_task(listen())
    await wait_until(lambda: messages)
    yield messages
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def trouble_in(messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    last = next(each for each in reversed(messages) if each["type"] != "deltas")
    trouble: dict[str, Any] | None = last.get("trouble")
    return trouble


def readyz(hub: HubProcess) -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"{hub.url}/readyz", trust_env=False)
    return answer.status_code, answer.json()


async def command(broker: Broker, *words: str) -> None:
    redis = Redis.from_url(broker.url)
    await redis.execute_command(*words)
    await redis.aclose()


async def test_a_redis_that_is_away_and_back_is_told_to_browsers(
    hub: HubProcess, told: list[dict[str, Any]], redis_server: Broker
) -> None:
    assert "trouble" not in told[0]
    assert readyz(hub)[0] == 200
    before = hub.get("/api/v1/hosts")["now"]
    redis_server.kill()
    trouble = await wait_until(lambda: trouble_in(told), timeout=15)

    assert trouble["blind"] is True
    assert trouble["problem"].startswith(f"Redis at {redis_server.url} cannot be reached (")
    assert before - 2_000 <= trouble["since"] <= before + 2_000
    code, facts = readyz(hub)
    assert (code, facts["ready"]) == (503, False)
    assert facts["problem"].startswith(f"Redis at {redis_server.url} cannot be reached (")
    assert hub.get("/api/v1/hosts")["trouble"]["since"] == trouble["since"]
    assert hub.get("/api/v1/sessions")["trouble"]["blind"] is True

    redis_server.start()
    await wait_until(lambda: trouble_in(told) is None, timeout=15)
    assert readyz(hub)[0] == 200
    assert hub.get("/api/v1/hosts")["trouble"] is None


async def test_a_browser_that_comes_while_redis_is_away_is_told_at_once(
    hub: HubProcess, told: list[dict[str, Any]], redis_server: Broker
) -> None:
    redis_server.kill()
    await wait_until(lambda: trouble_in(told), timeout=15)
    async with connect(hub.url.replace("http", "ws") + "/ws", proxy=None) as socket:
        await socket.send('{"epoch": null, "offset": null}')
        first = json.loads(await asyncio.wait_for(socket.recv(), 2))
    assert (first["type"], first["trouble"]["blind"]) == ("snapshot", True)


async def test_a_redis_that_is_full_is_told_though_nothing_comes_to_fail(
    hub: HubProcess, told: list[dict[str, Any]], redis_server: Broker
) -> None:
    await command(redis_server, "CONFIG", "SET", "maxmemory", "1")
    trouble = await wait_until(lambda: trouble_in(told), timeout=15)
    assert "out of memory" in trouble["problem"]
    assert "blind" not in trouble
    code, facts = readyz(hub)
    assert (code, facts["ready"]) == (200, True)
    assert "out of memory" in facts["problem"]

    await command(redis_server, "CONFIG", "SET", "maxmemory", "0")
    await wait_until(lambda: trouble_in(told) is None, timeout=15)
    assert readyz(hub)[1]["problem"] is None


async def test_a_read_only_redis_is_told(
    hub: HubProcess, told: list[dict[str, Any]], redis_server: Broker
) -> None:
    await command(redis_server, "REPLICAOF", "127.0.0.1", "1")
    trouble = await wait_until(lambda: trouble_in(told), timeout=15)
    assert "read-only replica" in trouble["problem"]
    await command(redis_server, "REPLICAOF", "NO", "ONE")
    await wait_until(lambda: trouble_in(told) is None, timeout=15)


async def test_trying_to_write_leaves_no_key(hub: HubProcess, redis_server: Broker) -> None:
    """Nor may it be on the way to one: what is counted as a change goes to the disk."""
    redis = Redis.from_url(redis_server.url)

    async def tried() -> bool:
        stats: Any = await redis.info("commandstats")
        return bool(stats.get("cmdstat_setrange", {}).get("calls", 0) > 1)

    await wait_until(tried, timeout=15)
    assert await redis.keys() == [streams.SECRET_PROBE.encode()]
    info: Any = await redis.info("persistence")
    assert info["rdb_changes_since_last_save"] == 1, "the probe of the hub's secret"
    await redis.aclose()


async def test_a_frozen_redis_is_told(
    hub: HubProcess, told: list[dict[str, Any]], redis_server: Broker
) -> None:
    assert redis_server.process is not None
    os.kill(redis_server.process.pid, signal.SIGSTOP)
    try:
        trouble = await wait_until(lambda: trouble_in(told), timeout=20)
        assert "does not answer. It hangs or is overloaded" in trouble["problem"]
        assert readyz(hub)[0] == 503
    finally:
        os.kill(redis_server.process.pid, signal.SIGCONT)
    await wait_until(lambda: trouble_in(told) is None, timeout=20)
