"""How much disk the spool may use, and how much it leaves to others."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

#: A full file of a large spool; a small spool has files of an eighth of its cap, so that the
#: oldest, should it have to go whole, is no great part of it.
MOST_ROTATE_BYTES = 64 << 20
MOST_LOG_BYTES = 4 << 20


class SpoolLimits(msgspec.Struct, frozen=True):
    """retention_s: how long an acknowledged file stays.

    log_bytes: the write-ahead log's size after which it is moved into the file. min_free_bytes,
    min_free_share: refuse while less than the smaller of both is free. Two per cent alone would
    have a disk of a terabyte refuse at 20 GB, and 64 MB alone a small one for ever.
    """

    cap_bytes: int = 512 << 20
    rotate_bytes: int = MOST_ROTATE_BYTES
    retention_s: float = 24 * 3600.0
    min_free_bytes: int = 64 << 20
    min_free_share: float = 0.02
    log_bytes: int = MOST_LOG_BYTES

    @classmethod
    def of(cls, cap_bytes: int, retention_s: float) -> SpoolLimits:
        rotate_bytes = min(MOST_ROTATE_BYTES, cap_bytes // 8)
        log_bytes = min(MOST_LOG_BYTES, rotate_bytes // 4)
        return cls(cap_bytes, rotate_bytes, retention_s, log_bytes=log_bytes)

    def space(self, directory: Path) -> tuple[int, int]:
        """The bytes free on the directory's disk, and how many of them are left to others."""
        usage = shutil.disk_usage(directory)
        return usage.free, min(self.min_free_bytes, int(usage.total * self.min_free_share))


def shown_bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
