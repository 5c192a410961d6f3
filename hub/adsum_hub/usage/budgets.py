"""Reads budgets, and computes how much of each is used and which sessions are over one. Pure.

Nobody tells a session that it is over its budget: whoever has the same facts and the same budgets
comes to the same conclusion, so no hub's opinion has to be passed on. The moment of a crossing is
read off the trail in the facts; hubs that have watched for longer may date it some minutes apart.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from fnmatch import fnmatchcase
from math import floor, fsum
from typing import Annotated, Any, Literal

import msgspec

from adsum_hub.facts import Budget as Exceeded
from adsum_hub.facts import Facts
from adsum_hub.usage.spending import Key, Spending
from adsum_hub.views import view_id
from adsum_shared.settings import EntryError, entries_of, read_entry
from adsum_shared.state import BudgetUse, BudgetView

Scope = Literal["session", "project", "host", "team"]
Per = Literal["session", "day", "7 days", "30 days"]

MOST_USD = 1e9

_DAYS: dict[str, int] = {"day": 1, "7 days": 7, "30 days": 30}


class _BudgetEntry(msgspec.Struct, forbid_unknown_fields=True):
    scope: Scope
    usd: Annotated[float, msgspec.Meta(gt=0, le=MOST_USD)]
    per: Per
    name: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class Worker(msgspec.Struct, frozen=True):
    """A session that may still spend, the label of its host, and what that one's clock shows."""

    key: Key
    host: str
    facts: Facts
    now: int


class BudgetLimit(msgspec.Struct, frozen=True):
    """name: a pattern; None: each session, project or host has such a budget of its own."""

    scope: Scope
    usd: float
    per: Per
    name: str | None = None

    def days(self, today: str) -> list[str] | None:
        """Those it looks at, the earliest first; None: the whole session, however long it was."""
        count = _DAYS.get(self.per)
        if count is None:
            return None
        last = date.fromisoformat(today)
        return [(last - timedelta(days=back)).isoformat() for back in range(count)][::-1]

    def fits(self, *names: str | None) -> bool:
        if self.name is None:
            return True
        pattern = self.name.casefold()
        return any(fnmatchcase(name.casefold(), pattern) for name in names if name)

    def covers(self, worker: Worker) -> bool:
        """Whether what it spends counts towards this budget."""
        facts = worker.facts
        if self.scope == "project":
            return bool(facts.project) and self.fits(facts.project)
        if self.scope == "host":
            return self.fits(worker.host, worker.key[0])
        return self.scope == "team" or self.fits(worker.key[1], facts.title)

    @property
    def when(self) -> str:
        """For people, behind the sums."""
        return "" if self.scope == self.per == "session" else _WHEN[self.per]


_WHEN = {"session": "a session", "day": "a day", "7 days": "in 7 days", "30 days": "in 30 days"}


def read_budgets(given: Any, *, variable: bool = False) -> tuple[BudgetLimit, ...]:
    """given: entries as TOML has them, or as JSON text. Raises EntryError.

    variable: they come from the environment.
    """
    budgets: list[BudgetLimit] = []
    for where, raw in entries_of("budgets", given, variable=variable):
        entry = read_entry(where, raw, _BudgetEntry)
        if entry.scope == "team" and entry.name is not None:
            raise EntryError(where, "the team is everybody and has no `name`", "Leave it out.")
        budgets.append(BudgetLimit(entry.scope, entry.usd, entry.per, entry.name))
    return tuple(budgets)


#: A session that has spent nothing for so long is over no budget any more: else a new one would call
#: for a human in whatever was spent before it was written.
SPENDS_MS = 24 * 3_600_000
#: Sums of floats differ by a hair; a limit that is just reached is reached.
HAIR = 1e-9
#: A crossing is told by units, and how many dollars those of a step stand for changes a little with
#: every report. So it stays where it was first found, unless it was in truth at quite another time:
#: else a session would call again and again, and one that was answered too.
SETTLED_MS = 3_600_000


class Overspent:
    def __init__(self, budgets: Sequence[BudgetLimit], spending: Spending) -> None:
        self.budgets, self._spending = budgets, spending
        self._sums: dict[object, tuple[float, int, int]] = {}
        self._before: dict[object, tuple[float, int, int]] = {}

    def look(self, workers: Iterable[Worker], today: str) -> dict[Key, Exceeded]:
        """Of each session that is over one the budget that was crossed first."""
        self._before, self._sums = self._sums, {}
        found: dict[Key, Exceeded] = {}
        for worker in workers:
            if worker.facts.used_at > worker.now - SPENDS_MS:
                over = [
                    each for budget in self.budgets for each in self._over(budget, worker, today)
                ]
                if over:
                    found[worker.key] = min(over, key=lambda each: each.at)
        return found

    def _over(self, budget: BudgetLimit, worker: Worker, today: str) -> Iterator[Exceeded]:
        if not budget.covers(worker):
            return
        project, facts = worker.facts.project, worker.facts
        days = budget.days(today)
        alone = days is None or budget.scope == "session"
        # On hosts that share a home another may be the one for which it counts.
        keys = (self._spending.copies(worker.key) or [worker.key]) if alone else None
        owner: object = {"project": project, "host": worker.key[0]}.get(budget.scope)
        kept = (budget, tuple(keys) if keys else owner, days and days[-1])
        if kept not in self._sums:
            found = self.crossing(budget, owner, days, keys)
            self._sums[kept] = _settled(found, self._before.get(kept))
        spent, times, crossed = self._sums[kept]
        if times and facts.used_at >= crossed and facts.answered_at <= crossed:
            since = crossed or min((s[0][0] for s in facts.trail.values()), default=facts.used_at)
            name = {"host": worker.host, "project": project}.get(budget.scope)
            yield Exceeded(since, spent, budget.usd, name, budget.scope, budget.when)

    def crossing(
        self,
        budget: BudgetLimit,
        owner: object,
        days: list[str] | None,
        keys: list[Key] | None,
        *,
        first: bool = False,
    ) -> tuple[float, int, int]:
        """What was spent, how many times the limit that is, and when it came to be so many.

        By the machines' own clocks, which are not compared otherwise: nothing else is the same to
        every hub. 0: earlier than anything that is known of. first: when it came to be the limit.
        """
        if days is None and keys:
            days = sorted({line.day for key in keys for line in self._spending.lines(key)})
        sums = [(day, self._spent_on(day, budget, owner, keys)) for day in days or ()]
        spent = fsum(usd for _, shares in sums for usd in shares.values())
        times = floor(spent / budget.usd + HAIR)
        if not times:
            return spent, 0, 0
        target, before = (1 if first else times) * budget.usd * (1 - HAIR), 0.0
        for day, shares in sums:
            on_day = fsum(shares.values())
            if before + on_day >= target:
                return spent, times, self._reached(day, shares, target - before)
            before += on_day
        return spent, times, 0

    def _spent_on(
        self, day: str, budget: BudgetLimit, owner: object, keys: list[Key] | None
    ) -> dict[Key, float]:
        found = self._spending.day(day)
        if keys is not None:
            return {key: found.usd[key] for key in keys if key in found.usd}
        if budget.scope == "team":
            return found.usd
        shares = found.by_host if budget.scope == "host" else found.by_project
        return shares.get(str(owner), {})

    def _reached(self, day: str, shares: dict[Key, float], target: float) -> int:
        """When the day's sessions together had spent so much: as the steps of their trails add up."""
        steps: list[tuple[int, float]] = []
        for key, usd in shares.items():
            trail = self._spending.facts(key).trail.get(day) or ((0, 1),)
            whole, before = trail[-1][1] or 1, 0
            for at, units in trail:
                steps.append((at, usd * (units - before) / whole))
                before = units
        reached = 0.0
        for at, usd in sorted(steps):
            reached += usd
            if reached >= target - HAIR:
                return at
        return max(steps)[0]


def _settled(
    found: tuple[float, int, int], before: tuple[float, int, int] | None
) -> tuple[float, int, int]:
    spent, times, crossed = found
    if before is None or before[1] != times or abs(crossed - before[2]) > SETTLED_MS:
        return found
    return spent, times, before[2]


#: More than these nobody reads: they are the fullest.
MOST = 20
EVERYBODY = "everybody"


class _Owner(msgspec.Struct, frozen=True):
    """Who has a budget of its own. keys: a session and its copies; None: all that is `of`."""

    key: str
    label: str
    spent: float
    of: str | None
    keys: list[Key] | None


class Uses:
    """labels: of hosts by their ids. workers: the sessions of which a budget for one may be over."""

    def __init__(
        self,
        spending: Spending,
        overspent: Overspent,
        labels: Mapping[str, str],
        workers: Iterable[Worker],
    ) -> None:
        self._spending, self._overspent, self._labels = spending, overspent, labels
        self._workers = list(workers)

    def view(self, budget: BudgetLimit, today: str) -> BudgetView:
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

    def _use(self, budget: BudgetLimit, owner: _Owner, days: list[str] | None) -> BudgetUse:
        spent, times, since = self._overspent.crossing(
            budget, owner.of, days, owner.keys, first=True
        )
        return BudgetUse(owner.key, owner.label, spent, since if times and since else None)

    def _groups(self, budget: BudgetLimit, days: list[str]) -> list[_Owner]:
        """Of those that have spent anything: whoever has not is under every budget."""
        spent: dict[str, list[float]] = {}
        for name in days:
            day = self._spending.day(name)
            shares = {"host": day.by_host, "project": day.by_project}.get(
                budget.scope, {"": day.usd}
            )
            for owner, usd in shares.items():
                spent.setdefault(owner, []).extend(usd.values())
        # Of hosts the label may be what the budget names; whoever has no project has no budget.
        of = self._labels if budget.scope == "host" else {}
        labels = {owner: of.get(owner, owner) for owner in spent}
        if budget.scope == "team":
            labels = {"": EVERYBODY}
        return [
            _Owner(owner, labels[owner], fsum(usd), owner or None, None)
            for owner, usd in spent.items()
            if any(usd) and (owner or budget.scope == "team")
            if budget.scope == "team" or budget.fits(owner, labels[owner])
        ]

    def _sessions(self, budget: BudgetLimit, days: list[str] | None) -> list[_Owner]:
        """Each once, though several machines tell of it."""
        owners: dict[str, _Owner] = {}
        for each in self._workers:
            if each.key[1] in owners or not budget.covers(each):
                continue
            keys = self._spending.copies(each.key) or [each.key]
            spent = fsum(
                line.usd
                for key in keys
                for line in self._spending.lines(key)
                if line.usd is not None and (days is None or line.day in days)
            )
            if spent:
                label = each.facts.title or each.key[1]
                owners[each.key[1]] = _Owner(view_id(*each.key), label, spent, None, keys)
        return list(owners.values())
