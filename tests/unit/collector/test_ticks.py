"""What a status line tells: read leniently, kept sparingly, and its failures counted by cause."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum_collector.agents.claude_code.status import LIMITS_MAX, signals_from_statusline
from adsum_collector.listening.local_socket import MOST_SESSIONS, Ticks
from adsum_shared.signals import (
    Alive,
    AnySignal,
    CostReported,
    GaugesReported,
    MetaChanged,
    RateLimit,
)

TRACES = Path(__file__).parents[2] / "data" / "traces"
BODY: dict[str, Any] = {
    "session_id": "s1",
    "transcript_path": "/home/dev/.claude/projects/p/s1.jsonl",
    "cwd": "/home/dev",
    "session_name": "Fix the\nparser",
    "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
    "workspace": {"current_dir": "/home/dev/parser", "project_dir": "/home/dev"},
    "version": "2.1.330",
    "cost": {"total_cost_usd": 1, "total_duration_ms": 681},
    "context_window": {
        "total_input_tokens": 5500,
        "context_window_size": 200_000,
        "current_usage": {
            "input_tokens": 1200,
            "output_tokens": 40,
            "cache_creation_input_tokens": 300,
            "cache_read_input_tokens": 4000,
        },
        "used_percentage": 1,
    },
    "rate_limits": {
        "five_hour": {"used_percentage": 23.5, "resets_at": 1_795_304_111},
        "spend_limit": {"used_percentage": 7},
    },
    "worktree": {"name": "fix-1", "path": "/home/dev/parser"},
    "pr": {"number": 7, "url": "https://example.org/pull/7"},
}
ALIVE = Alive(session_id="s1", at=7, seen=7, source="statusline", event="tick")
META = MetaChanged(
    session_id="s1",
    at=7,
    seen=7,
    source="statusline",
    ai_title="Fix the",
    cwd="/home/dev/parser",
    project="parser",
    model="claude-opus-5-5",
    version="2.1.330",
    transcript="/home/dev/.claude/projects/p/s1.jsonl",
    worktree="fix-1",
    pr="https://example.org/pull/7",
)
COST = CostReported(session_id="s1", at=7, seen=7, source="statusline", cost_usd=1.0)
GAUGES = GaugesReported(
    session_id="s1",
    at=7,
    seen=7,
    source="statusline",
    context_tokens=5500,
    context_size=200_000,
    limits=[RateLimit("five_hour", 23.5, 1_795_304_111_000), RateLimit("spend_limit", 7.0)],
)


def read(body: object) -> list[Any]:
    return list(signals_from_statusline(json.dumps(body).encode(), 7))


def test_a_tick_is_a_sign_of_life_and_tells_what_it_knows() -> None:
    assert read(BODY) == [ALIVE, META, COST, GAUGES]


def test_a_tick_that_knows_nothing_is_a_sign_of_life() -> None:
    assert read({"session_id": "s1"}) == [ALIVE]


def test_the_folder_comes_from_either_place() -> None:
    (_, meta) = read({"session_id": "s1", "cwd": "/a/b"})
    assert (meta.cwd, meta.project) == ("/a/b", "b")


@pytest.mark.parametrize("odd", [None, 7, [], {}, "", True, {"id": 7}, {"current_dir": []}])
@pytest.mark.parametrize("field", sorted(set(BODY) - {"session_id"}))
def test_a_field_of_another_type_counts_as_missing(field: str, odd: object) -> None:
    without = {name: value for name, value in BODY.items() if name != field}
    assert read({**BODY, field: odd}) == read(without)


def test_half_an_emoji_in_the_title_loses_nothing_else() -> None:
    raw = json.dumps({**BODY, "session_name": "a"}).replace('"a"', r'"a\ud83d"')
    meta = signals_from_statusline(raw.encode(), 7)[1]
    assert isinstance(meta, MetaChanged)
    assert (meta.ai_title, meta.cwd) == ("a?", "/home/dev/parser")


@pytest.mark.parametrize(
    "raw",
    [b"", b"no json", b"[]", b"7", b"{}", b'{"session_id": 7}', b'{"session_id": ""}', b"\xff"],
)
def test_what_names_no_session_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        signals_from_statusline(raw, 7)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*BODY, "id"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(anything)
def test_any_json_is_read_or_refused(body: object) -> None:
    try:
        assert read(body)[0].session_id == body["session_id"]  # type: ignore[index]
    except ValueError:
        session_id = body.get("session_id") if isinstance(body, dict) else None
        assert not (isinstance(session_id, str) and session_id)


@pytest.mark.parametrize("file", sorted(TRACES.glob("*/events.jsonl")), ids=lambda f: f.parent.name)
def test_every_recorded_status_line_is_read(file: Path) -> None:
    for event in map(json.loads, file.read_text().splitlines()):
        if event["kind"] == "statusline":
            alive, meta, *counts = read(event["body"])
            assert isinstance(alive, Alive)
            assert all((meta.version, meta.model, meta.cwd, meta.transcript))
            spent = event["body"]["cost"]["total_cost_usd"]
            assert [c.cost_usd for c in counts if isinstance(c, CostReported)] == [spent][
                : spent > 0
            ]
            (gauges,) = [c for c in counts if isinstance(c, GaugesReported)]
            assert gauges.context_size == event["body"]["context_window"]["context_window_size"]
            if meta.version != "2.1.112":  # whose total is of all prompts, without the cached
                used = event["body"]["context_window"]["total_input_tokens"]
                assert gauges.context_tokens == (used or None)


@pytest.mark.parametrize("odd", [None, "1", -1, 1e300, True, [], 10**40])
def test_a_number_that_is_none_counts_as_missing(odd: object) -> None:
    window = {"context_window_size": odd, "current_usage": {"input_tokens": odd}}
    limits = {
        "five_hour": {"used_percentage": odd, "resets_at": 1},
        "x" * 99: {"used_percentage": 1},
    }
    told = {"cost": {"total_cost_usd": odd}, "context_window": window, "rate_limits": limits}
    assert read({"session_id": "s1", **told}) == [ALIVE]


def test_a_limit_need_not_say_when_it_begins_anew() -> None:
    limits = {"seven_day": {"used_percentage": 5, "resets_at": "soon"}}
    (_, gauges) = read({"session_id": "s1", "rate_limits": limits})
    assert gauges.limits == [RateLimit("seven_day", 5.0, 0)]


def test_of_many_limits_a_few_are_told() -> None:
    limits = {f"limit_{n}": {"used_percentage": 1} for n in range(99)}
    (_, gauges) = read({"session_id": "s1", "rate_limits": limits})
    assert len(gauges.limits) == LIMITS_MAX


def test_nothing_spent_yet_is_not_told() -> None:
    assert read({"session_id": "s1", "cost": {"total_cost_usd": 0}}) == [ALIVE]


def test_a_worktree_that_the_cli_did_not_make_is_told_as_well() -> None:
    (_, meta) = read({"session_id": "s1", "workspace": {"git_worktree": "hot"}})
    assert meta.worktree == "hot"


def test_a_link_that_leads_to_no_page_is_left_out() -> None:
    assert read({"session_id": "s1", "pr": {"url": "javascript:alert(1)"}}) == [ALIVE]


@pytest.fixture
def ticks() -> Ticks:
    return Ticks(signals_from_statusline)


def hear(ticks: Ticks, line: bytes, now: int) -> Sequence[AnySignal]:
    return ticks.news(ticks.read(line, now))


def line(at: int, **fields: object) -> bytes:
    body = json.dumps({**BODY, **fields}).encode()
    return b'{"v":1,"kind":"statusline","at":%d,"body":%s}\n' % (at, body)


ALL = ["Alive", "MetaChanged", "CostReported", "GaugesReported"]


def kinds(ticks: Ticks, at: int, **fields: object) -> list[str]:
    return [type(signal).__name__ for signal in hear(ticks, line(at, **fields), at)]


def test_the_same_again_is_kept_every_ten_seconds_and_without_what_is_known(ticks: Ticks) -> None:
    assert kinds(ticks, 0) == ALL
    assert kinds(ticks, 300) == kinds(ticks, 9_999) == []
    assert kinds(ticks, 10_000) == ["Alive"]
    assert kinds(ticks, 10_300) == []
    assert ticks.heard_at == 10_300


def test_what_has_changed_is_kept_at_once(ticks: Ticks) -> None:
    kinds(ticks, 0)
    assert kinds(ticks, 300, session_name="Another") == ["Alive", "MetaChanged"]
    unused = {"total_cost_usd": 1, "total_duration_ms": 9}
    assert kinds(ticks, 600, cost=unused, session_name="Another") == []


def test_sessions_do_not_silence_each_other(ticks: Ticks) -> None:
    kinds(ticks, 0)
    assert kinds(ticks, 1, session_id="s2") == ALL
    assert kinds(ticks, 2) == kinds(ticks, 3, session_id="s2") == []


def test_a_clock_that_was_set_back_silences_nobody(ticks: Ticks) -> None:
    kinds(ticks, 100_000)
    assert kinds(ticks, 1_000) == ["Alive"]


def test_the_memory_is_bounded_and_keeps_who_spoke_last(ticks: Ticks) -> None:
    for number in range(MOST_SESSIONS):
        kinds(ticks, 0, session_id=f"s{number}")
    kinds(ticks, 10_000, session_id="s0")
    kinds(ticks, 10_000, session_id="one more")

    assert len(ticks._last) == MOST_SESSIONS
    assert kinds(ticks, 10_001, session_id="s0") == []
    assert kinds(ticks, 10_001, session_id="s1") == ALL


def test_what_could_not_be_kept_is_said_again(ticks: Ticks) -> None:
    ticks.forget(hear(ticks, line(0), 0))
    assert kinds(ticks, 1) == ALL


def test_one_that_waited_long_for_its_collector_is_no_sign_of_life(ticks: Ticks) -> None:
    assert hear(ticks, line(0), 10_001) == []
    assert [signal.at for signal in hear(ticks, line(50_000), 20_000)] == [20_000] * 4


def costs(ticks: Ticks, at: int, usd: float, session_id: str = "s1") -> list[tuple[str, float]]:
    """Whose costs are told, and how much, when one session's is drawn."""
    heard = hear(ticks, line(at, cost={"total_cost_usd": usd}, session_id=session_id), at)
    return [(c.session_id, c.cost_usd) for c in heard if isinstance(c, CostReported)]


def test_the_first_cost_is_told_at_once_and_then_one_in_two_seconds(ticks: Ticks) -> None:
    told = [costs(ticks, at, at + 1) for at in (0, 300, 1_999, 2_000, 2_001, 4_000)]
    assert told == [[("s1", 1)], [], [], [("s1", 2_001)], [], [("s1", 4_001)]]


def test_what_counts_is_not_told_again_unless_it_has_changed(ticks: Ticks) -> None:
    assert kinds(ticks, 0) == ALL
    assert kinds(ticks, 5_000) == []
    assert kinds(ticks, 5_001, cost={"total_cost_usd": 2}) == ["CostReported"]


def test_the_last_cost_of_a_burst_is_told_with_the_next_tick_whosever_it_is(ticks: Ticks) -> None:
    costs(ticks, 0, 1)
    assert costs(ticks, 300, 2) == []
    assert costs(ticks, 400, 9, "s2") == [("s2", 9)]
    (late, own) = hear(ticks, line(2_500, cost={"total_cost_usd": 8}, session_id="s2"), 2_500)
    assert isinstance(late, CostReported)
    assert isinstance(own, CostReported)
    assert (late.session_id, late.at, late.cost_usd) == ("s1", 300, 2)
    assert (own.session_id, own.at, own.cost_usd) == ("s2", 2_500, 8)
    assert costs(ticks, 2_600, 9, "s2") == [], "told once"


def test_a_cost_that_was_held_back_and_taken_back_is_not_told(ticks: Ticks) -> None:
    costs(ticks, 0, 1)
    assert costs(ticks, 300, 2) == costs(ticks, 600, 1) == costs(ticks, 3_000, 1) == []


def test_a_tick_that_does_not_count_loses_nothing_that_was_held_back(ticks: Ticks) -> None:
    costs(ticks, 0, 1)
    costs(ticks, 300, 2)
    (_, late) = hear(ticks, line(3_000, cost=None, session_name="Another"), 3_000)[-2:]
    assert isinstance(late, CostReported)
    assert late.cost_usd == 2


def test_costs_that_could_not_be_kept_are_told_again(ticks: Ticks) -> None:
    ticks.forget(hear(ticks, line(0), 0))
    assert costs(ticks, 1, 1) == [("s1", 1)]


def test_what_was_held_back_is_no_trouble_once_its_session_could_not_be_kept(ticks: Ticks) -> None:
    costs(ticks, 0, 1)
    lost = hear(ticks, line(300, cost={"total_cost_usd": 2}, session_name="Another"), 300)
    ticks.forget(lost)
    assert costs(ticks, 5_000, 9, "s2") == [("s2", 9)]
    assert costs(ticks, 5_001, 2) == [("s1", 2)]


def test_sessions_that_are_forgotten_hold_nothing_back(ticks: Ticks) -> None:
    for number in range(MOST_SESSIONS + 9):
        costs(ticks, 0, 1, f"s{number}")
        costs(ticks, 1, 2, f"s{number}")
    assert len(ticks._held) == MOST_SESSIONS


def outcome(what: str, code: int = 0) -> bytes:
    told = {"v": 1, "kind": "statusline outcome", "at": 0, "outcome": what, "exit": code}
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def test_failures_are_counted_by_cause(ticks: Ticks) -> None:
    for told in (
        outcome("failed", 1),
        outcome("failed", 127),
        outcome("hung"),
        outcome("failed", 1),
    ):
        assert hear(ticks, told, 0) == []
    assert ticks.outcomes == {"exit code 1": 2, "exit code 127": 1, "hung": 1}


@pytest.mark.parametrize(
    "bad",
    [
        b'{"v":1,"kind":"statusline","at":0,"body":no json}\n',
        b'{"v":1,"kind":"statusline","at":0,"body":}\n',
        b'{"v":1,"kind":"statusline","at":0,"body":{"session_id":"s1"}',
        b'{"v":1,"kind":"statusline","at":99999999999999999999,"body":{"session_id":"s1"}}\n',
        b'{"v":2,"kind":"statusline","at":0,"body":{"session_id":"s1"}}\n',
        outcome("exploded"),
        outcome("failed", 256),
        outcome("failed", -1),
        b'{"v":1,"kind":"statusline outcome"}\n',
    ],
)
def test_what_cannot_be_understood_is_counted(bad: bytes, ticks: Ticks) -> None:
    assert hear(ticks, bad, 0) == []
    assert ticks.outcomes == {"malformed": 1}
