"""A real collector, a real broker, and a way between them that fails in every way it can."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import redis.asyncio

from adsum_shared import streams
from adsum_shared.connect import open_redis
from tests.brokers import Broker
from tests.collectors import CollectorProcess, applied_notes, batches
from tests.proxies import Proxy, Spoiled, proxy_to
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60), pytest.mark.slow]

#: The client's socket time-out, a connection attempt's, the longest pause, and some time to work.
NOTICED_S = 5.0 + 3.0 + 5.0 + 2.0


@pytest.fixture
async def proxy(redis_server: Broker) -> AsyncIterator[Proxy]:
    async with proxy_to(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
async def collector(tmp_path: Path, proxy: Proxy) -> AsyncIterator[CollectorProcess]:
    """Behind the proxy, with one signal sent."""
    collector = CollectorProcess(tmp_path / "state", proxy.url)
    await asyncio.to_thread(collector.start)
    yield collector
    await asyncio.to_thread(collector.kill)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10) as client:
        yield client


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = open_redis(redis_url)
    yield client
    await client.aclose()


async def arrives(
    client: redis.asyncio.Redis, collector: CollectorProcess, expected: list[str], timeout: float
) -> float:
    """Seconds until all is there, in order and once."""
    started = time.monotonic()

    async def is_there() -> bool:
        return await applied_notes(client, collector.host_id) == expected

    await wait_until(is_there, timeout=timeout)
    return time.monotonic() - started


async def recovers(http: httpx.AsyncClient, collector: CollectorProcess) -> None:
    async def is_well() -> bool:
        return await problem(http, collector) == "None"

    await wait_until(is_well, timeout=NOTICED_S)


async def problem(http: httpx.AsyncClient, collector: CollectorProcess) -> str:
    """Asked without holding up this loop, in which the proxy lives."""
    return str((await http.get(f"{collector.url}/readyz")).json()["problem"])


@pytest.mark.parametrize("how", ["lost", "reset", "garbage"])
@pytest.mark.parametrize("command", [b"XADD", b"XINFO", b"HMGET", b"SET", b"INFO"])
async def test_a_spoiled_reply_costs_nothing_and_doubles_nothing(
    collector: CollectorProcess,
    proxy: Proxy,
    http: httpx.AsyncClient,
    client: redis.asyncio.Redis,
    how: Spoiled,
    command: bytes,
) -> None:
    await collector.post(http, "before")
    await arrives(client, collector, ["before"], timeout=10)
    proxy.how = how
    proxy.lose_reply_to = b"\r\n%s\r\n" % command
    if command in (b"XINFO", b"INFO"):  # said when connecting
        await client.client_kill_filter(_type="normal", skipme=True)
    await collector.post(http, "after")
    await wait_until(lambda: proxy.lost == 1, timeout=10)

    await arrives(client, collector, ["before", "after"], timeout=NOTICED_S)
    found = await batches(client, collector.host_id)
    assert [(batch.first, batch.last) for batch in found] == [(1, 1), (2, 2)]
    await recovers(http, collector)


async def test_three_replies_lost_in_a_row_make_no_second_entry(
    collector: CollectorProcess,
    proxy: Proxy,
    http: httpx.AsyncClient,
    client: redis.asyncio.Redis,
) -> None:
    for at in range(6):
        if at % 2:
            proxy.lose_reply_to = b"XADD"
        await collector.post(http, f"n{at}")
        await arrives(client, collector, [f"n{n}" for n in range(at + 1)], timeout=20)

    await wait_until(lambda: proxy.lost == 3)
    found = await batches(client, collector.host_id)
    assert [(batch.first, batch.last) for batch in found] == [(n, n) for n in range(1, 7)]


async def test_a_peer_that_vanished_without_a_word_is_noticed_within_the_time_out(
    collector: CollectorProcess,
    proxy: Proxy,
    http: httpx.AsyncClient,
    client: redis.asyncio.Redis,
) -> None:
    await collector.post(http, "before")
    await arrives(client, collector, ["before"], timeout=10)
    proxy.go_silent()
    await collector.post(http, "meanwhile")

    took = await arrives(client, collector, ["before", "meanwhile"], timeout=NOTICED_S)

    assert took > 1  # it was not lucky
    await collector.post(http, "after")
    await arrives(client, collector, ["before", "meanwhile", "after"], timeout=5)


async def test_an_idle_line_that_went_dead_is_noticed_by_the_heartbeat(
    collector: CollectorProcess, proxy: Proxy, client: redis.asyncio.Redis
) -> None:
    await wait_until(lambda: client.exists(streams.beat(collector.host_id)), timeout=10)
    before = proxy.connections
    proxy.go_silent()

    await wait_until(lambda: proxy.connections > before, timeout=NOTICED_S)
    await wait_until(lambda: client.exists(streams.beat(collector.host_id)), timeout=5)


async def test_a_slow_line_is_slow_and_no_more(
    collector: CollectorProcess,
    proxy: Proxy,
    http: httpx.AsyncClient,
    client: redis.asyncio.Redis,
) -> None:
    await collector.post(http, "before")
    await arrives(client, collector, ["before"], timeout=10)
    proxy.byte_s = 0.02
    for at in range(3):
        await collector.post(http, f"n{at}")

    await arrives(client, collector, ["before", "n0", "n1", "n2"], timeout=20)


async def test_replies_too_slow_to_wait_for_are_a_visible_problem(
    collector: CollectorProcess, proxy: Proxy, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    await collector.post(http, "before")
    await arrives(client, collector, ["before"], timeout=10)
    proxy.byte_s = 60.0

    async def is_told() -> bool:
        return "does not answer" in await problem(http, collector)

    await wait_until(is_told, timeout=NOTICED_S)
    await collector.post(http, "meanwhile")
    proxy.byte_s = 0.0
    await arrives(client, collector, ["before", "meanwhile"], timeout=70)


@pytest.mark.parametrize("backlog", [1, 40], ids=["a signal", "more than the sockets hold"])
async def test_a_frozen_broker_is_a_problem_until_it_thaws(
    collector: CollectorProcess,
    redis_server: Broker,
    http: httpx.AsyncClient,
    client: redis.asyncio.Redis,
    backlog: int,
) -> None:
    await collector.post(http, "before")
    await arrives(client, collector, ["before"], timeout=10)
    assert redis_server.process is not None
    pid = redis_server.process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        expected = ["before", *(f"{at}" + "x" * 200_000 * (backlog > 1) for at in range(backlog))]
        for note in expected[1:]:
            await collector.post(http, note)

        async def is_told() -> bool:
            return "does not answer" in await problem(http, collector)

        await wait_until(is_told, timeout=NOTICED_S)
        reply = await http.get(f"{collector.url}/readyz")
        assert reply.status_code == 200  # hooks are taken all the same
    finally:
        os.kill(pid, signal.SIGCONT)

    await arrives(client, collector, expected, timeout=NOTICED_S)
    await recovers(http, collector)


async def test_killed_connections_are_opened_again(
    collector: CollectorProcess, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    expected = []
    for at in range(10):
        expected.append(f"n{at}")
        await collector.post(http, expected[-1])
        await client.client_kill_filter(_type="normal", skipme=True)

    await arrives(client, collector, expected, timeout=NOTICED_S)
