"""Clients of a real hub that misbehave, or that all reconnect at once: what they cost the others.

    python -m bench.live_clients [--sessions 7600] [--pages 200]

Prints the delay of a change at a client that reads, with and without four clients that do not, as a ratio
from the same run; then how long a hub that was killed takes until all pages have its list again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
from redis.asyncio import Redis
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from adsum_shared.connect import open_redis
from adsum_shared.signals import ToolStarted
from tests.brokers import running_broker
from tests.hub_processes import NOTHING, HubProcess, number_in, started
from tests.rosters import beat, publish, store
from tests.support import wait_until

#: Sessions in the list to which the pages come back.
RESTART_SESSIONS = 3_000


def now_ms() -> int:
    return int(time.time() * 1000)


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
        self.socket.settimeout(0)

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


@contextlib.asynccontextmanager
async def live_hosts(redis: Redis, sessions: int) -> AsyncIterator[list[str]]:
    """Yield the ids of four hosts with a live collector each, and this many sessions together."""
    ids = await store(redis, 4, sessions, now_ms())

    async def live() -> None:
        while True:
            await asyncio.sleep(2)
            await beat(redis, ids, now_ms())

    living = asyncio.create_task(live())
    yield ids
    living.cancel()


async def measure_stuck_clients(redis: Redis, url: str, sessions: int, folder: Path) -> None:
    hub = HubProcess(folder / "hub", url)
    async with live_hosts(redis, sessions) as hosts:
        counting, delays = Counting(redis, hosts[0]), list[float]()
        with started(hub):
            async with open_socket(hub) as client:
                size = len(json.dumps(await greeted(client)))
                tasks = [
                    asyncio.create_task(counting.run()),
                    asyncio.create_task(note_delays(client, counting, delays)),
                ]
                await wait_until(lambda: len(delays) > 300)
                process, alone = psutil.Process(hub.pid), connections(hub)
                quiet, memory = list(delays), [process.memory_info().rss]
                # The third reads slowly for longer than a stuck client may. The last is like a proxy whose
                # client has died: it takes everything and answers nothing.
                stuck = [Stuck(hub, speed) for speed in (0, 1, size // 20, 100 * size)]
                tasks += [asyncio.create_task(client.read()) for client in stuck]
                await wait_until(lambda: hub.get("/readyz")["clients"] == 1 + len(stuck))

                async def are_gone() -> bool:
                    await asyncio.sleep(0.2)
                    memory.append(process.memory_info().rss)
                    return connections(hub) == alone

                await wait_until(are_gone, timeout=60)
                for task in tasks:
                    task.cancel()
            for stuck_client in stuck:
                stuck_client.socket.close()
    before, beside = (p99(values) for values in (quiet, delays[len(quiet) :]))
    more = (max(memory) - memory[0]) / size
    print(
        f"p99 alone {before * 1e3:.0f} ms, beside four clients that do not read {beside * 1e3:.0f} ms"
    )
    print(f"ratio {beside / before:.1f}; memory: {more:.1f} snapshots more")


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


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


async def measure_restart(redis: Redis, url: str, page_count: int, folder: Path) -> None:
    hub, dice = HubProcess(folder / "restarted", url), random.Random(1)
    pages = [Page(hub, dice) for _ in range(page_count)]
    async with live_hosts(redis, RESTART_SESSIONS) as hosts, contextlib.AsyncExitStack() as stack:
        counting = Counting(redis, hosts[0])
        stack.enter_context(started(hub))
        tasks = [asyncio.create_task(page.follow()) for page in pages]
        await wait_until(lambda: all(page.snapshots for page in pages), timeout=30)
        tasks.append(asyncio.create_task(counting.run()))
        await wait_until(lambda: all(page.shown for page in pages), timeout=30)
        hub.kill()
        number, start = len(counting.sent), time.perf_counter()
        await asyncio.to_thread(hub.start)
        ready = time.perf_counter() - start
        memory = [psutil.Process(hub.pid).memory_info().rss]

        def are_back() -> bool:
            memory.append(psutil.Process(hub.pid).memory_info().rss)
            return all(page.shown > number + 20 for page in pages)

        await wait_until(are_back, timeout=60, interval=0.1)
        back = time.perf_counter() - start
        for task in tasks:
            task.cancel()
    more = (max(memory) - memory[0]) / 1e6
    print(
        f"{page_count} pages after a restart: hub ready after {ready:.1f} s, all pages after {back:.1f} s,"
    )
    print(f"ratio {back / ready:.1f}; {more:.0f} MB more")


async def run(sessions: int, pages: int) -> None:
    for measure, count in ((measure_stuck_clients, sessions), (measure_restart, pages)):
        with (
            tempfile.TemporaryDirectory() as folder,
            running_broker(Path(folder) / "broker") as broker,
        ):
            async with open_redis(broker.url) as redis:
                await measure(redis, broker.url, count, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sessions", type=int, default=7_600)
    parser.add_argument("--pages", type=int, default=200)
    words = parser.parse_args()
    asyncio.run(run(words.sessions, words.pages))


if __name__ == "__main__":
    main()
