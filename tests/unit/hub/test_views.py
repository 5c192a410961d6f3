"""What is taken over from a verdict and a view before says the same as if it were found anew."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import Verdict, judge
from adsum_hub.views import Shown, ViewedHost, rank, session_view, urgency
from adsum_shared.signals import WorkReported
from adsum_shared.state import GROUP_OF, AgentState, Group, Reachability, ReportView
from tests.scenes import STEPS, by_time, play
from tests.story import working

PLACE = ViewedHost("h", "lab", "live", 777)
SCENES = 25


def shown(place: ViewedHost, facts: Facts, now: int, last: Shown | None = None) -> Shown:
    verdict = judge(facts, now, last=last.verdict if last else None)
    return Shown(place, facts, verdict, session_view(place, "S", facts, verdict, last))


NEVER = 1 << 60


def said(verdict: Verdict) -> Verdict:
    return replace(verdict, ground=None, judged=0, until=None)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_taken_over_says_the_same_as_what_is_found_anew(seed: int):
    dice = random.Random(seed)
    for _ in range(SCENES):
        signals = by_time(play(dice.choices(STEPS, k=dice.randint(1, 14)), 40).streams)
        facts, last = None, None
        place = PLACE
        for number, signal in enumerate(signals):
            facts = fold(facts, signal)
            if dice.random() < 0.1:
                place = replace(place, offset_ms=dice.choice((0, 777)), label=f"lab {number}")
            now = signal.seen + dice.choice((0, 600, 12_000, 400_000))
            anew, last = shown(place, facts, now), shown(place, facts, now, last)

            assert last.view == anew.view
            assert said(last.verdict) == said(anew.verdict)
            # It may be looked at too early, for nothing, and never too late.
            assert (last.verdict.until or NEVER) <= (anew.verdict.until or NEVER)


def test_a_call_that_begins_leaves_alone_what_it_does_not_touch():
    story = working()
    before = judge(story.told(), 5)
    after = judge(story.start(2).told(), 5, last=before)

    assert before.ground is not None
    assert after.ground is not None
    assert after.ground.turns is before.ground.turns
    assert after.ground.calls is not before.ground.calls


def test_of_a_session_that_is_over_nothing_is_kept_for_the_next_verdict():
    story = working()
    assert story.verdict(1).ground is not None

    assert story.decided(2, "control.dismissed").verdict(3).ground is None


def test_another_place_is_another_view():
    last = shown(PLACE, working().told(), 5)
    den = replace(PLACE, label="den", offset_ms=0)
    moved = shown(den, last.facts, 5, last).view

    assert (moved.host, moved.state.since - last.view.state.since) == ("den", 777)


# The one order: who needs a human first, and where each session stands in it.

DAY = 24 * 3_600_000
NOW = 1_764_000_000_000
JAVASCRIPT_MAX = 2**53 - 1


def placed(
    state: str,
    *,
    since: int = NOW,
    began: int = NOW,
    reachability: Reachability = "live",
    hint: int | None = None,
    **context: Any,
) -> int:
    group = GROUP_OF.get(state, Group.NEEDS_YOU)
    now = AgentState(group, state, state, 1.0, "hook", since, context or None)
    return rank(now, reachability, hint or urgency(now), began)


def test_who_needs_a_human_comes_first_then_who_works_then_what_is_delivered_and_offline_hosts_last():
    order = [
        placed("needs_permission"),
        placed("idle"),
        placed("idle", prompted=False),
        placed("thinking"),
        placed("session_ended"),
        placed("needs_permission", reachability="offline"),
        placed("thinking", reachability="offline"),
        placed("session_ended", reachability="offline"),
    ]

    assert order == sorted(set(order))


def test_of_one_urgency_who_has_waited_longest_comes_first():
    assert placed("needs_permission", since=NOW - DAY) < placed("needs_permission")
    assert placed("needs_permission", since=NOW) < placed("awaiting_input", since=NOW - DAY)


def test_a_need_that_nobody_has_heard_of_stands_after_a_plan_and_before_silence():
    assert placed("awaiting_approval") < placed("awaiting_review") < placed("stuck")


def test_a_working_session_keeps_its_place_while_it_enters_one_state_after_the_other():
    assert placed("thinking", since=NOW) == placed("acting", since=NOW + DAY)
    assert placed("acting", began=NOW + 1) < placed("acting", began=NOW)


def test_what_was_delivered_last_comes_first():
    assert placed("session_ended", since=NOW) < placed("task_complete", since=NOW - 1)


def test_a_domain_s_urgency_goes_before_the_core_s():
    assert placed("idle", hint=1, since=NOW - 1) < placed("needs_permission")


@pytest.mark.parametrize("at", [-DAY, 0, NOW, 10**15])
def test_a_rank_is_a_whole_number_that_javascript_holds(at: int):
    for state in ("idle", "thinking", "session_ended"):
        ranked = placed(state, since=at, began=at, reachability="offline")
        assert 0 <= ranked <= JAVASCRIPT_MAX
        assert placed(state, since=at, began=at) < ranked


def test_a_report_stands_until_a_human_writes_to_the_session_again():
    story = working().stop(2)
    told = {"status": "blocked", "issue": "PAN-80", "source": "hub"}
    story.tell(WorkReported, 3, report_id="b", **told).tell(WorkReported, 3, report_id="b", **told)
    story.tell(WorkReported, 2.5, report_id="a", status="passed")  # it came later, and is older
    view = shown(PLACE, story.told(), 4_000).view
    assert view.report is not None
    at = story.told().report.at - PLACE.offset_ms
    assert view.report == ReportView("blocked", at, "PAN-80")
    assert view.state.state == shown(PLACE, working().stop(2).told(), 4_000).view.state.state
    story.prompt(5, "p2")
    assert shown(PLACE, story.told(), 5_000).view.report is None


def test_a_report_that_comes_while_nothing_else_changes_is_in_the_next_view():
    story = working()
    last = shown(PLACE, story.told(), 1_000)
    story.tell(WorkReported, 1.1, report_id="a", status="passed", source="hub")
    after = shown(PLACE, story.told(), 1_100, last).view
    assert after.report is not None
    assert after.state == last.view.state


def test_nobody_misses_the_hooks_of_an_agent_that_has_none():
    facts = working().told()
    verdict = replace(judge(facts, 5), hooks="missing")
    without = replace(PLACE, unhooked=frozenset({facts.agent}))

    hooked, unhooked = (session_view(place, "S", facts, verdict) for place in (PLACE, without))

    assert "missing" in {each.problem for each in hooked.witnesses}
    assert {each.problem for each in unhooked.witnesses} == {None}
