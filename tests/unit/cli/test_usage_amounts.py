"""Amounts in few characters, however absurd, and no cost that is a guess looks like the agent's word."""

from __future__ import annotations

from typing import Any

import pytest

from adsum.text.details import _used_up
from adsum.text.words import context, cost, dollars, limit_words, octets, paid, percent, short, span
from adsum_shared.state import ContextView, PlanView, RateLimitView, UsageView
from tests.domains import running

NOW = 1_764_000_000_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (-5, "0"),
        (0, "0"),
        (999, "999"),
        (999.6, "1.0k"),
        (1_000, "1.0k"),
        (99_949, "99.9k"),
        (99_950, "100k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_234_567_890, "1.2G"),
        (10**15, "1.0P"),
        (10**400, ">999P"),
        (float("inf"), ">999P"),
        (float("nan"), "0"),
    ],
)
def test_a_number_is_five_characters_at_most(number: float, words: str) -> None:
    assert short(number) == words
    assert len(words) <= 5


@pytest.mark.parametrize(
    ("usd", "words"),
    [
        (0, "$0.00"),
        (0.0001, "< $0.01"),
        (0.005, "$0.01"),
        (1234.5, "$1,234.50"),
        (99_999.99, "$99,999.99"),
        (99_999.999, "$100k"),
        (12_345_678, "$12.3M"),
        (float("inf"), "$>999P"),
    ],
)
def test_dollars(usd: float, words: str) -> None:
    assert dollars(usd) == words


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (None, "-"),
        (UsageView(), "-"),
        (UsageView(5, cost_usd=1.5, cost_source="reported"), "$1.50"),
        (UsageView(5, cost_usd=1.5, cost_source="computed"), "≈ $1.50"),
        (UsageView(5, cost_usd=1.5, cost_source="mixed"), "≈ $1.50"),
        (UsageView(5, cost_usd=1.5, unpriced_tokens=2), "≥ $1.50"),
        (UsageView(5, cost_usd=0.001, unpriced_tokens=2), "unpriced"),
        (UsageView(5, cost_usd=0, unpriced_tokens=5), "unpriced"),
        (UsageView(5, unpriced_tokens=5), "unpriced"),
        (UsageView(5), "unpriced"),
    ],
)
def test_a_cost_shows_whose_word_it_is_and_is_never_nothing_for_want_of_a_price(
    usage: UsageView | None, words: str
) -> None:
    assert cost(usage) == words


def test_a_terminal_without_unicode_gets_another_mark() -> None:
    assert cost(UsageView(5, cost_usd=1.5, unpriced_tokens=2), plain=True) == ">= $1.50"
    assert cost(UsageView(5, cost_usd=1.5), plain=True) == "~ $1.50"


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-1, "0s"),
        (42_000, "42s"),
        (HOUR, "1h 00m"),
        (124 * 60_000, "2h 04m"),
        (76 * HOUR + 5, "3d 4h"),
        (24 * HOUR + 60_000, "1d 0h"),
    ],
)
def test_a_span_is_two_units_at_most(ms: float, words: str) -> None:
    assert span(ms) == words


def test_percentages_stay_in_their_bounds() -> None:
    assert [percent(1, 0), percent(-1, 5), percent(10**9, 1), percent(1, 3)] == [
        "-",
        "0%",
        "999%",
        "33%",
    ]


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (None, "-"),
        (ContextView(84_000, 200_000), "42%"),
        (ContextView(84_000), "84.0k"),
        (ContextView(1, 0), "1"),
    ],
)
def test_context_is_a_percentage_where_its_size_is_known(view: Any, words: str) -> None:
    assert context(view) == words


def test_octets_have_a_space_before_their_unit() -> None:
    assert [octets(0), octets(999), octets(7_400_000_000)] == ["0 B", "999 B", "7.4 GB"]


def test_a_rate_limit_says_how_much_and_until_when() -> None:
    limits = (
        RateLimitView("five_hour", 42.4, NOW + 2 * HOUR),
        RateLimitView("seven_day", 91, NOW - HOUR),
        RateLimitView("thirty_day", 3),
    )
    assert list(limit_words(limits, NOW)) == [
        "5h 42%, resets in 2h 00m",
        "7d was 91%, reset since",
        "thirty day 3%",
    ]


def test_a_plan_stands_in_place_of_dollars() -> None:
    usage = UsageView(input_tokens=5, cost_source="plan")
    limits = (RateLimitView("five_hour", 34.4), RateLimitView("seven_day", 5, agent="Codex"))
    view = running("ls", usage=usage, plan=PlanView("pro", limits))

    assert paid(view) == "5h 34% Codex 7d 5%"
    assert paid(running("ls", usage=usage, plan=PlanView("pro"))) == cost(usage) == "plan"
    assert dict(_used_up(view, NOW, plain=True))["plan"] == "pro; 5h 34%; Codex 7d 5%"
