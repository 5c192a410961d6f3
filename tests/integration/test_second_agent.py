"""A second agent is one package and one line: it reaches REST, the live list and the command line."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from adsum.hooks import setups_for
from adsum.join.join import check_settings, put_hooks
from adsum.join.leave import Undo
from adsum.up import Offer
from adsum_collector import shim
from adsum_collector.agents import known_agents
from tests.collectors import CollectorProcess
from tests.hub_processes import NOTHING, HubProcess
from tests.integration.conftest import Run
from tests.second_agent import PROCESS, Quill
from tests.support import wait_until

pytestmark = pytest.mark.redis

THREAD = "t-0001"


class QuillCollector(CollectorProcess):
    module = "tests.second_agent"

    async def post(self, client: httpx.AsyncClient, path: str = "/quill", **hook: Any) -> int:
        url = f"{self.url}/api/live/hook{path}"
        return (await client.post(url, json=hook, headers=self.headers())).status_code


@pytest.fixture
def quill(tmp_path: Path) -> Path:
    directory = tmp_path / "quill"
    (directory / "logs" / "monday").mkdir(parents=True)
    return directory


@pytest.fixture
async def collector(redis_url: str, tmp_path: Path, quill: Path) -> AsyncIterator[QuillCollector]:
    collector = QuillCollector(tmp_path / "state", redis_url)
    collector.env["QUILL_HOME"] = str(quill)
    collector.start()
    yield collector
    collector.stop()


@pytest.fixture
def hub(redis_url: str, tmp_path: Path) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path / "hub", redis_url).start()
    yield hub
    hub.stop()


def sessions(hub: HubProcess) -> dict[str, dict[str, Any]]:
    return {each["session_id"]: each for each in hub.get("/api/v1/sessions")["sessions"]}


async def test_its_hooks_and_lines_reach_every_list_under_its_name(
    collector: QuillCollector, hub: HubProcess, quill: Path, run: Run
) -> None:
    async with httpx.AsyncClient() as client:
        at = {"thread": THREAD}
        assert await collector.post(client, what="open", folder="/src/poem", **at) == 200
        assert await collector.post(client, what="begin", **at) == 200
        assert await collector.post(client, what="may I", wants="strike a verse", **at) == 200
        # Claude Code's, on the same machine, by the address that names no agent.
        claude = {"session_id": "c-1", "hook_event_name": "UserPromptSubmit", "prompt": "hello"}
        assert await collector.post(client, "", **claude) == 200
    line = {"ms": int(time.time() * 1000), "title": "An ode", "said": "O pen"}
    log = quill / "logs" / "monday" / f"{THREAD}.jsonl"
    log.write_text(json.dumps(line) + "\n")
    await wait_until(lambda: sessions(hub).get(THREAD, {}).get("last_answer") == "O pen", 20)

    told = sessions(hub)
    assert {name: each["agent"] for name, each in told.items()} == {
        THREAD: "quill",
        "c-1": "claude_code",
    }
    assert told[THREAD]["state"]["state"] == "needs_permission"
    assert told[THREAD]["title"] == "An ode"

    async with connect(hub.url.replace("http", "ws") + "/ws", origin=hub.url) as live:
        await live.send(json.dumps(NOTHING))
        heard = ""
        async with asyncio.timeout(10):
            while '"agent":"quill"' not in heard:
                heard += str(await live.recv())

    code, out, _ = run("agents", "--json", "--hub", hub.url)
    assert code == 0
    assert {each["agent"] for each in json.loads(out)["sessions"]} == {"quill", "claude_code"}
    assert "quill: An ode" in run("agents", "--hub", hub.url)[1]
    assert "strike a verse" in run("show", THREAD, "--hub", hub.url)[1]


async def test_what_it_used_up_is_counted_beside_the_first_agents(
    collector: QuillCollector, hub: HubProcess, quill: Path
) -> None:
    def output(session_id: str) -> int:
        usage = sessions(hub).get(session_id, {}).get("usage") or {}
        return int(usage.get("output_tokens", 0))

    now = int(time.time() * 1000)
    log = quill / "logs" / "monday" / f"{THREAD}.jsonl"
    steps = [{"ms": now - 2, "ink": 40}, {"ms": now - 1, "said": "hm"}, {"ms": now, "ink": 2}]
    log.write_text("".join(json.dumps(step) + "\n" for step in steps))
    async with httpx.AsyncClient() as client:
        assert await collector.post(client, thread=THREAD, what="begin") == 200
    await wait_until(lambda: output(THREAD) == 42, 20)
    ledger = collector.state_dir / "quill" / "usage.db"
    assert ledger.stat().st_mode & 0o077 == 0
    assert ledger.parent.stat().st_mode & 0o077 == 0


async def test_its_process_is_known_by_its_name_and_missed_under_it(
    collector: QuillCollector, hub: HubProcess, tmp_path: Path
) -> None:
    """The shim finds it among its ancestors; a kill leaves no other sign than the process table."""
    program = tmp_path / "bin" / PROCESS
    program.parent.mkdir()
    program.symlink_to("/bin/sh")
    socket = collector.state_dir / "collector.sock"
    hook = f"{sys.executable} -I -S {shim.__file__} {socket} quill - {PROCESS}"
    body = json.dumps({"thread": THREAD, "what": "open"})
    with subprocess.Popen(
        [str(program), "-c", f"/bin/sh -c '{hook}; true' <<'END'\n{body}\nEND\nread forever"],
        stdin=subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
    ) as agent:
        try:
            await wait_until(lambda: sessions(hub).get(THREAD, {}).get("pid") == agent.pid, 20)
            assert sessions(hub)[THREAD]["agent"] == "quill"
        finally:
            agent.kill()
    await wait_until(lambda: sessions(hub)[THREAD]["state"]["state"] == "session_ended", timeout=20)
    assert sessions(hub)[THREAD]["agent"] == "quill"


async def test_what_its_hooks_lack_is_said_of_the_machine(
    collector: QuillCollector, hub: HubProcess
) -> None:
    def notes() -> list[str]:
        told = hub.host(collector.host_id).get("witnesses", [])
        return [each.get("state") for each in told if each["name"] == "hook (Quill)"]

    await wait_until(lambda: notes() == ["missing"], timeout=30)


async def test_an_agent_that_nobody_knows_is_refused(collector: QuillCollector) -> None:
    async with httpx.AsyncClient() as client:
        assert await collector.post(client, "/nobody", thread=THREAD, what="open") == 404


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, quill: Path) -> Path:
    """As the one line in `known_agents` would have it. The file that its hooks belong into."""
    monkeypatch.setenv("QUILL_HOME", str(quill))
    every = (*known_agents(), Quill())
    for module in ("adsum.hooks", "adsum.doctor.agents"):
        monkeypatch.setattr(f"{module}.known_agents", lambda: every)
    return quill / "hooks.json"


def test_its_hooks_are_installed_shown_and_taken_out_by_its_name(
    run: Run, registered: Path, home: Path
) -> None:
    mine = '{"begin": ["my-own"],   "sing": ["la"]}'
    registered.write_text(mine)

    code, out, _ = run("hooks", "install", "--agent", "quill", "--dry-run")
    assert (code, registered.read_text()) == (0, mine)
    assert "4 entries" in out.splitlines()[0]
    assert "shim.py" in out

    assert run("hooks", "install", "--agent", "quill")[0] == 0
    assert not (home / ".claude").exists()
    assert json.loads(registered.read_text())["begin"] == ["my-own"]
    code, out, err = run("hooks", "status", "--agent", "quill")
    assert (code, "All 4 hooks stand; the shim hands them on" in out) == (0, True), (out, err)
    assert "Quill was not found" in err
    assert "tatus line" not in out + err
    told = json.loads(run("hooks", "status", "--agent", "quill", "--json")[1])
    assert (told["agent"], told["faults"]) == ("quill", [])

    assert run("hooks", "remove", "--agent", "quill")[0] == 0
    assert registered.read_text() == mine
    assert run("hooks", "install", "--agent", "nobody")[0] == 2
    assert run("hooks", "install", "--agent", "quill", "--scope", "project")[0] == 2


def test_without_a_name_hooks_of_all_agents_here_are_meant(
    run: Run, registered: Path, home: Path
) -> None:
    (home / ".claude").mkdir()
    assert run("hooks", "install")[0] == 0
    assert "shim.py" in registered.read_text()
    assert (home / ".claude/settings.json").exists()
    out = run("hooks", "status")[1]
    assert f"{registered}\n" in out
    assert "settings.json\n" in out
    checks = json.loads(run("doctor", "--json")[1])["checks"]
    results = {each["id"]: each["result"] for each in checks if each["id"].startswith("hooks")}
    wanted = {"hooks": "warn", "hooks-doubled": "ok", "hooks-enabled": "ok"}  # no collector runs
    assert results == wanted | {f"{check} (Quill)": each for check, each in wanted.items()}
    assert run("hooks", "remove")[0] == 0
    assert not registered.exists()


async def test_a_probe_goes_the_way_of_its_hooks(
    collector: QuillCollector, hub: HubProcess, run: Run, registered: Path
) -> None:
    state = ("--state-dir", str(collector.state_dir))
    assert run("hooks", "install", "--agent", "quill", *state)[0] == 0
    verified = functools.partial(run, "hooks", "verify", "--agent", "quill", "--hub", hub.url)
    code, out, err = await asyncio.to_thread(verified, *state)
    assert (code, f"hooks      stand in {registered}" in out) == (0, True), (out, err)
    assert "shim       handed one on" in out
    assert sessions(hub) == {}


def test_the_default_agent_is_left_alone_where_only_another_is_on_the_machine(
    run: Run, registered: Path, home: Path
) -> None:
    assert run("hooks", "install")[0] == 0
    assert registered.exists()
    assert not (home / ".claude").exists()
    checks = json.loads(run("doctor", "--json")[1])["checks"]
    named = [each["id"] for each in checks if each["id"].startswith("hooks")]
    assert named == [f"{check} (Quill)" for check in ("hooks", "hooks-doubled", "hooks-enabled")]


def test_up_and_join_offer_its_hooks(registered: Path, home: Path) -> None:
    (home / ".claude").mkdir()
    setups = setups_for("user", home / "state")
    claude, own = (Offer(setup, agreed=True) for setup in setups)
    assert claude.setup.is_default
    assert own.settle().startswith(f"installed in {registered}")
    assert str(registered) in own.park()
    assert not registered.exists()
    assert not claude.setup.parked.exists()
    assert own.setup.parked.exists()
    assert own.settle().startswith(f"installed in {registered}")

    undo = Undo()
    check_settings(setups[1], wanted=True)
    assert put_hooks(setups[1], undo) == f"in {registered} already"
