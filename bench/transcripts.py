"""What following transcripts costs: an idle collector beside many, and from a line to Redis.

    python -m bench.transcripts [--files 2000] [--seconds 20] [--lines 400]

Idle is CPU time and voluntary context switches of a collector, without a session and with one at
rest. A line is timed from before its write until a reader of the stream has it; `with a hook`, one
of the same session is posted first, as the real ones are, and the line comes behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import redis

from adsum_shared.envelope import decode_batch
from bench.first_card import enter, history, transcript
from bench.stage import COLLECTOR, running
from tests.brokers import running_broker

SESSION = "5366e4d5-cdda-4e20-a380-36e5f33b4fa1"
PAUSE_S = 0.03


class Stream(threading.Thread):
    """Reads the stream of the only host. at: the text of a prompt -> when it was there."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._client = redis.Redis.from_url(url)
        self.at: dict[str, float] = {}

    def run(self) -> None:
        with contextlib.suppress(redis.ConnectionError):  # it ends with the broker
            self._read()

    def _read(self) -> None:
        while not (keys := list(self._client.scan_iter("adsum:*:in"))):
            time.sleep(0.01)
        last = b"$"
        while True:
            read: Any = self._client.xread({keys[0]: last}, block=1_000)
            for last, fields in read[0][1] if read else []:  # noqa: B007 - and on from there
                now = time.perf_counter()
                for signal in decode_batch(fields).signals:
                    self.at.setdefault(getattr(signal, "text", None) or "", now)


def until(check: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not check():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within 30 s")
        time.sleep(0.05)


def files_seen() -> int:
    with contextlib.suppress(OSError, KeyError, ValueError):
        connection = http.client.HTTPConnection("127.0.0.1", COLLECTOR, timeout=5)
        connection.request("GET", "/readyz")
        ready = json.loads(connection.getresponse().read())
        connection.close()
        return int(ready["transcripts"]["files"])
    return -1


def spent(process: psutil.Process) -> tuple[float, int]:
    """Seconds of CPU, to the nanosecond where the system tells, and how often it was woken."""
    tasks = list(Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
    if not tasks:
        return sum(process.cpu_times()[:2]), process.num_ctx_switches().voluntary
    words = [task.read_text().split() for task in tasks]
    switches = [task.with_name("status").read_text().split() for task in tasks]
    woken = sum(int(each[each.index("voluntary_ctxt_switches:") + 1]) for each in switches)
    return sum(int(each[0]) for each in words) / 1e9, woken


def idle(what: str, process: psutil.Process, seconds: float) -> None:
    before = spent(process)
    time.sleep(seconds)
    after = spent(process)
    share, woken = (after[0] - before[0]) / seconds * 100, (after[1] - before[1]) / seconds
    print(f"{what:24} {share:6.2f} % of a core   {woken:5.1f} switches a second")


def hook(connection: http.client.HTTPConnection, token: str, path: Path) -> None:
    body = {"session_id": SESSION, "transcript_path": str(path), "cwd": "/home/dev/live"}
    body |= {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "t1"}
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request("POST", "/api/live/hook", json.dumps(body), headers)
    connection.getresponse().read()


def lines(stream: Stream, path: Path, count: int, before: Callable[[], None]) -> list[float]:
    """Milliseconds of each line."""
    written: dict[str, float] = {}
    name = str(random.random())
    with path.open("a") as file:
        for number in range(count):
            before()
            text = f"{name}-{number}"
            line = {"type": "user", "sessionId": SESSION, "message": {"content": text}}
            written[text] = time.perf_counter()
            file.write(json.dumps(line) + "\n")
            file.flush()
            time.sleep(PAUSE_S * random.uniform(0.5, 1.5))
    until(lambda: written.keys() <= stream.at.keys(), "all lines in Redis")
    return [(stream.at[text] - at) * 1e3 for text, at in written.items()]


@contextlib.contextmanager
def collecting(root: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    settings = {"STATE_DIR": root / "state", "REDIS_URL": url, "CLAUDE_DIRS": root / "claude"}
    settings |= {"COLLECTOR_PORT": COLLECTOR, "LOG_LEVEL": "warning"}
    env = {f"ADSUM_{name}": str(value) for name, value in settings.items()}
    with running(sys.executable, "-m", "adsum", "collector", **env) as process:
        yield process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--lines", type=int, default=400)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(Path(directory) / "broker") as broker,
        subprocess.Popen(["sleep", "600"]) as agent,
        contextlib.ExitStack() as last,
    ):
        last.callback(agent.kill)
        root = Path(directory)
        history(root / "claude", options.files)
        with collecting(root, broker.url) as process:
            until(lambda: files_seen() >= options.files, "the first walk")
            time.sleep(3)
            measured = psutil.Process(process.pid)
            idle("no session", measured, options.seconds)
            enter(root / "claude", SESSION, agent.pid)
            transcript(root / "claude", SESSION)
            time.sleep(5)
            idle("a session at rest", measured, options.seconds)
            stream = Stream(broker.url)
            stream.start()
            time.sleep(1)
            path = root / "claude" / "projects" / "-home-dev-live" / f"{SESSION}.jsonl"
            token = (root / "state" / "token").read_text().strip()
            door = http.client.HTTPConnection("127.0.0.1", COLLECTOR)
            for what, before in (
                ("line, without a hook", lambda: None),
                ("line, with a hook", lambda: hook(door, token, path)),
            ):
                took = sorted(lines(stream, path, options.lines, before))
                p99 = took[int(len(took) * 0.99)]
                print(f"{what:24} p50 {statistics.median(took):.1f} ms   p99 {p99:.1f} ms")


if __name__ == "__main__":
    main()
