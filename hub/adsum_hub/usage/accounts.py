"""Keeps what was spent today, what a session used, and which ones are over a budget."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from adsum_hub.facts import Budget, Facts
from adsum_hub.host import Host
from adsum_hub.past import past_verdict
from adsum_hub.usage.budgets import Overspent, Worker
from adsum_hub.usage.spending import Key, NoPrices, Spending, summed
from adsum_hub.verdict.reading import LIMITS, Limits
from adsum_hub.views import Spent, plan_view, session_view
from adsum_shared.state import OVER, SessionView

#: Budgets and the day's sum are looked at no more often: while a history is read, all of it moves.
LOOK_MS = 1_000
#: Also where nothing was spent meanwhile: by then sessions may have ceased to spend.
AGAIN_MS = 60_000
#: In the year 9999, and not so late in it that it is the year 10,000 anywhere.
LAST_MS = 253_400_000_000_000


def local_day(ms: int) -> str:
    """The ISO date where this process runs. Total: another machine's clock may say anything."""
    within = min(max(ms, 0), LAST_MS)
    return datetime.fromtimestamp(within / 1000, UTC).astimezone().date().isoformat()


def _steady(found: Budget, held: Budget | None) -> Budget:
    """What was spent is told again when it has grown by a hundredth of the limit.

    Else all who share a budget would be told of anew each second.
    """
    if held is None or msgspec.structs.replace(held, spent=found.spent) != found:
        return found
    grown = abs((found.spent or 0.0) - (held.spent or 0.0))
    return held if grown < (found.limit or 0.0) / 100 else found


def workers(hosts: Iterable[Host], now: int) -> Iterator[Worker]:
    """The sessions that may still spend."""
    for host in hosts:
        for key, verdict in host.verdicts.items():
            if verdict.state.state not in OVER:
                yield Worker((host.id, key), host.label, host.facts[key], host.clock.host_now(now))


class Accounts:
    """now: the hub's clock, ms."""

    def __init__(
        self,
        spending: Spending | None = None,
        overspent: Overspent | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.limits = limits
        self.spending = spending or Spending(NoPrices(), local_day)
        self.overspent = overspent or Overspent((), self.spending)
        self._looked_at = 0
        self._seen: tuple[int, str, int] | None = None
        self._today: tuple[int, float | None, int] | None = None

    def view(self, host: Host, session_id: str) -> SessionView:
        return host.show(session_id, self._spent(host, host.facts[session_id]))

    def _spent(self, host: Host, facts: Facts) -> Spent:
        lines = self.spending.own((host.id, facts.session_id))
        return Spent(
            summed(lines) if lines else None, self.spending.context(facts), plan_view(facts.gauges)
        )

    def past_view(self, host: Host, facts: Facts) -> SessionView:
        session_id, spent = facts.session_id, self._spent(host, facts)
        incomplete = host.is_incomplete(session_id)
        verdict = past_verdict(facts, host.archived(facts))
        return session_view(
            host.place(), session_id, facts, verdict, incomplete=incomplete, spent=spent
        )

    def today(self, now: int) -> tuple[float | None, int]:
        """Dollars and tokens of all hosts: spent is spent, whoever is out of reach by now."""
        held = self._today
        if held is None or now - held[0] >= LOOK_MS:
            day = self.spending.day(self.spending.day_of(now))
            held = self._today = now, day.total, day.tokens
        return held[1], held[2]

    def look(self, hosts: Iterable[Host], now: int, *, at_once: bool = False) -> list[Key]:
        """The sessions of which it is new that they are over a budget, or no longer."""
        if not self.overspent.budgets or (now < self._looked_at + LOOK_MS and not at_once):
            return []
        self._looked_at = now
        today = self.spending.day_of(now)
        # An answer lifts the state by itself, whatever is found here.
        seen = self.spending.revision, today, now // AGAIN_MS
        if self._seen == seen:
            return []
        self._seen = seen
        hosts = list(hosts)
        found = self.overspent.look(workers(hosts, now), today)
        changed: list[Key] = []
        for host in hosts:
            over = {
                key: _steady(each, host.over.get(key))
                for (host_id, key), each in found.items()
                if host_id == host.id
            }
            either = over.keys() | host.over.keys()
            changed += [(host.id, key) for key in either if over.get(key) != host.over.get(key)]
            host.over = over
        return changed
