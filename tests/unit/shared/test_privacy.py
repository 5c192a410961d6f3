"""What leaves a machine at each level: nothing more, and enough to tell a state by."""

from __future__ import annotations

import pytest

from adsum_shared.privacy import ERROR_MAX, MESSAGE_MAX, PROMPT_MAX, QUEUED_MAX, Level, private_as
from adsum_shared.signals import (
    BackgroundTask,
    ChildFinished,
    ChildStarted,
    CostReported,
    GaugesReported,
    MetaChanged,
    ModelCost,
    PromptSubmitted,
    QueuedItem,
    QueueReported,
    RateLimit,
    RequestOpened,
    StatusReported,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnFailed,
    UsageTotalled,
)

redacted = private_as("redacted", "salt")
metadata = private_as("metadata", "salt")
FREE = "rm -rf / # all of it"


def prompt(text: str) -> str | None:
    return redacted(PromptSubmitted(session_id="s", at=1, seen=1, text=text)).text


def said(text: str) -> str | None:
    return redacted(TurnEnded(session_id="s", at=1, seen=1, last_message=text)).last_message


def printed(text: str) -> str | None:
    finished = ToolFinished(session_id="s", at=1, seen=1, tool="B", tool_use_id="t", error=text)
    return redacted(finished).error


def failed(text: str) -> str | None:
    return redacted(TurnFailed(session_id="s", at=1, seen=1, message=text)).message


def test_of_a_prompt_only_the_first_line_leaves() -> None:
    assert prompt("\n Fix it \nand the private part") == "Fix it"
    assert prompt("x" * 500) == "x" * (PROMPT_MAX - 1) + "…"
    assert prompt(" \n ") is None


def test_of_an_answer_only_the_last_line_leaves_with_its_end() -> None:
    assert said("the private part\n\nShall I?\n \n") == "Shall I?"
    long = said("x" * 500 + "?")
    assert long == "…" + "x" * (MESSAGE_MAX - 2) + "?"


@pytest.mark.parametrize("of", [printed, failed])
def test_of_an_error_only_the_first_line_leaves(of: object) -> None:
    assert callable(of)
    assert of("exit 1\nthe private part") == "exit 1"
    assert of("x" * 500) == "x" * (ERROR_MAX - 1) + "…"


def test_a_secret_is_masked_before_its_text_is_cut() -> None:
    secret = "ghp_AbCdEf0123456789AbCdEf0123456789AbCd"

    assert "ghp_" not in (prompt("x" * (PROMPT_MAX - 12) + " " + secret) or "")
    assert "9AbCd" not in (said(f"token={secret} " + "x" * (MESSAGE_MAX - 8)) or "")
    key = "-----BEGIN PRIVATE KEY-----\nb3BlbnNzaC1r\n-----END PRIVATE KEY-----"
    assert "b3Blb" not in (said(key) or "")


def queued(level: Level, text: str) -> str:
    item = QueuedItem("c", text, "Ann", 1, 2)
    return (
        private_as(level, "salt")(QueueReported(session_id="s", at=1, seen=1, items=[item]))
        .items[0]
        .text
    )


def test_of_what_waits_for_a_session_no_more_leaves_than_is_shown_and_no_half_of_a_secret() -> None:
    text = "x" * (QUEUED_MAX - 12) + " ghp_AbCdEf0123456789AbCdEf0123456789AbCd"

    assert "ghp_" not in queued("redacted", text)
    assert len(queued("redacted", text)) == QUEUED_MAX
    assert queued("full", text) == text[:QUEUED_MAX]
    assert "xx" not in queued("metadata", text)


def test_what_a_human_decides_on_is_whole_but_for_its_secrets() -> None:
    payload = {"command": "make\nmake install", "env": {"TOKEN": "abcd1234"}}
    opened = RequestOpened(session_id="s", at=1, seen=1, request_kind="permission", payload=payload)

    kept = redacted(opened).payload

    assert kept is not None
    assert kept["command"] == payload["command"]
    assert "abcd1234" not in repr(kept)


def test_metadata_lets_only_words_out() -> None:
    common = {"session_id": "s", "at": 1, "seen": 1}
    signals = [
        ToolStarted(**common, tool=FREE, tool_use_id="t"),
        ToolFinished(**common, tool="Bash", tool_use_id="t", error="words"),
        TurnFailed(**common, error=FREE),
        ChildStarted(**common, child_id="c", type=FREE),
        ChildFinished(**common, child_id="c", status=FREE),
        StatusReported(**common, status=FREE, waiting_for="on you, and more"),
        MetaChanged(**common, cwd="/home/me/x", branch="a b", mode="x" * 65, transcript="/x/y"),
        TurnEnded(**common, background=[BackgroundTask(id="b", status=FREE)]),
        RequestOpened(**common, request_kind="dialog", tool=FREE, suggestions=[], payload={"a": 1}),
    ]

    kept = [metadata(signal) for signal in signals]

    assert kept == [
        ToolStarted(**common, tool="other", tool_use_id="t"),
        ToolFinished(**common, tool="Bash", tool_use_id="t"),
        TurnFailed(**common, error="unknown"),
        ChildStarted(**common, child_id="c"),
        ChildFinished(**common, child_id="c", status="completed"),
        StatusReported(**common),
        MetaChanged(**common),
        TurnEnded(**common, background=[BackgroundTask(id="b")]),
        RequestOpened(**common, request_kind="dialog"),
    ]


def test_metadata_lets_out_what_a_state_is_told_by() -> None:
    common = {"session_id": "s-1", "at": 1, "seen": 1, "prompt_id": "p.1"}
    signals = [
        ToolStarted(**common, tool="mcp__files__read", tool_use_id="toolu_01", timeout_ms=5),
        TurnFailed(**common, error="rate_limit"),
        ChildFinished(**common, child_id="a1", status="killed", notified=True),
        StatusReported(**common, status="waiting", waiting_for="permission prompt", pid=7),
        MetaChanged(**common, project="adsum", model="claude-opus-4-5[1m]", version="2.1.330"),
    ]

    assert [metadata(signal) for signal in signals] == signals


def test_metadata_keeps_joins_by_ids_that_are_no_words() -> None:
    def of(id_: str) -> str:
        return metadata(ChildStarted(session_id="s", at=1, seen=1, child_id=id_)).child_id

    assert of("elicitation:my server") == of("elicitation:my server")
    assert of("elicitation:my server") != of("elicitation:another server")
    assert "server" not in of("elicitation:my server")
    odd = MetaChanged(session_id="my own", at=1, seen=1, forked_from="my own")
    assert metadata(odd).session_id == metadata(odd).forked_from
    assert "ghp_" not in of("ghp_AbCdEf0123456789AbCdEf0123456789AbCd")


COMMON = {"session_id": "s", "at": 1, "seen": 1}
SECRET = "ghp_AbCdEf0123456789AbCdEf0123456789AbCd"


def test_metadata_lets_out_no_words_about_a_session() -> None:
    words = ("title", "ai_title", "last_prompt", "last_answer")
    said = MetaChanged(**COMMON, **dict.fromkeys(words, "word"))
    assert metadata(said) == MetaChanged(**COMMON)


def test_metadata_lets_out_a_branch_or_worktree_of_one_word_and_no_link() -> None:
    pr = "https://example.org/pull/7"
    kept = metadata(MetaChanged(**COMMON, branch="fix", worktree="till", pr=pr, project="shop"))
    assert kept == MetaChanged(**COMMON, branch="fix", worktree="till", project="shop")
    assert metadata(MetaChanged(**COMMON, worktree="a b", branch="me/x")) == MetaChanged(**COMMON)


def test_metadata_tells_that_a_worktree_was_left() -> None:
    assert metadata(MetaChanged(**COMMON, worktree="")).worktree == ""


def test_metadata_lets_out_what_was_spent_and_on_which_models() -> None:
    signals = [
        CostReported(**COMMON, cost_usd=1.5, models={"vendor/opus@2": ModelCost(cost_usd=1.5)}),
        GaugesReported(**COMMON, context_tokens=5, limits=[RateLimit("five_hour", 0.5, 9)]),
        UsageTotalled(**COMMON, day="2026-11-22", model="claude-x[1m]", geo="us", input_tokens=5),
        MetaChanged(**COMMON, forked_from="s-0"),
    ]
    assert [metadata(signal) for signal in signals] == signals


@pytest.mark.parametrize("odd", ["my own model", "arn:aws:bedrock:eu:123:x", SECRET, "x" * 65])
def test_metadata_hides_what_an_odd_model_is_called_and_mixes_it_with_no_other(odd: str) -> None:
    def of(name: str) -> set[str]:
        total = metadata(UsageTotalled(**COMMON, day="2026-11-22", model=name))
        cost = metadata(CostReported(**COMMON, cost_usd=1, models={name: ModelCost()}))
        return {
            total.model,
            *(cost.models or {}),
            metadata(MetaChanged(**COMMON, model=name)).model or "",
        }

    assert len(of(odd)) == 1, "it is called the same everywhere"
    assert odd not in of(odd)
    assert of(odd) != of(odd + "2")


def test_redacted_masks_secrets_wherever_a_session_is_spoken_of() -> None:
    names = ("title", "ai_title", "last_prompt", "last_answer", "branch", "worktree", "pr", "model")
    kept = redacted(MetaChanged(**COMMON, **dict.fromkeys(names, f"x {SECRET}")))
    cost = redacted(CostReported(**COMMON, cost_usd=1, models={SECRET: ModelCost(cost_usd=1)}))

    assert "ghp_" not in repr(kept) + repr(cost)
    assert [each.cost_usd for each in (cost.models or {}).values()] == [1]


def test_redacted_leaves_what_was_spent_as_it_is() -> None:
    models = {"token-model": ModelCost(cost_usd=1.5, input_tokens=7)}
    signal = CostReported(**COMMON, cost_usd=1.5, models=models)
    assert redacted(signal) == signal


@pytest.mark.parametrize("name", ["title", "ai_title"])
def test_a_prompt_that_stands_for_a_title_is_cut_as_one(name: str) -> None:
    kept = redacted(MetaChanged(**COMMON, **{name: "t" * 500 + "\nprivate"}))
    assert getattr(kept, name) == "t" * (PROMPT_MAX - 1) + "…"


def test_of_the_last_prompt_and_answer_no_more_leaves_than_of_any() -> None:
    long = MetaChanged(**COMMON, last_prompt="p" * 500, last_answer="private\n" + "a" * 500 + "?")
    kept = redacted(long)
    assert kept.last_prompt == "p" * (PROMPT_MAX - 1) + "…"
    assert kept.last_answer == "…" + "a" * (MESSAGE_MAX - 2) + "?"
