"""Commits and pull requests, from what git and the forges' tools print to an agent's own call."""

from __future__ import annotations

from typing import Any

import pytest

from adsum_collector.agents.records import DELIVERIES_MAX, deliveries, delivers
from adsum_shared.signals import Delivery, ToolFinished
from tests.claude_lines import assistant, use, user
from tests.unit.collector import test_hooks, test_lines

COMMITTED = "[main 1a2b3c4] Fix it\n 1 file changed, 1 insertion(+)\n"
PR = "https://github.com/o/r/pull/12"
MAIN = Delivery("commit", "1a2b3c4", "main")


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (COMMITTED, [MAIN]),
        ("[main (root-commit) 1a2b3c4] Begin\n", [MAIN]),
        ("[detached HEAD 1a2b3c4] Fix\n", [Delivery("commit", "1a2b3c4")]),
        ("[feature/x#1 1a2b3c4] [wip] Fix\n", [Delivery("commit", "1a2b3c4", "feature/x#1")]),
        (
            "[main 1a2b3c4] Fix\n Date: Mon Nov 23 2026\n 1 file changed\n",
            [Delivery("amend", "1a2b3c4", "main")],
        ),
        (f"ruff....Passed\n{COMMITTED}To github.com\n", [MAIN]),
        (f"Creating pull request\n\n{PR}\n", [Delivery("pull_request", PR)]),
        (
            "https://lab.example/o/r/-/merge_requests/3\n",
            [Delivery("pull_request", "https://lab.example/o/r/-/merge_requests/3")],
        ),
        ("nothing to commit, working tree clean\n", None),
        ("remote:   https://github.com/o/r/pull/new/topic\n", None),
        ("  [main 1a2b3c4] quoted\n[2026-11-23 12:00] no commit\n", None),
        ("[main ffff] too short\n", None),
        ("", None),
        (None, None),
    ],
)
def test_what_is_printed_says_what_was_made(output: Any, found: Any) -> None:
    assert deliveries(output) == found


def test_no_output_makes_many() -> None:
    assert len(deliveries(COMMITTED * 999) or ()) == DELIVERIES_MAX


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("git add -A && git commit -m 'x'", True),
        ("cd a\ngit -C b commit --amend --no-edit", True),
        ("git cherry-pick abc", True),
        ("gh pr create --fill", True),
        ("git log --oneline", False),
        ("cat log.txt", False),
        ("gh pr view 12 --json url -q .url", False),
        ("git status; echo commit", False),
        (None, False),
    ],
)
def test_only_a_command_that_makes_something_is_believed(command: Any, *, does: bool) -> None:
    assert delivers(command) is does


def calls(tool: str, command: str) -> dict[str, Any]:
    return {"tool_name": tool, "tool_use_id": "t1", "tool_input": {"command": command}}


def by_hook(tool: str, command: str) -> Any:
    answer = {"stdout": COMMITTED, "stderr": ""}
    return test_hooks.one("PostToolUse", **calls(tool, command), tool_response=answer).delivered


def test_a_hook_tells_of_it() -> None:
    assert by_hook("Bash", "git commit -m x") == [MAIN]
    assert by_hook("Bash", "cat notes") is None
    assert by_hook("mcp__x__y", "git commit") is None


@pytest.mark.parametrize(("is_error", "found"), [(False, [MAIN]), (True, None)])
def test_a_transcript_tells_of_it(is_error: bool, found: Any) -> None:
    asked = assistant(use("Bash", command="cd x\ngit commit -m y"))
    outcome = {"stdout": COMMITTED, "interrupted": False}
    answer = user(test_lines.result(is_error=is_error), toolUseResult=outcome)

    finished = [each for each in test_lines.said(asked, answer) if isinstance(each, ToolFinished)]

    assert [each.delivered for each in finished] == [found]
