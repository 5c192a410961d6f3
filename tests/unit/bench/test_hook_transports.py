"""That the ways to send hooks are compared fairly, and within the time that is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adsum_collector.agents.claude_code.settings_text import entry_for
from adsum_collector.agents.installer import Target
from bench.hook_transports import IN_TURN, WAYS, Run, hooks_of, rounds, rows

TARGET = Target(47892, "secret", "python", Path("shim.py"), Path("collector.sock"))
OTHERS = WAYS[1:]


def _played(*turns: tuple[float, float]) -> list[dict[str, Run]]:
    """A round for each (none, every other way)."""
    return [
        {way: Run(none if way == "none" else other, 2 * other, 1, 23) for way in WAYS}
        for none, other in turns
    ]


def test_a_ratio_is_of_runs_of_the_same_round() -> None:
    """The machine is slow in one round, where the ratio of the medians would be 2."""
    played = _played((100, 110), (100, 220), (200, 220))

    (none, http, *_) = rows(played, dict.fromkeys(WAYS, 90.0))

    assert (none.turn, http.turn) == (100, 220)
    assert http.turn_ratio == pytest.approx(1.1)
    assert http.a_hook == pytest.approx(20 / IN_TURN)


def test_lines_are_told_beyond_those_without_hooks() -> None:
    lines = dict.fromkeys(WAYS, 40.0) | {"curl": 41.0}

    told = {row.way: row.lines for row in rows(_played((1, 1), (1, 1)), lines)}

    assert told == dict.fromkeys(WAYS, 0.0) | {"curl": 1.0}


def test_every_way_but_none_hooks_the_same_events_once() -> None:
    hooks = {way: hooks_of(way, TARGET, 5) for way in WAYS}

    assert hooks["none"] == {}
    assert len({tuple(hooks[way]) for way in OTHERS}) == 1
    assert all(
        len(group["hooks"]) == 1
        for way in OTHERS
        for groups in hooks[way].values()
        for group in groups
    )


def test_http_is_what_the_installer_writes_and_bare_differs_in_the_port_alone() -> None:
    http, bare = (hooks_of(way, TARGET, 5) for way in ("http", "bare http"))

    posting = replace(TARGET, transport="http")
    assert http == {event: [entry_for(event, posting, (2, 1, 330))] for event in http}
    assert str(bare) == str(http).replace(":47892/", ":5/")


def test_the_agent_waits_for_one_of_the_two_curls() -> None:
    (waited,) = hooks_of("curl", TARGET, 5)["PreToolUse"][0]["hooks"]
    (left,) = hooks_of("async curl", TARGET, 5)["PreToolUse"][0]["hooks"]

    assert left == waited | {"async": True}


def test_no_round_begins_that_would_not_fit() -> None:
    now, order = 0.0, list[str]()

    def play(way: str) -> Run:
        nonlocal now
        now += 1.0
        order.append(way)
        return Run(1, 1, 1, 0)

    played = list(rounds(play, 8 * len(WAYS) - 0.5, lambda: now))

    assert len(played) == 6, "seven fit, of which the first warms up"
    assert [order[at] for at in range(0, len(order), len(WAYS))] == [*WAYS, WAYS[0]]
    assert all(set(each) == set(WAYS) for each in played)


def test_a_slow_machine_still_plays_enough_rounds_for_a_median() -> None:
    now = 0.0

    def play(_way: str) -> Run:
        nonlocal now
        now += 100.0
        return Run(1, 1, 1, 0)

    assert len(list(rounds(play, 1.0, lambda: now))) == 3
