"""What Adsum costs while nothing happens, and how long its commands take to start.

    python -m bench.footprint [--seconds 30] [--runs 15]

Start-up is whole-process wall time, in turn with a bare Python of the same run. Idle is CPU time
and resident memory of collector and hub with one page connected and no agent.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
from websockets.asyncio.client import connect

import adsum_collector
from bench.stage import HUB, set_up

SHIM = Path(adsum_collector.__file__).parent / "shim.py"
HOOK = b'{"session_id":"bench","hook_event_name":"SessionStart","source":"startup","cwd":"/"}'


def start_up(runs: int, env: dict[str, str], socket: Path) -> None:
    """Each command in turn with the others, so that a slow moment hits them all."""
    python = sys.executable
    commands = {
        "python -I -S -c pass": [python, "-I", "-S", "-c", "pass"],
        "shim (SessionStart)": [python, "-I", "-S", str(SHIM), str(socket)],
        "adsum --version": [python, "-m", "adsum", "--version"],
        "adsum agents --json": [python, "-m", "adsum", "agents", "--json"],
    }
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, input=HOOK, env=env, capture_output=True, check=False)
            took[name].append(time.perf_counter() - begin)
    bare = statistics.median(took["python -I -S -c pass"])
    print(f"{'start-up':24} {'median ms':>10} {'max ms':>8} {'x bare python':>14}")
    for name, times in took.items():
        median = statistics.median(times)
        print(f"{name:24} {median * 1e3:10.1f} {max(times) * 1e3:8.1f} {median / bare:14.1f}")


async def idle(parts: dict[str, subprocess.Popen[bytes]], seconds: float) -> None:
    processes = {name: psutil.Process(part.pid) for name, part in parts.items()}
    async with connect(f"ws://127.0.0.1:{HUB}/ws") as socket:
        await socket.send('{"epoch":null,"offset":null}')
        await socket.recv()
        before = {name: sum(process.cpu_times()[:2]) for name, process in processes.items()}
        await asyncio.sleep(seconds)
        print(f"{'idle, one page':24} {'% of a core':>10} {'RSS MB':>8} {'own MB':>8}")
        for name, process in processes.items():
            spent = (sum(process.cpu_times()[:2]) - before[name]) / seconds * 100
            memory = process.memory_full_info()
            print(f"{name:24} {spent:10.2f} {memory.rss / 1e6:8.1f} {memory.uss / 1e6:8.1f}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        stage = await set_up(stack)
        start_up(options.runs, stage.env, stage.root / "state" / "collector.sock")
        await asyncio.sleep(2)
        await idle(stage.parts, options.seconds)


if __name__ == "__main__":
    asyncio.run(main())
