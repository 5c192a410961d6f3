"""A real collector on a disk that others fill: it refuses, loses nothing, and goes on by itself."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import redis.asyncio
from typer.testing import CliRunner

from adsum.app import app
from adsum_shared import streams
from adsum_shared.envelope import decode_beat
from tests.collectors import CollectorProcess, applied_notes
from tests.spools import SmallDisk
from tests.support import wait_until
from tests.transcripts import append, line

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", "24m")
    yield disk
    disk.close()


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = redis.asyncio.Redis.from_url(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
def collector(disk: SmallDisk, tmp_path: Path, redis_url: str) -> Iterator[CollectorProcess]:
    """Its state on the small disk; the agent's files and the broker elsewhere."""
    claude = tmp_path / "claude"
    collector = CollectorProcess(disk.directory / "state", redis_url, claude_dirs=str(claude))
    collector.log = tmp_path / "collector.log"
    yield collector
    collector.kill()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as http:
        yield http


async def post(collector: CollectorProcess, http: httpx.AsyncClient, note: str) -> httpx.Response:
    return await http.post(
        f"{collector.url}/api/live/hook",
        json={"session_id": "s1", "note": note},
        headers=collector.headers(),
    )


async def refused(collector: CollectorProcess, http: httpx.AsyncClient) -> str:
    """The error, once there is one: the free space is looked at every second."""

    async def refusal() -> httpx.Response | None:
        reply = await post(collector, http, "in between")
        return reply if reply.status_code == 503 else None

    reply = await wait_until(refusal)
    assert int(reply.headers["retry-after"]) >= 1
    return str(reply.json()["error"])


async def store(client: redis.asyncio.Redis, collector: CollectorProcess, last: int) -> None:
    """As a hub does, once it has everything up to there."""
    spool_id = collector.ready()["spool"]["spool_id"]
    applied = json.dumps({spool_id: last})
    await client.hset(streams.snapshot(collector.host_id), streams.APPLIED, applied)  # type: ignore[misc]


@pytest.mark.core
async def test_a_full_disk_is_a_refusal_that_ends_when_there_is_room(
    collector: CollectorProcess,
    disk: SmallDisk,
    client: redis.asyncio.Redis,
    http: httpx.AsyncClient,
) -> None:
    await asyncio.to_thread(collector.start)
    transcript = Path(collector.env["ADSUM_CLAUDE_DIRS"]) / "projects" / "p" / "s1.jsonl"
    append(transcript, line("line 0"))
    await collector.post(http, "before")

    async def notes() -> list[str]:
        return await applied_notes(client, collector.host_id)

    await wait_until(lambda: _are_in({"before", "line 0"}, notes))
    others = disk.fill()
    assert disk.free() == 0

    assert "is full: 0 B are free" in await refused(collector, http)
    for number in range(1, 6):
        append(transcript, line(f"line {number}"))

    def is_read() -> bool:
        transcripts = [w for w in collector.ready()["witnesses"] if w["name"] == "transcript"]
        return transcripts[0].get("counts", {}).get("not accepted", 0) > 1

    await wait_until(is_read, timeout=20)
    assert (await post(collector, http, "refused")).status_code == 503

    async def is_told() -> bool:
        raw = await client.get(streams.beat(collector.host_id))
        return bool(raw) and "is full" in (decode_beat(raw).problem or "")

    await wait_until(is_told, timeout=10)
    last = collector.ready()["spool"]["last"]
    await store(client, collector, last)
    await wait_until(lambda: collector.ready()["spool"]["acked"] == last)  # still heard
    assert disk.free() == 0

    others.unlink()

    await wait_until(lambda: _is_accepted(collector, http), timeout=10, interval=0.1)
    await wait_until(lambda: _are_in({f"line {n}" for n in range(6)}, notes), timeout=10)
    assert [each for each in await notes() if each.startswith("line")] == [
        f"line {number}" for number in range(6)
    ]
    assert "refused" not in await notes()
    await wait_until(lambda: collector.ready()["problem"] is None)


async def _are_in(wanted: set[str], notes) -> bool:  # type: ignore[no-untyped-def]
    return wanted <= set(await notes())


async def _is_accepted(collector: CollectorProcess, http: httpx.AsyncClient) -> bool:
    return (await post(collector, http, "after")).status_code == 200


async def test_a_collector_starts_on_a_full_disk_and_publishes_what_waits(
    collector: CollectorProcess,
    disk: SmallDisk,
    client: redis.asyncio.Redis,
    http: httpx.AsyncClient,
    redis_url: str,
) -> None:
    collector.env["ADSUM_REDIS_URL"] = "redis://127.0.0.1:1"
    await asyncio.to_thread(collector.start)
    for at in range(20):
        await collector.post(http, f"n{at}")
    collector.kill()
    others = disk.fill()
    collector.env["ADSUM_REDIS_URL"] = redis_url

    await asyncio.to_thread(collector.start)

    assert "is full" in await refused(collector, http)

    async def is_published() -> bool:
        return await applied_notes(client, collector.host_id) == [f"n{at}" for at in range(20)]

    await wait_until(is_published, timeout=10)
    others.unlink()
    await wait_until(lambda: _is_accepted(collector, http), timeout=10, interval=0.1)


async def test_a_collectors_first_start_on_a_full_disk_says_why_not(
    collector: CollectorProcess, disk: SmallDisk
) -> None:
    disk.fill()

    collector.spawn()
    assert collector.process is not None
    code = await asyncio.to_thread(collector.process.wait, 20)
    collector.process = None

    text = collector.log.read_text()
    assert code == 1
    assert "Traceback" not in text
    assert "No space left on device" in text


async def test_how_the_spool_fares_is_asked_of_the_collector_that_runs(
    collector: CollectorProcess, http: httpx.AsyncClient
) -> None:
    await asyncio.to_thread(collector.start)
    for at in range(3):
        await collector.post(http, f"n{at}")
    await wait_until(lambda: collector.ready()["stream"]["sent"] == 3)
    words = ["collector", "spool", "status", "--state-dir", str(collector.state_dir)]
    env = {"ADSUM_STATE_DIR": os.devnull}  # what is said on the command line counts

    done = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--json"], env=env)
    text = await asyncio.to_thread(CliRunner().invoke, app, words, env=env)

    found = json.loads(done.stdout)
    assert (found["running"], found["sent"], found["waiting"]) == (True, 3, 3)
    assert (found["first"], found["last"], found["confirmed"]) == (1, 3, 0)
    assert found["oldest_waiting_ms"] < 60_000
    assert "the collector runs" in text.stdout
    assert "to Redis up to 3" in text.stdout
