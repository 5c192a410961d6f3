"""What publishing a backlog costs: the collector's publisher beside pipelined single XADDs.

    python -m bench.publisher [--signals 200000] [--rounds 3]

All send the same signals, as recorded from the real CLI, to the same Redis in turn, each from a
process of its own. Ours reads them from a spool on disk. The bare clients have them in memory and
send one XADD for each, PIPELINED at a time: `asyncio` with the client and loop that a collector
uses, `blocking` with the quicker one that could serve nobody meanwhile. What counts is signals per
second of the client's CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import redis
import uvloop

from adsum_collector.delivery.publisher import Publisher
from adsum_collector.delivery.transports import RedisTransport
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared.connect import open_redis
from adsum_shared.envelope import Beat
from adsum_shared.signals import encode_signal
from bench.replay import arrivals
from bench.traces import load_all
from tests.brokers import running_broker

HOST = "00000000-aaaa-4000-8000-000000000001"
PIPELINED = 100
TRACES = Path(__file__).parent.parent / "tests" / "data"


class Cost(NamedTuple):
    cpu: float
    wall: float


def recorded() -> list[bytes]:
    """Every signal of the recorded scenarios, encoded."""
    traces = load_all(TRACES / "traces") + load_all(TRACES / "long_traces")
    return [encode_signal(arrival.signal) for trace in traces for arrival in arrivals(trace)]


def backlog(signals: int) -> Iterator[bytes]:
    return itertools.islice(itertools.cycle(recorded()), signals)


async def fill(directory: Path, signals: int) -> None:
    spool = await Spool.open(directory, SpoolLimits())
    bodies = backlog(signals)
    while chunk := list(itertools.islice(bodies, 1_000)):
        await spool.append(chunk)
    await spool.close()


async def _publish(directory: Path, url: str) -> Cost:
    spool = await Spool.open(directory, SpoolLimits())

    def beat(sent: int, stopping: bool) -> Beat:  # noqa: FBT001 - the publisher's callback
        now = int(time.time() * 1000)
        return Beat(
            HOST, "bench", now, "n", spool.spool_id, spool.last_seq, sent, stopping=stopping
        )

    publisher = Publisher(
        spool, RedisTransport(url), HOST, nonce=str(time.time()), beat=beat, now=time.time
    )
    cpu, wall = time.process_time(), time.perf_counter()
    publisher.drain()
    await publisher.run()
    cost = Cost(time.process_time() - cpu, time.perf_counter() - wall)
    assert publisher.sent == spool.last_seq, publisher.problem
    await spool.close()
    return cost


def ours(directory: Path, url: str, _: int) -> Cost:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_publish(directory, url))


def blocking(_: Path, url: str, signals: int) -> Cost:
    client: Any = redis.Redis.from_url(url, protocol=2)
    client.ping()
    bodies = list(backlog(signals))
    cpu, wall = time.process_time(), time.perf_counter()
    for start in range(0, signals, PIPELINED):
        pipeline = client.pipeline(transaction=False)
        for body in bodies[start : start + PIPELINED]:
            pipeline.xadd("bare:in", {b"b": body})
        pipeline.execute()
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


async def _pipeline(url: str, signals: int) -> Cost:
    client: Any = open_redis(url)
    await client.ping()
    bodies = list(backlog(signals))
    cpu, wall = time.process_time(), time.perf_counter()
    for start in range(0, signals, PIPELINED):
        pipeline = client.pipeline(transaction=False)
        for body in bodies[start : start + PIPELINED]:
            pipeline.xadd("bare:in", {b"b": body})
        await pipeline.execute()
    cost = Cost(time.process_time() - cpu, time.perf_counter() - wall)
    await client.aclose()
    return cost


def on_loop(_: Path, url: str, signals: int) -> Cost:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_pipeline(url, signals))


SIDES: dict[str, Callable[[Path, str, int], Cost]] = {
    "adsum": ours,
    "bare asyncio": on_loop,
    "bare blocking": blocking,
}


def measure(name: str, directory: Path, url: str, signals: int) -> Cost:
    """In a fresh process, on an empty Redis."""
    with redis.Redis.from_url(url) as client:
        client.flushall()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(SIDES[name], (directory, url, signals))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    costs: dict[str, list[Cost]] = {name: [] for name in SIDES}
    with tempfile.TemporaryDirectory(prefix="adsum-bench-") as name:
        directory = Path(name)
        asyncio.run(fill(directory / "spool", options.signals))
        with running_broker(directory / "broker", unix=True) as broker:
            for _ in range(options.rounds):
                for side, found in costs.items():
                    found.append(measure(side, directory / "spool", broker.url, options.signals))
    print(f"{options.signals} signals   {'per CPU second':>15} {'per second':>12}")
    rates = {
        side: [options.signals / statistics.median(cost[part] for cost in found) for part in (0, 1)]
        for side, found in costs.items()
    }
    for side, (per_cpu, per_wall) in rates.items():
        print(f"{side:16} {per_cpu:17,.0f} {per_wall:12,.0f}")
    for side in list(SIDES)[1:]:
        ratios = [mine / other for mine, other in zip(rates["adsum"], rates[side], strict=True)]
        print(f"ratio to {side.removeprefix('bare '):8} {ratios[0]:16.1f} {ratios[1]:12.1f}")


if __name__ == "__main__":
    main()
