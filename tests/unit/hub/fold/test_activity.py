"""Activity: every event once, however many witnesses tell of it, in words a person can read."""

from __future__ import annotations

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.fold.activity import SAME_MS
from adsum_shared import signals as s
from tests.story import T0, Story, working


def told(story: Story) -> list[tuple[str, str]]:
    return [(entry.kind, entry.text) for entry in story.told().activity]


def times(story: Story) -> list[float]:
    return [(entry.at - T0) / 1000 for entry in story.told().activity]


def test_a_prompt_seen_by_hook_and_transcript_is_one_entry_at_the_earlier_time() -> None:
    story = Story().prompt(1.2, text="fix it").prompt(1, text="fix it", source="transcript")

    assert told(story) == [("prompt.submitted", "fix it")]
    assert times(story) == [1.0]


def test_the_fuller_of_two_texts_is_kept_whichever_comes_first() -> None:
    hook_first = Story().stop(5, last_message="All done.").stop(5.1, source="transcript")
    line_first = Story().stop(5.1, source="transcript").stop(5, last_message="All done.")

    assert told(hook_first) == told(line_first) == [("turn.ended", "All done.")]
    assert times(hook_first) == times(line_first) == [5.0]


def test_two_prompts_of_one_text_further_apart_are_two() -> None:
    apart = SAME_MS / 1000 + 0.1
    story = Story().prompt(1, text="go on").stop(1.5).prompt(1 + apart, "p2", text="go on")

    assert [kind for kind, _ in told(story)] == [
        "prompt.submitted",
        "turn.ended",
        "prompt.submitted",
    ]


def test_two_prompts_of_other_texts_are_two_however_close() -> None:
    story = Story().prompt(1, text="stop").prompt(1.5, "p2", text="go on")

    assert len(told(story)) == 2


def test_a_turns_end_told_again_much_later_by_its_length_is_one_entry() -> None:
    """The user's own Stop hooks run in between."""
    story = working().stop(5, last_message="Done.", source="transcript")
    story.tell(s.ProcessSeen, 6, pid=7, source="process").stop(30, source="transcript")

    assert told(story)[1:] == [("turn.ended", "Done.")]


def test_the_ends_of_two_turns_are_two_entries() -> None:
    story = working().stop(5, last_message="Done.").prompt(10, "p2", text="more")
    story.stop(20, "p2", last_message="Done.")

    assert [kind for kind, _ in told(story)].count("turn.ended") == 2


def test_the_start_of_a_session_told_by_its_first_line_much_later_is_one_entry() -> None:
    story = Story().tell(s.SessionStarted, 0).tell(s.SessionStarted, 60, source="transcript")
    story.prompt(60.1, text="hello")

    assert told(story) == [("session.started", "startup"), ("prompt.submitted", "hello")]


def test_equal_calls_at_one_instant_are_all_listed() -> None:
    story = Story().start(1, "t1", summary="make").start(1, "t2", summary="make")
    story.start(1.05, "t1", summary="make", source="transcript").finish(2, "t1").finish(2, "t2")

    assert [kind for kind, _ in told(story)] == ["tool.started"] * 2 + ["tool.finished"] * 2


def test_a_call_whose_finish_came_first_is_listed_with_its_start() -> None:
    story = working().finish(2).start(1, source="transcript")

    assert [kind for kind, _ in told(story)] == [
        "prompt.submitted",
        "tool.started",
        "tool.finished",
    ]


def test_a_question_has_three_witnesses_and_one_entry() -> None:
    story = working().start(1, tool="AskUserQuestion", summary="Which?")
    for at, source in ((1, "hook"), (1.1, "transcript")):
        story.ask(at, "question", tool="AskUserQuestion", tool_use_id="t1", source=source)
    story.ask(1.3, "question", tool="AskUserQuestion", digest="AskUserQuestion t1")

    assert [kind for kind, _ in told(story)].count("request.opened") == 1


def test_a_permission_asked_again_for_another_call_is_another_entry() -> None:
    story = working().start(1, "t1").ask(1.1, name="t1").finish(4, "t1")
    story.start(5, "t2").ask(5.1, name="t2")

    assert [kind for kind, _ in told(story)].count("request.opened") == 2


def test_a_child_starts_once_and_ends_once_and_goes_by_its_description() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1", type="Explore")
    story.tell(
        s.ChildStarted, 1.2, child_id="a1", description="Find the tests", source="transcript"
    )
    story.start(2, "t1", agent_id="a1").finish(3, "t1", agent_id="a1")
    story.stop(9, agent_id="a1", source="transcript")
    story.tell(s.ChildFinished, 9.2, child_id="a1")
    story.tell(s.ChildFinished, 40, child_id="a1", notified=True)

    assert told(story)[1:] == [
        ("child.started", "Find the tests"),
        ("tool.started", "Bash"),
        ("tool.finished", "Bash"),
        ("child.finished", "Find the tests: completed"),
    ]
    assert {entry.agent_id for entry in story.told().activity[1:]} == {"a1"}


def test_a_child_sent_on_its_way_again_starts_again() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").tell(s.ChildFinished, 9, child_id="a1")
    story.tell(s.ChildStarted, 60, child_id="a1").tell(
        s.ChildStarted, 1.1, child_id="a1", source="transcript"
    )

    assert [kind for kind, _ in told(story)[1:]] == [
        "child.started",
        "child.finished",
        "child.started",
    ]


def test_children_that_start_at_one_instant_are_told_apart() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").tell(s.ChildStarted, 1, child_id="a2")

    assert [kind for kind, _ in told(story)].count("child.started") == 2


def test_all_subagents_killed_at_once_is_one_entry() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1")
    story.tell(s.ChildFinished, 2, child_id=s.ALL_CHILDREN, status="killed", source="transcript")

    assert told(story)[-1] == ("child.finished", "all subagents: killed")


def test_retries_are_counted() -> None:
    story = working()
    for attempt in (1, 2):
        story.tell(s.RetryScheduled, attempt, attempt=attempt, max=10, source="transcript")

    assert told(story)[1:] == [
        ("retry.scheduled", "attempt 1 of 10"),
        ("retry.scheduled", "attempt 2 of 10"),
    ]


def test_what_a_queue_and_closed_books_say_is_not_listed() -> None:
    """Every headless prompt goes through the queue, and each run writes its cost report before its end."""
    story = Story().tell(s.PromptSubmitted, 0.9, origin="queued", source="transcript")
    story.prompt(1, text="go").tell(s.PromptDequeued, 1, source="transcript")
    story.stop(5, last_message="Done.")
    story.tell(s.SessionEnded, 5.1, reason="run_over", source="transcript")
    story.tell(s.SessionEnded, 6, reason="other")

    assert told(story) == [
        ("prompt.submitted", "go"),
        ("turn.ended", "Done."),
        ("session.ended", "other"),
    ]


def test_the_end_of_a_session_bears_the_hooks_reason() -> None:
    story = Story().tell(s.SessionEnded, 5, source="registry")
    story.tell(s.SessionEnded, 6.3, reason="prompt_input_exit")

    assert told(story) == [("session.ended", "prompt_input_exit")]


def test_a_merged_entry_moves_to_its_earlier_place() -> None:
    story = Story().start(1).prompt(1.5, text="go").prompt(0.5, text="go", source="transcript")

    assert [kind for kind, _ in told(story)] == ["prompt.submitted", "tool.started"]


def test_a_witness_that_adds_nothing_leaves_the_entries_as_they_are() -> None:
    story = Story().prompt(1, text="go")
    held = story.told().activity

    story.prompt(1.2, text="go", source="transcript")

    assert story.told().activity is held


def test_a_call_that_a_human_stopped_did_not_fail() -> None:
    story = working().start(1).finish(2, ok=False, denied=True, error="The user doesn't want")
    story.start(3, "t2").finish(4, "t2", ok=False, is_interrupt=True, error="Exit code 137")

    ends = [text for kind, text in told(story) if kind == "tool.finished"]
    assert ends == ["Bash: refused", "Bash: interrupted"]


def test_a_text_that_is_cut_says_so() -> None:
    long = "word " * 90
    story = Story().prompt(1, text=long).prompt(1.1, text=long, source="transcript")

    [(_, text)] = told(story)
    assert (len(text), text[-1]) == (400, "…")


def test_the_activity_survives_the_snapshot() -> None:
    facts = working().start(1, agent_id="a1").stop(3).told()

    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts).activity == facts.activity


def test_a_finished_call_is_named_by_whichever_witness_knows_its_name() -> None:
    late = working().finish(2, tool="tool", source="transcript").finish(2.1)
    early = working().finish(2).finish(2.1, tool="tool", source="transcript")
    begun = working().finish(2, tool="tool", source="transcript").start(1)

    for story in (late, early, begun):
        assert told(story)[-1] == ("tool.finished", "Bash")


def test_a_finished_call_that_nobody_can_name_is_told_without_a_name() -> None:
    assert told(working().finish(2, tool="tool"))[1:] == [("tool.finished", "")]
