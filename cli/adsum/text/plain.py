"""How long something takes, in four characters; and text that is safe to show."""

from __future__ import annotations

from adsum_shared.redact import clean

__all__ = ["age", "clean"]


def age(ms: int) -> str:
    """A duration in at most four characters: 0s, 59s, 59m, 23h, 99d."""
    seconds = max(0, ms) // 1000
    for size, unit in ((60, "s"), (60, "m"), (24, "h")):
        if seconds < size:
            return f"{seconds}{unit}"
        seconds //= size
    return f"{min(seconds, 999)}d"
