"""What a host's stream should not hold: left out, counted, told; and nothing else suffers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from adsum_hub import host as host_module
from adsum_hub.clock import ABSURD_MS, HostClock
from adsum_hub.facts import Facts
from adsum_hub.host_troubles import SHOWN_MS
from adsum_hub.roster import SLICE, Roster
from adsum_hub.snapshots import HostRecord, Snapshot
from adsum_shared.envelope import Batch, DecodeError, Gap, Unread
from adsum_shared.signals import AnySignal
from adsum_shared.state import GapView
from tests.unit.hub.test_roster import AHEAD, HOST, Fleet


def test_a_signal_that_fold_chokes_on_is_left_out_alone(monkeypatch: pytest.MonkeyPatch):
    def fold(facts: Facts | None, signal: AnySignal) -> Facts:
        if signal.session_id == "poison":
            raise RecursionError("too deep")
        return unhurt(facts, signal)

    unhurt = host_module.fold
    monkeypatch.setattr(host_module, "fold", fold)
    fleet = Fleet()

    fleet.happen(fleet.prompt("a"), fleet.prompt("poison"), fleet.prompt("b"))

    host = fleet.roster.hosts[HOST]
    assert fleet.told().keys() == {"a", "b"}
    assert host.applied == {"sp": 3}
    assert (host.view().set_aside, fleet.roster.counts["set_aside"]) == (1, 1)
    assert "RecursionError in PromptSubmitted" in (host.view().problem or "")
    assert [gap.reason for gap in host.view().gaps] == ["undecodable"]


def test_a_signal_that_cannot_be_read_is_a_gap_of_one_number():
    fleet = Fleet()
    fleet.happen(fleet.prompt("before"))
    fleet.now += 10
    at = fleet.now + AHEAD
    later = replace(fleet.prompt("after"), at=at + 1, seen=at + 1)

    fleet.roster.apply(
        HOST, Batch("sp", 2, 4, "n", at, (Unread("odd"), Unread("odder"), later)), fleet.now
    )

    view = fleet.roster.hosts[HOST].view()
    told = fleet.told()
    assert (view.gaps, view.set_aside) == ((GapView(fleet.now, "undecodable", 2),), 2)
    assert "2 signals" in (view.problem or "")
    assert (told["before"].incomplete, told["after"].incomplete) == (True, False)


def test_an_older_runs_batch_changes_nothing_and_is_told_for_ten_minutes():
    fleet = Fleet()
    at = fleet.now + AHEAD
    host = fleet.roster.hosts[HOST]
    fleet.happen(fleet.prompt("a"))
    fleet.roster.apply(HOST, Batch("sp", 2, 2, "later", at, (fleet.prompt("b"),)), fleet.now)
    before = host.clock.last_seen, dict(host.applied)

    stranger = Batch("sp", 3, 3, "n", at + 5_000, (fleet.prompt("c"),))
    assert fleet.roster.apply(HOST, stranger, fleet.now + 5_000) == 0

    assert fleet.told().keys() == {"a", "b"}
    assert (host.clock.last_seen, host.applied) == before
    assert fleet.roster.counts["strangers"] == host.view().set_aside == 1
    assert "looks like a copy" in (host.view().problem or "")
    fleet.later(SHOWN_MS + 5_001)
    assert host.view().problem is None


def test_a_machine_whose_spool_was_deleted_is_told_and_its_old_sessions_are_incomplete():
    fleet = Fleet()
    fleet.happen(fleet.prompt("old"))
    fleet.now += 60_000
    began, at = fleet.now + AHEAD, fleet.now + AHEAD + 20
    fresh = replace(fleet.prompt("new"), at=began, seen=began)

    fleet.roster.apply(HOST, Batch("another", 1, 1, "m", at, (fresh,)), fleet.now + 30)

    told = fleet.told()
    assert fleet.roster.hosts[HOST].view().gaps == (GapView(fleet.now, "lost", 0),)
    assert (told["old"].incomplete, told["new"].incomplete) == (True, False)
    assert fleet.roster.counts["gaps"] == 1


def test_a_spool_that_says_why_it_began_is_not_called_lost():
    fleet = Fleet()
    fleet.happen(fleet.prompt("old"))

    fleet.roster.apply(
        HOST, Batch("another", 1, 1, "m", fleet.now + AHEAD, (), Gap("copy")), fleet.now
    )

    assert [gap.reason for gap in fleet.roster.hosts[HOST].gaps] == ["copy"]
    assert fleet.roster.hosts[HOST].gaps[0].numbers == 0


def test_a_gap_counts_only_the_numbers_that_were_not_there_yet():
    fleet = Fleet()
    fleet.happen(fleet.prompt(), fleet.prompt())

    fleet.roster.apply(HOST, Batch("sp", 1, 9, "n", fleet.now + AHEAD, (), Gap("cap")), fleet.now)

    assert fleet.roster.hosts[HOST].view().gaps == (GapView(fleet.now, "cap", 7),)


def test_a_gap_that_lay_in_the_stream_concerns_nobody_who_came_after_it():
    fleet = Fleet()
    sent_at = fleet.now - 3_600_000 + AHEAD
    fleet.roster.apply(HOST, Batch("sp", 1, 4, "n", sent_at, (), Gap("cap")), fleet.now)
    fleet.seq = 4
    fleet.happen(fleet.prompt("since"))

    assert not fleet.told()["since"].incomplete


def test_a_gap_that_is_sent_again_later_concerns_nobody_who_came_in_between():
    fleet = Fleet()
    lost_at = fleet.now - 3_600_000 + AHEAD
    fleet.roster.apply(
        HOST, Batch("sp", 1, 4, "n", fleet.now + AHEAD, (), Gap("cap", lost_at)), fleet.now
    )
    fleet.seq = 4
    fleet.happen(fleet.prompt("since"))

    assert not fleet.told()["since"].incomplete


def test_a_gap_of_a_time_to_come_is_taken_for_one_of_now():
    fleet = Fleet()
    gap = Gap("cap", fleet.now + 10**9)
    fleet.roster.apply(HOST, Batch("sp", 1, 4, "n", fleet.now + AHEAD, (), gap), fleet.now)

    assert [gap.at for gap in fleet.roster.hosts[HOST].view().gaps] == [fleet.now]


def test_numbers_given_up_make_no_stranger_of_the_run_that_follows_them():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    batch = Batch("sp", 6, 6, "m", fleet.now + AHEAD, (fleet.prompt("late"),), None, "m")

    fleet.roster.skip(HOST, batch, fleet.now)

    assert fleet.roster.apply(HOST, batch, fleet.now) == 0
    assert fleet.roster.hosts[HOST].applied == {"sp": 6}


def test_numbers_given_up_are_a_gap_with_their_count():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    batch = Batch("sp", 6, 6, "n", fleet.now + AHEAD, (fleet.prompt("late"),))
    assert fleet.roster.apply(HOST, batch, fleet.now) == 2

    fleet.roster.skip(HOST, batch, fleet.now)

    assert fleet.roster.apply(HOST, batch, fleet.now) == 0
    assert fleet.roster.hosts[HOST].view().gaps == (GapView(fleet.now, "undecodable", 4),)
    assert fleet.roster.counts["holes"] == 1


def test_an_entry_of_another_format_says_who_is_to_be_upgraded():
    fleet = Fleet()
    host = fleet.roster.hosts[HOST]

    assert fleet.roster.set_aside(HOST, "1-1", DecodeError("x", {}, version=2), fleet.now)
    assert not fleet.roster.set_aside(HOST, "1-2", DecodeError("x", {}, version=2), fleet.now)

    assert "batch format 2, this hub reads 1: upgrade this hub" in (host.view().problem or "")
    assert host.view().set_aside == 2


def test_a_stamp_that_cannot_be_moves_no_clock():
    clock = HostClock(AHEAD, last_seen=1_000)
    now = 10 * ABSURD_MS

    for stamp in (0, 10**15, now + AHEAD + 2 * ABSURD_MS):
        assert clock.received(stamp, now) is None
    assert (clock.last_seen, clock.offset_ms) == (1_000, AHEAD)
    assert clock.sent_at(10**15, now) == now


def test_the_saved_gaps_and_runs_are_there_again_after_a_restart():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.roster.apply(HOST, Batch("sp", 2, 5, "n", fleet.now + AHEAD, (), Gap("cap")), fleet.now)
    header, dirty, _ = fleet.roster.hosts[HOST].take_dirty()
    restored = Roster()

    host = restored.add(HOST, replace(header, sessions=dirty), fleet.now)

    assert host.gaps == fleet.roster.hosts[HOST].gaps
    assert host.runs == {"sp": {"n": 5}}


def test_what_is_wrong_with_a_stored_snapshot_is_told():
    roster = Roster()
    newer = roster.add("host-newer", Snapshot(newer=2), 0)
    broken = roster.add("host-broken", Snapshot(problem="no JSON"), 0)
    halved = roster.add("host-halved", Snapshot(unreadable=("s1", "s2")), 0)

    assert "schema 2, this hub reads 1" in (newer.view().problem or "")
    assert "no JSON" in (broken.view().problem or "")
    assert "2 of its sessions" in (halved.view().problem or "")
    assert halved.view().set_aside == 2


def test_a_session_whose_saved_facts_cannot_be_read_shows_again_incomplete():
    fleet = Fleet(Snapshot(unreadable=("s",), host=HostRecord(clock_offset_ms=AHEAD)))
    assert fleet.told() == {}

    fleet.happen(fleet.prompt("s"), fleet.prompt("whole"))

    told = fleet.told()
    assert (told["s"].incomplete, told["whole"].incomplete) == (True, False)


def test_a_host_with_very_many_sessions_is_told_in_slices_the_latest_first():
    fleet = Fleet()
    many = [fleet.prompt(f"s{number}") for number in range(3 * SLICE)]
    fleet.happen(*many)
    fleet.happen(fleet.tool("s0"))

    first = fleet.roster.take_changes(fleet.now)

    assert len(first.sessions) == SLICE
    assert first.more
    assert "s0" in {view.session_id for view in first.sessions}
    while fleet.roster.take_changes(fleet.now).more:
        pass
    assert len(fleet.roster.views) == 3 * SLICE
