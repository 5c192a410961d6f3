"""Reports how full the spool is, what it lacks and what is wrong with it: no contents."""

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from adsum_collector.spool.quarantine import Quarantined, quarantined_in
from adsum_collector.spool.spool_directory import Sealed, SpoolDirectory, spool_paths
from adsum_collector.spool.spool_file import (
    Damaged,
    SpoolFile,
    SpoolGap,
    SpoolLimits,
    connect,
    log_of,
    require_ours,
)
from adsum_shared.signals import decode_signal


class FileStatus(msgspec.Struct, frozen=True):
    """missing: how many of the numbers from first to last are known not to be in it."""

    name: str
    first: int
    last: int
    bytes: int
    missing: int


class SpoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """sent: highest number in the stream, null if only a running collector could tell.

    confirmed: every hub has this number and all below. waiting: how many signals none has
    confirmed. oldest_waiting_ms: age of the first of them. cap, free and reserve are bytes;
    nothing is accepted while less than the reserve is free.
    """

    directory: str
    spool_id: str
    first: int
    last: int
    confirmed: int
    waiting: int
    oldest_waiting_ms: int | None
    files: list[FileStatus]
    bytes: int
    cap: int
    free: int
    reserve: int
    gaps: list[SpoolGap]
    quarantined: list[Quarantined]
    schema: int = 2
    running: bool = True
    sent: int | None = None
    problem: str | None = None


class EmptySpoolError(Exception):
    """No spool file is there, or none that can be read. The text says which."""


def status_of(files: SpoolDirectory) -> SpoolStatus:
    """Raises SpoolUnavailable."""
    with files.trusted():
        after = files.meta.acked
        while isinstance(found := files.read(after, 1, 0), SpoolGap):
            after = found.last
        oldest = found.bodies[0] if found else None
        return _status(files.current, files.sealed, oldest, files.limits, files.now())


def offline_status(directory: Path, limits: SpoolLimits, now: float) -> SpoolStatus:
    """How the spool stands while no collector runs: not a byte of its files changes.

    now: seconds of wall clock. Raises EmptySpoolError, OSError, sqlite3.Error.
    """
    sealed: list[Sealed] = []
    faults: list[str] = []
    current: SpoolFile | None = None
    oldest: bytes | None = None
    with contextlib.ExitStack() as opened:
        for path in reversed(spool_paths(directory)):
            try:
                file = opened.enter_context(_readable(path))
            except (Damaged, sqlite3.DatabaseError) as damage:
                if not (isinstance(damage, Damaged) and damage.unfinished):
                    faults.append(f"{path.name} cannot be used: {damage}.")
                continue
            if current is None:
                current = file
            elif file.meta.spool_id == current.meta.spool_id:
                sealed.insert(0, Sealed.of(file))
            rows = list(file.rows(max(current.meta.acked, file.meta.base), 1))
            oldest = rows[0][1] if rows else oldest
        if current is None:
            raise EmptySpoolError(" ".join(faults) or "There is none yet.")
        status = _status(current, sealed, oldest, limits, now)
    return msgspec.structs.replace(status, running=False, problem=" ".join(faults) or None)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[SpoolFile]:
    """Raises Damaged, sqlite3.Error, OSError.

    What a killed collector has left in the log can only be seen by who may write: so in a copy.
    """
    require_ours(path)
    log = log_of(path)
    with contextlib.ExitStack() as opened:
        if log.exists() and log.stat().st_size:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="adsum-")))
            shutil.copyfile(log, folder / log.name)
            db = connect(Path(shutil.copyfile(path, folder / path.name)))
        else:
            uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
            db = sqlite3.connect(uri, uri=True, isolation_level=None)
        opened.callback(db.close)
        yield SpoolFile.over(path, db)


def _status(
    current: SpoolFile,
    sealed: Sequence[Sealed],
    oldest: bytes | None,
    limits: SpoolLimits,
    now: float,
) -> SpoolStatus:
    """oldest: the first signal that waits."""
    directory, acked = current.path.parent, current.meta.acked
    files = [*sealed, Sealed.of(current)]
    free, reserve = limits.space(directory)
    return SpoolStatus(
        directory=str(directory),
        spool_id=current.meta.spool_id,
        first=files[0].first,
        last=current.last,
        confirmed=acked,
        waiting=current.last - acked - _missing(current.gaps, acked + 1, current.last),
        oldest_waiting_ms=_age(oldest, int(now * 1000)),
        files=[
            FileStatus(
                f.path.name, f.first, f.last, f.bytes, _missing(current.gaps, f.first, f.last)
            )
            for f in files
        ],
        bytes=sum(file.bytes for file in files),
        cap=limits.cap_bytes,
        free=free,
        reserve=reserve,
        gaps=current.gaps,
        quarantined=quarantined_in(directory),
    )


def _missing(gaps: Sequence[SpoolGap], first: int, last: int) -> int:
    return sum(max(0, min(last, gap.last) - max(first, gap.first) + 1) for gap in gaps)


def _age(body: bytes | None, now_ms: int) -> int | None:
    if body is None:
        return None
    try:
        return max(0, now_ms - decode_signal(body).seen)
    except (msgspec.DecodeError, RecursionError):
        return None
