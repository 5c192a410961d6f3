"""What a status line tells: read leniently, kept sparingly, and its failures counted by cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum_collector.agents.claude_code import signals_from_statusline
from adsum_collector.ticks import MOST_SESSIONS, Ticks
from adsum_shared.signals import Alive, MetaChanged

TRACES = Path(__file__).parents[2] / "data" / "traces"
BODY: dict[str, Any] = {
    "session_id": "s1",
    "transcript_path": "/home/dev/.claude/projects/p/s1.jsonl",
    "cwd": "/home/dev",
    "session_name": "Fix the\nparser",
    "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
    "workspace": {"current_dir": "/home/dev/parser", "project_dir": "/home/dev"},
    "version": "2.1.330",
    "cost": {"total_cost_usd": 1},
}
ALIVE = Alive(session_id="s1", at=7, seen=7, source="statusline", event="tick")
META = MetaChanged(
    session_id="s1",
    at=7,
    seen=7,
    source="statusline",
    title="Fix the",
    cwd="/home/dev/parser",
    project="parser",
    model="claude-opus-5-5",
    version="2.1.330",
    transcript="/home/dev/.claude/projects/p/s1.jsonl",
)


def read(body: object) -> list[Any]:
    return list(signals_from_statusline(json.dumps(body).encode(), 7))


def test_a_tick_is_a_sign_of_life_and_tells_what_it_knows() -> None:
    assert read(BODY) == [ALIVE, META]


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
    (_, meta) = signals_from_statusline(raw.encode(), 7)
    assert isinstance(meta, MetaChanged)
    assert (meta.title, meta.cwd) == ("a?", "/home/dev/parser")


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
            alive, meta = read(event["body"])
            assert isinstance(alive, Alive)
            assert all((meta.version, meta.model, meta.cwd, meta.transcript))


@pytest.fixture
def ticks() -> Ticks:
    return Ticks(signals_from_statusline)


def line(at: int, **fields: object) -> bytes:
    body = json.dumps({**BODY, **fields}).encode()
    return b'{"v":1,"kind":"statusline","at":%d,"body":%s}\n' % (at, body)


def kinds(ticks: Ticks, at: int, **fields: object) -> list[str]:
    return [type(signal).__name__ for signal in ticks.hear(line(at, **fields), at)]


def test_the_same_again_is_kept_every_ten_seconds_and_without_what_is_known(ticks: Ticks) -> None:
    assert kinds(ticks, 0) == ["Alive", "MetaChanged"]
    assert kinds(ticks, 300) == kinds(ticks, 9_999) == []
    assert kinds(ticks, 10_000) == ["Alive"]
    assert kinds(ticks, 10_300) == []
    assert ticks.heard_at == 10_300


def test_what_has_changed_is_kept_at_once(ticks: Ticks) -> None:
    kinds(ticks, 0)
    assert kinds(ticks, 300, session_name="Another") == ["Alive", "MetaChanged"]
    assert kinds(ticks, 600, cost={"total_cost_usd": 2}, session_name="Another") == []


def test_sessions_do_not_silence_each_other(ticks: Ticks) -> None:
    kinds(ticks, 0)
    assert kinds(ticks, 1, session_id="s2") == ["Alive", "MetaChanged"]
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
    assert kinds(ticks, 10_001, session_id="s1") == ["Alive", "MetaChanged"]


def test_what_could_not_be_kept_is_said_again(ticks: Ticks) -> None:
    ticks.forget(ticks.hear(line(0), 0))
    assert kinds(ticks, 1) == ["Alive", "MetaChanged"]


def test_one_that_waited_long_for_its_collector_is_no_sign_of_life(ticks: Ticks) -> None:
    assert ticks.hear(line(0), 10_001) == []
    assert [signal.at for signal in ticks.hear(line(50_000), 20_000)] == [20_000, 20_000]


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
        assert ticks.hear(told, 0) == []
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
    assert ticks.hear(bad, 0) == []
    assert ticks.outcomes == {"malformed": 1}
