"""Clients of a real hub that misbehave, or come all at once: none of them makes another wait."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.asyncio import Redis
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from adsum_shared.connect import open_redis
from adsum_shared.signals import ToolStarted
from tests.hub_processes import NOTHING, HubProcess, number_in, started
from tests.rosters import beat, publish, store
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60)]

LATE_S = 0.25
PAGES = 200


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with open_redis(redis_url) as client:
        yield client


class Counting:
    """One session of the first host runs one tool after the other; each has a number."""

    def __init__(self, redis: Redis, host: str) -> None:
        self.sent: dict[int, float] = {}
        self._redis = redis
        self._host = host

    async def next(self) -> None:
        number, at = len(self.sent) + 1, now_ms()
        tool = ToolStarted(
            session_id="counting",
            at=at,
            seen=at,
            tool="Bash",
            tool_use_id=f"t{number}",
            summary=f"echo n{number}",
        )
        self.sent[number] = time.perf_counter()
        await publish(self._redis, self._host, number + 1, [tool], at)

    async def run(self) -> None:
        while True:
            await self.next()
            await asyncio.sleep(0.02)


def open_socket(hub: HubProcess, **options: Any) -> connect:
    address = hub.url.replace("http", "ws", 1) + "/ws"
    return connect(address, max_size=None, proxy=None, compression=None, **options)


async def greeted(client: ClientConnection) -> dict[str, Any]:
    await client.send(json.dumps(NOTHING))
    first: dict[str, Any] = json.loads(await asyncio.wait_for(client.recv(), 20))
    return first


async def note_delays(client: ClientConnection, counting: Counting, delays: list[float]) -> None:
    async for text in client:
        now = time.perf_counter()
        if number := number_in(str(text)):
            delays.append(now - counting.sent[number])


class Stuck:
    """Says hello as a page does, then reads `per_second` bytes a second; it never answers a ping."""

    def __init__(self, hub: HubProcess, per_second: int) -> None:
        self.per_second = per_second
        self.taken = 0
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.socket.connect(("127.0.0.1", hub.port))
        self.socket.sendall(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % hub.port
        )
        assert b"101" in self.socket.recv(1024).split(b"\r\n")[0]
        hello = json.dumps(NOTHING).encode()
        # A text frame; a mask of zeros changes nothing.
        self.socket.sendall(bytes([0x81, 0x80 | len(hello), 0, 0, 0, 0]) + hello)
        self.socket.setblocking(False)

    async def read(self) -> None:
        """Until the hub has let it go."""
        while self.per_second:
            await asyncio.sleep(max(0.01, 1 / self.per_second))
            with contextlib.suppress(BlockingIOError):
                try:
                    found = self.socket.recv(max(1, self.per_second // 100))
                except ConnectionResetError:
                    return
                self.taken += len(found)
                if not found:
                    return


def connections(hub: HubProcess) -> int:
    """Of WebSockets alone: those that the hub's process still holds, let go or not."""
    found = psutil.Process(hub.pid).net_connections("tcp")
    return sum(1 for each in found if each.laddr.port == hub.port and each.raddr)


@pytest.fixture
async def hosts(redis: Redis, request: pytest.FixtureRequest) -> AsyncIterator[list[str]]:
    """Four hosts whose collectors live, with as many sessions together as the test asks for."""
    ids = await store(redis, 4, request.param, now_ms())

    async def live() -> None:
        while True:
            await asyncio.sleep(2)
            await beat(redis, ids, now_ms())

    living = asyncio.create_task(live())
    yield ids
    living.cancel()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("hosts", [7_600], indirect=True)
async def test_clients_that_do_not_read_delay_nobody_and_are_let_go(
    redis: Redis, redis_url: str, hosts: list[str], tmp_path: Path
):
    hub, counting = HubProcess(tmp_path / "hub", redis_url), Counting(redis, hosts[0])
    delays: list[float] = []
    with started(hub):
        async with open_socket(hub) as client:
            size = len(json.dumps(await greeted(client)))
            tasks = [
                asyncio.create_task(counting.run()),
                asyncio.create_task(note_delays(client, counting, delays)),
            ]
            await wait_until(lambda: len(delays) > 20)
            process, alone = psutil.Process(hub.pid), connections(hub)
            memory = [process.memory_info().rss]
            # The slow one is at it for longer than a stuck one may be; the last is as a proxy whose
            # client has died: it takes everything and answers nothing.
            stuck = [Stuck(hub, each) for each in (0, 1, size // 20, 100 * size)]
            tasks += [asyncio.create_task(each.read()) for each in stuck]
            await wait_until(lambda: hub.get("/readyz")["clients"] == 1 + len(stuck))

            async def are_gone() -> bool:
                await asyncio.sleep(0.2)
                memory.append(process.memory_info().rss)
                return connections(hub) == alone

            await wait_until(are_gone, timeout=60)
            assert hub.get("/readyz")["clients"] == 1
            for task in tasks:
                task.cancel()
        for each in stuck:
            each.socket.close()
    more = (max(memory) - memory[0]) / size
    late = sorted(delays)[int(len(delays) * 0.99)]

    print(f"p99 of {len(delays)}: {late * 1e3:.0f} ms; memory: {more:.1f} snapshots more")
    assert late < LATE_S
    assert [each.taken > size for each in stuck] == [False, False, True, True]
    assert more < 3 * len(stuck)


class Page:
    """Connects again by itself, as the page does, and counts the sessions of its last snapshot."""

    def __init__(self, hub: HubProcess, dice: random.Random) -> None:
        self.reached: dict[str, Any] = NOTHING
        self.snapshots: list[int] = []
        self.shown = 0
        self._hub = hub
        self._dice = dice

    async def follow(self) -> None:
        while True:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                async with open_socket(self._hub, open_timeout=30, ping_interval=None) as client:
                    await client.send(json.dumps(self.reached))
                    async for text in client:
                        self._apply(str(text))
            await asyncio.sleep(0.1 + self._dice.random() * 0.5)

    def _apply(self, text: str) -> None:
        # Two hundred pages in one process: a snapshot is counted, not decoded.
        if text.startswith('{"type":"snapshot"'):
            self.snapshots.append(text.count('"session_id"'))
        self.reached = {
            "epoch": text.partition('"epoch":"')[2].partition('"')[0],
            "offset": int(text.partition('"offset":')[2].partition(",")[0]),
        }
        self.shown = max(self.shown, number_in(text))


@pytest.mark.parametrize("hosts", [3_000], indirect=True)
async def test_two_hundred_pages_come_back_at_once_after_a_restart(
    redis: Redis, redis_url: str, hosts: list[str], tmp_path: Path
):
    hub, counting = HubProcess(tmp_path / "hub", redis_url), Counting(redis, hosts[0])
    dice = random.Random(1)
    pages = [Page(hub, dice) for _ in range(PAGES)]
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(started(hub))
        tasks = [asyncio.create_task(each.follow()) for each in pages]
        await wait_until(lambda: all(each.snapshots for each in pages), timeout=30)
        tasks.append(asyncio.create_task(counting.run()))
        await wait_until(lambda: all(each.shown for each in pages), timeout=30)
        hub.kill()
        number = len(counting.sent)
        began = time.perf_counter()
        await asyncio.to_thread(hub.start)
        ready = time.perf_counter() - began
        memory = [psutil.Process(hub.pid).memory_info().rss]

        def are_back() -> bool:
            memory.append(psutil.Process(hub.pid).memory_info().rss)
            return all(each.shown > number + 20 for each in pages)

        await wait_until(are_back, timeout=30, interval=0.1)
        back = time.perf_counter() - began
        for task in tasks:
            task.cancel()
    more = (max(memory) - memory[0]) / 1e6

    print(f"ready after {ready:.1f} s, all back after {back:.1f} s, {more:.0f} MB more")
    assert more < 300, "not bounded by what may be on its way at once"
    # One more: the session that counts.
    assert {tuple(each.snapshots) for each in pages} == {(3_000, 3_001)}
