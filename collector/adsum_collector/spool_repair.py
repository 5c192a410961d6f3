"""The spool's place on disk: its files, their limits, and what crash or bit rot leaves of them."""

from __future__ import annotations

import itertools
import logging
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.spool_file import Damaged, Meta, SpoolFile, salvage

log = logging.getLogger(__name__)


class Limits(msgspec.Struct, frozen=True):
    """retention_s: how long an acknowledged file stays. min_free_bytes: refuse below that.

    log_bytes: the write-ahead log's size after which it is moved into the file.
    """

    cap_bytes: int = 512 << 20
    rotate_bytes: int = 64 << 20
    retention_s: float = 24 * 3600.0
    min_free_bytes: int = 64 << 20
    log_bytes: int = 4 << 20


class Sealed(msgspec.Struct, frozen=True):
    """A full file that is only read. sealed_at: seconds of wall clock."""

    path: Path
    first: int
    last: int
    size: int
    sealed_at: float


def path_of(directory: Path, number: int) -> Path:
    return directory / f"spool-{number:06d}.db"


def number_of(path: Path) -> int:
    return int(path.stem.removeprefix("spool-"))


def open_files(directory: Path) -> tuple[SpoolFile, list[Sealed]]:
    """The file to write and those to read, oldest first. Damage is set aside, never fatal."""
    paths = sorted(directory.glob("spool-*.db"))
    while paths:
        try:
            current = SpoolFile.open(paths[-1])
        except Damaged as damage:
            if not damage.unfinished:
                return _restart(directory, paths, damage), []
            unlink(paths.pop())
        else:
            return current, _open_sealed(paths[:-1], current.meta.spool_id)
    meta = Meta(secrets.token_hex(8), 0, 0, 0)
    return SpoolFile.create(path_of(directory, 1), meta), []


def create_anew(
    path: Path,
    reason: str,
    incarnation: int,
    bodies: Iterable[bytes],
    state: Mapping[str, bytes],
) -> SpoolFile:
    """A new spool_id. Its number 1 is a gap, which tells hubs that something before it is lost."""
    meta = Meta(secrets.token_hex(8), incarnation, 0, 0)
    return SpoolFile.create(path, meta, state=state, gaps=[(1, 1, reason)], bodies=bodies)


def require_space(directory: Path, least: int) -> None:
    """Raises SpoolUnavailable where less than `least` bytes are free."""
    free = shutil.disk_usage(directory).free
    if free < least:
        raise SpoolUnavailable(
            f"only {free >> 20} MB are free where {directory} lies; {least >> 20} MB are kept free"
        )


def unlink(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open_sealed(paths: list[Path], spool_id: str) -> list[Sealed]:
    sealed: list[Sealed] = []
    for path in paths:
        try:
            file = SpoolFile.open_sealed(path)
        except Damaged as damage:
            set_aside(path, damage)
            continue
        file.close()
        if file.meta.spool_id != spool_id:
            unlink(path)  # a new beginning was interrupted after its file was complete
            continue
        stat = path.stat()
        sealed.append(Sealed(path, file.first, file.last, stat.st_size, stat.st_mtime))
    return sealed


def _restart(directory: Path, paths: list[Path], damage: Damaged) -> SpoolFile:
    """The newest file is damaged: its numbers may have been sent, so none may be given again."""
    log.error("a new spool begins, as the newest file is damaged")
    acked = 0
    damages: dict[Path, Exception] = {paths[-1]: damage}
    for path in paths[:-1]:
        try:
            file = SpoolFile.open(path)
        except Damaged as found:
            damages[path] = found
            continue
        file.close()
        acked = max(acked, file.meta.acked)
    bodies = itertools.chain.from_iterable(salvage(path, acked) for path in paths)
    # incarnation 0: unknown, so the publisher takes the one after the stream's
    created = create_anew(path_of(directory, number_of(paths[-1]) + 1), "corrupt", 0, bodies, {})
    for path in paths:
        if path in damages:
            set_aside(path, damages[path])
        else:
            unlink(path)
    return created


def set_aside(path: Path, cause: Exception) -> None:
    log.error("spool file %s is damaged (%s) and set aside as *.corrupt", path, cause)
    for suffix in ("", "-wal"):
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.replace(file.with_name(file.name + ".corrupt"))
    unlink(path)
