"""A machine with more sessions than are listed of one."""

from __future__ import annotations

from adsum_hub.host_troubles import SHOWN_MS
from adsum_hub.roster import Accounts, Roster
from adsum_hub.snapshots import Snapshot
from adsum_hub.verdict.reading import Limits
from adsum_shared.envelope import Batch
from adsum_shared.signals import AnySignal, MetaChanged, PromptSubmitted, SessionEnded, TurnEnded
from adsum_shared.state import Group

NOW = 1_764_000_000_000
MOST = 20


class Told:
    """A roster of one machine that sends one batch at a time."""

    def __init__(self) -> None:
        self.roster = Roster(Accounts(limits=Limits(most_sessions=MOST)))
        self.host = self.roster.add("h", Snapshot(), NOW)
        self.number = 0
        self.now = NOW

    def send(self, *signals: AnySignal) -> None:
        first, self.number = self.number + 1, self.number + len(signals)
        self.now += 10
        batch = Batch("sp", first, self.number, "n", self.now, signals)
        assert not self.roster.apply("h", batch, self.now)
        while self.roster.take_changes(self.now):
            pass

    def prompt(self, *names: str) -> None:
        self.send(
            *(
                PromptSubmitted(session_id=each, at=self.now, seen=self.now, prompt_id=f"p-{each}")
                for each in names
            )
        )

    def end(self, *names: str) -> None:
        self.send(*(SessionEnded(session_id=each, at=self.now, seen=self.now) for each in names))

    @property
    def shown(self) -> set[str]:
        return {view.session_id for view in self.roster.views.values()}

    @property
    def problem(self) -> str:
        return self.host.view().problem or ""


def names(count: int, prefix: str = "s") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_sessions_beyond_the_most_are_left_out_and_told() -> None:
    told = Told()
    told.prompt(*names(MOST))
    assert not told.problem

    told.prompt(*names(1_000, "more"))

    assert told.shown == set(names(MOST))
    assert "20 sessions that are not over" in told.problem
    assert "ADSUM_MACHINE_SESSIONS" in told.problem
    assert len(told.host.facts) == MOST


def test_the_oldest_that_are_over_become_history_for_new_ones() -> None:
    told = Told()
    told.prompt(*names(MOST))
    for each in ("s3", "s7", "s5"):
        told.end(each)

    told.prompt("new")

    assert told.shown == {*names(MOST), "new"} - {"s3", "s7"}
    assert set(told.host.past) == {"s3", "s7"}
    assert not told.problem


def test_a_machine_that_was_full_shows_new_sessions_once_others_end_as_incomplete() -> None:
    told = Told()
    told.prompt(*names(MOST))
    told.prompt("late")
    assert "late" not in told.shown
    told.end(*names(5))
    told.now += 1_000

    told.prompt("late")

    assert "late" in told.shown
    assert told.roster.views["h:late"].incomplete
    assert told.roster.views["h:late"].state.group is Group.AUTONOMOUS
    assert not told.roster.views["h:s9"].incomplete


def test_what_is_listed_goes_on_while_its_machine_is_full() -> None:
    told = Told()
    told.prompt(*names(MOST))
    told.prompt("more")

    told.send(TurnEnded(session_id="s1", at=told.now, seen=told.now, prompt_id="p-s1"))

    assert told.roster.views["h:s1"].state.group is not Group.AUTONOMOUS


def test_a_history_that_is_read_takes_no_place_of_living_sessions() -> None:
    told = Told()
    told.prompt(*names(MOST - 1))
    old = told.now - 86_400_000
    told.send(
        *(
            MetaChanged(session_id=each, at=old, seen=told.now, source="transcript", title="x")
            for each in names(500, "past")
        )
    )

    told.prompt("last")

    assert len(told.host.past) == 500
    assert told.shown == {*names(MOST - 1), "last"}
    assert not told.problem


def test_a_history_that_wakes_up_takes_places_as_well() -> None:
    told = Told()
    old = told.now - 86_400_000
    told.send(
        *(
            MetaChanged(session_id=each, at=old, seen=told.now, source="transcript", title="x")
            for each in names(500, "past")
        )
    )

    told.prompt(*names(500, "past"))

    assert len(told.shown) == MOST
    assert len(told.host.past) == 500 - MOST
    assert "20 sessions that are not over" in told.problem


def test_it_stays_said_while_sessions_are_left_out() -> None:
    told = Told()
    told.prompt(*names(MOST))
    told.prompt("late")
    told.now += SHOWN_MS - 1_000
    told.prompt("late")
    told.now += 2_000
    told.roster.tick(told.now)

    assert "20 sessions that are not over" in told.problem
