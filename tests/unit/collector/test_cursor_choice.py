"""Which of several cursors a transcript goes on at, and when none is chosen yet."""

from __future__ import annotations

import msgspec
import pytest

from adsum_collector.transcripts.cursors import (
    MOST_WAIT_MS,
    STILL_MS,
    CopyWait,
    Cursor,
    CursorChoice,
    Stamp,
    TriedCursor,
    choose,
)

NOW = 1_800_000_000_000
STAMP = Stamp(mtime_ns=0, size=20, inode=7, dev=1)
EMPTY = msgspec.structs.replace(STAMP, size=0)
LONG_STILL = CopyWait(STAMP, NOW - STILL_MS, NOW - STILL_MS)


def fits(offset: int, inode: int = 7) -> TriedCursor:
    return TriedCursor(
        Cursor(inode=inode, head="ab", head_size=2, offset=offset), fits=True, cut=False
    )


def cut(offset: int = 30, inode: int = 7, shared: int | None = None) -> TriedCursor:
    return fits(offset, inode)._replace(fits=False, cut=True, shared=shared)


def lost(offset: int = 10) -> TriedCursor:
    return fits(offset)._replace(fits=False)


def test_of_those_that_fit_the_furthest_counts() -> None:
    for own, others in (
        (fits(5), [fits(9, 8), fits(15, 9), lost(18)]),
        (fits(15), [fits(9, 8), lost(18)]),
        (lost(18), [fits(15, 8)]),
        (None, [fits(9), fits(15, 8)]),
    ):
        cursor = choose(own, others, STAMP, None, NOW).cursor
        assert cursor is not None
        assert cursor.offset == 15


def test_its_own_counts_if_another_is_as_far() -> None:
    own = fits(15, 8)

    assert choose(own, [fits(15, 8)], STAMP, None, NOW).cursor is own.cursor


def test_its_own_is_lost_if_none_fits_and_anothers_is_none_of_its() -> None:
    own = lost()

    assert choose(own, [lost()], STAMP, None, NOW) == CursorChoice(own.cursor)
    assert choose(None, [lost()], STAMP, None, NOW) == CursorChoice(None)


@pytest.mark.parametrize(
    ("own", "others"),
    [
        (None, [cut()]),
        (None, [cut(), fits(15, 8)]),
        (cut(), []),
        (lost(), [cut()]),
        (fits(15, 8), [cut()]),
    ],
    ids=["a copy", "of two", "own", "written over", "put in its place"],
)
def test_what_begins_like_what_was_read_further_and_is_gone_waits(
    own: TriedCursor | None, others: list[TriedCursor]
) -> None:
    assert choose(own, others, STAMP, None, NOW) == CursorChoice(None, CopyWait(STAMP, NOW, NOW))
    just = CopyWait(STAMP, NOW - STILL_MS + 1, NOW - STILL_MS + 1)
    assert choose(own, others, STAMP, just, NOW) == CursorChoice(None, just)


def test_what_grows_waits_on() -> None:
    grown = msgspec.structs.replace(STAMP, size=25)

    waits = choose(None, [cut()], grown, LONG_STILL, NOW).waits
    assert waits == CopyWait(grown, NOW, LONG_STILL.first)


def test_what_never_stands_still_is_told_after_a_while() -> None:
    waits = CopyWait(EMPTY, NOW - 1, NOW - MOST_WAIT_MS)

    assert choose(None, [cut()], STAMP, waits, NOW) == CursorChoice(None)


def test_an_empty_one_waits_for_ever() -> None:
    still = CopyWait(EMPTY, NOW - 10 * MOST_WAIT_MS, NOW - 10 * MOST_WAIT_MS)

    assert choose(None, [cut()], EMPTY, still, NOW) == CursorChoice(None, still)


def test_what_holds_nothing_but_what_was_told_waits_for_ever() -> None:
    still = CopyWait(STAMP, NOW - 10 * MOST_WAIT_MS, NOW - 10 * MOST_WAIT_MS, STAMP.size)

    for own in (None, lost(), fits(15)):
        others = [cut(shared=STAMP.size), cut(shared=8), cut()]
        assert choose(own, others, STAMP, still, NOW) == CursorChoice(None, still)


def test_what_parts_from_what_was_told_is_begun_there_at_once() -> None:
    for own, cursor in ((None, None), (lost(), lost().cursor), (fits(15), fits(15).cursor)):
        found = choose(own, [cut(shared=8), cut(shared=12), cut()], STAMP, None, NOW)
        assert found == CursorChoice(cursor, shared=12)


def test_a_clock_that_is_set_back_does_not_prolong_the_wait() -> None:
    ahead = CopyWait(STAMP, NOW + 3_600_000, NOW + 3_600_000)
    waits = choose(None, [cut()], STAMP, ahead, NOW).waits

    assert waits == CopyWait(STAMP, NOW, NOW)
    assert choose(None, [cut()], STAMP, waits, NOW + STILL_MS) == CursorChoice(None)


def test_what_goes_on_where_it_was_left_does_not_wait() -> None:
    own = fits(15)

    assert choose(own, [cut()], STAMP, None, NOW) == CursorChoice(own.cursor)


def test_what_waits_goes_on_waiting_as_it_grows_past_its_own_cursor() -> None:
    """Its newer copy is being written over it."""
    before = CopyWait(EMPTY, NOW - 10, NOW - 10)

    assert choose(fits(15), [cut()], STAMP, before, NOW).waits == CopyWait(STAMP, NOW, NOW - 10)
    assert choose(fits(15), [fits(18)], STAMP, before, NOW).cursor == fits(18).cursor


def test_what_stands_still_is_begun_at_the_furthest_that_fits_and_else_anew() -> None:
    for own, others, cursor in (
        (None, [cut()], None),
        (lost(), [cut(), fits(5)], fits(5).cursor),
        (fits(15, 8), [cut(), fits(18)], fits(18).cursor),
        (cut(), [lost()], cut().cursor),
    ):
        assert choose(own, others, STAMP, LONG_STILL, NOW) == CursorChoice(cursor)
