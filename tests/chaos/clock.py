"""A wall clock that a test can set: the process reads how far it is off from a shared file."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

_OFFSET = struct.Struct("<q")


def set_clock(file: Path, offset_s: int) -> None:
    """Written in place: the process has the file mapped."""
    if not file.exists():
        file.write_bytes(_OFFSET.pack(0))
    with file.open("r+b") as clock:
        clock.write(_OFFSET.pack(offset_s))


def follow_clock(file: Path) -> None:
    """From now on this process's wall clock is off as the file says; its steady clock is not.

    Before any module is imported that takes `time.time` for a default.
    """
    with file.open("rb") as opened:
        shared = mmap.mmap(opened.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    true, true_ns = time.time, time.time_ns

    def offset() -> int:
        return int(_OFFSET.unpack_from(shared)[0])

    time.time = lambda: true() + offset()
    time.time_ns = lambda: true_ns() + offset() * 1_000_000_000
