"""Usage reports: whatever they are broken down by, they sum up to the same."""

from __future__ import annotations

import csv
import io
from math import fsum

import pytest

from adsum_hub.facts import Usage
from adsum_hub.usage.reports import COLUMNS, NO_PROJECT, By, Query, Spender, Tally, as_csv, harmless
from adsum_hub.usage.spending import lines_of
from adsum_shared.signals import ModelCost
from adsum_shared.state import UsageReport
from tests.spenders import TODAY, FlatPrices, spending, utc_day
from tests.spenders import Spender as Told

YESTERDAY = "2026-11-19"
AGENTS = {"h1": ("claude_code", "Claude Code"), "h2": ("codex", "Codex")}


def spenders() -> list[Spender]:
    """Computed, reported, mixed, without a price, without a project."""
    prices = FlatPrices(dear=0.1)
    told = {
        ("h1", "a"): ("web", Told("a").use(100).use(7, model="dear", day=YESTERDAY)),
        ("h1", "b"): ("web", Told("b").use(30).use(30, day=YESTERDAY).tick(4.0)),
        ("h2", "c"): ("api", Told("c").use(99).cost_report(2.0, m=ModelCost(2.0, input_tokens=50))),
        ("h2", "d"): (None, Told("d").use(1_000, model="odd")),
    }
    return [
        Spender(
            key,
            f"{key[0]}.local",
            AGENTS[key[0]],
            project,
            key[1],
            lines_of(one.facts, prices, utc_day),
        )
        for key, (project, one) in told.items()
    ]


def report(by: By = "day", since: str = YESTERDAY, until: str = TODAY, **more: str) -> UsageReport:
    tally = Tally(Query(since, until, by, **more), spending())
    for spender in spenders():
        tally.add(spender)
    return tally.report(1, 0)


@pytest.mark.parametrize("by", ["day", "host", "project", "model", "agent", "session"])
def test_all_ways_to_break_it_down_sum_up_to_the_same(by: By) -> None:
    found, whole = report(by), report("day").total

    assert found.total == whole
    assert fsum(row.usage.cost_usd or 0 for row in found.rows) == pytest.approx(whole.cost_usd)
    for name in ("input_tokens", "unpriced_tokens"):
        assert sum(getattr(row.usage, name) for row in found.rows) == getattr(whole, name)


def test_the_whole_is_what_the_sessions_cost() -> None:
    # computed 1.0 + 0.7, reported 4.0, mixed 2.0 + 0.49
    assert report().total.cost_usd == pytest.approx(8.19)
    assert (report().total.unpriced_tokens, report().total.cost_source) == (1_000, "mixed")


def test_days_outside_are_left_out() -> None:
    assert [row.key for row in report(since=TODAY).rows] == [TODAY]


@pytest.mark.parametrize(
    ("name", "value", "tokens"),
    [
        ("host", "h1.local", 167),
        ("host", "h1", 167),
        ("project", "api", 99),
        ("model", "dear", 7),
        ("agent", "codex", 1_099),
    ],
)
def test_filters(name: str, value: str, tokens: int) -> None:
    assert report(**{name: value}).total.input_tokens == tokens


def test_rows_tell_how_many_sessions_they_are_made_of_and_what_people_call_them() -> None:
    assert {row.label: row.sessions for row in report("project").rows} == {
        "web": 2,
        "api": 1,
        NO_PROJECT: 1,
    }
    assert {row.key for row in report("session").rows} == {"h1:a", "h1:b", "h2:c", "h2:d"}


def test_what_has_no_price_is_told_of_by_name() -> None:
    assert report().notes[0] == (
        "1,000 tokens have no price and are in no sum of dollars: odd. Give them an entry in "
        "prices.toml beside the hub's config.toml: see docs/prices.md."
    )
    assert "odd" in report().notes[0]


def test_nothing_used_costs_nothing() -> None:
    assert report(since="2026-01-01", until="2026-01-02").total.cost_usd == 0.0


def test_a_row_without_any_price_has_no_dollars() -> None:
    found = {row.key: row.usage.cost_usd for row in report("model").rows}

    assert found["odd"] is None


def test_csv_has_a_header_and_a_row_for_each_row() -> None:
    text = as_csv(report("model"))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))

    assert text.splitlines(keepends=True)[0] == ",".join(COLUMNS) + "\r\n"
    assert [row["key"] for row in rows] == [row.key for row in report("model").rows]
    assert {row["key"]: row["cost_usd"] for row in rows}["odd"] == ""


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r1", "\uff1d1", "\n=1"]
)
def test_no_cell_can_be_taken_for_a_formula(name: str) -> None:
    assert harmless(name) == f"'{name}"


@pytest.mark.parametrize("name", ["web", "2026-11-20", "a=b", 'say "hi", then go', ""])
def test_other_cells_are_as_they_are(name: str) -> None:
    assert harmless(name) == name


def test_a_label_with_quotes_commas_and_line_ends_stays_one_cell() -> None:
    tally = Tally(Query(YESTERDAY, TODAY, "session"), spending())
    odd = 'a "b", c\r\nd'
    tally.add(spenders()[0]._replace(title=odd))

    text = as_csv(tally.report(1, 0))
    assert [row["label"] for row in csv.DictReader(io.StringIO(text, newline=""))] == [odd]


def test_a_session_that_two_hosts_tell_of_is_one() -> None:
    tally = Tally(Query(YESTERDAY, TODAY, "model"), spending())
    for host, used in (("h1", Told("a").use(5)), ("h2", Told("a").use(5, day=YESTERDAY))):
        lines = lines_of(used.facts, FlatPrices(), utc_day)
        tally.add(Spender((host, "a"), host, AGENTS["h1"], None, None, lines))

    (row,) = tally.report(1, 0).rows
    assert (row.sessions, row.usage.input_tokens) == (1, 10)


class WithoutFast(FlatPrices):
    def cost(self, model: str, day: str, usage: Usage, **marks: object) -> float | None:
        return None if marks.get("fast") else super().cost(model, day, usage, **marks)


def test_of_a_known_model_it_is_said_that_only_fast_mode_has_no_price() -> None:
    prices = WithoutFast()
    told = Told("a").use(100).use(30, fast=True).use(9, model="odd", fast=True)
    lines = lines_of(told.facts, prices, utc_day)
    tally = Tally(Query(TODAY, TODAY), spending(prices))
    tally.add(Spender(("h", "a"), "h.local", AGENTS["h1"], "web", "a", lines))

    (note,) = tally.report(1, 0).notes
    assert note.startswith(
        "39 tokens have no price and are in no sum of dollars: m in fast mode, odd."
    )
    assert "Give them an entry, for fast mode one with `fast`, in prices.toml beside" in note
