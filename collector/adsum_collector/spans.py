"""Spans of numbers: which are left once some are taken out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

#: First and last number, both included.
Span = tuple[int, int]


def left_of(acked: int, without: Sequence[Span], last: int) -> Iterator[Span]:
    """The numbers above `acked` and up to `last` that are not in the spans, which are in order."""
    after = acked
    for first, end in (*without, (last + 1, last + 1)):
        if min(first - 1, last) > after:
            yield after + 1, min(first - 1, last)
        after = max(after, end)
