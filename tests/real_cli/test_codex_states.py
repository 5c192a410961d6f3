"""What Adsum shows of the real Codex, in a terminal of its own and in its background server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real_cli.cli_rig import CliMissingError, Terminal
from tests.real_cli.codex_rig import CodexHome, MockResponses, codex_binary
from tests.real_cli.conftest import require
from tests.real_cli.fleet import Fleet, Machine, adsum, running_fleet, until

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(240)]

ASKED = "Would you like to run the following command?"
MODES = ("a terminal of its own", "the background server")
SERVER = MODES[1:]


class CodexMachine(Machine):
    def install_hooks(self, transport: str = "shim") -> None:
        assert transport == "shim"
        words = ("hooks", "install", "--agent", "codex", "--yes", "--program", self.home.program)
        subprocess.run(adsum(*map(str, words)), env=self.env, check=True, capture_output=True)


@pytest.fixture(scope="module", params=MODES)
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    require("tmux", "redis-server")
    try:
        codex_binary()
    except CliMissingError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("codex")
    with MockResponses() as model:
        home = CodexHome(folder / "anvil", model.url, shared=request.param in SERVER).seed()
        with home.server(), running_fleet(folder, {"anvil": home}, CodexMachine) as fleet:
            yield fleet


@pytest.fixture
def terminal(fleet: Fleet) -> Iterator[Terminal]:
    with Terminal(fleet.machines[0].home, ()) as terminal:
        yield terminal


def begins(fleet: Fleet, terminal: Terminal, words: str) -> str:
    """Types a first prompt; the session's id."""
    before = set(fleet.agents())
    terminal.type(words)
    return until(lambda: set(fleet.agents()) - before, "the session", more=terminal.screen).pop()


def request(fleet: Fleet, session: str) -> dict[str, Any]:
    (asked,) = (fleet.session(session) or {})["requests"]
    return dict(asked)


@pytest.mark.core
def test_an_approval_is_asked_for_and_work_goes_on_at_once_when_it_is_given(
    fleet: Fleet, terminal: Terminal
) -> None:
    session = begins(fleet, terminal, "do play:slow")
    fleet.wait_for_state(session, "needs_permission", 60)
    assert request(fleet, session)["kind"] == "permission"
    answered = terminal.press_until_gone("y", ASKED)

    assert fleet.wait_for_state(session, "acting") - answered < 4.0  # the command runs for five
    fleet.wait_for_state(session, "idle", 60)


@pytest.mark.parametrize("key", ["Escape", "n"])
def test_an_approval_that_is_refused_interrupts(fleet: Fleet, terminal: Terminal, key: str) -> None:
    session = begins(fleet, terminal, "do play:perm")
    fleet.wait_for_state(session, "needs_permission", 60)
    terminal.press_until_gone(key, ASKED)

    fleet.wait_for_state(session, "idle", 60)
    until(
        lambda: (fleet.session(session) or {})["state"]["label"] == "Interrupted",
        "its rollout, which says why",  # the server alone tells that it rests
    )


def test_a_question_and_a_plan_wait_for_their_human(fleet: Fleet, terminal: Terminal) -> None:
    terminal.type("/plan")
    terminal.wait_for("Plan mode (")
    session = begins(fleet, terminal, "what play:ask")
    fleet.wait_for_state(session, "awaiting_input", 60)
    terminal.wait_for("Which colour is it?")
    terminal.press_until_gone("Enter", "enter to submit answer")
    fleet.wait_for_state(session, "idle", 60)
    terminal.type("then play:plan")

    fleet.wait_for_state(session, "awaiting_approval", 60)
    terminal.press_until_gone("Enter", "Implement this plan?")
    until(lambda: fleet.state(session) != "awaiting_approval", "the plan to be taken")


def test_a_subagent_works_on_when_its_parent_has_ended(fleet: Fleet, terminal: Terminal) -> None:
    session = begins(fleet, terminal, "go play:spawn")

    fleet.wait_for_state(session, "waiting_for_agent", 60)
    fleet.wait_for_state(session, "idle", 60)
    assert len(fleet.agents()) == len(set(fleet.agents()))
    assert all(each["title"] for each in fleet.agents().values())


def test_a_limit_of_the_provider_is_a_failure_with_its_cause(
    fleet: Fleet, terminal: Terminal
) -> None:
    session = begins(fleet, terminal, "go play:limit")

    fleet.wait_for_state(session, "error", 120)
    assert "too many" in (fleet.session(session) or {})["state"]["label"]


def test_a_compaction_ends_in_idleness(fleet: Fleet, terminal: Terminal) -> None:
    session = begins(fleet, terminal, "do play:text")
    fleet.wait_for_state(session, "idle", 60)
    terminal.type("/compact")
    terminal.wait_for("Context compacted", 60)

    fleet.wait_for_state(session, "idle", 60)


def test_a_killed_terminal_ends_what_it_runs_itself_and_nothing_else(
    fleet: Fleet, terminal: Terminal
) -> None:
    home = fleet.machines[0].home
    assert isinstance(home, CodexHome)
    session = begins(fleet, terminal, "do play:sleep")
    fleet.wait_for_state(session, "acting", 60)
    os.kill(terminal.pid, signal.SIGKILL)

    if home.shared:
        fleet.wait_for_state(session, "idle", 60)
    else:
        fleet.wait_for_state(session, "session_ended")


@pytest.mark.parametrize("fleet", SERVER, indirect=True)
def test_with_the_server_all_its_sessions_are_over(fleet: Fleet, terminal: Terminal) -> None:
    home = fleet.machines[0].home
    assert isinstance(home, CodexHome)
    session = begins(fleet, terminal, "do play:sleep")
    fleet.wait_for_state(session, "acting", 60)
    pid = json.loads((home.directory / "app-server-daemon" / "daemon.pid").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)

    fleet.wait_for_state(session, "session_ended")
