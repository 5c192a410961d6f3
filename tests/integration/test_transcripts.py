"""A real collector reads transcripts: with hooks and without, across a kill, and at no cost."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest
import redis.asyncio

from adsum_shared import streams
from adsum_shared.envelope import decode_batch, decode_beat
from adsum_shared.signals import Alive
from tests.collectors import CollectorProcess, applied_notes
from tests.support import wait_until
from tests.transcripts import append, line

pytestmark = pytest.mark.timeout(60)


class Rig:
    def __init__(self, collector: CollectorProcess, client: redis.asyncio.Redis) -> None:
        self.collector = collector
        self.client = client
        self.projects = Path(collector.env["ADSUM_CLAUDE_DIRS"]) / "projects"
        self.main = self.projects / "p" / "s1.jsonl"

    async def start(self) -> None:
        await asyncio.to_thread(self.collector.start)

    async def notes(self) -> list[str]:
        return await applied_notes(self.client, self.collector.host_id)

    async def newest_notes(self) -> set[str | None]:
        """Return the notes in the last entries of the stream, which is quick for a long one."""
        entries = await self.client.xrevrange(streams.inbox(self.collector.host_id), count=5)
        batches = [decode_batch(fields) for _, fields in entries]
        return {s.note for batch in batches for s in batch.signals if isinstance(s, Alive)}

    async def wait_for(self, *notes: str) -> None:
        async def are_there() -> bool:
            return set(notes) <= set(await self.notes())

        await wait_until(are_there)

    async def wait_for_beat(self, at: int) -> int:
        """The time of the first heartbeat from then on, ms."""

        async def beaten() -> int:
            raw = await self.client.get(streams.beat(self.collector.host_id))
            beat = decode_beat(raw) if raw else None
            return beat.at if beat and beat.at >= at else 0

        return int(await wait_until(beaten, timeout=20, interval=0.1))

    async def hook(self, web: httpx.AsyncClient, note: str) -> float:
        """Seconds until it was answered."""
        body = {"session_id": "s1", "note": note, "transcript_path": str(self.main)}
        began = time.perf_counter()
        reply = await web.post(
            f"{self.collector.url}/api/live/hook", json=body, headers=self.collector.headers()
        )
        assert (reply.status_code, reply.content) == (200, b"")
        return time.perf_counter() - began


@pytest.fixture
async def rig(tmp_path: Path, redis_url: str) -> AsyncIterator[Rig]:
    client = redis.asyncio.Redis.from_url(redis_url)
    rig = Rig(CollectorProcess(tmp_path / "state", redis_url), client)
    yield rig
    rig.collector.kill()
    await client.aclose()


async def test_lines_reach_the_stream_without_any_hook(rig: Rig) -> None:
    rig.projects.mkdir(parents=True)
    await rig.start()
    append(rig.main, line("one"))
    append(rig.projects / "p/s1/subagents/agent-a.jsonl", line("two"))

    await rig.wait_for("one", "two")


async def test_a_projects_directory_that_comes_after_the_start_is_read(rig: Rig) -> None:
    await rig.start()
    append(rig.main, line("one"))

    await rig.wait_for("one")


@pytest.mark.core
@pytest.mark.slow
async def test_each_line_is_told_once_across_kills(rig: Rig) -> None:
    await rig.start()
    written: list[str] = []
    async with httpx.AsyncClient() as web:
        for round_ in range(3):
            for number in range(40):
                written.append(f"{round_}-{number}")
                append(rig.main, line(written[-1]))
                if number % 8 == 0:
                    await rig.hook(web, "hook")
            rig.collector.kill()
            await rig.start()
            await rig.hook(web, "hook")
    await rig.wait_for(*written)

    assert [note for note in await rig.notes() if note != "hook"] == written


async def test_hooks_are_answered_while_a_large_transcript_is_read(rig: Rig) -> None:
    await rig.start()
    append(rig.main, line("begin"))
    await rig.wait_for("begin")
    pad = "x" * 2000
    append(rig.main, *(line(number, pad=pad) for number in range(20_000)))
    answers_s: list[float] = []
    started = time.perf_counter()
    async with httpx.AsyncClient() as web:
        while "19999" not in await rig.newest_notes():
            answers_s.append(await rig.hook(web, "hook"))

    # A share of the whole, since a busy machine slows both.
    assert len(answers_s) > 3
    assert statistics.median(answers_s) < (time.perf_counter() - started) / 10


async def test_a_stop_in_the_middle_of_reading_is_clean(rig: Rig) -> None:
    await rig.start()
    append(rig.main, line("begin"))
    await rig.wait_for("begin")
    append(rig.main, *(line(number, pad="x" * 2000) for number in range(20_000)))

    assert await asyncio.to_thread(rig.collector.stop) == 0
    assert "Traceback" not in rig.collector.log.read_text()


@pytest.mark.slow
async def test_watching_thousands_of_files_costs_next_to_nothing(rig: Rig) -> None:
    """A tenth of a second of work in three: far above what it costs, far below what polling does."""
    for project in range(50):
        for session in range(10):
            main = rig.projects / f"p{project}" / f"s{project}-{session}.jsonl"
            append(main, line("old", kind="silent"))
            for child in range(3):
                append(main.with_suffix("") / "subagents" / f"agent-{child}.jsonl", line("old"))
    await rig.start()
    process = psutil.Process(rig.collector.pid)
    # the first walk is not what is measured
    await wait_until(lambda: rig.collector.ready()["transcripts"]["files"] == 2000, timeout=20)
    began = await rig.wait_for_beat(1)
    before = process.cpu_times()
    await rig.wait_for_beat(began + 3000)
    after = process.cpu_times()

    assert after.user + after.system - before.user - before.system < 0.1
