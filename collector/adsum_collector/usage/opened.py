"""A transcript opened without a trace, and by what it is known again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from typing import Final

from adsum_collector.plain_file import open_plain

#: Of what was read last, kept as a checksum: a file rewritten in place is seen by it.
BEFORE_BYTES: Final = 1024


def open_quietly(path: str) -> int:
    """Its access time stays where that may be. Raises OSError."""
    descriptor = open_plain(path)
    flag = getattr(os, "O_NOATIME", 0)
    if flag:
        with contextlib.suppress(OSError):  # only the file's owner may
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | flag)
    return descriptor


def checksum(descriptor: int, offset: int) -> int:
    """Of what ends there."""
    size = min(offset, BEFORE_BYTES)
    return zlib.crc32(os.pread(descriptor, size, offset - size))
