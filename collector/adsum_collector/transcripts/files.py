"""A transcript as a file: its next whole lines. Blocks; only ever reads."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from adsum_collector.plain_file import checksum, open_plain, open_transcript
from adsum_collector.transcripts.cursor_choice import Choice, Waiting, choose, furthest
from adsum_collector.transcripts.cursors import Cursor, Elsewhere, Stamp
from adsum_collector.transcripts.match import digest, shared, tried, why_lost
from adsum_collector.transcripts.walk import SUFFIX

#: Read, adapted and committed at once: what a hook that comes meanwhile has to wait for.
CHUNK_BYTES = 128 << 10
CHUNK_LINES = 100
#: A line above this is skipped: to decode it would hold up every hook.
HUGE_LINE_BYTES = 16 << 20
STEP_BYTES = 1 << 20
#: Searched at once for the end of a long line: then it is the next file's turn.
SEARCH_BYTES = 4 << 20
#: Where a file that is there already is begun, seen from its end.
TAIL_BYTES = 256 << 10
HEAD_BYTES = 256
#: What its session was begun with is sought in so much of a file's begin.
OPENING_BYTES = 32 << 10
SIDECAR_BYTES = 64 << 10


class Chunk(msgspec.Struct):
    """stamp: the file when it was opened. more: there may be further whole lines.

    head: the file's first lines, if it is begun at its tail. moved: the cursor is to be kept even if
    nothing is told: it was kept under another path, or history was passed over.
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
    waits: Waiting | None = None


def read_chunk(
    path: str,
    own: Cursor | None,
    others: Sequence[Elsewhere] = (),
    *,
    with_sidecar: bool,
    waits: Waiting | None = None,
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
        lines, after, more_faults = _next_lines(descriptor, cursor, stamp.size)
        after = msgspec.structs.replace(after, before=checksum(descriptor, after.offset))
    finally:
        os.close(descriptor)
    return Chunk(
        lines=lines,
        cursor=after,
        stamp=stamp,
        more=_progress(cursor) < _progress(after) < stamp.size,
        sidecar=_sidecar(path) if with_sidecar and lines and not cursor.context else None,
        faults=faults + more_faults,
        head=head,
        moved=choice.cursor not in {None, own},
    )


def first_lines(descriptor: int) -> list[bytes]:
    data = os.pread(descriptor, OPENING_BYTES, 0)
    return stripped(data[: data.rfind(b"\n") + 1].removeprefix(b"\xef\xbb\xbf"))


def stripped(data: bytes) -> list[bytes]:
    """A file that lost its end in a crash of the system is filled with NUL."""
    return [line for each in data.split(b"\n") if (line := each.strip(b"\0\r\t "))]


def _choose(
    descriptor: int,
    stamp: Stamp,
    own: Cursor | None,
    others: Sequence[Elsewhere],
    waits: Waiting | None,
    now: int,
) -> Choice:
    its = tried(own, descriptor, stamp) if own else None
    theirs = [tried(each.cursor, descriptor, stamp) for each in others]
    fits = furthest(its, theirs)
    seen = waits.shared if waits else 0
    compared = [
        each._replace(shared=shared(other, descriptor, stamp, fits, seen)) if each.cut else each
        for each, other in zip(theirs, others, strict=True)
    ]
    return choose(its, compared, stamp, waits, now)


def _begin(descriptor: int, choice: Choice, stamp: Stamp) -> tuple[Cursor, tuple[str, ...]]:
    """The cursor, if it is of this very file; else one at where to begin, and why."""
    anew, cursor = _anew(descriptor, stamp), choice.cursor
    why = why_lost(cursor, descriptor, stamp) if cursor else None
    told = _last_line_end(descriptor, choice.shared)
    if told > (cursor.offset if cursor and not why else 0):
        return msgspec.structs.replace(anew, offset=told), ()
    if cursor is None:
        return msgspec.structs.replace(anew, offset=_tail(descriptor, stamp.size)), ()
    if why:
        return anew, (why,)
    return msgspec.structs.replace(
        cursor, inode=anew.inode, head=anew.head, head_size=anew.head_size
    ), ()


def _anew(descriptor: int, stamp: Stamp) -> Cursor:
    size = min(HEAD_BYTES, stamp.size)
    return Cursor(
        inode=stamp.inode,
        head=digest(descriptor, size),
        head_size=size,
        offset=0,
    )


def _tail(descriptor: int, size: int) -> int:
    """The start of a line near the end, with at least one whole line behind it where there is."""
    reach = TAIL_BYTES
    while reach < size and reach <= HUGE_LINE_BYTES:
        data = os.pread(descriptor, reach, size - reach)
        first = data.find(b"\n")
        if first < data.rfind(b"\n"):
            return size - reach + first + 1
        reach *= 4
    return 0


def _last_line_end(descriptor: int, size: int) -> int:
    while size:
        start = max(0, size - STEP_BYTES)
        found = os.pread(descriptor, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size = start
    return 0


def _next_lines(
    descriptor: int, cursor: Cursor, size: int
) -> tuple[list[bytes], Cursor, tuple[str, ...]]:
    offset = cursor.offset
    data = os.pread(descriptor, CHUNK_BYTES, offset)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == CHUNK_BYTES:
        start = max(cursor.searched, offset + len(data))
        past = _past_newline(descriptor, start)
        if past is None:
            searched = min(start + SEARCH_BYTES, size)
            return [], msgspec.structs.replace(cursor, searched=searched), ()
        if past - offset > HUGE_LINE_BYTES:
            return [], msgspec.structs.replace(cursor, offset=past), ("huge line",)
        data = os.pread(descriptor, past - offset, offset)
        end = data.rfind(b"\n") + 1
    parts = data[:end].split(b"\n", CHUNK_LINES)
    taken = end - len(parts.pop())
    # a file that lost its end in a crash of the system is filled with NUL
    lines = [line for part in parts if (line := part.strip(b"\0\r\t "))]
    if offset == 0 and lines:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    faults = ("NUL padding",) if b"\0" in data[:taken] else ()
    return lines, msgspec.structs.replace(cursor, offset=offset + taken), faults


def _past_newline(descriptor: int, start: int) -> int | None:
    """None if there is none in the next SEARCH_BYTES."""
    for step in range(start, start + SEARCH_BYTES, STEP_BYTES):
        found = os.pread(descriptor, STEP_BYTES, step).find(b"\n")
        if found >= 0:
            return step + found + 1
    return None


def _progress(cursor: Cursor) -> int:
    return max(cursor.offset, cursor.searched)


def _sidecar(path: str) -> bytes | None:
    try:
        with os.fdopen(open_plain(path.removesuffix(SUFFIX) + ".meta.json"), "rb") as file:
            return file.read(SIDECAR_BYTES)
    except OSError:
        return None
