"""Gaps: every number in one at most, and whatever has a reason keeps it."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from adsum_collector.spool.gaps import find_gap, with_gap

spans = st.tuples(st.integers(1, 30), st.integers(0, 10), st.sampled_from(["cap", "corrupt"]))


@given(st.lists(spans, max_size=6))
def test_the_first_reason_stays_and_no_number_is_told_twice(
    told: list[tuple[int, int, str]],
) -> None:
    reasons: dict[int, str] = {}
    gaps: list[tuple[int, int, str]] = []
    for first, more, reason in told:
        gaps = with_gap(gaps, (first, first + more, reason))
        reasons = dict.fromkeys(range(first, first + more + 1), reason) | reasons

    assert [seq for first, last, _ in gaps for seq in range(first, last + 1)] == sorted(reasons)
    for seq, reason in reasons.items():
        found = find_gap(gaps, seq)
        assert found is not None
        assert found[2] == reason
    assert not any(a[1] + 1 == b[0] and a[2] == b[2] for a, b in itertools.pairwise(gaps))
