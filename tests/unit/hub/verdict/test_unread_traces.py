"""Recorded sessions are unread while they call for somebody, and only if they have since the last prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import calls, judge
from adsum_shared.state import OVER
from bench.replay import WITNESSES, Arrival, arrivals, heard
from bench.traces import Trace, load_all

DATA = Path(__file__).parents[3] / "data"
TRACES = [trace for name in ("traces", "long_traces") for trace in load_all(DATA / name)]
#: What holds shorter, nobody could have looked at.
HELD_MS = 1_000


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_who_calls_is_unread_and_nobody_who_has_not_called(trace: Trace) -> None:
    sessions: dict[str, list[Arrival]] = {}
    for arrival in heard(arrivals(trace), WITNESSES, as_installed=True):
        sessions.setdefault(arrival.signal.session_id, []).append(arrival)

    assert [wrong for found in sessions.values() for wrong in wrongly_marked(trace, found)] == []


def wrongly_marked(trace: Trace, found: list[Arrival]) -> list[object]:
    facts, called = None, 0
    wrong: list[object] = []
    ends = [arrival.t for arrival in found[1:]] + [trace.end + 1]
    for arrival, end in zip(found, ends, strict=True):
        facts = fold(facts, arrival.signal)
        at: int | None = trace.t0 + arrival.t
        while at is not None and at < trace.t0 + end and facts.materialised:
            verdict = judge(facts, at)
            state, after = verdict.state, verdict.until
            held = min(after or trace.t0 + end, trace.t0 + end) - at
            called = at if calls(state) and held >= HELD_MS else called
            marked = verdict.unread
            unasked = marked and called <= facts.typed_at and state.state not in OVER
            again = facts.ended is not None and state.since <= facts.ended.at  # resumed by hand
            if held >= HELD_MS and (unasked or (calls(state) and not marked and not again)):
                wrong.append((arrival.t, state.state, state.label, marked))
            at = after
    return wrong
