"""What a hub and its Redis cost as the number of machines grows.

    python -m bench.fleet [--hosts 10,100,1000] [--sessions 4] [--rate 0.5] [--seconds 20]

Each machine has a few sessions of 3 to 4 kB as a hub stores them, and a heartbeat every two seconds,
as collectors send it. First nothing happens, then every machine sends so many signals a second, one
to an entry. CPU is per cent of one core; waited is from a signal's entry in Redis to the message to
one client, for a change that is told (the list is told at most every 50 ms while busy).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
from websockets.asyncio.client import connect

from adsum_shared.connect import Redis, open_redis
from adsum_shared.signals import ToolFinished, ToolStarted
from tests.brokers import running_broker
from tests.hub_processes import NOTHING, HubProcess
from tests.rosters import beat, publish, session_id, store

BEAT_S = 2.0
SENT = re.compile(rb"sent (\d{16})")


class Cost:
    """CPU of two processes since it was begun, in per cent of a core."""

    def __init__(self, processes: Sequence[psutil.Process]) -> None:
        self.processes = processes
        self.began, self.before = time.perf_counter(), self._spent()

    def _spent(self) -> list[float]:
        return [sum(process.cpu_times()[:2]) for process in self.processes]

    def percent(self) -> list[float]:
        took = time.perf_counter() - self.began
        return [
            (now - then) / took * 100 for now, then in zip(self._spent(), self.before, strict=True)
        ]


async def heartbeats(redis: Redis, ids: list[str]) -> None:
    """In slices over the two seconds, as machines that know nothing of each other do."""
    step = max(1, len(ids) // 20)
    while True:
        began = time.monotonic()
        for at in range(0, len(ids), step):
            await beat(redis, ids[at : at + step], int(time.time() * 1000))
            await asyncio.sleep(BEAT_S * min(step, len(ids)) / len(ids) * 0.9)
        await asyncio.sleep(max(0.0, began + BEAT_S - time.monotonic()))


async def signals(redis: Redis, ids: list[str], rate: float) -> None:
    """Tool calls that begin and end, one machine after the other; each says when it was sent."""
    pause, turn = 1 / (rate * len(ids)), 0
    begun = time.monotonic()
    while True:
        number, host = turn // len(ids) + 2, ids[turn % len(ids)]
        now, name = int(time.time() * 1000), session_id(turn % len(ids))
        common: dict[str, Any] = {"session_id": name, "at": now, "seen": now, "tool": "Bash"}
        call = f"call-{number // 2}"
        signal = (
            ToolStarted(**common, tool_use_id=call, summary=f"sent {int(time.time() * 1e6)}")
            if number % 2 == 0
            else ToolFinished(**common, tool_use_id=call)
        )
        await publish(redis, host, number, [signal], now)
        turn += 1
        await asyncio.sleep(max(0.0, begun + turn * pause - time.monotonic()))


def client(url: str, waited: Any, begin: Any, end: Any) -> None:
    """One page, in a process of its own: how old each call's begin is when it hears of it."""
    asyncio.run(_listen(url, waited, begin, end))


async def _listen(url: str, waited: Any, begin: Any, end: Any) -> None:
    heard: dict[bytes, float] = {}
    async with connect(f"{url.replace('http', 'ws')}/ws", max_size=None) as socket:
        await socket.send(json.dumps(NOTHING))
        while not end.is_set():
            text = await socket.recv(decode=False)
            now = time.time()
            if begin.is_set():
                for step in SENT.findall(text):
                    heard.setdefault(step, now - int(step) / 1e6)
    waited.put([each * 1000 for each in heard.values()])


async def measure(root: Path, hosts: int, options: argparse.Namespace) -> None:
    context = multiprocessing.get_context("spawn")
    waited, begin, end = context.Queue(), context.Event(), context.Event()
    with running_broker(root / "broker", "--appendonly", "no", unix=True) as broker:
        async with open_redis(broker.url) as redis:
            ids = await store(redis, hosts, hosts * options.sessions, int(time.time() * 1000))
            hub = HubProcess(root / "hub", broker.url)
            tasks = [asyncio.create_task(heartbeats(redis, ids))]
            try:
                began = time.perf_counter()
                await asyncio.to_thread(start, hub)
                print(f"{hosts:6} restored in {time.perf_counter() - began:.1f} s", flush=True)
                page = context.Process(target=client, args=(hub.url, waited, begin, end))
                page.start()
                await asyncio.sleep(5)
                info: Any = await redis.info()
                both = [psutil.Process(hub.pid), psutil.Process(info["process_id"])]
                cost = Cost(both)
                await asyncio.sleep(options.seconds)
                tell(hosts, "at rest", cost.percent(), cost, [], info)
                tasks.append(asyncio.create_task(signals(redis, ids, options.rate)))
                await asyncio.sleep(3)
                begin.set()
                cost = Cost(both)
                await asyncio.sleep(options.seconds)
                spent = cost.percent()
                end.set()
                told = await asyncio.to_thread(waited.get, timeout=30)
                tell(hosts, f"{options.rate * hosts:g}/s", spent, cost, told, await redis.info())
            finally:
                for task in tasks:
                    task.cancel()
                for task in tasks:
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                hub.kill()


def start(hub: HubProcess) -> None:
    """However long it takes: with very many machines longer than any test waits."""
    hub.spawn()
    while not hub.is_ready():
        time.sleep(0.1)


def tell(
    hosts: int, what: str, spent: list[float], cost: Cost, waited: list[float], info: Any
) -> None:
    hub, redis = spent
    memory = cost.processes[0].memory_info().rss / 1e6
    line = f"{hosts:6} {what:>9} {hub:9.1f} {redis:9.1f} {memory:8.0f} {info['used_memory'] / 1e6:9.1f}"
    if waited:
        quantiles = statistics.quantiles(waited, n=100)
        line += f" {quantiles[49]:8.1f} {quantiles[98]:8.1f} {len(waited):7}"
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="10,100,1000")
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    print(
        f"{'hosts':>6} {'':>9} {'hub CPU%':>9} {'Redis CPU%':>9} {'hub MB':>8} {'Redis MB':>9} {'p50 ms':>8} {'p99 ms':>8} {'changes':>7}"
    )
    for hosts in map(int, options.hosts.split(",")):
        with tempfile.TemporaryDirectory(prefix="adsum-bench-") as name:
            asyncio.run(measure(Path(name), hosts, options))


if __name__ == "__main__":
    main()
