"""One session in full: its witnesses with their ages, its children as a tree, its last doings."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from adsum.text.details import FINISHED_MOST, TEXT_MOST, activity_lines, facts_table, family_tree
from adsum_shared.state import (
    ActivityEntry,
    ChildView,
    ContextView,
    Group,
    RequestView,
    SuspendedView,
    UsageView,
    WitnessView,
)
from tests.hubs import NOW, session

SHELL = ChildView("b1", "shell", "running", NOW - 125_000, None, None, "npm run dev")
EXPLORER = ChildView("a1", "agent", "running", NOW - 30_000, None, "Explore", "Find the tests")
DONE = ChildView("a2", "agent", "completed", NOW - 90_000, NOW - 60_000, "general-purpose")


def text_of(renderable: object, width: int = 80, encoding: str = "utf-8") -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    Console(file=file, width=width, highlight=False).print(renderable)
    file.seek(0)
    return [line.rstrip() for line in file.read().splitlines()]


def test_each_witness_has_its_age_and_who_was_never_heard_has_none() -> None:
    heard = (
        WitnessView("hook", 0, "missing"),
        WitnessView("transcript", NOW - 2_000),
        WitnessView("statusline", NOW - 61_000),
    )
    lines = text_of(facts_table(session("a", witnesses=heard), NOW))
    assert "heard       transcript 2s, status line 1m ago" in lines


@pytest.mark.parametrize(
    ("problem", "words"),
    [("missing", "do not come"), ("doubled", "comes twice"), ("asleep", "hook: asleep")],
)
def test_a_problem_is_explained_with_the_next_step_and_where(problem: str, words: str) -> None:
    sick = session("a", witnesses=(WitnessView("hook", NOW, problem),))
    text = " ".join(" ".join(text_of(facts_table(sick, NOW))).split())
    assert words in text
    assert "On laptop: adsum doctor" in text


def facts_of(**more: Any) -> dict[str, str]:
    """Name -> value, whatever the lines."""
    lines = text_of(facts_table(session("a", **more), NOW), 400)
    return {name.strip(): value for line in lines for name, _, value in [line.partition("  ")]}


def test_what_a_session_used_up_is_told_with_whose_word_it_is() -> None:
    usage = UsageView(1_234_567, 345_678, 98_765_432, 7_654_321, 3, 1.5, "reported")
    facts = facts_of(usage=usage, context=ContextView(84_211, 200_000))
    assert facts["tokens"].strip() == (
        "1.2M in, 346k out, cache 98.8M read, 7.7M written, 3 web searches"
    )
    assert facts["cost"].strip() == "$1.50, as the agent reports"
    assert facts["context"].strip() == "84.2k of 200k (42%)"
    assert facts_of(context=ContextView(84_211))["context"].strip() == "84.2k"


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (UsageView(1, cost_usd=1.5), "≈ $1.50, from list prices"),
        (
            UsageView(1, cost_usd=1.5, cost_source="mixed"),
            "≈ $1.50, in part as the agent reports, in part from list prices",
        ),
        (
            UsageView(1, cost_usd=1.5, unpriced_tokens=900),
            "≥ $1.50, from list prices, 900 tokens have no price. Add it: prices.toml",
        ),
        (
            UsageView(900, unpriced_tokens=900),
            "unpriced, 900 tokens of acme-1 have no price. Add it: prices.toml",
        ),
    ],
)
def test_a_cost_says_where_it_is_from_and_what_it_lacks(usage: UsageView, words: str) -> None:
    assert facts_of(usage=usage, model="acme-1")["cost"].strip().startswith(words)


def test_a_session_that_is_over_says_when_and_what_it_was_about() -> None:
    facts = facts_of(
        ended_at=NOW - 3 * 3_600_000,
        worktree="/src/wt",
        pr="https://example.org/pull/1",
        last_prompt="Fix\x1b[2J it " + "please " * 99,
        last_answer="Done.",
        forked_from="0a1b",
    )
    assert facts["ended"].strip().startswith("3h ago (")
    assert facts["worktree"].strip() == "/src/wt"
    assert facts["PR"].strip() == "https://example.org/pull/1"
    assert facts["last answer"].strip() == "Done."
    assert facts["forked from"].strip() == "0a1b"
    prompt = " ".join(text_of(facts_table(session("a", last_prompt="x " * 999), NOW)))
    assert "…" in prompt
    assert prompt.count("x ") <= TEXT_MOST


@pytest.mark.parametrize(
    ("auto", "who"), [(False, "by ann, 2h ago"), (True, "by itself, as it rested, 2h ago")]
)
def test_who_suspended_it_when_and_what_that_freed(auto: bool, who: str) -> None:
    told = SuspendedView(NOW - 7_200_000, "ann", auto, 256 << 20)

    assert facts_of(suspended=told)["suspended"].strip() == f"{who}, 256 MB freed"


def test_what_is_not_known_has_no_line() -> None:
    assert not {"tokens", "cost", "context", "ended", "PR", "worktree"} & set(facts_of())


def test_children_are_a_tree_with_kind_description_status_and_age() -> None:
    lines = text_of(family_tree(session("a", children=(SHELL, EXPLORER, DONE)), NOW))
    assert lines == [
        "children",
        "├── shell npm run dev: running, for 2m",
        "├── agent Find the tests: running, for 30s",
        "└── agent general-purpose: completed 1m ago",
    ]


@pytest.mark.parametrize(
    ("state", "words"),
    [("idle", "orphaned, no word for 6m"), ("session_ended", "orphaned, its session ended")],
)
def test_of_a_child_given_up_it_is_said_why(state: str, words: str) -> None:
    lost = ChildView("a1", "agent", "orphaned", NOW - 400_000, NOW - 360_000, "Explore")
    view = session("a", state=state, children=(lost,))
    assert text_of(family_tree(view, NOW))[1] == f"└── agent Explore: {words}"


def test_what_a_child_waits_for_hangs_under_it() -> None:
    asks = RequestView("r1", "permission", NOW - 5_000, "Bash", "make", "a1")
    view = session("a", children=(EXPLORER, DONE), requests=(asks,))
    lines = text_of(family_tree(view, NOW))
    assert lines[2] == "│   └── waits for permission Bash: make (since 5s)"
    assert not [line for line in text_of(facts_table(view, NOW)) if "waits for" in line]


def test_what_an_unlisted_child_waits_for_is_said_all_the_same() -> None:
    asks = RequestView("r1", "permission", NOW - 5_000, "Bash", "make", "gone")
    lines = text_of(facts_table(session("a", requests=(asks,)), NOW))
    assert "waits for   permission Bash: make (since 5s)" in lines


def test_of_many_finished_children_the_last_few_are_shown() -> None:
    many = tuple(
        ChildView(f"a{n}", "agent", "completed", NOW, NOW, None, f"task {n}") for n in range(30)
    )
    lines = text_of(family_tree(session("a", children=(SHELL, *many)), NOW))
    assert len(lines) == 1 + 1 + FINISHED_MOST + 1
    assert lines[-1].endswith("and 20 more that have finished")


def test_a_terminal_without_unicode_gets_plain_branches() -> None:
    lines = text_of(family_tree(session("a", children=(SHELL,)), NOW), encoding="ascii")
    assert lines[1] == "`-- shell npm run dev: running, for 2m"


def test_activity_is_a_line_each_with_its_age_and_whose_it_was() -> None:
    done = [
        ActivityEntry(NOW - 65_000, "prompt.submitted", "go on"),
        ActivityEntry(NOW - 9_000, "child.started", "Find the tests", "a1"),
        ActivityEntry(NOW - 3_000, "tool.started", "Bash: make", "a1"),
        ActivityEntry(NOW - 2_000, "tool.started", "Bash: ls", "unlisted-child"),
    ]
    lines = text_of(activity_lines(session("a", children=(EXPLORER,)), done, NOW))
    assert lines == [
        "1m  prompt.submitted  go on",
        "9s  child.started     Find the tests",
        "3s  tool.started      [Find the tests] Bash: make",
        "2s  tool.started      [unlisted] Bash: ls",
    ]


def test_long_and_hostile_texts_stay_within_their_line() -> None:
    evil = ActivityEntry(NOW, "tool.started", "Bash: \x1b[2J" + "x" * 200)
    child = ChildView("a1", "agent", "running", NOW, None, None, "\x1b]0;owned\x07" + "y " * 100)
    view = session("a", Group.AUTONOMOUS, children=(child,), title="t " * 200)
    for shown in (activity_lines(view, [evil], NOW), family_tree(view, NOW)):
        lines = text_of(shown)
        assert all(len(line) <= 80 for line in lines)
        assert not any("\x1b" in line for line in lines)
    (line,) = text_of(activity_lines(view, [evil], NOW))
    assert line.startswith("0s  tool.started  Bash: ")


def test_a_closed_session_has_the_mark_of_the_list() -> None:
    view = session("a", Group.DELIVERED, state="session_ended")
    assert text_of(facts_table(view, NOW))[0].startswith("state       ○ ")
