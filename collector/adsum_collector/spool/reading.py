"""Reading the spool from a number on, over the borders of files and around what is gone."""

from __future__ import annotations

import msgspec

from adsum_collector.spool.file import SpoolFile
from adsum_collector.spool.gaps import find_gap
from adsum_collector.spool.sealed import SealedFiles


class Rows(msgspec.Struct, frozen=True):
    """Signals numbered `first` onwards, without a hole."""

    first: int
    bodies: list[bytes]


class Missing(msgspec.Struct, frozen=True):
    """Numbers this spool does not hold (any more)."""

    first: int
    last: int
    reason: str


def read_after(
    current: SpoolFile, sealed: SealedFiles, after: int, limit: int, limit_bytes: int
) -> Rows | Missing | None:
    """None at the end. At least one row, however big it is. Raises sqlite3.Error."""
    if after >= current.last:
        return None
    rows = sealed.rows(after, limit)
    if rows is None:
        rows = current.rows(after, limit)
    if not rows or rows[0][0] != after + 1:
        # no row at all: the hole ends where the file ends that should hold it
        last = rows[0][0] - 1 if rows else sealed.last_after(after) or current.last
        return _missing(current, sealed, after + 1, last)
    if rows[-1][0] == after + len(rows):  # without a hole, as nearly always
        bodies = [body for _, body in rows]
        if sum(map(len, bodies)) <= limit_bytes:
            return Rows(after + 1, bodies)
    bodies = []
    for expected, (seq, body) in enumerate(rows, after + 1):
        limit_bytes -= len(body)
        if seq != expected or (bodies and limit_bytes < 0):
            break
        bodies.append(body)
    return Rows(after + 1, bodies)


def first_after(current: SpoolFile, sealed: SealedFiles, after: int) -> bytes | None:
    """The first signal beyond `after` and beyond what is gone. Raises sqlite3.Error."""
    while isinstance(found := read_after(current, sealed, after, 1, 0), Missing):
        after = found.last
    return found.bodies[0] if found else None


def _missing(current: SpoolFile, sealed: SealedFiles, first: int, last: int) -> Missing:
    """Those of them that are gone for one reason."""
    acked = current.meta.acked
    if gap := find_gap(current.gaps, first) or sealed.gap_at(first):
        return Missing(first, min(last, gap[1]), gap[2])
    if first <= acked:
        return Missing(first, min(last, acked), "retention")
    return Missing(first, last, "corrupt")
