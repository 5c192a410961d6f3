"""How far each transcript has been read: kept in the spool's state, with the signals it led to."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import msgspec

PREFIX = "tail:"
#: A cursor that has stood still for so long goes: its file, should it grow again, is read from its
#: tail like any other.
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

    head: digest of the first `head_size` bytes, which no appending changes. context: the adapter's
    own. at: when it was kept last, ms; later than whatever was kept under its name before, even if
    the clock was set back since. searched: no line ends between `offset` and here. muted: told as
    a session that is over, all but usage and meta left out; owing: its end is yet untold.
    """

    inode: int
    dev: int
    head: str
    head_size: int
    offset: int
    context: str = ""
    at: int = 0
    searched: int = 0
    muted: bool = False
    owing: bool = False


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


def find_cursor(state: Mapping[str, bytes], path: str, stamp: Stamp) -> tuple[Cursor | None, int]:
    """The file's cursor, even if the file was in another directory when it was kept.

    And from when on its next one counts as the latest: its clock may have been set back.

    The latest of its own: one that was moved away and back left a cursor in both places. Not the
    furthest: a deleted file's number is soon given to another, and its cursor may lie further on.
    """
    name = "/" + key_of(path).rpartition("/")[2]
    raws = [state[key] for key in state if key.endswith(name) and key.startswith(PREFIX)]
    named = [cursor for cursor in map(decode_cursor, raws) if cursor]
    after = max((cursor.at + 1 for cursor in named), default=0)
    its = [each for each in named if (each.inode, each.dev) == (stamp.inode, stamp.dev)]
    fitting = [cursor for cursor in its if cursor.offset <= stamp.size]
    if fitting:
        return max(fitting, key=lambda cursor: (cursor.at, cursor.offset)), after
    return decode_cursor(state.get(key_of(path))), after


def outdated(
    state: Mapping[str, bytes], present: Collection[str] | None, now: int
) -> dict[str, bytes | None]:
    """What to remove from the state. present: paths of all files there are; None: not known."""
    keys = {key_of(path) for path in present} if present is not None else None
    kept: list[tuple[int, str]] = []
    changes: dict[str, bytes | None] = {}
    for key, raw in state.items():
        if not key.startswith(PREFIX):
            continue
        cursor = decode_cursor(raw)
        age = now - cursor.at if cursor else KEPT_MS
        gone = keys is not None and key not in keys and age > GONE_MS
        if cursor is None or gone or age > KEPT_MS:
            changes[key] = None
        else:
            kept.append((cursor.at, key))
    excess = len(kept) - MOST_CURSORS
    if excess > 0:
        changes.update((key, None) for _, key in sorted(kept)[:excess])
    return changes
