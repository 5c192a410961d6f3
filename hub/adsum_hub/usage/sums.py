"""Lines of usage summed up, as clients see them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

from adsum_hub.usage.usage import CostSource, Line
from adsum_shared.usage import UsageView


class Sum:
    """Adds up line by line; `view` is the whole."""

    __slots__ = ("_dollars", "_numbers", "_sources")

    def __init__(self) -> None:
        self._numbers = [0, 0, 0, 0, 0, 0]
        self._dollars: list[float] = []
        self._sources: set[CostSource] = set()

    def add(self, line: Line) -> None:
        numbers = self._numbers
        numbers[0] += line.input_tokens
        numbers[1] += line.output_tokens
        numbers[2] += line.cache_read_tokens
        numbers[3] += line.cache_write_tokens
        numbers[4] += line.web_searches
        numbers[5] += line.unpriced_tokens
        if line.usd is not None:
            self._dollars.append(line.usd)
            self._sources.add(line.source)

    def view(self) -> UsageView:
        numbers = self._numbers
        unpriced = bool(numbers[5]) and not self._dollars
        return UsageView(
            input_tokens=numbers[0],
            output_tokens=numbers[1],
            cache_read_tokens=numbers[2],
            cache_write_tokens=numbers[3],
            web_searches=numbers[4],
            cost_usd=None if unpriced else fsum(self._dollars),
            cost_source=next(iter(self._sources)) if len(self._sources) == 1 else self._mixed(),
            unpriced_tokens=numbers[5],
        )

    def _mixed(self) -> CostSource:
        return "mixed" if self._sources else "computed"


def summed(lines: Iterable[Line]) -> UsageView:
    total = Sum()
    for line in lines:
        total.add(line)
    return total.view()
