"""Team mates: in their lead's process, in panes of their own, at work and at rest."""

from __future__ import annotations

import pytest

from adsum_shared import signals as s
from tests.story import Story, working

IN_PROCESS, IN_PANE = "aanna-0123456789abcdef", "anna@session-S"
LISTED = [s.BackgroundTask("t1", "agent", s.MATE_LISTED, "Mate")]


def team(mate: str = IN_PROCESS) -> Story:
    """A lead has sent a mate to work, and its own turn is over."""
    story = working().tell(s.ChildStarted, 1, child_id=mate, description="Mate")
    return story.stop(2, background=LISTED)


def asked(story: Story, at: float, tool: str = "Bash", **data: object) -> Story:
    about = {"request_kind": "permission", "tool": tool, "agent_id": IN_PANE, **data}
    before = {"agent_id": IN_PANE, "request_id": "mate:anna"}
    story.tell(s.RequestClosed, at - 0.001, **before)
    return story.tell(s.RequestOpened, at, request_id="mate:anna", **about)


def test_a_list_that_names_no_mate_ends_it_and_one_that_does_keeps_it() -> None:
    assert team().state(3) == "waiting_for_agent"
    assert set(team().children(3)) == {IN_PROCESS}
    assert team().stop(4, background=[]).state(9) == "idle"


def test_a_resting_mate_is_not_kept_by_the_list() -> None:
    story = team().tell(s.ChildFinished, 5, child_id=IN_PROCESS, notified=True)
    story.prompt(6, "p2", origin="system").stop(7, prompt_id="p2", background=LISTED)

    assert story.state(8) == "idle"
    story.start(9, "m1", agent_id=IN_PROCESS, prompt_id=None)
    assert story.state(9) == "waiting_for_agent"


def test_a_mate_that_asks_is_named() -> None:
    inside = team().start(3, "m1", agent_id=IN_PROCESS).ask(3.1, name="m1", agent_id=IN_PROCESS)

    assert inside.label(4) == "Needs permission: Bash (anna)"
    assert asked(team(IN_PANE), 3).label(4) == "Needs permission: Bash (anna)"
    network = asked(team(IN_PANE), 3, s.NETWORK, summary="a.example")
    assert network.label(4) == "Needs network access: a.example (anna)"


def test_a_subagent_that_asks_is_not_taken_for_a_mate() -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a17", type="Explore")

    assert story.ask(2, agent_id="a17").label(3) == "Needs permission: Bash"


def test_what_a_mate_in_a_pane_asks_outlives_its_leads_turn_and_ends_with_the_registry() -> None:
    story = team(IN_PANE).status(2.1, "busy", dialogs=True)
    asked(story, 3).status(3.01, "waiting", "permission prompt", dialogs=True)

    assert story.state(60) == "needs_permission"
    assert story.status(60, "busy", dialogs=True).state(61) == "waiting_for_agent"


def test_a_mates_next_request_takes_the_place_of_the_one_before() -> None:
    story = asked(asked(team(IN_PANE), 3), 9, "Write")

    assert story.label(10) == "Needs permission: Write (anna)"
    assert len(story.verdict(10).requests) == 1


def test_a_network_dialog_of_a_mate_keeps_its_host_beside_the_registry() -> None:
    story = asked(team(IN_PANE), 3, s.NETWORK, summary="a.example")
    story.status(3.01, "waiting", "sandbox request", dialogs=True)

    assert story.label(4) == "Needs network access: a.example (anna)"
    assert story.status(9, "idle").state(10) == "idle"


def test_a_resting_mate_with_a_session_of_its_own_calls_nobody() -> None:
    story = working().stop(2, last_message="Which one?")
    assert (story.state(3), story.verdict(3).unread) == ("awaiting_input", True)

    story.tell(s.MetaChanged, 2.1, mate="anna@session-0a1b2c3d")
    assert story.label(3) == "Rests until its team lead has work"
    assert (story.state(3), story.verdict(3).unread) == ("waiting_for_agent", False)
    assert story.prompt(4, "p2", origin="system").state(4) == "thinking"


@pytest.mark.parametrize(("mate", "state"), [(IN_PANE, "idle"), (IN_PROCESS, "thinking")])
def test_the_registry_of_a_lead_with_a_mate_in_a_pane_stays_busy_at_rest(
    mate: str, state: str
) -> None:
    """It shows the same while the user's own Stop hooks run, but those of a lead end."""
    story = team(mate).status(2.1, "busy")
    story.tell(s.ChildFinished, 5, child_id=mate, notified=True)
    story.prompt(5, "p2", origin="system", source="transcript")
    story.stop(6, prompt_id="p2", source="transcript")

    assert story.state(7) == state
