"""Every agent keeps the contract, and the kit finds those that do not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents.base import Transcripts
from adsum_collector.agents.claude_code.agent import ClaudeCode
from adsum_collector.agents.codex.agent import Codex
from adsum_collector.agents.gemini.agent import GeminiCli
from adsum_collector.agents.opencode.agent import OpenCode, SessionLog
from adsum_collector.agents.records import Lines
from adsum_shared.signals import Alive, AnySignal, TurnEnded
from bench.traces import Event, load
from tests.agent_kit import Reader, Recorded, check_order, check_silent, check_total
from tests.second_agent import Quill
from tests.unit.collector import test_codex as codex
from tests.unit.collector.test_opencode import TABLES

DATA = Path(__file__).parents[2] / "data"
#: What is heard of a file of each agent begins with that in a recording, and not below its directory.
BELOW = {"traces": "projects/", "traces_gemini": "tmp/"}


def heard(folder: str, name: str, kinds: Sequence[str]) -> dict[str, list[tuple[int, bytes]]]:
    trace = load(DATA / folder / name)
    said: dict[str, list[tuple[int, bytes]]] = {}
    for event in trace.events:
        if event.kind in kinds and not event.deleted:
            witness = event.file.removeprefix(BELOW[folder]) if event.kind == "line" else event.kind
            said.setdefault(witness, []).append((trace.t0 + event.t_ms, spoken(event)))
    return said


def spoken(event: Event) -> bytes:
    told = {"line": event.line, "registry": event.content}.get(event.kind, event.body)
    return json.dumps(told).encode()


def claude() -> Recorded:
    return Recorded(
        ClaudeCode, heard("traces", "i_agent", ("hook", "registry", "statusline", "line"))
    )


def of_codex() -> Recorded:
    lines = [
        *(codex.meta(), codex.context(), codex.begins()),
        codex.response(20, "function_call", call_id="c1", name="shell", arguments='{"cmd": "ls"}'),
        codex.response(900, "function_call_output", call_id="c1", output="Exit code: 0"),
        codex.event(950, "token_count", info={"last_token_usage": {"input_tokens": 7}}),
        codex.event(990, "task_complete", turn_id=codex.TURN, last_agent_message="done"),
    ]
    usual = {"session_id": codex.ROOT, "turn_id": codex.TURN, "cwd": "/src/boat"}
    hooks = [
        {"hook_event_name": "SessionStart", "source": "startup"},
        {"hook_event_name": "UserPromptSubmit", "prompt": "hello"},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    ]
    file = f"2026/11/23/rollout-2026-11-23T09-40-00-{codex.ROOT}.jsonl"
    bodies = [json.dumps(usual | each).encode() for each in hooks]
    said = {
        file: [(codex.START + 10 * number, line) for number, line in enumerate(lines)],
        "hook": [(codex.START + 15 * number, body) for number, body in enumerate(bodies)],
    }
    return Recorded(Codex, said)


def gemini() -> Recorded:
    return Recorded(GeminiCli, heard("traces_gemini", "fail", ("line",)))


def opencode() -> Recorded:
    trace = load(DATA / "traces_opencode" / "perm")
    rows = [(trace.t0 + each.t_ms, each.line) for each in trace.events if each.kind == "line"]

    def reader() -> Reader:
        log = SessionLog("s")

        def read(raw: bytes, seen: int) -> Sequence[AnySignal]:
            row = json.loads(raw)
            row = row if isinstance(row, dict) else {}
            return log.read(str(row.get("type")), json.dumps(row.get("data")).encode(), seen)

        return read

    def lay(directory: Path) -> None:
        with closing(sqlite3.connect(directory / "opencode.db")) as database, database:
            database.executescript(TABLES)
            for number, (_, row) in enumerate(rows):
                data = json.dumps(row["data"])
                event = (number, row["aggregate_id"], row["seq"], row["type"], data)
                database.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", event)
            database.execute("INSERT INTO event_sequence SELECT aggregate_id, max(seq) FROM event")

    said = {"own": [(at, json.dumps(row).encode()) for at, row in rows]}
    return Recorded(OpenCode, said, reader, lay)


def quill() -> Recorded:
    steps = [{"ms": 5, "title": "A letter"}, {"ms": 30, "said": "written", "ink": 3}]
    hooks = [{"thread": "t1", "what": what} for what in ("open", "begin", "may I", "rest")]
    said = {
        "day/t1.jsonl": [(step["ms"], json.dumps(step).encode()) for step in steps],
        "hook": [(10 * number, json.dumps(hook).encode()) for number, hook in enumerate(hooks, 1)],
    }
    return Recorded(Quill, said)


AGENTS = (claude, of_codex, gemini, opencode, quill)


@pytest.mark.parametrize("recorded", [pytest.param(claude, marks=pytest.mark.slow), *AGENTS[1:]])
def test_it_is_total(recorded: Callable[[], Recorded]) -> None:
    check_total(recorded())


@pytest.mark.parametrize("recorded", AGENTS)
def test_its_witnesses_may_overtake_each_other(recorded: Callable[[], Recorded]) -> None:
    check_order(recorded())


@pytest.mark.parametrize("recorded", AGENTS)
async def test_it_is_silent(recorded: Callable[[], Recorded], tmp_path: Path) -> None:
    await check_silent(recorded(), tmp_path)


class Broken(Quill):
    """Trips over a step without a time, as no reader of files may."""

    def hook(self, body: bytes, seen: int) -> Sequence[AnySignal]:
        return [Alive(session_id=json.loads(body)["thread"], at=seen, seen=seen)]


class Forgetful(Quill):
    """Means something else by each reading, whatever it is given."""

    @property
    def transcripts(self) -> Transcripts:
        def read(lines: Sequence[bytes], *_: Any) -> Lines:
            return Lines([TurnEnded(session_id="t1", at=len(lines), seen=9)], "")

        return super().transcripts._replace(read=read)


class Scribbling(Quill):
    """Leaves a note where it reads."""

    def look_at_hooks(self, path: Path, port: int) -> Any:
        path.with_suffix(".note").write_text(f"{port}")
        return super().look_at_hooks(path, port)


def test_an_adapter_that_raises_is_found() -> None:
    with pytest.raises(AssertionError, match="hook: TypeError"):
        check_total(quill()._replace(agent=Broken))


def test_an_adapter_that_rests_on_chunks_is_found() -> None:
    with pytest.raises(AssertionError, match="by its chunks"):
        check_order(quill()._replace(agent=Forgetful))


async def test_an_adapter_that_writes_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="changes what is its owner's"):
        await check_silent(quill()._replace(agent=Scribbling), tmp_path)
