"""Unread: what has called for a human since the last answer, and nothing else, is marked."""

from __future__ import annotations

import pytest

from adsum_shared import signals as s
from tests.story import Story, working


def test_until_a_human_looks_or_types() -> None:
    story = working()
    assert not story.unread(0.5)

    story.start(1).ask(1.1)
    assert story.unread(1.5)
    assert not story.decided(2, "control.read").unread(2.5)

    story.finish(3).stop(4)
    assert story.unread(4.5)
    assert not story.prompt(5, "p2").unread(5.5)


def test_ready_and_stuck_are_not() -> None:
    assert not Story().tell(s.SessionStarted, 0).status(0.1, "idle").unread(5)
    assert working().state(301) == "stuck"
    assert not working().unread(301)


def test_a_second_question_after_a_look_is() -> None:
    story = working().start(1).ask(1.1).decided(2, "control.read")
    story.start(3, "t2", agent_id="a1").ask(3.1, name="t2", agent_id="a1")

    assert story.unread(4)


def test_a_failure_that_was_not_recovered_from_is_and_one_in_its_grace_is_not() -> None:
    story = working().start(1).finish(2, ok=False, error="exit 1")

    assert (story.state(5), story.unread(5)) == ("retrying", False)
    assert (story.state(13), story.unread(13)) == ("error", True)


def test_a_question_that_only_its_own_end_tells_of_is() -> None:
    story = working().tell(
        s.ToolFinished, 5, tool="AskUserQuestion", tool_use_id="q", prompt_id="p1"
    )

    assert (story.state(9), story.unread(9)) == ("awaiting_input", True)


def test_a_delivery_is() -> None:
    story = working().tell(s.TaskCreated, 1, task_id="1", subject="x", prompt_id="p1")
    story.tell(s.TaskCompleted, 2, task_id="1", subject="x", prompt_id="p1").stop(5)

    assert (story.state(9), story.unread(9)) == ("task_complete", True)


def test_an_end_beside_a_child_that_nobody_saw_end_is() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(20)
    assert not story.unread(21)

    assert (story.state(400), story.unread(400)) == ("idle", True)


@pytest.mark.parametrize("background", [[s.BackgroundTask("x", "agent")], None])
def test_an_end_with_work_left_in_the_background_is_not(
    background: list[s.BackgroundTask] | None,
) -> None:
    story = working().tell(s.ChildStarted, 1, child_id="x").stop(2, background=background)

    assert not story.unread(3)


def test_an_end_beside_a_shell_that_only_the_registry_knows_is_not() -> None:
    story = working().status(0.5, "busy").stop(2).status(2.1, "shell")

    assert (story.state(4), story.unread(4)) == ("waiting_for_agent", False)


def test_a_subagent_that_wakes_its_parent_at_once_leaves_nothing_to_look_at() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)
    story.tell(s.ChildFinished, 9, child_id="a1")
    assert not story.unread(10)

    story.prompt(10.5, "p2", origin="task")
    assert (story.state(11), story.unread(11)) == ("thinking", False)


def test_a_rest_is_remembered_by_one_that_its_own_task_has_woken() -> None:
    story = working().stop(2)
    story.prompt(60, "p2", origin="task")

    assert (story.state(61), story.unread(61)) == ("thinking", True)
    assert not story.decided(62, "control.read").unread(63)


def test_a_rest_is_remembered_by_one_that_goes_on_with_a_tool() -> None:
    story = working().stop(2).start(60)

    assert (story.state(61), story.unread(61)) == ("acting", True)


def test_a_rest_is_remembered_beside_a_child_that_nobody_saw_end() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").prompt(400, "p2").stop(402, "p2")
    story.prompt(460, "p3", origin="task")

    assert (story.state(461), story.unread(461)) == ("thinking", True)


def test_a_rest_that_began_when_a_child_was_done_is_remembered() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)
    story.tell(s.ChildFinished, 9, child_id="a1")
    story.prompt(60, "p2", origin="task")

    assert (story.state(61), story.unread(61)) == ("thinking", True)


def test_what_it_had_to_say_before_it_ended_is() -> None:
    story = working().stop(2).tell(s.SessionEnded, 3, reason="other")
    assert (story.state(4), story.unread(4)) == ("session_ended", True)

    asked = working().start(1).ask(1.1).tell(s.SessionEnded, 3, reason="other")
    assert asked.unread(4)


@pytest.mark.parametrize("reason", ["prompt_input_exit", "clear"])
def test_who_ends_a_session_has_seen_what_it_had_to_say(reason: str) -> None:
    story = working().stop(2).tell(s.SessionEnded, 3, reason=reason)

    assert (story.state(4), story.unread(4)) == ("session_ended", False)


def test_an_end_in_the_middle_of_its_work_is_not() -> None:
    assert not working().start(1).tell(s.SessionEnded, 3, reason="other").unread(4)
