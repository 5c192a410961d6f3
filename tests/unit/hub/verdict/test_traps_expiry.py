"""What each state of the model does when nobody says anything more: the column "expires"."""

from __future__ import annotations

import pytest

from adsum_hub.verdict.reading import Limits
from adsum_shared import signals as s
from adsum_shared.state import Group
from tests.story import T0, Story, working

DAY = 86_400
WEEK = 7 * DAY


def failed() -> Story:
    return working().tell(s.TurnFailed, 3, prompt_id="p1", error="overloaded")


def over_budget() -> Story:
    return working().decided(1, "budget.exceeded", spent=9, limit=5)


def completed() -> Story:
    return working().tell(s.TaskCreated, 1, task_id="1").tell(s.TaskCompleted, 2, task_id="1")


BLOCKED = {
    "needs_permission": working().start(1).ask(1.1),
    "awaiting_input": working().ask(1, "question", tool="AskUserQuestion", tool_use_id="t1"),
    "error": failed(),
    "awaiting_approval": working().ask(1, "plan", tool="ExitPlanMode"),
    "budget_exceeded": over_budget(),
    "idle": working().stop(3),
}
DELIVERED = {
    "task_complete": completed().stop(3),
    "session_ended": working().tell(s.SessionEnded, 3),
    "suspended": working().stop(2).tell(s.SessionSuspended, 2.5).tell(s.SessionEnded, 3),
    "archived": working().stop(2).decided(3, "control.dismissed"),
}


@pytest.mark.parametrize(("state", "story"), BLOCKED.items())
def test_what_blocks_on_a_human_never_expires(state: str, story: Story) -> None:
    for at in (4, 59, 61, 121, 301, 601, DAY, WEEK):
        assert (story.state(at), story.at(at).group) == (state, Group.NEEDS_YOU)
    assert story.deadline(10) is None


@pytest.mark.parametrize(("state", "story"), DELIVERED.items())
def test_what_is_delivered_never_expires(state: str, story: Story) -> None:
    for at in (4, 61, 121, DAY, WEEK):
        assert (story.state(at), story.at(at).group) == (state, Group.DELIVERED)
    assert story.deadline(10) is None


def test_thinking_is_believed_for_a_minute_and_then_only_guessed() -> None:
    story = working()

    assert [story.at(at).confidence for at in (59, 61)] == [0.9, 0.4]
    assert story.state(61) == "thinking"


def test_acting_is_believed_for_a_minute_or_the_tools_own_time_out() -> None:
    short, long = working().start(1), working().start(1, timeout_ms=600_000)

    assert [short.state(at) for at in (60, 62)] == ["acting", "thinking"]
    assert [long.state(at) for at in (62, 600, 602)] == ["acting", "acting", "stuck"]


def test_delegating_lasts_while_a_child_shows_life() -> None:
    story = working().start(1, tool="Agent").tell(s.ChildStarted, 1.1, child_id="a1")
    for at in range(60, 900, 60):
        story.tell(s.Alive, at, source="transcript", agent_id="a1")

    assert story.state(899) == "delegating"
    assert story.finish(900, tool="Agent", child_id="a1").state(901) == "thinking"


def test_compacting_is_believed_for_ten_minutes() -> None:
    story = working().stop(1).tell(s.CompactionStarted, 2, trigger="manual")

    assert [story.state(at) for at in (600, 603)] == ["compacting", "idle"]


@pytest.mark.parametrize("grace", [0, 10_000, 60_000])
def test_retrying_is_believed_for_its_grace(grace: int) -> None:
    story = working().start(1).finish(2, ok=False, error="Exit code 1")
    limits = Limits(error_grace=grace)
    end = 2 + grace / 1_000

    assert story.at(end, limits).state == "error"
    if grace:
        assert story.at(end - 0.001, limits).state == "retrying"


def test_background_work_is_waited_for_while_there_is_evidence_of_it() -> None:
    agent = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)
    shell = working().tell(s.ChildStarted, 1, child_id="b1", child_kind="shell").stop(2)

    assert [agent.state(at) for at in (300, 303)] == ["waiting_for_agent", "idle"]
    assert shell.state(DAY) == "waiting_for_agent"


def test_queued_is_believed_for_a_minute() -> None:
    story = working().prompt(1, text="and this").stop(3)

    assert [story.state(at) for at in (62, 64)] == ["queued", "idle"]


def test_stuck_lasts_until_the_next_sign_of_life() -> None:
    story = working()
    assert story.state(DAY) == "stuck"

    for witness in ("hook", "transcript", "registry", "process", "statusline"):
        alive = working().tell(s.Alive, DAY, source=witness)
        assert alive.state(DAY + 1) == "thinking"


def test_no_state_says_that_it_began_later_than_now() -> None:
    for story in [*BLOCKED.values(), *DELIVERED.values()]:
        assert T0 <= story.at(10).since <= T0 + 10_000
