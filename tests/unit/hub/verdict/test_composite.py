"""What long sessions of the real CLI showed, of which its short ones gave no hint."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from adsum_collector.agents.claude_code.tools import server_named
from adsum_shared import signals as s
from tests.story import T0, Story, working


def shelled() -> Story:
    """A turn is over, a shell runs on in the background; hooks and registry agree."""
    story = working().status(0, "busy")
    story.tell(s.ChildStarted, 1, child_id="b1", child_kind="shell", description="serve")
    return story.stop(2).status(2.1, "shell")


def delegated() -> Story:
    """A subagent runs in the background, its parent's turn is over."""
    story = working().status(0, "busy")
    return story.tell(s.ChildStarted, 1, child_id="a1", type="Explore").stop(2)


def escape(story: Story, at: float, prompt_id: str = "p2") -> Story:
    return story.tell(s.TurnInterrupted, at, source="transcript", prompt_id=prompt_id)


# -- a child outlives the end of its parent's turn, however that ended ------------------------------


def test_a_subagent_goes_on_after_an_escape() -> None:
    """The registry stays `busy`: Esc ends the turn alone."""
    story = escape(delegated().prompt(5, "p2").start(6, "t2", prompt_id="p2"), 8)

    assert story.state(9) == "waiting_for_agent"


def test_a_subagents_parent_waits_while_the_users_hooks_on_its_end_run() -> None:
    """The registry stays `busy`; the report comes when they have run."""
    story = delegated().stop(2.1, final=True).tell(s.ChildFinished, 5, child_id="a1")

    assert (story.state(30), story.deadline(30)) == ("waiting_for_agent", 305)
    assert story.status(31, "idle").state(31.5) == "idle"


def test_it_waits_no_longer_for_one_that_was_killed_or_without_the_registry() -> None:
    killed = delegated().tell(s.ChildFinished, 5, child_id=s.ALL_CHILDREN, status="killed")
    assert killed.stop(2.1, final=True).state(6) == "idle"

    alone = working().tell(s.ChildStarted, 1, child_id="a1").stop(2)
    assert alone.tell(s.ChildFinished, 5, child_id="a1").deadline(6) == 10


def test_a_shell_goes_on_after_an_escape() -> None:
    story = escape(shelled().prompt(5, "p2").status(5, "busy"), 8).status(8, "shell")

    assert story.state(9) == "waiting_for_agent"


def test_an_escape_that_left_nothing_running_is_an_interruption() -> None:
    assert escape(working(), 3, "p1").label(4) == "Interrupted"


def test_a_failure_beside_a_subagent_is_not_yet_the_end() -> None:
    """It ends by itself and wakes its parent."""
    story = delegated().prompt(5, "p2").tell(s.TurnFailed, 6, prompt_id="p2", error="overloaded")

    assert story.state(7) == "waiting_for_agent"


def test_a_failure_beside_a_shell_calls_for_a_human() -> None:
    """A server never ends, and nobody else would ever tell of the failure."""
    story = shelled().prompt(5, "p2").tell(s.TurnFailed, 6, prompt_id="p2", error="overloaded")

    assert story.status(6.1, "shell").state(7) == "error"


def test_a_report_stamped_just_before_the_end_it_tells_of_has_told_the_parent() -> None:
    """It joined the running turn: the two lines bear stamps of 1 ms apart, in the wrong order."""
    story = working().tell(s.ChildStarted, 1, child_id="b1", child_kind="shell")
    story.tell(s.ChildFinished, 4.159, child_id="b1", notified=True, source="transcript")
    story.tell(s.ChildFinished, 4.160, child_id="b1", source="transcript")

    assert story.stop(5, source="transcript").state(6) == "idle"


def test_a_shell_only_the_registry_knows_does_not_flicker_at_the_next_prompt() -> None:
    """After /clear its start belongs to the old session. Its `busy` comes before the prompt's hook."""
    story = working().stop(1).status(1.1, "shell").status(5, "busy")

    assert story.state(5.02) == "waiting_for_agent"


def test_a_shell_only_the_registry_knows_does_not_flicker_at_the_turns_end() -> None:
    story = working().stop(1).status(1.1, "shell").status(5, "busy").prompt(5.1, "p2").stop(8, "p2")

    assert story.state(8.02) == "waiting_for_agent"
    assert story.status(8.1, "idle").state(8.2) == "idle"


# -- a wake-up at a set time -----------------------------------------------------------------------


def scheduled(until: float) -> Story:
    """The registry says `idle`, and a Stop lists it under another id."""
    due = T0 + round(until * 1000)
    story = (
        working()
        .status(0, "busy")
        .tell(
            s.ChildStarted, 1, child_id="wake-up", child_kind="cron", description="look", until=due
        )
    )
    listed = [s.BackgroundTask("c1", kind="cron")]
    return story.stop(2, background=listed, final=True).status(2.1, "idle")


def test_an_agent_that_is_to_be_woken_works_until_then() -> None:
    story = scheduled(600)

    assert (story.state(300), story.label(300)) == ("waiting_for_agent", "Background work: look")
    assert story.children(300)["wake-up"] == "running"
    assert (story.deadline(300), story.state(605)) == (605, "idle")
    assert story.children(605)["wake-up"] == "completed"


def test_a_wake_up_is_over_with_the_prompt_that_is_due_or_a_humans_own() -> None:
    story = scheduled(600).prompt(599, "p2").status(599, "busy")
    assert story.stop(601, "p2", final=True).status(601, "idle").state(602) == "idle"


def test_a_wake_up_that_the_agent_took_back_wakes_nobody() -> None:
    story = scheduled(600).prompt(10, "p2", origin="system").status(10, "busy")
    story.tell(s.ChildFinished, 11, child_id="wake-up", child_kind="cron", status="stopped")
    assert story.stop(12, "p2", final=True).status(12, "idle").state(18) == "idle"


# -- several dialogs at once ---------------------------------------------------------------------


def two_dialogs(waiting_for: str) -> Story:
    story = working().status(0, "busy").start(1, "q", "AskUserQuestion")
    story.ask(1.1, "question", "q", tool="AskUserQuestion")
    story.start(3, "t2", agent_id="a1").ask(3.1, name="t2", agent_id="a1")
    return story.status(3.2, "waiting", waiting_for)


@pytest.mark.parametrize(
    ("waiting_for", "state"),
    [
        ("input needed", "awaiting_input"),
        ("permission prompt", "needs_permission"),
        ("dialog open", "awaiting_input"),  # asked for first, where nobody says which it is
    ],
)
def test_of_two_dialogs_the_one_on_the_screen_counts(waiting_for: str, state: str) -> None:
    assert two_dialogs(waiting_for).state(4) == state


def form(story: Story, at: float, server: str = "tiny") -> Story:
    asked = {"request_kind": "dialog", "request_id": f"elicitation:{server}", "tool": server}
    return story.tell(s.RequestOpened, at, server=server_named(server), **asked)


def asking_for(*names: str, tool: str = "mcp__tiny__form") -> Story:
    """Calls of a server's tool, and each asks."""
    story = working()
    for at, name in enumerate(names, 1):
        story.start(at, name, tool).ask(at + 0.1, name=name, tool=tool)
    return story


def test_a_form_proves_that_its_servers_call_was_permitted() -> None:
    story = form(asking_for("t1"), 4)
    assert (story.asked(4), story.state(4)) == (["dialog"], "awaiting_input")

    story.tell(s.RequestClosed, 9, request_id="elicitation:tiny")
    assert (story.asked(9), story.state(9)) == ([], "acting")


def test_a_form_proves_it_for_names_that_the_agent_had_to_change() -> None:
    story = form(asking_for("t1", tool="mcp__my_files__form"), 4, "my files")
    assert story.asked(4) == ["dialog"]


def test_a_form_proves_nothing_of_another_servers_call_or_of_one_that_asked_later() -> None:
    assert form(asking_for("t1", tool="mcp__db__form"), 4).asked(4) == ["permission", "dialog"]
    assert form(asking_for("t1"), 0.5).asked(4) == ["dialog", "permission"]


def test_a_form_proves_nothing_while_another_call_of_its_server_may_have_asked() -> None:
    """Nor when that one has ended, or the second permission would be granted by and by."""
    story = working().start(0.5, "t0", "mcp__tiny__form")
    story.start(1, "t1", "mcp__tiny__form").ask(1.1, name="t1", tool="mcp__tiny__form")
    assert form(story, 4).asked(4) == ["permission", "dialog"]
    story.finish(5, "t0", "mcp__tiny__form")
    assert story.asked(6) == ["permission", "dialog"]


def test_a_form_of_a_subagents_call_outlives_the_parents_stop_and_ends_with_that_call() -> None:
    """Its hook names no agent."""
    story = form(working().start(1, "t1", "mcp__tiny__form", agent_id="a1"), 2)
    assert story.stop(3).asked(60) == ["dialog"]

    assert story.finish(61, "t1", "mcp__tiny__form", agent_id="a1").asked(61) == []


@pytest.mark.parametrize("other", ["a2", None])
def test_a_form_stays_as_long_as_any_call_runs_that_may_have_asked(other: str | None) -> None:
    story = working().start(1, "t1", "mcp__tiny__form", agent_id="a1")
    form(story.start(1.1, "t2", "mcp__tiny__form", agent_id=other), 2)

    assert story.finish(3, "t1", "mcp__tiny__form", agent_id="a1").asked(60) == ["dialog"]


def test_a_form_that_comes_once_a_subagents_call_is_over_is_the_main_agents() -> None:
    story = working().start(1, "t1", "mcp__tiny__form", agent_id="a1")
    story.finish(2, "t1", "mcp__tiny__form", agent_id="a1")

    assert form(story, 3).stop(4).asked(5) == []


def test_of_two_calls_that_ask_the_form_is_of_the_first() -> None:
    story = form(asking_for("t1", "t2"), 4)
    assert story.asked(4) == ["permission", "dialog"]
    assert story.verdict(4).requests[0][0] == "t2"

    story.tell(s.RequestClosed, 5, request_id="elicitation:tiny")
    assert story.finish(6, "t1", "mcp__tiny__form").asked(6) == ["permission"]


def test_a_permission_that_esc_took_away_is_not_the_one_granted() -> None:
    story = asking_for("t1").tell(s.TurnInterrupted, 2, prompt_id="p1").prompt(3, "p2")
    story.start(4, "t2", "mcp__tiny__form", prompt_id="p2")
    story.ask(4.1, name="t2", tool="mcp__tiny__form", prompt_id="p2")
    assert form(story, 5).asked(5) == ["dialog"]


def test_a_dialog_over_background_work_is_open() -> None:
    story = shelled().status(5, "waiting", "dialog open")

    assert (story.state(6), story.label(6)) == ("awaiting_input", "A dialog is open")


def test_one_nameless_dialog_after_another_leaves_no_gap() -> None:
    """Auto mode's own dialog is two in a row, and no hook tells of either."""
    story = working().status(0, "busy").start(1).status(2, "waiting", "dialog open")
    assert story.state(3) == "awaiting_input"

    story.status(5, "waiting", "permission prompt")

    assert story.state(5.05) == "needs_permission"


# -- the queue and compactions -------------------------------------------------------------------


def queue(story: Story, at: float) -> Story:
    return story.tell(s.PromptSubmitted, at, source="transcript", origin="queued", prompt_id="p1")


def test_a_prompt_typed_in_a_compaction_is_queued_after_it() -> None:
    story = working().stop(1).tell(s.CompactionStarted, 5).status(5, "busy")
    queue(story, 6).tell(s.CompactionFinished, 8)

    assert story.state(8.1) == "queued"


def test_a_note_left_for_the_next_prompt_starts_nothing() -> None:
    """That a subagent was stopped is queued as well; it waits for a human's prompt."""
    story = queue(working().stop(1).status(1.1, "idle"), 5)

    assert story.state(6) == "idle"


def test_a_queued_prompt_does_not_outdate_the_registrys_busy() -> None:
    """A typed /compact is known by nothing else, where its hooks are not installed."""
    story = queue(working().stop(1).status(1.1, "idle").status(5, "busy"), 6)

    assert story.state(7) == "thinking"


def test_an_escape_ends_a_typed_compaction_by_its_record_alone() -> None:
    story = working().stop(1).tell(s.CompactionStarted, 5)
    assert story.state(6) == "compacting"

    story.tell(s.Alive, 7, source="transcript", event=s.COMMAND)

    assert story.state(8) == "idle"


# -- the end of a session ------------------------------------------------------------------------


def close(story: Story, at: float, reason: str = "closed") -> Story:
    return story.tell(s.SessionEnded, at, source="transcript", reason=reason)


def test_closed_books_end_a_session_the_registry_never_named() -> None:
    assert close(working().stop(1), 5).state(5) == "session_ended"


def test_closed_books_in_mid_turn_end_it_too() -> None:
    """A closed terminal: the tool's own end is still written, SessionEnd comes a second later."""
    story = close(working().start(1), 5).finish(5, ok=False, source="transcript")

    assert story.state(5.1) == "session_ended"


def test_a_headless_run_shows_its_error_until_it_is_over() -> None:
    story = working().tell(s.TurnFailed, 4, prompt_id="p1", error="overloaded")
    close(story, 4, "run_over")

    assert (story.state(5), story.deadline(5), story.state(6.1)) == ("error", 6, "session_ended")


def test_the_registry_knows_better_than_closed_books() -> None:
    story = close(working().stop(1).status(1.1, "idle"), 5)

    assert story.state(9) == "idle"


@pytest.mark.parametrize("how", ["prompt", "message", "resume", "process"])
def test_closed_books_are_opened_again_by_any_new_life(how: str) -> None:
    story = close(working().tell(s.ProcessSeen, 0, pid=7, started=s_at(0)).stop(1), 5)
    match how:
        case "prompt":
            story.prompt(8, "p2")
        case "message":
            story.tell(s.Alive, 8, source="transcript", event=s.MESSAGE)
        case "resume":
            story.tell(s.SessionStarted, 8, reason="resume")
        case "process":
            story.tell(s.ProcessSeen, 8, source="process", pid=9, started=s_at(8))

    assert story.state(9) != "session_ended"


def s_at(at: float) -> int:
    return 1_800_000_000_000 + round(at * 1000)


def test_a_kill_and_a_resume_within_a_second_take_up_no_dead_tool() -> None:
    """The new process's start is known to a second at worst, the old one's end exactly."""
    story = working().tell(s.ProcessSeen, 0, pid=7, started=s_at(0)).start(5)
    story.tell(s.ProcessGone, 5.2, source="process", pid=7, started=s_at(0))

    story.tell(s.ProcessSeen, 6, source="registry", pid=9, started=s_at(4.9))

    assert story.state(6.1) != "acting"


def test_the_end_of_a_process_nobody_saw_come_ends_the_session() -> None:
    story = working().tell(s.ProcessSeen, 0, pid=7, started=s_at(0)).stop(1)
    story.tell(s.ProcessGone, 2, source="process", pid=7, started=s_at(0)).prompt(9, "p2")

    story.tell(s.ProcessGone, 20, source="process", pid=9, started=s_at(8))

    assert story.state(20) == "session_ended"


def test_a_prompt_another_hook_refused_is_no_turn() -> None:
    """Its own hook fires all the same; the transcript alone tells, without its id."""
    story = working().stop(1).prompt(5, "p2")
    story.tell(s.TurnInterrupted, 5.1, source="transcript")

    assert story.state(6) == "idle"


def test_a_session_known_by_its_registry_alone_works_while_that_is_busy() -> None:
    story = Story().status(1, "busy", started=s_at(0))

    assert (story.state(1.1), story.at(1.1).source) == ("thinking", "registry")


# -- two terminals on one session ----------------------------------------------------------------


def two_terminals() -> list[tuple[type, float, dict[str, Any]]]:
    """The younger one is closed, by its user or by a kill; a hook of that may come last."""
    older, younger = {"pid": 7, "started": T0 - 9_000}, {"pid": 8, "started": T0 + 1_500}
    return [
        (s.ProcessSeen, 0, older),
        (s.ProcessSeen, 2, younger),
        (s.ProcessGone, 10, younger),
        (s.ProcessSeen, 10.2, older | {"again": True}),
        (s.SessionEnded, 11, {"reason": "prompt_input_exit"}),
    ]


def test_a_session_lives_on_in_the_other_of_two_terminals_in_whatever_order_that_is_told() -> None:
    told = [Story().prompt(3).stop(4) for _ in permutations(range(5))]
    for story, order in zip(told, permutations(two_terminals()), strict=True):
        for kind, at, data in order:
            story.tell(kind, at, **data)
        story.status(10.2, "idle", started=T0 - 9_000)

    assert {story.state(60) for story in told} == {"idle"}
    assert len({story.told().process for story in told}) == 1


def resumed_in_the_older() -> list[tuple[type, float, dict[str, Any]]]:
    """By /resume, once the younger terminal has been closed, or although it has not been."""
    older, younger = {"pid": 7, "started": T0 - 9_000}, {"pid": 8, "started": T0 + 1_500}
    return [
        (s.ProcessSeen, 2, younger),
        (s.ProcessSeen, 20, older | {"moved": True}),
        (s.StatusReported, 20, older | {"status": "idle", "waiting_for": None}),
        (s.ProcessGone, 60, older),
    ]


@pytest.mark.parametrize("closed", [True, False])
def test_a_session_runs_in_the_older_terminal_that_took_it_up_in_whatever_order_that_is_told(
    closed: bool,
) -> None:
    *lived, killed = resumed_in_the_older()
    if closed:
        lived.append((s.ProcessGone, 10, lived[0][2]))
    stories = []
    for order in permutations(lived):
        story = Story().prompt(3).stop(4)
        for kind, at, data in order:
            story.tell(kind, at, **data)
        stories.append(story)
    assert {story.state(30) for story in stories} == {"idle"}

    kind, at, data = killed
    assert {story.tell(kind, at, **data).state(61) for story in stories} == {"session_ended"}


def test_what_the_closed_terminal_asked_is_void_where_another_has_taken_the_session_up() -> None:
    """Without a SessionStart hook, as of 2.1.112."""
    story = Story().prompt(3).start(4).ask(4.1)
    (_, _, younger), (kind, at, older), *_ = resumed_in_the_older()
    story.tell(kind, at, **older)
    assert story.state(21) == "needs_permission"  # the other one has it still

    story.tell(s.ProcessSeen, 2, **younger).tell(s.ProcessGone, 10, **younger)
    assert story.state(21) == "idle"


def test_what_its_own_terminal_asks_is_not_void_where_a_collector_finds_it_anew() -> None:
    """Its registry file was away for a moment, and the collector was started anew meanwhile."""
    story = Story().tell(s.ProcessSeen, 2, pid=7, started=T0).prompt(3).start(4).ask(4.1)
    story.tell(s.SessionEnded, 5, source="registry")
    story.tell(s.ProcessSeen, 6, pid=7, started=T0, moved=True)
    story.status(6, "waiting", "permission prompt", pid=7, started=T0)

    assert (story.state(7), story.at(7).source) == ("needs_permission", "hook")


def test_a_new_session_of_the_terminal_that_has_one_still_ends_when_its_registry_says_so() -> None:
    """A /clear a second after the other terminal was closed."""
    story = Story().prompt(3).stop(4)
    for each, at, fields in two_terminals():
        story.tell(each, at, **fields)

    assert story.tell(s.SessionEnded, 11.2, source="registry").state(20) == "session_ended"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (s.SessionEnded, {"reason": "prompt_input_exit"}),
        (s.SessionEnded, {"source": "registry"}),
        (s.ProcessGone, {"pid": 7, "started": T0 - 9_000}),
    ],
)
def test_it_ends_with_that_one(kind: type, data: dict[str, Any]) -> None:
    story = Story().prompt(3).stop(4)
    for each, at, fields in two_terminals():
        story.tell(each, at, **fields)

    assert (story.state(19), story.tell(kind, 20, **data).state(20)) == ("idle", "session_ended")
