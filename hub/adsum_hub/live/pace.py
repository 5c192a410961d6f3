"""A pace: what costs is done at once while a budget lasts, and then as often as that allows. Pure."""

from __future__ import annotations


class Pace:
    """per_s: units that a second brings. saved: the most that are kept for a burst."""

    def __init__(self, per_s: float, saved: float) -> None:
        self._per_s = per_s
        self._saved = saved
        self._left = saved
        self._at = 0.0

    def wait(self, cost: float, now: float, longest: float) -> float:
        """The seconds until so much can be spent; no more than `longest` after the last time."""
        short = cost - self._at_hand(now)
        if short <= 0:
            return 0.0
        return max(0.0, min(short / self._per_s, self._at + longest - now))

    def spend(self, cost: float, now: float) -> None:
        self._left = max(0.0, self._at_hand(now) - cost)
        self._at = now

    def _at_hand(self, now: float) -> float:
        return min(self._saved, self._left + (now - self._at) * self._per_s)
