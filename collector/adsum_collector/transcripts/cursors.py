"""Keeps how far each transcript has been read, and chooses the cursor to go on at. Pure.

Cursors are kept in the spool's state, in one transaction with the signals that were read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

PREFIX = "tail:"
#: A cursor that has stood still for so long goes, unless its session lives: its file, should it grow
#: again, is read from its tail like any other.
KEPT_MS = 7 * 24 * 3600 * 1000
#: A file that has gone may only have moved, or be younger than the list of those there are.
GONE_MS = 3600 * 1000
#: Besides those of sessions that live, which have often stood still for longest.
MOST_CURSORS = 4096
#: What does not grow for so long is being written anew no longer.
STILL_MS = 3_000
#: Whoever still writes then is at work.
MOST_WAIT_MS = 30_000


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """What tells, without opening a file, whether it is the same and unchanged."""

    mtime_ns: int
    size: int
    inode: int
    dev: int

    @classmethod
    def of(cls, stat: os.stat_result) -> Stamp:
        return cls(stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_dev)


class Cursor(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Everything before `offset`, which is a line's start unless `inside`, has been read.

    head: digest of the first `head_size` bytes, which no appending changes; before: checksum of those
    that end at `offset`. inside: `offset` lies in a line that is too long, and its rest is left out
    too. context: the adapter's own. at: when it was kept last, ms. muted: reported as a session that
    is over, all but usage and meta left out; owing: its end is not reported yet.
    """

    inode: int
    head: str
    head_size: int
    offset: int
    before: int = 0
    context: str = ""
    at: int = 0
    inside: bool = False
    muted: bool = False
    owing: bool = False


class Elsewhere(NamedTuple):
    path: str
    cursor: Cursor


class Kept(NamedTuple):
    """own: under the file's path. others: of where it may have been, or be a copy from."""

    own: Cursor | None
    others: list[Elsewhere]


_decoder: msgspec.json.Decoder[Cursor] = msgspec.json.Decoder(Cursor)


def key_of(path: str) -> str:
    """A path need not be text; a key must be."""
    return PREFIX + os.fsencode(path).decode(errors="backslashreplace")


def encode_cursor(cursor: Cursor) -> bytes:
    return msgspec.json.encode(cursor)


def decode_cursor(raw: bytes | None) -> Cursor | None:
    """None for none, or for one of another version: that file is read from its tail."""
    if raw is None:
        return None
    try:
        return _decoder.decode(raw)
    except msgspec.DecodeError:
        return None


def find_cursors(state: Mapping[str, bytes], path: str, stamp: Stamp, session_id: str) -> Kept:
    """All that may be the file's: which of them is, what the file holds tells who reads it.

    Nothing else does: a deleted file's number is soon given to another, a clock is set back, and a
    file that was moved away and back left a cursor in both places. Disks are numbered anew when a
    system starts, so its inode alone is its number.
    """
    own = key_of(path)
    name = "/" + own.rpartition("/")[2]
    keys = [key for key in state if key.endswith(name) and key.startswith(PREFIX) and key != own]
    others = [
        Elsewhere(key.removeprefix(PREFIX), cursor)
        for key in keys
        if (cursor := decode_cursor(state[key]))
        and (cursor.inode == stamp.inode or f"/{session_id}" in key)
    ]
    return Kept(decode_cursor(state.get(own)), others)


def outdated(
    state: Mapping[str, bytes], present: Collection[str] | None, living: Collection[str], now: int
) -> dict[str, bytes | None]:
    """What to remove from the state. present: paths of all files there are; None: not known.

    living: paths of files of sessions that live: to be read from where they were, however long ago.
    """
    keys = {key_of(path) for path in present or ()}
    alive = {key_of(path) for path in living}
    # One that has gone may be what one of its name, which was not read yet, was moved from.
    unread = {key.rpartition("/")[2] for key in keys if key not in state}
    kept: list[tuple[int, str]] = []
    changes: dict[str, bytes | None] = {}
    for key, raw in state.items():
        if not key.startswith(PREFIX):
            continue
        cursor = decode_cursor(raw)
        age = now - cursor.at if cursor and key not in alive else 0
        gone = present is not None and key not in keys and key.rpartition("/")[2] not in unread
        if cursor is None or age > KEPT_MS or (gone and age > GONE_MS):
            changes[key] = None
        elif key not in alive:
            kept.append((cursor.at, key))
    excess = len(kept) - MOST_CURSORS
    if excess > 0:
        changes.update((key, None) for _, key in sorted(kept)[:excess])
    return changes


class TriedCursor(NamedTuple):
    """fits: the file holds what was read. cut: it begins as that did, and ends before the offset.

    shared: of one that is cut: as much of the file as was read from there, found by comparing the
    two; None if what was read is not there any more.
    """

    cursor: Cursor
    fits: bool
    cut: bool
    shared: int | None = None


class CopyWait(NamedTuple):
    """What may be a copy that is still being written: how it is, since when, and how long it waits.

    since, first: ms. shared: as far as known, so much of it was told.
    """

    stamp: Stamp
    since: int
    first: int
    shared: int = 0


class CursorChoice(NamedTuple):
    """No cursor: begin at its tail. shared: but whole lines before this were told."""

    cursor: Cursor | None
    waits: CopyWait | None = None
    shared: int = 0


def furthest(own: TriedCursor | None, others: Sequence[TriedCursor]) -> Cursor | None:
    fitting = [each.cursor for each in (own, *others) if each and each.fits]
    return max(fitting, key=lambda cursor: cursor.offset, default=None)


def choose(
    own: TriedCursor | None,
    others: Sequence[TriedCursor],
    stamp: Stamp,
    waits: CopyWait | None,
    now: int,
) -> CursorChoice:
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
        return CursorChoice(cursor, shared=shared)
    since = min(waits.since, now) if waits and waits.stamp == stamp else now
    first = min(waits.first, now) if waits else now
    if shared == stamp.size or (now - since < STILL_MS and now - first < MOST_WAIT_MS):
        return CursorChoice(None, CopyWait(stamp, since, first, shared))
    return CursorChoice(cursor)
