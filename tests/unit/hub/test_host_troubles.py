"""What is wrong with a host is told, all of it, for as long as it matters."""

from __future__ import annotations

import pytest

from adsum_hub.host_troubles import EVERY_MS, MANY, SHOWN_MS, WINDOW_MS, Backlog, Troubles


def test_all_is_told_the_collectors_own_word_first_then_what_matters_most():
    troubles = Troubles()
    troubles["heartbeat"] = "No beat."
    troubles["anything else"] = "Slow."
    troubles.note("entry", "Bad entry.", 0)
    troubles["schema"] = "Newer."

    assert troubles.sentences("Disk full.") == "Disk full. Newer. Bad entry. No beat. Slow."


def test_nothing_wrong_is_nothing_told():
    assert Troubles().sentences(None) is None


def test_what_has_happened_is_told_for_ten_minutes_after_its_last_time():
    troubles = Troubles()
    assert troubles.note("entry", "One.", 0)
    assert not troubles.note("entry", "Two.", 5_000)

    troubles.expire(SHOWN_MS + 4_999)
    assert troubles.sentences(None) == "Two."
    troubles.expire(SHOWN_MS + 5_000)
    assert troubles.sentences(None) is None


def test_what_lasts_is_told_until_it_is_over():
    troubles = Troubles()
    troubles["save"] = "Full."
    troubles.expire(10 * SHOWN_MS)

    assert troubles.sentences(None) == "Full."
    assert troubles.pop("save") == "Full."


# Backlogs: how long it will take, or that it grows; a burst of work is not reported.


def after(*looks: tuple[int, int, int], spool: str = "sp") -> str | None:
    """What is said after looks of (second, highest in the spool, applied)."""
    backlog, told = Backlog(), None
    for second, seq, applied in looks:
        told = backlog.look(second * 1000, spool, seq, applied)
    return told


def test_how_long_it_takes_follows_from_the_pace() -> None:
    told = after((0, 40_000, 0), (3, 40_000, 3_000), (6, 40_000, 6_000))
    assert told == "About 34,000 of its signals are still on their way: 34 s more at this pace."


@pytest.mark.parametrize(
    ("left", "time"),
    [(80_000, "80 s"), (600_000, "10 min"), (7_200_000, "2 h"), (10**9, "11 days")],
)
def test_a_duration_is_told_in_what_people_count_it_in(left: int, time: str) -> None:
    told = after((0, left + 3_000, 0), (3, left + 3_000, 3_000))
    assert told is not None
    assert told.endswith(f": {time} more at this pace.")


def test_one_that_grows_has_no_end_to_tell() -> None:
    told = after((0, 10_000, 0), (3, 20_000, 3_000))
    assert told == "About 17,000 of its signals are still on their way, and their number grows."


def test_one_that_stands_still_says_since_when() -> None:
    told = after((0, 10_000, 7), (3, 10_000, 7), (6, 10_000, 7))
    assert told == "About 10,000 of its signals are still on their way, and none has come for 6 s."


def test_a_burst_is_not_told_before_it_lasts() -> None:
    assert after((0, 10_000, 0)) is None
    assert after((0, 0, 0), (3, 10_000, 10_000), (6, 20_000, 10_000)) is None


def test_few_are_nothing_to_tell() -> None:
    assert after((0, MANY - 1, 0), (3, MANY - 1, 0), (6, MANY - 1, 0)) is None


def test_one_that_is_gone_is_not_told_any_more() -> None:
    assert after((0, 9_000, 0), (3, 9_000, 3_000), (6, 9_000, 9_000)) is None


def test_the_numbers_of_another_spool_say_nothing_of_this_ones_pace() -> None:
    backlog = Backlog()
    backlog.look(0, "old", 90_000, 50_000)
    backlog.look(3_000, "old", 90_000, 60_000)
    assert backlog.look(6_000, "new", 30_000, 0) is None


def test_a_sentence_stands_until_the_next_look() -> None:
    backlog = Backlog()
    backlog.look(0, "sp", 9_000, 0)
    first = backlog.look(EVERY_MS, "sp", 9_000, 1_000)
    assert first is not None
    assert backlog.look(EVERY_MS + 1_000, "sp", 9_000, 2_000) == first
    assert backlog.look(2 * EVERY_MS, "sp", 9_000, 2_000) != first


def test_the_pace_is_that_of_late() -> None:
    """An hour in which nothing came must not stretch what is told now."""
    backlog = Backlog()
    for second in range(0, 600, 3):
        backlog.look(second * 1000, "sp", 90_000, 0)
    told = None
    for second in range(600, 600 + 2 * WINDOW_MS // 1000, 3):
        told = backlog.look(second * 1000, "sp", 90_000, (second - 597) * 1_000)
    assert told is not None
    assert "60 s more" in told
