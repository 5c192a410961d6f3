"""How long it will take until a machine's news is new: from how fast it has been coming. Pure."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

#: A burst of work is here within a second; this many on the way for STEADY_MS are worth a word.
MANY = 500
STEADY_MS = 3_000
#: What the pace is measured over. Between two looks at least EVERY_MS, so that a sentence that
#: goes to every client does not change with each batch.
WINDOW_MS = 15_000
EVERY_MS = 3_000


class Look(NamedTuple):
    """left: signals that are on its disk and not here."""

    at: int
    left: int
    applied: int


class Backlog:
    """One machine's. Its sentence stands until the next look."""

    def __init__(self) -> None:
        self.told: str | None = None
        self._spool_id = ""
        self._looks: deque[Look] = deque()

    def look(self, now: int, spool_id: str, seq: int, applied: int) -> str | None:
        """now: ms. seq: the highest number in its spool. None: nothing worth telling."""
        if spool_id != self._spool_id:
            self._spool_id = spool_id
            self._looks.clear()
        looks = self._looks
        if looks and now - looks[-1].at < EVERY_MS:
            return self.told
        looks.append(Look(now, max(0, seq - applied), applied))
        while now - looks[0].at > WINDOW_MS:
            looks.popleft()
        steady = [each for each in looks if now - each.at <= STEADY_MS]
        lasting = looks[0].at <= now - STEADY_MS and all(each.left >= MANY for each in steady)
        self.told = _sentence(looks[0], looks[-1]) if lasting else None
        return self.told


def _sentence(first: Look, last: Look) -> str:
    what = f"About {_rounded(last.left):,} of its signals are still on their way"
    if last.applied <= first.applied:
        return f"{what}, and none has come for {_duration(last.at - first.at)}."
    if last.left >= first.left:
        return f"{what}, and their number grows."
    rest = (last.at - first.at) * last.left // (first.left - last.left)
    return f"{what}: {_duration(rest)} more at this pace."


def _rounded(count: int) -> int:
    """To two digits: nobody reads more, and each change is told to every client."""
    return int(float(f"{count:.1e}"))


def _duration(ms: int) -> str:
    seconds = ms // 1000
    for most, size, unit in ((90, 1, "s"), (90 * 60, 60, "min"), (36 * 3600, 3600, "h")):
        if seconds < most:
            return f"{max(1, seconds // size)} {unit}"
    return f"{seconds // 86_400} days"
