"""Every number is applied once and in order, whatever is sent twice or comes too early."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from adsum_hub.inbox import (
    MOST_RUNS,
    MOST_SPOOLS,
    MOST_SPOOLS_WITH_RUNS,
    Admission,
    Runs,
    admit,
    advance,
    covers,
)
from adsum_hub.snapshots import decode_header
from adsum_shared import streams
from adsum_shared.envelope import Batch, Gap
from adsum_shared.signals import Alive


def batch(first: int, last: int, spool_id: str = "sp") -> Batch:
    signals = tuple(Alive(session_id="s", at=seq, seen=seq) for seq in range(first, last + 1))
    return Batch(spool_id, first, last, "n", 0, signals)


def test_the_next_batch_is_applied_whole():
    admission = admit({"sp": 2}, batch(3, 5))

    assert [signal.at for signal in admission.signals] == [3, 4, 5]
    assert admission.applied == 5


def test_what_is_applied_already_is_dropped():
    assert admit({"sp": 5}, batch(3, 5)) == Admission()


def test_of_an_overlapping_batch_only_the_new_part_is_applied():
    admission = admit({"sp": 4}, batch(3, 6))

    assert [signal.at for signal in admission.signals] == [5, 6]


def test_a_batch_after_a_hole_names_the_first_missing_number():
    assert admit({"sp": 2}, batch(5, 6)) == Admission(missing=3)


def test_a_new_spool_starts_at_one():
    assert admit({"old": 900}, batch(1, 2)).applied == 2
    assert admit({"old": 900}, batch(4, 5)).missing == 1


def test_a_gap_record_moves_the_number_and_brings_nothing():
    gap = Batch("sp", 3, 90, "n", 0, (), Gap("cap"))

    assert admit({"sp": 2}, gap) == Admission(applied=90)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8)), max_size=60))
def test_whatever_is_repeated_each_number_is_applied_once_in_order(spans: list[tuple[int, int]]):
    applied: dict[str, int] = {}
    seen: list[int] = []
    for first, more in spans:
        admission = admit(applied, batch(first, first + more))
        seen += [signal.at for signal in admission.signals]
        if admission.applied is not None:
            applied["sp"] = admission.applied

    assert seen == list(range(1, len(seen) + 1))
    assert applied.get("sp", 0) == len(seen)


class Reader:
    """What one hub keeps of one host, and which numbers it has folded, from which run."""

    def __init__(self) -> None:
        self.applied: dict[str, int] = {}
        self.runs: Runs = {}
        self.folded: list[tuple[int, str]] = []
        self.strangers = 0

    def read(self, each: Batch) -> None:
        admission = admit(self.applied, each, self.runs)
        self.strangers += admission.stranger
        if admission.applied is not None:
            self.folded += [(signal.at, each.nonce) for signal in admission.signals]
            advance(self.applied, self.runs, each)

    def stored(self) -> Reader:
        """Another hub that starts from what this one has saved."""
        other = Reader()
        fields = {
            streams.APPLIED.encode(): msgspec.json.encode(self.applied),
            streams.RUNS.encode(): msgspec.json.encode(self.runs),
        }
        header = decode_header(fields)
        other.applied, other.runs = header.applied, header.runs
        other.folded = list(self.folded)
        return other

    def seen(self) -> tuple[object, ...]:
        return list(self.applied.items()), _ordered(self.runs), self.folded


def _ordered(runs: Runs) -> list[tuple[str, list[tuple[str, int]]]]:
    return [(spool_id, list(held.items())) for spool_id, held in runs.items()]


def by(nonce: str, first: int, last: int, spool_id: str = "sp") -> Batch:
    return msgspec.structs.replace(batch(first, last, spool_id), nonce=nonce)


def test_a_run_that_another_has_followed_may_not_go_on():
    reader = Reader()
    for each in (by("a", 1, 2), by("b", 3, 4), by("a", 5, 6), by("b", 5, 5)):
        reader.read(each)

    assert reader.strangers == 1
    assert reader.folded == [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b")]
    assert reader.runs == {"sp": {"a": 2, "b": 5}}


def test_a_run_that_gives_numbers_anew_which_another_gave_is_a_stranger():
    """Half of it would be dropped as known, and is not; its collector takes it for told."""
    runs: Runs = {"sp": {"a": 4}}

    assert admit({"sp": 4}, by("copy", 3, 6), runs) == Admission(stranger=True)
    assert admit({"sp": 4}, by("copy", 5, 6), runs).applied == 6
    assert admit({"sp": 4}, by("a", 3, 6), runs).applied == 6
    assert admit({"sp": 5}, by("b", 5, 6), runs).applied == 6  # a hub without runs gave the fifth


def test_a_run_that_follows_another_than_the_latest_is_a_stranger():
    """Of its numbers before, the hub dropped some as known: those of another run on a disk set back."""
    runs: Runs = {"sp": {"a": 4}}

    def after(before: str, first: int) -> Admission:
        new = msgspec.structs.replace(by("b", first, 6), nonce_before=before)
        return admit({"sp": 4}, new, runs)

    assert after("a", 5).applied == 6
    assert after("b", 5) == after("other", 5) == Admission(stranger=True)
    assert after("b", 6) == Admission(missing=5)
    assert admit({"sp": 4}, by("b", 5, 6), {}).applied == 6


def test_a_stranger_is_not_asked_for_what_lies_before_its_numbers():
    assert admit({"sp": 4}, by("a", 9, 9), {"sp": {"a": 2, "b": 4}}) == Admission(stranger=True)


def test_an_old_runs_batch_that_brings_nothing_makes_no_stranger_of_it():
    assert admit({"sp": 4}, by("a", 1, 2), {"sp": {"a": 2, "b": 4}}) == Admission()


def test_a_run_counts_as_later_only_once_it_has_brought_something():
    reader = Reader()
    for each in (by("a", 1, 2), by("b", 9, 9), by("a", 2, 3)):
        reader.read(each)

    assert reader.strangers == 0
    assert reader.applied == {"sp": 3}


def test_a_gap_advances_its_run_as_signals_do():
    reader = Reader()
    reader.read(by("a", 1, 1))
    reader.read(Batch("sp", 2, 9, "b", 0, (), Gap("cap")))
    reader.read(by("a", 10, 10))

    assert (reader.strangers, reader.runs) == (1, {"sp": {"a": 1, "b": 9}})


def test_a_host_that_begins_a_spool_without_a_word_has_lost_the_one_before():
    assert admit({"old": 4}, batch(1, 2)).emptied
    assert not admit({}, batch(1, 2)).emptied
    assert not admit({"sp": 4}, batch(5, 6)).emptied
    assert not admit({"old": 4}, Batch("sp", 1, 1, "n", 0, (), Gap("copy"))).emptied


def test_what_is_remembered_of_spools_and_runs_is_bounded_and_the_latest_stay():
    reader = Reader()
    for number in range(MOST_SPOOLS + 5):
        reader.read(by("n", 1, 1, f"s{number}"))
        reader.read(by("n", number + 1, number + 1, "s0") if number else by("n", 2, 2, "s0"))
    for number in range(MOST_RUNS + 5):
        first = reader.applied["s0"] + 1
        reader.read(by(f"run{number}", first, first, "s0"))

    assert len(reader.applied) == MOST_SPOOLS
    assert len(reader.runs) == MOST_SPOOLS_WITH_RUNS
    assert list(reader.applied)[-1] == list(reader.runs)[-1] == "s0"
    assert list(reader.runs["s0"]) == [f"run{n}" for n in range(5, MOST_RUNS + 5)]


def test_who_has_let_go_of_an_old_spool_is_not_behind_for_that():
    full = {f"s{number}": 9 for number in range(MOST_SPOOLS)}
    further = dict(list(full.items())[1:]) | {"newest": 1}

    assert covers(further, full)
    assert not covers(full, further)
    assert not covers({"s1": 9}, {"s0": 9, "s1": 9})
    assert not covers(full, {"s3": 9, "never heard of": 1})


#: A stream as honest collectors write it. Each run gives the numbers after those of the run before;
#: pieces of what there is are sent in any order, again and again, and some get lost. At last a hub
#: has asked for all of it.
ENDS = (4, 9, 10, 20)


def of_one_run(first: int, last: int) -> Batch:
    run = next(place for place, end in enumerate(ENDS) if first <= end)
    return by(f"run{run}", first, min(last, ENDS[run]))


honest = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 4)), max_size=30).map(
    lambda sent: [
        *(of_one_run(first, first + more) for first, more in sent),
        *(of_one_run(first, 20) for first in (1, 5, 10, 11)),
    ]
)
#: A stream that anybody writes to.
hostile = st.lists(
    st.builds(
        lambda nonce, first, more, spool_id: by(nonce, first, first + more, spool_id),
        st.sampled_from("abcd"),
        st.integers(1, 12),
        st.integers(0, 5),
        st.sampled_from(["sp", "other"]),
    ),
    max_size=40,
)


@given(hostile, st.integers(0, 40))
def test_hubs_that_go_on_from_what_another_has_stored_agree_with_it(stream: list[Batch], at: int):
    first = Reader()
    for each in stream[:at]:
        first.read(each)
    second = first.stored()
    for each in stream[at:]:
        first.read(each)
        second.read(each)

    assert second.seen() == first.seen()


@given(honest, st.integers(0, 40), st.integers(0, 40))
def test_wherever_a_hub_begins_to_read_again_all_agree_and_no_honest_run_is_a_stranger(
    stream: list[Batch], reached: int, back_to: int
):
    reader = Reader()
    for each in [*stream[:reached], *stream[min(back_to, reached) :]]:
        reader.read(each)

    assert reader.strangers == 0
    assert [number for number, _ in reader.folded] == list(range(1, 21))
    assert list(reader.runs["sp"].items()) == [(f"run{n}", end) for n, end in enumerate(ENDS)]
