"""Traces of the real CLI, replayed through the real adapter, fold and resolve."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum_hub import rules
from adsum_shared.state import AgentState, Group
from bench import replay
from bench.accuracy import Score, run, score

TRACES = Path(__file__).parents[2] / "data" / "traces"
NAMES = sorted(folder.parent.name for folder in TRACES.glob("*/meta.json"))
ALL = ("hooks", "registry", "process")

#: Where no hook tells what happened; see the traces' README.
UNKNOWABLE_BY_HOOKS = {"i_esc_text", "i_esc_tool", "i_perm_deny", "i_plan_reject"}


def scored(name: str, witnesses: tuple[str, ...], without: tuple[str, ...] = ()) -> Score:
    trace = replay.load(TRACES / name)
    total = Score()
    score(trace, replay.timelines(trace, replay.arrivals(trace, witnesses, without)), total)
    return total


@pytest.mark.parametrize("name", NAMES)
def test_with_all_witnesses_every_segment_is_right(name: str) -> None:
    found = scored(name, ALL)

    assert found.misses == []
    assert found.right_ms == found.scored_ms
    assert found.flickers == 0


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("_2.1.112")])
def test_the_registry_replaces_the_stop_hook(name: str) -> None:
    """Stop leaves a line in the user's transcript, so it is not subscribed to where the registry
    has a status (2.1.112 has none).
    """
    found = scored(name, ALL, ("Stop", "SubagentStop", "PostToolBatch"))

    assert found.misses == []


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNKNOWABLE_BY_HOOKS))
def test_hooks_and_process_table_alone_know_all_but_esc_and_no(name: str) -> None:
    assert scored(name, ("hooks", "process")).misses == []


def test_traces_hold_enough_to_mean_something() -> None:
    total = run(TRACES, ALL)

    assert len(NAMES) >= 14
    assert total.segments >= 35
    assert total.ended_segments >= 14


@pytest.mark.parametrize(
    ("group", "name"),
    [(Group.AUTONOMOUS, "thinking"), (Group.DELIVERED, "session_ended"), (Group.NEEDS_YOU, "idle")],
)
def test_a_stub_that_always_answers_the_same_fails(
    group: Group, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = AgentState(group, name, name, 1.0, "hook", 0)
    monkeypatch.setattr(replay, "resolve", lambda *_: stub)
    monkeypatch.setattr(replay, "next_deadline", lambda *_: None)

    assert rules.resolve is not replay.resolve
    assert run(TRACES, ALL).settled_share < 0.7
    assert run(TRACES, ALL).weighted_share < 0.7
