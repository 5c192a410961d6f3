"""What a collector counts under a few words is told in sentences that nobody has to guess at."""

from __future__ import annotations

import pytest

from adsum.text.causes import sentence


@pytest.mark.parametrize(
    ("cause", "times", "words"),
    [
        ("date in the future", 3_296, "3,296 messages dated in the future were not counted"),
        ("date in the future", 1, "1 message dated in the future was not counted"),
        ("no such process", 1, "1 entry named a process that had ended already"),
        ("exit code 3", 2, "2 runs of your command ended with code 3"),
        ("exit code -9", 1, "1 run of your command ended with code -9"),
        ("HTTP 401", 2, "2 messages were refused (HTTP 401)"),
        ("solar flare", 2, "solar flare: 2 times"),
        ("\x1b[2Jflare", 1, "[2Jflare: 1 time"),
    ],
)
def test_a_count_is_a_sentence(cause: str, times: int, words: str) -> None:
    assert sentence(cause, times) == words
