"""Text that is safe to print, and how long something takes, in four characters."""

from __future__ import annotations

import re

# Titles and labels come from agents: control characters could move the cursor or worse.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def clean(text: str | None) -> str:
    return _CONTROL.sub(" ", text or "").strip()


def age(ms: int) -> str:
    """A duration in at most four characters: 0s, 59s, 59m, 23h, 99d."""
    seconds = max(0, ms) // 1000
    for size, unit in ((60, "s"), (60, "m"), (24, "h")):
        if seconds < size:
            return f"{seconds}{unit}"
        seconds //= size
    return f"{min(seconds, 999)}d"
