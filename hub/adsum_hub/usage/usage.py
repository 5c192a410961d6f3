"""What a session cost: what its agent reports before what we compute, spread over what it used. Pure.

Three sources, the best first:

- `cost-state`, which the agent writes when it closes or resumes a session: cumulative, with the
  tokens it is made of. What our transcripts hold beyond those is added at our prices.
- The status line's total. It begins anew with /clear, in some versions with a resume, and a process
  that takes up another session may count on. So it is taken only if it is at least what the tokens
  cost, or what `cost-state` makes of them: it knows of calls that stand in no transcript, so a true
  one never says less, and one that was reset is found out.
- The price book.

A fork's reports include what its parent spent before, which is the parent's: it is computed only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import fsum
from typing import Literal, Protocol

import msgspec
from msgspec.structs import astuple

from adsum_hub.facts import Facts
from adsum_hub.parts import Usage
from adsum_shared.signals import ModelCost

CostSource = Literal["reported", "computed", "mixed"]
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


class Line(msgspec.Struct, frozen=True, gc=False):
    """One group of a session: see `fold.usage.usage_key`. usd: None if none of it has a price."""

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


Lines = tuple[Line, ...]


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
    costs = [_cost(prices, group, group.usage) for group in groups]
    report = None if facts.about("forked_from") else _report(facts, groups, costs, prices)
    if report is None:
        return tuple(map(_computed, groups, costs))
    if not groups:
        return (_tokenless(facts, report.usd, day_of),)
    return _spread(groups, costs, report, prices)


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
    books, ticked = facts.costs.get("transcript"), facts.costs.get("statusline")
    if books is not None and books.cost_usd > 0:
        if books.models is not None:
            report = _Report(books.cost_usd, _beyond(groups, books.models))
            dearer = (_cost(prices, *each) for each in zip(groups, report.beyond, strict=True))
            whole = books.cost_usd + fsum(cost for cost in dearer if cost is not None)
        elif books.cost_usd >= whole - HAIR:
            report, whole = _Report(books.cost_usd, nothing), books.cost_usd
    if ticked is not None and ticked.cost_usd > 0 and ticked.cost_usd >= whole - HAIR:
        return _Report(ticked.cost_usd, nothing)
    return report


def _beyond(groups: list[_Group], models: Mapping[str, ModelCost]) -> tuple[Usage, ...]:
    """What was used after the books were closed: of each model's groups the latest.

    The books name what was asked for, transcripts what answered. Behind a gateway's alias or an
    inference profile those differ: what the books count under names that no transcript knows is
    taken from the groups under names that the books do not know.
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
    # Of searches the books have no number.
    searches = usage.web_searches * sum(rest) // (sum(numbers) or 1)
    input_, output, read, writes = rest
    return Usage(0, input_, output, read, writes - for_1h, for_1h, web_searches=searches)


def plain(model: str) -> str:
    """The agent's books name a model with its variant (`[1m]`), or where it is bought."""
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


def _computed(group: _Group, cost: float | None) -> Line:
    return _line(group, cost, "computed", tokens_of(group.usage) if cost is None else 0)


def _line(group: _Group, usd: float | None, source: CostSource, unpriced: int) -> Line:
    usage = group.usage
    return Line(
        group.key,
        group.day,
        group.model,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_5m_tokens + usage.cache_1h_tokens,
        usage.web_searches,
        usd,
        source,
        unpriced,
    )


def _tokenless(facts: Facts, usd: float, day_of: Callable[[int], str]) -> Line:
    """Told of before its transcript was read, or where nobody may read it."""
    at = max(cost.at for cost in facts.costs.values())
    model = facts.about("model") or UNKNOWN_MODEL
    day = day_of(at)
    return Line(f"{day} ,, {model}", day, model, 0, 0, 0, 0, 0, usd, "reported", 0)
