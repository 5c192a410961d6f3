"""Only what the installed Claude Code knows is written, and nothing that leaves a trace."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from adsum_collector.agents.claude_code.agent import find_claude, installed_version
from adsum_collector.agents.claude_code.settings_text import (
    SHIM_WORDS,
    entry_for,
    events_for,
    is_ours,
)
from adsum_collector.agents.installer import ProgramNotFoundError, Target
from adsum_collector.agents.programs import version_of
from adsum_collector.state_dir import token_of

NEVER = {
    "WorktreeCreate",
    "PreModelSwitch",
    "MessageDisplay",
    "FileChanged",
    "PostToolBatch",
    "UserPromptExpansion",
    "Setup",
    "InstructionsLoaded",
    "ConfigChange",
    "DirectoryAdded",
}
NEW = (2, 1, 330)
TARGET = Target(
    47892,
    "t",
    "/opt/my python/bin/python3",
    Path("/a b/adsum_collector/shim.py"),
    Path("/s"),
    "http",
)


def fake_claude(path: Path, answer: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return path


def test_2_1_112_gets_no_event_it_does_not_know() -> None:
    assert "PostModelSwitch" not in events_for((2, 1, 112))
    assert "PostModelSwitch" in events_for((2, 1, 330))
    assert not NEVER & set(events_for((9, 9, 9)))


def test_stop_is_left_out_where_the_registry_witnesses_the_end_of_a_turn() -> None:
    assert "Stop" in events_for((2, 1, 268))
    assert "Stop" not in events_for((2, 1, 269))
    assert "SubagentStop" in events_for((2, 1, 330))


def test_stop_is_included_where_a_hook_of_the_users_writes_the_line_anyway() -> None:
    assert "Stop" in events_for((2, 1, 330), frozenset({"Stop"}))


def test_http_hooks_post_to_loopback_with_the_token_and_a_short_time_out() -> None:
    [hook] = entry_for("PreToolUse", TARGET, NEW)["hooks"]
    assert hook == {
        "type": "http",
        "url": "http://127.0.0.1:47892/api/live/hook",
        "timeout": 2,
        "headers": {"Authorization": "Bearer t"},
    }


def test_session_start_runs_the_shim_without_a_shell() -> None:
    [hook] = entry_for("SessionStart", TARGET, NEW)["hooks"]
    assert hook["async"] is True
    assert hook["args"] == ["-I", "-S", str(TARGET.shim), "/s", *SHIM_WORDS]
    assert is_ours(hook)


ANSWERS = ("PermissionRequest", "PermissionDenied", "Elicitation", "ElicitationResult")


@pytest.mark.parametrize("event", ANSWERS)
def test_what_is_answered_for_a_human_is_never_posted(event: str) -> None:
    """Not even where all else is: whoever listened instead of the collector would answer."""
    [hook] = entry_for(event, TARGET, NEW)["hooks"]
    assert (hook["type"], hook.get("async")) == ("command", True)


def test_by_the_shim_nothing_is_posted_and_no_token_is_written() -> None:
    target = replace(TARGET, transport="shim")
    hooks = [entry_for(event, target, NEW)["hooks"][0] for event in events_for(NEW)]
    assert {hook["type"] for hook in hooks} == {"command"}
    assert all(is_ours(hook) for hook in hooks)
    # At its end the CLI kills what it does not wait for.
    assert [hook.get("async", False) for hook in hooks].count(False) == 1
    assert "Bearer" not in json.dumps(hooks)


def test_an_older_cli_waits_for_the_shim_as_async_would_leave_a_line_there() -> None:
    [hook] = entry_for("PermissionRequest", TARGET, (2, 1, 112))["hooks"]
    assert "async" not in hook
    assert shlex.split(hook["command"])[3:5] == [str(TARGET.shim), "/s"]
    assert is_ours(hook)


def test_an_earlier_releases_shim_in_one_string_is_ours_too() -> None:
    command = shlex.join(["python3", "-I", "-S", str(TARGET.shim), "/s"])
    assert is_ours({"type": "command", "command": command, "async": True})


def test_old_versions_get_no_session_start() -> None:
    """There an async command leaves an `async_hook_response` line in the transcript."""
    assert "SessionStart" not in events_for((2, 1, 112))
    assert "SessionStart" in events_for((2, 1, 330))


@pytest.mark.parametrize(
    "hook",
    [
        {"type": "http", "url": "http://127.0.0.1:47892/other"},
        {"type": "http", "url": "https://hub.example/api/live/hook"},
        {"type": "http", "url": "http://127.0.0.1:999999/api/live/hook"},
        {"type": "http", "url": 3},
        {"type": "command", "command": "curl http://127.0.0.1:47892/api/live/hook"},
        {"type": "command"},
        {"type": "command", "command": "x", "args": None},
        "text",
        None,
    ],
)
def test_what_others_wrote_is_not_taken_for_ours(hook: object) -> None:
    assert not is_ours(hook)


def test_the_version_is_asked_of_the_program(tmp_path: Path) -> None:
    program = fake_claude(tmp_path / "claude", 'echo "2.1.330 (Claude Code)"')
    assert version_of(program) == (2, 1, 330)


@pytest.mark.parametrize("answer", ["exit 3", "echo hello", "echo 2.1.3; exit 1", "sleep 5"])
def test_a_program_that_does_not_answer_has_no_version(tmp_path: Path, answer: str) -> None:
    assert version_of(fake_claude(tmp_path / "claude", answer), timeout_s=0.5) is None
    assert version_of(tmp_path / "absent") is None


def test_claude_is_found_on_path_then_in_the_usual_places(tmp_path: Path) -> None:
    fake_claude(tmp_path / ".local/bin/claude", "")
    assert find_claude({"PATH": "/nowhere"}, tmp_path) == tmp_path / ".local/bin/claude"
    on_path = fake_claude(tmp_path / "bin/claude", "")
    assert find_claude({"PATH": str(tmp_path / "bin")}, tmp_path) == on_path


def test_a_program_chosen_by_hand_is_never_guessed_at(tmp_path: Path) -> None:
    wrong = fake_claude(tmp_path / "claude", "echo I am somebody else")
    with pytest.raises(ProgramNotFoundError, match="Give --claude the path"):
        installed_version(wrong, {}, tmp_path)


def test_the_token_is_made_once_and_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    token = token_of(state)
    assert len(token) >= 43
    assert token_of(state) == token
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in state.iterdir()] == ["token"]


def test_an_empty_token_file_is_filled(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    assert token_of(tmp_path) == token_of(tmp_path) != ""


def test_entries_are_plain_json() -> None:
    for event in events_for((2, 1, 330)):
        assert json.loads(json.dumps(entry_for(event, TARGET, NEW)))
