"""`/metrics` of a real hub, fed by a real collector through a real Redis: values move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from adsum_shared import streams
from adsum_shared.connect import open_redis
from tests.hub_processes import AgentCollector, HubProcess, Watcher, started, tool_starts
from tests.scraping import Scraped, scrape, value
from tests.signing_in import asking, log_in, make_token
from tests.support import wait_until

pytestmark = pytest.mark.redis


async def look(hub: HubProcess) -> Scraped:
    return await asyncio.to_thread(scrape, hub.url)


@pytest.fixture
async def fleet(tmp_path: Path, redis_url: str) -> AsyncIterator[tuple[HubProcess, AgentCollector]]:
    hub = HubProcess(tmp_path / "hub", redis_url)
    collector = AgentCollector(tmp_path / "host", redis_url)
    with started(hub, collector):
        yield hub, collector


async def test_a_hook_is_measured_on_its_way_to_the_browser(
    fleet: tuple[HubProcess, AgentCollector],
) -> None:
    hub, collector = fleet
    async with Watcher(hub.url).watching() as watcher, httpx.AsyncClient() as client:
        await wait_until(lambda: watcher.snapshots)
        for number in range(1, 6):
            await collector.hook(client, tool_starts("s1", number))
            await wait_until(lambda n=number: n in watcher.numbers.values())
        await wait_until(lambda: value_of(hub, "adsum_collector_hooks_total") == 5)
        found = await look(hub)

    # An id that is told for the first time may share a message with its host.
    sent = value(found, "adsum_hook_to_browser_seconds_count") or 0
    assert 4 <= sent <= 5
    # Clocks are compared by the quickest way, so on a quick machine all of it may be 0.
    assert 0 <= (value(found, "adsum_hook_to_browser_seconds_sum") or 0) < 5
    assert value(found, "adsum_hook_to_browser_seconds_bucket", le="+Inf") == sent
    assert (value(found, "adsum_hook_to_hub_seconds_count") or 0) >= 5
    assert (value(found, "adsum_signals_applied_total") or 0) >= 5
    assert value(found, "adsum_websocket_clients") == 1
    assert value(found, "adsum_sessions", group="autonomous") == 1
    assert value(found, "adsum_host_up", host_id=collector.host_id) == 1
    assert value(found, "adsum_host_backlog_signals", host_id=collector.host_id) == 0
    assert abs(value(found, "adsum_host_clock_offset_seconds") or 0) < 1
    assert (value(found, "adsum_collector_signals_published_total") or 0) >= 5
    assert (value(found, "adsum_collector_published_bytes_total") or 0) > 500
    assert (value(found, "adsum_collector_spool_bytes") or 0) > 0
    assert value(found, "adsum_redis_up") == value(found, "adsum_ready") == 1
    assert not [labels for _, labels in found if "s1" in dict(labels).values()]


def value_of(hub: HubProcess, name: str, **labels: str) -> float | None:
    return value(scrape(hub.url), name, **labels)


async def test_how_long_a_session_waited_for_a_human_is_measured(
    fleet: tuple[HubProcess, AgentCollector],
) -> None:
    hub, collector = fleet
    asked = {**tool_starts("s1", 1), "hook_event_name": "PermissionRequest"}
    async with httpx.AsyncClient() as client:
        await collector.hook(client, tool_starts("s1", 1))
        await collector.hook(client, asked)
        waiting = {"state": "needs_permission"}
        await wait_until(lambda: value_of(hub, "adsum_needs_you_oldest_seconds", **waiting))
        assert value_of(hub, "adsum_sessions", group="needs_you") == 1
        assert value_of(hub, "adsum_time_to_human_seconds_count", **waiting) == 0

        done = {**tool_starts("s1", 1), "hook_event_name": "PostToolUse", "tool_response": {}}
        await collector.hook(client, done)
        await wait_until(lambda: value_of(hub, "adsum_time_to_human_seconds_count", **waiting) == 1)

    assert value_of(hub, "adsum_needs_you_oldest_seconds", **waiting) == 0
    assert 0 < (value_of(hub, "adsum_time_to_human_seconds_sum", **waiting) or 0) < 10


async def test_an_outage_shows_and_counts_a_reconnect(tmp_path: Path, redis_server) -> None:
    hub = HubProcess(tmp_path / "hub", redis_server.url)
    with started(hub):
        assert value_of(hub, "adsum_redis_connects_total") == 1
        redis_server.kill()
        await wait_until(lambda: value_of(hub, "adsum_redis_up") == 0, timeout=15)
        redis_server.start()
        await wait_until(lambda: value_of(hub, "adsum_redis_connects_total") == 2, timeout=20)
        assert value_of(hub, "adsum_redis_up") == 1


async def test_only_whoever_may_read_the_list_may_read_the_metrics(
    tmp_path: Path, redis_url: str
) -> None:
    hub = HubProcess(tmp_path / "hub", redis_url, sign_in="on")
    with started(hub):
        with asking(hub) as nobody:
            refused = nobody.get("/metrics")
        assert refused.status_code == 401  # and no way to a page, which would be read as metrics
        assert refused.headers["www-authenticate"] == "Bearer"
        _, secret = make_token(hub, "viewer", "prometheus")
        with asking(hub, token=f"{secret[:-1]}{'A' if secret[-1] != 'A' else 'B'}") as stranger:
            assert stranger.get("/metrics").status_code == 401
        assert log_in(hub, "x" * 32).status_code == 401

        found = scrape(hub.url, secret)
        assert value(found, "adsum_sign_in_failures_total", what="login") == 1
        assert value(found, "adsum_sign_in_failures_total", what="pass") == 1


async def test_what_collectors_count_is_listed_with_the_hosts(
    fleet: tuple[HubProcess, AgentCollector],
) -> None:
    hub, collector = fleet
    async with httpx.AsyncClient() as client:
        await collector.hook(client, tool_starts("s1", 1))
        key = collector.host_id
        # A heartbeat may leave between a hook and its signals.
        await wait_until(
            lambda: hub.get("/api/v1/hosts")["collectors"].get(key, {}).get("published", 0) >= 1
        )
    counts = hub.get("/api/v1/hosts")["collectors"][key]
    assert counts["hooks"] == 1
    assert counts["signals"] >= 1


async def test_a_replay_that_a_hub_asks_for_is_counted(
    fleet: tuple[HubProcess, AgentCollector], redis_url: str
) -> None:
    hub, collector = fleet
    async with httpx.AsyncClient() as client:
        for number in range(1, 4):
            await collector.hook(client, tool_starts("s1", number))
    # What was not yet published when the replay was asked for is published once.
    await wait_until(lambda: (value_of(hub, "adsum_signals_applied_total") or 0) >= 3)
    spool_id = collector.ready()["spool"]["spool_id"]
    redis = open_redis(redis_url)
    try:
        await redis.set(streams.want(collector.host_id), f"{spool_id}:1", px=streams.WANT_TTL_MS)
        await wait_until(lambda: value_of(hub, "adsum_collector_replays_total") == 1, timeout=10)
    finally:
        await redis.aclose()

    # A heartbeat may leave between the request and what it asks for.
    spooled = value_of(hub, "adsum_collector_signals_spooled_total")
    await wait_until(
        lambda: value_of(hub, "adsum_collector_signals_published_total") > spooled, timeout=10
    )
    found = await look(hub)
    # What came twice was folded once, and is measured once.
    assert (value(found, "adsum_hook_to_hub_seconds_count") or 0) <= (
        value(found, "adsum_signals_applied_total") or 0
    )
