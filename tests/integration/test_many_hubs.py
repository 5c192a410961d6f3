"""Several real hubs on one Redis: they agree, take turns, and no client makes another wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from adsum_hub.snapshots import Snapshot, load_snapshot
from adsum_shared.connect import open_redis
from tests.hub_processes import (
    NOTHING,
    AgentCollector,
    HubProcess,
    Watcher,
    numbers_done,
    started,
    tool_starts,
)
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(150), pytest.mark.slow]

SESSIONS = [f"s{number}" for number in range(8)]


@pytest.fixture
def collector(tmp_path: Path, redis_url: str) -> Iterator[AgentCollector]:
    collector = AgentCollector(tmp_path / "collector", redis_url)
    with started(collector):
        yield collector


@pytest.fixture
def hubs(tmp_path: Path, redis_url: str) -> Iterator[list[HubProcess]]:
    hubs = [HubProcess(tmp_path / f"hub{number}", redis_url) for number in range(3)]
    yield hubs
    for hub in hubs:
        hub.kill()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10) as client:
        yield client


class Load:
    """Hooks of eight sessions in turn, as fast as they are answered, until it is stopped."""

    def __init__(self, collector: AgentCollector, http: httpx.AsyncClient, pause: float = 0.0):
        self.collector = collector
        self.pause = pause
        self.sent: dict[str, list[int]] = {session: [] for session in SESSIONS}
        self.last = 0
        self._http = http
        self._count = 0

    async def post(self, count: int) -> None:
        for _ in range(count):
            session = SESSIONS[self._count % len(SESSIONS)]
            self._count += 1
            self.last = await self.collector.hook(self._http, tool_starts(session, self._count))
            self.sent[session].append(self._count)
            await asyncio.sleep(self.pause)

    async def until(self, done: asyncio.Event) -> None:
        while not done.is_set():
            await self.post(1)


async def caught_up(hub: HubProcess, load: Load) -> None:
    await wait_until(lambda: hub.applied(load.collector.host_id) == load.last, timeout=15)


def what_it_says(hub: HubProcess, host_id: str) -> dict[str, Any]:
    """All of REST but `now`, in the host's own time: each hub has measured its clock for itself.

    A rank holds a time of the hub's clock within a larger number, so the order that the ranks give is
    compared in their place.
    """
    host = hub.host(host_id)
    ahead = host.get("clock_offset_ms", 0)
    sessions = hub.get("/api/v1/sessions")["sessions"]
    activity = {
        view["session_id"]: hub.get(f"/api/v1/sessions/{view['id']}/activity")["entries"]
        for view in sessions
    }
    own = ("last_seen", "lag_ms", "clock_offset_ms")
    ranks = {view["id"]: view.pop("rank") for view in sessions}
    told = [
        {view["id"]: view for view in sessions},
        sorted(ranks, key=lambda name: ranks[name]),
        activity,
        {key: value for key, value in host.items() if key not in own},
    ]
    return {"told": _moved(told, ahead), "summary": hub.get("/api/v1/summary")}


def _moved(value: Any, by: int) -> Any:
    if isinstance(value, dict):
        return {key: _moved(each, by) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, by) for each in value]
    is_time = isinstance(value, int) and not isinstance(value, bool) and value > 1_000_000_000_000
    return value + by if is_time else value


@pytest.mark.parametrize("count", [2, 3])
async def test_hubs_agree_on_everything_but_the_time(
    collector: AgentCollector, hubs: list[HubProcess], http: httpx.AsyncClient, count: int
):
    load = Load(collector, http)
    with started(*hubs[:count]):
        await load.post(240)
        for hub in hubs[:count]:
            await caught_up(hub, load)

        def agree() -> bool:
            # Not at once: each hears the host's heartbeat at a second of its own.
            said = [what_it_says(hub, collector.host_id) for hub in hubs[:count]]
            assert [len(each["told"][0]) for each in said] == [len(SESSIONS)] * count
            return said[1:] == said[:-1]

        await wait_until(agree, timeout=40, interval=0.2)


@pytest.mark.core
async def test_hubs_that_save_at_once_count_conflicts_and_lose_nothing(
    collector: AgentCollector, hubs: list[HubProcess], http: httpx.AsyncClient, redis_url: str
):
    load = Load(collector, http, pause=0.005)
    with started(*hubs):
        # Each saves four times a second: they meet sooner or later.
        async def have_met() -> bool:
            await load.post(40)
            return any(hub.get("/readyz")["counts"].get("conflicts") for hub in hubs)

        await wait_until(have_met, timeout=30)
        for hub in hubs:
            await caught_up(hub, load)
        # Fewer, where it went on from what the other had saved.
        assert all(hub.get("/readyz")["counts"]["signals"] <= load.last for hub in hubs)
        assert not any(hub.get("/readyz")["counts"].get("gaps") for hub in hubs)
        assert not any("problem" in hub.host(collector.host_id) for hub in hubs)
        async with open_redis(redis_url) as redis:

            async def saved() -> Snapshot | None:
                found = await load_snapshot(redis, collector.host_id)
                return found if found and set(found.applied.values()) == {load.last} else None

            snapshot = await wait_until(saved)

    assert {
        session: [entry.text for entry in snapshot.sessions[session].activity]
        for session in SESSIONS
    } == {
        session: [f"Bash: echo n{number}" for number in numbers[-100:]]
        for session, numbers in load.sent.items()
    }


@pytest.mark.core
async def test_hubs_restarted_one_after_the_other_leave_no_gap_that_a_client_sees(
    collector: AgentCollector, hubs: list[HubProcess], http: httpx.AsyncClient
):
    load, done = Load(collector, http, pause=0.01), asyncio.Event()
    watcher = Watcher(*(hub.url for hub in hubs))
    with started(*hubs):
        await load.post(len(SESSIONS))
        for hub in hubs:
            await caught_up(hub, load)
        async with watcher.watching():
            await wait_until(lambda: len(watcher.sessions) == len(SESSIONS))
            loading = asyncio.create_task(load.until(done))
            for turn, hub in enumerate(hubs):
                await asyncio.to_thread(hub.kill if turn % 2 else hub.stop)
                await asyncio.sleep(0.5)
                await asyncio.to_thread(hub.start)
            done.set()
            await loading
            for hub in hubs:
                await caught_up(hub, load)
            last = {session: numbers[-1] for session, numbers in load.sent.items()}
            await wait_until(lambda: sorted(watcher.numbers.values()) == sorted(last.values()))
        done_by_hubs = [
            {name: numbers_done(hub, collector.host_id, name) for name in SESSIONS} for hub in hubs
        ]

    assert (watcher.lost, watcher.went_back) == ([], [])
    assert watcher.connections >= len(hubs)
    sent = {session: numbers[-100:] for session, numbers in load.sent.items()}
    assert done_by_hubs == [sent] * len(hubs)


async def first_message(hub: HubProcess, frame: str) -> dict[str, Any]:
    address = hub.url.replace("http", "ws", 1) + "/ws"
    async with connect(address, max_size=None, proxy=None) as socket:
        await socket.send(frame)
        message: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 5))
        return message


async def test_a_client_that_comes_back_gets_what_it_missed_or_all_of_it(
    collector: AgentCollector, hubs: list[HubProcess], http: httpx.AsyncClient
):
    one, other = hubs[:2]
    load = Load(collector, http)
    with started(one, other):
        await load.post(len(SESSIONS))
        for hub in (one, other):
            await caught_up(hub, load)
        before = await first_message(one, json.dumps(NOTHING))
        at = {"epoch": before["epoch"], "offset": before["offset"]}
        await load.post(2)
        for hub in (one, other):
            await caught_up(hub, load)

        # What is known already is told in turn: of the one before it may come now as well.
        async def missed() -> dict[str, Any] | None:
            answer = await first_message(one, json.dumps(at))
            told = {view["session_id"] for view in answer["sessions"]}
            return answer if told >= set(SESSIONS[:2]) else None

        same = await wait_until(missed)
        elsewhere = await first_message(other, json.dumps(at))
        strange = {
            "future": at | {"offset": 10**9},
            "past all numbers": at | {"offset": 2**63},
            "negative": at | {"offset": -1},
            "no offset": {"epoch": at["epoch"]},
            "no epoch": {"offset": at["offset"]},
            "empty": {"epoch": "", "offset": 0},
            "long": {"epoch": "e" * 60_000, "offset": 1},
            "odd": {"epoch": "\ud83d\ude80\u202e\x00%s{}", "offset": 1},
        }
        answers = {
            name: await first_message(one, json.dumps(frame)) for name, frame in strange.items()
        }

    assert before["type"] == "snapshot"
    assert same["type"] == "deltas"
    assert len(same["sessions"]) < len(SESSIONS)
    assert elsewhere["type"] == "snapshot"
    assert elsewhere["epoch"] != before["epoch"]
    for name, message in [*answers.items(), ("elsewhere", elsewhere)]:
        assert (name, message["type"], len(message["sessions"])) == (
            name,
            "snapshot",
            len(SESSIONS),
        )
