"""Children of whose end nobody told: when they are given up, and when they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum_hub.verdict.judge import judge
from adsum_shared import signals as s
from bench import replay
from bench.accuracy import WAYS
from bench.traces import load
from tests.story import T0, Story, working

LONG = Path(__file__).parents[3] / "data" / "long_traces"


def parent_at_rest() -> Story:
    """A subagent in the background, last heard in second 1."""
    return working().tell(s.ChildStarted, 1, child_id="a1").stop(2)


def test_a_child_of_a_process_that_is_gone_is_orphaned() -> None:
    story = working().tell(s.ProcessSeen, 0, source="process", pid=7)
    story.tell(s.ChildStarted, 1, child_id="a1")
    story.tell(s.ChildStarted, 1, child_id="b1", child_kind="shell")
    assert story.children(4) == {"a1": "running", "b1": "running"}

    story.tell(s.ProcessGone, 5, source="process", pid=7)

    assert story.state(6) == "session_ended"
    assert story.children(6) == {"a1": "orphaned", "b1": "orphaned"}


def test_a_child_of_a_session_that_ended_is_orphaned() -> None:
    story = parent_at_rest().tell(s.SessionEnded, 3, reason="clear")

    assert story.children(3.1) == {"a1": "orphaned"}


def test_a_silent_child_is_orphaned_at_the_time_its_parent_gives_it_up() -> None:
    story = parent_at_rest()
    for at in (2.1, 300, 300.9):
        assert (story.state(at), story.children(at)) == ("waiting_for_agent", {"a1": "running"})
    for at in (301, 400):
        assert (story.state(at), story.children(at)) == ("idle", {"a1": "orphaned"})


def test_an_orphans_end_is_when_it_was_last_heard() -> None:
    (child,) = parent_at_rest().child_views(400)

    assert (child.started_at, child.finished_at) == (T0 + 1_000, T0 + 1_000)


def test_a_child_that_the_registry_calls_idle_is_orphaned() -> None:
    story = parent_at_rest().status(2.1, "idle")

    assert story.children(2.5) == {"a1": "running"}
    assert story.children(2.6) == {"a1": "orphaned"}


def test_a_child_of_a_run_before_is_orphaned() -> None:
    story = parent_at_rest().tell(s.SessionStarted, 60, reason="resume").prompt(61, "p2")

    assert story.children(62) == {"a1": "orphaned"}

    story.start(63, "t2", tool="Agent", prompt_id="p2").tell(s.ChildStarted, 63, child_id="a2")
    assert story.children(64) == {"a2": "running", "a1": "orphaned"}


def test_a_child_that_the_main_agent_waits_for_is_no_orphan_however_silent() -> None:
    story = working().start(1, tool="Agent").tell(s.ChildStarted, 1, child_id="a1")

    assert story.children(900) == {"a1": "running"}


def test_a_child_that_waits_for_a_human_is_no_orphan() -> None:
    story = parent_at_rest().ask(3, agent_id="a1")

    assert story.asked(900) == ["permission"]
    assert story.children(900) == {"a1": "running"}


@pytest.mark.parametrize("kind", ["shell", "monitor", "workflow", "cron"])
def test_what_may_be_silent_for_hours_is_no_orphan(kind: str) -> None:
    story = working().stop(2, background=[s.BackgroundTask("x", kind)])

    assert story.children(36_000) == {"x": "running"}


def test_an_orphan_whose_end_is_told_after_all_has_ended_so() -> None:
    story = parent_at_rest()
    assert story.children(400) == {"a1": "orphaned"}

    assert story.tell(s.ChildFinished, 401, child_id="a1").children(402) == {"a1": "completed"}


def test_an_orphan_that_speaks_again_runs() -> None:
    story = parent_at_rest()
    assert story.children(400) == {"a1": "orphaned"}

    assert story.start(401, "t9", agent_id="a1").children(402) == {"a1": "running"}


def test_an_orphan_stands_behind_those_that_run() -> None:
    story = parent_at_rest().tell(s.ChildStarted, 0.5, child_id="b1", child_kind="shell")

    assert list(story.children(400)) == ["b1", "a1"]


@pytest.mark.parametrize("dismissed", [False, True])
def test_giving_a_child_up_wakes_the_hub_though_no_state_changes(dismissed: bool) -> None:
    story = working().tell(s.ChildStarted, 1, child_id="a1").tell(s.Alive, 50, source="process")
    if dismissed:
        story.decided(51, "control.dismissed")
    now, woken = T0 + 52_000, []
    while (at := judge(story.told(), now).until) is not None:
        woken.append(now := at)

    assert T0 + 301_000 in woken
    assert story.at(300.9) == story.at(301)


def test_no_child_of_a_recorded_session_outlives_it() -> None:
    """Recorded: a background shell at /clear, then a subagent when the terminal was closed."""
    trace = load(LONG / "m_clearbg_p")
    facts: dict[str, Story] = {}
    for arrival in replay.heard(replay.arrivals(trace), WAYS["all"].witnesses):
        story = facts.setdefault(arrival.signal.session_id, Story())
        story.facts = replay.fold(story.facts, arrival.signal)
    found = [
        (child.kind, child.status, story.at((trace.t0 + trace.end - T0) / 1000).state)
        for story in facts.values()
        for child in story.child_views((trace.t0 + trace.end - T0) / 1000)
    ]

    assert sorted(each for each in found if each[1] != "completed") == [
        ("agent", "killed", "session_ended"),
        ("agent", "orphaned", "session_ended"),
        ("shell", "orphaned", "session_ended"),
    ]
