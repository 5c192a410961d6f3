"""Reads a transcript on from where it was read to, and chooses the cursor to go on at.

Cursors are kept in the spool's state, in one transaction with the signals that were read. Reading
blocks, and only ever reads.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from adsum_collector.line_reader import (
    HUGE_LINE_BYTES,
    STEP_BYTES,
    LineReader,
    checksum,
    first_lines,
    last_lines,
    open_plain,
    open_transcript,
    split_lines,
)

SUFFIX = ".jsonl"
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

#: Read, adapted and committed at once: what a hook that comes meanwhile has to wait for.
CHUNK_BYTES = 128 << 10
CHUNK_LINES = 100
#: Left out at once of a line that is too long: then it is the next file's turn.
SKIPPED_BYTES = 4 << 20
#: Where a file that is there already is begun, seen from its end.
TAIL_BYTES = 256 << 10
HEAD_BYTES = 256
SIDECAR_BYTES = 64 << 10
COMPARED_BYTES = 64 << 10


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


class Chunk(msgspec.Struct):
    """stamp: the file when it was opened. more: there may be further whole lines.

    head: the file's first lines, if it is begun at its tail. moved: the cursor is to be kept even if
    nothing is reported: it was kept under another path, or history was passed over.
    waits: nothing was read, and `cursor` says nothing.
    """

    lines: list[bytes]
    cursor: Cursor
    stamp: Stamp
    more: bool
    sidecar: bytes | None = None
    faults: tuple[str, ...] = ()
    head: list[bytes] = []
    moved: bool = False
    waits: CopyWait | None = None


def read_chunk(
    path: str,
    own: Cursor | None,
    others: Sequence[Elsewhere] = (),
    *,
    with_sidecar: bool,
    waits: CopyWait | None = None,
    now: int = 0,
) -> Chunk:
    """The next whole lines. Without a cursor: of the file's tail. Raises OSError.

    own: kept under this path. others: under others, and maybe of other files. waits: what the chunk
    before said of that. now: ms.
    """
    descriptor = open_transcript(path)
    try:
        stamp = Stamp.of(os.fstat(descriptor))
        choice = _choose(descriptor, stamp, own, others, waits, now)
        if choice.waits:
            return Chunk([], _anew(descriptor, stamp), stamp, more=False, waits=choice.waits)
        cursor, faults = _begin(descriptor, choice, stamp)
        is_new = choice.cursor is None and not choice.shared
        head = first_lines(descriptor) if is_new and cursor.offset else []
        lines, after, more_faults = _next_lines(descriptor, cursor)
        after = msgspec.structs.replace(after, before=checksum(descriptor, after.offset))
    finally:
        os.close(descriptor)
    return Chunk(
        lines=lines,
        cursor=after,
        stamp=stamp,
        more=cursor.offset < after.offset < stamp.size,
        sidecar=_sidecar(path) if with_sidecar and lines and not cursor.context else None,
        faults=faults + more_faults,
        head=head,
        moved=choice.cursor not in {None, own},
    )


def _next_lines(descriptor: int, cursor: Cursor) -> tuple[list[bytes], Cursor, tuple[str, ...]]:
    reader = LineReader(CHUNK_BYTES)
    reader.begin(descriptor, cursor.offset, inside=cursor.inside, most=SKIPPED_BYTES)
    found, lines, offset, faults = reader.fill(), list[bytes](), reader.offset, list[str]()
    if found:
        data, end = found
        parts = bytes(data[:end]).split(b"\n", CHUNK_LINES)
        rest = parts.pop()
        offset -= len(rest)
        text = bytes(data[: end - len(rest)])
        lines = split_lines(text)
        if b"\0" in text:
            faults.append("NUL padding")
        if cursor.offset == 0 and lines:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    faults += ["huge line"] * reader.huge
    after = msgspec.structs.replace(cursor, offset=offset, inside=reader.inside)
    return lines, after, tuple(faults)


def _choose(
    descriptor: int,
    stamp: Stamp,
    own: Cursor | None,
    others: Sequence[Elsewhere],
    waits: CopyWait | None,
    now: int,
) -> CursorChoice:
    its = _tried(own, descriptor, stamp.size) if own else None
    theirs = [_tried(each.cursor, descriptor, stamp.size) for each in others]
    fits = furthest(its, theirs)
    seen = waits.shared if waits else 0
    compared = [
        each._replace(shared=_shared(other, descriptor, stamp.size, fits, seen))
        if each.cut
        else each
        for each, other in zip(theirs, others, strict=True)
    ]
    return choose(its, compared, stamp, waits, now)


def _begin(descriptor: int, choice: CursorChoice, stamp: Stamp) -> tuple[Cursor, tuple[str, ...]]:
    """The cursor, if it is of this very file; else one at where to begin, and why."""
    anew, cursor = _anew(descriptor, stamp), choice.cursor
    why = why_lost(cursor, descriptor, stamp.size) if cursor else None
    known = _last_line_end(descriptor, choice.shared)
    if known > (cursor.offset if cursor and not why else 0):
        return msgspec.structs.replace(anew, offset=known), ()
    if cursor is None:
        # a line near the end, with at least one whole line behind it where there is
        start, _ = last_lines(descriptor, stamp.size, TAIL_BYTES, HUGE_LINE_BYTES)
        return msgspec.structs.replace(anew, offset=start), ()
    if why:
        return anew, (why,)
    head = {"head": anew.head, "head_size": anew.head_size}
    return msgspec.structs.replace(cursor, inode=anew.inode, **head), ()


def _anew(descriptor: int, stamp: Stamp) -> Cursor:
    size = min(HEAD_BYTES, stamp.size)
    return Cursor(stamp.inode, digest(descriptor, size), size, offset=0)


def _last_line_end(descriptor: int, size: int) -> int:
    while size:
        start = max(0, size - STEP_BYTES)
        found = os.pread(descriptor, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size = start
    return 0


def _sidecar(path: str) -> bytes | None:
    try:
        with os.fdopen(open_plain(path.removesuffix(SUFFIX) + ".meta.json"), "rb") as file:
            return file.read(SIDECAR_BYTES)
    except OSError:
        return None


def _tried(cursor: Cursor, descriptor: int, size: int) -> TriedCursor:
    # an empty one may become anything
    alike = not size or cursor.head == digest(descriptor, cursor.head_size)
    fits = why_lost(cursor, descriptor, size) is None
    return TriedCursor(cursor, fits, cut=size < cursor.offset and alike)


def why_lost(cursor: Cursor, descriptor: int, size: int) -> str | None:
    """By what it holds: one that was copied, restored or written anew alike goes on where it was."""
    if size < cursor.offset:
        return "truncated"
    if cursor.head != digest(descriptor, cursor.head_size):
        return "replaced"
    return None if cursor.before == checksum(descriptor, cursor.offset) else "replaced"


def digest(descriptor: int, size: int) -> str:
    head = os.pread(descriptor, size, 0)
    return hashlib.blake2b(head, digest_size=8).hexdigest()


def _shared(
    other: Elsewhere, descriptor: int, size: int, fits: Cursor | None, seen: int
) -> int | None:
    """See TriedCursor. fits: where it was read to. seen: so much was shared before."""
    try:
        with os.fdopen(open_transcript(other.path), "rb", 0) as file:
            there = file.fileno()
            if why_lost(other.cursor, there, os.fstat(there).st_size):
                return None
            start = fits.offset if fits else min(seen, size)
            if checksum(descriptor, start) != checksum(there, start):
                if fits:
                    return 0  # they parted before
                start = 0
            return _same_until(descriptor, there, start, size)
    except OSError:
        return None


def _same_until(one: int, other: int, start: int, end: int) -> int:
    while start < end:
        size = min(COMPARED_BYTES, end - start)
        these, those = os.pread(one, size, start), os.pread(other, size, start)
        if these != those or not these:
            pairs = zip(these, those, strict=False)
            least = min(len(these), len(those))
            return start + next((at for at, (a, b) in enumerate(pairs) if a != b), least)
        start += len(these)
    return start
