"""`adsum doctor` on single sessions: whose hooks do not come, and what keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adsum.doctor import agents as doctor_sessions
from adsum.doctor.agents import check_sessions
from adsum.doctor.checks import Finding
from adsum.outcome import CommandError
from adsum_shared.state import AgentState, Group, HostView, SessionView, WitnessView

HERE = HostView("h", "desk", "live", 0)


def session(name: str, cwd: Path, problem: str | None = None) -> SessionView:
    return SessionView(
        id=f"h:{name}",
        host_id="h",
        host="desk",
        session_id=name,
        agent="claude_code",
        state=AgentState(Group.AUTONOMOUS, "thinking", "…", 1, "transcript", 0),
        reachability="live",
        updated_at=0,
        rank=0,
        title="Fix the build",
        cwd=str(cwd),
        witnesses=(WitnessView("hook", 0, problem),),
    )


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    # The search for project settings stops at a repository, so it never reaches folders above this one.
    (tmp_path / ".git").mkdir()

    def found(*views: SessionView, host: HostView | None = HERE) -> Finding:
        answer = {"sessions": msgspec.to_builtins(list(views)), "now": 0}
        monkeypatch.setattr(doctor_sessions, "fetch_sessions", lambda *_: answer)
        return check_sessions("http://hub", host, tmp_path / "home")

    return found


def test_sessions_that_are_heard_are_well(found: Any, tmp_path: Path) -> None:
    assert found(session("one", tmp_path)).result == "ok"


def test_settings_of_the_sessions_own_directory_are_named(found: Any, tmp_path: Path) -> None:
    """They do not apply where doctor runs, which finds nothing wrong with its own."""
    project = tmp_path / "shop"
    local = project / ".claude" / "settings.local.json"
    local.parent.mkdir(parents=True)
    local.write_text(json.dumps({"disableAllHooks": True}))

    finding = found(session("one", project, "missing"), session("two", tmp_path))

    assert (finding.result, finding.what[:15]) == ("warn", "Of 1 of 2 sessi")
    assert finding.details == (f"one Fix the build: hooks do not come; {local} switches them off",)


def test_where_no_file_does_it_the_session_may_have_been_started_so(
    found: Any, tmp_path: Path
) -> None:
    [line] = found(session("one", tmp_path, "missing")).details
    assert line.endswith("they may be switched off for it alone")


def test_a_file_nobody_can_read_is_no_cause(found: Any, tmp_path: Path) -> None:
    broken = tmp_path / ".claude" / "settings.local.json"
    broken.parent.mkdir()
    broken.write_text("{")
    assert found(session("one", tmp_path, "missing")).result == "warn"


def test_doubled_hooks_are_told_too(found: Any, tmp_path: Path) -> None:
    [line] = found(session("one", tmp_path, "doubled")).details
    assert line.endswith("they are installed in two places")


@pytest.mark.parametrize("host", [None, HostView("h", "desk", "offline", 0)])
def test_a_host_that_is_not_live_is_left_out(found: Any, host: HostView | None) -> None:
    assert found(host=host).result == "skip"


def test_a_hub_that_goes_away_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def gone(*_: object) -> None:
        raise CommandError("No hub answers.")

    monkeypatch.setattr(doctor_sessions, "fetch_sessions", gone)
    assert check_sessions("http://hub", HERE, tmp_path).result == "skip"
