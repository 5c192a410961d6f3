"""What a session cost: the agent's own word before ours, spread so that every sum agrees."""

from __future__ import annotations

from math import fsum

import pytest

from adsum_hub.usage.spending import Lines, lines_of, plain, summed
from adsum_shared.signals import ModelCost
from adsum_shared.state import UsageView
from tests.spenders import TODAY, FlatPrices, Spender, utc_day

PRICES = FlatPrices(dear=0.1)


def lines(spender: Spender) -> Lines:
    return lines_of(spender.facts, PRICES, utc_day)


def view(spender: Spender) -> UsageView:
    return summed(lines(spender))


def test_without_a_report_the_book_computes_it() -> None:
    found = view(Spender().use(100).use(10, model="dear"))

    assert (found.cost_usd, found.cost_source) == (pytest.approx(2.0), "computed")
    assert found.input_tokens == 110


def test_tokens_without_a_price_are_counted_apart_and_never_free() -> None:
    found = view(Spender().use(100).use(70, model="nobody's"))

    assert (found.cost_usd, found.unpriced_tokens) == (pytest.approx(1.0), 70)


def test_without_any_price_there_are_no_dollars_at_all() -> None:
    found = view(Spender().use(70, model="nobody's"))

    assert (found.cost_usd, found.unpriced_tokens) == (None, 70)


def test_the_agents_books_are_believed_before_our_prices() -> None:
    found = view(Spender().use(100).cost_report(3.0, m=ModelCost(3.0, input_tokens=100)))

    assert (found.cost_usd, found.cost_source) == (3.0, "reported")


def test_books_that_say_less_than_our_prices_are_believed_too() -> None:
    found = view(Spender().use(100).cost_report(0.5, m=ModelCost(0.5, input_tokens=100)))

    assert (found.cost_usd, found.cost_source) == (0.5, "reported")


def test_what_was_used_after_the_books_were_closed_is_added_at_our_prices() -> None:
    found = view(Spender().cost_report(3.0, m=ModelCost(3.0, input_tokens=100)).use(150))

    assert (found.cost_usd, found.cost_source) == (pytest.approx(3.5), "mixed")


def test_a_model_the_books_do_not_know_is_wholly_added() -> None:
    spender = (
        Spender()
        .use(100)
        .use(10, model="dear")
        .cost_report(3.0, m=ModelCost(3.0, input_tokens=100))
    )

    assert view(spender).cost_usd == pytest.approx(4.0)


def test_a_model_of_the_books_without_dollars_is_one_they_have_no_price_for() -> None:
    cost_report = {"m": ModelCost(3.0, input_tokens=100), "odd": ModelCost(0.0, input_tokens=70)}
    found = view(Spender().use(100).use(70, model="odd").cost_report(3.0, **cost_report))

    assert (found.cost_usd, found.unpriced_tokens) == (pytest.approx(3.0), 70)


def test_what_the_books_price_and_we_cannot_is_part_of_the_sum() -> None:
    cost_report = {"odd": ModelCost(2.0, input_tokens=70)}
    found = view(Spender().use(70, model="odd").cost_report(2.0, **cost_report))

    assert (found.cost_usd, found.unpriced_tokens, found.cost_source) == (2.0, 0, "reported")


@pytest.mark.parametrize(
    "name",
    ["claude-opus-5[1m]", "us.anthropic.claude-opus-5-20260801-v1:0", "claude-opus-5@20260801"],
)
def test_the_books_name_a_model_with_its_variant(name: str) -> None:
    assert plain(name) == plain("claude-opus-5")


def test_the_counted_tokens_are_taken_from_the_earliest_days() -> None:
    spender = Spender().use(100, day="2026-11-19").use(100)
    spender.cost_report(1.0, m=ModelCost(1.0, input_tokens=100))

    assert view(spender).cost_usd == pytest.approx(2.0)


def test_a_fork_is_computed_alone_for_its_reports_hold_its_parents_dollars() -> None:
    spender = Spender().use(100).cost_report(9.0, m=ModelCost(9.0, input_tokens=900)).tick(9.0)
    found = view(spender.about(forked_from="parent"))

    assert (found.cost_usd, found.cost_source) == (pytest.approx(1.0), "computed")


def test_the_status_line_is_believed_where_it_says_at_least_what_the_tokens_cost() -> None:
    found = view(Spender().use(100).tick(1.2))

    assert (found.cost_usd, found.cost_source) == (1.2, "reported")


def test_a_status_line_that_began_anew_is_found_out() -> None:
    found = view(Spender().use(100).tick(0.3))

    assert (found.cost_usd, found.cost_source) == (pytest.approx(1.0), "computed")


def test_a_status_line_behind_the_books_is_not_believed() -> None:
    spender = Spender().use(100).cost_report(3.0, m=ModelCost(3.0, input_tokens=100)).tick(2.0)

    assert view(spender).cost_usd == 3.0


def test_a_status_line_ahead_of_the_books_is_the_later_word() -> None:
    spender = Spender().cost_report(3.0, m=ModelCost(3.0, input_tokens=100)).use(120).tick(3.6)

    assert view(spender).cost_source == "reported"
    assert view(spender).cost_usd == pytest.approx(3.6)


def test_no_dollars_for_tokens_means_that_the_agent_knows_no_price() -> None:
    found = view(Spender().use(70, model="nobody's").tick(0.0).cost_report(0.0))

    assert (found.cost_usd, found.unpriced_tokens) == (None, 70)


def test_dollars_that_come_before_their_tokens_belong_to_the_day_they_are_told() -> None:
    (line,) = lines(Spender().about(model="m").tick(2.5))

    assert (line.day, line.model, line.usd, line.tokens) == (TODAY, "m", 2.5, 0)


def test_a_reported_sum_is_spread_by_what_each_group_would_cost() -> None:
    spender = Spender().use(100).use(10, model="dear").use(100, day="2026-11-19").tick(6.0)

    shares = {line.key: line.usd for line in lines(spender)}
    assert shares == {
        "2026-11-19 ,, m": pytest.approx(2.0),
        f"{TODAY} ,, m": pytest.approx(2.0),
        f"{TODAY} ,, dear": pytest.approx(2.0),
    }


def test_where_nothing_has_a_price_a_reported_sum_is_spread_by_tokens() -> None:
    spender = Spender().use(30, model="odd").use(10, model="odder").tick(4.0)

    assert {line.model: line.usd for line in lines(spender)} == {"odd": 3.0, "odder": 1.0}


def test_however_it_is_spread_the_groups_sum_up_to_the_session() -> None:
    spender = Spender().use(33, model="odd").use(77).use(5, model="dear", fast=True)
    spender.use(19, geo="us").cost_report(7.77, m=ModelCost(1.1, input_tokens=60))

    found = lines(spender)
    assert fsum(line.usd or 0 for line in found) == pytest.approx(view(spender).cost_usd)
    beyond = 0.5 + 0.17 + 0.19  # of `dear`, and of `m` what the cost report does not count
    assert view(spender).cost_usd == pytest.approx(7.77 + beyond)


@pytest.mark.parametrize("tokens", [100, 150])
def test_books_under_an_alias_count_the_tokens_of_whoever_answered(tokens: int) -> None:
    alias = "arn:aws:bedrock:us-east-1:1:application-inference-profile/x"
    found = view(
        Spender().use(tokens).cost_report(3.0, **{alias: ModelCost(3.0, input_tokens=100)})
    )

    assert found.cost_usd == pytest.approx(3.0 + (tokens - 100) * 0.01)


def test_books_of_side_calls_count_no_tokens_of_a_model_they_know() -> None:
    cost_report = {
        "m": ModelCost(1.0, input_tokens=100),
        "titles": ModelCost(0.5, input_tokens=1_000),
    }
    found = view(Spender().use(150).cost_report(1.5, **cost_report))

    assert found.cost_usd == pytest.approx(1.5 + 0.5)


def test_searches_after_the_books_were_closed_cost_what_they_do() -> None:
    counted = (
        Spender().use(100, web_searches=2).cost_report(3.0, m=ModelCost(3.0, input_tokens=100))
    )
    assert view(counted).cost_usd == 3.0

    # A dollar each, and half of the tokens came later.
    found = view(counted.use(200, web_searches=4))
    assert found.cost_usd == pytest.approx(3.0 + 1.0 + 2.0)
