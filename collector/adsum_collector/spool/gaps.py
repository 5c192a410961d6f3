"""Ranges of numbers that will never come, each with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: First number, last number, reason.
Gap = tuple[int, int, str]


def with_gap(gaps: Sequence[Gap], gap: Gap) -> list[Gap]:
    """What has a reason already keeps it; neighbours with one reason become one."""
    joined: list[Gap] = []
    for first, last, reason in sorted([*gaps, *_uncovered(gaps, gap)]):
        if joined and joined[-1][2] == reason and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last, reason)
        else:
            joined.append((first, last, reason))
    return joined


def find_gap(gaps: Iterable[Gap], seq: int) -> Gap | None:
    return next((gap for gap in gaps if gap[0] <= seq <= gap[1]), None)


def _uncovered(gaps: Sequence[Gap], gap: Gap) -> list[Gap]:
    first, last, reason = gap
    left: list[Gap] = []
    for low, high, _ in sorted(gaps):
        if high < first or low > last:
            continue
        if low > first:
            left.append((first, low - 1, reason))
        first = high + 1
    return [*left, (first, last, reason)] if first <= last else left
