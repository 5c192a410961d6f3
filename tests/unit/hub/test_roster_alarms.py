"""Alarms: each session has one, and the latest word on it counts."""

from __future__ import annotations

import random

from adsum_hub.roster import Alarms
from adsum_hub.usage.spending import Key

A: Key = ("h", "a")
B: Key = ("h", "b")


def test_an_alarm_rings_once_when_its_time_has_come():
    alarms = Alarms()
    alarms.set(A, 100, 0)

    assert (alarms.next(), alarms.ring(99)) == (100, [])
    assert (alarms.ring(100), alarms.ring(200), alarms.next()) == ([A], [], None)


def test_an_alarm_set_to_later_does_not_ring_sooner():
    alarms = Alarms()
    alarms.set(A, 100, 0)
    alarms.set(A, 300, 0)
    alarms.set(B, 200, 0)

    assert (alarms.ring(150), alarms.next()) == ([], 200)
    assert (alarms.ring(250), alarms.ring(300)) == ([B], [A])


def test_an_alarm_set_to_sooner_rings_then_and_not_again():
    alarms = Alarms()
    alarms.set(A, 300, 0)
    alarms.set(A, 100, 0)

    assert (alarms.ring(100), alarms.ring(400)) == ([A], [])


def test_an_alarm_that_is_taken_back_does_not_ring():
    alarms = Alarms()
    alarms.set(A, 100, 0)
    alarms.set(A, None, 0)

    assert (alarms.next(), alarms.ring(500)) == (None, [])


def test_an_alarm_for_the_past_rings_a_moment_later_lest_it_spin():
    alarms = Alarms()
    alarms.set(A, 50, 100)

    assert alarms.next() == 101


def test_alarms_moved_with_every_signal_do_not_pile_up():
    alarms = Alarms()
    for at in range(10_000):
        alarms.set(A, at + 60_000, at)

    assert len(alarms) == 1


def test_whatever_is_set_each_session_rings_at_its_latest_word():
    dice = random.Random(5)
    for _ in range(300):
        alarms, due, now = Alarms(), {}, 0
        for _ in range(60):
            key = ("h", str(dice.randrange(4)))
            at = dice.choice((None, now + dice.randrange(1, 50)))
            alarms.set(key, at, now)
            due[key] = at
            now += dice.randrange(8)
            expected = {key for key, at in due.items() if at is not None and at <= now}
            assert set(alarms.ring(now)) == expected
            due.update(dict.fromkeys(expected))
            assert alarms.next() == min((at for at in due.values() if at), default=None)
