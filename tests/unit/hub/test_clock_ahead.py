"""Signals dated later than they can have been sent: what they tell counts, and stands no longer for it."""

from __future__ import annotations

from typing import Any

import pytest

from adsum_hub.clock import ABSURD_MS, AHEAD_MS
from adsum_hub.roster import Roster
from adsum_hub.snapshots import Snapshot
from adsum_shared.envelope import Batch, Beat
from adsum_shared.signals import AnySignal, PromptSubmitted, TurnEnded, UsageTotalled
from adsum_shared.state import Group

NOW = 1_764_000_000_000
YEARS = 1_000 * ABSURD_MS


def told(signal: AnySignal, sent_at: int, offset: int | None, *more: AnySignal) -> Any:
    """The host after this and what came a second later. offset: as its heartbeat has it."""
    roster = Roster()
    host = roster.add("h", Snapshot(), NOW)
    if offset is not None:
        roster.hear("h", Beat("h", "lab", NOW + offset, "n", "sp"), 0, NOW)
    assert not roster.apply("h", Batch("sp", 1, 1, "n", sent_at, (signal,)), NOW)
    if more:
        roster.apply("h", Batch("sp", 2, 1 + len(more), "n", NOW + 1_000, more), NOW + 1_000)
    while roster.take_changes(NOW + 2_000):
        pass
    return host


def prompt(at: int) -> PromptSubmitted:
    return PromptSubmitted(session_id="s", at=at, seen=at, prompt_id="p")


@pytest.mark.parametrize(("sent_at", "offset"), [(NOW, 0), (NOW, None), (NOW + YEARS, 0)])
def test_a_signal_from_a_thousand_years_ahead_does_not_stand_for_ever(
    sent_at: int, offset: int | None
) -> None:
    end = TurnEnded(session_id="s", at=NOW + 900, seen=NOW + 900, prompt_id="p")
    host = told(prompt(NOW + YEARS), sent_at, offset, end)

    assert host.verdicts["s"].state.group is not Group.AUTONOMOUS
    assert "dated over an hour later than sent" in host.view().problem
    assert max(host.facts["s"].updated_at, host.facts["s"].moved) <= NOW + 1_000


def test_of_a_machine_that_nobody_has_heard_a_year_is_believed_and_no_more() -> None:
    host = told(prompt(NOW + YEARS), NOW + YEARS, None)
    assert host.facts["s"].updated_at == NOW + ABSURD_MS


def test_a_machine_whose_clock_is_ahead_is_believed_by_its_own_clock() -> None:
    ahead = 40 * 24 * 3_600_000
    host = told(prompt(NOW + ahead), NOW + ahead, ahead)
    assert host.view().problem is None
    assert host.facts["s"].updated_at == NOW + ahead


def test_what_a_clock_is_off_by_within_an_hour_changes_nothing() -> None:
    host = told(prompt(NOW + AHEAD_MS), NOW, 0)
    assert host.view().problem is None
    assert host.facts["s"].updated_at == NOW + AHEAD_MS


def test_usage_of_a_day_to_come_is_set_aside_with_its_date() -> None:
    at = NOW + 10 * ABSURD_MS
    usage = UsageTotalled(session_id="s", at=at, seen=at, day="2034-01-01", model="m")
    host = told(usage, NOW, 0)
    assert "s" not in host.facts
    assert "could not be used" in host.view().problem
