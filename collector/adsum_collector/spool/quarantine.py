"""Keeps unusable spool files for a while, with their cause, where nobody reads them."""

import contextlib
import itertools
import logging
import os
from pathlib import Path

import msgspec

from adsum_collector.spool.spool_file import log_of, unlink
from adsum_shared.private_files import write_private

log = logging.getLogger(__name__)

#: So many files are kept, the newest.
MOST_KEPT = 3
#: How long a host's problem names one.
NOTICE_S = 24 * 3600.0

_MARK = ".corrupt"


class Quarantined(msgspec.Struct, frozen=True):
    """was: the file's name before. at: ms of wall clock.

    missing: how many signals no hub has had and none will; None if nobody can tell.
    """

    name: str
    was: str
    at: int
    bytes: int
    cause: str
    missing: int | None

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
                return f"{many:,} signals are missing"


class Quarantine:
    """files: those of the directory, newest first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.files = quarantined_in(directory)

    def take(self, path: Path, cause: str, missing: int | None, now: float) -> None:
        """now: seconds of wall clock. Raises OSError."""
        log.error("spool file %s is damaged (%s) and goes into quarantine", path, cause)
        ends = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
        names = (path.with_name(f"{path.name}{_MARK}{end}") for end in ends)
        to = next(name for name in names if not os.path.lexists(name))
        note = Quarantined(to.name, path.name, int(now * 1000), 0, cause, missing)
        with contextlib.suppress(OSError):  # a full disk; first, as a file without one has no cause
            write_private(_note_of(to), msgspec.json.encode(note), durable=False)
        path.replace(to)
        if log_of(path).exists():
            log_of(path).replace(log_of(to))
        if to.is_file():
            unlink(path)  # its index, if it has one
        # what is no plain file is somebody else's: not ours to delete
        files = quarantined_in(self._directory)
        ours = [self._directory / f.name for f in files if (self._directory / f.name).is_file()]
        for old in ours[MOST_KEPT:]:
            log.warning("%s goes, as newer spool files are in quarantine", old.name)
            unlink(old)
            _note_of(old).unlink(missing_ok=True)
        self.files = quarantined_in(self._directory)

    def notice(self, now: float) -> str | None:
        """What a host's problem says for a day; nothing of files that are gone."""
        recent = [each for each in self.files if 0 <= now - each.at / 1000 < NOTICE_S]
        there = [each for each in recent if (self._directory / each.name).exists()]
        if not there:
            return None
        newest = there[0]
        others = f" So were {len(there) - 1} others." if len(there) > 1 else ""
        return (
            f"The spool file {newest.was} was damaged ({newest.cause}) and quarantined as "
            f"{newest.name}; {newest.loss}. See `adsum collector spool status`.{others}"
        )


def quarantined_in(directory: Path) -> list[Quarantined]:
    """Newest first."""
    found = [
        _read(path)
        for path in directory.glob(f"spool-*.db{_MARK}*")
        if not path.name.endswith((".json", "-wal", "-shm"))
    ]
    return sorted(found, key=lambda each: (each.at, each.name), reverse=True)


def _read(path: Path) -> Quarantined:
    size = sum(part.stat().st_size for part in (path, log_of(path)) if part.is_file())
    try:
        note = msgspec.json.decode(_note_of(path).read_bytes(), type=Quarantined)
    except (OSError, msgspec.DecodeError):
        at, was = int(path.lstat().st_mtime * 1000), path.name.partition(_MARK)[0]
        note = Quarantined(path.name, was, at, 0, "nobody wrote down why", None)
    return msgspec.structs.replace(note, name=path.name, bytes=size)


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
