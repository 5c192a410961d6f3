"""Recordings of the user's own sessions: where what the witnesses said comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.recordings import hub_of, known_to, withheld
from bench.screens import INPUT, SPINNER, Shown
from bench.traces import Label


def test_the_hub_is_found_by_the_variables_that_the_command_line_knows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADSUM_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("ADSUM_HUB_URL", "http://hub.example:1")

    assert (hub_of(None), hub_of(None).state_dir) == ("http://hub.example:1", tmp_path)
    assert hub_of("http://other.example:2") == "http://other.example:2"


def test_a_span_is_known_to_who_of_hooks_and_transcript_spoke_near_its_beginning() -> None:
    said = [("hook", 9_400), ("transcript", 11_400), ("registry", 10_000), ("hook", 20_000)]
    signals = [{"source": source, "at": at} for source, at in said]

    assert known_to(10_000, signals) == ["hook", "line"]
    assert known_to(12_000, signals) == ["line"]
    assert known_to(15_000, signals) == []


def label(begin: int, end: int, what: Shown) -> Label:
    return Label("s", begin, end, what.group, list(what.states or ()), what.why)


def test_an_input_box_is_not_scored_while_a_wake_up_is_due() -> None:
    found = [
        label(*span) for span in ((0, 9, INPUT), (9, 20, INPUT), (20, 30, SPINNER), (60, 70, INPUT))
    ]

    withheld(found, [{"at": 15, "kind": "child.started", "until": 55}])

    assert [each.group for each in found] == ["needs_you", None, "autonomous", "needs_you"]


def test_a_terminal_is_not_scored_once_another_session_goes_on_in_it() -> None:
    found = [label(0, 9, INPUT), label(9, 20, SPINNER)]

    withheld(found, [{"at": 5, "kind": "session.ended", "reason": "left"}])

    assert [each.group for each in found] == ["needs_you", None]
