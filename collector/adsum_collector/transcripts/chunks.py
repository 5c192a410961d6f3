"""Reads the next whole lines of a transcript from its cursor. Blocks; only ever reads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

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
from adsum_collector.transcripts.cursors import (
    CopyWait,
    Cursor,
    CursorChoice,
    Elsewhere,
    Stamp,
    TriedCursor,
    choose,
    furthest,
)
from adsum_collector.transcripts.files import SUFFIX

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
