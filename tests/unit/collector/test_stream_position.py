"""A disk, its copies and its backups, in any interleaving: nothing is lost, nothing comes twice."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum_collector.delivery.resume import EntryId, Head
from tests.disks import Broker, Collector, Entry, ModelHub, ModelSpool

MOST_MACHINES = 3


class Fleet:
    """What may happen, one thing at a time. `often`: what is chosen by number."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.hub = ModelHub(self.broker)
        self.machines = [Collector(ModelSpool(), self.broker)]
        self.backups: dict[int, ModelSpool] = {}
        #: how often there came to be two lives of one disk, and what was in its backlog before
        self.forks = 0
        self.shared: set[str] = set()

    def accept(self, which: int) -> None:
        self._machine(which).spool.accept()

    def step(self, which: int) -> None:
        self._machine(which).step()

    def run(self, which: int) -> None:
        for _ in range(6):
            self.step(which)

    def catch_up(self, which: int) -> None:
        while self.hub.read():
            pass
        self.hub.save()

    def lose_answer(self, which: int) -> None:
        self._machine(which).step("lost")

    def delay(self, which: int) -> None:
        self._machine(which).step("late")

    def arrive(self, which: int) -> None:
        self.broker.arrive()

    def read(self, which: int) -> None:
        self.hub.read()

    def save(self, which: int) -> None:
        self.hub.save()

    def restart_hub(self, which: int) -> None:
        self.hub.restart()

    def flush(self) -> None:
        """Redis loses all its data; the hub reads from the start, and saves what it has in memory."""
        self.broker.entries, self.broker.head, self.broker.stored = [], None, {}
        self.hub.cursor = EntryId(0, 0)

    def restart(self, which: int) -> None:
        self._begin(which % len(self.machines), self._machine(which).spool)

    def copy(self, which: int) -> None:
        if len(self.machines) < MOST_MACHINES:
            spool = self._machine(which).spool
            self._fork(spool)
            self.machines.append(Collector(copy.deepcopy(spool), self.broker))

    def back_up(self, which: int) -> None:
        self.backups[which % len(self.machines)] = copy.deepcopy(self._machine(which).spool)

    def set_back(self, which: int) -> None:
        if backup := self.backups.get(which % len(self.machines)):
            self._fork(backup)
            self._begin(which % len(self.machines), copy.deepcopy(backup))

    def _fork(self, spool: ModelSpool) -> None:
        self.forks += 1
        self.shared |= set(spool.unconfirmed())

    def _machine(self, which: int) -> Collector:
        return self.machines[which % len(self.machines)]

    def _begin(self, at: int, spool: ModelSpool) -> None:
        self.machines[at].close()
        self.machines[at] = Collector(spool, self.broker)

    def settle(self) -> None:
        while self.broker.late:
            self.broker.arrive()
        for _ in range(60):
            for machine in self.machines:
                for _ in range(9):
                    machine.step()
            while self.hub.read():
                pass
            self.hub.save()

    def close(self) -> None:
        for machine in self.machines:
            machine.close()


OFTEN = ["accept"] * 4 + ["step"] * 8 + ["run"] * 3 + ["read", "catch_up", "save"] * 2
BREAK = ["lose_answer", "delay", "arrive", "restart", "restart_hub"]
FORK = ["copy", "back_up", "set_back"]
plans = st.lists(
    st.tuples(st.sampled_from([*OFTEN, *BREAK, *FORK]), st.integers(0, 2)),
    min_size=20,
    max_size=80,
)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(plans)
def test_nothing_promised_on_a_living_disk_is_lost_and_nothing_is_applied_twice(
    plan: list[tuple[str, int]],
) -> None:
    fleet = Fleet()
    for what, which in plan:
        getattr(fleet, what)(which)
    fleet.settle()
    fleet.close()

    times = Counter(fleet.hub.notes)
    promised = {note for machine in fleet.machines for note in machine.spool.promised}
    assert promised <= set(times)
    twice = {note for note, count in times.items() if count > 1}
    # With three lives of one disk, two may leave its spool with the same backlog.
    assert twice <= (fleet.shared if fleet.forks > 1 else set())
    assert all(machine.spool.acked == machine.spool.last_seq for machine in fleet.machines)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    yield fleet
    fleet.close()


@pytest.fixture
def twins(fleet: Fleet) -> tuple[Collector, Collector]:
    """A machine of which one signal is stored, begun anew, and a copy of it."""
    fleet.accept(0)
    fleet.run(0)
    fleet.catch_up(0)
    fleet.copy(0)
    fleet.restart(0)
    return fleet.machines[0], fleet.machines[1]


def accept(machine: Collector, count: int) -> list[str]:
    for _ in range(count):
        machine.spool.accept()
    return machine.spool.promised[-count:]


def test_a_signal_bears_the_run_that_took_it_whoever_sends_it(fleet: Fleet) -> None:
    accept(fleet.machines[0], 2)
    fleet.restart(0)
    accept(fleet.machines[0], 2)
    fleet.run(0)
    fleet.run(0)

    first, second = [entry.batch for entry in fleet.broker.entries]
    assert (first.first, first.last, second.first, second.last) == (1, 2, 3, 4)
    assert first.nonce != second.nonce


def test_two_lives_of_one_disk_may_send_the_same_backlog(fleet: Fleet) -> None:
    waiting = accept(fleet.machines[0], 2)
    fleet.copy(0)
    fleet.run(1)
    fleet.run(0)
    fleet.catch_up(0)
    fleet.run(0)

    assert fleet.hub.notes == waiting
    assert [machine.spool.reasons for machine in fleet.machines] == [[], []]
    assert fleet.machines[0].problem.text is None


@pytest.mark.parametrize("first", [0, 1], ids=["the original first", "the copy first"])
def test_two_lives_that_take_the_same_number_both_deliver(
    fleet: Fleet, twins: tuple[Collector, Collector], first: int
) -> None:
    said = [accept(machine, 1)[0] for machine in twins]
    twins[first].until_it_adds()
    twins[1 - first].until_it_adds()
    twins[first].step()
    fleet.settle()

    assert sorted(fleet.hub.notes[1:]) == sorted(said)
    assert twins[first].spool.reasons == []
    assert twins[1 - first].spool.reasons == ["copy"]
    assert "looks like a copy" in str(twins[1 - first].problem.text)


def test_a_disk_that_is_set_back_keeps_what_no_hub_has_and_repeats_nothing(fleet: Fleet) -> None:
    machine = fleet.machines[0]
    accept(machine, 2)
    fleet.back_up(0)
    fleet.run(0)
    accept(machine, 2)
    fleet.run(0)
    before = fleet.machines[0].spool.promised
    fleet.set_back(0)
    new = accept(fleet.machines[0], 1)
    fleet.settle()

    assert fleet.hub.notes == [*before, *new]
    assert fleet.machines[0].spool.reasons == ["rollback"]
    assert "older than what was sent from it" in str(fleet.machines[0].problem.text)


def set_back(fleet: Fleet) -> list[str]:
    """The hub has four signals of a machine; two of them are on its disk."""
    accept(fleet.machines[0], 2)
    fleet.back_up(0)
    accept(fleet.machines[0], 2)
    fleet.run(0)
    fleet.run(0)
    fleet.catch_up(0)
    fleet.set_back(0)
    return list(fleet.hub.notes)


@pytest.mark.parametrize("restarts", [False, True], ids=["one run", "a run for each entry"])
@pytest.mark.parametrize("entries", [(3,), (2, 1), (1, 1, 1), (1, 2), (3, 1)])
def test_a_disk_that_is_set_back_delivers_in_order_though_redis_lost_its_data(
    fleet: Fleet, entries: Sequence[int], restarts: bool
) -> None:
    before = set_back(fleet)
    fleet.flush()
    new: list[str] = []
    for count in entries:  # some hold numbers that the hub has, some end or begin beyond them
        if restarts:
            fleet.restart(0)
        new += accept(fleet.machines[0], count)
        fleet.run(0)
    fleet.settle()

    assert fleet.hub.notes == [*before, *new]
    assert fleet.machines[0].spool.reasons == ["rollback"]


@pytest.mark.parametrize("read", [False, True], ids=["not read", "read"])
def test_a_spool_that_is_left_when_redis_loses_its_data_is_left_under_a_new_id(
    fleet: Fleet, read: bool
) -> None:
    before = set_back(fleet)
    new = accept(fleet.machines[0], 3)
    fleet.run(0)
    fence, spool_id = fleet.broker.entries[-1].id, fleet.broker.entries[-1].batch.spool_id
    if read:
        while fleet.hub.read():
            pass
    fleet.flush()
    fleet.run(0)

    assert [(each.batch.spool_id, each.batch.first) for each in fleet.broker.entries] == [
        (spool_id, 1)
    ]
    assert fleet.broker.entries[0].id > fence  # a hub may stand at that id
    fleet.settle()
    assert fleet.hub.notes == [*before, *new]
    assert fleet.machines[0].spool.spool_id == spool_id


def test_a_copy_that_got_in_between_leaves_a_hole_in_what_hubs_have_of_us(
    fleet: Fleet, twins: tuple[Collector, Collector]
) -> None:
    one, other = twins
    accept(one, 2)
    accept(other, 1)
    one.until_it_adds()  # it knows nothing of the other yet, and sends both numbers at once
    other.until_it_adds()
    other.step()
    one.step()
    fleet.settle()

    assert sorted(fleet.hub.notes) == sorted({*one.spool.promised, *other.spool.promised})


def test_what_is_still_under_way_when_a_spool_is_left_comes_too_late(
    fleet: Fleet, twins: tuple[Collector, Collector]
) -> None:
    one, other = twins
    accept(one, 2)
    accept(other, 1)
    one.until_it_adds()
    other.until_it_adds()
    other.step()
    one.step()
    accept(one, 1)
    one.until_it_adds()
    one.step("late")
    fleet.catch_up(0)
    while not one.spool.reasons:
        one.step()
        fleet.catch_up(0)
    fleet.arrive(0)
    fleet.settle()

    assert sorted(fleet.hub.notes) == sorted({*one.spool.promised, *other.spool.promised})


def test_a_spool_is_left_only_once_a_hub_has_spoken_on_what_lies_in_the_stream(
    fleet: Fleet, twins: tuple[Collector, Collector]
) -> None:
    one, other = twins
    accept(other, 1)
    fleet.run(1)
    accept(one, 1)
    for _ in range(5):
        fleet.run(0)
        fleet.read(0)  # it reads, but has stored nothing of it
    assert not one.position.free
    assert one.spool.reasons == []
    assert "waits until a hub has read" in str(one.problem.text)

    fleet.save(0)
    fleet.run(0)
    fleet.run(0)
    assert one.position.free
    assert one.spool.reasons == ["copy"]
    assert "waits" not in str(one.problem.text)


def test_where_hubs_do_not_tell_of_runs_all_that_is_not_acknowledged_is_kept(
    fleet: Fleet, twins: tuple[Collector, Collector]
) -> None:
    one, other = twins
    one.inbox.tells_runs = False
    accept(other, 1)
    fleet.run(1)
    new = accept(one, 2)
    fleet.settle()

    assert set(new) <= set(fleet.hub.notes)
    assert one.spool.reasons == ["copy"]


def test_what_hubs_have_of_a_copy_acknowledges_nothing_of_ours(
    fleet: Fleet, twins: tuple[Collector, Collector]
) -> None:
    one, other = twins
    accept(one, 1)
    one.until_it_adds()
    accept(other, 1)
    fleet.run(1)
    fleet.catch_up(0)
    for _ in range(20):
        one.step()

    assert one.spool.acked == 1


@pytest.mark.parametrize(
    "poison", [EntryId(2**64 - 1, 2**64 - 1), EntryId(2**53, 1), EntryId(1, 2**53)]
)
def test_after_an_absurd_id_publishing_waits_and_goes_on_once_the_stream_is_gone(
    fleet: Fleet, poison: EntryId
) -> None:
    machine = fleet.machines[0]
    accept(machine, 1)
    fleet.run(0)
    fleet.catch_up(0)
    fleet.broker.entries.append(Entry(poison, fleet.broker.entries[-1].batch))
    fleet.broker.head = Head(poison, "of nobody", "of nobody")
    accept(machine, 1)
    fleet.run(0)
    assert not machine.position.free
    assert "absurd id" in str(machine.problem.text)

    fleet.broker.entries, fleet.broker.head = [], None
    fleet.hub.cursor = EntryId(0, 0)
    fleet.settle()
    assert fleet.hub.notes == machine.spool.promised
    assert machine.spool.incarnation < 2**53
    assert machine.problem.text is None
