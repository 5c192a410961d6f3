"""Whatever order the witnesses come in, and however often, the same state stands in the end."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.views import child_views
from adsum_shared import signals as s
from tests.scenes import (
    HOUR,
    PATIENCE,
    QUIET,
    STEPS,
    T0,
    Scene,
    by_time,
    examples,
    folded,
    interleaved,
    jumped,
    play,
    seen_as,
)

pytestmark = pytest.mark.timeout(PATIENCE)

scripts = st.lists(st.sampled_from(STEPS), min_size=1, max_size=8)
lateness = st.sampled_from([0, 40, 300, 1_500])
dices = st.randoms(use_true_random=False)
jumps = st.sampled_from([-HOUR, HOUR])


def told(scene: Scene) -> bool:
    return any(scene.streams)


@examples(200)
@given(scripts, lateness, dices)
def test_any_interleaving_with_duplicates_gives_the_same_state(
    steps: list[str], late: int, dice: random.Random
) -> None:
    scene = play([*steps], late)
    if not told(scene):
        return
    reference = folded(by_time(scene.streams))
    other = folded(interleaved(scene.streams, dice))
    for after in QUIET:
        now = scene.t + after
        assert seen_as(other, now) == seen_as(reference, now)


@pytest.mark.parametrize("step", STEPS)
def test_one_step_alone_gives_the_same_state_in_any_order(step: str) -> None:
    scene = play([step], 0)
    for seed in range(20 if any(scene.streams) else 0):
        other = folded(interleaved(scene.streams, random.Random(seed)))
        now = scene.t + QUIET[0]
        assert seen_as(other, now) == seen_as(folded(by_time(scene.streams)), now)


def test_a_child_began_with_its_earliest_witness_whichever_comes_first() -> None:
    when = {"session_id": "S", "source": "hook"}
    begun = s.ChildStarted(child_id="a1", at=T0 + 900, seen=T0 + 900, **when)
    used = s.ToolStarted(
        tool="Bash", tool_use_id="t1", agent_id="a1", at=T0 + 100, seen=T0 + 100, **when
    )

    one, two = folded([begun, used]), folded([used, begun])
    began = [[c.started_at for c in child_views(each, frozenset())] for each in (one, two)]
    assert began[0] == began[1]


@examples(100)
@given(scripts, lateness, dices, st.integers(0, 4))
def test_with_one_witness_missing_the_others_agree_in_any_order(
    steps: list[str], late: int, dice: random.Random, missing: int
) -> None:
    scene = play([*steps], late)
    streams = [stream for n, stream in enumerate(scene.streams) if n != missing]
    if not any(streams):
        return
    reference = folded(by_time(streams))
    other = folded(interleaved(streams, dice))
    for after in QUIET:
        now = scene.t + after
        assert seen_as(other, now) == seen_as(reference, now)


@examples(100)
@given(scripts, lateness, dices, jumps, st.floats(0, 1))
def test_a_host_clock_set_by_an_hour_in_mid_session_leaves_the_order_without_meaning(
    steps: list[str], late: int, dice: random.Random, by: int, part: float
) -> None:
    scene = play([*steps], late)
    if not told(scene):
        return
    moment = T0 + int((scene.t - T0) * part)
    (reference,) = jumped([by_time(scene.streams)], moment, by)
    other = interleaved(jumped(scene.streams, moment, by), dice)
    for after in QUIET:
        now = scene.t + by + after
        assert seen_as(folded(other), now) == seen_as(folded(reference), now)


@examples(100)
@given(scripts, lateness, dices, st.sampled_from(["telepathy", "control.mood", "turn.paused"]))
def test_kinds_nobody_knows_leave_no_trace(
    steps: list[str], late: int, dice: random.Random, kind: str
) -> None:
    scene = play([*steps], late)
    if not told(scene):
        return
    found = by_time(scene.streams)
    strange = s.UnknownSignal(kind, "S", scene.t, scene.t, {"kind": kind, "at": None})
    mixed = [one for signal in found for one in (signal, *([strange] * (dice.random() < 0.2)))]
    for after in QUIET:
        assert seen_as(folded(mixed), scene.t + after) == seen_as(folded(found), scene.t + after)


@examples(100)
@given(scripts, lateness, dices, st.integers(0, 10 * HOUR))
def test_a_transcript_read_again_from_its_beginning_changes_nothing(
    steps: list[str], late: int, dice: random.Random, later: int
) -> None:
    """Its stamps are its own, so only the time of reading differs."""
    scene = play([*steps], late)
    if not told(scene):
        return
    again = [replace(signal, seen=signal.seen + later) for signal in scene.transcript]
    facts = folded(interleaved(scene.streams, dice))
    reread = folded(again, facts)
    for after in QUIET:
        assert seen_as(reread, scene.t + after) == seen_as(facts, scene.t + after)


@examples(100)
@given(scripts, lateness, dices, jumps)
def test_no_instant_and_no_order_is_too_odd_to_be_resolved(
    steps: list[str], late: int, dice: random.Random, by: int
) -> None:
    scene = play([*steps], late)
    facts: Facts | None = None
    for signal in interleaved(jumped(scene.streams, (T0 + scene.t) // 2, by), dice):
        facts = fold(facts, signal)
        for now in (0, signal.at - HOUR, signal.at, signal.seen + by, scene.t + 2 * HOUR):
            seen_as(facts, now)
        assert [*facts.activity] == sorted(facts.activity, key=lambda entry: entry.at)


@examples(100)
@given(scripts, lateness, dices)
def test_facts_restored_from_a_snapshot_fold_on_as_if_nothing_had_happened(
    steps: list[str], late: int, dice: random.Random
) -> None:
    found = interleaved(play(steps, late).streams, dice)
    if not found:
        return
    cut = dice.randrange(len(found))
    facts = folded(found[: cut + 1])
    restored = msgspec.json.decode(msgspec.json.encode(facts), type=Facts)

    assert restored == facts
    for signal in found[cut + 1 :]:
        facts, restored = fold(facts, signal), fold(restored, signal)
    assert restored == facts


@examples(100)
@given(scripts, lateness)
def test_a_repeated_stream_changes_nothing(steps: list[str], late: int) -> None:
    scene = play(steps, late)
    once = by_time(scene.streams)
    if not once:
        return
    facts = folded(once)
    for signal in once:
        again = fold(facts, signal)
        assert seen_as(again, scene.t + 5_000) == seen_as(facts, scene.t + 5_000)
