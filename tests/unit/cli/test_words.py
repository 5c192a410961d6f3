"""Trouble in words: the same on the terminal and on the page, and no age grows while a list stands still."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from adsum.text.words import (
    GAP_REASONS,
    as_of,
    cause_sentence,
    gap_sentence,
    missing_of,
    trouble_in,
    trouble_sentence,
)
from adsum_shared.state import AgentState, GapView, Group, HubTrouble, SessionView

NOW = int(time.mktime((2026, 11, 21, 15, 0, 0, 0, 0, -1)) * 1000)
MINUTE = 60_000
HOSTS_JS = Path(__file__).parents[3] / "hub" / "adsum_hub" / "web" / "core" / "hosts.js"


def view(started_at: int | None) -> SessionView:
    state = AgentState(Group.AUTONOMOUS, "acting", "acting", 1.0, "hook", NOW)
    more: dict[str, Any] = {"started_at": started_at, "incomplete": True}
    return SessionView("h:a", "h", "box", "a", "claude_code", state, "live", NOW, 0, **more)


GAPS = (GapView(NOW - 30 * MINUTE, "cap", 9), GapView(NOW - 10 * MINUTE, "lost"))


def test_a_session_misses_what_was_lost_since_it_began() -> None:
    latest = "Something before 14:50 is missing: its spool was deleted."
    assert missing_of(view(NOW - 20 * MINUTE), GAPS, NOW) == [latest]
    assert missing_of(view(NOW - 40 * MINUTE), GAPS, NOW) == [
        latest,
        "9 signals from before 14:30 are missing: its disk allowance was used up.",
    ]


@pytest.mark.parametrize("gaps", [GAPS, ()])
def test_an_incomplete_session_always_says_that_something_is_missing(
    gaps: tuple[GapView, ...],
) -> None:
    (told,) = missing_of(view(NOW), gaps, NOW)
    assert told.startswith("Something")


def test_a_list_that_stands_still_says_since_when_and_why() -> None:
    trouble = HubTrouble("Redis cannot be read (gone). Start it.", NOW - MINUTE, blind=True)
    assert trouble_sentence(trouble, NOW) == (
        "The list stands still since 14:59: Redis cannot be read (gone). Start it."
    )
    assert as_of(NOW, trouble) == NOW - MINUTE


def test_a_list_that_only_lacks_reports_goes_on() -> None:
    trouble = HubTrouble("Redis is out of memory.", NOW - MINUTE)
    assert trouble_sentence(trouble, NOW) == "Trouble since 14:59: Redis is out of memory."
    assert as_of(NOW, trouble) == NOW
    assert as_of(NOW, None) == NOW


def test_an_older_hub_owns_up_to_nothing() -> None:
    assert trouble_in({"sessions": []}) is None
    assert trouble_in({"trouble": None}) is None
    told = {"problem": "Full.", "since": 5, "new_in_a_later_version": 1}
    assert trouble_in({"trouble": told}) == HubTrouble("Full.", 5)


def test_the_page_gives_the_same_reasons() -> None:
    _, table = HOSTS_JS.read_text().split("const GAP_REASONS = {")
    of_the_page = dict(re.findall(r'^  (\w+): "(.*)",$', table.split("};")[0], re.MULTILINE))
    assert of_the_page == GAP_REASONS


@pytest.mark.parametrize("reason", GAP_REASONS)
def test_every_reason_ends_its_sentence(reason: str) -> None:
    assert gap_sentence(GapView(NOW, reason), NOW).endswith(f"{GAP_REASONS[reason]}.")


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
    assert cause_sentence(cause, times) == words
