"""A thousand pages at once: what a thousand changes a second cost the hub, beside a bare server.

    python -m bench.clients [--clients 1000] [--rate 1000] [--sessions 3000] [--seconds 10] [--rounds 3] [--plain]

A real hub on a real Redis; its clients are sockets that only drain, a few hundred to a process.
In turn with it a bare asyncio server, which holds nothing, folds nothing and resumes nobody, writes
the very frames the hub has just sent to the same number of clients, at the same moments.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
import uvloop

from adsum_shared.connect import open_redis
from adsum_shared.signals import PromptSubmitted, ToolFinished, ToolStarted
from bench.drains import Drain, drained, frame, text
from tests.brokers import free_port, running_broker
from tests.hub_processes import HubProcess
from tests.rosters import beat, publish, session_id, store

HOSTS = 50


class Side(NamedTuple):
    """cores: CPU seconds of the server per second. The rest is of one client, a second."""

    cores: float
    messages: float
    deltas: float
    megabytes: float


def publisher(url: str, ids: list[str], sessions: int, rate: int, going: Event) -> None:
    """Working sessions: a call begins, a call ends, each in turn. One signal an entry, as it is
    where every host has one now and then."""

    async def run() -> None:
        async with open_redis(url) as redis:
            numbers, calls, turn = dict.fromkeys(ids, 1), 0, 0
            for each in range(sessions):
                await say(redis, numbers, each, PromptSubmitted(**common(each), prompt_id="p"))
            at, owed, beaten = time.monotonic(), 0.0, 0.0
            while True:
                now, before = time.monotonic(), at
                at = now
                if now - beaten > 2:
                    beaten = now
                    await beat(redis, ids, int(time.time() * 1000))
                owed = owed + (now - before) * rate if going.is_set() else 0.0
                while owed >= 1:
                    owed -= 1
                    each, turn = calls % sessions, calls // sessions
                    calls += 1
                    call = {"tool": "Bash", "tool_use_id": f"t{turn // 2}", "prompt_id": "p"}
                    kind = ToolFinished if turn % 2 else ToolStarted
                    more = {} if turn % 2 else {"summary": f"pytest -x tests/unit -k n{calls}"}
                    await say(redis, numbers, each, kind(**common(each), **call, **more))
                await asyncio.sleep(0.005)

    def common(each: int) -> dict:
        now = int(time.time() * 1000)
        return {"session_id": session_id(each), "at": now, "seen": now}

    async def say(redis, numbers, each, signal) -> None:
        host = ids[each % len(ids)]
        numbers[host] += 1
        await publish(redis, host, numbers[host], [signal], int(time.time() * 1000))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def bare(port: int, messages: list[tuple[float, bytes]], pipe: Connection) -> None:
    """Writes the frames to all who are there, at their moments, once it is told to begin."""
    transports: set[asyncio.Transport] = set()

    class Door(asyncio.Protocol):
        def connection_made(self, transport) -> None:
            self.transport = transport

        def connection_lost(self, _: Exception | None) -> None:
            transports.discard(self.transport)

        def data_received(self, data: bytes) -> None:
            if data.startswith(b"GET"):
                self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
                transports.add(self.transport)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(Door, "127.0.0.1", port, backlog=2048)
        pipe.send("up")
        await loop.run_in_executor(None, pipe.recv)
        began = loop.time()
        for at, first, body in messages:
            await asyncio.sleep(max(0.0, began + at - loop.time()))
            told = frame(first, body)
            for transport in transports:
                transport.write(told)
        await asyncio.sleep(60)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def measured(pid: int, pipes: list[Connection], seconds: float) -> tuple[Side, list]:
    server = psutil.Process(pid)
    for pipe in pipes:
        pipe.send("begin")
    cpu, began = sum(server.cpu_times()[:2]), time.monotonic()
    time.sleep(seconds)
    cpu, took = sum(server.cpu_times()[:2]) - cpu, time.monotonic() - began
    counts, kept = [], []
    for pipe in pipes:
        pipe.send("tell")
    for pipe in pipes:
        found, kept = pipe.recv()
        counts += found
    deltas = sum(len(msgspec.json.decode(text(*each)).get("sessions", ())) for _, *each in kept)
    messages = statistics.mean(count for count, _ in counts) / took
    volume = statistics.mean(count for _, count in counts) / took / 1e6
    return Side(cpu / took, messages, deltas / took, volume), [
        (at - began, first, body) for at, first, body in kept
    ]


def of_hub(
    hub: HubProcess, going: Event, clients: int, seconds: float, *, plain: bool
) -> tuple[Side, list]:
    """Nobody says anything while they come: each takes up where the first was, with no list."""
    going.clear()
    time.sleep(2)
    probe = Drain(hub.port, b'{"epoch":null,"offset":null}', plain=True, keeps=True)
    while not probe.kept:
        probe.take(memoryview(probe.socket.recv(1 << 20)))
    told = msgspec.json.decode(probe.kept[0][2])
    probe.socket.close()
    resume = msgspec.json.encode({"epoch": told["epoch"], "offset": told["offset"]})
    with drained(hub.port, clients, resume, plain=plain) as pipes:
        going.set()
        time.sleep(2)
        return measured(hub.pid, pipes, seconds)


def of_bare(messages: list, clients: int, seconds: float) -> Side:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    port = free_port()
    server = context.Process(target=bare, args=(port, messages, theirs), daemon=True)
    server.start()
    try:
        ours.recv()
        with drained(port, clients, b"{}", plain=True) as pipes:
            time.sleep(1)
            ours.send("begin")
            return measured(server.pid or 0, pipes, seconds)[0]
    finally:
        server.kill()
        server.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="clients that inflate nothing")
    options = parser.parse_args()
    sides: dict[str, list[Side]] = {"adsum": [], "bare": []}
    context = multiprocessing.get_context("spawn")
    going = context.Event()
    going.set()
    with tempfile.TemporaryDirectory(prefix="adsum-bench-") as name:
        root = Path(name)
        with running_broker(root / "broker", "--appendonly", "no", unix=True) as broker:
            ids = asyncio.run(fill(broker.url, options.sessions))
            hub = HubProcess(root / "hub", broker.url, sign_in="off", log_level="warning")
            words = (broker.url, ids, options.sessions, options.rate, going)
            signals = context.Process(target=publisher, args=words, daemon=True)
            try:
                hub.start()
                alone = psutil.Process(hub.pid)
                signals.start()
                time.sleep(5 + options.sessions / 1000)
                cpu, began = sum(alone.cpu_times()[:2]), time.monotonic()
                time.sleep(options.seconds)
                cpu = (sum(alone.cpu_times()[:2]) - cpu) / (time.monotonic() - began)
                print(f"nobody looks: {cpu:.2f} cores")
                for _ in range(options.rounds):
                    side, kept = of_hub(
                        hub, going, options.clients, options.seconds, plain=options.plain
                    )
                    sides["adsum"].append(side)
                    going.clear()
                    sides["bare"].append(of_bare(kept, options.clients, options.seconds))
            finally:
                signals.kill()
                hub.kill()
    told(sides)


async def fill(url: str, sessions: int) -> list[str]:
    async with open_redis(url) as client:
        return await store(client, HOSTS, sessions, int(time.time() * 1000))


def told(sides: dict[str, list[Side]]) -> None:
    print(f"{'':8}{'cores':>8}{'messages/s':>12}{'deltas/s':>10}{'MB/s':>8}   of one client")
    for side, rows in sides.items():
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(f"{side:8}{medians[0]:8.2f}{medians[1]:12.1f}{medians[2]:10.0f}{medians[3]:8.2f}")
        print(f"{'':8}of {len(rows)} runs, cores:", *(f"{row.cores:.2f}" for row in rows))


if __name__ == "__main__":
    main()
