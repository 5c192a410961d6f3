"""Reads what is new in OpenCode's database, and writes nothing: neither into it nor beside it.

It is opened for one look at a time, for reading alone, with no lock that anybody could wait for. Where
OpenCode has it open, what others wrote is found by the index that is shared; where nobody has, and it is
whole, it is read as a file that does not change.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

#: Rows of one session that are read at one look, the latest; and the bytes of one above which it is left out.
MOST_ROWS: Final = 4_000
MOST_BYTES: Final = 1 << 20

Stamp = tuple[tuple[int, int], ...]


class Row(NamedTuple):
    """One event. kind: as `message.updated.1`."""

    session: str
    seq: int
    kind: str
    data: bytes


class Described(NamedTuple):
    """What a session says of itself. parent: whose subagent it is, or "". created, updated: ms."""

    session: str
    directory: str
    title: str
    created: int
    updated: int
    parent: str


class ModelTotal(NamedTuple):
    """What a session used up on one day of one model. cost: dollars, as OpenCode counts them."""

    session: str
    day: str
    model: str
    messages: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    latest: int


def stamp_of(path: Path) -> Stamp:
    """Of the file and of what was written since it was made whole; () if it is not there."""
    found = []
    for each in (path, _wal(path)):
        with contextlib.suppress(OSError):
            stat = each.stat()
            found.append((stat.st_mtime_ns, stat.st_size))
    return tuple(found)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Raises sqlite3.Error.

    (Rejected: `mode=ro` alone. It may write the shared index, or make one.)
    """
    how = "mode=ro&readonly_shm=1" if _wal(path).exists() else "mode=ro&immutable=1"
    uri = f"file:{quote(str(path))}?{how}"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=0)) as database:
        yield database


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def sequences(database: sqlite3.Connection) -> dict[str, int]:
    """The number of each session's last event."""
    return dict(database.execute("SELECT aggregate_id, seq FROM event_sequence"))


def events(database: sqlite3.Connection, session: str, after: int) -> Iterator[Row]:
    """Those that follow a number; none twice, and none that is too large to be read."""
    asked = (
        "SELECT seq, type, CAST(data AS BLOB) FROM event"
        " WHERE aggregate_id = ? AND seq > ? AND length(data) <= ? ORDER BY seq"
    )
    for seq, kind, data in database.execute(asked, (session, after, MOST_BYTES)):
        yield Row(session, seq, str(kind), bytes(data))


def sessions_of(database: sqlite3.Connection, since: int) -> list[Described]:
    """Those that were changed since then, ms."""
    asked = (
        "SELECT id, directory, title, time_created, time_updated, coalesce(parent_id, '')"
        " FROM session WHERE time_updated >= ? ORDER BY time_updated"
    )
    return [Described(*row) for row in database.execute(asked, (since,))]


_TOTALS: Final = """
SELECT coalesce(s.parent_id, s.id), date(m.time_created / 1000, 'unixepoch', 'localtime') AS day,
       coalesce(json_extract(m.data, '$.modelID'), ''), count(*),
       total(json_extract(m.data, '$.tokens.input')),
       total(json_extract(m.data, '$.tokens.output')) + total(json_extract(m.data, '$.tokens.reasoning')),
       total(json_extract(m.data, '$.tokens.cache.read')),
       total(json_extract(m.data, '$.tokens.cache.write')),
       total(json_extract(m.data, '$.cost')), max(m.time_created)
FROM message m JOIN session s ON s.id = m.session_id
WHERE coalesce(s.parent_id, s.id) IN
      (SELECT coalesce(parent_id, id) FROM session WHERE time_updated >= ?)
  AND json_valid(m.data) AND json_extract(m.data, '$.role') = 'assistant'
GROUP BY 1, 2, 3
"""


def totals(database: sqlite3.Connection, since: int) -> list[ModelTotal]:
    """All that sessions used up that were changed since then, ms; a subagent's is its session's."""
    return [ModelTotal(*map(_plain, row)) for row in database.execute(_TOTALS, (since,))]


def _plain(value: Any) -> Any:
    """`total` counts in fractions. A cost is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
