"""Where the browser is that tests, benchmarks and screenshots drive."""

from __future__ import annotations

import shutil

#: The first takes a third of the second's CPU for a page nobody sees (44 and 134 s for 64 tests).
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")


def chromium(*, whole: bool = False) -> str | None:
    """whole: one that also shows notifications and takes pushes, which the first does not."""
    return next(filter(None, map(shutil.which, BROWSERS[whole:])), None)
