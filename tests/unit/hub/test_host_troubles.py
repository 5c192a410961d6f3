"""What is wrong with a host is told, all of it, for as long as it matters."""

from __future__ import annotations

from adsum_hub.host_troubles import TOLD_MS, Troubles


def test_all_is_told_the_collectors_own_word_first_then_what_matters_most():
    troubles = Troubles()
    troubles["heartbeat"] = "No beat."
    troubles["anything else"] = "Slow."
    troubles.tell("entry", "Bad entry.", 0)
    troubles["schema"] = "Newer."

    assert troubles.sentences("Disk full.") == "Disk full. Newer. Bad entry. No beat. Slow."


def test_nothing_wrong_is_nothing_told():
    assert Troubles().sentences(None) is None


def test_what_has_happened_is_told_for_ten_minutes_after_its_last_time():
    troubles = Troubles()
    assert troubles.tell("entry", "One.", 0)
    assert not troubles.tell("entry", "Two.", 5_000)

    troubles.expire(TOLD_MS + 4_999)
    assert troubles.sentences(None) == "Two."
    troubles.expire(TOLD_MS + 5_000)
    assert troubles.sentences(None) is None


def test_what_lasts_is_told_until_it_is_over():
    troubles = Troubles()
    troubles["save"] = "Full."
    troubles.expire(10 * TOLD_MS)

    assert troubles.sentences(None) == "Full."
    assert troubles.pop("save") == "Full."
