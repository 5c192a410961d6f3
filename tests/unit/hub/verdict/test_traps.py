"""Traps others have walked into: each one met in the field, with the place where it is told.

What other tests already hold is in the table of docs/accuracy.md, and not repeated here.
"""

from __future__ import annotations

import pytest

from adsum_shared import signals as s
from adsum_shared.state import Group
from tests.story import Story, working

HOUR = 3_600


def asking() -> Story:
    """A permission dialog stands, known to hook and registry."""
    return working().status(0, "busy").start(1).ask(1.1).status(1.2, "waiting", "permission prompt")


# -- Esc, Ctrl-C and No: no hook fires at all ------------------------------------------------------
# anthropics/claude-code#9516; agent-of-empires PR #2449 (285 s of nothing); iTerm2 PR #758


def test_hooks_alone_take_an_escape_for_work() -> None:
    """STATE: hooks alone, the end of the first seeds' road. Kept to show what the others are for."""
    story = working().start(1)

    assert story.state(30) == "acting"


def test_an_escape_in_mid_tool_is_told_by_the_transcript() -> None:
    story = working().start(1).tell(s.TurnInterrupted, 5, source="transcript", prompt_id="p1")

    assert (story.state(5.1), story.label(5.1)) == ("idle", "Interrupted")
    assert story.asked(5.1) == []


def test_an_escape_before_the_model_answered_is_told_by_the_registry_alone() -> None:
    """Within 0.2 s of Enter it leaves no line in the transcript either."""
    story = working().status(0.02, "busy").status(0.35, "idle")

    assert story.state(1) == "idle"
    assert story.at(1).source == "registry"


def test_the_result_of_an_interrupted_call_does_not_open_the_turn_again() -> None:
    story = working().start(1).tell(s.TurnInterrupted, 5, source="transcript", prompt_id="p1")
    story.finish(5, ok=False, is_interrupt=True, source="transcript")

    assert story.state(6) == "idle"


def test_after_an_escape_without_any_witness_the_next_prompt_begins_anew() -> None:
    story = working().start(1).ask(1.1).prompt(60, "p2")

    assert (story.state(61), story.asked(61)) == ("thinking", [])
    assert story.stop(62, "p2").state(63) == "idle"


# spaceterm, `claude-state/index.ts`: a denial by the user fires no PostToolUse


def test_a_no_is_told_by_the_transcripts_result_of_the_call() -> None:
    story = working().start(1).ask(1.1)
    story.finish(5, ok=False, denied=True, source="transcript")
    assert story.asked(5.1) == []

    story.tell(s.TurnInterrupted, 5, source="transcript", prompt_id="p1")
    assert (story.state(6), story.label(6)) == ("idle", "Interrupted")


def test_a_no_is_told_by_the_registry_where_the_transcript_is_missing() -> None:
    story = asking().status(9, "idle")

    assert (story.state(9.1), story.asked(9.1)) == ("idle", [])


def test_a_no_told_to_the_agent_lets_it_work_on() -> None:
    """ "No, and tell Claude what to do differently": a result, no interruption."""
    story = asking().finish(9, ok=False, denied=True, source="transcript").status(9, "busy")

    assert (story.state(10), story.asked(10)) == ("thinking", [])


def test_permission_denied_by_the_rules_calls_nobody() -> None:
    story = working().start(1).finish(1.2, ok=False, denied=True)

    assert (story.state(2), story.asked(2)) == ("thinking", [])
    assert not story.unread(2)


# -- errors of the API -----------------------------------------------------------------------------
# agent-of-empires PR #2429; clawd #320


@pytest.mark.parametrize("first", ["failure", "stop"])
def test_an_api_error_told_as_a_line_and_a_plain_stop_is_an_error_in_either_order(
    first: str,
) -> None:
    story = working()
    if first == "stop":
        story.stop(3.1)
    story.tell(s.TurnFailed, 3, source="transcript", prompt_id="p1", error="overloaded")
    if first == "failure":
        story.stop(3.1)

    assert (story.state(4), story.label(4)) == ("error", "Failed: overloaded")
    assert story.at(4).group is Group.NEEDS_YOU


def test_retries_in_mid_turn_are_work_and_end_with_the_next_sign_of_it() -> None:
    story = working().tell(s.RetryScheduled, 1, source="transcript", attempt=1, max=10)
    story.tell(s.RetryScheduled, 3, source="transcript", attempt=2, max=10)
    assert (story.state(3.5), story.label(3.5)) == ("retrying", "API retry 2 of 10")

    story.tell(s.Alive, 4, source="transcript", event=s.MESSAGE, prompt_id="p1")
    assert story.state(4.5) == "thinking"


def test_an_error_after_the_last_retry_is_no_retry() -> None:
    story = working().tell(s.RetryScheduled, 1, source="transcript", attempt=10, max=10)
    story.tell(s.TurnFailed, 2, prompt_id="p1", error="overloaded")

    assert story.state(3) == "error"


# -- Stop while work goes on in the background -----------------------------------------------------
# Irrlicht #1036 #881 #897 #1982; claude-code-warp #82; orca #8853; agetor #193; herdr #1217


@pytest.mark.parametrize("kind", ["agent", "shell", "monitor", "workflow", "cron"])
def test_a_stop_that_lists_something_running_is_not_done(kind: str) -> None:
    story = working().stop(2, background=[s.BackgroundTask("x", kind)])

    assert (story.state(3), story.at(3).group) == ("waiting_for_agent", Group.AUTONOMOUS)
    assert not story.unread(3)


@pytest.mark.parametrize("kind", ["agent", "shell", "monitor", "workflow"])
def test_a_child_that_only_its_launch_tells_of_holds_the_stop(kind: str) -> None:
    """An old CLI's Stop lists nothing."""
    story = working().tell(s.ChildStarted, 1, child_id="x", child_kind=kind).stop(2)

    assert story.state(3) == "waiting_for_agent"


def test_a_stop_that_lists_what_has_ended_already_is_done() -> None:
    story = working().stop(2, background=[s.BackgroundTask("x", "shell", "completed")])

    assert story.state(8) == "idle"


def test_the_whole_way_of_a_subagent_in_the_background() -> None:
    """Stop, SubagentStop (which still lists itself), a notification, a second Stop."""
    story = working().tell(s.ChildStarted, 1, child_id="a1")
    listed = [s.BackgroundTask("a1")]
    story.stop(2, background=listed)
    seen = [story.state(3)]
    story.start(4, "t4", agent_id="a1").finish(5, "t4", agent_id="a1")
    seen.append(story.state(6))
    story.tell(s.ChildFinished, 10, child_id="a1").tell(s.TurnEnded, 10, agent_id="a1")
    seen.append(story.state(10.1))
    story.tell(s.ChildFinished, 10.4, child_id="a1", notified=True)
    story.prompt(10.4, "p2", origin="system")
    seen.append(story.state(10.5))
    story.stop(12, "p2", background=[])
    seen.append(story.state(12.1))

    waiting = "waiting_for_agent"
    assert seen == [waiting, waiting, waiting, "thinking", "idle"]


def test_two_children_are_waited_for_until_the_last() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").tell(s.ChildStarted, 1, child_id="a2")
    story.stop(2).tell(s.ChildFinished, 3, child_id="a1", notified=True)
    assert story.state(4) == "waiting_for_agent"

    story.tell(s.ChildFinished, 5, child_id="a2", notified=True)
    assert story.state(6) == "idle"


# -- SubagentStop does not always come -------------------------------------------------------------
# anthropics/claude-code#92716


def test_killing_all_subagents_ends_each_though_none_is_named() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").tell(s.ChildStarted, 1, child_id="a2")
    story.stop(2, background=[s.BackgroundTask("a1"), s.BackgroundTask("a2")])
    story.tell(s.ChildFinished, 5, source="transcript", child_id=s.ALL_CHILDREN, status="killed")

    assert story.state(5.1) == "idle"
    assert story.children(5.1) == {"a1": "killed", "a2": "killed"}


def test_killing_all_subagents_leaves_the_shells_alone() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="b1", child_kind="shell").stop(2)
    story.tell(s.ChildFinished, 5, source="transcript", child_id=s.ALL_CHILDREN, status="killed")

    assert story.state(6) == "waiting_for_agent"


def test_a_subagents_own_transcript_ends_it() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)
    story.tell(s.TurnEnded, 9, source="transcript", agent_id="a1")

    assert story.state(14.1) == "idle"
    assert story.children(14.1) == {"a1": "completed"}


def test_an_interruption_in_a_subagents_own_transcript_ends_it() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)
    story.tell(s.TurnInterrupted, 9, source="transcript", agent_id="a1")

    assert story.state(15) == "idle"
    assert story.children(15) == {"a1": "interrupted"}


def test_a_subagent_whose_transcript_grows_is_not_given_up() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)
    for at in range(100, 1_000, 100):
        story.tell(s.Alive, at, source="transcript", agent_id="a1")

    assert story.state(1_000) == "waiting_for_agent"
    assert story.state(1_300) == "idle"


# -- a subagent's hooks bear its parent's session id -----------------------------------------------
# spaceterm invariants 3 and 8


def test_a_subagents_tools_do_not_make_its_parent_act() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2).start(3, "t3", agent_id="a1")

    assert story.state(4) == "waiting_for_agent"


def test_a_subagents_failed_tool_is_not_its_parents() -> None:
    story = working().start(1, "t1", tool="Agent").tell(s.ChildStarted, 1.1, child_id="a1")
    story.start(2, "t2", agent_id="a1").finish(3, "t2", agent_id="a1", ok=False)

    assert story.state(20) == "delegating"


def test_a_subagents_end_is_not_its_parents() -> None:
    story = working().start(1, "t1", tool="Agent").tell(s.ChildStarted, 1.1, child_id="a1")
    story.tell(s.TurnEnded, 3, agent_id="a1", prompt_id="p1")

    assert story.state(3.1) == "delegating"


def test_a_subagents_dialog_calls_the_human_and_its_answer_frees_only_it() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").start(2, "t2", agent_id="a1")
    story.ask(2.1, name="t2", agent_id="a1").start(2.2, "t1").finish(2.5, "t1")
    assert story.state(3) == "needs_permission"

    assert story.finish(4, "t2", agent_id="a1").state(5) == "thinking"


# -- late and repeated notifications ---------------------------------------------------------------
# spaceterm; cctop HookEvent.swift; Irrlicht #1147


def test_a_permission_prompt_notification_six_seconds_late_brings_no_dialog_back() -> None:
    story = asking().finish(3).status(2.5, "busy")
    story.tell(s.Alive, 7.2, event="Notification", note="permission_prompt")

    assert (story.state(8), story.asked(8)) == ("thinking", [])


def test_a_turn_is_over_at_its_stop_and_not_a_minute_later() -> None:
    """hooks.md: `idle_prompt` comes 60 s after the Stop, and only if nothing was typed."""
    story = working().stop(2)
    before = story.at(2.1)
    story.tell(s.Alive, 62, event="Notification", note="idle_prompt")

    assert before.state == story.state(63) == "idle"
    assert story.at(63).since == before.since


# -- compaction ------------------------------------------------------------------------------------
# spaceterm invariants 11 (42 of 42) and 17


def test_an_automatic_compaction_in_mid_turn_goes_back_to_work() -> None:
    story = working().tell(s.CompactionStarted, 1, trigger="auto")
    assert story.state(2) == "compacting"

    story.tell(s.SessionStarted, 3, reason="compact").tell(s.CompactionFinished, 3, trigger="auto")
    assert story.state(3.1) == "thinking"
    assert story.stop(5).state(6) == "idle"


@pytest.mark.parametrize("told_by", ["PostCompact", "compact_boundary", "SessionStart", "registry"])
def test_a_typed_compact_ends_without_a_stop(told_by: str) -> None:
    story = working().status(0, "busy").stop(1).status(1.1, "idle")
    story.status(2, "busy").tell(s.CompactionStarted, 2, trigger="manual")
    assert story.state(3) == "compacting"

    match told_by:
        case "PostCompact":
            story.tell(s.CompactionFinished, 9)
        case "compact_boundary":
            story.tell(s.CompactionFinished, 9, source="transcript")
        case "SessionStart":
            story.tell(s.SessionStarted, 9, reason="compact")
    story.status(9, "idle")
    assert story.state(10) == "idle"


# -- questions and plans ---------------------------------------------------------------------------
# claude-view docs/architecture/live-monitor.md, against its own seed


@pytest.mark.parametrize(
    ("tool", "kind", "state"),
    [
        ("AskUserQuestion", "question", "awaiting_input"),
        ("ExitPlanMode", "plan", "awaiting_approval"),
    ],
)
@pytest.mark.parametrize("source", ["hook", "transcript"])
def test_a_question_or_plan_stands_from_its_call_until_its_result(
    tool: str, kind: str, state: str, source: str
) -> None:
    story = working().start(1, tool=tool, source=source)
    story.tell(s.RequestOpened, 1, source=source, request_kind=kind, tool=tool, tool_use_id="t1")
    assert story.state(HOUR) == state

    assert story.finish(HOUR, tool=tool, answered=True).state(HOUR + 1) == "thinking"


def test_a_question_asked_by_three_witnesses_is_one_question() -> None:
    story = working().start(1, tool="AskUserQuestion")
    question = {"request_kind": "question", "tool": "AskUserQuestion"}
    story.tell(s.RequestOpened, 1, tool_use_id="t1", **question)
    story.tell(s.RequestOpened, 1.05, digest="AskUserQuestion t1", **question)
    story.tell(s.RequestOpened, 0.9, source="transcript", tool_use_id="t1", **question)

    assert story.asked(2) == ["question"]
    assert story.finish(9, tool="AskUserQuestion", answered=True).asked(10) == []


# -- short stops in a loop -------------------------------------------------------------------------
# GitLens PR #5241 (750 ms debounce); overcode #448 (1.5 s); Prowl PR #438 (1.2 to 3 s)


def test_a_stop_that_a_hook_sends_back_to_work_is_shown_at_once_both_times() -> None:
    """State is never delayed or suppressed; only notifications wait."""
    story = working().stop(2)
    assert story.state(2.01) == "idle"

    story.prompt(2.1, "p1", origin="system", source="transcript")
    assert story.state(2.11) == "thinking"
    assert story.stop(4).state(4.1) == "idle"


# -- late, lost and doubled events -----------------------------------------------------------------
# spaceterm invariant 16; AO #2047; agents-observe's spec for doubled hooks


def test_a_finish_that_comes_after_the_stop_opens_nothing() -> None:
    story = working().start(1).stop(3).finish(2.9)

    assert story.state(4) == "idle"


def test_a_prompt_hook_that_comes_after_its_turn_is_over_opens_nothing() -> None:
    story = Story().prompt(0, source="transcript").stop(1).prompt(0.5)

    assert story.state(2) == "idle"


def test_hooks_delivered_twice_make_one_call_one_request_and_one_child() -> None:
    """Installed in the user's settings and again by a plug-in."""
    story = Story()
    for late in (0.0, 0.012):
        story.prompt(0 + late, text="go on").start(1 + late).ask(1.1 + late)
        story.tell(s.ChildStarted, 2 + late, child_id="a1")
    assert story.asked(3) == ["permission"]
    assert len(story.children(3)) == 1

    for late in (0.0, 0.012):
        story.finish(4 + late)
    assert story.asked(5) == []
    for late in (0.0, 0.012):
        story.tell(s.ChildFinished, 6 + late, child_id="a1", notified=True).stop(7 + late)
    assert story.state(8) == "idle"


def test_a_prompt_hook_delivered_twice_queues_nothing() -> None:
    story = Story().prompt(0, text="go on").prompt(0.012, text="go on").stop(5)

    assert story.state(6) == "idle"


def test_a_lost_session_end_is_made_good_by_the_process_table() -> None:
    """CCAM reaps by ps and lsof; SessionEnd hooks share 1.5 s (hooks.md)."""
    story = working().tell(s.ProcessSeen, 0, pid=7).stop(2)
    story.tell(s.ProcessGone, 3, source="process", pid=7)

    assert (story.state(4), story.at(4).source) == ("session_ended", "process")


def test_a_crash_in_a_dialog_leaves_no_dead_question() -> None:
    """anthropics/claude-code#69602: a dead "needs input" that stays for ever."""
    story = asking().tell(s.ProcessSeen, 0, pid=7).tell(s.ProcessGone, 3, source="process", pid=7)

    assert (story.state(4), story.at(4).group) == ("session_ended", Group.DELIVERED)
    story.status(600, "idle", pid=8).tell(s.ProcessSeen, 600, pid=8).prompt(601, "p2")
    assert story.asked(602) == []


# -- readings that were rejected -------------------------------------------------------------------
# the state design, "why not the simpler rules"


def test_the_transcript_alone_cannot_see_an_open_dialog() -> None:
    story = Story().prompt(0, source="transcript").start(1, source="transcript")
    assert story.state(9) == "acting"

    assert story.ask(1.1).state(9) == "needs_permission"


def test_an_approval_at_the_terminal_of_a_long_build_is_told_by_the_registry_alone() -> None:
    hooks = working().start(1, timeout_ms=600_000).ask(1.1)
    assert hooks.state(500) == "needs_permission"

    hooks.status(0, "busy").status(1.2, "waiting", "permission prompt").status(3, "busy")
    assert hooks.state(500) == "acting"


def test_no_number_of_status_line_ticks_answers_a_dialog() -> None:
    story = asking()
    for at in range(2, 60):
        story.tell(s.Alive, at, source="statusline")

    assert (story.state(60), story.asked(60)) == ("needs_permission", ["permission"])


def test_no_single_time_out_forgets_a_human_who_is_slow() -> None:
    story = working().start(1, tool="ExitPlanMode").ask(1.1, "plan", tool="ExitPlanMode")

    assert story.state(24 * HOUR) == "awaiting_approval"
