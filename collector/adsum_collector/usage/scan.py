"""What messages used up, as the new whole lines of one transcript tell. Blocks; only ever reads.

Most bytes are never looked at: from newline to newline, and only lines that look like an
assistant's are decoded. Some of those left out are looked into all the same, the first few of
each reading and others at random: should one of them tell something, this file is read again,
and all others from now on, with more care.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from adsum_collector.agents.claude_code.usage_lines import (
    ASSISTANT_INITIAL,
    OWN,
    ROLE,
    USAGE,
    Meter,
    has_usage,
    own_time,
)
from adsum_collector.agents.records import UsageRecord
from adsum_collector.plain_file import checksum
from adsum_collector.usage.opened import open_quietly

BUFFER_BYTES: Final = 1 << 20
#: A line above this is left out: who decodes it holds all of it in memory, and more.
HUGE_LINE_BYTES: Final = 16 << 20
#: Read at one go, so that neither its records nor the time it takes grow with the file.
TURN_BYTES: Final = 64 << 20
#: Where the marks of a line are sought, from its begin and from its end.
HEAD_BYTES: Final = 512
TAIL_BYTES: Final = 2048
ROLE_BYTES: Final = len(ROLE)
#: Of the lines left out, one in so many is decoded after all.
SAMPLED: Final = 200
#: And so many at the begin of each reading, if this is in them; to seek it takes a quarter of decoding
#: them. A session writes up to two dozen lines before its first answer. If it writes more one day, or
#: its file grows by fewer lines and no answer, the sample has to find out.
FIRST: Final = 32
ANSWER: Final = b'"assistant"'
#: USAGE, however it is written.
ANY_USAGE: Final = b'"usage"'

HUGE: Final = "huge line"
MISSED: Final = "usage in a line left out"


class Place(msgspec.Struct, frozen=True, gc=False):
    """Everything before `offset`, a line's start, has been read.

    inside: but it lies in a line above HUGE_LINE_BYTES, and the rest of that is left out too.
    before: `checksum` there. begun: when the file was begun as far as its own lines tell, ms; None as
    long as none does. held: of a main file in which none does, when the last was said of what it held
    when it was read first, ms. care: what is decoded besides lines that begin like an assistant's: 0 those
    that end like one, 1 those that hold a mark of usage, 2 all.
    """

    inode: int = 0
    offset: int = 0
    before: int = 0
    begun: int | None = None
    care: int = 0
    held: int | None = None
    inside: bool = False

    def with_care(self, care: int) -> Place:
        """From the begin: what was read may have been misread, and to come twice does no harm."""
        return msgspec.structs.replace(self, offset=0, inside=False, care=care)


class Scanned(msgspec.Struct, frozen=True, gc=False):
    """more: there may be further whole lines. faults: cause -> how often."""

    records: list[UsageRecord]
    place: Place
    more: bool
    faults: dict[str, int]


class Scanner:
    """One buffer for all files.

    draw: how many lines that look like nothing are left out until one is decoded. care: with how
    much all files are read from now on. Those read with less, as their `Place` tells, are to be read
    once more, from where they were: that makes it from the begin.
    """

    def __init__(self, draw: Callable[[], int] | None = None) -> None:
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._draw = draw or _drawn
        self._left_out = self._draw()
        self.care = 0

    def scan(self, path: str, place: Place | None = None) -> Scanned:
        """The whole lines after `place`, or some of them. Raises OSError."""
        descriptor = open_quietly(path)
        try:
            start, faults = _begin(descriptor, place or Place())
            while True:
                if start.care < self.care:
                    start = start.with_care(self.care)
                go = _Go(descriptor, start)
                if self._read(go):
                    break
                faults[MISSED] += 1
                self.care = start.care + 1
            before = checksum(descriptor, go.offset)
        finally:
            os.close(descriptor)
        return Scanned(
            records=go.meter.records(),
            place=msgspec.structs.replace(
                start, offset=go.offset, before=before, begun=go.begun, inside=go.inside
            ),
            more=go.more,
            faults=dict(faults + go.meter.faults + go.faults),
        )

    def _read(self, go: _Go) -> bool:
        """False once a line that was left out turns out to tell something."""
        kept = 0
        os.lseek(go.descriptor, go.offset, os.SEEK_SET)
        while not go.more and (got := os.readv(go.descriptor, [self._view[kept:]])):
            if go.inside:
                go.leave_out(self._buffer.find(b"\n", 0, got) + 1, got)
                continue
            start, end = self._take(go, kept, kept + got), kept + got
            if start < 0:
                return False
            kept = end - start
            if kept == BUFFER_BYTES:
                kept = 0
                if not go.take_long():
                    return True
            else:
                go.advance(start)
                self._buffer[:kept] = self._buffer[start:end]
        return True

    def _take(self, go: _Go, searched: int, end: int) -> int:
        """Where the line begins that has no end yet; negative: see `_read`."""
        buffer, view, find = self._buffer, self._view, self._buffer.find
        thorough, left_out = go.care > 0, 0 if go.first else self._left_out
        lines: list[memoryview] = []
        start, stop = 0, find(b"\n", searched, end)
        while stop >= 0:
            role = find(ROLE, start, start + HEAD_BYTES)
            said = 0 <= role < stop
            if (said and buffer[role + ROLE_BYTES] == ASSISTANT_INITIAL) or (
                (thorough or not said) and self._suspects(go, start, stop)
            ):
                lines.append(view[start:stop])
            elif left_out:
                left_out -= 1
            else:
                left_out = self._look(go, start, stop)
                if left_out < 0:
                    return -1
            start = stop + 1
            stop = find(b"\n", start, end)
        if not go.first:
            self._left_out = left_out
        go.meter.take(lines)
        return start

    def _look(self, go: _Go, start: int, stop: int) -> int:
        """Into a line that was left out: how many are now, or that it tells something: negative."""
        if go.first:
            go.first -= 1
            follow = 0 if go.first else self._left_out
            if self._buffer.find(ANSWER, start, stop) < 0:
                return follow
        else:
            follow = self._draw()
        return -1 if has_usage(self._view[start:stop]) else follow

    def _suspects(self, go: _Go, start: int, stop: int) -> bool:
        """Of a line that does not begin like an assistant's, whether it may be one all the same."""
        if go.begun is None and self._buffer.startswith(OWN, start, stop):
            go.begun = own_time(self._view[start:stop])
        if go.care == 0:
            return self._buffer.find(USAGE, max(start, stop - TAIL_BYTES), stop) >= 0
        return go.care > 1 or self._buffer.find(ANY_USAGE, start, stop) >= 0


class _Go:
    """One reading of a file, or of a turn's worth of it. offset: how far it has got."""

    def __init__(self, descriptor: int, place: Place) -> None:
        self.descriptor = descriptor
        self.care = place.care
        self.first = FIRST
        self.meter = Meter()
        self.faults: Counter[str] = Counter()
        self.begun = place.begun
        self.inside = place.inside
        self.offset = place.offset
        self.more = False
        self._enough = place.offset + TURN_BYTES

    def advance(self, by: int) -> None:
        self.offset += by
        self.more = self.offset >= self._enough

    def leave_out(self, end: int, size: int) -> None:
        """What was read of a line that is too long. end: of that line, 0 if it goes on."""
        self.inside = not end
        self.advance(end or size)
        os.lseek(self.descriptor, self.offset, os.SEEK_SET)

    def take_long(self) -> bool:
        """A line that fills the buffer and goes on. False if it has no end yet and may be taken."""
        size = _line_size(self.descriptor, self.offset)
        if size is None:
            return False
        if size > HUGE_LINE_BYTES:
            self.faults[HUGE] += 1
            self.inside = True
            size -= 1  # its newline, if it was found, is what ends it for `leave_out`
        else:
            raw = os.pread(self.descriptor, size, self.offset)
            if self.care > 1 or raw.find(ANY_USAGE) >= 0:
                self.meter.take([raw])
        self.advance(size)
        os.lseek(self.descriptor, self.offset, os.SEEK_SET)
        return True


def _drawn() -> int:
    return int.from_bytes(os.urandom(2)) % (2 * SAMPLED)


def _begin(descriptor: int, place: Place) -> tuple[Place, Counter[str]]:
    """The place, if it is of this very file; else the file's begin, and why.

    Devices are numbered anew when a system starts: they tell nothing.
    """
    stat = os.fstat(descriptor)
    anew, why = Place(inode=stat.st_ino), None
    if place.offset == 0:
        return (place if place.inode == stat.st_ino else anew), Counter()
    if stat.st_size < place.offset:
        why = "truncated"
    elif stat.st_ino != place.inode:
        why = "replaced"
    elif checksum(descriptor, place.offset) != place.before:
        why = "rewritten"
    return (anew, Counter([why])) if why else (place, Counter())


def _line_size(descriptor: int, start: int) -> int | None:
    """Of the line that begins there, with its newline; None if that is not written yet.

    Above HUGE_LINE_BYTES nobody needs the size: the search ends there.
    """
    at = start + BUFFER_BYTES
    while data := os.pread(descriptor, BUFFER_BYTES, at):
        if at - start > HUGE_LINE_BYTES:
            return at - start
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1 - start
        at += len(data)
    return None
