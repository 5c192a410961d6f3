"""`adsum doctor` and `adsum hooks verify` beside a whole `adsum up`, with a stand-in for the agent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import free_port, require_binary
from tests.hubs import stand_in_hub
from tests.integration.conftest import Run
from tests.integration.test_cli_up import PROMPT, Machine
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(90), pytest.mark.slow]

#: Answers as the CLI does, from two files that a test writes.
CLAUDE = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
  --version) echo "$(cat "$here/version") (Claude Code)" ;;
  "agents --json") . "$here/agents" ;;
  *) exit 1 ;;
esac
"""


class Agent:
    """The `claude` on this machine's PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "claude").write_text(CLAUDE)
        (folder / "claude").chmod(0o755)
        self.reset()

    def reset(self) -> None:
        self.is_version("2.1.330")
        self.lists()

    def is_version(self, version: str) -> None:
        (self.folder / "version").write_text(version)

    def does(self, script: str) -> None:
        (self.folder / "agents").write_text(script)

    def lists(self, **session: Any) -> None:
        """One living session, or none."""
        listed = [{"pid": os.getpid(), "kind": "interactive", **session}] if session else []
        self.does(f"cat <<'END'\n{json.dumps(listed)}\nEND\n")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    require_binary()
    machine = Machine(tmp_path_factory.mktemp("doctor") / "home")
    (machine.home / ".claude.json").write_text("{}")
    Agent(machine.home / "bin")
    machine.up("--yes", PATH=path_of(machine))
    yield machine
    machine.end()


@pytest.fixture
def agent(machine: Machine) -> Agent:
    agent = Agent.__new__(Agent)
    agent.folder = machine.home / "bin"
    agent.reset()
    return agent


def path_of(machine: Machine) -> str:
    return f"{machine.home / 'bin'}:{os.environ['PATH']}"


def doctor(machine: Machine) -> tuple[int, dict[str, dict[str, Any]]]:
    """(exit code, findings by id)."""
    done = machine.adsum("doctor", "--json", PATH=path_of(machine))
    assert done.stderr == ""
    return done.returncode, {each["id"]: each for each in json.loads(done.stdout)["checks"]}


@pytest.mark.core
async def test_all_is_well_and_told_within_80_columns(machine: Machine, agent: Agent) -> None:
    await wait_until(lambda: doctor(machine)[0] == 0, timeout=20)
    done = machine.adsum("doctor", PATH=path_of(machine), COLUMNS="80")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert lines[0].startswith("ok  collector ")
    assert "Neither Claude Code nor Adsum has a living session" in done.stdout
    assert lines[-1].startswith("All is well: ")
    assert "\x1b" not in done.stdout


async def test_a_session_that_the_agent_sees_otherwise_is_told_in_one_line(
    machine: Machine, agent: Agent
) -> None:
    assert machine.post(**PROMPT) == 200
    agent.lists(sessionId=PROMPT["session_id"], status="busy")
    await wait_until(lambda: "1 session" in doctor(machine)[1]["agents"]["what"], timeout=20)
    assert doctor(machine)[1]["agents"]["result"] == "ok"

    agent.lists(sessionId=PROMPT["session_id"], status="waiting", waitingFor="input needed")
    code, found = doctor(machine)

    assert (code, found["agents"]["result"]) == (1, "fail")
    (line,) = found["agents"]["details"]
    assert line.startswith("s-1")
    assert "Adsum says thinking (hook, for " in line
    assert line.endswith("Claude Code says waiting, input needed.")
    assert machine.post(**{**PROMPT, "hook_event_name": "SessionEnd"}) == 200


async def test_a_session_that_we_miss_is_told(machine: Machine, agent: Agent) -> None:
    agent.lists(sessionId="missed-by-us", name="project-1b", status="idle")
    code, found = doctor(machine)
    assert code == 1
    assert any(
        "missed-b (project-1b): not in Adsum's" in each for each in found["agents"]["details"]
    )


def test_an_agent_too_old_to_ask_is_left_out_with_the_reason(
    machine: Machine, agent: Agent
) -> None:
    agent.is_version("2.1.112")
    agent.does("echo started >> $HOME/started")
    found = doctor(machine)[1]
    assert found["agents"]["result"] == "skip"
    assert "2.1.145 and newer do" in found["agents"]["what"]
    assert not (machine.home / "started").exists()


def test_an_agent_that_answers_nonsense_is_a_warning(machine: Machine, agent: Agent) -> None:
    agent.does("echo Welcome")
    found = doctor(machine)[1]
    assert found["agents"]["result"] == "warn"
    assert "what it printed is not JSON" in found["agents"]["what"]


def test_verify_goes_the_whole_way_and_leaves_nothing_on_the_board(
    machine: Machine, agent: Agent
) -> None:
    before = json.loads(machine.adsum("agents", "--json").stdout)["sessions"]
    done = machine.adsum("hooks", "verify", "--json", PATH=path_of(machine))
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert 0 < told["collector_ms"] < told["hub_ms"] < 5_000
    assert told["shim_ms"] > 0
    again = json.loads(machine.adsum("hooks", "verify", "--json", PATH=path_of(machine)).stdout)
    # Two probes a run, one posted and one by the shim, of one signal each: no process is taken
    # for the probe's, which would list it.
    assert again["seq"] == told["seq"] + 2
    after = json.loads(machine.adsum("agents", "--json").stdout)["sessions"]
    assert {one["id"] for one in after} == {one["id"] for one in before}


def test_that_nothing_runs_is_told_once_with_the_one_step(home: Path, run: Run) -> None:
    state, nowhere = home / "state", f"http://127.0.0.1:{free_port()}"
    state.mkdir()
    (state / "hub.json").write_text(json.dumps({"url": nowhere, "pid": 1}))
    code, out, err = run("doctor", "--json")
    found = {each["id"]: each for each in json.loads(out)["checks"]}
    assert (code, err) == (1, "")
    assert [name for name, each in found.items() if each["result"] == "fail"] == ["collector"]
    assert found["collector"]["fix"] == "`adsum up` starts all of it."
    assert nowhere in found["collector"]["what"]
    assert {"hub", "host", "spool", "redis", "agents"} <= found.keys()
    assert "`adsum up` offers" in found["hooks"]["what"]
    assert run("doctor")[1].count("adsum up") == 2


def test_a_healthy_machine_that_holds_a_hub_alone_is_well(
    home: Path, run: Run, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADSUM_REDIS_URL", redis_url)
    (home / "state").mkdir()
    with stand_in_hub() as hub:
        (home / "state" / "hub.json").write_text(json.dumps({"url": hub.url}))
        code, out, err = run("doctor", "--json")
        found = {each["id"]: each["result"] for each in json.loads(out)["checks"]}
        assert (code, err) == (0, "")
        assert (found["hub"], found["collector"], found["hooks"]) == ("ok", "skip", "skip")

        (home / "state" / "host.json").write_text('{"host_id": "laptop-id"}')
        code, out, _ = run("doctor", "--json")
    failed = [each["id"] for each in json.loads(out)["checks"] if each["result"] == "fail"]
    assert (code, failed) == (1, ["collector", "hooks"])


def test_a_hub_that_was_named_is_missed_by_itself(home: Path, run: Run) -> None:
    _, out, _ = run("doctor", "--json", "--hub", f"http://127.0.0.1:{free_port()}")
    failed = [each["id"] for each in json.loads(out)["checks"] if each["result"] == "fail"]
    assert failed == ["collector", "hub", "hooks"]
