"""Opening what lies where a file is expected, and knowing it again.

It may be a pipe, and whoever opens one waits; or a terabyte of holes, and whoever reads it never ends.
"""

from __future__ import annotations

import errno
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


def open_plain(path: str | Path) -> int:
    """A descriptor to read from. Raises OSError, also for what is no plain file."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a path may be bytes as text
        raise OSError(f"{path} is no plain file")
    # not to be held up by what has taken the file's place since
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def open_transcript(path: str) -> int:
    """A descriptor to read from. Raises OSError, also for what is no plain file or too long."""
    descriptor = open_plain(path)
    if os.fstat(descriptor).st_size > MOST_TRANSCRIPT_BYTES:
        os.close(descriptor)
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return descriptor


def checksum(descriptor: int, offset: int) -> int:
    """Of what ends there."""
    size = min(offset, BEFORE_BYTES)
    return zlib.crc32(os.pread(descriptor, size, offset - size))
