"""How far each transcript has been read: kept in the spool's state, with the signals it led to."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

PREFIX = "tail:"
#: A cursor that has stood still for so long goes, unless its session lives: its file, should it grow
#: again, is read from its tail like any other.
KEPT_MS = 7 * 24 * 3600 * 1000
#: A file that has gone may only have moved, or be younger than the list of those there are.
GONE_MS = 3600 * 1000
MOST_CURSORS = 4096


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
    """Everything before `offset`, which is always a line's start, has been read.

    head: digest of the first `head_size` bytes, which no appending changes; before: checksum of those
    that end at `offset`, 0 if not known. context: the adapter's own. at: when it was kept last, ms; later than whatever was kept under its name before, even if
    the clock was set back since. searched: no line ends between `offset` and here. muted: told as
    a session that is over, all but usage and meta left out; owing: its end is yet untold.
    """

    inode: int
    head: str
    head_size: int
    offset: int
    before: int = 0
    context: str = ""
    at: int = 0
    searched: int = 0
    muted: bool = False
    owing: bool = False


class Found(NamedTuple):
    """after: from when on the next cursor counts as the latest: its clock may have been set back.

    moved: the cursor was kept under another path.
    """

    cursor: Cursor | None
    after: int
    moved: bool


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


def find_cursor(state: Mapping[str, bytes], path: str, stamp: Stamp, session_id: str) -> Found:
    """The file's cursor, even if the file was in another directory when it was kept.

    The latest of its own: one that was moved away and back left a cursor in both places. Not the
    furthest: a deleted file's number is soon given to another, and its cursor may lie further on.
    Disks are numbered anew when a system starts, so its inode alone is its number. One of the same
    session that bears another may be of the file that this is a copy of: who reads it sees that.
    """
    own = key_of(path)
    name = "/" + own.rpartition("/")[2]
    keys = [key for key in state if key.endswith(name) and key.startswith(PREFIX)]
    named = {key: cursor for key in keys if (cursor := decode_cursor(state[key]))}
    after = max((cursor.at + 1 for cursor in named.values()), default=0)
    fitting = {key: cursor for key, cursor in named.items() if cursor.offset <= stamp.size}
    its = {key: cursor for key, cursor in fitting.items() if cursor.inode == stamp.inode}
    if not its and own in named:
        return Found(named[own], after, moved=False)
    latest = _latest(its or {key: fitting[key] for key in fitting if f"/{session_id}" in key})
    return Found(named.get(latest), after, moved=latest not in {"", own})


def _latest(cursors: Mapping[str, Cursor]) -> str:
    return max(cursors, key=lambda key: (cursors[key].at, cursors[key].offset), default="")


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
        else:
            kept.append((cursor.at, key))
    excess = len(kept) - MOST_CURSORS
    if excess > 0:
        changes.update((key, None) for _, key in sorted(kept)[:excess])
    return changes
