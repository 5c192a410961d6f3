"""Keeps what every session used by day, and prices it only when somebody asks. Pure.

A session costs what its agent reports before what we compute, spread over what it used.
Three sources, the best first:

- `cost-state`, which the agent writes when it closes or resumes a session: cumulative, with the
  tokens it is made of. What our transcripts hold beyond those is added at our prices.
- The status line's total. It begins anew with /clear, in some versions with a resume, and a process
  that takes up another session may count on. So it is taken only if it is at least what the tokens
  cost, or what `cost-state` makes of them: it knows of calls that stand in no transcript, so a true
  one never says less, and one that was reset is found out.
- The price book.

Where a plan pays, nothing is billed by tokens, and no dollars are told.

A fork's reports include what its parent spent before, which is the parent's: it is computed only.

A session whose home directory several machines share, or that was copied, is told of by each: of
each of its groups the larger count is taken, once, and belongs to the machine that tells it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import fsum
from typing import Literal, Protocol

import msgspec
from msgspec.structs import astuple

from adsum_hub.facts import Facts, Usage
from adsum_shared.signals import ModelCost
from adsum_shared.state import ContextView, UsageView

CostSource = Literal["reported", "computed", "mixed", "plan"]
#: A session of whose model nothing is known, only that it has cost something.
UNKNOWN_MODEL = "unknown"
#: Sums of many floats differ by a hair, and a report is rounded to it.
HAIR = 1e-6

_VARIANT = re.compile(r"\[[^\]]*\]$|[-@](20\d{6}|latest)(?=$|\[|-v\d)|-v\d+(:\d+)?$")


class Prices(Protocol):
    """The price book, as far as it is needed here. None: no price."""

    def cost(
        self, model: str, day: str, usage: Usage, *, fast: bool, geo: str, long: bool
    ) -> float | None: ...

    def context(self, model: str) -> int | None: ...


class CostLine(msgspec.Struct, frozen=True, gc=False):
    """One group of a session: see `fold.fold.usage_key`. usd: None if none of it has a price."""

    key: str
    day: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    web_searches: int
    usd: float | None
    source: CostSource
    unpriced_tokens: int

    @property
    def tokens(self) -> int:
        read_or_written = self.cache_read_tokens + self.cache_write_tokens
        return self.input_tokens + self.output_tokens + read_or_written


Lines = tuple[CostLine, ...]


class _Group(msgspec.Struct, frozen=True, gc=False):
    key: str
    day: str
    model: str
    fast: bool
    geo: str
    long: bool
    usage: Usage


class _Report(msgspec.Struct, frozen=True, gc=False):
    """usd: of what it counts. beyond: group by group what it does not count."""

    usd: float
    beyond: tuple[Usage, ...]


def lines_of(facts: Facts, prices: Prices, day_of: Callable[[int], str]) -> Lines:
    """The session's groups with their dollars, which sum up to the session's. Sorted by key.

    day_of: the day of a time of its host's clock, for dollars that come without tokens.
    """
    groups = [_group(key, facts.usage[key]) for key in sorted(facts.usage)]
    if paid_by_plan(facts):
        return tuple(_line(group, None, "plan", 0) for group in groups)
    costs = [_cost(prices, group, group.usage) for group in groups]
    report = None if facts.about("forked_from") else _report(facts, groups, costs, prices)
    if report is None:
        return tuple(map(_computed, groups, costs))
    if not groups:
        return (_tokenless(facts, report.usd, day_of),)
    return _spread(groups, costs, report, prices)


def paid_by_plan(facts: Facts) -> bool:
    return facts.gauges.plan is not None and facts.gauges.plan[1] != ""


def _group(key: str, usage: Usage) -> _Group:
    day, marks, model = key.split(" ", 2)
    fast, geo, long = marks.split(",")
    return _Group(key, day, model, bool(fast), geo, bool(long), usage)


def _cost(prices: Prices, group: _Group, usage: Usage) -> float | None:
    return prices.cost(
        group.model, group.day, usage, fast=group.fast, geo=group.geo, long=group.long
    )


def tokens_of(usage: Usage) -> int:
    written = usage.cache_5m_tokens + usage.cache_1h_tokens
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + written


def _report(
    facts: Facts, groups: list[_Group], costs: list[float | None], prices: Prices
) -> _Report | None:
    """What the agent says, where that can be the whole; $0 for tokens means that it knows none."""
    whole = fsum(cost for cost in costs if cost is not None)
    nothing = tuple(Usage() for _ in groups)
    report = None
    cost_report, ticked = facts.costs.get("transcript"), facts.costs.get("statusline")
    if cost_report is not None and cost_report.cost_usd > 0:
        if cost_report.models is not None:
            report = _Report(cost_report.cost_usd, _beyond(groups, cost_report.models))
            dearer = (_cost(prices, *each) for each in zip(groups, report.beyond, strict=True))
            whole = cost_report.cost_usd + fsum(cost for cost in dearer if cost is not None)
        elif cost_report.cost_usd >= whole - HAIR:
            report, whole = _Report(cost_report.cost_usd, nothing), cost_report.cost_usd
    if ticked is not None and ticked.cost_usd > 0 and ticked.cost_usd >= whole - HAIR:
        return _Report(ticked.cost_usd, nothing)
    return report


def _beyond(groups: list[_Group], models: Mapping[str, ModelCost]) -> tuple[Usage, ...]:
    """What was used after the cost report was written: of each model's groups the latest.

    The cost report names what was asked for, transcripts what answered. Behind a gateway's alias or an
    inference profile those differ: what the cost report counts under names that no transcript knows is
    taken from the groups under names that the cost report does not know.
    """
    left: dict[str | None, list[int]] = {}
    ours = [plain(group.model) for group in groups]
    theirs = {plain(model) for model in models}
    for model, counted in models.items():
        if counted.cost_usd > 0:
            name = plain(model)
            held = left.setdefault(name if name in ours else None, [0, 0, 0, 0])
            held[:] = map(sum, zip(held, astuple(counted)[1:], strict=True))
    known = (left.get(name if name in theirs else None) for name in ours)
    return tuple(
        group.usage if held is None else _take(group.usage, held)
        for group, held in zip(groups, known, strict=True)
    )


def _take(usage: Usage, left: list[int]) -> Usage:
    """The usage without what is left of the counted tokens, which get less by it."""
    written = usage.cache_5m_tokens + usage.cache_1h_tokens
    numbers = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, written)
    rest = [max(0, number - counted) for number, counted in zip(numbers, left, strict=True)]
    left[:] = [max(0, counted - number) for number, counted in zip(numbers, left, strict=True)]
    for_1h = rest[3] * usage.cache_1h_tokens // written if written else 0
    # Of searches the cost report has no number.
    searches = usage.web_searches * sum(rest) // (sum(numbers) or 1)
    input_, output, read, writes = rest
    return Usage(0, input_, output, read, writes - for_1h, for_1h, web_searches=searches)


def plain(model: str) -> str:
    """The agent's cost report names a model with its variant (`[1m]`), or where it is bought."""
    name = model.casefold().rsplit("/", 1)[-1]
    before, dot, after = name.rpartition("anthropic.")
    name = after if dot else before or name
    while (cut := _VARIANT.sub("", name)) != name:
        name = cut
    return name


def _spread(
    groups: list[_Group], costs: list[float | None], report: _Report, prices: Prices
) -> Lines:
    """Dollars by the groups' own prices; where the report covers what has none, as its like costs."""
    dearer = [_cost(prices, *each) for each in zip(groups, report.beyond, strict=True)]
    total = report.usd + fsum(cost for cost in dearer if cost is not None)
    counted = [
        tokens_of(group.usage) - tokens_of(rest)
        for group, rest in zip(groups, report.beyond, strict=True)
    ]
    pairs = zip(groups, costs, strict=True)
    priced = sum(tokens_of(group.usage) for group, cost in pairs if cost is not None)
    computed = fsum(cost for cost in costs if cost is not None)
    rate = computed / priced if priced and computed else 1.0
    weights = [
        cost if cost is not None else number * rate
        for cost, number in zip(costs, counted, strict=True)
    ]
    if not any(weights):
        weights = [float(tokens_of(group.usage)) for group in groups]
    if not any(weights):
        weights = [1.0] * len(groups)
    whole = fsum(weights)
    source: CostSource = "mixed" if any(map(tokens_of, report.beyond)) else "reported"
    return tuple(
        _line(
            group,
            total * weight / whole if weight or cost is not None else None,
            source,
            tokens_of(rest) if cost is None else 0,
        )
        for group, cost, weight, rest in zip(groups, costs, weights, report.beyond, strict=True)
    )


def _computed(group: _Group, cost: float | None) -> CostLine:
    return _line(group, cost, "computed", tokens_of(group.usage) if cost is None else 0)


def _line(group: _Group, usd: float | None, source: CostSource, unpriced: int) -> CostLine:
    usage = group.usage
    written = usage.cache_5m_tokens + usage.cache_1h_tokens
    tokens = usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, written
    told = usage.web_searches, usd, source, unpriced
    return CostLine(group.key, group.day, group.model, *tokens, *told)


def _tokenless(facts: Facts, usd: float, day_of: Callable[[int], str]) -> CostLine:
    """Told of before its transcript was read, or where nobody may read it."""
    at = max(cost.at for cost in facts.costs.values())
    model = facts.about("model") or UNKNOWN_MODEL
    day = day_of(at)
    return CostLine(f"{day} ,, {model}", day, model, 0, 0, 0, 0, 0, usd, "reported", 0)


class Sum:
    """Adds up line by line; `view` is the whole."""

    __slots__ = ("_is_planned", "_numbers", "_sources", "dollars")

    def __init__(self) -> None:
        self._numbers = [0, 0, 0, 0, 0, 0]
        self.dollars: list[float] = []
        self._sources: set[CostSource] = set()
        self._is_planned = False

    def add(self, line: CostLine) -> None:
        numbers = self._numbers
        numbers[0] += line.input_tokens
        numbers[1] += line.output_tokens
        numbers[2] += line.cache_read_tokens
        numbers[3] += line.cache_write_tokens
        numbers[4] += line.web_searches
        numbers[5] += line.unpriced_tokens
        if line.usd is not None:
            self.dollars.append(line.usd)
            self._sources.add(line.source)
        self._is_planned = self._is_planned or line.source == "plan"

    @property
    def tokens(self) -> int:
        return sum(self._numbers[:4])

    def view(self) -> UsageView:
        input_, output, read, written, searches, unpriced = self._numbers
        cost = None if unpriced and not self.dollars else fsum(self.dollars)
        source: CostSource = "mixed" if self._sources else "computed"
        if len(self._sources) == 1:
            (source,) = self._sources
        elif self._is_planned and not self.dollars and not unpriced:
            cost, source = None, "plan"
        return UsageView(input_, output, read, written, searches, cost, source, unpriced)


def summed(lines: Iterable[CostLine]) -> UsageView:
    total = Sum()
    for line in lines:
        total.add(line)
    return total.view()


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
        best: dict[str, tuple[Key, CostLine]] = {}
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
        and paid_by_plan(a) == paid_by_plan(b)
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


def _worth(line: CostLine) -> tuple[int, bool, float]:
    return line.tokens, line.source != "computed", line.usd or 0.0
