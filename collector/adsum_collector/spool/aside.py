"""Spool files that could not be used: set aside with their cause, told of, and kept for a while."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from pathlib import Path

import msgspec

from adsum_collector.spool.directory import log_of, unlink

log = logging.getLogger(__name__)

#: So many set-aside files are kept, the newest, and of them so many bytes; the newest one always.
MOST_KEPT = 3
MOST_KEPT_BYTES = 200 << 20
#: How long people are told of one.
TOLD_S = 24 * 3600.0

_MARK = ".corrupt"


class SetAside(msgspec.Struct, frozen=True):
    """was: the file's name before. at: seconds of wall clock.

    missing: how many signals no hub has had and none will; None if nobody can tell.
    """

    path: Path
    was: str
    at: float
    cause: str
    missing: int | None
    size: int

    @property
    def loss(self) -> str:
        match self.missing:
            case None:
                return "signals may be missing"
            case 0:
                return "nothing is missing"
            case 1:
                return "1 signal is missing"
            case many:
                return f"{many} signals are missing"

    @property
    def sentence(self) -> str:
        return (
            f"The spool file {self.was} was damaged ({self.cause}) and set aside as "
            f"{self.path.name}; {self.loss}. See `adsum collector spool status`."
        )


class _Note(msgspec.Struct):
    """Lies beside the file, as what is in it need not be readable."""

    was: str
    at: float
    cause: str
    missing: int | None = None


class Aside:
    """files: those of the directory, newest first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.files = files_set_aside(directory)

    def take(
        self, path: Path, cause: str, missing: int | None, now: float, *, stays: bool = False
    ) -> None:
        """stays: another file is about to take its place under its name. Raises OSError."""
        log.error("spool file %s is damaged (%s) and set aside", path, cause)
        to = _free_name(path)
        # The note first: what lies there without one is told of too, but not with its cause.
        with contextlib.suppress(OSError):  # a full disk
            _note_of(to).write_bytes(msgspec.json.encode(_Note(path.name, now, cause, missing)))
        if stays:
            os.link(path, to)
        else:
            path.replace(to)
            if log_of(path).exists():
                log_of(path).replace(log_of(to))
            if to.is_file():
                unlink(path)  # its index, if it has one
        self._prune()

    def notice(self, now: float) -> str | None:
        """What to tell people for a day; nothing of those that are gone."""
        recent = [each for each in self.files if 0 <= now - each.at < TOLD_S]
        told = [each for each in recent if each.path.exists()]
        if not told:
            return None
        more = f" So were {len(told) - 1} others." if len(told) > 1 else ""
        return told[0].sentence + more

    def _prune(self) -> None:
        """What is no plain file is somebody else's: not ours to delete."""
        plain = [each for each in files_set_aside(self._directory) if each.path.is_file()]
        total = 0
        for rank, each in enumerate(plain):
            total += each.size
            if rank and (rank >= MOST_KEPT or total > MOST_KEPT_BYTES):
                log.warning("%s goes, as newer spool files have been set aside", each.path)
                unlink(each.path)
                _note_of(each.path).unlink(missing_ok=True)
        self.files = files_set_aside(self._directory)


def files_set_aside(directory: Path) -> list[SetAside]:
    """Newest first."""
    found = [
        _read(path)
        for path in directory.glob(f"spool-*.db{_MARK}*")
        if not path.name.endswith((".json", "-wal", "-shm"))
    ]
    return sorted(found, key=lambda each: (each.at, each.path.name), reverse=True)


def _read(path: Path) -> SetAside:
    try:
        note = msgspec.json.decode(_note_of(path).read_bytes(), type=_Note)
    except (OSError, msgspec.DecodeError):
        was = path.name.partition(_MARK)[0]
        note = _Note(was, path.lstat().st_mtime, "nobody wrote down why")
    parts = [part for part in (path, log_of(path)) if part.is_file()]
    size = sum(part.stat().st_size for part in parts)
    return SetAside(path, note.was, note.at, note.cause, note.missing, size)


def _free_name(path: Path) -> Path:
    """Also where one of that name was set aside before."""
    ends = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    names = (path.with_name(f"{path.name}{_MARK}{end}") for end in ends)
    return next(name for name in names if not os.path.lexists(name))


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
