"""Whatever of a real session goes because the spool is full, the hub shows the same state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from adsum_collector.spool.worth import Worth
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.resolve.resolve import resolve
from adsum_shared.signals import AnySignal, encode_signal
from bench.replay import WITNESSES, arrivals, heard
from bench.traces import Trace, load_all

DATA = Path(__file__).parents[2] / "data"
TRACES = [trace for name in ("traces", "long_traces") for trace in load_all(DATA / name)]
#: Where a session is cut into files, and the hub asked.
CUTS = 6


def thinned(file: Sequence[AnySignal]) -> list[AnySignal]:
    worth = Worth(0, len(file))
    for seq, signal in enumerate(file):
        worth.consider(seq, encode_signal(signal))
    for _ in worth.judge_calls():
        pass
    return [signal for seq, signal in enumerate(file) if not worth.is_spare(seq)]


def states(signals: Sequence[AnySignal], now: int) -> dict[str, tuple[object, object]]:
    told: dict[str, Facts] = {}
    for signal in signals:
        told[signal.session_id] = fold(told.get(signal.session_id), signal)
    found = {session_id: resolve(facts, now) for session_id, facts in told.items()}
    return {session_id: (state.group, state.state) for session_id, state in found.items()}


@pytest.mark.parametrize("witnesses", [WITNESSES, ("hooks",), ("transcript",)], ids="+".join)
@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_the_state_is_the_same(trace: Trace, witnesses: tuple[str, ...]) -> None:
    told = heard(arrivals(trace), witnesses)
    signals = [each.signal for each in told]
    for part in range(1, CUTS + 1):
        cut = len(signals) * part // CUTS
        if not cut:
            continue
        now = trace.t0 + told[cut - 1].t
        before, after = signals[:cut], signals[cut:]
        assert states(thinned(before), now) == states(before, now)
        assert states(thinned(before), now + 60_000) == states(before, now + 60_000)
        last = trace.t0 + told[-1].t
        assert states([*thinned(before), *after], last) == states(signals, last)
        assert states([*thinned(before), *thinned(after)], last) == states(signals, last)
