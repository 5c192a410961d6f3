"""How soon a restarted hub serves a large roster again, beside bare HGETALL and decoding.

    python -m bench.hub_restart [--sessions 100000] [--hosts 100,1] [--rounds 3]

The sessions lie in Redis as a hub has stored them, 3 to 4 kB each. From the start of its process:
when /readyz says 200, when REST gives the first thousand of all, how long the loop let /livez wait
at worst, and the memory at the end. The bare process reads the same hashes and decodes the same
facts, and serves nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import psutil
import redis

from adsum_hub.facts import Facts
from adsum_shared import streams
from adsum_shared.connect import open_redis
from tests.brokers import running_broker
from tests.hub_processes import HubProcess
from tests.rosters import beat, host_id, store


class Restart(NamedTuple):
    """Seconds but for memory, in MB. cpu: of the process, until it was ready."""

    cpu: float
    ready: float
    page: float
    stall: float
    memory: float


class Prober:
    """Asks /livez every 5 ms, from a thread of its own; keeps the longest wait for an answer."""

    def __init__(self, url: str) -> None:
        self.worst = 0.0
        self._url = url
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60, trust_env=False) as client:
            while not self._done.wait(0.005):
                began = time.perf_counter()
                with contextlib.suppress(httpx.TransportError):
                    client.get("/livez")
                    self.worst = max(self.worst, time.perf_counter() - began)

    def __enter__(self) -> Prober:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def restart(root: Path, url: str, sessions: int) -> Restart:
    hub = HubProcess(root / "hub", url)
    try:
        with Prober(hub.url) as prober:
            began = time.perf_counter()
            hub.spawn()
            while not hub.is_ready():
                time.sleep(0.01)
            ready = time.perf_counter() - began
            cpu = sum(psutil.Process(hub.pid).cpu_times()[:2])
            while _listed(hub) < sessions:
                time.sleep(0.01)
            page = time.perf_counter() - began
            time.sleep(2.0)  # what it puts off until after the first answer is a stall as well
        memory = psutil.Process(hub.pid).memory_info().rss / 1e6
        return Restart(cpu, ready, page, prober.worst, memory)
    finally:
        hub.kill()


def _listed(hub: HubProcess) -> int:
    found = httpx.get(f"{hub.url}/api/v1/sessions?limit=1000", timeout=60, trust_env=False).json()
    return min(int(found["total"]), 1000 * len(found["sessions"]))


def read_and_decode(url: str, hosts: int) -> Restart:
    client: Any = redis.Redis.from_url(url, protocol=2)
    decode = msgspec.json.Decoder(Facts).decode
    prefix = streams.SESSION.encode()
    kept = []
    began, cpu = time.perf_counter(), time.process_time()
    for number in range(hosts):
        fields = client.hgetall(streams.snapshot(host_id(number)))
        kept += [decode(value) for field, value in fields.items() if field.startswith(prefix)]
    took = time.perf_counter() - began
    return Restart(
        time.process_time() - cpu, took, took, took, psutil.Process().memory_info().rss / 1e6
    )


def bare(url: str, hosts: int) -> Restart:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(read_and_decode, (url, hosts))


async def fill(url: str, hosts: int, sessions: int) -> list[str]:
    async with open_redis(url) as client:
        return await store(client, hosts, sessions, int(time.time() * 1000))


@contextlib.contextmanager
def beating(url: str, ids: list[str]) -> Iterator[None]:
    """Their collectors live, in a thread of their own."""
    done = threading.Event()

    async def live() -> None:
        async with open_redis(url) as client:
            while not done.is_set():
                await beat(client, ids, int(time.time() * 1000))
                await asyncio.sleep(2)

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--hosts", default="100,1")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{options.sessions} sessions    {'CPU s':>9} {'ready s':>9} {'page s':>9} {'stall s':>9} {'RSS MB':>9}"
    )
    for hosts in map(int, options.hosts.split(",")):
        sides: dict[str, list[Restart]] = {"adsum": [], "bare": []}
        with tempfile.TemporaryDirectory(prefix="adsum-bench-") as name:
            root = Path(name)
            # no log of writes: only reading is measured, and 300 MB need not be on disk for that
            with running_broker(root / "broker", "--appendonly", "no", unix=True) as broker:
                ids = asyncio.run(fill(broker.url, hosts, options.sessions))
                with beating(broker.url, ids):
                    for _ in range(options.rounds):
                        sides["adsum"].append(restart(root, broker.url, options.sessions))
                        sides["bare"].append(bare(broker.url, hosts))
        told(hosts, sides)


def told(hosts: int, sides: dict[str, list[Restart]]) -> None:
    medians = {
        side: [statistics.median(values) for values in zip(*found, strict=True)]
        for side, found in sides.items()
    }
    medians["ratio"] = [
        ours / other for ours, other in zip(medians["adsum"], medians["bare"], strict=True)
    ]
    for side, row in medians.items():
        figures = " ".join(f"{value:9.2f}" for value in row)
        print(f"{hosts:4} hosts {side:7} {figures}")


if __name__ == "__main__":
    main()
