"""The one order: who needs a human first, and where each session stands in it."""

from __future__ import annotations

from typing import Any

import pytest

from adsum_hub.order import rank, urgency
from adsum_shared.state import GROUP_OF, AgentState, Group, Reachability

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
