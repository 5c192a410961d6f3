"""What is taken over from a verdict and a view before says the same as if it were found anew."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import Verdict, judge
from adsum_hub.views import Place, Shown, session_view
from tests.scenes import STEPS, by_time, play
from tests.story import working

PLACE = Place("h", "lab", "live", 777)
SCENES = 25


def shown(place: Place, facts: Facts, now: int, last: Shown | None = None) -> Shown:
    verdict = judge(facts, now, last=last.verdict if last else None)
    return Shown(place, facts, verdict, session_view(place, "S", facts, verdict, last))


def said(verdict: Verdict) -> Verdict:
    return replace(verdict, ground=None)


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
