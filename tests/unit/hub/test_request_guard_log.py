"""What is refused in the log: some lines a minute, however many are refused and from wherever."""

from __future__ import annotations

import pytest

from adsum_hub.request_guard import MOST_LINES, SAID_MS, Refusals


def test_many_refusals_are_few_lines_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, more = 10 * SAID_MS, 25
    refusals = Refusals(lambda: now)
    with caplog.at_level("INFO"):
        for number in range(MOST_LINES + more):
            for _ in range(3):
                scope = {"client": (f"10.0.0.{number}", 1), "path": "/api/v1/login"}
                refusals.note(scope, "No login link has this code.")
        assert len(caplog.records) == MOST_LINES
        now += SAID_MS
        refusals.note({"client": ("10.0.0.1", 1), "path": "/"}, "No.")

    said = [each.getMessage() for each in caplog.records[MOST_LINES:]]
    assert said[0] == f"refused {more} times more, each not told of above"
    assert len(said) == 2
