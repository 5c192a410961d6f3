"""Whether a transcript holds what a cursor says was read, or what another holds. Only ever reads."""

from __future__ import annotations

import hashlib
import os

from adsum_collector.plain_file import checksum, open_transcript
from adsum_collector.transcripts.cursor_choice import Tried
from adsum_collector.transcripts.cursors import Cursor, Elsewhere, Stamp

COMPARED_BYTES = 64 << 10


def tried(cursor: Cursor, descriptor: int, stamp: Stamp) -> Tried:
    short = stamp.size < cursor.offset
    # an empty one may become anything
    alike = not stamp.size or cursor.head == digest(descriptor, cursor.head_size)
    return Tried(cursor, not why_lost(cursor, descriptor, stamp), short and alike)


def shared(
    other: Elsewhere, descriptor: int, stamp: Stamp, fits: Cursor | None, seen: int
) -> int | None:
    """See Tried. fits: where it was read to. seen: so much was shared before."""
    try:
        with os.fdopen(open_transcript(other.path), "rb", 0) as file:
            return _compared(other.cursor, file.fileno(), descriptor, stamp, fits, seen)
    except OSError:
        return None


def _compared(
    cursor: Cursor, there: int, descriptor: int, stamp: Stamp, fits: Cursor | None, seen: int
) -> int | None:
    if why_lost(cursor, there, Stamp.of(os.fstat(there))):
        return None
    start = fits.offset if fits else min(seen, stamp.size)
    if checksum(descriptor, start) != checksum(there, start):
        if fits:
            return 0  # they parted before
        start = 0
    return _same_until(descriptor, there, start, stamp.size)


def why_lost(cursor: Cursor, descriptor: int, stamp: Stamp) -> str | None:
    if stamp.size < cursor.offset:
        return "truncated"
    if not _is_of(cursor, descriptor, stamp):
        return "replaced"
    return None


def _is_of(cursor: Cursor, descriptor: int, stamp: Stamp) -> bool:
    """By what it holds: one that was copied, restored or written anew alike goes on where it was."""
    if cursor.head != digest(descriptor, cursor.head_size):
        return False
    if cursor.before:
        return cursor.before == checksum(descriptor, cursor.offset)
    ended = cursor.offset == 0 or os.pread(descriptor, 1, cursor.offset - 1) == b"\n"
    return ended and cursor.inode == stamp.inode


def digest(descriptor: int, size: int) -> str:
    head = os.pread(descriptor, size, 0)
    return hashlib.blake2b(head, digest_size=8).hexdigest()


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
