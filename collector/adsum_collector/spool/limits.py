"""How much disk the spool may use, and how much it leaves to others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from adsum_collector.errors import SpoolUnavailable

#: A full file of a large spool; a small spool has files of an eighth of its cap, so that the
#: oldest, should it have to go whole, is no great part of it.
MOST_ROTATE_BYTES = 64 << 20
MOST_LOG_BYTES = 4 << 20
#: Seconds between two looks at the free space.
CHECK_S = 1.0


class Limits(msgspec.Struct, frozen=True):
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


def limits_of(cap_bytes: int, retention_s: float) -> Limits:
    rotate_bytes = min(MOST_ROTATE_BYTES, cap_bytes // 8)
    log_bytes = min(MOST_LOG_BYTES, rotate_bytes // 4)
    return Limits(cap_bytes, rotate_bytes, retention_s, log_bytes=log_bytes)


class Space(msgspec.Struct, frozen=True):
    """free, kept: bytes on the spool's disk; with less than `kept` nothing more is accepted."""

    free: int
    kept: int


def space_of(directory: Path, limits: Limits) -> Space:
    usage = shutil.disk_usage(directory)
    kept = min(limits.min_free_bytes, int(usage.total * limits.min_free_share))
    return Space(usage.free, kept)


class SpaceCheck:
    """To be asked once a second. now: seconds of wall clock."""

    def __init__(self, directory: Path, limits: Limits, now: Callable[[], float]) -> None:
        self._directory = directory
        self._limits = limits
        self._now = now
        self._passed_at = float("-inf")

    @property
    def is_due(self) -> bool:
        return not 0 <= self._now() - self._passed_at < CHECK_S

    def require(self, make_room: Callable[[], None]) -> None:
        """Raises SpoolUnavailable where less is free than must stay free, even after make_room."""
        if self._is_short(space_of(self._directory, self._limits)):
            make_room()
        space = space_of(self._directory, self._limits)
        if self._is_short(space):
            raise SpoolUnavailable(
                f"the disk of {self._directory} is full: {shown_bytes(space.free)} are free, and "
                f"the last {shown_bytes(space.kept)} are left to others. Free some space there"
            )
        self._passed_at = self._now()

    @staticmethod
    def _is_short(space: Space) -> bool:
        return space.free < space.kept


def shown_bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
