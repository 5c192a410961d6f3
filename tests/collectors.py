"""A real collector process for tests, with a stand-in for the agent's adapter."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import redis.asyncio
import uvloop

from adsum_collector.agents.claude_code.agent import ClaudeCode
from adsum_collector.app import run_collector
from adsum_collector.errors import StartError
from adsum_collector.settings import CollectorSettings
from adsum_shared import streams
from adsum_shared.envelope import Batch, decode_batch
from adsum_shared.signals import Alive, AnySignal, MetaChanged, StatusReported
from tests import forked, transcripts
from tests.brokers import free_port


class _Hook(msgspec.Struct):
    session_id: str
    note: str | None = None
    hook_event_name: str | None = None
    transcript_path: str | None = None


class _Entry(msgspec.Struct, rename="camel"):
    pid: int
    session_id: str
    started_at: int = 0
    status: str | None = None
    status_updated_at: int = 0


def adapt_hook(body: bytes, seen: int) -> list[AnySignal]:
    """One `alive` a hook, its note the test's own; and where its transcript is, if it says so."""
    hook = msgspec.json.decode(body, type=_Hook)
    said: list[AnySignal] = [
        Alive(session_id=hook.session_id, at=seen, seen=seen, event="Test", note=hook.note)
    ]
    if hook.transcript_path is not None:
        where = hook.transcript_path
        said.append(MetaChanged(session_id=hook.session_id, at=seen, seen=seen, transcript=where))
    return said


def adapt_registry(raw: bytes, seen: int) -> list[AnySignal]:
    entry = msgspec.json.decode(raw, type=_Entry)
    return [
        StatusReported(
            session_id=entry.session_id,
            at=entry.status_updated_at or seen,
            seen=seen,
            source="registry",
            status=entry.status,
            pid=entry.pid,
            started=entry.started_at,
        )
    ]


class StandIn(ClaudeCode):
    """Its directories and settings; what its witnesses say is the test's own."""

    transcripts = transcripts.STAND_IN

    def hook(self, body: bytes, seen: int) -> list[AnySignal]:
        return adapt_hook(body, seen)

    def registry(self, content: bytes, seen: int, directory: Path | None = None) -> list[AnySignal]:
        return adapt_registry(content, seen)

    def statusline(self, content: bytes, seen: int) -> list[AnySignal]:
        return []


class CollectorProcess:
    """A collector in a process of its own, as a service manager would run it. module: its main."""

    module = "tests.collectors"

    def __init__(self, state_dir: Path, redis_url: str, **settings: str) -> None:
        self.state_dir = state_dir
        self.port = free_port()
        self.log = state_dir.with_name(f"{state_dir.name}.log")
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("ADSUM_", "CLAUDE"))},
            "ADSUM_STATE_DIR": str(state_dir),
            "ADSUM_REDIS_URL": redis_url,
            "ADSUM_COLLECTOR_PORT": str(self.port),
            "ADSUM_CLAUDE_DIRS": str(state_dir.with_name(f"{state_dir.name}-claude")),
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

    @property
    def token(self) -> str:
        return (self.state_dir / "token").read_text().strip()

    @property
    def host_id(self) -> str:
        return str(json.loads((self.state_dir / "host.json").read_bytes())["host_id"])

    def spawn(self, env: Mapping[str, str] | None = None, **options: Any) -> CollectorProcess:
        whole = {**self.env, **(env or {})}
        self.process = forked.start(self.module, env=whole, log=self.log, **options)
        return self

    def start(self, **options: Any) -> CollectorProcess:
        self.spawn(**options)
        deadline = time.monotonic() + 60
        while not self._is_live():
            if (
                self.process is None
                or self.process.poll() is not None
                or time.monotonic() > deadline
            ):
                raise AssertionError(self.log.read_text())
            time.sleep(0.02)
        return self

    def _is_live(self) -> bool:
        try:
            return httpx.get(f"{self.url}/livez", timeout=1).status_code == 200
        except httpx.TransportError:
            return False

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

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}", "content-type": "application/json"}

    async def post(self, client: httpx.AsyncClient, note: str, session_id: str = "s1") -> int:
        """The number the hook was given."""
        body = json.dumps({"session_id": session_id, "note": note})
        reply = await client.post(f"{self.url}/api/live/hook", content=body, headers=self.headers())
        assert reply.status_code == 200, reply.text
        assert reply.content == b""
        return int(reply.headers["x-adsum-seq"])

    def ready(self) -> dict[str, Any]:
        facts: dict[str, Any] = httpx.get(f"{self.url}/readyz").json()
        return facts


async def batches(client: redis.asyncio.Redis, host_id: str) -> list[Batch]:
    """Every batch in a host's stream, in order."""
    entries = await client.xrange(streams.inbox(host_id))
    return [decode_batch(fields) for _, fields in entries]


async def applied_notes(client: redis.asyncio.Redis, host_id: str) -> list[str]:
    """The notes of all signals as a hub would apply them: once each, by number."""
    applied: dict[str, int] = {}
    notes: list[str] = []
    for batch in await batches(client, host_id):
        seen = applied.get(batch.spool_id, 0)
        if batch.last <= seen:
            continue
        assert batch.first <= seen + 1, f"a hole before {batch.first} after {seen}"
        for seq, signal_ in enumerate(batch.signals, batch.first):
            if seq > seen and isinstance(signal_, Alive):
                notes.append(signal_.note or "")
        applied[batch.spool_id] = batch.last
    return notes


def main() -> None:
    logging.basicConfig(level="INFO", format="%(levelname)s %(name)s: %(message)s")

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_collector(CollectorSettings(), [StandIn()]))
    except StartError as error:
        print(error)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
