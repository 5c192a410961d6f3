"""What a damaged file, or one that this version does not know, still gives up."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from adsum_collector.spool.connection import connect, connect_to_read, is_damage
from adsum_collector.spool.schema import Meta
from adsum_shared.signals import decode_signal

#: Numbers in a row that give nothing, after which a file whose end nobody knows is given up.
MOST_UNREADABLE = 50_000


def readable(
    db: sqlite3.Connection, after: int, last: int | None
) -> Iterator[tuple[int, bytes] | None]:
    """The rows after `after` in order, around the damage; None for a number that gave nothing.

    last: the file's own last number, if known. Damage may change a body without breaking a page,
    and one body that is no signal would spoil a whole batch for the hub. Raises DatabaseError for
    what is no damage.
    """
    query = "SELECT seq, body FROM signals WHERE seq >= ? ORDER BY seq LIMIT ?"
    most = -1
    unread = 0
    while unread <= MOST_UNREADABLE and (last is None or after < last):
        before = after
        try:
            for seq, body in db.execute(query, (after + 1, most)):
                if seq <= after or (last is not None and seq > last):
                    return
                after, unread = seq, 0
                yield (seq, body) if _is_signal(body) else None
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            if most == 1:
                after, unread = after + 1, unread + 1
                yield None
            # From now on one by one: nobody can tell how far the damage goes, and a cursor that
            # meets it takes the row before it along.
            most = 1
        else:
            if most != 1 or after == before:
                return


class Salvaged:
    """One file's remains. whole: nothing in it was unreadable; known once `bodies` has ended."""

    def __init__(self, path: Path) -> None:
        """Never raises: what cannot be read is not there."""
        self._path = path
        self.whole = False
        self.meta: Meta | None = None
        self.state: dict[str, bytes] = {}
        with contextlib.suppress(sqlite3.Error, OSError), opened(path) as db:
            with contextlib.suppress(sqlite3.Error, msgspec.ValidationError):
                self.meta = msgspec.convert(dict(db.execute("SELECT key, value FROM meta")), Meta)
            rows = db.execute("SELECT key, value FROM state").fetchall()
            self.state = {key: value for key, value in rows if isinstance(value, bytes)}

    def bodies(self, after: int) -> Iterator[bytes]:
        """In order."""
        with contextlib.suppress(sqlite3.Error, OSError), opened(self._path) as db:
            whole = _is_sound(db)
            for row in readable(db, after, None):
                if row is None:
                    whole = False
                else:
                    yield row[1]
            self.whole = whole


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """To read, without a change to the file unless its log has something to say."""
    if not path.is_file():
        raise FileNotFoundError(path)
    log = path.with_name(f"{path.name}-wal")
    has_log = log.is_file() and log.stat().st_size > 0
    with contextlib.closing((connect if has_log else connect_to_read)(path)) as db:
        yield db


def _is_sound(db: sqlite3.Connection) -> bool:
    try:
        return bool(db.execute("PRAGMA quick_check").fetchone()[0] == "ok")
    except sqlite3.DatabaseError:
        return False


def _is_signal(body: object) -> bool:
    if not isinstance(body, bytes):
        return False
    try:
        decode_signal(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
