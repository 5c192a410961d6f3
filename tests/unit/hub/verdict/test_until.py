"""Nothing of a verdict changes by itself before the instant it names."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import Verdict, judge
from adsum_hub.verdict.reading import LIMITS
from adsum_hub.verdict.rules import AGES
from adsum_hub.views import child_views
from bench import replay
from bench.accuracy import read
from tests.scenes import PATIENCE, STEPS, by_time, examples, folded, play
from tests.story import T0, working

pytestmark = pytest.mark.timeout(PATIENCE)

DATA = Path(__file__).parents[3] / "data"
#: One after the other, each when the one before has come.
LOOKS = 6
#: Whatever a rule waits for.
LASTS = {getattr(LIMITS, name) for name in LIMITS.__struct_fields__} | {a * 60_000 for a in AGES}
DAY = 24 * 3_600_000

scripts = st.lists(st.sampled_from(STEPS), min_size=1, max_size=14)
dices = st.randoms(use_true_random=False)


@cache
def recorded() -> list[list[replay.Arrival]]:
    """Every session of every trace: what its witnesses said."""
    found: list[list[replay.Arrival]] = []
    for folder in ("traces", "long_traces"):
        for trace, arrivals in read(DATA / folder):
            sessions: dict[str, list[replay.Arrival]] = {}
            for arrival in arrivals:
                heard = arrival._replace(t=trace.t0 + arrival.t)
                sessions.setdefault(arrival.signal.session_id, []).append(heard)
            found += sessions.values()
    return found


def shown(facts: Facts, at: int) -> tuple[Verdict, object]:
    verdict = judge(facts, at)
    return replace(verdict, ground=None, until=None, judged=0), child_views(facts, verdict.children)


def stamps(facts: Facts) -> set[int]:
    """Every time that the facts name."""
    found = {facts.updated_at, facts.queued, facts.compacting, facts.compacted, facts.killed}
    found |= {facts.drained, facts.engaged, facts.closing.heard if facts.closing else 0}
    for group in (facts.turns, facts.calls, facts.requests, facts.children):
        for each in group.values():
            values = (getattr(each, name) for name in each.__struct_fields__)
            found |= {value for value in values if isinstance(value, int) and value >= 1_000_000}
    if facts.status is not None:
        found |= {facts.status.at, facts.status.waiting, facts.status.released}
    return found - {0}


def holds(facts: Facts, now: int, dice: random.Random) -> None:
    """Whatever instant is tried before `until`, to the millisecond where a limit may end."""
    ends = [stamp + last for stamp in stamps(facts) for last in LASTS]
    moments = {end + off for end in ends for off in (-1, 0, 1)}
    for _ in range(LOOKS):
        until, present = judge(facts, now).until, shown(facts, now)
        last = until if until is not None else now + DAY
        tried = [at for at in moments if now < at < last]
        tried = dice.sample(tried, min(len(tried), 60))
        tried += [dice.randrange(now, last) for _ in range(10)] + [last - 1]
        for at in tried:
            assert shown(facts, at) == present, (at - now, until)
        if until is None:
            return
        assert until > now
        now = until


@examples(150)
@given(scripts, st.sampled_from([0, 40, 900]), dices, st.floats(0, 1))
def test_nothing_changes_before_until(
    steps: list[str], late: int, dice: random.Random, part: float
) -> None:
    signals = by_time(play(steps, late).streams)
    if not signals:
        return
    signals = signals[: 1 + int(part * (len(signals) - 1))]
    now = signals[-1].seen + dice.choice((0, 1, 250, 480, 700, 3_000, 61_000))
    holds(folded(signals), now, dice)


@examples(60)
@given(st.integers(0, 10**6), dices, st.floats(0, 1))
def test_nothing_of_a_recorded_session_changes_before_until(
    which: int, dice: random.Random, part: float
) -> None:
    sessions = recorded()
    session = sessions[which % len(sessions)]
    heard = session[: 1 + int(part * (len(session) - 1))]
    facts = None
    for arrival in heard:
        facts = fold(facts, arrival.signal)
    assert facts is not None
    holds(facts, heard[-1].t + dice.choice((0, 1, 250, 700, 61_000)), dice)


def test_a_working_session_is_not_looked_at_soon_after_each_signal():
    until = judge(working().start(1).told(), T0 + 1_000).until

    assert until is not None
    assert until >= T0 + 10_000


def test_an_idle_session_is_not_looked_at_for_its_silence():
    assert judge(working().stop(5).told(), T0 + 6_000).until is None
