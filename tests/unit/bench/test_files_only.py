"""Recordings of agents that are known from their files alone: what they tell is right, and what they cannot is known."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from bench.accuracy import WAYS, read, run
from bench.score import Score

DATA = Path(__file__).parents[2] / "data"
#: All that is shown wrong, by scenario: nothing in the files tells of it.
UNKNOWABLE = {
    "gemini": {"esctool": "a call that is cancelled", "perm": "a dialog", "texttool": "a call"},
    "opencode": {"perm": "a dialog", "resume": "an input box", "two": "a screen that lags"},
}


@cache
def scored(agent: str) -> Score:
    return run(list(read(DATA / f"traces_{agent}")), WAYS["all"])


@pytest.mark.parametrize("agent", UNKNOWABLE)
def test_all_is_right_but_what_files_cannot_tell(agent: str) -> None:
    found = scored(agent)

    assert {miss.scenario for miss in found.misses} == set(UNKNOWABLE[agent])
    assert len(found.misses) == len(UNKNOWABLE[agent])


@pytest.mark.parametrize(("agent", "segments"), [("gemini", 38), ("opencode", 46)])
def test_every_end_is_told_and_nothing_flickers(agent: str, segments: int) -> None:
    found = scored(agent)

    assert found.segments == segments
    assert found.ended == found.ended_segments > 0
    assert found.flickers == 0


def test_opencode_never_calls_for_a_human_in_vain() -> None:
    assert scored("opencode").false_ms == 0
