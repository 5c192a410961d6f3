"""What the spool finds at its start: its files, and what crash or bit rot has left of them."""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from adsum_collector.spool.aside import Aside
from adsum_collector.spool.directory import (
    Sealed,
    number_of,
    path_of,
    remove_drafts,
    spool_paths,
    unlink,
)
from adsum_collector.spool.file import SpoolFile
from adsum_collector.spool.salvage import Salvaged
from adsum_collector.spool.schema import Damaged, Meta

log = logging.getLogger(__name__)


def open_files(
    directory: Path, aside: Aside, now: float, known: Meta | None = None
) -> tuple[SpoolFile, list[Sealed], dict[Sealed, str]]:
    """The file to write, those to read, oldest first, and why some of those cannot be read.

    known: what was true when they were looked at last. Damage is never fatal. Raises sqlite3.Error and OSError where the disk itself refuses.
    """
    remove_drafts(directory)
    paths = spool_paths(directory)
    while paths:
        try:
            current = SpoolFile.open(paths[-1])
        except Damaged as damage:
            if not damage.unfinished:
                return _restart(paths, damage, aside, now, known), [], {}
            unlink(paths.pop())
        else:
            if known and known.spool_id == current.meta.spool_id:
                current.meta.acked = max(current.meta.acked, min(known.acked, current.last))
            with contextlib.ExitStack() as undo:
                undo.callback(current.close)
                found = current, *_open_sealed(paths[:-1], current)
                undo.pop_all()
            return found
    meta = Meta(secrets.token_hex(8), 0, 0, 0)
    return SpoolFile.create(path_of(directory, 1), meta), [], {}


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


def _open_sealed(paths: list[Path], current: SpoolFile) -> tuple[list[Sealed], dict[Sealed, str]]:
    found: list[Sealed] = []
    causes: dict[Path, str] = {}
    for path in paths:
        try:
            file = SpoolFile.open_sealed(path)
        except Damaged as damage:
            causes[path] = str(damage)
            found.append(_unread(path, found, current.meta.spool_id))
            continue
        file.close()
        stat = path.stat()
        if file.meta.spool_id != current.meta.spool_id:
            unlink(path)  # a new beginning was interrupted after its file was complete
            continue
        found.append(file.sealed(stat.st_size, stat.st_mtime))
    ends = [*(file.first - 1 for file in found), current.meta.base][1:]
    files = [
        msgspec.structs.replace(file, last=max(file.first, end)) if file.path in causes else file
        for file, end in zip(found, ends, strict=True)
    ]
    return files, {file: causes[file.path] for file in files if file.path in causes}


def _unread(path: Path, before: list[Sealed], spool_id: str) -> Sealed:
    """What can be said of a file that cannot be opened; where it ends, the one after it knows."""
    meta = Salvaged(path).meta
    if meta is not None and meta.spool_id == spool_id:
        first = meta.base + 1
    else:
        first = before[-1].last + 1 if before else 1
    stat = path.lstat()
    return Sealed(path, first, first, stat.st_size, stat.st_mtime)


def _restart(
    paths: list[Path], damage: Damaged, aside: Aside, now: float, known: Meta | None
) -> SpoolFile:
    """The newest file is damaged: its numbers may have been sent, so none may be given again."""
    log.error("a new spool begins, as its newest file cannot be used: %s", damage)
    remains = {path: Salvaged(path) for path in paths}
    newest = remains[paths[-1]]
    told = [meta for meta in (*(each.meta for each in remains.values()), known) if meta]
    spool_id = told[-1].spool_id if told else ""
    acked = max((meta.acked for meta in told if meta.spool_id == spool_id), default=0)
    for path, each in list(remains.items()):
        if each.meta and each.meta.spool_id != spool_id:
            unlink(path)  # of before a new beginning, which has all that was to be kept
            del remains[path]
    # incarnation 0: unknown, so the publisher takes the one after the stream's
    created = create_anew(
        path_of(paths[-1].parent, number_of(paths[-1]) + 1),
        "corrupt",
        0,
        itertools.chain.from_iterable(each.bodies(acked) for each in remains.values()),
        newest.state,
    )
    for path, each in remains.items():
        if each is newest:
            aside.take(path, str(damage), 0 if damage.sound and each.whole else None, now)
        elif each.whole:
            unlink(path)
        else:
            aside.take(path, "parts of it cannot be read", None, now)
    return created
