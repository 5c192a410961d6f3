"""Transcripts as files: what there is, and the next whole lines of one. Blocks; only ever reads."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat as modes
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from adsum_collector.cursors import Cursor, Stamp
from adsum_collector.plain_file import open_plain

SUFFIX = ".jsonl"
#: Read, adapted and committed at once: what a hook that comes meanwhile has to wait for.
CHUNK_BYTES = 128 << 10
CHUNK_LINES = 100
#: A line above this is skipped: to decode it would hold up every hook.
HUGE_LINE_BYTES = 16 << 20
STEP_BYTES = 1 << 20
#: Where a file that is there already is begun, seen from its end.
TAIL_BYTES = 256 << 10
HEAD_BYTES = 256
#: What its session was begun with is sought in so much of a file's begin.
OPENING_BYTES = 32 << 10
SIDECAR_BYTES = 64 << 10
#: The agent nests five directories.
MOST_DEPTH = 8


class Chunk(msgspec.Struct):
    """stamp: the file when it was opened. more: there may be further whole lines.

    head: the file's first lines, if it is begun at its tail.
    """

    lines: list[bytes]
    cursor: Cursor
    stamp: Stamp
    more: bool
    sidecar: bytes | None = None
    faults: tuple[str, ...] = ()
    head: list[bytes] = []


def look_at(
    paths: Iterable[str],
    enter: Callable[[str], None],
    known: Mapping[str, Stamp] | None = None,
) -> tuple[dict[str, Stamp | None], set[str]]:
    """Stamps of transcripts at or below these paths (None: nothing there), and all that were found.

    enter: called with each directory before it is listed. known: stamps not to be told again.
    """
    told: dict[str, Stamp | None] = {}
    found: set[str] = set()
    for path in paths:
        try:
            stat = os.stat(path)  # noqa: PTH116 - thousands of times; a Path costs more than this
        except (OSError, ValueError):  # ValueError: no path at all, as one with a NUL in it
            told[path] = None
            continue
        if modes.S_ISDIR(stat.st_mode):
            for each, stamp in _walk(path, enter):
                found.add(each)
                if known is None or known.get(each) != stamp:
                    told[each] = stamp
        elif modes.S_ISREG(stat.st_mode):
            found.add(path)
            told[path] = Stamp.of(stat)
    return told, found


def mains_of(roots: Iterable[str], sessions: Iterable[str]) -> dict[str, Stamp | None]:
    """Stamps of these sessions' main files alone, which takes no walk over all that there is."""
    told: dict[str, Stamp | None] = {}
    names = [f"{session}{SUFFIX}" for session in sessions if not {"/", "\0"} & set(session)]
    for root in roots:
        try:
            with os.scandir(root) as entries:
                directories = [entry.path for entry in entries]
        except OSError:
            continue
        for directory in directories:
            for name in names:
                path = f"{directory}/{name}"
                with contextlib.suppress(OSError):
                    told[path] = Stamp.of(os.stat(path))  # noqa: PTH116 - as above
    return told


def newest_first(told: Mapping[str, Stamp | None]) -> dict[str, Stamp | None]:
    """What nobody finds any more comes last."""
    return dict(
        sorted(told.items(), key=lambda item: item[1].mtime_ns if item[1] else 0, reverse=True)
    )


def _walk(top: str, enter: Callable[[str], None]) -> Iterator[tuple[str, Stamp]]:
    """Links to directories are followed directly below the top only: deeper they may lead back."""
    left = [(top, 0)]
    while left:
        directory, depth = left.pop()
        try:
            enter(directory)
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX):
                        if entry.is_file():
                            yield entry.path, Stamp.of(entry.stat())
                    elif depth < MOST_DEPTH and entry.is_dir(follow_symlinks=depth == 0):
                        left.append((entry.path, depth + 1))
        except OSError:
            continue  # gone, or not for us: the next walk tries again


def read_chunk(path: str, cursor: Cursor | None, *, with_sidecar: bool) -> Chunk:
    """The next whole lines. Without a cursor: of the file's tail. Raises OSError."""
    descriptor = open_plain(path)
    try:
        stamp = Stamp.of(os.fstat(descriptor))
        is_new = cursor is None
        cursor, faults = _begin(descriptor, cursor, stamp)
        head = first_lines(descriptor) if is_new and cursor.offset else []
        lines, after, more_faults = _next_lines(descriptor, cursor, stamp.size)
    finally:
        os.close(descriptor)
    return Chunk(
        lines=lines,
        cursor=after,
        stamp=stamp,
        more=cursor.offset < after.offset < stamp.size,
        sidecar=_sidecar(path) if with_sidecar and lines else None,
        faults=faults + more_faults,
        head=head,
    )


def first_lines(descriptor: int) -> list[bytes]:
    data = os.pread(descriptor, OPENING_BYTES, 0)
    return stripped(data[: data.rfind(b"\n") + 1].removeprefix(b"\xef\xbb\xbf"))


def stripped(data: bytes) -> list[bytes]:
    """A file that lost its end in a crash of the system is filled with NUL."""
    return [line for each in data.split(b"\n") if (line := each.strip(b"\0\r\t "))]


def _begin(descriptor: int, cursor: Cursor | None, stamp: Stamp) -> tuple[Cursor, tuple[str, ...]]:
    """The cursor, if it is of this very file; else one at where to begin, and why."""
    size = min(HEAD_BYTES, stamp.size)
    anew = Cursor(
        inode=stamp.inode,
        dev=stamp.dev,
        head=_digest(descriptor, size),
        head_size=size,
        offset=0,
    )
    if cursor is None:
        return msgspec.structs.replace(anew, offset=_tail(descriptor, stamp.size)), ()
    if stamp.size < cursor.offset:
        return anew, ("truncated",)
    if not _is_of(cursor, descriptor, stamp):
        return anew, ("replaced",)
    return msgspec.structs.replace(cursor, head=anew.head, head_size=anew.head_size), ()


def _is_of(cursor: Cursor, descriptor: int, stamp: Stamp) -> bool:
    return (
        (cursor.inode, cursor.dev) == (stamp.inode, stamp.dev)
        and cursor.head == _digest(descriptor, cursor.head_size)
        and (cursor.offset == 0 or os.pread(descriptor, 1, cursor.offset - 1) == b"\n")
    )


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
