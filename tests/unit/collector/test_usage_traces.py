"""What the lines of recorded sessions add up to, beside what Claude Code itself says they cost."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents.records import TranscriptFile, UsageRecord
from adsum_collector.usage.ledger import Ledger
from adsum_collector.usage.reading import Errand, UsageReading
from adsum_collector.usage.scan import Scanner
from tests.ledgers import CLAUDE
from tests.unit.collector.test_usage_scan import never

DATA = Path(__file__).parents[2] / "data"
#: input, output, cache read, cache written.
Tokens = tuple[int, int, int, int]
ONE: Tokens = (1200, 40, 4000, 300)
#: What Claude Code counted and wrote no line of: scenario -> the difference, which is never below
#: nothing. Its own `cost-state` is of one run of the process and of those it resumed.
UNTOLD: dict[str, Tokens] = {
    # the request for the summary
    "i_compact": ONE,
    "m_compactq_p": (2400, 80, 8000, 600),
    # a request besides, once a plan is approved
    "i_plan": ONE,
    "i_plan_hook": ONE,
    "m_plan_esc_p": ONE,
    # interrupted: of what was cut off the lines keep the first number and Claude Code estimates,
    "i_esc_text": (0, 44, 0, 0),
    "m_queue_p": (0, 61, 0, 0),
    # or there is no line at all
    "i_agent": (1200, 6, 4000, 300),
    "m_esc_p": (1200, 79, 4000, 300),
    "m_escchild": (1200, 56, 4000, 300),
}
#: A session and its fork. What Claude Code says of a fork holds what its parent had cost.
FORKED = {"h_resume", "m_resumecli_p"}
#: Killed and resumed: what the killed run had cost, Claude Code forgot.
FORGOTTEN = {"m_kill_p"}


def lines_of(trace: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    for text in (trace / "events.jsonl").read_text().splitlines():
        event = json.loads(text)
        if event["kind"] == "line":
            yield event["file"], event["line"]


def told(
    trace: Path, tmp_path: Path, *, newest_first: bool = False, renamed: Mapping[str, str] = {}
) -> tuple[dict[str, Tokens], dict[str, Tokens]]:
    """By session: what the lines add up to, and the last that Claude Code said."""
    said: dict[str, Tokens] = {}
    sessions: dict[Path, str] = {}
    for name, line in lines_of(trace):
        path = tmp_path / name
        sessions[path] = session = Path(name).parts[2].removesuffix(".jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
        if line["type"] == "cost-state":
            models = line["modelUsage"].values()
            said[session] = (
                sum(model["inputTokens"] for model in models),
                sum(model["outputTokens"] for model in models),
                sum(model["cacheReadInputTokens"] for model in models),
                sum(model["cacheCreationInputTokens"] for model in models),
            )
    ledger = Ledger.in_memory(lambda _model: None, UTC)
    errands = [
        Errand(os.fsencode(path), TranscriptFile(renamed.get(session, session), agent_of(path)))
        for path, session in sessions.items()
    ]
    for batch in UsageReading(ledger, CLAUDE, time_ms).read(
        errands[::-1] if newest_first else errands
    ):
        assert not batch.faults
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 4)
    for total in ledger:
        written = total.cache_5m + total.cache_1h
        numbers = (total.input, total.output, total.cache_read, written)
        sums[total.group.session_id] = [
            a + b for a, b in zip(sums[total.group.session_id], numbers, strict=True)
        ]
    return {name: (a, b, c, d) for name, (a, b, c, d) in sums.items()}, said


def minus(one: Tokens, other: Tokens) -> Tokens:
    a, b, c, d = (mine - theirs for mine, theirs in zip(one, other, strict=True))
    return a, b, c, d


def agent_of(path: Path) -> str | None:
    return path.stem if path.stem.startswith("agent-") else None


def time_ms() -> int:
    return 2_000_000_000_000


TRACES = sorted(path.parent for path in DATA.glob("*traces/*/events.jsonl"))


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_a_session_used_up_what_claude_code_says_but_for_what_it_wrote_no_line_of(
    trace: Path, tmp_path: Path
) -> None:
    lines, said = told(trace, tmp_path)
    untold = [minus(said[session], lines[session]) for session in said.keys() & lines.keys()]

    if trace.name in FORGOTTEN:
        assert all(each < (0, 0, 0, 0) for each in untold)
    elif trace.name in FORKED:
        (parent,) = (lines[session] for session in lines if said[session] == lines[session])
        assert sorted(untold) == [(0, 0, 0, 0), parent]
    else:
        assert sum(each != (0, 0, 0, 0) for each in untold) == (trace.name in UNTOLD)
        assert set(untold) <= {(0, 0, 0, 0), UNTOLD.get(trace.name)}
    # a session that has said nothing of its cost was killed, or is still at it
    assert all(said[session] == (0, 0, 0, 0) for session in said.keys() - lines.keys())


def test_a_recorded_session_written_with_spaces_comes_to_the_same_though_read_alone(
    tmp_path: Path,
) -> None:
    """By what is looked into at its begin, and by no sample."""
    files: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for trace in TRACES:
        for name, line in lines_of(trace):
            files[trace.name, name].append(line)

    def records(lines: list[dict[str, Any]], *separators: str) -> list[UsageRecord]:
        path = tmp_path / "s.jsonl"
        path.write_text("".join(json.dumps(each, separators=separators) + "\n" for each in lines))
        return Scanner(never).scan(str(path)).records

    told = {name: records(lines, ",", ":") for name, lines in files.items()}
    lost = [name for name, lines in files.items() if records(lines, ", ", ": ") != told[name]]

    assert sum(map(bool, told.values())) > 60
    assert lost == []


def test_most_recorded_sessions_say_what_they_cost() -> None:
    told_by = sum('"cost-state"' in (trace / "events.jsonl").read_text() for trace in TRACES)

    assert told_by > 80


@pytest.mark.parametrize("name", sorted(FORKED))
@pytest.mark.parametrize("newest_first", [False, True])
def test_whose_id_is_the_smaller_does_not_decide_whose_tokens_a_fork_repeats(
    name: str, tmp_path: Path, *, newest_first: bool
) -> None:
    """Nor which file is read first. The one here has no line of its own that is dated, by which one
    could tell when it was begun."""
    (trace,) = (each for each in TRACES if each.name == name)
    as_it_is, _ = told(trace, tmp_path / "one")
    parent, fork = sorted(as_it_is, key=as_it_is.__getitem__, reverse=True)
    exchanged = {parent: "z", fork: "a"}

    lines, _ = told(trace, tmp_path / "other", newest_first=newest_first, renamed=exchanged)

    assert lines == {exchanged[session]: numbers for session, numbers in as_it_is.items()}
