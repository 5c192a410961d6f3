"""Reads files that others write, in whole lines, and recognises a file that was replaced.

What lies where a file is expected may be a pipe, and whoever opens one waits; or a terabyte of holes,
and whoever reads it never ends. Only ever reads.
"""

import contextlib
import errno
import fcntl
import os
import stat
import zlib
from pathlib import Path
from typing import Final

#: A file above this is nobody's transcript and is not read: the longest known ones have some hundred
#: megabytes, and a sparse file has a terabyte by one command.
MOST_TRANSCRIPT_BYTES: Final = 4 << 30
#: Of what was read last, kept as a checksum: a file rewritten in place is seen by it.
BEFORE_BYTES: Final = 1024
#: A line above this is left out: who decodes it holds all of it in memory, and holds up all others.
HUGE_LINE_BYTES: Final = 16 << 20
STEP_BYTES: Final = 1 << 20
#: What its session was begun with is sought in so much of a file's begin.
OPENING_BYTES: Final = 32 << 10


def open_plain(path: str | Path) -> int:
    """A descriptor to read from. Raises OSError, also for what is no plain file."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a path may be bytes as text
        raise OSError(f"{path} is no plain file")
    # not to be held up by what has taken the file's place since
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def open_transcript(path: str) -> int:
    """A descriptor to read from. Its access time stays where that may be.

    Raises OSError, also for what is no plain file or too long.
    """
    descriptor = open_plain(path)
    if os.fstat(descriptor).st_size > MOST_TRANSCRIPT_BYTES:
        os.close(descriptor)
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    if flag := getattr(os, "O_NOATIME", 0):
        with contextlib.suppress(OSError):  # only the file's owner may
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | flag)
    return descriptor


def checksum(descriptor: int, offset: int) -> int:
    """Of what ends there."""
    size = min(offset, BEFORE_BYTES)
    return zlib.crc32(os.pread(descriptor, size, offset - size))


def split_lines(data: bytes) -> list[bytes]:
    """Those that hold anything. A file that lost its end in a crash of the system is filled with NUL."""
    return [line for each in data.split(b"\n") if (line := each.strip(b"\0\r\t "))]


def first_lines(descriptor: int, size: int = OPENING_BYTES) -> list[bytes]:
    data = os.pread(descriptor, size, 0)
    return split_lines(data[: data.rfind(b"\n") + 1].removeprefix(b"\xef\xbb\xbf"))


def last_lines(descriptor: int, size: int, reach: int, most: int) -> tuple[int, bytes]:
    """Where whole lines begin near the end, and these: at least one, where there is one.

    reach: bytes from the end; four times as many, up to `most`, where none of them is a whole line.
    (0, b"") if even then there is none.
    """
    while True:
        start = max(0, size - reach)
        data = os.pread(descriptor, size - start, start)
        begin = data.find(b"\n") + 1 if start else 0
        end = data.rfind(b"\n") + 1
        if begin < end:
            return start + begin, data[begin:end]
        if not start or reach >= most:
            return 0, b""
        reach *= 4


class LineReader:
    """The whole lines of a file from a byte on, a buffer after the other; for many files in turn.

    offset: where the lines end that `fill` gave last. inside: that is in the midst of a line above
    HUGE_LINE_BYTES, the rest of which is left out too. huge: how many such lines were begun.
    more: there may be further lines, but it was enough for one go.
    """

    def __init__(self, size: int) -> None:
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)

    def begin(self, descriptor: int, offset: int, *, inside: bool = False, most: int) -> None:
        """most: bytes to be read at one go, so that neither memory nor time grow with the file."""
        self._descriptor = descriptor
        self._enough = offset + most
        self._rest = (0, 0)
        self.inside, self.huge, self.more = inside, 0, False
        self._seek(offset)

    def fill(self) -> tuple[bytes | bytearray, int] | None:
        """(data, end): whole lines are data[:end], until the next call. None: no more for now."""
        buffer, (start, end) = self._buffer, self._rest
        kept = end - start
        buffer[:kept] = buffer[start:end]
        while self.offset < self._enough:
            got = os.readv(self._descriptor, [self._view[kept:]])
            if not got:
                return None
            if self.inside:
                end = buffer.find(b"\n", 0, got) + 1
                self.inside = not end
                self._seek(self.offset + (end or got))
                continue
            end = buffer.rfind(b"\n", kept, kept + got) + 1
            kept += got
            if end:
                self._rest = (end, kept)
                self.offset += end
                return buffer, end
            if kept == len(buffer):
                kept = 0
                size = self._line_size()
                if size is None:
                    return None
                self._rest = (0, 0)
                if size <= HUGE_LINE_BYTES:
                    line = os.pread(self._descriptor, size, self.offset)
                    self._seek(self.offset + size)
                    return line, size
                self.huge += 1
                self.inside = True
                # its newline, if it was found, is what ends it
                self._seek(self.offset + size - 1)
        self.more = True
        return None

    def _seek(self, offset: int) -> None:
        self.offset = offset
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    def _line_size(self) -> int | None:
        """Of a line that fills the buffer, with its newline; None if that is not written yet.

        Above HUGE_LINE_BYTES nobody needs the size: the search ends there.
        """
        at = self.offset + len(self._buffer)
        while data := os.pread(self._descriptor, STEP_BYTES, at):
            if at - self.offset > HUGE_LINE_BYTES:
                return at - self.offset
            found = data.find(b"\n")
            if found >= 0:
                return at + found + 1 - self.offset
            at += len(data)
        return None
