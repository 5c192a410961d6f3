"""How full the spool is, what it lacks and what is wrong with it: counts and names, no contents."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from adsum_collector.spool.aside import SetAside
from adsum_collector.spool.directory import Sealed
from adsum_collector.spool.file import SpoolFile
from adsum_collector.spool.limits import Limits, space_of
from adsum_shared.signals import decode_signal


class FileStatus(msgspec.Struct, frozen=True):
    """missing: how many of the numbers from first to last are not in it."""

    name: str
    first: int
    last: int
    bytes: int
    missing: int


class GapStatus(msgspec.Struct, frozen=True):
    """numbers: how many of those from first to last will never come."""

    first: int
    last: int
    numbers: int
    reason: str


class AsideStatus(msgspec.Struct, frozen=True):
    """at: ms. missing: signals that went with it; null if nobody can tell."""

    name: str
    at: int
    bytes: int
    cause: str
    missing: int | None


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
    gaps: list[GapStatus]
    set_aside: list[AsideStatus]
    schema: int = 1
    running: bool = True
    sent: int | None = None
    problem: str | None = None


def status_of(
    current: SpoolFile,
    sealed: Sequence[Sealed],
    aside: Sequence[SetAside],
    oldest: bytes | None,
    limits: Limits,
    now: float,
) -> SpoolStatus:
    """oldest: the first signal that waits. now: seconds."""
    directory, acked = current.path.parent, current.meta.acked
    files = [*sealed, current.sealed(current.path.stat().st_size, now)]
    earlier = [gap for gap in current.gaps if gap[1] < files[0].first]
    gone = [GapStatus(first, last, last - first + 1, why) for first, last, why in earlier]
    space = space_of(directory, limits)
    return SpoolStatus(
        directory=str(directory),
        spool_id=current.meta.spool_id,
        first=files[0].first,
        last=files[-1].last,
        confirmed=acked,
        waiting=sum(_unconfirmed(file, acked) for file in files),
        oldest_waiting_ms=_age(oldest, int(now * 1000)),
        files=[FileStatus(f.path.name, f.first, f.last, f.size, f.absent) for f in files],
        bytes=sum(file.size for file in files),
        cap=limits.cap_bytes,
        free=space.free,
        reserve=space.kept,
        gaps=gone + [gap for file in files for gap in _gaps_in(file)],
        set_aside=[
            AsideStatus(each.path.name, int(each.at * 1000), each.size, each.cause, each.missing)
            for each in aside
        ],
    )


def _unconfirmed(file: Sealed, acked: int) -> int:
    """What is missing of a file counts as if it were among its last numbers."""
    held = file.last - file.first + 1 - file.absent
    return max(0, min(held, file.last - acked))


def _gaps_in(file: Sealed) -> list[GapStatus]:
    """A file that was rewritten knows how many it lacks, not which."""
    spans = [last - first + 1 for first, last, _ in file.gaps]
    rewritten = sum(spans) != file.absent
    widest = max(range(len(spans)), key=spans.__getitem__, default=0)
    others = sum(spans) - spans[widest] if spans else 0
    return [
        GapStatus(first, last, file.absent - others if rewritten and at == widest else span, why)
        for at, ((first, last, why), span) in enumerate(zip(file.gaps, spans, strict=True))
    ]


def _age(body: bytes | None, now_ms: int) -> int | None:
    if body is None:
        return None
    try:
        return max(0, now_ms - decode_signal(body).seen)
    except (msgspec.DecodeError, RecursionError):
        return None
