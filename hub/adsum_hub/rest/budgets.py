"""REST v1: how much of each budget is used."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response

from adsum_hub.clock import Clock
from adsum_hub.rest.answers import SCHEMA, answers_of, as_json
from adsum_hub.roster import Roster
from adsum_hub.usage.budgets import Listed, Uses
from adsum_shared.state import OVER
from adsum_shared.usage import Budgets, BudgetView


def budgets_router(roster: Roster, clock: Clock) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["v1"])

    @router.get(
        "/budgets",
        summary="How much of each budget is used",
        responses=answers_of(Budgets),
        response_class=Response,
    )
    async def budgets() -> Response:
        accounts, now = roster.accounts, clock()
        today = accounts.spending.day_of(now)
        found: list[BudgetView] = []
        if accounts.overspent:
            labels = {host.id: host.label for host in roster.hosts.values()}
            uses = Uses(accounts.spending, accounts.overspent, labels, _listed(roster))
            for budget in accounts.overspent.budgets:
                found.append(uses.view(budget, today))
                await asyncio.sleep(0)
        return as_json(Budgets(SCHEMA, now, found))

    return router


def _listed(roster: Roster) -> list[Listed]:
    return [
        Listed((host.id, key), host.label, host.facts[key].project, host.facts[key].title)
        for host in roster.hosts.values()
        for key, verdict in host.verdicts.items()
        if verdict.state.state not in OVER
    ]
