"""Gaps concern those who were there before; the latest few are kept."""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.host import MOST_GAPS, ONE_EVENT_MS, is_concerned, with_gap
from adsum_shared.state import GapView


def facts(known: int) -> Facts:
    return Facts("s", born=known - 50_000, known=known)


def test_a_session_that_was_there_before_the_newest_gap_is_concerned():
    gaps = (GapView(900, "cap"), GapView(500, "copy"))

    assert is_concerned(facts(800), gaps)
    assert not is_concerned(facts(901), gaps)
    assert not is_concerned(facts(1), ())


def test_gaps_of_one_reason_close_to_each_other_are_one():
    gaps = with_gap((GapView(100, "cap", 5),), GapView(200, "cap", 3))

    assert gaps == (GapView(200, "cap", 8),)


def test_how_many_are_missing_stays_unknown_if_it_was():
    assert with_gap((GapView(100, "cap", 5),), GapView(200, "cap", 0)) == (GapView(200, "cap", 0),)


def test_other_reasons_and_later_times_are_gaps_of_their_own():
    gaps = with_gap((GapView(100, "cap", 5),), GapView(101, "lost"))
    gaps = with_gap(gaps, GapView(102 + ONE_EVENT_MS, "lost"))

    assert [gap.reason for gap in gaps] == ["cap", "lost", "lost"]


def test_only_the_latest_are_kept():
    gaps: tuple[GapView, ...] = ()
    for number in range(MOST_GAPS + 3):
        gaps = with_gap(gaps, GapView(number, f"r{number}"))

    assert [gap.at for gap in gaps] == list(range(3, MOST_GAPS + 3))
