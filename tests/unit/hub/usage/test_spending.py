"""Sums over all sessions: by day, of several machines' copies once, and priced no oftener than needed."""

from __future__ import annotations

from math import fsum

import pytest

from adsum_hub.usage.spending import Spending
from adsum_shared.signals import GaugesReported, UsageTotalled
from tests.spenders import HOUR, TODAY, FlatPrices, Spender, spending

YESTERDAY = "2026-11-19"


def total(sums: Spending) -> float:
    keys = sums.keys("2000-01-01", "2999-01-01")
    return fsum(line.usd or 0 for key in keys for line in sums.lines(key))


def emptied(spender: Spender) -> Spender:
    return spender.tell(UsageTotalled, day=TODAY, model="m")


def test_a_day_is_what_its_sessions_used_on_it() -> None:
    sums = spending()
    sums.update(("a", "s"), Spender().use(100).use(50, day=YESTERDAY).facts)
    sums.update(("b", "t"), Spender("t").use(10).facts)

    assert (sums.day(TODAY).total, sums.day(TODAY).tokens) == (pytest.approx(1.1), 110)
    assert sums.day(YESTERDAY).total == pytest.approx(0.5)


def test_a_day_without_any_price_has_no_dollars() -> None:
    sums = spending()
    sums.update(("a", "s"), Spender().use(100, model="odd").facts)

    assert (sums.day(TODAY).total, sums.day("2026-11-21").total) == (None, 0.0)


def test_a_total_that_is_told_again_takes_the_place_of_the_former() -> None:
    sums, spender = spending(), Spender().use(100)
    sums.update(("a", "s"), spender.facts)
    assert sums.day(TODAY).tokens == 100

    sums.update(("a", "s"), spender.use(40).facts)
    assert sums.day(TODAY).tokens == 40


def test_what_is_told_to_be_another_sessions_leaves_its_day() -> None:
    sums, spender = spending(), Spender().use(100)
    sums.update(("a", "s"), spender.facts)
    sums.update(("a", "s"), emptied(spender).facts)

    assert (sums.day(TODAY).tokens, sums.keys(TODAY, TODAY)) == (0, [])


def test_one_session_of_two_machines_counts_once_group_by_group_the_larger() -> None:
    sums = spending()
    sums.update(("a", "s"), Spender().use(100).use(10, day=YESTERDAY).facts)
    sums.update(("b", "s"), Spender().use(70).use(40, day=YESTERDAY).facts)

    assert {line.key: line.usd for line in sums.lines(("a", "s"))} == {f"{TODAY} ,, m": 1.0}
    assert {line.key: line.usd for line in sums.lines(("b", "s"))} == {f"{YESTERDAY} ,, m": 0.4}
    assert (total(sums), sums.day(TODAY).tokens) == (pytest.approx(1.4), 100)


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_of_equal_copies_the_first_host_by_id_is_taken_whoever_told_first(order: str) -> None:
    sums = spending()
    for host in order:
        sums.update((host, "s"), Spender().use(100).facts)

    assert (len(sums.lines(("a", "s"))), sums.lines(("b", "s"))) == (1, ())


def test_of_equal_copies_the_one_with_the_agents_own_dollars_is_taken() -> None:
    sums = spending()
    sums.update(("a", "s"), Spender().use(100).facts)
    sums.update(("b", "s"), Spender().use(100).tick(1.5).facts)

    assert total(sums) == 1.5


def test_when_a_copy_goes_the_other_counts_again() -> None:
    sums = spending()
    sums.update(("a", "s"), Spender().use(100).facts)
    sums.update(("b", "s"), Spender().use(70).facts)
    assert sums.day(TODAY).tokens == 100

    sums.update(("a", "s"), None)
    assert (sums.day(TODAY).tokens, total(sums)) == (70, pytest.approx(0.7))


def test_a_copy_that_knows_dollars_only_adds_nothing_to_one_that_knows_the_tokens() -> None:
    sums = spending()
    sums.update(("a", "s"), Spender().use(100).facts)
    sums.update(("b", "s"), Spender().tick(9.0).facts)

    assert total(sums) == pytest.approx(1.0)


def test_a_session_is_priced_again_only_when_its_usage_changes() -> None:
    prices = FlatPrices()
    sums, spender = spending(prices), Spender().use(100)
    sums.update(("a", "s"), spender.facts)
    sums.lines(("a", "s"))
    asked = prices.asked

    changed = sums.update(("a", "s"), spender.about(branch="other").prompt(HOUR).facts)
    sums.lines(("a", "s"))

    assert (changed, prices.asked) == (False, asked)


def test_the_dollars_go_to_the_project_in_which_the_session_began_once_that_is_heard() -> None:
    sums, spender = spending(), Spender().use(100).about(project="web")
    sums.update(("a", "s"), spender.facts)
    assert "web" in sums.day(TODAY).by_project

    sums.update(("a", "s"), spender.about(0, project="src").facts)
    assert list(sums.day(TODAY).by_project) == ["web"]

    sums.update(("a", "s"), spender.about(-2 * HOUR, project="shop").facts)
    assert list(sums.day(TODAY).by_project) == ["shop"]


@pytest.mark.parametrize(("model", "size"), [("m", 200_000), ("odd", None)])
def test_the_size_of_the_window_is_the_agents_or_the_price_books(
    model: str, size: int | None
) -> None:
    spender = Spender().about(model=model).tell(GaugesReported, context_tokens=5)
    context = spending().context(spender.facts)
    assert context is not None
    assert (context.tokens, context.size) == (5, size)

    told = spending().context(spender.tell(GaugesReported, 1, context_size=7).facts)
    assert told is not None
    assert told.size == 7


def test_dollars_alone_go_to_the_model_once_it_is_named() -> None:
    sums = spending()
    spender = Spender().tick(2.0)
    sums.update(("h", "s"), spender.facts)
    assert [line.model for line in sums.own(("h", "s"))] == ["unknown"]

    sums.update(("h", "s"), spender.about(model="m").facts)
    assert [line.model for line in sums.own(("h", "s"))] == ["m"]


def test_of_equal_copies_the_host_on_which_it_was_prompted_is_taken() -> None:
    sums, ran = spending(), Spender().use(100)
    sums.update(("a", "s"), Spender().use(100).facts)
    sums.update(("b", "s"), ran.facts)
    assert list(sums.day(TODAY).by_host) == ["a"]

    sums.update(("b", "s"), ran.prompt(0).facts)
    assert list(sums.day(TODAY).by_host) == ["b"]
