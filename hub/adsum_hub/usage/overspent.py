"""Which sessions are over a budget, and since when: from facts and budgets alone. Pure.

Nobody tells a session that it is over its budget: whoever has the same facts and the same budgets
comes to the same conclusion, so no hub's opinion has to be passed on. The moment of a crossing is
read off the trail in the facts; hubs that have watched for longer may date it some minutes apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import floor, fsum

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.parts import Budget as Exceeded
from adsum_hub.usage.budget import Budget
from adsum_hub.usage.spending import Key, Spending

#: A session that has spent nothing for so long is over no budget any more: else a new one would call
#: for a human in whatever was spent before it was written.
SPENDS_MS = 24 * 3_600_000
#: Sums of floats differ by a hair; a limit that is just reached is reached.
HAIR = 1e-9
#: A crossing is told by units, and how many dollars those of a step stand for changes a little with
#: every report. So it stays where it was first found, unless it was in truth at quite another time:
#: else a session would call again and again, and one that was answered too.
SETTLED_MS = 3_600_000


class Worker(msgspec.Struct, frozen=True):
    """A session that may still spend, the label of its host, and what that one's clock shows."""

    key: Key
    host: str
    facts: Facts
    now: int


class Overspent:
    def __init__(self, budgets: Sequence[Budget], spending: Spending) -> None:
        self._budgets = budgets
        self._spending = spending
        self._sums: dict[object, tuple[float, int, int]] = {}
        self._before: dict[object, tuple[float, int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._budgets)

    @property
    def budgets(self) -> Sequence[Budget]:
        return self._budgets

    def look(self, workers: Iterable[Worker], today: str) -> dict[Key, Exceeded]:
        """Of each session that is over one the budget that was crossed first."""
        self._before, self._sums = self._sums, {}
        found: dict[Key, Exceeded] = {}
        for worker in workers:
            if worker.facts.used_at > worker.now - SPENDS_MS:
                over = [
                    each for budget in self._budgets for each in self._over(budget, worker, today)
                ]
                if over:
                    found[worker.key] = min(over, key=lambda each: each.at)
        return found

    def _over(self, budget: Budget, worker: Worker, today: str) -> Iterator[Exceeded]:
        project, facts = worker.facts.project, worker.facts
        names = {
            "session": (worker.key[1], facts.title),
            "project": (project,),
            "host": (worker.host, worker.key[0]),
            "team": (),
        }[budget.scope]
        if not budget.fits(*names) or (budget.scope == "project" and not project):
            return
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
        budget: Budget,
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
        self, day: str, budget: Budget, owner: object, keys: list[Key] | None
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
