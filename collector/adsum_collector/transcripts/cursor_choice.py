"""Where a transcript goes on, of several cursors that may be its own: by what it holds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adsum_collector.transcripts.cursors import Cursor, Stamp

#: What does not grow for so long is being written anew no longer.
STILL_MS = 3_000
#: Whoever still writes then is at work.
MOST_WAIT_MS = 30_000


class Tried(NamedTuple):
    """fits: the file holds what was read. cut: it begins as that did, and ends before the offset.

    shared: of one that is cut: as much of the file as was read from there, found by comparing the
    two; None if what was read is not there any more.
    """

    cursor: Cursor
    fits: bool
    cut: bool
    shared: int | None = None


class Waiting(NamedTuple):
    """What may be a copy that is still being written: how it is, since when, and how long it waits.

    since, first: ms. shared: as far as known, so much of it was told.
    """

    stamp: Stamp
    since: int
    first: int
    shared: int = 0


class Choice(NamedTuple):
    """No cursor: begin at its tail. shared: but whole lines before this were told."""

    cursor: Cursor | None
    waits: Waiting | None = None
    shared: int = 0


def furthest(own: Tried | None, others: Sequence[Tried]) -> Cursor | None:
    fitting = [each.cursor for each in (own, *others) if each and each.fits]
    return max(fitting, key=lambda cursor: cursor.offset, default=None)


def choose(
    own: Tried | None,
    others: Sequence[Tried],
    stamp: Stamp,
    waits: Waiting | None,
    now: int,
) -> Choice:
    """own: kept under its path. waits: what was chosen before. now: ms.

    The furthest that fits; its own, to be found lost, if none does. One that begins like what was
    read further may be a copy, older or not yet whole: what of it was told, comparing shows. Where
    there is nothing to compare it with it waits a while, and is told then: twice rather than never.
    """
    cursor = furthest(own, others) or (own.cursor if own else None)
    cut = [each for each in (own, *others) if each and each.cut]
    known = [each.shared for each in cut if each.shared is not None]
    # What was cut short is being written anew.
    goes_on = own is not None and own.fits and not waits and own.cursor.inode == stamp.inode
    shared = max(known, default=0)
    if not cut or (shared < stamp.size and (known or goes_on)):
        return Choice(cursor, shared=shared)
    since = min(waits.since, now) if waits and waits.stamp == stamp else now
    first = min(waits.first, now) if waits else now
    if shared == stamp.size or (now - since < STILL_MS and now - first < MOST_WAIT_MS):
        return Choice(None, Waiting(stamp, since, first, shared))
    return Choice(cursor)
