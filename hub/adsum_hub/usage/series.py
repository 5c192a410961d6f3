"""Usage day by day, apart by host, project or model: what a chart is drawn from. Pure."""

from __future__ import annotations

from math import fsum
from typing import Literal

from adsum_hub.usage.usage import Line
from adsum_shared.usage import UsagePoint, UsageSeries

Split = Literal["host", "project", "model"]

#: More than these nobody tells apart. Those with the most tokens may be others than the dearest.
MOST = 8
OTHERS = "all others"


class _Day:
    __slots__ = ("dollars", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        self.dollars: list[float] = []


class Series:
    """Adds up line by line; `found` is the whole."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self._days: dict[str, dict[str, _Day]] = {}

    def add(self, key: str, label: str, line: Line) -> None:
        self._labels.setdefault(key, label)
        days = self._days.setdefault(key, {})
        day = days.get(line.day)
        if day is None:
            day = days[line.day] = _Day()
        day.tokens += line.tokens
        if line.usd is not None:
            day.dollars.append(line.usd)

    def found(self) -> list[UsageSeries]:
        """The dearest first; those that are left out of it as one, with the key None."""
        dollars = {key: _usd(days) for key, days in self._days.items()}
        tokens = {key: sum(day.tokens for day in days.values()) for key, days in self._days.items()}
        dearest = sorted(self._days, key=lambda key: (-dollars[key], -tokens[key], key))
        largest = sorted(self._days, key=lambda key: (-tokens[key], -dollars[key], key))
        named = {*dearest[:MOST], *largest[:MOST]}
        series = [
            UsageSeries(key, self._labels[key], _points([self._days[key]]))
            for key in dearest
            if key in named
        ]
        rest = [self._days[key] for key in dearest if key not in named]
        return [*series, UsageSeries(None, OTHERS, _points(rest))] if rest else series


def _usd(days: dict[str, _Day]) -> float:
    return fsum(usd for day in days.values() for usd in day.dollars)


def _points(several: list[dict[str, _Day]]) -> list[UsagePoint]:
    points = []
    for name in sorted({name for days in several for name in days}):
        found = [days[name] for days in several if name in days]
        dollars = [usd for day in found for usd in day.dollars]
        tokens = sum(day.tokens for day in found)
        points.append(UsagePoint(name, tokens, fsum(dollars) if dollars or not tokens else None))
    return points
