"""How much of each budget is used, and by whom: what the usage page shows beside the sums. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum

import msgspec

from adsum_hub.portraits import view_id
from adsum_hub.usage.budget import Budget
from adsum_hub.usage.overspent import Overspent
from adsum_hub.usage.spending import Key, Spending
from adsum_shared.usage import BudgetUse, BudgetView

#: More than these nobody reads: they are the fullest.
MOST = 20
EVERYBODY = "everybody"


class Listed(msgspec.Struct, frozen=True):
    """A session that may still spend: what a budget may go by."""

    key: Key
    host: str
    project: str | None
    title: str | None


class _Owner(msgspec.Struct, frozen=True):
    """Who has a budget of its own. keys: a session and its copies; None: all that is `of`."""

    key: str
    label: str
    spent: float
    of: str | None
    keys: list[Key] | None


class Uses:
    """labels: of hosts by their ids. listed: the sessions of which a budget for one may be over."""

    def __init__(
        self,
        spending: Spending,
        overspent: Overspent,
        labels: Mapping[str, str],
        listed: Iterable[Listed],
    ) -> None:
        self._spending = spending
        self._overspent = overspent
        self._labels = labels
        self._listed = list(listed)

    def view(self, budget: Budget, today: str) -> BudgetView:
        days = budget.days(today)
        if days is None or budget.scope == "session":
            owners = self._sessions(budget, days)
        else:
            owners = self._groups(budget, days)
        owners.sort(key=lambda owner: (-owner.spent, owner.key))
        uses = [self._use(budget, owner, days) for owner in owners[:MOST]]
        more = max(0, len(owners) - MOST)
        return BudgetView(
            budget.scope, budget.usd, budget.per, budget.name, budget.when, uses, more
        )

    def _use(self, budget: Budget, owner: _Owner, days: list[str] | None) -> BudgetUse:
        spent, times, since = self._overspent.crossing(
            budget, owner.of, days, owner.keys, first=True
        )
        return BudgetUse(owner.key, owner.label, spent, since if times and since else None)

    def _groups(self, budget: Budget, days: list[str]) -> list[_Owner]:
        """Of those that have spent anything: whoever has not is under every budget."""
        spent: dict[str, list[float]] = {}
        for name in days:
            day = self._spending.day(name)
            if budget.scope == "team":
                spent.setdefault("", []).extend(day.usd.values())
            else:
                shares = day.by_host if budget.scope == "host" else day.by_project
                for owner, usd in shares.items():
                    spent.setdefault(owner, []).extend(usd.values())
        return [
            _Owner(owner, self._label(budget, owner), fsum(usd), owner or None, None)
            for owner, usd in spent.items()
            if any(usd) and self._fits(budget, owner)
        ]

    def _label(self, budget: Budget, owner: str) -> str:
        if budget.scope == "team":
            return EVERYBODY
        return self._labels.get(owner, owner) if budget.scope == "host" else owner

    def _fits(self, budget: Budget, owner: str) -> bool:
        if budget.scope == "team":
            return True
        if budget.scope == "project":
            return bool(owner) and budget.fits(owner)
        return budget.fits(owner, self._labels.get(owner))

    def _sessions(self, budget: Budget, days: list[str] | None) -> list[_Owner]:
        """Each once, though several machines tell of it."""
        owners: dict[str, _Owner] = {}
        for each in self._listed:
            if each.key[1] in owners or not _is_under(budget, each):
                continue
            keys = self._spending.copies(each.key) or [each.key]
            spent = fsum(
                line.usd
                for key in keys
                for line in self._spending.lines(key)
                if line.usd is not None and (days is None or line.day in days)
            )
            if spent:
                label = each.title or each.key[1]
                owners[each.key[1]] = _Owner(view_id(*each.key), label, spent, None, keys)
        return list(owners.values())


def _is_under(budget: Budget, each: Listed) -> bool:
    if budget.scope == "project":
        return bool(each.project) and budget.fits(each.project)
    if budget.scope == "host":
        return budget.fits(each.host, each.key[0])
    return budget.scope == "team" or budget.fits(each.key[1], each.title)
