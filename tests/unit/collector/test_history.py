"""What is told of a session that is over, by the two ends of its transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adsum_collector.agents.claude_code.lines import NEVER, history
from adsum_collector.agents.records import Past, TranscriptFile
from adsum_shared.signals import CostReported, ModelCost
from tests.claude_lines import AT, SESSION, line, text, user

TRACES = Path(__file__).parents[2] / "data" / "traces"
MAIN = TranscriptFile(SESSION)
HERE = {"cwd": "/home/x/shop", "gitBranch": "main", "version": "2.1.330"}


def answered(words: str, at: int, model: str = "opus") -> bytes:
    message = {
        "role": "assistant",
        "model": model,
        "content": [text(words)],
        "stop_reason": "end_turn",
    }
    return line("assistant", at=at, message=message, **HERE)


def unstamped(kind: str, **fields: Any) -> bytes:
    return line(kind, at=None, **fields)


WHOLE = [
    unstamped("mode", mode="normal"),
    unstamped("permission-mode", permissionMode="default"),
    user("Make a shop\nwith a till", at=AT, **HERE),
    unstamped("ai-title", aiTitle="A shop"),
    answered("Made it.", AT + 1_000, "haiku"),
    unstamped("custom-title", customTitle="Shop"),
    unstamped("worktree-state", worktreeSession={"worktreeName": "till"}),
    unstamped("permission-mode", permissionMode="plan"),
    user("Now the till", at=AT + 5_000, **{**HERE, "gitBranch": "till", "cwd": "/home/x/till"}),
    unstamped("pr-link", prUrl="https://example.org/pull/7"),
    answered("The till is there.", AT + 9_000),
    unstamped("cost-state", totalCostUSD=1, modelUsage={}),
]
PAST = Past(
    title="Shop",
    ai_title="A shop",
    first_prompt="Make a shop",
    cwd="/home/x/shop",
    project="shop",
    branch="main",
    worktree="till",
    model="opus",
    mode="plan",
    version="2.1.330",
    pr="https://example.org/pull/7",
    last_prompt="Now the till",
    last_answer="The till is there.",
    cost=CostReported(
        session_id=SESSION, at=AT + 9_000, seen=NEVER, source="transcript", cost_usd=1
    ),
    started=AT,
    ended=AT + 9_000,
)


def test_a_short_file_whose_head_is_its_tail_tells_all() -> None:
    assert history(WHOLE, WHOLE, MAIN) == PAST


@pytest.mark.parametrize("head", range(3, len(WHOLE) + 1))
@pytest.mark.parametrize("tail", range(5))
def test_ends_that_overlap_or_meet_tell_what_the_whole_does(head: int, tail: int) -> None:
    assert history(WHOLE[:head], WHOLE[min(head, 8) - min(tail, 3) :], MAIN) == PAST


def test_of_its_books_the_last_count() -> None:
    used = {"opus": {"inputTokens": 5, "outputTokens": 7, "costUSD": 2.5}}
    resumed = [
        user("more", at=AT + 10_000),
        unstamped("cost-state", totalCostUSD=2.5, modelUsage=used),
    ]
    past = history(WHOLE, [*WHOLE[9:], *resumed], MAIN)
    assert past is not None
    assert past.cost is not None
    assert (past.cost.cost_usd, past.cost.at) == (2.5, AT + 10_000)
    assert past.cost.models == {"opus": ModelCost(cost_usd=2.5, input_tokens=5, output_tokens=7)}


def test_books_that_cannot_be_are_none() -> None:
    past = history(WHOLE[:-1], [unstamped("cost-state", totalCostUSD=-1)], MAIN)
    assert past is not None
    assert past.cost is None


def test_what_only_the_middle_told_is_not_made_up() -> None:
    past = history(WHOLE[:4], WHOLE[-1:], MAIN)
    assert past is not None
    assert (past.first_prompt, past.last_prompt, past.last_answer) == ("Make a shop", None, None)
    assert (past.started, past.ended) == (AT, AT)


def test_the_last_prompt_of_the_tail_counts_even_if_it_is_the_heads_again() -> None:
    go, done = user("go on", at=AT), answered("Done.", AT + 1)
    past = history([go, done], [user("go on", at=AT + 7), answered("Done.", AT + 8)], MAIN)
    assert past is not None
    assert (past.last_prompt, past.last_answer, past.ended) == ("go on", "Done.", AT + 8)


def test_a_worktree_that_was_left_is_none() -> None:
    left = [unstamped("worktree-state", worktreeSession=None)]
    past = history(WHOLE[:7], left, MAIN)
    assert past is not None
    assert past.worktree is None


def test_another_sessions_lines_tell_nothing_of_this_one() -> None:
    """Sessions resumed by old CLIs begin with copies of the other session's lines."""
    other = user("hers", at=AT - 9, sessionId="another", cwd="/hers")
    assert history([other, *WHOLE], WHOLE, MAIN) == PAST
    assert history([other], [other], MAIN) is None


def test_a_headless_fork_began_when_its_own_first_line_says() -> None:
    """Copies of its parent's lines, with their old times, come after it."""
    begun = line("queue-operation", at=AT, operation="enqueue", content="go on")
    past = history([begun, user("first", at=AT - 60_000)], [answered("Done.", AT + 500)], MAIN)
    assert past is not None
    assert (past.started, past.ended, past.first_prompt) == (AT, AT + 500, "first")


def test_lines_that_bear_no_time_give_none() -> None:
    past = history([unstamped("custom-title", customTitle="Shop")], [], MAIN)
    assert past == Past(title="Shop")


@pytest.mark.parametrize("lines", [[], [b""], [b"{"], [unstamped("mode", mode="normal")]])
def test_what_tells_nothing_has_no_past(lines: list[bytes]) -> None:
    assert history(lines, lines, MAIN) is None


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from(WHOLE)),
    st.lists(st.binary(max_size=40) | st.sampled_from(WHOLE)),
)
def test_nothing_stops_it(head: list[bytes], tail: list[bytes]) -> None:
    past = history(head, tail, MAIN)
    assert past is None or past.started <= past.ended


def recorded() -> list[tuple[str, str, list[bytes]]]:
    found: dict[tuple[str, str], list[bytes]] = {}
    for path in sorted(TRACES.glob("*/events.jsonl")):
        for event in map(json.loads, path.read_text().splitlines()):
            parts = event.get("file", "").split("/")
            if event["kind"] == "line" and len(parts) == 3:
                key = (path.parent.name, parts[2].removesuffix(".jsonl"))
                found.setdefault(key, []).append(json.dumps(event["line"]).encode())
    return [(*key, lines) for key, lines in found.items()]


@pytest.mark.parametrize(
    ("name", "session", "lines"), recorded(), ids=lambda x: x if isinstance(x, str) else ""
)
def test_every_recorded_session_has_a_past_however_it_is_cut(
    name: str, session: str, lines: list[bytes]
) -> None:
    whose = TranscriptFile(session)
    whole = history(lines, lines, whose)
    assert whole is not None
    assert whole.cwd, name
    assert whole.version
    assert 0 < whole.started <= whole.ended
    for cut in range(len(lines)):
        past = history(lines[:cut], lines, whose)
        assert past is not None
        assert replace(past, first_prompt=whole.first_prompt) == whole
        assert past.first_prompt in (None, whole.first_prompt)
        past = history(lines, lines[cut:], whose)
        assert past is not None
        words = {"last_prompt": past.last_prompt, "last_answer": past.last_answer}
        assert past == replace(whole, **words)
        assert past.last_prompt in (None, whole.last_prompt)
        assert past.last_answer in (None, whole.last_answer)
