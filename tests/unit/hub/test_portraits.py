"""What is kept of a session from one signal to the next says the same as if it were found anew."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from adsum_hub import portraits
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.kept import KEPT, Kept
from adsum_hub.portraits import Place, children_of, forget, portrait_of
from adsum_hub.resolve import reading
from adsum_hub.resolve.deadlines import next_deadline
from adsum_hub.resolve.resolve import children, open_requests, resolve
from adsum_hub.views import session_view
from adsum_shared.state import SessionView
from tests.scenes import STEPS, by_time, play
from tests.story import working

PLACE = Place("h", "lab", "live", 777)
SCENES = 25


def told(place: Place, facts: Facts, now: int) -> tuple[SessionView, object]:
    view = session_view(place, "S", facts, resolve(facts, now), now)
    rest = open_requests(facts, now), children(facts, now), next_deadline(facts, now)
    return replace(view, id="", host_id=""), rest


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_says_the_same_as_what_is_found_anew(seed: int):
    dice = random.Random(seed)
    for scene in range(SCENES):
        signals = by_time(play(dice.choices(STEPS, k=dice.randint(1, 14)), 40).streams)
        facts = None
        place = PLACE
        for number, signal in enumerate(signals):
            facts = fold(facts, signal)
            if dice.random() < 0.1:
                place = replace(place, offset_ms=dice.choice((0, 777)), label=f"lab {number}")
            now = signal.seen + dice.choice((0, 600, 12_000, 400_000))
            name = f"{seed}.{scene}.{number}"  # of which nothing is kept
            anew = told(replace(place, host_id=name), replace(facts, session_id=name), now)

            assert told(place, facts, now) == anew


def test_a_call_that_begins_leaves_a_portrait_as_it_is():
    story = working()
    before = portrait_of(PLACE, "one", story.told())

    assert portrait_of(PLACE, "one", story.start(2).told()) is before


def test_of_a_session_that_is_forgotten_nothing_stays_in_memory():
    facts = working().told()
    children_of(portrait_of(PLACE, "three", facts), facts, 5)
    id_ = facts.session_id

    forget(PLACE.host_id, "three")
    forget(PLACE.host_id, id_)

    kept = {"h:three": portraits._portraits, id_: reading._grounds}
    assert not [key for key, cache in kept.items() if key in cache]
    assert id_ not in reading._readings


def test_another_place_is_another_portrait():
    facts = working().told()
    portrait_of(PLACE, "two", facts)

    assert portrait_of(replace(PLACE, label="den"), "two", facts).view.host == "den"


def test_of_too_many_those_kept_longest_go():
    kept: Kept[int, int] = Kept()
    for number in range(KEPT + 2):
        kept.keep(number, number)
    kept.keep(5, 6)

    assert len(kept) == KEPT
    assert (kept.get(1), kept.get(2), kept[5]) == (None, 2, 6)
