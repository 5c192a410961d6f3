"""What Claude Code lists of its sessions, read leniently and held against ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adsum.doctor.agents import agrees, compare
from adsum_collector.agents.claude_code.agent import ask, decode_listed
from adsum_collector.agents.installer import AgentsError, Theirs
from adsum_shared.state import GROUP_OF, AgentState, RequestView, SessionView

NOW = 1_764_000_000_000


def ours(
    state: str, *kinds: str, session_id: str = "s1", pid: int | None = 7, title: str | None = "Fix"
) -> SessionView:
    return SessionView(
        id=f"h:{session_id}",
        host_id="h",
        host="anvil",
        session_id=session_id,
        agent="claude_code",
        state=AgentState(GROUP_OF[state], state, state, 1.0, "hook", NOW - 65_000),
        reachability="live",
        updated_at=NOW,
        rank=0,
        pid=pid,
        title=title,
        requests=tuple(RequestView(kind, kind, NOW) for kind in kinds),
    )


def theirs(status: str | None, waiting_for: str | None = None, **given: Any) -> Theirs:
    return Theirs(**{"session_id": "s1", "pid": 7, **given}, status=status, waiting_for=waiting_for)


def differ(their: list[Theirs], our: list[SessionView], *dead: int) -> list[str]:
    return [
        each.line for each in compare(their, our, lambda pid: pid not in dead, NOW, "Claude Code")
    ]


def listed(**entry: Any) -> bytes:
    return json.dumps([entry]).encode()


def test_an_entry_as_the_cli_prints_it_is_read() -> None:
    printed = (
        b'[{"pid": 8994, "cwd": "/p", "kind": "interactive", "startedAt": 1795324741531, '
        b'"sessionId": "c9bd6fe6", "name": "project-1b", "status": "waiting", '
        b'"waitingFor": "permission prompt"}]'
    )
    assert decode_listed(printed) == [
        Theirs("c9bd6fe6", 8994, "waiting", "permission prompt", "project-1b")
    ]


def test_a_background_session_is_read_by_its_state_while_it_lives() -> None:
    assert decode_listed(listed(sessionId="s1", state="working")) == [Theirs("s1", None, "busy")]
    assert decode_listed(listed(sessionId="s1", state="blocked"))[0].status == "waiting"
    assert decode_listed(listed(sessionId="s1", state="done")) == []
    assert decode_listed(listed(sessionId="s1", state="working", status="idle"))[0].status == "idle"
    assert decode_listed(listed(id="abc", state="working")) == [], "nobody can have seen it yet"


def test_fields_of_another_type_count_as_missing() -> None:
    assert decode_listed(listed(sessionId="s1", pid="7", status=3, name=[])) == [
        Theirs("s1", None, None)
    ]
    assert decode_listed(b'["x", 3]') == []


@pytest.mark.parametrize("printed", [b"", b"usage: claude", b"{}"])
def test_what_is_no_list_is_refused(printed: bytes) -> None:
    with pytest.raises(AgentsError, match="what it printed is"):
        decode_listed(printed)


AGREE = [
    ("busy", None, ours("thinking")),
    ("busy", None, ours("compacting")),
    ("busy", None, ours("waiting_for_agent")),
    ("busy", None, ours("stuck")),
    ("idle", None, ours("idle")),
    ("idle", None, ours("error")),
    ("idle", None, ours("task_complete")),
    ("idle", None, ours("awaiting_input")),
    ("idle", None, ours("waiting_for_agent")),
    ("waiting", "permission prompt", ours("needs_permission", "permission")),
    ("waiting", "permission prompt", ours("needs_permission")),
    ("waiting", "permission prompt", ours("awaiting_approval", "plan")),
    ("waiting", "input needed", ours("awaiting_input", "question")),
    ("waiting", "input needed", ours("needs_permission", "permission", "question")),
    ("waiting", "dialog open", ours("awaiting_input")),
    ("waiting", "dialog open", ours("idle")),
    ("waiting", "a new word", ours("awaiting_input")),
    ("waiting", "sandbox request", ours("needs_permission")),
    ("waiting", "goal proposal", ours("awaiting_approval")),
    ("waiting", None, ours("needs_permission")),
    ("idle", None, ours("archived")),
    ("busy", None, ours("budget_exceeded")),
    (None, None, ours("idle")),
    ("dreaming", None, ours("idle")),
]


@pytest.mark.parametrize(("status", "waiting_for", "view"), AGREE)
def test_what_goes_together(status: str | None, waiting_for: str | None, view: SessionView) -> None:
    assert agrees(theirs(status, waiting_for), view)


DIFFER = [
    ("busy", None, ours("idle")),
    ("busy", None, ours("needs_permission", "permission")),
    ("busy", None, ours("session_ended")),
    ("idle", None, ours("thinking")),
    ("idle", None, ours("awaiting_input", "question")),
    ("idle", None, ours("session_ended")),
    ("waiting", "permission prompt", ours("thinking")),
    ("waiting", "permission prompt", ours("idle")),
    ("waiting", "permission prompt", ours("awaiting_input", "question")),
    ("waiting", "input needed", ours("needs_permission", "permission")),
    ("waiting", "input needed", ours("awaiting_approval")),
    ("waiting", "dialog open", ours("thinking")),
    (None, None, ours("session_ended")),
]


@pytest.mark.parametrize(("status", "waiting_for", "view"), DIFFER)
def test_what_does_not(status: str | None, waiting_for: str | None, view: SessionView) -> None:
    assert not agrees(theirs(status, waiting_for), view)


def test_a_difference_is_one_line_with_our_reason() -> None:
    assert differ([theirs("waiting", "permission prompt")], [ours("thinking")]) == [
        "s1 (Fix): Adsum says thinking (hook, for 1m); Claude Code says waiting, permission prompt."
    ]


def test_a_session_we_do_not_list_is_told() -> None:
    assert differ([theirs("busy", name="project-1b")], []) == [
        "s1 (project-1b): not in Adsum's list; Claude Code says busy (process 7)."
    ]


def test_a_process_we_list_as_another_session_is_told() -> None:
    (line,) = differ([theirs("idle")], [ours("idle", session_id="older")])
    assert "process 7 is older, idle" in line


def test_a_session_without_an_id_is_found_by_its_process() -> None:
    assert differ([theirs("idle", session_id=None)], [ours("idle")]) == []


def test_a_session_only_we_have_is_grave_only_if_its_process_is_gone() -> None:
    (alive,) = compare([], [ours("idle")], lambda _: True, NOW, "Claude Code")
    (dead,) = compare([], [ours("idle")], lambda _: False, NOW, "Claude Code")
    assert "Claude Code does not list it." in alive.line
    assert "its process 7 is gone." in dead.line
    assert (alive.grave, dead.grave) == (False, True)
    assert differ([], [ours("session_ended"), ours("archived")]) == []


def test_a_killed_process_that_they_still_count_is_not_held_against_us() -> None:
    assert differ([theirs("busy")], [ours("session_ended")], 7) == []


def test_a_title_cannot_move_the_cursor() -> None:
    (line,) = differ([theirs("busy")], [ours("idle", title="a\x1b[2Jb")])
    assert "\x1b" not in line


def program(folder: Path, script: str) -> Path:
    file = folder / "claude"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def started(home: Path) -> Path:
    (home / ".claude").mkdir()
    (home / ".claude.json").write_text("{}")
    return home / ".claude"


def test_it_is_asked_quietly_and_outside_any_project(tmp_path: Path) -> None:
    script = (
        'echo "[{\\"sessionId\\": \\"$*\\", \\"name\\": \\"$PWD\\", \\"status\\": '
        '\\"$CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC$DISABLE_AUTOUPDATER\\"}]"'
    )
    found = ask(program(tmp_path, script), [started(tmp_path)], tmp_path)
    assert found == [Theirs("agents --json", None, "11", None, "/")]


def test_it_is_not_run_where_it_was_never_started(tmp_path: Path) -> None:
    """Its first start writes the user's `.claude.json`."""
    assert ask(program(tmp_path, "echo no; exit 1"), [tmp_path / ".claude"], tmp_path) == []


def test_every_configuration_folder_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/inherited")
    other = tmp_path / "other"
    other.mkdir()
    (other / ".claude.json").write_text("{}")
    script = 'echo "[{\\"sessionId\\": \\"of ${CLAUDE_CONFIG_DIR}\\"}]"'
    found = ask(program(tmp_path, script), [started(tmp_path), other], tmp_path)
    assert [each.session_id for each in found] == ["of ", f"of {other}"]


def test_a_program_that_fails_gives_its_reason(tmp_path: Path) -> None:
    failing = program(tmp_path, "echo \"error: unknown option '--json'\" >&2; exit 1")
    with pytest.raises(AgentsError, match="unknown option '--json'"):
        ask(failing, [started(tmp_path)], tmp_path)


def test_states_that_we_may_add_are_not_forgotten() -> None:
    """Every state we know is allowed for by at least one status of theirs, or over."""
    for name in GROUP_OF:
        view = ours(name)
        ways = [theirs("busy"), theirs("idle"), theirs("waiting")]
        over = name == "session_ended"
        assert any(agrees(way, view) for way in ways) != over, name
