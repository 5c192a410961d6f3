"""What our wrapper adds to a status line: the same command bare and wrapped, taking turns in one run.

`python -m bench.statusline [rounds]`; prints one JSON object, times in ms.
"""

from __future__ import annotations

import json
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import adsum_collector

#: What Claude Code 2.1.330 hands over is of this size.
BODY = json.dumps({"session_id": "0b5d0c38", "filling": "x" * 1200}).encode()
COMMAND = "cat > /dev/null; echo hello"


def main(rounds: int) -> None:
    wrapper = Path(adsum_collector.__path__[0]) / "agents/claude_code/statusline_wrapper.py"
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/collector.sock")
        listener.listen(64)
        threading.Thread(target=take, args=(listener,), daemon=True).start()
        words = [sys.executable, "-I", "-S", str(wrapper), f"{folder}/collector.sock", "--"]
        python = [*words[:3], "-c", "print('hello')"]
        commands = {
            "bare": COMMAND,
            "wrapped": f"exec {shlex.join([*words, COMMAND])}",
            "python alone": f"exec {shlex.join(python)}",
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(took(command))
    median = {name: statistics.median(each) for name, each in times.items()}
    fastest = {name: min(each) for name, each in times.items()}
    added = {
        "median": median["wrapped"] - median["bare"],
        "fastest": fastest["wrapped"] - fastest["bare"],
    }
    rows = {"median": median, "fastest": fastest, "added": added}
    print(json.dumps({k: {n: round(v, 1) for n, v in row.items()} for k, row in rows.items()}))


def took(command: str) -> float:
    began = time.perf_counter()
    done = subprocess.run(["/bin/sh", "-c", command], input=BODY, capture_output=True, check=True)
    assert done.stdout == b"hello\n"
    return (time.perf_counter() - began) * 1000


def take(listener: socket.socket) -> None:
    """A collector that reads and does nothing."""
    while True:
        connection, _ = listener.accept()
        with connection:
            while connection.recv(1 << 16):
                pass


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
