"""How much of each budget is used: whose it is, how much was spent, and since when it is over."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from adsum_hub.rest.totals import usage_router
from adsum_hub.roster import Accounts, Roster
from adsum_hub.snapshots import HostRecord, Snapshot
from adsum_hub.usage.budgets import MOST, Overspent, Uses, Worker, read_budgets
from adsum_hub.usage.spending import Spending
from adsum_shared.state import Budgets, BudgetView
from tests.spenders import MINUTE, NOON, TODAY, Spender, spending

LABELS = {"h": "lab", "b": "box"}
YESTERDAY = "2026-11-19"


def told(**sessions: Spender) -> tuple[Spending, list[Worker]]:
    """By `host_session`; a cent a token."""
    sums, listed = spending(), []
    for name, one in sessions.items():
        key = (name.split("_")[0], one.session_id)
        sums.update(key, one.facts)
        listed.append(Worker(key, LABELS[key[0]], one.facts, NOON))
    return sums, listed


def view(entry: dict[str, Any], **sessions: Spender) -> BudgetView:
    sums, listed = told(**sessions)
    [budget] = budgets = read_budgets([entry])
    return Uses(sums, Overspent(budgets, sums), LABELS, listed).view(budget, TODAY)


def used(found: BudgetView) -> list[tuple[str, float]]:
    return [(use.label, round(use.spent_usd, 2)) for use in found.uses]


def test_a_teams_budget_counts_everybody() -> None:
    found = view(
        {"scope": "team", "usd": 10, "per": "day"},
        h_a=Spender("a").use(100).use(500, day=YESTERDAY),
        b_b=Spender("b").use(200),
    )

    assert used(found) == [("everybody", 3.0)]
    assert found.uses[0].since is None
    assert found.when == "a day"


def test_each_project_has_its_own_and_those_without_a_name_have_none() -> None:
    found = view(
        {"scope": "project", "usd": 2, "per": "7 days"},
        h_a=Spender("a").about(project="web").use(100).use(150, day=YESTERDAY),
        h_b=Spender("b").about(project="api").use(100),
        h_c=Spender("c").use(900),
    )

    assert used(found) == [("web", 2.5), ("api", 1.0)]


def test_a_pattern_picks_whose_budget_it_is() -> None:
    sessions = {"h_a": Spender("a").use(100), "b_b": Spender("b").use(100)}

    assert used(view({"scope": "host", "name": "LA*", "usd": 1, "per": "day"}, **sessions)) == [
        ("lab", 1.0)
    ]
    assert used(view({"scope": "host", "name": "b", "usd": 1, "per": "day"}, **sessions)) == [
        ("box", 1.0)
    ]


def test_over_is_told_since_the_limit_was_reached_and_not_its_multiple() -> None:
    crossed = Spender("a").use(50, 0).use(120, 10 * MINUTE).use(390, 30 * MINUTE)
    found = view({"scope": "team", "usd": 1, "per": "day"}, h_a=crossed)

    assert found.uses[0].since == NOON + 10 * MINUTE
    assert found.uses[0].spent_usd == pytest.approx(3.9)


def test_a_session_has_its_own_for_as_long_as_it_is() -> None:
    found = view(
        {"scope": "session", "usd": 5, "per": "session"},
        h_a=Spender("a").about(title="Mend it").use(100).use(300, day=YESTERDAY),
        h_b=Spender("b"),
    )

    assert used(found) == [("Mend it", 4.0)]
    assert found.uses[0].key == "h:a"


def test_of_a_session_on_two_machines_there_is_one() -> None:
    found = view(
        {"scope": "session", "usd": 5, "per": "day"},
        h_a=Spender("a").use(100),
        b_a=Spender("a").use(300),
    )

    assert [spent for _, spent in used(found)] == [3.0]


def test_each_session_of_a_project_by_itself() -> None:
    entry = {"scope": "project", "name": "web", "usd": 5, "per": "session"}
    found = view(
        entry,
        h_a=Spender("a").about(project="web").use(100),
        h_b=Spender("b").about(project="web").use(200),
        h_c=Spender("c").about(project="api").use(900),
    )

    assert used(found) == [("b", 2.0), ("a", 1.0)]


def test_the_fullest_are_named_and_the_others_counted() -> None:
    crowd = {f"h_s{n}": Spender(f"s{n}").use(10 + n) for n in range(MOST + 2)}
    found = view({"scope": "session", "usd": 5, "per": "day"}, **crowd)

    assert (len(found.uses), found.more) == (MOST, 2)
    assert found.uses[0].label == f"s{MOST + 1}"


async def asked(accounts: Accounts) -> Budgets:
    roster = Roster(accounts)
    facts = {"a": Spender("a").about(project="web").prompt(0).about(title="Mend it").use(700).facts}
    roster.add("lab-id", Snapshot(host=HostRecord(label="lab"), sessions=facts), NOON)
    roster.take_changes(NOON)
    app = FastAPI()
    app.include_router(usage_router(roster, lambda: NOON))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
        answer = await client.get("/api/v1/budgets")
    assert answer.status_code == 200
    return msgspec.json.decode(answer.content, type=Budgets)


async def test_the_hub_tells_of_each_budget_in_the_order_they_are_written() -> None:
    sums = spending()
    entries = [
        {"scope": "session", "usd": 5, "per": "session"},
        {"scope": "host", "usd": 20, "per": "day"},
    ]
    found = await asked(Accounts(sums, Overspent(read_budgets(entries), sums)))

    assert [(each.scope, used(each)) for each in found.budgets] == [
        ("session", [("Mend it", 7.0)]),
        ("host", [("lab", 7.0)]),
    ]
    assert found.budgets[0].uses[0].since == NOON


async def test_a_hub_without_budgets_says_that_there_are_none() -> None:
    assert (await asked(Accounts(spending()))).budgets == []
