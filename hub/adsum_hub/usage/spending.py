"""Spending: what every session used, kept by day, and priced only when somebody asks. Pure.

A session whose home directory several machines share, or that was copied, is told of by each: of
each of its groups the larger count is taken, once, and belongs to the machine that tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import fsum

from adsum_hub.facts import Facts
from adsum_hub.parts import Usage
from adsum_hub.usage.usage import Line, Lines, Prices, lines_of
from adsum_shared.usage import ContextView

#: A session by its host's id and its own.
Key = tuple[str, str]


_NOTHING = Usage()


class NoPrices:
    """For hubs in tests and the time before a price book is there: tokens alone."""

    def cost(self, *_: object, **__: object) -> None:
        return None

    def context(self, model: str) -> int | None:
        del model
        return None


class Day:
    """What one day's sessions used. usd: by session; one without a price is not there."""

    __slots__ = ("by_host", "by_project", "tokens", "unpriced", "usd")

    def __init__(self) -> None:
        self.usd: dict[Key, float] = {}
        self.by_host: dict[str, dict[Key, float]] = {}
        self.by_project: dict[str, dict[Key, float]] = {}
        self.tokens = 0
        self.unpriced = 0

    @property
    def total(self) -> float | None:
        """None if all of its tokens are unpriced."""
        return None if self.unpriced and not self.usd else fsum(self.usd.values())


class Spending:
    """day_of: the local day of the hub's clock."""

    def __init__(self, prices: Prices, day_of: Callable[[int], str]) -> None:
        self.day_of = day_of
        #: counts every change
        self.revision = 0
        self._prices = prices
        self._facts: dict[Key, Facts] = {}
        self._days: dict[str, dict[Key, None]] = {}
        #: which hosts tell of a session, where there are several
        self._first: dict[str, str] = {}
        self._copies: dict[str, set[str]] = {}
        self._lines: dict[Key, Lines] = {}
        self._sums: dict[str, Day] = {}

    def update(self, key: Key, facts: Facts | None) -> bool:
        """Facts may have changed; None: they are gone. Whether what was used is another now."""
        if facts is not None and not (facts.usage or facts.costs):
            facts = None
        before = self._facts.get(key)
        if facts is before or (facts and before and self._is_same(key, facts, before)):
            if facts is not None:
                self._facts[key] = facts
            return False
        self.revision += 1
        days = {day for copy in self.copies(key) for day in self._days_at(copy)}
        if before is not None:
            days |= self._forget(key)
        if facts is not None:
            self._facts[key] = facts
            self._join(key)
            for day in self._days_at(key):
                self._days.setdefault(day, {})[key] = None
                days.add(day)
        for copy in self.copies(key):
            days |= self._days_at(copy)
        for day in days:
            self._sums.pop(day, None)
        return True

    def _is_same(self, key: Key, a: Facts, b: Facts) -> bool:
        is_copy = key[1] in self._copies
        return _same(a, b) and not (is_copy and _is_prompted(a) != _is_prompted(b))

    def reprice(self, prices: Prices) -> None:
        self.revision += 1
        self._prices = prices
        self._lines.clear()
        self._sums.clear()

    def _forget(self, key: Key) -> set[str]:
        host_id, session_id = key
        days = self._days_at(key)
        del self._facts[key]
        self._lines.pop(key, None)
        for day in days:
            held = self._days[day]
            held.pop(key, None)
            if not held:
                del self._days[day]
        hosts = self._copies.get(session_id)
        if hosts is not None:
            hosts.discard(host_id)
            if len(hosts) == 1:
                del self._copies[session_id]
                self._first[session_id] = hosts.pop()
        else:
            self._first.pop(session_id, None)
        return days

    def _join(self, key: Key) -> None:
        host_id, session_id = key
        if session_id in self._copies:
            self._copies[session_id].add(host_id)
        elif (first := self._first.setdefault(session_id, host_id)) != host_id:
            del self._first[session_id]
            self._copies[session_id] = {first, host_id}

    def _days_at(self, key: Key) -> set[str]:
        facts = self._facts[key]
        if facts.usage:
            return {group[:10] for group in facts.usage}  # keys begin with the day
        return {self.day_of(max(cost.at for cost in facts.costs.values()))}

    def copies(self, key: Key) -> list[Key]:
        """Where several hosts tell of it, all of them, the one on which it was prompted first."""
        found = [(host, key[1]) for host in self._copies.get(key[1], ())]
        return sorted(found, key=lambda copy: (not _is_prompted(self._facts[copy]), copy))

    def facts(self, key: Key) -> Facts:
        return self._facts[key]

    def find(self, key: Key) -> Facts | None:
        return self._facts.get(key)

    def own(self, key: Key) -> Lines:
        """All that is told of it there, whatever another machine tells of the same session."""
        lines = self._lines.get(key)
        if lines is None:
            facts = self._facts.get(key)
            if facts is None:
                return ()
            lines = self._lines[key] = lines_of(facts, self._prices, self.day_of)
        return lines

    def lines(self, key: Key) -> Lines:
        """What of it counts in sums."""
        if key[1] not in self._copies:
            return self.own(key)
        best: dict[str, tuple[Key, Line]] = {}
        copies = self.copies(key)
        counted = any(line.tokens for copy in copies for line in self.own(copy))
        for copy in copies:  # of equals the first
            for line in self.own(copy):
                if not line.tokens and counted:
                    continue  # dollars without tokens: another machine has the tokens
                held = best.get(line.key)
                if held is None or _worth(line) > _worth(held[1]):
                    best[line.key] = copy, line
        return tuple(line for holder, line in best.values() if holder == key)

    def keys(self, since: str, until: str) -> list[Key]:
        """The sessions that used anything on these days, both included; in no order."""
        days = [day for day in self._days if since <= day <= until]
        return list({key: None for day in days for key in self._days[day]})

    def day(self, day: str) -> Day:
        found = self._sums.get(day)
        if found is None:
            found = self._sums[day] = Day()
            for key in self._days.get(day, ()):
                self._add(found, key, day)
            for key, usd in found.usd.items():
                found.by_host.setdefault(key[0], {})[key] = usd
                found.by_project.setdefault(self._facts[key].project or "", {})[key] = usd
        return found

    def _add(self, found: Day, key: Key, day: str) -> None:
        for line in self.lines(key):
            if line.day == day:
                found.tokens += line.tokens
                found.unpriced += line.unpriced_tokens
                if line.usd is not None:
                    found.usd[key] = found.usd.get(key, 0.0) + line.usd

    def is_priced(self, model: str, day: str) -> bool:
        """In its usual mode."""
        found = self._prices.cost(model, day, _NOTHING, fast=False, geo="", long=False)
        return found is not None

    def days(self) -> Iterator[str]:
        return iter(self._days)

    def context(self, facts: Facts) -> ContextView | None:
        tokens, size = facts.gauges.context_tokens, facts.gauges.context_size
        if tokens is None:
            return None
        if size is not None:
            return ContextView(tokens[1], size[1])
        model = facts.about("model")
        return ContextView(tokens[1], self._prices.context(model) if model else None)


def _same(a: Facts, b: Facts) -> bool:
    """By identity: a fold that changes nothing keeps the very same dictionaries."""
    return bool(
        a.usage is b.usage
        and a.costs is b.costs
        and (
            a.meta is b.meta
            or (
                a.project == b.project
                and a.about("forked_from") == b.about("forked_from")
                and (a.usage or a.model == b.model)  # dollars alone are the model's that is named
            )
        )
    )


def _is_prompted(facts: Facts) -> bool:
    return facts.first_prompt is not None


def _worth(line: Line) -> tuple[int, bool, float]:
    return line.tokens, line.source != "computed", line.usd or 0.0
