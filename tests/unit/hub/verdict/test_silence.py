"""What silence means, what is known of a session found late, and readings that were rejected."""

from __future__ import annotations

from adsum_shared import signals as s
from tests.story import Story, working

# -- the states of the model ---------------------------------------------------------------------


# -- rule 6: silence -----------------------------------------------------------------------------


def test_after_a_minute_the_hooks_word_is_worth_less() -> None:
    story = working()

    assert story.at(59).confidence == 0.9
    assert (story.at(60).confidence, story.at(60).source) == (0.4, "fallback")
    assert story.deadline(1) == 60


def test_a_tool_may_be_silent_for_as_long_as_its_own_time_out() -> None:
    story = working().start(1, timeout_ms=600_000)

    assert story.state(600) == "acting"
    assert story.state(601) == "stuck"


def test_a_background_tool_excuses_no_silence() -> None:
    story = still(working().start(1, timeout_ms=0), 121)

    assert story.state(122) == "stuck"


def still(story: Story, at: float, *, connected: bool | None = True) -> Story:
    return story.tell(s.ProcessStill, at, source="process", connected=connected)


def test_a_silence_at_which_nobody_has_looked_lasts_as_long_as_the_cli_bears_it() -> None:
    story = still(working(), 119)

    assert [story.state(at) for at in (120, 299, 300)] == ["thinking", "thinking", "stuck"]
    assert story.label(300) == "No sign of life for 5 min"
    assert story.deadline(299) == 300


def test_a_process_found_still_is_stuck_and_the_cause_is_said() -> None:
    found = still(working(), 120)
    gone = still(working(), 150, connected=False)

    assert found.at(120).since == gone.at(150).since
    assert found.label(180) == "Nothing from the model for 3 min, connection open"
    assert gone.label(180) == "Nothing from the model for 3 min, no connection"


def test_where_the_system_does_not_tell_what_comes_in_no_connection_is_named() -> None:
    story = still(working(), 130, connected=None)

    assert [story.state(at) for at in (119, 131)] == ["thinking", "stuck"]
    assert story.label(131) == "No sign of life for 2 min"


def test_a_process_found_still_before_its_clock_says_so_is_not_stuck_yet() -> None:
    assert still(working(), 130).state(119) == "thinking"


def test_a_model_that_thinks_for_ten_minutes_and_is_heard_of_is_not_stuck() -> None:
    story = working()
    for at in range(30, 600, 60):  # one ping in a minute, and nothing in the half minute after it
        still(story.tell(s.Alive, at, source="process", event="wire"), at + 30)

    assert {story.state(at) for at in range(30, 600, 5)} == {"thinking"}


def test_a_look_at_a_process_is_no_sign_of_life_and_may_come_late() -> None:
    story = still(still(working(), 150), 121)

    assert story.told().updated_at == working().told().updated_at
    assert story.told().still == still(working(), 150).told().still
    assert story.tell(s.Alive, 151, source="process", event="wire").state(152) == "thinking"


def test_a_call_that_may_take_its_time_is_not_stuck_however_still_its_process() -> None:
    story = still(working().start(1, timeout_ms=600_000), 500)

    assert story.state(600) == "acting"
    assert still(story, 601).label(601) == "No sign of life for 10 min"


def test_a_retry_may_wait_for_as_long_as_it_has_said() -> None:
    story = working().tell(s.RetryScheduled, 1, source="transcript", attempt=1, in_ms=400_000)

    assert still(story, 400).state(400) == "retrying"
    assert still(story, 410).state(410) == "stuck"
    assert still(story.start(411).finish(412), 540).state(540) == "stuck"


def test_a_subagents_tool_excuses_its_parents_silence() -> None:
    story = working().start(1, tool="Agent").start(2, "t2", agent_id="a1", timeout_ms=300_000)

    assert story.state(290) == "delegating"


def test_any_sign_of_life_ends_stuck() -> None:
    story = working()
    assert story.state(500) == "stuck"

    assert story.tell(s.Alive, 501, source="process").state(502) == "thinking"


def test_a_human_who_takes_an_hour_is_not_forgotten() -> None:
    story = working().start(1).ask(1.1)

    assert story.state(3_600) == "needs_permission"
    assert story.deadline(2) is None


# -- rule 7 --------------------------------------------------------------------------------------


def test_found_but_not_yet_read_is_discovered() -> None:
    story = Story().tell(s.ProcessSeen, 0, source="process", pid=7)

    found = story.at(1)
    assert (found.state, found.label, found.confidence) == ("thinking", "Discovered…", 0.3)


# -- rejected readings ---------------------------------------------------------------------------


def test_an_answered_question_awaits_nothing() -> None:
    story = (
        working().start(1, tool="AskUserQuestion").finish(9, tool="AskUserQuestion", answered=True)
    )

    assert story.state(10) == "thinking"


def test_a_question_never_seen_to_ask_and_without_answers_awaits_input() -> None:
    story = working().finish(9, tool="AskUserQuestion")
    assert story.state(10) == "awaiting_input"

    assert story.start(11, "t2").state(12) == "acting"


def test_notification_hooks_drive_no_state() -> None:
    story = working().stop(2).prompt(60, "p2")
    story.tell(s.Alive, 62, event="Notification", note="idle_prompt")
    assert story.state(63) == "thinking"

    noted = [entry.text for entry in story.told().activity]
    assert "Notification: idle_prompt" in noted


def test_a_stop_does_not_end_children() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)

    assert story.children(3) == {"a1": "running"}


def test_a_finished_agent_sent_on_its_way_again_runs() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").tell(s.ChildFinished, 5, child_id="a1")
    story.start(20, "t5", agent_id="a1")

    assert story.children(21) == {"a1": "running"}


def test_prompts_without_stops_do_not_add_up() -> None:
    story = working().prompt(1).prompt(2).prompt(3).tell(s.PromptDequeued, 4).stop(5)

    assert story.state(6) == "idle"


def test_an_error_outlives_silence_with_its_cause_its_urgency_and_its_mark() -> None:
    story = working().start(1).finish(2, ok=False, error="Exit code 1")

    for at in (13, 130, 7_200):
        error = story.at(at)
        assert (error.state, error.label) == ("error", "Failed: Bash: Exit code 1")
        assert story.unread(at)
    assert story.start(7_300, "t2").state(7_301) == "acting"
