"""A rollout of Codex reaches REST, the command line and the page's list of agents; so do its hooks."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.collectors import CollectorProcess
from tests.hub_processes import HubProcess
from tests.integration.conftest import Run
from tests.support import wait_until

pytestmark = pytest.mark.redis

ROOT, TURN, CHILD, CHILDS_TURN = (
    f"01a207c6-0000-7000-8000-00000000000{number}" for number in range(1, 5)
)


class OwnCollector(CollectorProcess):
    module = "tests.second_agent"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "codex"


@pytest.fixture
async def collector(redis_url: str, tmp_path: Path, home: Path) -> AsyncIterator[OwnCollector]:
    day(home).mkdir(parents=True)
    collector = OwnCollector(tmp_path / "state", redis_url)
    collector.env["CODEX_HOME"] = str(home)
    collector.start()
    yield collector
    collector.stop()


@pytest.fixture
def hub(redis_url: str, tmp_path: Path) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path / "hub", redis_url, demo="on").start()
    yield hub
    hub.stop()


def day(home: Path) -> Path:
    return home / "sessions" / "2026" / "11" / "23"


def write(home: Path, thread: str, *lines: tuple[str, dict[str, Any]]) -> None:
    stamp = datetime.fromtimestamp(time.time(), UTC).isoformat()
    told = [{"timestamp": stamp, "type": kind, "payload": payload} for kind, payload in lines]
    path = day(home) / f"rollout-2026-11-23T09-40-00-{thread}.jsonl"
    with path.open("a") as file:
        file.write("".join(json.dumps(each) + "\n" for each in told))


def begins(turn: str) -> tuple[str, dict[str, Any]]:
    return "event_msg", {"type": "task_started", "turn_id": turn}


def sessions(hub: HubProcess) -> dict[str, dict[str, Any]]:
    return {each["session_id"]: each for each in hub.get("/api/v1/sessions")["sessions"]}


def named(hub: HubProcess) -> dict[str, dict[str, Any]]:
    (host,) = hub.get("/api/v1/hosts")["hosts"]
    return {each["name"]: each for each in host["agents"]}


async def test_a_rollout_is_a_session_and_a_subagents_is_none(
    collector: OwnCollector, hub: HubProcess, home: Path, run: Run
) -> None:
    about = {"cwd": "/src/boat", "cli_version": "0.169.0", "source": "cli", "session_id": ROOT}
    said = {"type": "UserMessage", "content": [{"type": "text", "text": "mend the boat"}]}
    item = {"type": "item_completed", "turn_id": TURN, "item": said}
    write(home, ROOT, ("session_meta", {"id": ROOT, **about}), begins(TURN), ("event_msg", item))
    spawned = {"subagent": {"thread_spawn": {"agent_path": "/lead/paint"}}}
    child = {**about, "id": CHILD, "thread_source": "subagent", "source": spawned}
    write(home, CHILD, ("session_meta", child), begins(TURN), begins(CHILDS_TURN))
    await wait_until(lambda: sessions(hub).get(ROOT, {}).get("title") == "mend the boat", 20)
    await wait_until(lambda: bool(sessions(hub)[ROOT].get("children")), 20)

    told = sessions(hub)
    assert {name: each["agent"] for name, each in told.items()} == {ROOT: "codex"}
    assert told[ROOT]["state"]["group"] == "autonomous"
    code, out, _ = run("agents", "--json", "--hub", hub.url)
    assert code == 0
    assert [each["agent"] for each in json.loads(out)["sessions"]] == ["codex"]
    assert "codex: mend the boat" in run("agents", "--hub", hub.url)[1]
    # By this the page calls it.
    assert {"name": "codex", "title": "Codex"}.items() <= named(hub)["codex"].items()

    hook = {"session_id": ROOT, "turn_id": TURN, "hook_event_name": "PermissionRequest"}
    asked = {"tool_name": "Bash", "tool_input": {"command": "rm paint"}}
    async with httpx.AsyncClient() as client:
        url = f"{collector.url}/api/live/hook/codex"
        answer = await client.post(url, json=hook | asked, headers=collector.headers())
    assert answer.status_code == 200
    state = "needs_permission"
    await wait_until(lambda: sessions(hub)[ROOT]["state"]["state"] == state, 20)
    ended = {"type": "task_complete", "turn_id": TURN, "last_agent_message": "Mended."}
    write(home, ROOT, ("event_msg", ended))
    await wait_until(lambda: sessions(hub)[ROOT].get("last_answer") == "Mended.", 20)


async def test_two_agents_on_two_machines_stand_in_one_list(
    collector: OwnCollector, hub: HubProcess, home: Path, redis_url: str, tmp_path: Path, run: Run
) -> None:
    item = {"type": "UserMessage", "content": [{"type": "text", "text": "mend the boat"}]}
    said = {"type": "item_completed", "turn_id": TURN, "item": item}
    write(home, ROOT, ("session_meta", {"id": ROOT, "session_id": ROOT, "cwd": "/src/boat"}))
    write(home, ROOT, begins(TURN), ("event_msg", said))
    other = OwnCollector(tmp_path / "other", redis_url, host_label="desk")
    other.env["CODEX_HOME"] = str(tmp_path / "none")
    other.start()
    hook = {"hook_event_name": "UserPromptSubmit", "session_id": "c1", "prompt": "paint it"}
    try:
        async with httpx.AsyncClient() as client:
            url = f"{other.url}/api/live/hook"
            assert (await client.post(url, json=hook, headers=other.headers())).status_code == 200
        await wait_until(lambda: len(sessions(hub)) == 2, 20)

        told = sessions(hub)
        assert {each["agent"] for each in told.values()} == {"claude_code", "codex"}
        assert told["c1"]["host"] == "desk"
        assert told[ROOT]["host_id"] == collector.host_id != told["c1"]["host_id"]
        whole, codex, claude, none = (
            "".join(run("agents", *words, "--hub", hub.url)[1:])
            for words in ((), ("--agent", "codex"), ("--agent", "Claude Code"), ("--agent", "codx"))
        )
        assert all(text in whole for text in ("codex: mend the boat", "paint it", "desk"))
        assert ("mend the boat" in codex, "paint it" in codex) == (True, False)
        assert ("mend the boat" in claude, "paint it" in claude) == (False, True)
        assert "There is no agent `codx`; there are: codex," in none
        async with httpx.AsyncClient() as client:
            counted = (await client.get(f"{hub.url}/metrics")).text
        for agent in ("codex", "claude_code"):
            assert f'adsum_sessions{{agent="{agent}",group="autonomous"}} 1.0' in counted
    finally:
        other.stop()
