"""Of several calls of one answer each begins when those before it have ended: so do its requests."""

from __future__ import annotations

import pytest

from tests.story import Story, working


def written(
    story: Story, at: float, kind: str = "question", tool: str = "AskUserQuestion"
) -> Story:
    """The transcript's line of a call q1 that asks."""
    about = {"source": "transcript", "tool": tool}
    story.start(at, "q1", **about)
    return story.ask(at, kind, "q1", tool_use_id="q1", **about)


@pytest.mark.parametrize(
    ("kind", "tool", "state"),
    [
        ("question", "AskUserQuestion", "awaiting_input"),
        ("plan", "ExitPlanMode", "awaiting_approval"),
    ],
)
def test_a_question_behind_a_call_of_its_message_is_asked_when_that_has_ended(
    kind: str, tool: str, state: str
) -> None:
    story = written(working().start(1), 1.1, kind, tool)

    assert {story.state(at) for at in (1.1, 20, 60)} == {"acting"}
    assert story.asked(20) == []
    assert story.finish(30).state(30) == state


def test_a_permission_stands_before_the_question_behind_it() -> None:
    story = written(working().start(1), 1.1).ask(1.3)

    assert (story.state(2), story.asked(2)) == ("needs_permission", ["permission"])
    assert story.finish(5).state(5) == "awaiting_input"


def test_a_question_beside_a_call_is_asked_once_its_own_hook_comes() -> None:
    story = written(working().start(1), 1.1).start(2, "q1", "AskUserQuestion")

    assert story.state(2) == "awaiting_input"


def test_without_hooks_a_question_beside_a_call_is_asked_at_once() -> None:
    story = written(working().start(1, source="transcript"), 1.1)

    assert story.state(1.1) == "awaiting_input"


def test_a_subagents_call_does_not_keep_the_main_agents_question() -> None:
    story = written(working().start(1, agent_id="a1"), 1.1)

    assert story.state(1.1) == "awaiting_input"


def test_the_registry_masks_a_question_by_when_its_call_began() -> None:
    """It was `busy` all the while that the call before it ran."""
    story = written(working().status(0.1, "waiting", "permission prompt").status(0.5, "busy"), 1.1)
    story.start(12, "q1", "AskUserQuestion")

    assert {story.state(at) for at in (12, 12.9)} == {"awaiting_input"}
    assert story.state(13) == "acting"
