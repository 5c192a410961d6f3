"""The CLI's registry as a mask and a last resort: its four rules, and when it is not believed."""

from __future__ import annotations

from typing import Any

import pytest

from adsum_shared import signals as s
from tests.story import T0, Story, working


def asking() -> Story:
    return working().status(0, "busy").start(1).ask(1.1).status(1.2, "waiting", "permission prompt")


# -- 1: a dialog without a request ---------------------------------------------------------------


def test_waiting_without_a_request_is_a_permission_after_300_ms() -> None:
    story = working().status(0, "busy").start(1).status(1.2, "waiting", "permission prompt")

    assert story.state(1.4) == "acting"
    assert story.deadline(1.3) == 1.5
    assert (story.state(1.5), story.label(1.5)) == ("needs_permission", "Needs permission: Bash")
    assert story.at(1.5).source == "registry"


def test_waiting_for_input_without_a_request_is_a_question() -> None:
    story = working().status(1.2, "waiting", "input needed")

    assert story.state(2) == "awaiting_input"


def test_a_dialog_inside_a_turn_awaits_input_and_outside_means_nothing() -> None:
    inside = working().status(1.2, "waiting", "dialog open")
    assert (inside.state(2), inside.label(2)) == ("awaiting_input", "A dialog is open")

    outside = working().stop(1).status(2, "waiting", "dialog open")
    assert outside.state(3) == "idle"


def test_waiting_that_stands_from_before_a_requests_close_was_for_that_one() -> None:
    story = asking().finish(5)

    assert {story.state(at) for at in (5, 5.3, 6, 9.9)} == {"thinking"}
    assert story.deadline(5) == 10
    assert story.state(10) == "needs_permission"


def test_waiting_for_something_else_since_a_requests_close_is_a_dialog() -> None:
    story = asking().finish(5).status(5.1, "waiting", "input needed")

    assert story.state(5.2) == "thinking"
    assert story.state(5.3) == "awaiting_input"


def test_a_turns_end_cancels_a_nameless_request_unless_a_child_lives() -> None:
    story = working().status(1.2, "waiting", "permission prompt").stop(2)
    assert story.state(3) == "idle"

    child = working().tell(s.ChildStarted, 1, child_id="a1")
    child.status(1.2, "waiting", "permission prompt").stop(2)
    assert child.state(3) == "needs_permission"


WORDS = [
    ("sandbox request", "needs_permission", "Needs network access"),
    ("goal proposal", "awaiting_approval", "Proposes a goal"),
    ("worker request", "needs_permission", "Needs its team lead's permission"),
    ("a new word", "awaiting_input", "Waiting for you: a new word"),
]


@pytest.mark.parametrize(("word", "state", "label"), WORDS)
def test_each_word_has_a_state_and_a_label_also_at_rest(word: str, state: str, label: str) -> None:
    inside = working().status(1.2, "waiting", word)
    resting = working().stop(1).status(2, "waiting", word)

    for story in (inside, resting):
        assert (story.state(2.5), story.label(2.5)) == (state, label)
    assert resting.status(9, "idle").state(9) == "idle"


@pytest.mark.parametrize("word", ["sandbox request", "goal proposal", "worker request"])
def test_a_dialog_without_a_hook_shows_at_once_and_outlives_its_turn(word: str) -> None:
    story = working().status(1.2, "waiting", word)
    state = story.state(1.2)

    assert state.startswith(("needs_", "awaiting_"))
    assert story.stop(2).state(2) == state


def test_a_dialog_that_stands_long_after_a_turns_end_is_not_a_late_word() -> None:
    story = working().status(1.2, "waiting", "permission prompt").stop(2)

    assert (story.state(6.9), story.state(7)) == ("idle", "needs_permission")


def test_a_network_dialog_hides_the_permission_that_its_command_got_before() -> None:
    story = asking().status(3, "busy").status(4, "waiting", "sandbox request")

    assert story.label(4) == "Needs network access"
    assert story.status(6, "waiting", "permission prompt").label(6) == "Needs permission: Bash"


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("curl -s http://a.example:8080/x", "Needs network access, probably a.example"),
        (
            "curl https://u@a.example https://a.example/y",
            "Needs network access, probably a.example",
        ),
        ("curl http://a.example http://b.example", "Needs network access"),
        ("make fetch", "Needs network access"),
    ],
)
def test_the_host_is_named_only_where_the_commands_name_one(command: str, label: str) -> None:
    story = working().start(1, summary=command).status(1.2, "waiting", "sandbox request")

    assert story.label(2) == label


def test_the_host_of_a_background_job_may_be_known_later() -> None:
    story = working().status(1.2, "waiting", "sandbox request", host="")
    assert story.label(2) == "Needs network access"

    late = {"seen": T0 + 2_200, "host": "a.example"}
    assert story.status(1.2, "waiting", "sandbox request", **late).label(3) == (
        "Needs network access: a.example"
    )
    assert story.at(3).since == T0 + 1_200


# Without the registry a network dialog and a proposed goal are known by hooks alone.


def network(at: float, story: Story | None = None) -> Story:
    asked = {"request_kind": "permission", "tool": s.NETWORK, "request_id": s.NETWORK}
    return (story or working().start(1)).tell(s.RequestOpened, at, **asked)


def test_a_network_dialog_stands_until_its_command_or_its_turn_ends() -> None:
    assert (network(7).state(8), network(7).label(8)) == (
        "needs_permission",
        "Needs network access",
    )
    assert network(7).finish(9).state(9) == "thinking"
    assert network(7).stop(9).state(9) == "idle"


def test_the_registry_dates_a_network_dialog_and_ends_it() -> None:
    story = network(7.2, working().start(1, summary="curl http://a.example"))
    story.status(1.2, "waiting", "sandbox request")

    assert story.at(8).since == T0 + 1_200
    assert story.status(9, "busy").state(9.5) == "acting"
    assert story.status(10, "waiting", "permission prompt").state(11) == "needs_permission"
    assert story.label(11) == "Needs permission: Bash"


def test_a_proposed_goal_waits_after_its_turn_until_a_prompt_or_the_registry() -> None:
    def proposed() -> Story:
        asked = {"request_kind": "plan", "tool": "SetGoal", "request_id": s.GOAL}
        return working().tell(s.RequestOpened, 2, **asked).stop(3)

    assert (proposed().state(60), proposed().label(60)) == ("awaiting_approval", "Proposes a goal")
    assert proposed().prompt(9, "p2").state(10) == "thinking"
    assert proposed().status(2.9, "waiting", "goal proposal").status(9, "idle").state(9.5) == "idle"


@pytest.mark.parametrize(("shells", "state"), [(True, "idle"), (False, "waiting_for_agent")])
def test_idle_ends_a_background_command_only_where_the_registry_knows_of_those(
    *, shells: bool, state: str
) -> None:
    story = working().status(0, "busy")
    story.tell(s.ChildStarted, 1, child_id="b1", child_kind="shell").stop(2)

    assert story.status(2.1, "idle", shells=shells).state(9) == state


# -- 2: the mask ---------------------------------------------------------------------------------


def test_an_approval_at_the_terminal_shows_once_it_is_not_in_passing() -> None:
    story = asking().status(9, "busy")

    assert story.state(9.1) == "needs_permission"
    assert story.deadline(9.1) == 9.2
    assert (story.state(9.2), story.asked(9.2)) == ("acting", [])


def test_a_call_that_goes_from_its_permission_to_another_dialog_shows_no_work_between() -> None:
    story = asking().status(9, "busy").status(9.08, "waiting", "permission prompt")

    assert {story.state(at) for at in (9, 9.08, 9.3, 20)} == {"needs_permission"}


def test_waiting_again_unmasks() -> None:
    story = asking().status(9, "busy").status(20, "waiting", "permission prompt")

    assert story.asked(21) == ["permission"]


def test_busy_alone_never_masks() -> None:
    story = working().status(0, "busy").start(1).ask(1.1).status(1.3, "busy")

    assert story.state(60) == "needs_permission"


def test_what_a_registry_that_tells_of_dialogs_says_nothing_of_is_on_no_screen() -> None:
    """The user's own hook decides it: on a subagent's permission, or on the call that asks."""
    known = asking().status(9, "busy").finish(9.5)
    subagent = known.start(10, "t2", agent_id="a1").ask(10.1, name="t2", agent_id="a1")

    assert subagent.deadline(10.2) == 11.1
    assert [subagent.asked(at) for at in (11, 11.1, 60)] == [["permission"], [], []]
    assert subagent.status(70, "waiting", "permission prompt").asked(70) == ["permission"]


@pytest.mark.parametrize("kind", ["question", "plan", "dialog"])
def test_nor_is_what_is_asked_while_the_users_own_hook_runs_before_it(kind: str) -> None:
    known = asking().status(9, "busy").finish(9.5)
    story = known.start(10, "t2", "Ask").ask(10.1, kind, "t2", tool="Ask")

    assert [story.asked(at) for at in (10.9, 11.1, 60)] == [[kind], [], []]
    assert story.status(70, "waiting", "input needed").asked(70) == [kind]


def test_the_main_agents_permission_stands_while_the_users_own_hook_decides_it() -> None:
    known = asking().status(9, "busy").finish(9.5)

    assert known.start(10, "t2").ask(10.1, name="t2").asked(60) == ["permission"]


def test_nothing_is_concluded_from_a_registry_that_has_told_of_no_dialog_yet() -> None:
    story = working().status(0, "busy").start(1, agent_id="a1").ask(1.1, agent_id="a1")

    assert story.asked(60) == ["permission"]


def first_dialog(at: float, kind: str = "permission", **data: Any) -> Story:
    """Of a session whose registry tells of all dialogs, and has told of none yet."""
    story = (
        working()
        .status(0, "busy", dialogs=True)
        .start(1, tool="Ask", agent_id=data.get("agent_id"))
    )
    return story.ask(at, kind, tool="Ask", **data)


@pytest.mark.parametrize(
    ("kind", "agent_id"),
    [("question", None), ("plan", None), ("dialog", None), ("permission", "a1")],
)
def test_where_all_dialogs_are_told_of_one_is_asked_once_it_is_on_the_screen(
    kind: str, agent_id: str | None
) -> None:
    story = first_dialog(1.1, kind, agent_id=agent_id)

    assert [story.asked(at) for at in (1.1, 60)] == [[], []]
    assert story.status(70, "waiting", "input needed", dialogs=True).asked(70) == [kind]


def test_the_main_agents_permission_is_waited_for_no_longer_than_a_registry_lags() -> None:
    story = first_dialog(1.1)

    assert [story.asked(at) for at in (1.1, 6, 6.1, 60)] == [[], [], ["permission"], ["permission"]]
    assert first_dialog(1.1).status(1.2, "waiting", dialogs=True).asked(1.2) == ["permission"]


@pytest.mark.parametrize(("kind", "agent_id"), [("question", None), ("permission", "a1")])
def test_a_request_is_asked_once_no_hook_may_run_before_it_whatever_the_registry_says(
    kind: str, agent_id: str | None
) -> None:
    """Its file cannot be written, or read, any more."""
    story = first_dialog(1.1, kind, agent_id=agent_id)

    assert story.deadline(600) == 601.1
    assert [story.asked(at) for at in (601, 601.1)] == [[], [kind]]


@pytest.mark.parametrize(
    ("kind", "agent_id"), [("permission", "a1"), ("permission", None), ("question", None)]
)
def test_what_a_hook_of_ours_holds_is_asked_before_any_dialog(
    kind: str, agent_id: str | None
) -> None:
    hold = s.Hold("b", ["allow"])
    story = first_dialog(1.1, kind, agent_id=agent_id, request_id="r1", hold=hold)

    assert story.asked(1.1) == [kind]


def test_what_a_hook_of_ours_holds_of_a_subagents_no_other_dialog_of_the_registry_ends() -> None:
    """Its own comes when the hook is over: that of the main agent was answered meanwhile."""
    story = first_dialog(1.1, agent_id="a1", request_id="r1", hold=s.Hold("b", ["allow"]))
    story.status(2, "waiting", "permission prompt", dialogs=True).status(4, "busy", dialogs=True)
    assert story.asked(60) == ["permission"]

    story.tell(s.HoldEnded, 61, request_id="r1", reason="expired")
    assert story.asked(61) == []
    assert story.status(61.2, "waiting", dialogs=True).asked(61.2) == ["permission"]


def test_a_wait_too_short_to_be_read_masks_by_the_busy_that_followed_it() -> None:
    story = working().status(0, "busy").start(1).ask(1.1).status(2.2, "busy")

    assert story.state(2.3) == "needs_permission"
    assert story.deadline(2.3) == 2.4
    assert story.state(2.4) == "acting"


def test_nor_does_a_permission_come_back_that_was_answered_before_that_could_be_read() -> None:
    assert first_dialog(1.1).status(2.2, "busy", dialogs=True).asked(60) == []


def test_a_late_report_of_busy_from_before_the_dialog_does_not() -> None:
    story = working().start(1).ask(1.1).status(1.5, "busy")

    assert story.state(60) == "needs_permission"


def test_a_wait_that_ended_before_the_request_opened_does_not_mask_it() -> None:
    story = asking().status(3, "busy").finish(3.1).start(3.2, "t2").ask(3.3, name="t2")

    assert story.state(60) == "needs_permission"


def test_a_long_build_counts_its_time_out_from_the_approval() -> None:
    story = working().status(0, "busy").start(1, timeout_ms=120_000).ask(1.1)
    story.status(1.2, "waiting", "permission prompt").status(600, "busy")

    assert story.state(715) == "acting"


# -- 3: the end of a turn that no hook tells -----------------------------------------------------


def test_idle_newer_than_every_opener_ends_the_turn_at_once() -> None:
    story = working().status(0.1, "busy").start(1).status(5, "idle")

    assert (story.state(5), story.label(5)) == ("idle", "Waiting for your next prompt")
    assert story.at(5).source == "registry"


def test_idle_written_before_the_prompts_busy_ends_nothing() -> None:
    story = Story().status(0, "idle").prompt(10).status(10.1, "busy")

    assert story.state(20) == "thinking"


def test_idle_as_young_as_the_prompt_ends_it_after_half_a_second() -> None:
    story = Story().status(0, "busy").prompt(10).status(10.1, "idle")

    assert story.state(10.4) == "thinking"
    assert story.deadline(10.1) == 10.6
    assert story.state(10.6) == "idle"


def test_idle_after_the_prompts_own_busy_and_yet_before_its_hook_ends_it_after_half_a_second() -> (
    None
):
    story = Story().status(0, "idle").status(9.8, "busy").status(9.9, "idle").prompt(10)

    assert story.state(10.4) == "thinking"
    assert story.state(10.5) == "idle"


@pytest.mark.parametrize("idle", [0.1, 9.9])
def test_idle_of_the_turn_before_ends_a_prompt_once_its_busy_must_have_come(idle: float) -> None:
    story = Story().status(0, "busy").status(idle, "idle").prompt(10)

    assert {story.state(at) for at in (10, 10.5, 13.3, 14.9)} == {"thinking"}
    assert story.deadline(10) == 15
    assert story.state(15) == "idle"


def test_idle_after_the_prompts_own_busy_ends_it_at_once() -> None:
    """The user's own hook has refused the prompt."""
    story = Story().status(0, "idle").status(9.98, "busy").prompt(10).status(10.06, "idle")

    assert story.state(10.06) == "idle"


def test_idle_after_an_older_turns_busy_does_not() -> None:
    story = Story().status(0, "busy").prompt(10, "p2").status(10.06, "idle")

    assert story.state(10.4) == "thinking"


def test_idle_closes_the_main_agents_request_too() -> None:
    story = asking().status(9, "idle")

    assert (story.state(9), story.asked(9)) == ("idle", [])


def test_a_turn_that_only_the_registry_saw_end_can_complete_its_tasks() -> None:
    story = working().tell(s.TaskCreated, 1, task_id="1", subject="It")
    story.tell(s.TaskCompleted, 2, task_id="1").status(5, "idle")

    assert (story.state(6), story.label(6)) == ("task_complete", "Finished: It")


def test_shell_ends_the_turn_and_waits_for_the_shell() -> None:
    story = working().status(0.1, "busy").status(5, "shell")
    assert (story.state(6), story.label(6)) == ("waiting_for_agent", "Background work: a shell")

    assert story.status(60, "idle").state(61) == "idle"


def test_idle_ends_what_was_thought_to_run_in_the_background() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").stop(2).status(2.1, "idle")

    assert story.state(2.5) == "waiting_for_agent"
    assert story.state(2.6) == "idle"


def test_busy_since_before_a_subagents_end_waits_for_its_report_across_a_humans_turn() -> None:
    """The user's own SubagentStop hooks run; no Stop of that turn was heard to list it still."""
    story = working().status(0.1, "busy").tell(s.ChildStarted, 1, child_id="a1").stop(2)
    story.tell(s.ChildFinished, 8, child_id="a1").prompt(9, "p2").stop(
        10, "p2", source="transcript"
    )

    assert story.state(20) == "waiting_for_agent"
    assert story.status(20.1, "idle").state(20.7) == "idle"


def test_busy_vouches_for_a_silent_subagent() -> None:
    story = working().status(0, "busy").tell(s.ChildStarted, 1, child_id="a1").stop(2)

    assert story.state(900) == "waiting_for_agent"


# -- 4: a turn that no hook tells ----------------------------------------------------------------


def test_busy_alone_opens_a_turn_after_half_a_second() -> None:
    story = working().stop(1).status(5, "busy")

    assert story.state(5.4) == "idle"
    assert (story.state(5.5), story.at(5.5).confidence) == ("thinking", 0.5)


def test_busy_after_the_registrys_own_rest_opens_a_turn_sooner() -> None:
    story = working().stop(1).status(2, "idle").status(3, "busy")

    assert (story.state(3.19), story.deadline(3.1)) == ("idle", 3.2)
    assert story.state(3.2) == "thinking"


@pytest.mark.parametrize("transcript", [3.05, 3.19, 3.21, 3.4])
def test_busy_after_a_rest_opens_a_turn_once_whenever_the_transcript_tells_of_the_end(
    transcript: float,
) -> None:
    """A /compact is typed before the transcript told of the end of the turn before."""

    def state(at: float) -> str:
        story = working().status(0.1, "busy").status(2.9, "idle")
        if at >= 3:
            story.status(3, "busy")
        if at >= transcript:
            story.stop(2.87, source="transcript", final=True)
        return story.state(at)

    states = [(at, state(at / 1000)) for at in range(2900, 3500, 10)]

    assert states == [(at, "idle" if at < 3200 else "thinking") for at, _ in states]


def test_busy_after_a_rest_is_believed_later_though_the_transcript_told_of_no_end() -> None:
    story = working().status(0.1, "busy").status(2.9, "idle").status(3, "busy")

    assert story.deadline(3) == 3.2
    assert (story.state(3.199), story.state(3.2)) == ("idle", "thinking")


def test_busy_after_the_rest_of_a_very_short_turn_is_believed_later() -> None:
    story = Story().status(0, "idle").prompt(10).status(10.01, "busy").status(10.2, "idle")
    story.status(10.4, "busy")

    assert (story.state(10.5), story.state(10.6)) == ("idle", "thinking")
    assert story.stop(10.18, source="transcript", final=True).state(10.5) == "idle"


def test_busy_after_an_answered_dialog_or_stamped_again_is_no_new_rest() -> None:
    story = Story().prompt(0).status(0.1, "busy").status(2.9, "idle").status(3, "busy")
    story.status(3.15, "busy").status(3.3, "busy")
    assert story.state(3.31) == "thinking"

    story.status(60, "waiting").status(90, "busy")
    assert {story.state(at) for at in (90.05, 90.15, 90.25)} == {"thinking"}


def test_busy_after_a_rest_from_before_the_prompt_is_the_prompts_own() -> None:
    story = Story().status(0, "busy").status(10.1, "idle").prompt(10).status(10.3, "busy")

    assert {story.state(at) for at in (10, 10.3, 10.4, 11)} == {"thinking"}


def test_busy_goes_on_while_the_users_own_hooks_run_after_a_typed_compaction() -> None:
    story = working().stop(1).status(2, "idle").status(3, "busy").tell(s.CompactionFinished, 8)
    assert story.state(12) == "thinking"

    assert story.status(13, "idle").state(13) == "idle"


def test_a_command_that_opens_a_dialog_is_no_turn_though_it_is_busy_before() -> None:
    story = working().stop(1).status(2, "idle").status(3, "busy").status(3.03, "waiting")

    assert {story.state(at) for at in (3, 3.03, 3.3, 9)} == {"idle"}


def test_busy_older_than_the_close_opens_nothing_once_the_stop_hooks_have_run() -> None:
    story = working().status(0.1, "busy").stop(1, final=True)

    assert story.state(1) == story.state(60) == "idle"


def test_a_shell_with_no_turn_known_is_background_work() -> None:
    assert Story().status(0, "shell").state(1) == "waiting_for_agent"


# -- when it is not believed ---------------------------------------------------------------------


def test_a_status_of_a_process_that_is_gone_means_nothing() -> None:
    story = working().tell(s.ProcessSeen, 0, pid=8, started=T0).status(5, "idle", pid=7)

    assert story.state(6) == "thinking"


def test_a_late_copy_of_an_older_status_changes_nothing() -> None:
    story = asking().status(9, "busy").status(1.2, "waiting", "permission prompt")

    assert story.state(10) == "acting"


def test_a_registry_without_status_closes_and_opens_nothing() -> None:
    story = working().status(0, None)

    assert story.state(10) == "thinking"


def test_a_newer_prompt_beats_idle() -> None:
    story = working().status(5, "idle").prompt(9, "p2").status(9.05, "busy")

    assert story.state(10) == "thinking"


# -- 5: the user's own hooks on the turn's end ---------------------------------------------------


def test_a_turn_is_not_over_while_the_registry_is_busy_since_before_its_stop() -> None:
    story = working().status(0.1, "busy").stop(1)

    assert story.state(1) == story.state(17) == "thinking"
    assert (story.label(1), story.label(17)) == ("Generating response…", "Running Stop hooks…")
    assert story.status(18, "idle").state(18) == "idle"
    assert not working().status(0.1, "busy").stop(1).unread(17)


def test_the_transcripts_word_that_the_hooks_have_run_beats_a_busy_left_behind() -> None:
    """`/model` in mid-turn leaves one for good."""
    story = working().status(0.1, "busy").stop(1, source="transcript")

    assert story.stop(9, source="transcript", final=True).state(9) == "idle"


def test_such_a_word_of_the_turn_before_says_nothing_of_this_one() -> None:
    story = working().status(0.1, "busy").stop(1, final=True).prompt(1.2, "p2").stop(2, "p2")

    assert story.state(17) == "thinking"


def test_a_hook_that_sends_the_agent_on_ends_no_turn_in_between() -> None:
    story = working().status(0.1, "busy").stop(1)
    story.prompt(7, source="transcript", origin="system").stop(8)

    assert {story.state(at / 10) for at in range(10, 200)} == {"thinking"}
    assert story.stop(14, final=True, source="transcript").state(14) == "idle"


def test_stop_hooks_are_given_up_at_their_own_time_limit() -> None:
    assert working().status(0.1, "busy").stop(1).deadline(400) == 601


def test_an_interrupted_or_failed_turn_runs_no_stop_hooks() -> None:
    for kind, state in ((s.TurnInterrupted, "idle"), (s.TurnFailed, "error")):
        assert working().status(0.1, "busy").tell(kind, 1, prompt_id="p1").state(1) == state


def test_without_a_registry_only_hooks_that_took_long_before_are_waited_for() -> None:
    first = working().stop(1, last_message="Done.", source="transcript")
    assert first.state(1) == "idle"

    quick = first.stop(1.2, source="transcript", final=True).prompt(5, "p2").stop(6, "p2")
    assert quick.state(6) == "idle"

    slow = working().stop(1, last_message="Done.", source="transcript")
    slow.stop(7, source="transcript", final=True).prompt(10, "p2").stop(11, "p2")
    assert (slow.state(11), slow.deadline(12)) == ("thinking", 71)
    assert slow.stop(17, "p2", source="transcript", final=True).state(17) == "idle"


def test_a_word_from_before_the_session_was_left_is_none_once_it_is_resumed() -> None:
    """That was `busy` with the /clear by which it was left."""
    story = working().stop(1).status(2, "idle").status(3, "busy")
    story.tell(s.SessionEnded, 3.1, reason="clear").tell(s.SessionEnded, 3.3, source="registry")

    story.tell(s.SessionStarted, 20, reason="resume").status(20.2, None)

    assert {story.state(at) for at in (20.2, 60)} == {"idle"}
    late = story.tell(s.StatusReported, 3, seen=T0 + 3050, source="registry", status="busy", pid=7)
    assert late.state(60) == "idle"
    assert story.status(61, "busy").state(62) == "thinking"


def test_a_word_is_believed_again_whose_file_was_away_for_a_moment() -> None:
    """It comes back with the stamp it had."""
    story = working().status(1, "waiting", "permission prompt")
    story.tell(s.SessionEnded, 3, source="registry")
    assert story.state(3) == "session_ended"

    story.tell(
        s.StatusReported, 1, seen=T0 + 4000, source="registry", status="waiting",
        waiting_for="permission prompt", pid=7,
    )  # fmt: skip
    assert story.state(4) == "needs_permission"
