"""What recorded sessions say that they cost, as signals, beside their own lines."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents.claude_code.lines import signals_from_lines
from adsum_collector.agents.claude_code.status import signals_from_statusline
from adsum_collector.agents.records import TranscriptFile
from adsum_shared.signals import AnySignal, CostReported, GaugesReported, ModelCost

DATA = Path(__file__).parents[2] / "data"
TRACES = sorted(path.parent for path in DATA.glob("*traces/*/events.jsonl"))
SEEN = 2**53


def events(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (trace / "events.jsonl").read_text().splitlines()]


def mains(trace: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events(trace):
        if event["kind"] == "line" and event["file"].count("/") == 2:
            session = Path(event["file"]).stem
            found[session].append(event["line"])
    return found


def signals(session: str, lines: list[dict[str, Any]]) -> list[AnySignal]:
    read = signals_from_lines(
        [json.dumps(line).encode() for line in lines], TranscriptFile(session), "", SEEN, None
    )
    assert "odd cost" not in read.faults
    return read.signals


def last(kind: type[Any], told: list[AnySignal]) -> Any:
    return next((each for each in reversed(told) if isinstance(each, kind)), None)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_the_last_books_of_a_session_are_told_as_they_are(trace: Path) -> None:
    """What they hold more than the lines, and why: see test_usage_traces. Every session has but
    one model, so what that says of sums holds for each model."""
    for session, lines in mains(trace).items():
        cost_report = [line for line in lines if line["type"] == "cost-state"]
        told = last(CostReported, signals(session, lines))
        if not cost_report or not cost_report[-1]["modelUsage"]:
            assert told is None
            continue
        ((model, used),) = cost_report[-1]["modelUsage"].items()
        expected = ModelCost(
            cost_usd=used["costUSD"],
            input_tokens=used["inputTokens"],
            output_tokens=used["outputTokens"],
            cache_read_tokens=used["cacheReadInputTokens"],
            cache_write_tokens=used["cacheCreationInputTokens"],
        )
        assert told.models == {model: expected}
        assert told.cost_usd == cost_report[-1]["totalCostUSD"] == pytest.approx(expected.cost_usd)
        assert used["webSearchRequests"] == 0


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_the_status_line_and_the_transcript_agree_on_how_full_the_context_is(trace: Path) -> None:
    full: dict[str, list[int]] = {
        session: [
            each.context_tokens
            for each in signals(session, lines)
            if isinstance(each, GaugesReported) and each.context_tokens
        ]
        for session, lines in mains(trace).items()
    }
    for event in events(trace):
        if event["kind"] == "statusline":
            told = signals_from_statusline(json.dumps(event["body"]).encode(), 1)
            gauges = last(GaugesReported, list(told))
            if gauges.context_tokens is not None:
                assert gauges.context_tokens in full[event["body"]["session_id"]]
