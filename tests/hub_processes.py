"""Real hub processes for tests, a collector that understands Claude Code, and a watcher of both."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests import forked
from tests.brokers import free_port
from tests.collectors import CollectorProcess
from tests.seals import SECRET

NOTHING = {"epoch": None, "offset": None}


def fetch(url: str, path: str) -> Any:
    """One GET, in whatever network namespace this thread is in."""
    return httpx.get(url + path, timeout=10, trust_env=False).json()


class HubProcess:
    """A hub in a process of its own; it keeps its port over restarts."""

    def __init__(self, state_dir: Path, redis_url: str, **settings: str) -> None:
        self.port = free_port()
        self.state_dir = state_dir
        self.log = state_dir.with_name(f"{state_dir.name}.log")
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("ADSUM_", "CLAUDE"))},
            "ADSUM_STATE_DIR": str(state_dir),
            "ADSUM_REDIS_URL": redis_url,
            "ADSUM_HUB_PORT": str(self.port),
            # Whoever tests signing in says so: sign_in="on". To decide without it takes demo="on".
            "ADSUM_SIGN_IN": "off",
            "ADSUM_HUB_SECRET": SECRET,
            **{f"ADSUM_{name.upper()}": value for name, value in settings.items()},
        }
        self.process: forked.ForkedProcess | subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def spawn(self, **options: Any) -> HubProcess:
        self.process = forked.start("adsum", "hub", env=self.env, log=self.log, **options)
        return self

    def start(self, **options: Any) -> HubProcess:
        """Returns once it is ready, and so reads from Redis."""
        self.spawn(**options)
        deadline = time.monotonic() + 60
        while not self.is_ready():
            if self.process is None or self.process.poll() is not None:
                raise AssertionError(self.log.read_text())
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        return self

    def is_ready(self) -> bool:
        try:
            return bool(fetch(self.url, "/readyz")["ready"])
        except (httpx.TransportError, ValueError):
            return False

    def get(self, path: str) -> Any:
        return fetch(self.url, path)

    def host(self, host_id: str) -> dict[str, Any]:
        """What it says of a host; empty if it does not know it."""
        hosts: list[dict[str, Any]] = self.get("/api/v1/hosts")["hosts"]
        return next((host for host in hosts if host["id"] == host_id), {})

    def applied(self, host_id: str) -> int:
        return int(self.host(host_id).get("applied", 0))

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(number)
        code = self.process.wait(timeout=15)
        self.process = None
        return code


class AgentCollector(CollectorProcess):
    """With the real adapter: `adsum collector`, as a user runs it."""

    def spawn(self, env: Any = None, **options: Any) -> AgentCollector:
        whole = {**self.env, **(env or {})}
        self.process = forked.start("adsum", "collector", env=whole, log=self.log, **options)
        return self

    async def hook(self, client: httpx.AsyncClient, body: dict[str, Any]) -> int:
        """The number of its last signal. Fails unless it was accepted with an empty body."""
        url, text = f"{self.url}/api/live/hook", json.dumps(body)
        reply = await client.post(url, content=text, headers=self.headers())
        assert (reply.status_code, reply.content) == (200, b""), reply.text
        return int(reply.headers["x-adsum-seq"])


def tool_starts(session: str, number: int) -> dict[str, Any]:
    """A hook whose number is seen in the session's state and in its activity."""
    return {
        "session_id": session,
        "hook_event_name": "PreToolUse",
        "prompt_id": "p1",
        "cwd": f"/home/dev/{session}",
        "transcript_path": f"/home/dev/.claude/projects/x/{session}.jsonl",
        "tool_name": "Bash",
        "tool_input": {"command": f"echo n{number}", "description": "count"},
        "tool_use_id": f"toolu_{session}_{number}",
    }


def number_in(text: str) -> int:
    """The number of the last hook of `tool_starts` that shows in a text; 0 if none does."""
    found = re.findall(r"echo n(\d+)", text)
    return int(found[-1]) if found else 0


def numbers_done(hub: HubProcess, host_id: str, session: str) -> list[int]:
    """All numbers in a session's activity, oldest first."""
    found = hub.get(f"/api/v1/sessions/{host_id}:{session}/activity")
    return [number_in(entry["text"]) for entry in found["entries"]]


class Watcher:
    """A client that keeps what it is told, connects again as a page does, and notes what went back.

    lost: sessions that vanished. went_back: (session, number before, number then).
    """

    def __init__(self, *urls: str) -> None:
        self.urls = urls
        self.sessions: dict[str, dict[str, Any]] = {}
        self.reached: dict[str, Any] = NOTHING
        self.lost: list[str] = []
        self.went_back: list[tuple[str, int, int]] = []
        self.snapshots = 0
        self.connections = 0
        self._shown: dict[str, int] = {}

    def apply(self, message: dict[str, Any]) -> None:
        self.reached = {"epoch": message["epoch"], "offset": message["offset"]}
        if message["type"] == "tick":
            return
        told = {view["id"]: view for view in message["sessions"]}
        if message["type"] == "snapshot":
            self.snapshots += 1
            self.lost += [key for key in self.sessions if key not in told]
            self.sessions = told
        else:
            self.lost += message["gone"]
            self.sessions |= told
        for key, view in told.items():
            number = number_in(view["state"]["label"])
            if 0 < number < self._shown.get(key, 0):
                self.went_back.append((key, self._shown[key], number))
            self._shown[key] = max(number, self._shown.get(key, 0))

    async def follow(self) -> None:
        """For ever, at whichever of the hubs lets it in; a page's pause between two attempts."""
        for turn in range(1_000_000):
            url = self.urls[turn % len(self.urls)].replace("http", "ws", 1) + "/ws"
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                async with connect(url, max_size=None, proxy=None, open_timeout=2) as socket:
                    await socket.send(json.dumps(self.reached))
                    self.connections += 1
                    async for text in socket:
                        self.apply(json.loads(text))
            await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Watcher]:
        task = asyncio.create_task(self.follow())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def numbers(self) -> dict[str, int]:
        return dict(self._shown)


@contextlib.contextmanager
def started(*processes: HubProcess | CollectorProcess) -> Iterator[None]:
    """All of them, and none is left behind whatever happens."""
    try:
        for each in processes:
            each.start()
        yield
    finally:
        for each in processes:
            each.kill()
