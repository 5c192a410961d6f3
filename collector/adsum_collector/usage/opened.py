"""A transcript opened without a trace."""

from __future__ import annotations

import contextlib
import fcntl
import os

from adsum_collector.plain_file import open_transcript


def open_quietly(path: str) -> int:
    """Its access time stays where that may be. Raises OSError."""
    descriptor = open_transcript(path)
    flag = getattr(os, "O_NOATIME", 0)
    if flag:
        with contextlib.suppress(OSError):  # only the file's owner may
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | flag)
    return descriptor
