"""Traces of the real CLI, replayed through the real adapters, fold and verdict, and scored."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from adsum_hub.verdict import judge as judging
from adsum_hub.verdict.judge import Verdict
from adsum_shared.state import AgentState, Group
from bench import floor, misses, replay
from bench.accuracy import WAYS, Way, figures, read, run
from bench.score import Miss, Score, score
from bench.traces import Trace

TRACES = Path(__file__).parents[3] / "data" / "traces"
FLOOR = Path(__file__).parents[4] / "bench" / "score.json"
NAMES = sorted(folder.parent.name for folder in TRACES.glob("*/meta.json"))

#: Where no hook tells what happened: an Esc, a "No", a rejected plan, a subagent killed.
UNKNOWABLE_BY_HOOKS = {
    *("i_esc_text", "i_esc_tool", "i_perm_deny", "i_perm_esc", "i_permhook_esc"),
    *("i_plan_reject", "i_plan_hook_mode", "i_ask_hook_bare", "i_agent"),
}
#: Only the process table sees a kill -9.
KILLED = {"h_kill9", "i_kill9"}
#: A typed /compact, over within 0.4 s; its hooks would print into the user's terminal.
TYPED_COMPACT = {"i_compact"}


@cache
def told() -> dict[str, tuple[Trace, list[replay.Arrival]]]:
    return {trace.name: (trace, found) for trace, found in read(TRACES)}


def scored(name: str, way: Way) -> Score:
    trace, found = told()[name]
    total = Score()
    listened = replay.heard(found, way.witnesses, way.without, as_installed=way.as_installed)
    score(trace, replay.timelines(trace, listened), total, way.witnesses)
    return total


def true_misses(found: list[Miss], way: Way) -> list[str]:
    """Those that no fact about these witnesses explains."""
    lines = [misses.explained(miss, way.witnesses) for miss in found]
    return [line for line in lines if "TRUE MISS" in line]


@pytest.mark.parametrize("name", NAMES)
def test_with_all_witnesses_every_segment_is_right(name: str) -> None:
    found = scored(name, WAYS["all"])

    assert found.misses == []
    assert found.right_ms == found.scored_ms
    assert found.flickers == 0


@pytest.mark.parametrize("name", sorted(set(NAMES) - TYPED_COMPACT))
def test_with_the_hooks_we_install_every_segment_is_right(name: str) -> None:
    """Stop leaves a line in the user's transcript, so it is not subscribed to where the registry
    has a status (2.1.112 has none).
    """
    found = scored(name, WAYS["all, as installed"])

    assert found.misses == []
    assert found.flickers == 0


@pytest.mark.parametrize("name", sorted(set(NAMES) - KILLED))
@pytest.mark.parametrize("way", ["hooks + transcript", "hooks + transcript, as installed"])
def test_hooks_and_transcript_need_no_registry(name: str, way: str) -> None:
    if way.endswith("as installed") and name in TYPED_COMPACT:
        return
    found = scored(name, WAYS[way])

    assert found.misses == []
    assert found.false_ms == 0
    assert found.flickers == 0


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNKNOWABLE_BY_HOOKS))
def test_hooks_and_process_table_alone_know_all_but_esc_and_no(name: str) -> None:
    assert scored(name, Way(("hooks", "process"))).misses == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["hooks", "transcript"])
def test_one_witness_alone_misses_only_what_it_cannot_know(name: str, way: str) -> None:
    found = scored(name, WAYS[way])

    assert true_misses(found.misses, WAYS[way]) == []


@pytest.mark.parametrize("name", NAMES)
def test_merging_makes_nothing_worse(name: str) -> None:
    merged = scored(name, WAYS["all"])
    for way in ("hooks + transcript", "hooks", "transcript"):
        part = scored(name, WAYS[way])
        assert merged.settled >= part.settled
        assert merged.ended >= part.ended
        assert merged.right_ms >= part.right_ms


@pytest.mark.parametrize("name", NAMES)
def test_no_trace_holds_anything_that_we_cannot_read(name: str) -> None:
    assert told()[name][0].faults == []


def test_no_way_beats_its_ceiling() -> None:
    for way in WAYS.values():
        total = run([*told().values()], way)
        assert total.settled <= total.reachable
        assert total.right_ms <= total.reachable_ms


def test_traces_hold_enough_to_mean_something() -> None:
    total = run([*told().values()], WAYS["all"])

    assert len(NAMES) >= 67
    assert total.segments >= 142
    assert total.ended_segments >= 42


def test_the_committed_score_is_what_the_traces_give() -> None:
    found = {name: figures(run([*told().values()], way)) for name, way in WAYS.items()}

    assert floor.against(FLOOR, found)[0] == []


def varied(name: str) -> bool:
    """Two groups or more are right in it, one after the other, long enough to be scored."""
    labels = [label for label in told()[name][0].labels if label.to_ms - label.from_ms >= 250]
    return len({label.group for label in labels if label.group is not None}) > 1


STUBS = [
    (Group.AUTONOMOUS, "thinking"),
    (Group.NEEDS_YOU, "idle"),
    (Group.NEEDS_YOU, "needs_permission"),
    (Group.DELIVERED, "session_ended"),
]


@pytest.mark.parametrize(("group", "state"), STUBS)
def test_a_stub_that_always_answers_the_same_fails_everywhere_and_by_far(
    group: Group, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = AgentState(group, state, state, 1.0, "hook", 0)
    verdict = Verdict(stub, [], frozenset(), None, unread=False, began=0, heard=0, until=None)
    monkeypatch.setattr(replay, "judge", lambda *_, **__: verdict)
    assert judging.judge is not replay.judge

    tried = [name for name in NAMES if varied(name)]
    assert len(tried) >= 40
    for way in ("all", "hooks + transcript"):
        assert [name for name in tried if not scored(name, WAYS[way]).misses] == []
    found = {name: run([*told().values()], way) for name, way in WAYS.items()}
    worse = "\n".join(
        floor.against(FLOOR, {name: figures(each) for name, each in found.items()})[0]
    )
    for name, total in found.items():
        assert f"{name}: settled from" in worse
        assert f"{name}: time_weighted_percent from" in worse
        assert total.settled_share < 0.7
        assert total.weighted_share < 0.7
