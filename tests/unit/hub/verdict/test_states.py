"""Every state of the operator's model, every numbered rule, and what was rejected."""

from __future__ import annotations

import pytest

from adsum_hub.verdict.reading import Limits
from adsum_shared import signals as s
from adsum_shared.state import Group
from tests.story import T0, Story, working

# -- the states of the model ---------------------------------------------------------------------


def test_needs_permission_names_the_tool() -> None:
    story = working().start(1).ask(1.1)

    found = story.at(60)
    assert (found.group, found.state, found.label) == (
        Group.NEEDS_YOU,
        "needs_permission",
        "Needs permission: Bash",
    )
    assert (found.source, found.confidence, found.since) == ("hook", 1.0, T0 + 1_100)


def test_awaiting_input_while_a_question_is_open() -> None:
    story = working().start(1, tool="AskUserQuestion")
    story.ask(1, "question", tool="AskUserQuestion", tool_use_id="t1")

    assert (story.state(200), story.label(200)) == ("awaiting_input", "Asked you a question")


def test_awaiting_approval_while_a_plan_is_open() -> None:
    story = working().start(1, tool="ExitPlanMode").ask(1.1, "plan", tool="ExitPlanMode")

    assert (story.state(9_000), story.label(9_000)) == (
        "awaiting_approval",
        "Plan ready for review",
    )


def test_error_after_a_turn_that_failed() -> None:
    story = working().tell(s.TurnFailed, 3, prompt_id="p1", error="rate_limit")

    assert (story.state(4), story.label(4)) == ("error", "Failed: rate limit")


def test_budget_exceeded_until_a_human_answers() -> None:
    story = working().decided(1, "budget.exceeded", spent=5.5, limit=5)
    assert (story.state(2), story.label(2)) == ("budget_exceeded", "Over budget: $5.50 of $5.00")

    story.decided(3, "control.budget")
    assert story.state(4) == "thinking"


def test_stuck_after_two_minutes_of_silence() -> None:
    """Of witnesses, and of the process: nobody has looked at the other's."""
    story, unseen = working().tell(s.ProcessStill, 120, connected=False), working()

    assert story.state(119) == "thinking"
    said = "Nothing from the model for 2 min, no connection"
    assert (story.state(120), story.label(120)) == ("stuck", said)
    assert (unseen.state(299), unseen.label(300)) == ("thinking", "No sign of life for 5 min")
    assert unseen.label(3_700) == "No sign of life for 60 min"


def test_idle_after_a_turn_and_ready_before_the_first() -> None:
    fresh = Story().tell(s.SessionStarted, 0)
    assert (fresh.state(1), fresh.label(1)) == ("idle", "Ready")

    done = working().stop(3, last_message="Done.")
    assert (done.state(9), done.label(9)) == ("idle", "Waiting for your next prompt")


def test_thinking_while_nothing_else_is_known_of_a_turn() -> None:
    story = working()

    assert (story.state(1), story.label(1)) == ("thinking", "Generating response…")


def test_acting_names_tool_and_summary() -> None:
    story = working().start(1, summary="make test")

    assert (story.state(2), story.label(2)) == ("acting", "Running Bash: make test")
    about = {"tool": "Bash", "role": "shell", "summary": "make test"}
    assert story.at(2).context == about


def test_delegating_while_a_subagent_runs_in_the_foreground() -> None:
    story = working().start(1, tool="Agent").tell(s.ChildStarted, 1.1, child_id="a1")
    story.start(2, name="t2", agent_id="a1")

    assert (story.state(3), story.label(3)) == ("delegating", "Running 1 subagent")


def test_compacting_between_its_hooks() -> None:
    story = working().stop(1).tell(s.CompactionStarted, 2, trigger="manual")
    assert story.state(3) == "compacting"

    story.tell(s.CompactionFinished, 4)
    assert story.state(5) == "idle"


def test_retrying_while_the_api_is_asked_again() -> None:
    story = working().tell(s.RetryScheduled, 1, source="transcript", attempt=2, max=10)

    assert (story.state(2), story.label(2)) == ("retrying", "API retry 2 of 10")


def test_waiting_for_agent_after_a_stop_with_a_child_alive() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1", description="Look around")
    story.stop(2, background=[s.BackgroundTask("a1")])

    assert story.state(3) == "waiting_for_agent"
    assert story.label(3) == "Background work: Look around"


def test_queued_after_a_stop_with_a_prompt_typed_meanwhile() -> None:
    story = working().prompt(1, text="and this").stop(3)

    assert (story.state(4), story.label(4)) == ("queued", "Prompt queued")


def test_task_complete_once_the_turn_with_the_last_task_ends() -> None:
    story = working().tell(s.TaskCreated, 1, task_id="1", subject="Add the button")
    story.tell(s.TaskCompleted, 2, task_id="1").stop(3)

    assert (story.state(4), story.label(4)) == ("task_complete", "Finished: Add the button")
    assert story.at(4).group is Group.DELIVERED


def test_session_ended_keeps_the_reason() -> None:
    story = working().tell(s.SessionEnded, 5, reason="clear")

    assert (story.state(6), story.label(6)) == ("session_ended", "Session closed (cleared)")
    assert story.at(6).context == {"reason": "clear"}


def test_it_has_not_ended_while_the_users_own_hooks_on_clear_run() -> None:
    story = working().stop(2).status(2.1, "idle").status(4.9, "busy")
    story.tell(s.SessionEnded, 5, reason="clear")

    assert {story.state(at) for at in (5.2, 9, 64.9)} == {"thinking"}
    assert story.deadline(9) == 65
    assert story.state(65) == "session_ended"
    story.tell(s.SessionEnded, 9, source="registry", reason="left")
    assert story.state(9) == "session_ended"


@pytest.mark.parametrize(("stamp", "reason"), [(0.1, "clear"), (4.9, "prompt_input_exit")])
def test_a_busy_of_the_turn_before_or_of_exit_keeps_no_session(stamp: float, reason: str) -> None:
    story = working().stop(2).status(stamp, "busy").tell(s.SessionEnded, 5, reason=reason)

    assert story.state(5) == "session_ended"


def test_suspended_if_we_ended_it_ourselves() -> None:
    story = working().stop(2).tell(s.SessionSuspended, 3, by="ann").tell(s.SessionEnded, 3.5)

    assert (story.state(4), story.label(4)) == ("suspended", "Suspended; resumable")
    assert (
        story.tell(s.SessionStarted, 60, reason="resume").prompt(61, "p2").state(62) == "thinking"
    )


def test_a_suspended_session_that_was_resumed_and_left_has_ended() -> None:
    """Its user took it up again in a terminal and typed /exit: nothing puts it aside any more."""
    story = working().tell(s.ProcessSeen, 0.5, pid=7, started=T0).stop(2)
    story.tell(s.SessionSuspended, 3).tell(s.ProcessGone, 3.2, pid=7, started=T0)
    assert story.state(4) == "suspended"

    story.tell(s.ProcessSeen, 60, pid=8, started=T0 + 59_000)
    assert story.state(61) == "idle"
    assert story.tell(s.SessionEnded, 70, reason="prompt_input_exit").state(71) == "session_ended"


@pytest.mark.parametrize("later", [0.0, 1.0])
def test_a_suspension_that_was_taken_back_is_none(later: float) -> None:
    """Somebody typed while it was told, and left then."""
    story = working().stop(2).tell(s.SessionSuspended, 3 + later, undone=True)
    story.tell(s.SessionSuspended, 3).tell(s.SessionEnded, 9)

    assert story.state(10) == "session_ended"


@pytest.mark.parametrize("ended_first", [True, False])
def test_a_suspension_that_arrives_before_or_after_the_end_says_the_same(ended_first: bool) -> None:
    told = [(s.SessionSuspended, 3.0), (s.SessionEnded, 3.1)]
    story = working().stop(2)
    for kind, at in reversed(told) if ended_first else told:
        story.tell(kind, at)

    assert story.state(4) == "suspended"


def test_a_session_that_lives_is_not_suspended_for_having_been_told_so() -> None:
    """The signal is on disk before the process is ended, and that may fail."""
    assert working().stop(2).tell(s.SessionSuspended, 3).state(4) == "idle"


def test_archived_until_the_next_signal() -> None:
    story = working().stop(2).decided(3, "control.dismissed")
    assert (story.state(9), story.label(9)) == ("archived", "Dismissed")
    assert story.tell(s.Alive, 10, source="statusline").state(11) == "archived"

    assert story.prompt(12, "p2").state(13) == "thinking"


def test_unknown_when_nothing_is_known() -> None:
    story = Story().tell(s.MetaChanged, 0, cwd="/x")

    found = story.at(1)
    assert (found.state, found.label) == ("unknown", "Status unavailable")
    assert (found.confidence, found.source) == (0.0, "fallback")


# -- rule 1: over for good -----------------------------------------------------------------------


def test_a_process_gone_ends_the_session_whatever_it_was_doing() -> None:
    story = working().tell(s.ProcessSeen, 0, source="process", pid=7, started=T0 - 9_000)
    story.start(1).tell(s.ProcessGone, 5, source="process", pid=7, started=T0 - 9_000)

    assert (story.state(6), story.at(6).source) == ("session_ended", "process")


def test_a_hook_stamped_late_does_not_revive_a_killed_session() -> None:
    story = working().tell(s.ProcessSeen, 0, pid=7).tell(s.ProcessGone, 5, pid=7).start(6.4)

    assert story.state(7) == "session_ended"
    assert story.start(6.6, "t2").state(7) == "acting"


def test_an_earlier_process_gone_ends_nothing() -> None:
    story = working().tell(s.ProcessSeen, 0, pid=7, started=T0 - 9_000)
    story.tell(s.ProcessSeen, 60, pid=8, started=T0 + 59_000).prompt(61, "p2")
    story.tell(s.ProcessGone, 62, pid=7, started=T0 - 9_000)

    assert story.state(63) == "thinking"


def test_only_openers_lift_an_end() -> None:
    story = working().start(1).tell(s.SessionEnded, 2)
    assert story.finish(3).stop(3.1).state(4) == "session_ended"

    assert story.prompt(10, "p2").state(11) == "thinking"


def test_the_registry_takes_its_word_back_by_naming_the_session_again() -> None:
    story = working().status(0.1, "busy").tell(s.SessionEnded, 5, source="registry", reason="gone")
    assert story.state(6) == "session_ended"

    assert story.status(0.1, "busy", seen=T0 + 7_000).state(8) == "thinking"


def test_a_resume_revives_and_leaves_the_old_turn_interrupted() -> None:
    story = working().start(1).ask(1.1).tell(s.SessionEnded, 5)
    story.tell(s.SessionStarted, 60, reason="resume")

    assert (story.state(61), story.label(61)) == ("idle", "Interrupted")
    assert story.asked(61) == []


def test_a_startup_alone_begins_no_run() -> None:
    story = working().start(1).tell(s.SessionStarted, 2, reason="startup")

    assert story.state(3) == "acting"


def test_a_new_start_time_begins_a_run_even_under_the_same_pid() -> None:
    story = working().tell(s.ProcessSeen, 0, pid=7, started=T0 - 1_000).start(1)
    story.tell(s.ProcessSeen, 100, pid=7, started=T0 + 99_000)

    assert (story.state(101), story.label(101)) == ("idle", "Interrupted")


def test_two_measurements_of_one_start_are_one_process() -> None:
    story = working().tell(s.ProcessSeen, 0, pid=7, started=T0 - 1_000).start(1)
    story.tell(s.ProcessSeen, 4, pid=7, started=T0 + 2_500)

    assert story.state(5) == "acting"


# -- rule 2: requests ----------------------------------------------------------------------------


def test_a_request_is_sticky_against_everything_that_is_not_its_own() -> None:
    story = working().start(1).ask(1.1).start(1.2, "t2").finish(1.3, "t2")
    story.start(1.4, "t3", agent_id="a1").finish(1.5, "t3", agent_id="a1")
    story.tell(s.Alive, 1.6, source="transcript").tell(s.Alive, 1.7, source="statusline")
    story.tell(s.Alive, 8, event="Notification", note="permission_prompt")

    assert story.state(3_600) == "needs_permission"
    assert story.asked(3_600) == ["permission"]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (s.ToolFinished, {"tool": "Bash", "tool_use_id": "t1"}),
        (s.ToolFinished, {"tool": "Bash", "tool_use_id": "t1", "ok": False, "denied": True}),
        (s.TurnEnded, {"prompt_id": "p1"}),
        (s.TurnInterrupted, {"prompt_id": "p1", "source": "transcript"}),
        (s.TurnFailed, {"prompt_id": "p1"}),
        (s.PromptSubmitted, {"prompt_id": "p2"}),
        (s.RequestClosed, {"tool_use_id": "t1"}),
        (s.SessionStarted, {"reason": "resume"}),
    ],
)
def test_a_request_is_over_with_its_own_end(kind: type, data: dict[str, object]) -> None:
    story = working().start(1).ask(1.1).tell(kind, 5, **data)

    assert story.asked(6) == []
    assert story.state(6) not in ("needs_permission", "session_ended")


def test_of_several_requests_the_one_asked_for_first_is_shown() -> None:
    """The others stand behind it, however urgent."""
    story = working().start(1, tool="ExitPlanMode").ask(1.1, "plan", tool="ExitPlanMode")
    story.start(2, "t2", agent_id="a1").ask(2.1, name="t2", agent_id="a1")

    assert story.state(3) == "awaiting_approval"
    assert story.asked(3) == ["plan", "permission"]
    assert story.finish(4, tool="ExitPlanMode").state(4) == "needs_permission"


def test_a_servers_form_stands_back_behind_a_permission_asked_for_later() -> None:
    story = working().tell(s.RequestOpened, 1, request_kind="dialog", request_id="elicitation:db")

    assert story.start(2).ask(2.1).state(3) == "needs_permission"


def test_a_background_report_joining_the_turn_closes_no_request() -> None:
    story = working().start(1).ask(1.1).prompt(3, "p1", origin="system")
    assert story.state(4) == "needs_permission"

    assert story.prompt(5, "p2", origin="system").state(6) == "needs_permission"


def test_a_subagents_request_outlives_its_parents_stop() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").start(2, "t2", agent_id="a1")
    story.ask(2.1, name="t2", agent_id="a1").stop(2.5, background=[s.BackgroundTask("a1")])
    assert story.state(3) == "needs_permission"

    story.prompt(4, "p2")
    assert story.state(5) == "needs_permission"

    story.tell(s.ChildFinished, 6, child_id="a1")
    assert story.state(7) == "thinking"


def test_a_decision_of_ours_closes_the_request_it_answers() -> None:
    story = working().start(1).ask(1.1, request_id="r1")
    story.tell(s.RequestClosed, 2, request_id="r1")

    assert story.state(3) == "acting"


def test_an_mcp_servers_dialog_opens_and_closes_again_and_again() -> None:
    story = working()
    for at in (1, 5):
        story.tell(s.RequestOpened, at, request_kind="dialog", request_id="elicitation:db")
        assert (story.state(at + 1), story.label(at + 1)) == ("awaiting_input", "A dialog is open")
        story.tell(s.RequestClosed, at + 2, request_id="elicitation:db")
        assert story.state(at + 3) == "thinking"


# -- rule 3: compaction --------------------------------------------------------------------------


def test_a_compaction_that_never_comes_ends_with_the_next_sign_of_the_turn() -> None:
    story = working().tell(s.CompactionStarted, 1, trigger="auto").start(2)

    assert story.state(3) == "acting"


def test_a_compaction_without_end_expires() -> None:
    story = working().stop(1).tell(s.CompactionStarted, 2)

    assert story.state(601) == "compacting"
    assert story.state(603) == "idle"
    assert story.deadline(3) == 602


def test_session_start_compact_is_not_idle() -> None:
    story = working().tell(s.CompactionStarted, 1).tell(s.SessionStarted, 2, reason="compact")

    assert story.state(3) == "thinking"


# -- rule 4: the turn is closed ------------------------------------------------------------------


def test_a_failed_turn_stays_failed_though_another_witness_calls_it_ended() -> None:
    story = working().tell(s.TurnFailed, 3, prompt_id="p1", error="overloaded")
    story.stop(3.2, source="transcript")

    assert story.state(4) == "error"


def test_an_interrupted_turn_says_so() -> None:
    story = working().tell(s.TurnInterrupted, 3, source="transcript")

    assert (story.state(4), story.label(4), story.at(4).source) == (
        "idle",
        "Interrupted",
        "transcript",
    )


def test_the_parent_is_not_idle_in_the_gap_before_it_is_woken() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1")
    story.stop(2, background=[s.BackgroundTask("a1")]).tell(s.ChildFinished, 10, child_id="a1")

    assert story.state(14.9) == "waiting_for_agent"
    assert story.deadline(11) == 15
    assert story.state(15) == "idle"


def test_a_subagent_whose_own_hooks_run_is_waited_for_over_a_turn_that_lists_it_still() -> None:
    running = [s.BackgroundTask("a1")]
    story = working().status(1, "busy").tell(s.ChildStarted, 1.5, child_id="a1")
    story.stop(2, background=running).tell(s.ChildFinished, 10, child_id="a1")
    story.prompt(11, "p2").stop(12, "p2", background=running)

    assert story.state(17) == "waiting_for_agent"
    story.prompt(18, "p3").stop(19, "p3", background=[]).status(19.1, "idle")
    assert story.state(20) == "idle"


def test_a_child_whose_end_the_parent_was_told_of_holds_nothing() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)
    story.tell(s.ChildFinished, 3, child_id="a1", notified=True)

    assert story.state(3.1) == "idle"


def test_a_child_missing_from_a_later_stops_list_is_over() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").prompt(5, "p2", origin="system")
    story.stop(6, "p2", background=[])

    assert story.state(7) == "idle"
    assert story.children(7) == {"a1": "completed"}


def test_a_silent_subagent_is_given_up_after_five_minutes() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)

    assert story.state(300) == "waiting_for_agent"
    assert story.state(301) == "idle"


def test_a_scheduled_prompt_leaves_the_session_to_its_user() -> None:
    scheduled = [s.BackgroundTask("c1", "cron", s.SCHEDULED, "0 9 * * *")]
    story = working().stop(2, background=scheduled)

    assert story.state(2) == "idle"
    assert story.children(2) == {"c1": s.SCHEDULED}
    assert story.prompt(9, "p2").stop(10, prompt_id="p2", background=scheduled).state(10) == "idle"


@pytest.mark.parametrize("kind", ["shell", "monitor", "workflow", "cron"])
def test_what_runs_in_the_background_may_be_silent_for_hours(kind: str) -> None:
    story = working().stop(2, background=[s.BackgroundTask("x", kind, description="dev server")])

    assert story.state(36_000) == "waiting_for_agent"
    assert [child.kind for child in story.child_views(0)] == [kind]


def test_a_task_completed_in_mid_turn_delivers_nothing_yet() -> None:
    story = working().tell(s.TaskCreated, 1, task_id="1").tell(s.TaskCompleted, 2, task_id="1")

    assert story.state(3) == "thinking"


def test_a_task_left_open_withholds_task_complete() -> None:
    story = working().tell(s.TaskCreated, 1, task_id="1").tell(s.TaskCreated, 1, task_id="2")
    story.tell(s.TaskCompleted, 2, task_id="1").stop(3)

    assert story.state(4) == "idle"


def test_tasks_of_an_earlier_turn_deliver_nothing_again() -> None:
    story = working().tell(s.TaskCompleted, 1, task_id="1").stop(2).prompt(10, "p2").stop(12, "p2")

    assert story.state(13) == "idle"


def test_a_closing_question_awaits_input_but_is_only_a_guess() -> None:
    story = working().stop(2, last_message="All done.\n\nShall I also **run the tests?**")

    found = story.at(3)
    assert (found.state, found.confidence) == ("awaiting_input", 0.6)


def test_a_question_in_the_middle_of_the_last_message_is_none() -> None:
    story = working().stop(2, last_message="Why did it fail? A typo.\nFixed.")

    assert story.state(3) == "idle"


# -- rule 5: the turn is open --------------------------------------------------------------------


def test_a_failed_tool_is_recovered_from_within_grace_and_an_error_after() -> None:
    story = working().start(1).finish(2, ok=False, error="Exit code 1\nboom")

    assert (story.state(3), story.label(3)) == ("retrying", "Bash failed, recovering")
    assert story.deadline(3) == 12
    assert (story.state(12), story.label(12)) == ("error", "Failed: Bash: Exit code 1")
    assert story.at(2, Limits(error_grace=0)).state == "error"


def test_an_error_without_a_class_is_named_by_what_was_said() -> None:
    said = "API Error: 400 the request is malformed\nand more"
    story = working().tell(s.TurnFailed, 5, prompt_id="p1", error="unknown", message=said)

    assert story.label(6) == "Failed: API Error: 400 the request is malformed"
    assert (story.at(6).context or {})["message"] == said


def test_a_failed_tool_stays_failed_though_its_batch_is_over() -> None:
    story = working().start(1).finish(2, ok=False).finish(2.1, answered=True)

    assert story.state(3) == "retrying"


def test_a_failed_tool_is_forgotten_with_the_next_one() -> None:
    story = working().start(1).finish(2, ok=False).start(3, "t2").finish(4, "t2")

    assert story.state(30) == "thinking"


def test_no_human_is_called_for_a_failed_tool_while_the_cli_says_it_works_on() -> None:
    story = working().status(0, "busy").start(1).finish(2, ok=False)

    assert story.state(30) == "thinking"


@pytest.mark.parametrize("data", [{"denied": True}, {"is_interrupt": True}])
def test_a_call_denied_or_interrupted_has_not_failed(data: dict[str, bool]) -> None:
    story = working().start(1).finish(2, ok=False, **data)

    assert story.state(3) == "thinking"


def test_a_queued_prompt_that_begins_is_no_longer_queued() -> None:
    story = working().prompt(1).stop(3)
    assert story.start(3.5, "t9", prompt_id="p2").state(4) == "acting"
    assert story.finish(5, "t9", prompt_id="p2").stop(6, "p2").state(7) == "idle"


def test_a_queue_that_runs_while_the_cli_is_busy_is_not_forgotten_after_a_minute() -> None:
    story = working().status(0, "busy").prompt(1).stop(3).tell(s.Alive, 80, source="process")
    assert story.state(3.4) == "queued"

    assert story.state(90) == "thinking"


def test_a_report_that_joins_the_turn_under_its_own_id_does_not_hold_it_open() -> None:
    story = working().start(1).ask(1.1).prompt(3, "p9", origin="system").finish(6).stop(7, "p1")

    assert story.state(8) == "idle"


def test_a_queued_prompt_taken_back_is_not_waited_for() -> None:
    story = working().prompt(1).status(0, "busy").tell(s.TurnInterrupted, 3, prompt_id="p1")
    assert story.state(3.2) == "queued"

    assert story.status(3.1, "idle").state(4) == "idle"


def test_esc_takes_the_next_prompt_from_the_queue_and_nobody_is_called_in_between() -> None:
    story = working().status(0, "busy").prompt(2).status(5, "idle")
    assert (story.state(5.1), story.state(5.6)) == ("queued", "idle")

    story.status(5.2, "busy").tell(s.PromptDequeued, 5.1, source="transcript")
    story.prompt(5.2, "p2", source="transcript")
    story.tell(s.TurnInterrupted, 5.3, prompt_id="p1", source="transcript")
    assert story.state(5.4) == "thinking"


def test_what_has_left_the_queue_at_rest_begins_and_nobody_is_called_in_between() -> None:
    story = working().prompt(1).stop(3).tell(s.PromptDequeued, 3.1, source="transcript")
    assert (story.state(3.2), story.state(3.6)) == ("queued", "idle")

    joined = working().prompt(1).tell(s.PromptDequeued, 2, source="transcript").stop(3)
    assert joined.state(3.1) == "idle"


def test_a_stop_of_the_turn_before_stamped_late_does_not_close_the_next() -> None:
    story = (
        working().prompt(10, "p2", source="transcript").stop(10.8, "p1").start(11, prompt_id="p2")
    )
    assert story.state(12) == "acting"

    late = working().prompt(10, "p2", source="transcript").stop(10.8, "p1")
    assert late.state(11) == "thinking"


def test_a_prompt_counts_from_its_first_witness() -> None:
    story = Story().prompt(0, source="transcript").stop(1, source="transcript").prompt(1.4)

    assert story.state(2) == "idle"
