"""How fast a backlog drains once Redis is back, until the hub shows all of it; beside a bare pipe.

    python -m bench.drain [--signals 50000] [--rounds 3]

A real collector takes hooks while Redis is away, each on disk before it is answered. Then Redis
comes back, and the clock runs until a real hub has applied every number. The bare pipe reads the
same bodies from SQLite, joins a hundred to an entry, and a second process reads them back: no
resume, no fold, no state, nobody told.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import redis

from bench.latency import Poster, hook
from bench.publisher import backlog
from tests.brokers import Broker, running_broker
from tests.hub_processes import AgentCollector, HubProcess

SENDERS = 8
ENTRY = 100
STREAM = "bare:in"


class Drain(NamedTuple):
    """first: seconds from Redis's return to the first number applied; rest: from there to the last."""

    signals: int
    first: float
    rest: float


async def take(collector: AgentCollector, hooks: int) -> None:
    numbers = iter(range(2, hooks + 2))

    async def send() -> None:
        poster = Poster(collector.port, "/api/live/hook", collector.token)
        await poster.open()
        for number in numbers:
            await poster.post(hook(number))

    await asyncio.gather(*(send() for _ in range(SENDERS)))


def stands(hub: HubProcess, host_id: str) -> dict[str, Any]:
    with contextlib.suppress(httpx.TransportError):
        return hub.host(host_id)
    return {}


def drain(root: Path, hooks: int) -> Drain:
    broker = Broker(root / "broker", unix=True).start()
    collector = AgentCollector(root / "collector", broker.url)
    hub = HubProcess(root / "hub", broker.url)
    try:
        collector.start()
        hub.start()
        broker.kill()
        asyncio.run(take(collector, hooks))
        last = int(collector.ready()["spool"]["last"])
        broker.start()
        began = first = time.perf_counter()
        applied = before = stands(hub, collector.host_id).get("applied", 0)
        while applied < last:
            if applied == before:
                first = time.perf_counter()
            time.sleep(0.01)
            applied = stands(hub, collector.host_id).get("applied", 0)
        done = time.perf_counter()
        counts = hub.get("/readyz")["counts"]
        assert counts["signals"] == last, counts
        return Drain(last - before, first - began, done - first)
    finally:
        collector.kill()
        hub.kill()
        broker.kill()


def make_table(file: Path, signals: int) -> None:
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE signals (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        db.executemany("INSERT INTO signals VALUES (?, ?)", enumerate(backlog(signals), 1))
        db.commit()


def _write(file: str, url: str) -> None:
    client: Any = redis.Redis.from_url(url, protocol=2)
    db = sqlite3.connect(file)
    after = 0
    query = "SELECT seq, body FROM signals WHERE seq > ? ORDER BY seq LIMIT ?"
    while rows := db.execute(query, (after, ENTRY)).fetchall():
        after = rows[-1][0]
        client.xadd(STREAM, {b"b": b"[" + b",".join(body for _, body in rows) + b"]"})


def bare(root: Path, signals: int) -> float:
    """Seconds until the reader has all that the writer, a process of its own, has sent."""
    file = root / "bare.sqlite"
    make_table(file, signals)
    with running_broker(root / "bare", unix=True) as broker:
        client: Any = redis.Redis.from_url(broker.url, protocol=2)
        process = multiprocessing.get_context("spawn").Process(
            target=_write, args=(str(file), broker.url)
        )
        process.start()
        cursor, entries, began = "0-0", 0, 0.0
        while entries < -(-signals // ENTRY):
            for _, found in client.xread({STREAM: cursor}, count=50, block=20_000):
                began = began or time.perf_counter()
                entries += len(found)
                cursor = found[-1][0]
        took = time.perf_counter() - began
        process.join()
        return took


def rounds(options: argparse.Namespace) -> Iterator[tuple[Drain, float]]:
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="adsum-bench-") as name:
            found = drain(Path(name), options.signals)
            yield found, bare(Path(name), found.signals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = list(rounds(options))
    ours = statistics.median(drained.signals / drained.rest for drained, _ in found)
    limit = statistics.median(drained.signals / took for drained, took in found)
    first = statistics.median(drained.first for drained, _ in found)
    print(f"{found[0][0].signals} signals taken while Redis was away, {options.rounds} rounds")
    print(f"{'first applied after its return':36} {first:10.2f} s")
    print(f"{'drained, applied and shown':36} {ours:10,.0f} signals/s")
    print(f"{'bare read, XADD, XREAD':36} {limit:10,.0f} signals/s")
    print(f"{'ratio':36} {ours / limit:10.2f}")


if __name__ == "__main__":
    main()
