"""Reads what messages used up from the new whole lines of one transcript. Blocks; only ever reads.

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

from adsum_collector.agents import usage_lines
from adsum_collector.agents.base import UsageLines
from adsum_collector.agents.records import TranscriptFile, UsageRecord
from adsum_collector.line_reader import LineReader, checksum, open_transcript

BUFFER_BYTES: Final = 1 << 20
#: Read at one go, so that neither its records nor the time it takes grow with the file.
TURN_BYTES: Final = 64 << 20
#: Where the marks of a line are sought, from its begin and from its end.
HEAD_BYTES: Final = 512
TAIL_BYTES: Final = 2048
#: Of the lines left out, one in so many is decoded after all.
SAMPLED: Final = 200
#: And so many at the begin of each reading, if `UsageLines.answer` is in them; to seek it takes a quarter of decoding
#: them. A session writes up to two dozen lines before its first answer. If it writes more one day, or
#: its file grows by fewer lines and no answer, the sample has to find out.
FIRST: Final = 32

HUGE: Final = "huge line"
MISSED: Final = "usage in a line left out"


class ScanPlace(msgspec.Struct, frozen=True, gc=False):
    """Everything before `offset`, a line's start, has been read.

    inside: but it lies in a line above HUGE_LINE_BYTES, and the rest of that is left out too.
    before: `checksum` there. begun: when the file was begun as far as its own lines tell, ms; None as
    long as none does. held: of a main file in which none does, when the last was said of what it held
    when it was read first, ms. context: see `UsageMeter`. care: what is decoded besides lines that begin like an assistant's: 0 those
    that end like one, 1 those that hold a mark of usage, 2 all.
    """

    inode: int = 0
    offset: int = 0
    before: int = 0
    begun: int | None = None
    care: int = 0
    held: int | None = None
    inside: bool = False
    context: str = ""

    def with_care(self, care: int) -> ScanPlace:
        """From the begin: what was read may have been misread, and to come twice does no harm."""
        return msgspec.structs.replace(self, offset=0, inside=False, context="", care=care)


class Scanned(msgspec.Struct, frozen=True, gc=False):
    """more: there may be further whole lines. faults: cause -> how often. whose: see `UsageMeter`."""

    records: list[UsageRecord]
    place: ScanPlace
    more: bool
    faults: dict[str, int]
    whose: TranscriptFile | None = None


class Scanner:
    """One buffer for all files.

    draw: how many lines that look like nothing are left out until one is decoded. care: with how
    much all files are read from now on. Those read with less, as their `ScanPlace` tells, are to be read
    once more, from where they were: that makes it from the begin.
    """

    def __init__(
        self, draw: Callable[[], int] | None = None, lines: UsageLines | None = None
    ) -> None:
        self._reader = LineReader(BUFFER_BYTES)
        self._draw = draw or _drawn
        self._left_out = self._draw()
        self.lines = lines or usage_lines()
        self.care = 0

    def scan(self, path: str, place: ScanPlace | None = None) -> Scanned:
        """The whole lines after `place`, or some of them. Raises OSError."""
        descriptor = open_transcript(path)
        try:
            return self.scan_open(descriptor, place)
        finally:
            os.close(descriptor)

    def scan_open(self, descriptor: int, place: ScanPlace | None) -> Scanned:
        """As `scan`, of a file that is open already."""
        reader = self._reader
        start, faults = _begin(descriptor, place or ScanPlace())
        while True:
            if start.care < self.care:
                start = start.with_care(self.care)
            sift = _Sift(start, self.lines)
            reader.begin(descriptor, start.offset, inside=start.inside, most=TURN_BYTES)
            if all(self._take(sift, *found) for found in iter(reader.fill, None)):
                break
            faults[MISSED] += 1
            self.care = start.care + 1
        before = checksum(descriptor, reader.offset)
        faults[HUGE] += reader.huge
        meter = sift.meter
        return Scanned(
            records=meter.records(),
            place=msgspec.structs.replace(
                start,
                offset=reader.offset,
                before=before,
                begun=sift.begun,
                inside=reader.inside,
                context=meter.context,
            ),
            more=reader.more,
            faults=dict(+(faults + meter.faults)),
            whose=meter.whose,
        )

    def _take(self, sift: _Sift, data: bytes | bytearray, end: int) -> bool:
        """Whole lines. False once one that was left out turns out to tell something."""
        view, find = memoryview(data), data.find
        thorough, left_out = sift.care > 0, 0 if sift.first else self._left_out
        speaker, follows, skip = self.lines.speaker, self.lines.follows, len(self.lines.speaker)
        lines: list[memoryview] = []
        start, stop = 0, find(b"\n", 0, end)
        while stop >= 0:
            role = find(speaker, start, start + HEAD_BYTES)
            said = 0 <= role < stop
            if (said and data.startswith(follows, role + skip)) or (
                (thorough or not said) and sift.suspects(data, start, stop)
            ):
                lines.append(view[start:stop])
            elif left_out:
                left_out -= 1
            else:
                left_out = self._look(sift, data, start, stop)
                if left_out < 0:
                    return False
            start = stop + 1
            stop = find(b"\n", start, end)
        if not sift.first:
            self._left_out = left_out
        sift.meter.take(lines)
        return True

    def _look(self, sift: _Sift, data: bytes | bytearray, start: int, stop: int) -> int:
        """Into a line that was left out: how many are now, or that it tells something: negative."""
        if sift.first:
            sift.first -= 1
            follow = 0 if sift.first else self._left_out
            if data.find(self.lines.answer, start, stop) < 0:
                return follow
        else:
            follow = self._draw()
        return -1 if self.lines.has_usage(memoryview(data)[start:stop]) else follow


class _Sift:
    """What one reading of a file, or of a turn's worth of it, has found."""

    def __init__(self, place: ScanPlace, lines: UsageLines) -> None:
        self._lines = lines
        self.care = place.care
        self.begun = place.begun
        self.first = FIRST
        self.meter = lines.meter(place.context)

    def suspects(self, data: bytes | bytearray, start: int, stop: int) -> bool:
        """Of a line that does not begin like an assistant's, whether it may be one all the same."""
        if self.begun is None and data.startswith(self._lines.own, start, stop):
            self.begun = self._lines.own_time(data[start:stop])
        if self.care == 0 and stop - start < BUFFER_BYTES:
            return data.find(self._lines.usage, max(start, stop - TAIL_BYTES), stop) >= 0
        return self.care > 1 or data.find(self._lines.any_usage, start, stop) >= 0


def _drawn() -> int:
    return int.from_bytes(os.urandom(2)) % (2 * SAMPLED)


def _begin(descriptor: int, place: ScanPlace) -> tuple[ScanPlace, Counter[str]]:
    """The place, if it is of this very file; else the file's begin, and why.

    Devices are numbered anew when a system starts: they tell nothing.
    """
    stat = os.fstat(descriptor)
    anew, why = ScanPlace(inode=stat.st_ino), None
    if place.offset == 0:
        return (place if place.inode == stat.st_ino else anew), Counter()
    if stat.st_size < place.offset:
        why = "truncated"
    elif stat.st_ino != place.inode:
        why = "replaced"
    elif checksum(descriptor, place.offset) != place.before:
        why = "rewritten"
    return (anew, Counter([why])) if why else (place, Counter())
