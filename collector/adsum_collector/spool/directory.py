"""The names in the spool's directory, and what is known of a full file without opening it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from adsum_collector.spool.gaps import Gap

_NAME = re.compile(r"spool-(\d+)\.db")
_DRAFT = ".draft"


class Sealed(msgspec.Struct, frozen=True):
    """A full file that is only read. sealed_at: seconds of wall clock.

    gaps: those among its numbers. absent: how many of its numbers it lacks because of them.
    """

    path: Path
    first: int
    last: int
    size: int
    sealed_at: float
    gaps: tuple[Gap, ...] = ()
    absent: int = 0


def path_of(directory: Path, number: int) -> Path:
    return directory / f"spool-{number:06d}.db"


def number_of(path: Path) -> int:
    return int(path.stem.removeprefix("spool-"))


def spool_paths(directory: Path) -> list[Path]:
    """Oldest first."""
    return sorted((p for p in directory.iterdir() if _NAME.fullmatch(p.name)), key=number_of)


def draft_of(path: Path) -> Path:
    return path.with_name(path.name + _DRAFT)


def remove_drafts(directory: Path) -> None:
    """What a crash has left of them: the files they should have replaced are still there."""
    for draft in directory.glob(f"spool-*.db{_DRAFT}*"):
        draft.unlink(missing_ok=True)


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def unlink(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
