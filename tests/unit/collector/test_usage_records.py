"""Copies of a message are one, whichever comes first and however often they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adsum_collector.agents.records import NO_WRITES, SPLIT, UNSPLIT, UsageRecord, joined

RECORDS = st.builds(
    UsageRecord,
    key=st.just(1),
    request=st.just(2),
    at=st.integers(0, 5),
    model=st.sampled_from("mn"),
    fast=st.booleans(),
    geo=st.sampled_from(["", "us"]),
    sidechain=st.booleans(),
    input=st.integers(0, 3),
    output=st.integers(0, 3),
    cache_read=st.integers(0, 3),
    cache_5m=st.integers(0, 3),
    cache_1h=st.integers(0, 3),
    writes=st.sampled_from([NO_WRITES, UNSPLIT, SPLIT]),
    web_searches=st.integers(0, 3),
)


@given(RECORDS, RECORDS, RECORDS)
def test_copies_join_the_same_in_any_order_and_number(
    a: UsageRecord, b: UsageRecord, c: UsageRecord
) -> None:
    assert joined(a, a) == a
    assert joined(a, b) == joined(b, a)
    assert joined(joined(a, b), c) == joined(a, joined(b, c))


def test_a_side_questions_copy_adds_nothing_to_the_main_agents_message() -> None:
    main = UsageRecord(1, 2, at=5, model="m", input=3)
    side = UsageRecord(1, 9, at=4, model="n", sidechain=True, input=50_000)

    assert joined(main, side) == joined(side, main) == main


def test_writes_that_are_split_are_not_added_to_those_that_are_not() -> None:
    unsplit = UsageRecord(1, 2, at=5, model="m", cache_5m=300, writes=UNSPLIT)
    split = UsageRecord(1, 2, at=5, model="m", cache_1h=300, writes=SPLIT)

    assert joined(unsplit, split) == split
