"""A deadline may be early, but nothing that is shown changes before it."""

from __future__ import annotations

import random

import pytest

from adsum_hub.facts import Facts
from adsum_hub.limits import LIMITS
from adsum_hub.resolve.deadlines import candidates, next_deadline
from adsum_hub.resolve.reading import read, survey
from adsum_hub.resolve.resolve import children, open_requests, resolve
from adsum_hub.resolve.working import AGES
from tests.scenes import STEPS, by_time, folded, play
from tests.story import T0, working

SEEDS = 8
SCENES = 100
#: One after the other, each when the one before has come.
LOOKS = 6


def shown(facts: Facts, at: int) -> tuple[object, ...]:
    return resolve(facts, at), open_requests(facts, at), children(facts, at)


def stamps(facts: Facts) -> set[int]:
    """Every time that the facts name."""
    found = {facts.updated_at, facts.queued, facts.compacting, facts.compacted, facts.killed}
    found |= {facts.drained, facts.closing.heard if facts.closing else 0}
    for group in (facts.turns, facts.tools, facts.requests, facts.children):
        for each in group.values():
            values = (getattr(each, name) for name in each.__struct_fields__)
            found |= {value for value in values if isinstance(value, int) and value > 1_000_000}
    if facts.status is not None:
        found |= {facts.status.at, facts.status.waiting, facts.status.released}
    return found - {0}


#: Whatever a rule waits for.
LASTS = {getattr(LIMITS, name) for name in LIMITS.__struct_fields__} | {a * 60_000 for a in AGES}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_that_is_shown_changes_before_the_deadline(seed: int):
    dice = random.Random(seed)
    for _ in range(SCENES):
        scene = play(dice.choices(STEPS, k=dice.randint(1, 14)), dice.choice((0, 40, 900)))
        signals = by_time(scene.streams)
        if not signals:
            continue
        signals = signals[: dice.randint(1, len(signals))]
        facts = folded(signals)
        now = signals[-1].seen + dice.choice((0, 1, 250, 480, 700, 3_000, 61_000))
        moments = sorted(stamp + last for stamp in stamps(facts) for last in LASTS)
        for _ in range(LOOKS):
            due, present = next_deadline(facts, now), shown(facts, now)
            for at in moments:
                if now < at and (due is None or at < due):
                    assert shown(facts, at) == present, (at - now, due)
            if due is None:
                break
            now = due


def test_a_working_session_is_not_looked_at_soon_after_each_signal():
    due = next_deadline(working().start(1).told(), T0 + 1_000)

    assert due is not None
    assert due >= T0 + 10_000


def test_an_idle_session_is_not_looked_at_for_its_silence():
    now = T0 + 6_000
    reading = read(survey(working().stop(5).told(), LIMITS), now)

    assert not [at for at in candidates(reading) if at > now]
