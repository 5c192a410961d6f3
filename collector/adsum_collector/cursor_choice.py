"""Where a transcript goes on, of several cursors that may be its own: by what it holds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adsum_collector.cursors import Cursor, Stamp

#: What does not grow for so long is being copied no longer.
STILL_MS = 3_000


class Tried(NamedTuple):
    """fits: the file holds what was read. cut: it begins as that did, and ends before the offset."""

    cursor: Cursor
    fits: bool
    cut: bool


class Waiting(NamedTuple):
    """What may be a copy that is still being written: how it is, and since when, ms."""

    stamp: Stamp
    since: int


class Choice(NamedTuple):
    """No cursor: begin at its tail. at_end: nothing of it is news so far."""

    cursor: Cursor | None
    waits: Waiting | None = None
    at_end: bool = False


def choose(
    own: Tried | None,
    others: Sequence[Tried],
    stamp: Stamp,
    waits: Waiting | None,
    now: int,
) -> Choice:
    """own: kept under its path. waits: what was chosen before. now: ms.

    The furthest that fits; its own, to be found lost, if none does. One that begins like what was
    read further may be a copy, older or not yet whole: nothing is told of it until that is known.
    """
    its = own.cursor if own else None
    is_copy = any(each.cut for each in others)
    # Sessions are resumed from older copies too.
    goes_on = own is not None and own.fits and not waits and own.cursor.inode == stamp.inode
    if goes_on or not (is_copy or (own and own.cut)):
        fitting = [each.cursor for each in (own, *others) if each and each.fits]
        return Choice(max(fitting, key=lambda cursor: cursor.offset, default=its))
    since = min(waits.since, now) if waits and waits.stamp == stamp else now
    if not stamp.size or now - since < STILL_MS:
        return Choice(None, Waiting(stamp, since))
    # One that only got shorter is read anew: of what is written to it since, nothing may be lost.
    if (own and own.fits) or not is_copy:
        return Choice(its)
    return Choice(None, at_end=True)
