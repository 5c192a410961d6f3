"""A real collector with the real adapter: what others write does not end it, nor gets out of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio

from adsum_collector.agents.claude_code.hooks import EVENTS
from adsum_shared.signals import Alive, AnySignal, MetaChanged
from tests.collectors import CollectorProcess, batches
from tests.support import wait_until
from tests.transcripts import append

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]

SECRET = "ghp_AbCdEf0123456789AbCdEf0123456789AbCd"
TITLE = "Merger with the Zebra company"
REAL = "import tests.collectors as c; from adsum_collector.agents import known_agents; c.StandIn = lambda: known_agents()[0]; c.main()"


class Collector(CollectorProcess):
    def spawn(self, env: Mapping[str, str] | None = None, **options: Any) -> Collector:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", REAL],
                cwd=Path(__file__).parents[2],
                env={**self.env, **(env or {})},
                stdout=log,
                stderr=subprocess.STDOUT,
                **options,
            )
        return self

    @property
    def folder(self) -> Path:
        return Path(self.env["ADSUM_CLAUDE_DIRS"])

    @property
    def projects(self) -> Path:
        return self.folder / "projects"


class Rig:
    def __init__(self, collector: Collector, client: redis.asyncio.Redis) -> None:
        self.collector = collector
        self.client = client

    async def start(self) -> None:
        await asyncio.to_thread(self.collector.start)

    async def signals(self) -> list[AnySignal]:
        found = await batches(self.client, self.collector.host_id)
        return [signal for batch in found for signal in batch.signals]

    async def post(self, web: httpx.AsyncClient, body: str | bytes) -> int:
        url = f"{self.collector.url}/api/live/hook"
        return (await web.post(url, content=body, headers=self.collector.headers())).status_code

    async def require_life(self, web: httpx.AsyncClient) -> None:
        """Hooks, transcripts and the registry are heard still, and nothing was logged."""
        path = self.collector.projects / "p" / "good.jsonl"
        hook = {"session_id": "good", "hook_event_name": "Stop", "transcript_path": str(path)}
        assert await self.post(web, json.dumps(hook)) == 200
        append(path, line("user", "good", message={"content": "go on"}))
        entry = {"pid": os.getpid(), "sessionId": "registered", "status": "busy"}
        registry = self.collector.folder / "sessions" / f"{os.getpid()}.json"
        registry.parent.mkdir(parents=True, exist_ok=True)
        registry.write_text(json.dumps(entry))

        async def heard() -> bool:
            found = {(signal.session_id, getattr(signal, "source", "")) for signal in await told()}
            wanted = {("good", "hook"), ("good", "transcript"), ("registered", "registry")}
            return wanted <= found

        told = self.signals
        await wait_until(heard, timeout=10)
        assert self.collector.process is not None
        assert self.collector.process.poll() is None
        assert "Traceback" not in self.collector.log.read_text()


def line(kind: str, session: str, **fields: Any) -> bytes:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return (
        json.dumps({"type": kind, "sessionId": session, "timestamp": at, **fields}).encode() + b"\n"
    )


@pytest.fixture
async def rig(tmp_path: Path, redis_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    settings: dict[str, str] = getattr(request, "param", {})
    client = redis.asyncio.Redis.from_url(redis_url)
    rig = Rig(Collector(tmp_path / "state", redis_url, **settings), client)
    yield rig
    rig.collector.kill()
    await client.aclose()


#: Values as JSON has them that no agent would ever send.
NASTY = [
    '"a\\u0000b.jsonl"',
    '"\\ud800.jsonl"',
    '"\\udc80.jsonl"',
    '"' + "x" * 5_000 + '.jsonl"',
    '"' + "y/" * 3_000 + '.jsonl"',
    "9" * 25,
    "9" * 400,
    "9" * 5_000,
    "-1e308",
    "[" * 900 + "]" * 900,
    '{"a":' * 700 + "1" + "}" * 700,
    '{"questions":[7],"answers":[],"task":{"id":1e300},"agentId":{},"timeout":1e308}',
    '["<task-notification>",{"id":' + "9" * 30 + "}]",
    '"' + "<task-notification><task-id>a</task-id>" * 2_000 + '"',
]
FIELDS = [
    "agent_id",
    "agent_type",
    "background_tasks",
    "cwd",
    "error",
    "is_interrupt",
    "last_assistant_message",
    "message",
    "mcp_server_name",
    "model",
    "permission_mode",
    "permission_suggestions",
    "prompt",
    "prompt_id",
    "session_crons",
    "session_title",
    "source",
    "task_id",
    "task_subject",
    "to_model",
    "tool_calls",
    "tool_input",
    "tool_name",
    "tool_response",
    "tool_use_id",
    "transcript_path",
    "trigger",
]


async def test_no_hook_ends_the_collector(rig: Rig) -> None:
    await rig.start()
    answers: set[int] = set()
    async with httpx.AsyncClient() as web:
        for event in EVENTS:
            head = f'"session_id":"bad","hook_event_name":"{event}"'
            for value in NASTY:
                fields = "".join(f',"{name}":{value}' for name in FIELDS)
                answers.add(await rig.post(web, f"{{{head}{fields}}}"))
                usual = f',"tool_name":"Bash","tool_input":{{"command":{value},"x":{value}}}'
                answers.add(await rig.post(web, f"{{{head}{usual}}}"))
        for value in NASTY:
            if value.startswith('"'):
                path = f'"{rig.collector.projects}/p/{value[1:]}'
                body = f'{{"session_id":"bad","hook_event_name":"Stop","transcript_path":{path}}}'
                answers.add(await rig.post(web, body))
            answers.add(await rig.post(web, f'{{"session_id":{value},"hook_event_name":"Stop"}}'))
        for name in ("a\0b/s1.jsonl", "x" * 5_000 + "/s1.jsonl", "\x7f/s1.jsonl", "p/s1/.jsonl"):
            path = f"{rig.collector.projects}/{name}"
            body = {"session_id": "s1", "hook_event_name": "Stop", "transcript_path": path}
            answers.add(await rig.post(web, json.dumps(body)))

        await rig.require_life(web)
    assert answers <= {200, 400}
    assert await asyncio.to_thread(rig.collector.ready)


async def test_no_status_line_ends_the_collector(rig: Rig) -> None:
    await rig.start()
    for value in NASTY:
        at = time.time_ns() // 1_000_000
        body = f'{{"session_id":"bad","transcript_path":{value},"cwd":{value},"version":{value}}}'
        _, writer = await asyncio.open_unix_connection(rig.collector.state_dir / "collector.sock")
        writer.write(f'{{"v":1,"kind":"statusline","at":{at},"body":{body}}}\n'.encode())
        writer.write(f'{{"v":1,"id":"m","at":{"9" * 30},"pid":{value},"body":{body}}}\n'.encode())
        writer.close()

    async with httpx.AsyncClient() as web:
        await rig.require_life(web)


async def test_no_registry_file_and_no_transcript_ends_the_collector(rig: Rig) -> None:
    sessions = rig.collector.folder / "sessions"
    sessions.mkdir(parents=True)
    good = b'{"sessionId":"bad","status":"busy"}'
    for name in ("²", "٣", "9" * 100, "0", "1", "9" * 10):
        (sessions / f"{name}.json").write_bytes(good)
    os.mkfifo(sessions / "12.json")
    for number, value in enumerate(NASTY, 100):
        fields = ",".join(f'"{name}":{value}' for name in ("pid", "startedAt", "statusUpdatedAt"))
        (sessions / f"{number}.json").write_text(f'{{"sessionId":"bad","cwd":{value},{fields}}}')
    folder = rig.collector.projects / "p"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.jsonl")
    await rig.start()
    nameless = b'{"type":"progress"}\n'
    append(Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl")), nameless)
    append(Path(os.fsdecode(os.fsencode(folder) + b"/\xff/subagents/agent-a.jsonl")), nameless)
    append(folder / ".jsonl", nameless)
    kinds = ("user", "assistant", "system", "attachment", "queue-operation", "custom-title")
    names = "subtype retryAttempt maxRetries retryInMs cwd timestamp promptId uuid toolUseResult"
    for kind in kinds:
        for value in NASTY:
            more = "".join(f',"{name}":{value}' for name in names.split())
            use = f'{{"type":"tool_use","id":"t","name":"ExitPlanMode","input":{{"plan":{value}}}}}'
            result = f'{{"type":"tool_result","tool_use_id":"t","content":{value}}}'
            content = f',"message":{{"content":[{use},{result}],"model":{value}}}'
            raw = f'{{"type":"{kind}","sessionId":"bad"{more}{content}}}\n'
            retry = f'{{"type":"system","subtype":"api_error","retryAttempt":{value}}}\n'
            append(folder / "bad.jsonl", raw.encode(), retry.encode())

    async with httpx.AsyncClient() as web:
        await rig.require_life(web)


@pytest.mark.core
@pytest.mark.parametrize(
    ("rig", "forbidden"),
    [
        ({"privacy": "metadata"}, [SECRET, "Zebra", "deploy the"]),
        ({"privacy": "redacted"}, [SECRET]),
    ],
    indirect=["rig"],
    ids=["metadata", "redacted"],
)
async def test_what_a_level_forbids_is_neither_on_disk_nor_in_redis(
    rig: Rig, forbidden: list[str]
) -> None:
    await rig.start()
    path = rig.collector.projects / "p" / "s1.jsonl"
    command = f"deploy the --token {SECRET}"
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": command}}
    append(
        path,
        line("custom-title", "s1", customTitle=f"{TITLE} {SECRET}"),
        line("user", "s1", message={"content": f"Zebra {SECRET}"}, cwd=f"/x/{SECRET}"),
        line("assistant", "s1", message={"content": [use]}),
        line("progress", "s1"),
    )

    async def are_told() -> bool:
        return any(isinstance(signal, Alive) for signal in await rig.signals())

    await wait_until(are_told)
    kept = b"".join(f.read_bytes() for f in (rig.collector.state_dir / "spool").iterdir())
    sent = repr([await rig.client.dump(key) for key in await rig.client.keys("*")])
    sent += repr(await rig.signals())

    assert b"tail:" in kept, "the cursor, with what is known of the open call"
    for word in forbidden:
        assert word.encode() not in kept, word
        assert word not in sent, word
    told = [signal.title for signal in await rig.signals() if isinstance(signal, MetaChanged)]
    assert any(title and TITLE in title for title in told) == ("Zebra" not in forbidden)
