"""What a hook costs its sender: the real collector, on disk, beside an empty ASGI answer.

Both sides run in one process each, and take turns in one run: on a busy machine only their ratio
means something. `python -m bench.hook_post [rounds]`; prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn

TOKEN_FILE = "token"
PER_TURN = 50
#: Between two hooks of one sender. Agents pause for longer; without a pause the collector's work
#: for the last hook (its way to the broker) would be charged to the next.
PAUSE_S = 0.003
BODY = json.dumps(
    {
        "session_id": "0b5d0c38-93c1-4a1c-9d1e-0d6f6b1c2e3f",
        "transcript_path": "/home/dev/.claude/projects/x/0b5d0c38.jsonl",
        "cwd": "/home/dev/x",
        "prompt_id": "6c1f3a52-6b8e-4c6e-8f8e-2f6a4e1f9b11",
        "permission_mode": "default",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "pytest -q tests/unit", "description": "Run the unit tests"},
        "tool_response": {"stdout": "." * 2000, "stderr": "", "interrupted": False},
        "tool_use_id": "toolu_01AbCdEfGhIjKlMnOpQrStUv",
    }
).encode()


async def empty(scope: Any, receive: Any, send: Any) -> None:
    """What nobody can be faster than with this server: read the body, answer nothing."""
    del scope
    while (await receive()).get("more_body"):
        pass
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


def serve_empty(ready: Connection) -> None:
    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    ready.send(listener.getsockname()[1])
    config = uvicorn.Config(
        empty, http="httptools", lifespan="off", access_log=False, log_level="error", ws="none"
    )
    uvicorn.Server(config).run([listener])


def serve_collector(ready: Connection, state_dir: str, redis_url: str) -> None:
    import uvloop

    from adsum_collector.agents import known_agents
    from adsum_collector.app import run_collector
    from adsum_collector.settings import CollectorSettings
    from tests.brokers import free_port

    port = free_port()
    settings = CollectorSettings(
        state_dir=Path(state_dir),
        redis_url=redis_url,
        collector_port=port,
        **{known_agents()[0].setting: (Path(state_dir) / "claude",)},
    )
    ready.send(port)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_collector(settings))


class Sender(asyncio.Protocol):
    """One keep-alive connection, as the agent holds it; the answers have no body."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[bytes] | None = None
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._got.endswith(b"\r\n\r\n") and self.answered is not None:
            self.answered.set_result(self._got)
            self._got = b""

    async def send(self, request: bytes) -> float:
        """Seconds until the answer."""
        self.answered = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        self.transport.write(request)
        answer = await self.answered
        took = time.perf_counter() - started
        assert answer.startswith(b"HTTP/1.1 200"), answer
        return took


def request_to(port: int, token: str) -> bytes:
    return (
        f"POST /api/live/hook HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(BODY)}\r\nConnection: keep-alive\r\n\r\n"
    ).encode() + BODY


async def measure(ports: dict[str, int], token: str, rounds: int) -> dict[str, list[float]]:
    loop = asyncio.get_running_loop()
    senders = {}
    for name, port in ports.items():
        _, sender = await loop.create_connection(Sender, "127.0.0.1", port)
        senders[name] = (sender, request_to(port, token))
    took: dict[str, list[float]] = {name: [] for name in ports}
    for round_ in range(rounds + 2):
        for name, (sender, request) in senders.items():
            times = []
            for _ in range(PER_TURN):
                times.append(await sender.send(request))
                await asyncio.sleep(PAUSE_S)
            if round_ >= 2:
                took[name] += times
    return took


def start(target: Callable[..., None], *args: str) -> tuple[multiprocessing.Process, int]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(theirs, *args))
    process.start()
    port = ours.recv()
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            import socket

            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return process, port
    raise RuntimeError("the server did not come up")


def fsync_floor(directory: Path, count: int = 300) -> list[float]:
    took = []
    descriptor = os.open(directory / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for _ in range(count):
        started = time.perf_counter()
        os.write(descriptor, b"x" * 4096)
        os.fdatasync(descriptor)
        took.append(time.perf_counter() - started)
        time.sleep(PAUSE_S)
    os.close(descriptor)
    return took


def told(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "p50_us": round(statistics.median(ordered) * 1e6),
        "p99_us": round(ordered[int(len(ordered) * 0.99)] * 1e6),
        "min_us": round(ordered[0] * 1e6),
    }


def main(rounds: int) -> dict[str, Any]:
    from tests.brokers import running_broker

    with tempfile.TemporaryDirectory(prefix="adsum-bench-") as name:
        directory = Path(name)
        with running_broker(directory / "broker", unix=True) as broker:
            state_dir = directory / "state"
            collector, port = start(serve_collector, str(state_dir), broker.url)
            bare, bare_port = start(serve_empty)
            try:
                token = (state_dir / TOKEN_FILE).read_text().strip()
                took = asyncio.run(
                    measure({"empty_asgi": bare_port, "collector": port}, token, rounds)
                )
            finally:
                for process in (collector, bare):
                    process.terminate()
                    process.join()
            found = {name: told(times) for name, times in took.items()}
            found["fdatasync"] = told(fsync_floor(directory))
            ratios = {
                f"ratio_{key.removesuffix('_us')}": round(
                    found["collector"][key] / found["empty_asgi"][key], 2
                )
                for key in ("p50_us", "p99_us", "min_us")
            }
            return {**found, **ratios, "posts": len(took["collector"])}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40), indent=1))
