"""From a collector's start to its first card, however much history lies beside it.

    python -m bench.first_card [--files 0,300,5000] [--rounds 7]

Timed from the end of the imports: until the registry's signals of a living session, and those of
its transcript, are in the spool, and until the latter are in Redis. Beside it, in turn, a bare walk
that stats every file of the same tree in a Python that has nothing else to do. Files of history are
sparse: a walk reads none. A first start makes the state directory, and waits for the disk some
twenty times; `again` is any later start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
import uvloop

from adsum_collector.agents import known_agents
from adsum_collector.app import run_collector
from adsum_collector.intake import Intake
from adsum_collector.settings import CollectorSettings
from adsum_shared.envelope import decode_batch
from adsum_shared.signals import AnySignal
from tests.brokers import running_broker

PROJECTS = 40
OLD_BYTES = 300_000
LIVE_LINES = 600
DAY_S = 24 * 3600
COLUMNS = ("registry in spool", "transcript in spool", "transcript in Redis", "bare walk")


def history(root: Path, files: int) -> None:
    """Main files of sessions that are over."""
    now = time.time()
    for number in range(files):
        path = root / "projects" / f"-home-dev-p{number % PROJECTS}" / f"old-{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, OLD_BYTES)
        at = now - DAY_S * (2 + number % 28)
        os.utime(path, (at, at))


def transcript(root: Path, session: str) -> None:
    """Of a living session, 400 KB."""
    now = time.time()
    path = root / "projects" / "-home-dev-live" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    usage = {"input_tokens": 3, "cache_read_input_tokens": 9_000, "output_tokens": 40}
    message = {"model": "claude-opus-5-5", "content": [{"type": "text", "text": "x" * 300}]}
    line = {
        "type": "assistant",
        "sessionId": session,
        "cwd": "/home/dev/live",
        "version": "2.1.330",
    }
    with path.open("w") as file:
        for number in range(LIVE_LINES):
            told = message | {"usage": usage | {"input_tokens": number}}
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(now - LIVE_LINES + number))
            file.write(json.dumps(line | {"timestamp": stamp, "message": told}) + "\n")


def enter(root: Path, session: str, pid: int) -> None:
    """Into the registry."""
    now = time.time_ns() // 1_000_000
    entry = {"pid": pid, "sessionId": session, "cwd": "/home/dev/live", "startedAt": now}
    entry |= {"status": "busy", "statusUpdatedAt": now, "version": "2.1.330"}
    (root / "sessions").mkdir(parents=True, exist_ok=True)
    for old in (root / "sessions").iterdir():
        old.unlink()
    (root / "sessions" / f"{pid}.json").write_text(json.dumps(entry))


def walk(root: Path) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    for directory, _, names in os.walk(root / "projects"):
        for name in names:
            os.stat(f"{directory}/{name}")  # noqa: PTH116
    return (time.perf_counter() - began) * 1e3


def child(state: str, claude: str, url: str) -> None:
    """A collector that says when signals of each witness were first in its spool."""
    began, told = time.monotonic(), set[str]()
    accept = Intake.accept

    async def timed(self: Intake, signals: Sequence[AnySignal], *args: Any, **more: Any) -> int:
        number = await accept(self, signals, *args, **more)
        for source in {signal.source for signal in signals} - told:
            told.add(source)
            print(source, (time.monotonic() - began) * 1e3, flush=True)
        return number

    Intake.accept = timed  # type: ignore[method-assign]
    print("began", began, flush=True)
    settings = CollectorSettings(
        state_dir=Path(state),
        redis_url=url,
        collector_port=0,
        **{known_agents()[0].setting: (Path(claude),)},
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_collector(settings))


def in_redis(client: redis.Redis, session: str) -> float:
    """When the first signal of its transcript was there, by the monotonic clock."""
    wanted = ("transcript", session)
    while not (keys := list(client.scan_iter("adsum:*:in"))):
        time.sleep(0.001)
    last = b"0"
    while True:
        read: Any = client.xread({keys[0]: last}, block=20_000)
        for last, fields in read[0][1]:  # noqa: B007 - and from there on, the next time
            if wanted in [
                (getattr(s, "source", ""), s.session_id) for s in decode_batch(fields).signals
            ]:
                return time.monotonic()


def once(root: Path, state: Path, url: str) -> tuple[float, ...]:
    claude, session = root / "claude", str(uuid.uuid4())
    with subprocess.Popen(["sleep", "100"]) as agent:
        enter(claude, session, agent.pid)
        transcript(claude, session)
        os.sync()  # what was just written is not to be waited for by another
        words = (str(state), str(claude), url)
        command = [sys.executable, "-m", "bench.first_card", "--child", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            began = float(process.stdout.readline().split()[1])
            there = (in_redis(redis.Redis.from_url(url), session) - began) * 1e3
            process.terminate()
            said = dict(line.split() for line in process.stdout)
        agent.kill()
    bare = walk(claude)
    return float(said["registry"]), float(said["transcript"]), there, bare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", default="0,300,5000")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    sizes = [int(each) for each in options.files.split(",")]
    took: dict[tuple[int, str], list[tuple[float, ...]]] = {}
    with tempfile.TemporaryDirectory() as directory:
        roots = {size: Path(directory) / str(size) for size in sizes}
        for size, root in roots.items():
            history(root / "claude", size)
        with running_broker(Path(directory) / "broker") as broker:
            for _ in range(options.rounds):
                for size, root in roots.items():
                    redis.Redis.from_url(broker.url).flushall()
                    state = Path(tempfile.mkdtemp(dir=directory))
                    for start in ("first", "again"):
                        took.setdefault((size, start), []).append(once(root, state, broker.url))
    print(f"{'ms, median / worst':>18}" + "".join(f"{name:>22}" for name in COLUMNS))
    for (size, start), rows in took.items():
        cells = [
            f"{statistics.median(column):.0f} / {max(column):.0f}"
            for column in zip(*rows, strict=True)
        ]
        print(f"{size:>6} files, {start:5}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
