"""A transcript as a file: its next whole lines. Blocks; only ever reads."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Sequence

import msgspec

from adsum_collector.cursor_choice import Choice, Tried, Waiting, choose
from adsum_collector.cursors import Cursor, Stamp
from adsum_collector.plain_file import open_plain
from adsum_collector.transcript_walk import SUFFIX

#: Read, adapted and committed at once: what a hook that comes meanwhile has to wait for.
CHUNK_BYTES = 128 << 10
CHUNK_LINES = 100
#: A line above this is skipped: to decode it would hold up every hook.
HUGE_LINE_BYTES = 16 << 20
STEP_BYTES = 1 << 20
#: Where a file that is there already is begun, seen from its end.
TAIL_BYTES = 256 << 10
HEAD_BYTES = 256
#: Of what was read last, kept as a checksum.
BEFORE_BYTES = 1024
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
    others: Sequence[Cursor] = (),
    *,
    with_sidecar: bool,
    waits: Waiting | None = None,
    now: int = 0,
) -> Chunk:
    """The next whole lines. Without a cursor: of the file's tail. Raises OSError.

    own: kept under this path. others: under others, and maybe of other files. waits: what the chunk
    before said of that. now: ms.
    """
    descriptor = open_plain(path)
    try:
        stamp = Stamp.of(os.fstat(descriptor))
        choice = choose(
            _tried(own, descriptor, stamp) if own else None,
            [_tried(each, descriptor, stamp) for each in others],
            stamp,
            waits,
            now,
        )
        if choice.waits:
            return Chunk([], _anew(descriptor, stamp), stamp, more=False, waits=choice.waits)
        cursor, faults = _begin(descriptor, choice, stamp)
        is_new = choice == Choice(None)
        head = first_lines(descriptor) if is_new and cursor.offset else []
        lines, after, more_faults = _next_lines(descriptor, cursor, stamp.size)
        after = msgspec.structs.replace(after, before=_checksum(descriptor, after.offset))
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
        moved=choice.at_end or choice.cursor not in {None, own},
    )


def first_lines(descriptor: int) -> list[bytes]:
    data = os.pread(descriptor, OPENING_BYTES, 0)
    return stripped(data[: data.rfind(b"\n") + 1].removeprefix(b"\xef\xbb\xbf"))


def stripped(data: bytes) -> list[bytes]:
    """A file that lost its end in a crash of the system is filled with NUL."""
    return [line for each in data.split(b"\n") if (line := each.strip(b"\0\r\t "))]


def _tried(cursor: Cursor, descriptor: int, stamp: Stamp) -> Tried:
    short = stamp.size < cursor.offset
    # an empty one may become anything
    alike = not stamp.size or cursor.head == _digest(descriptor, cursor.head_size)
    return Tried(cursor, not _why_lost(cursor, descriptor, stamp), short and alike)


def _begin(descriptor: int, choice: Choice, stamp: Stamp) -> tuple[Cursor, tuple[str, ...]]:
    """The cursor, if it is of this very file; else one at where to begin, and why."""
    anew, cursor = _anew(descriptor, stamp), choice.cursor
    if choice.at_end:
        return msgspec.structs.replace(anew, offset=_last_line_end(descriptor, stamp.size)), ()
    if cursor is None:
        return msgspec.structs.replace(anew, offset=_tail(descriptor, stamp.size)), ()
    if why := _why_lost(cursor, descriptor, stamp):
        return anew, (why,)
    return msgspec.structs.replace(
        cursor, inode=anew.inode, head=anew.head, head_size=anew.head_size
    ), ()


def _anew(descriptor: int, stamp: Stamp) -> Cursor:
    size = min(HEAD_BYTES, stamp.size)
    return Cursor(
        inode=stamp.inode,
        head=_digest(descriptor, size),
        head_size=size,
        offset=0,
    )


def _why_lost(cursor: Cursor, descriptor: int, stamp: Stamp) -> str | None:
    if stamp.size < cursor.offset:
        return "truncated"
    if not _is_of(cursor, descriptor, stamp):
        return "replaced"
    return None


def _is_of(cursor: Cursor, descriptor: int, stamp: Stamp) -> bool:
    """By what it holds: one that was copied, restored or written anew alike goes on where it was."""
    if cursor.head != _digest(descriptor, cursor.head_size):
        return False
    if cursor.before:
        return cursor.before == _checksum(descriptor, cursor.offset)
    ended = cursor.offset == 0 or os.pread(descriptor, 1, cursor.offset - 1) == b"\n"
    return ended and cursor.inode == stamp.inode


def _checksum(descriptor: int, offset: int) -> int:
    size = min(offset, BEFORE_BYTES)
    return zlib.crc32(os.pread(descriptor, size, offset - size))


def _digest(descriptor: int, size: int) -> str:
    head = os.pread(descriptor, size, 0)
    return hashlib.blake2b(head, digest_size=8).hexdigest()


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
        past = _past_newline(descriptor, max(cursor.searched, offset + len(data)))
        if past is None:
            return [], msgspec.structs.replace(cursor, searched=size), ()
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
    while data := os.pread(descriptor, STEP_BYTES, start):
        found = data.find(b"\n")
        if found >= 0:
            return start + found + 1
        start += len(data)
    return None


def _sidecar(path: str) -> bytes | None:
    try:
        with os.fdopen(open_plain(path.removesuffix(SUFFIX) + ".meta.json"), "rb") as file:
            return file.read(SIDECAR_BYTES)
    except OSError:
        return None
