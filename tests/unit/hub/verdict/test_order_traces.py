"""The properties of the order, over everything the real CLI's witnesses were recorded to say."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import judge
from adsum_shared import signals as s
from bench import replay
from bench.accuracy import read
from bench.traces import Event, Trace
from tests.scenes import HOUR, PATIENCE, QUIET, examples, folded, interleaved, jumped, seen_as

pytestmark = pytest.mark.timeout(PATIENCE)

TRACES = Path(__file__).parents[3] / "data" / "traces"
NAMES = sorted(folder.parent.name for folder in TRACES.glob("*/meta.json"))
LATEST_HOOK = 1_500

names = st.sampled_from(NAMES)
dices = st.randoms(use_true_random=False)


@cache
def told() -> dict[str, tuple[Trace, list[replay.Arrival]]]:
    return {trace.name: (trace, found) for trace, found in read(TRACES)}


def sessions(name: str) -> Iterator[tuple[Trace, list[replay.Arrival]]]:
    trace, found = told()[name]
    for session in sorted({arrival.signal.session_id for arrival in found}):
        yield trace, [arrival for arrival in found if arrival.signal.session_id == session]


def streams_of(found: list[replay.Arrival], missing: str | None = None) -> list[list[s.AnySignal]]:
    """What comes in an order of its own: a witness, and of the transcripts each file."""
    streams: dict[tuple[str, str | None], list[s.AnySignal]] = {}
    for arrival in found:
        if arrival.witness != missing:
            file = arrival.signal.agent_id if arrival.witness == "transcript" else None
            streams.setdefault((arrival.witness, file), []).append(arrival.signal)
    return [*streams.values()]


def hooked_late(
    found: list[replay.Arrival], most: int, dice: random.Random
) -> list[replay.Arrival]:
    """Hooks stamped late, each by another time, and still in their own order."""
    late: list[replay.Arrival] = []
    last = 0
    for arrival in found:
        if arrival.witness == "hooks":
            last = max(last, arrival.signal.at + dice.randint(0, most))
            signal = replace(arrival.signal, at=last, seen=max(last, arrival.signal.seen))
            late.append(arrival._replace(signal=signal))
        else:
            late.append(arrival)
    return late


@examples(150)
@given(names, dices, st.sampled_from([0, 300, LATEST_HOOK]))
def test_any_interleaving_of_a_recorded_session_gives_the_same_state(
    name: str, dice: random.Random, most: int
) -> None:
    for trace, recorded in sessions(name):
        found = hooked_late(recorded, most, dice)
        reference = folded([arrival.signal for arrival in found])
        other = folded(interleaved(streams_of(found), dice))
        for after in QUIET:
            now = trace.t0 + trace.end + after
            assert seen_as(other, now) == seen_as(reference, now)


@examples(100)
@given(names, dices, st.sampled_from([20, 200, LATEST_HOOK]))
def test_hooks_that_overtake_each_other_on_their_way_give_the_same_state(
    name: str, dice: random.Random, most: int
) -> None:
    """As commands do that nobody waits for; each is stamped when it fired."""
    for trace, recorded in sessions(name):
        hooks = [arrival for arrival in recorded if arrival.witness == "hooks"]
        hooks.sort(key=lambda arrival: arrival.signal.at + dice.randint(0, most))
        rest = streams_of([arrival for arrival in recorded if arrival.witness != "hooks"])
        other = folded(interleaved([*rest, [arrival.signal for arrival in hooks]], dice))
        reference = folded([arrival.signal for arrival in recorded])
        for after in QUIET:
            now = trace.t0 + trace.end + after
            assert seen_as(other, now) == seen_as(reference, now)


@examples(50)
@given(names, dices)
def test_hooks_stamped_late_end_in_the_state_they_would_have_ended_in(
    name: str, dice: random.Random
) -> None:
    for trace, recorded in sessions(name):
        late = hooked_late(recorded, LATEST_HOOK, dice)
        other = folded(interleaved(streams_of(late), dice))
        reference = folded([arrival.signal for arrival in recorded])
        for after in QUIET:
            now = trace.t0 + trace.end + after
            shown, meant = judge(other, now).state, judge(reference, now).state
            assert (shown.group, shown.state) == (meant.group, meant.state)


@examples(100)
@given(names, dices, st.sampled_from(replay.WITNESSES), st.sampled_from([0, LATEST_HOOK]))
def test_with_one_witness_missing_a_recorded_session_has_one_state_in_any_order(
    name: str, dice: random.Random, missing: str, most: int
) -> None:
    for trace, recorded in sessions(name):
        found = hooked_late(recorded, most, dice)
        rest = [arrival.signal for arrival in found if arrival.witness != missing]
        if not rest:
            continue
        other = folded(interleaved(streams_of(found, missing), dice))
        for after in QUIET:
            now = trace.t0 + trace.end + after
            assert seen_as(other, now) == seen_as(folded(rest), now)


@examples(60)
@given(names, dices, st.sampled_from([-HOUR, HOUR]), st.floats(0, 1))
def test_a_clock_set_in_mid_session_leaves_the_order_without_meaning(
    name: str, dice: random.Random, by: int, part: float
) -> None:
    for trace, found in sessions(name):
        moment = trace.t0 + int(trace.end * part)
        (reference,) = jumped([[arrival.signal for arrival in found]], moment, by)
        other = interleaved(jumped(streams_of(found), moment, by), dice)
        one, two = folded(reference), folded(other)
        for after in (0, *QUIET):
            now = trace.t0 + trace.end + by + after
            assert judge(one, now).state == judge(two, now).state


@examples(60)
@given(names, dices, st.floats(0, 1))
def test_a_clock_set_forward_in_mid_session_ends_in_the_same_state(
    name: str, dice: random.Random, part: float
) -> None:
    for trace, found in sessions(name):
        moment = trace.t0 + int(trace.end * part)
        other = folded(interleaved(jumped(streams_of(found), moment, HOUR), dice))
        reference = folded([arrival.signal for arrival in found])
        for after in (1_600, 61_000):
            now = trace.t0 + trace.end + after
            shown, meant = judge(other, now + HOUR).state, judge(reference, now).state
            assert (shown.group, shown.state) == (meant.group, meant.state)


# -- what the CLI may say tomorrow -----------------------------------------------------------------

#: No key that the CLI uses.
strange_keys = st.sampled_from(["zz_new", "x-vendor", "", "ünïcode", "__proto__"])
finite = st.floats(allow_nan=False, allow_infinity=False)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def bodies(event: Event) -> Iterator[dict[str, Any]]:
    """The JSON objects of an event that an adapter reads, outermost and nested."""
    for top in (event.body, event.content, event.line):
        queue = [top] if isinstance(top, dict) else []
        while queue:
            body = queue.pop()
            yield body
            queue += [value for value in body.values() if isinstance(value, dict)]


def copied(trace: Trace, events: list[Event]) -> Trace:
    return Trace(trace.name, trace.t0, trace.version, events, trace.labels, [])


def deep(event: Event) -> Event:
    """A copy that can be spoilt."""
    return replace(
        event,
        body=json.loads(json.dumps(event.body)),
        content=json.loads(json.dumps(event.content)),
        line=json.loads(json.dumps(event.line)),
    )


def signals(trace: Trace) -> list[s.AnySignal]:
    return [arrival.signal for arrival in replay.arrivals(trace)]


@examples(40)
@given(names, dices, strange_keys, anything)
def test_fields_nobody_knows_change_no_signal(
    name: str, dice: random.Random, key: str, value: object
) -> None:
    trace, found = told()[name]
    events = [deep(event) for event in trace.events]
    for event in events:
        for top in (event.body, event.content, event.line):
            if isinstance(top, dict) and dice.random() < 0.5:
                top[key] = value
    spoilt = copied(trace, events)

    assert signals(spoilt) == [arrival.signal for arrival in found]
    assert spoilt.faults == []


@examples(40)
@given(names, dices)
def test_hooks_and_lines_nobody_knows_change_no_state(name: str, dice: random.Random) -> None:
    """They come beside those we know, so they are no sign of life of their own."""
    trace, found = told()[name]
    events: list[Event] = []
    for event in trace.events:
        events.append(event)
        if dice.random() > 0.3:
            continue
        if event.kind == "hook":
            body = {**event.body, "hook_event_name": "Mystery", "tool_use_id": "toolu_mystery"}
            events.append(replace(event, event="Mystery", body=body))
        if event.kind == "line":
            events.append(replace(event, line={**event.line, "type": "mystery"}))
        events.append(replace(event, kind="mystery"))
    mixed = replay.timelines(trace, replay.arrivals(copied(trace, events)))

    for session, line in replay.timelines(trace, found).items():
        settled = [(change.group, change.state) for change in line[-1:]]
        assert [(change.group, change.state) for change in mixed[session][-1:]] == settled


@examples(100)
@given(names, dices, anything)
def test_a_field_of_any_other_type_is_refused_or_read_and_breaks_nothing(
    name: str, dice: random.Random, value: object
) -> None:
    trace, _ = told()[name]
    events = [deep(event) for event in trace.events]
    for event in events:
        for body in list(bodies(event)):
            if body and dice.random() < 0.1:
                body[dice.choice(sorted(body))] = value
    facts = {}
    for signal in signals(copied(trace, events)):
        facts[signal.session_id] = fold(facts.get(signal.session_id), signal)
    for each in facts.values():
        for after in (-HOUR, 0, *QUIET, 1_000 * HOUR):
            seen_as(each, trace.t0 + trace.end + after)
