"""Work that goes on without the main agent, in the real CLI: shown while it does, and no longer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_cli.conftest import Figure, OpenSession
from tests.real_cli.fleet import until
from tests.real_cli.session import ASKS, IDLE, Session

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(90)]

SHELLS = ("--allowedTools", "Bash(python3:*)")
AGENTS = ("--allowedTools", "Agent")


def child(session: Session, kind: str) -> dict[str, Any]:
    """The session's only child, as it is listed now."""
    (found,) = session.hub.now.get("children", ())
    assert found["kind"] == kind, found
    return dict(found)


def test_a_background_shell_keeps_it_out_of_the_list_of_those_who_wait(
    open_session: OpenSession, figure: Figure
) -> None:
    session = open_session()
    session.play("bashbg")
    session.sees("It runs in the background.")
    session.hub.shows("waiting_for_agent")
    assert child(session, "shell")["status"] == "running"

    through = session.sees("It is through.")

    figure(
        "background shell: idle after its report", session.hub.shows("idle", label=IDLE) - through
    )
    assert child(session, "shell")["status"] == "completed"


def test_a_permission_stands_while_a_background_shell_finishes(open_session: OpenSession) -> None:
    session = open_session(*SHELLS, mode="manual")
    session.play("bashbgperm")
    session.sees(ASKS)
    session.hub.shows("needs_permission")
    session.hub.until(
        lambda view: [each["status"] for each in view.get("children", ())] == ["completed"],
        "the shell to end",
    )
    assert session.hub.now["state"]["state"] == "needs_permission"

    session.answer("Enter", ASKS)

    session.hub.works()
    session.hub.shows("idle", label=IDLE)


def test_a_background_subagent_is_listed_below_its_parent(
    open_session: OpenSession, figure: Figure
) -> None:
    session = open_session()
    session.play("agentbg")
    session.sees("It works in the background.")
    session.hub.shows("waiting_for_agent", label="Look around")
    running = child(session, "agent")
    assert (running["status"], running["type"]) == ("running", "general-purpose")

    back = session.sees("It reported back.")

    figure("subagent: idle after its report", session.hub.shows("idle", label=IDLE) - back)
    assert child(session, "agent")["status"] == "completed"


@pytest.mark.core
def test_a_subagent_asks_while_its_parent_has_stopped(
    open_session: OpenSession, figure: Figure
) -> None:
    session = open_session(*AGENTS, mode="manual")
    session.play("agentperm")
    session.sees("It works in the background.")
    session.hub.shows("waiting_for_agent")
    asked = session.sees(ASKS)
    figure("a subagent's permission: shown", session.hub.shows("needs_permission") - asked)
    (request,) = session.hub.now["requests"]
    assert request["agent_id"] == child(session, "agent")["id"]

    answered = session.answer("Enter", ASKS)

    figure("yes to a subagent: at work", session.hub.works() - answered)
    session.hub.shows("idle", label=IDLE)
    assert child(session, "agent")["status"] == "completed"


def test_a_team_mate_asks_by_its_name_and_is_not_kept_at_rest(open_session: OpenSession) -> None:
    teams = {"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1"}
    session = open_session(*AGENTS, mode="manual", extra=teams)
    session.play("team")
    session.sees(ASKS)
    session.hub.shows("needs_permission", label="Needs permission: Bash (anna)")

    session.answer("Enter", ASKS)

    session.sees("The mate has made it.")
    session.hub.shows("idle", label=IDLE)
    assert child(session, "agent")["status"] == "completed"


@contextlib.contextmanager
def agents_list(session: Session) -> Iterator[None]:
    """Open the agents' list; at the end kill what its daemon has started for this user."""
    session.press("Left")
    try:
        yield
    finally:
        home = f"HOME={session.machine.home.path}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # another user's, or gone since
                environment, command = (
                    (process / name).read_bytes().split(b"\0") for name in ("environ", "cmdline")
                )
                if home in environment and command[0].partition(b" ")[0].endswith(b"claude"):
                    os.kill(int(process.name), signal.SIGKILL)


def test_a_process_in_reserve_for_the_agents_list_is_not_listed(open_session: OpenSession) -> None:
    session = open_session()
    session.play("text")
    session.sees("All is well.")
    session.hub.shows("idle", label=IDLE)
    listed = session.hub.watcher.told
    before = set(listed)

    def reserve() -> set[str]:
        """The sessions that the registry calls spare, once their hooks and files have come."""
        found = set()
        for path in (session.machine.home.path / ".claude" / "sessions").glob("*.json"):
            with contextlib.suppress(OSError, ValueError):  # half-written, or gone since
                entry = json.loads(path.read_bytes())
                if entry.get("spare") and entry.get("status"):
                    found.add(str(entry["sessionId"]))
        return found

    with agents_list(session):
        until(reserve, "a process in reserve")
        until(lambda: listed.keys() - before, "the session that has moved to the background")
        assert not reserve() & listed.keys()
