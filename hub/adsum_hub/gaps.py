"""What of one machine will never come: the latest gaps, and which sessions they concern. Pure.

Here a gap's `at` is the host's time; clients are told the hub's.
"""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_shared.state import GapView

#: Of the latest ones, told one by one.
MOST_GAPS = 8
#: Gaps of one reason that follow each other so closely are one thing that happened.
ONE_EVENT_MS = 60_000


def with_gap(gaps: tuple[GapView, ...], gap: GapView) -> tuple[GapView, ...]:
    if gaps and gaps[-1].reason == gap.reason and abs(gap.at - gaps[-1].at) <= ONE_EVENT_MS:
        before = gaps[-1]
        # 0 means that nobody knows how many, and stays that.
        numbers = before.numbers + gap.numbers if before.numbers and gap.numbers else 0
        gap = GapView(max(before.at, gap.at), gap.reason, numbers)
        gaps = gaps[:-1]
    return (*gaps, gap)[-MOST_GAPS:]


def is_concerned(facts: Facts, gaps: tuple[GapView, ...]) -> bool:
    """Whether something of this session may be missing: it was there before the newest gap.

    Both by the host's clock: hubs estimate its offset each for itself, and would not agree. A
    session counts from when its collector first knew of it, since what is older it has read up,
    whole, from the transcript.
    """
    began = facts.known or facts.born
    return bool(gaps) and began < max(gap.at for gap in gaps)
