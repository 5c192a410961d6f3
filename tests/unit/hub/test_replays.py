"""When to ask for missing numbers again, and when to give them up."""

from __future__ import annotations

from adsum_hub.consumer.heartbeats import ASK_AGAIN_MS, FRUITLESS_REPLAYS, Replays


def test_a_hole_is_asked_for_once_however_many_entries_lie_behind_it():
    replays = Replays()

    verdicts = [replays.hole("h", "sp", 5, 1, now=n) for n in range(1_000)]

    assert verdicts == ["ask"] + ["wait"] * 999


def test_a_request_that_expired_unseen_is_made_again():
    replays = Replays()
    replays.hole("h", "sp", 5, 1, now=0)

    assert replays.hole("h", "sp", 5, 1, now=ASK_AGAIN_MS) == "ask"
    assert replays.hole("h", "sp", 5, 1, now=ASK_AGAIN_MS + 1) == "wait"


def test_another_hole_is_another_request():
    replays = Replays()
    replays.hole("h", "sp", 5, 1, now=0)

    assert replays.hole("h", "sp", 9, 1, now=1) == "ask"
    assert replays.hole("h", "other", 9, 1, now=1) == "ask"


def test_numbers_that_replays_do_not_bring_are_given_up():
    replays = Replays()
    replays.hole("h", "sp", 5, 1, now=0)

    verdicts = [replays.hole("h", "sp", 5, 2 + n, now=n) for n in range(FRUITLESS_REPLAYS)]

    assert verdicts == ["ask"] * (FRUITLESS_REPLAYS - 1) + ["lost"]


def test_a_long_backlog_behind_the_hole_gives_nothing_up():
    replays = Replays()

    verdicts = {replays.hole("h", "sp", 5, 1, now=n * 1_000) for n in range(10_000)}

    assert "lost" not in verdicts
