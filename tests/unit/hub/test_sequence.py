"""Every number is applied once and in order, whatever is sent twice or comes too early."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adsum_hub.sequence import admit
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
    assert admit({"sp": 5}, batch(3, 5)) == ((), None, 0)


def test_of_an_overlapping_batch_only_the_new_part_is_applied():
    admission = admit({"sp": 4}, batch(3, 6))

    assert [signal.at for signal in admission.signals] == [5, 6]


def test_a_batch_after_a_hole_names_the_first_missing_number():
    assert admit({"sp": 2}, batch(5, 6)) == ((), None, 3)


def test_a_new_spool_starts_at_one():
    assert admit({"old": 900}, batch(1, 2)).applied == 2
    assert admit({"old": 900}, batch(4, 5)).missing == 1


def test_a_gap_record_moves_the_number_and_brings_nothing():
    gap = Batch("sp", 3, 90, "n", 0, (), Gap("cap"))

    assert admit({"sp": 2}, gap) == ((), 90, 0)


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
