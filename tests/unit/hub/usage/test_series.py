"""Usage by day and by one thing more: the parts sum up to the whole, and few enough to be told apart."""

from __future__ import annotations

from math import fsum

import pytest

from adsum_hub.usage.reports import MOST, OTHERS, Query, Spender, Split, Tally
from adsum_hub.usage.spending import lines_of
from adsum_shared.state import UsageReport
from tests.spenders import TODAY, FlatPrices, spending, utc_day
from tests.spenders import Spender as Told

YESTERDAY = "2026-11-19"
BEFORE = "2026-11-18"


def spender(name: str, told: Told, project: str | None = None, host: str = "h") -> Spender:
    prices = FlatPrices(dear=1.0, cheap=0.0001)
    lines = lines_of(told.facts, prices, utc_day)
    return Spender((host, name), f"{host}.local", ("a", "A"), project, name, lines)


def report(
    *spenders: Spender, split: Split | None = "project", before: str | None = None
) -> UsageReport:
    tally = Tally(Query(YESTERDAY, TODAY, "day", split=split, before=before), spending())
    for each in spenders:
        tally.add(each)
    return tally.report(1, 0)


def several() -> list[Spender]:
    return [
        spender("a", Told("a").use(100).use(30, day=YESTERDAY).use(5, day=BEFORE), "web"),
        spender("b", Told("b").use(7, model="dear").use(40, day=YESTERDAY), "api", "box"),
        spender("c", Told("c").use(900, model="odd"), None, "box"),
    ]


@pytest.mark.parametrize("split", ["host", "project", "model", "agent"])
def test_the_parts_sum_up_to_the_whole(split: Split) -> None:
    found = report(*several(), split=split)

    points = [point for each in found.series for point in each.points]
    assert fsum(point.cost_usd or 0 for point in points) == pytest.approx(found.total.cost_usd)
    assert sum(point.tokens for point in points) == found.total.input_tokens
    assert {point.day for point in points} == {YESTERDAY, TODAY}


def test_a_series_is_called_what_a_row_is_called() -> None:
    found = report(*several(), split="host")

    assert [(each.key, each.label) for each in found.series] == [
        ("box", "box.local"),
        ("h", "h.local"),
    ]


def test_days_come_in_their_order_and_only_those_with_anything() -> None:
    by_name = {each.key: each for each in report(*several(), split="project").series}

    assert [point.day for point in by_name["web"].points] == [YESTERDAY, TODAY]
    assert [point.day for point in by_name[""].points] == [TODAY]


def test_what_has_no_price_costs_nothing_that_is_known() -> None:
    by_name = {each.key: each for each in report(*several(), split="model").series}

    assert by_name["odd"].points[0].cost_usd is None
    assert by_name["odd"].points[0].tokens == 900


def test_the_many_are_summed_up_as_all_others() -> None:
    crowd = [spender(f"s{n}", Told(f"s{n}").use(10 + n), f"p{n:02}") for n in range(MOST + 3)]
    found = report(*crowd)

    assert [each.key for each in found.series] == [*(f"p{n:02}" for n in range(10, 2, -1)), None]
    assert found.series[-1].label == OTHERS
    assert found.series[-1].points[0].tokens == 10 + 11 + 12


def test_who_used_most_tokens_is_named_although_others_were_dearer() -> None:
    crowd = [spender(f"s{n}", Told(f"s{n}").use(10, model="dear"), f"p{n}") for n in range(MOST)]
    much = spender("much", Told("much").use(9_000, model="cheap"), "much")
    found = report(*crowd, much, spender("few", Told("few").use(1, model="cheap"), "few"))

    assert {"much", None} < {each.key for each in found.series}
    assert "few" not in {each.key for each in found.series}


def test_nobody_asked_for_a_split() -> None:
    found = report(*several(), split=None)

    assert (found.split, found.series) == (None, [])


def test_the_days_before_are_summed_up_apart() -> None:
    found = report(*several(), before="2026-11-17")

    assert found.before is not None
    assert found.before.input_tokens == 5
    assert found.total.input_tokens == 100 + 30 + 7 + 40 + 900
    assert [row.key for row in found.rows] == [YESTERDAY, TODAY]
    assert report(*several()).before is None


def test_a_session_of_several_days_and_hosts_is_one() -> None:
    copy = spender("a", Told("a").use(100, model="dear"), "web", "box")

    assert report(*several(), copy).sessions == 3
