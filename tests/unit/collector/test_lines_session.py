"""What a transcript's lines say of the session itself: what it is, what it cost, how full it is."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from adsum_collector.agents.claude_code.lines import signals_from_lines
from adsum_collector.agents.claude_code.status import DOLLARS_MAX, MODELS_MAX
from adsum_collector.agents.records import Lines, TranscriptFile
from adsum_shared import signals as s
from tests.claude_lines import AT, SESSION, assistant, line, text, use, user

MAIN = TranscriptFile(SESSION)
SEEN = AT + 200
SPENT = {
    "inputTokens": 4800,
    "outputTokens": 126,
    "thinkingTokens": 0,
    "cacheReadInputTokens": 16000,
    "cacheCreationInputTokens": 1200,
    "costUSD": 0.25,
}
OPUS = s.ModelCost(
    cost_usd=0.25,
    input_tokens=4800,
    output_tokens=126,
    cache_read_tokens=16000,
    cache_write_tokens=1200,
)


def read(*raw: bytes, file: TranscriptFile = MAIN, context: str = "") -> Lines:
    return signals_from_lines(raw, file, context, SEEN, None)


def of(kind: type[Any], *raw: bytes, file: TranscriptFile = MAIN) -> list[Any]:
    return [each for each in read(*raw, file=file).signals if isinstance(each, kind)]


def meta(*raw: bytes) -> list[s.MetaChanged]:
    return of(s.MetaChanged, *raw)


def told(*raw: bytes) -> list[dict[str, str]]:
    """The fields of each `meta.changed`."""
    common = {"kind", "session_id", "at", "seen", "source"}
    every = [json.loads(s.encode_signal(each)) for each in meta(*raw)]
    return [{key: each[key] for key in each.keys() - common} for each in every]


def unstamped(kind: str, **fields: Any) -> bytes:
    return line(kind, at=None, **fields)


# -- surroundings --------------------------------------------------------------------------------


def test_surroundings_are_told_once_and_again_when_they_change() -> None:
    here = {"cwd": "/home/x/shop", "gitBranch": "main", "version": "2.1.330"}
    there = {**here, "gitBranch": "fix"}
    prompt = user("a", isMeta=True, **here)
    first, second = meta(prompt, prompt, user("c", isMeta=True, **there))
    assert (first.cwd, first.project, first.branch) == ("/home/x/shop", "shop", "main")
    assert (second.branch, second.cwd) == ("fix", None)


def test_what_was_told_is_not_told_again_by_the_next_reading() -> None:
    lines = [
        user("a", cwd="/home/x/shop"),
        assistant(text("b"), stop="end_turn"),
        unstamped("pr-link", prUrl="https://example.org/1"),
        unstamped("cost-state", totalCostUSD=1.5, modelUsage={"opus": SPENT}),
        *(unstamped(kind, aiTitle="A", customTitle="C") for kind in ("ai-title", "custom-title")),
    ]
    first = read(*lines)
    again = read(*lines, context=first.context)

    assert {type(each) for each in first.signals} >= {s.MetaChanged, s.CostReported}
    assert not [each for each in again.signals if isinstance(each, s.MetaChanged | s.CostReported)]


def test_a_directory_that_is_no_repository_has_no_branch() -> None:
    assert [x.branch for x in meta(user("a", cwd="/tmp/x", gitBranch="HEAD"))] == [None]


def test_a_worktree_that_the_cli_made_belongs_to_its_repositorys_project() -> None:
    here = "/home/x/shop/.claude/worktrees/fix-1/src"
    assert [x.project for x in meta(user("a", cwd=here))] == ["shop"]


def test_a_model_that_the_cli_made_up_is_no_model() -> None:
    message = {"role": "assistant", "model": "<synthetic>", "content": []}
    assert meta(line("assistant", message=message)) == []


def test_a_humans_title_and_the_models_own_are_told_apart() -> None:
    custom, ai = unstamped("custom-title", customTitle="Mine"), unstamped("ai-title", aiTitle="Its")
    assert told(custom, ai, custom, ai) == [{"title": "Mine"}, {"ai_title": "Its"}]


def test_a_pull_request_is_told_by_its_address() -> None:
    url = "https://github.com/x/shop/pull/7"
    link = unstamped("pr-link", prNumber=7, prUrl=url, prRepository="x/shop")
    assert told(link, link) == [{"pr": url}]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "https://", "https://x y", "", 7, None]
)
def test_what_is_no_address_of_a_page_becomes_no_link(url: object) -> None:
    assert meta(unstamped("pr-link", prUrl=url)) == []
    assert meta(unstamped("pr-link", prUrl="https://x/" + "a" * 600)) == []


def test_a_worktree_is_told_when_it_is_entered_and_when_it_is_left() -> None:
    inside = unstamped("worktree-state", worktreeSession={"worktreeName": "fix", "x": 1})
    outside = unstamped("worktree-state", worktreeSession=None)
    assert told(outside, inside, inside, outside, outside) == [
        {"worktree": "fix"},
        {"worktree": ""},
    ]


def test_a_mate_in_a_pane_and_a_session_that_moves_say_so() -> None:
    lines = [
        line("user", message={"content": "x"}, agentName="anna", teamName="session-0a1b2c3d"),
        line("relocated", relocatedCwd="/home/dev/tree"),
    ]
    told = [it for it in read(*lines).signals if isinstance(it, s.MetaChanged)]

    assert [it.mate for it in told if it.mate] == ["anna@session-0a1b2c3d"]
    assert told[-1].cwd == "/home/dev/tree"


@pytest.mark.parametrize("odd", [{}, {"worktreeSession": {}}, {"worktreeSession": 7}])
def test_a_worktree_line_that_names_none_leaves_it_as_it_was(odd: dict[str, Any]) -> None:
    inside = unstamped("worktree-state", worktreeSession={"worktreeName": "fix"})
    assert told(inside, unstamped("worktree-state", **odd)) == [{"worktree": "fix"}]


def test_the_mode_is_that_of_permissions() -> None:
    lines = unstamped("mode", mode="normal"), unstamped("permission-mode", permissionMode="plan")
    assert told(*lines) == [{"mode": "plan"}]


# -- words ---------------------------------------------------------------------------------------


def test_the_last_prompt_is_a_humans_and_one_line() -> None:
    prompts = [
        user("\n Fix it\nall of it"),
        user("Look", isMeta=True),
        user("<task-notification></task-notification>"),
        user("<command-name>/compact</command-name>"),
        user("x" * 3000),
    ]
    first, last = told(*prompts)
    assert first == {"last_prompt": "Fix it"}
    assert 100 < len(last["last_prompt"]) <= 1000


def test_the_last_answer_is_what_ended_the_turn() -> None:
    lines = assistant(text("Let me see.")), assistant(text(" Done. \n"), stop="end_turn")
    assert told(*lines) == [{"last_answer": "Done."}]
    assert len(told(assistant(text("x" * 9000), stop="end_turn"))[0]["last_answer"]) < 1300


def test_an_answer_without_words_leaves_the_last_one() -> None:
    assert told(assistant(use("Bash"), stop="end_turn")) == []


def test_a_subagents_words_are_not_the_sessions() -> None:
    lines = user("go"), assistant(text("Done."), stop="end_turn")
    assert of(s.MetaChanged, *lines, file=TranscriptFile(SESSION, "a1")) == []


# -- what it cost --------------------------------------------------------------------------------


def cost_state(total: object = 0.25, **models: object) -> bytes:
    return unstamped("cost-state", totalCostUSD=total, modelUsage=models)


def test_the_agents_own_books_are_told_and_end_the_session() -> None:
    found = read(user("a"), cost_state(opus=SPENT)).signals
    assert found[-2:] == [
        s.CostReported(
            session_id=SESSION,
            at=AT,
            seen=SEEN,
            source="transcript",
            cost_usd=0.25,
            models={"opus": OPUS},
        ),
        s.SessionEnded(session_id=SESSION, at=AT, seen=SEEN, source="transcript", reason="closed"),
    ]


def test_the_same_books_again_end_the_session_and_say_no_more() -> None:
    assert [each.cost_usd for each in of(s.CostReported, *[cost_state(opus=SPENT)] * 2)] == [0.25]
    assert len(of(s.SessionEnded, *[cost_state(opus=SPENT)] * 2)) == 2


def test_books_without_models_tell_the_sum() -> None:
    (cost,) = of(s.CostReported, unstamped("cost-state", totalCostUSD=2))
    assert (cost.cost_usd, cost.models) == (2.0, None)


def test_of_a_session_that_has_spent_nothing_no_cost_is_told() -> None:
    found = read(cost_state(0))
    assert [type(each) for each in found.signals] == [s.SessionEnded]
    assert found.faults == {}


@pytest.mark.parametrize("total", [-1, DOLLARS_MAX + 1, 1e300, "1", None, True, [], {}])
def test_a_sum_that_is_none_is_counted_and_not_told(total: object) -> None:
    found = read(cost_state(total, opus=SPENT))
    assert [type(each) for each in found.signals] == [s.SessionEnded]
    assert found.faults == {"odd cost": 1}


@pytest.mark.parametrize("total", [math.nan, math.inf, -math.inf])
def test_a_sum_that_is_no_number_at_all_is_counted_and_not_told(total: float) -> None:
    found = read(cost_state(total, opus=SPENT))
    assert not [each for each in found.signals if isinstance(each, s.CostReported)]
    assert sum(found.faults.values()) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"costUSD": -0.1},
        {"costUSD": "1"},
        {"inputTokens": -1},
        {"outputTokens": 10**13},
        {"cacheReadInputTokens": 0.5},
        {"cacheCreationInputTokens": True},
    ],
)
def test_where_one_model_is_odd_the_sum_alone_is_told(odd: dict[str, object]) -> None:
    found = read(cost_state(0.5, opus=SPENT, haiku={**SPENT, **odd}))
    (cost,) = [each for each in found.signals if isinstance(each, s.CostReported)]
    assert (cost.cost_usd, cost.models) == (0.5, None)
    assert found.faults == {"odd cost": 1}


def test_of_many_models_the_dearest_are_told_and_names_are_cut() -> None:
    models = {f"m{number}": {"costUSD": number} for number in range(100)}
    (cost,) = of(s.CostReported, cost_state(9, **models, **{"x" * 5000: {"costUSD": 500}}))
    assert len(cost.models) == MODELS_MAX
    assert list(cost.models)[:2] == ["x" * 256, "m99"]


def test_what_the_cli_made_up_itself_is_no_model_of_the_books() -> None:
    (cost,) = of(s.CostReported, cost_state(1, **{"<synthetic>": SPENT, "": SPENT, "opus": SPENT}))
    assert list(cost.models) == ["opus"]


# -- how full it is ------------------------------------------------------------------------------


def answer(usage: object, model: str = "opus", **fields: Any) -> bytes:
    message = {"role": "assistant", "model": model, "content": [], "usage": usage}
    return line("assistant", message=message, **fields)


USAGE = {"input_tokens": 3, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 500}


def gauges(*raw: bytes, file: TranscriptFile = MAIN) -> list[int | None]:
    return [each.context_tokens for each in of(s.GaugesReported, *raw, file=file)]


def test_the_context_holds_what_the_last_prompt_did_those_from_the_cache_too() -> None:
    assert gauges(answer({**USAGE, "output_tokens": 7000})) == [543]


def test_the_context_is_told_when_it_has_changed() -> None:
    first = read(answer(USAGE), answer(USAGE))
    assert len([x for x in first.signals if isinstance(x, s.GaugesReported)]) == 1
    again = read(answer(USAGE), answer({"input_tokens": 9}), context=first.context)
    assert [x.context_tokens for x in again.signals if isinstance(x, s.GaugesReported)] == [9]


@pytest.mark.parametrize(
    "other",
    [
        answer(USAGE, isSidechain=True),
        answer(USAGE, isApiErrorMessage=True),
        answer(USAGE, model="<synthetic>"),
        answer({"output_tokens": 5}),
        line("user", message={"role": "user", "content": "x", "usage": USAGE}),
    ],
)
def test_others_answers_do_not_fill_the_context(other: bytes) -> None:
    assert gauges(other) == []


def test_a_subagents_context_is_its_own() -> None:
    assert gauges(answer(USAGE), file=TranscriptFile(SESSION, "a1")) == []


@pytest.mark.parametrize("odd", [None, 7, [], {"input_tokens": -1}, {"input_tokens": 10**30}])
def test_odd_usage_fills_nothing(odd: object) -> None:
    assert gauges(answer(odd)) == []


def test_a_number_that_is_not_told_counts_as_none() -> None:
    assert gauges(answer({**USAGE, "cache_read_input_tokens": None})) == [503]
