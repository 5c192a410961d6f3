"""One SQLite file of the spool: numbered signals, and the little state that is true with them."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from adsum_collector.spool_connection import connect, sync_directory

_SCHEMA = """
CREATE TABLE signals (seq INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE messages (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE gaps (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""


class Damaged(Exception):  # noqa: N818 - what the file is
    """The file cannot be trusted. `unfinished`: it was never completed, so nothing was in it."""

    def __init__(self, cause: str, *, unfinished: bool = False) -> None:
        super().__init__(cause)
        self.unfinished = unfinished


class Meta(msgspec.Struct):
    """base: the number before the file's first. acked: every hub has this number and all below."""

    spool_id: str
    incarnation: int
    acked: int
    base: int


class Append(msgspec.Struct, frozen=True, gc=False):
    """What becomes durable together. message_id: the sender's, to recognise its second try.

    state: small values kept under their keys until replaced; None removes one.
    """

    signals: Sequence[bytes]
    message_id: str | None = None
    state: Mapping[str, bytes | None] = {}


class SpoolFile:
    """Not safe for two threads at once; the one connection to its file."""

    def __init__(self, path: Path, connection: sqlite3.Connection, meta: Meta) -> None:
        self.path = path
        self.meta = meta
        self._db = connection
        # two queries in one: asked for both at once, SQLite reads the whole file
        ends = "SELECT (SELECT min(seq) FROM signals), (SELECT max(seq) FROM signals)"
        row = connection.execute(ends).fetchone()
        self.first: int = row[0] or meta.base + 1
        gap = connection.execute("SELECT max(last) FROM gaps").fetchone()[0]
        self.last: int = max(row[1] or 0, meta.base, gap or 0)
        self.messages: dict[str, int] = {}
        self.state: dict[str, bytes] = {}
        self.size = 0

    @classmethod
    def create(
        cls,
        path: Path,
        meta: Meta,
        *,
        messages: Mapping[str, int] | None = None,
        state: Mapping[str, bytes] | None = None,
        gaps: Sequence[tuple[int, int, str]] = (),
        bodies: Iterable[bytes] = (),
    ) -> SpoolFile:
        """bodies: numbered on from the base, or from the last gap. Complete on disk or absent."""
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        db = connect(path)
        start = max([meta.base, *(last for _, last, _ in gaps)]) + 1
        db.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        db.executemany("INSERT INTO meta VALUES (?, ?)", msgspec.structs.asdict(meta).items())
        db.executemany("INSERT INTO messages VALUES (?, ?)", (messages or {}).items())
        db.executemany("INSERT INTO state VALUES (?, ?)", (state or {}).items())
        db.executemany("INSERT INTO gaps VALUES (?, ?, ?)", gaps)
        db.executemany("INSERT INTO signals VALUES (?, ?)", enumerate(bodies, start))
        db.execute("COMMIT")
        sync_directory(path.parent)
        file = cls(path, db, meta)
        file._read_for_writing()
        return file

    @classmethod
    def open(cls, path: Path) -> SpoolFile:
        """Checked whole, to be written to. Raises Damaged."""
        return cls._open(path, to_write=True)

    @classmethod
    def open_sealed(cls, path: Path) -> SpoolFile:
        """Only to be read: quick, as no page is looked at beyond what is asked for. Raises Damaged.

        It bears no messages, no state and no size.
        """
        return cls._open(path, to_write=False)

    @classmethod
    def _open(cls, path: Path, *, to_write: bool) -> SpoolFile:
        try:
            db = connect(path)
        except sqlite3.DatabaseError as error:
            raise Damaged(str(error)) from error
        try:
            if to_write and (verdict := db.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
                raise Damaged(verdict)
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                raise Damaged("no tables", unfinished=True)
            meta = msgspec.convert(dict(db.execute("SELECT key, value FROM meta")), Meta)
            file = cls(path, db, meta)
            if to_write:
                file._read_for_writing()
        except Damaged:
            db.close()
            raise
        except (sqlite3.DatabaseError, msgspec.ValidationError) as error:
            db.close()
            raise Damaged(str(error)) from error
        return file

    def _read_for_writing(self) -> None:
        self.messages = dict(self._db.execute("SELECT id, seq FROM messages ORDER BY seq"))
        self.state = dict(self._db.execute("SELECT key, value FROM state"))
        total = "SELECT coalesce(sum(length(body) + 24), 0) FROM signals"
        self.size = self._db.execute(total).fetchone()[0]

    def insert(self, appends: Sequence[Append]) -> list[int]:
        """One durable transaction; the last number of each append. A known message adds nothing.

        Numbers are given out here, by the only writer, rather than by AUTOINCREMENT, whose counter
        would be one more page to write in every commit.
        """
        seq = self.last
        rows: list[tuple[int, bytes]] = []
        messages: dict[str, int] = {}
        state: dict[str, bytes | None] = {}
        numbers: list[int] = []
        for append in appends:
            known = append.message_id and (
                messages.get(append.message_id) or self.messages.get(append.message_id)
            )
            if known:
                numbers.append(known)
                continue
            for body in append.signals:
                seq += 1
                rows.append((seq, body))
            if append.message_id:
                messages[append.message_id] = seq
            state.update(append.state)
            numbers.append(seq)
        self._write(rows, messages, state)
        self.last = seq
        self.size += sum(len(body) + 24 for _, body in rows)
        self.messages |= messages
        if any(self.state.get(key) != value for key, value in state.items()):
            self.state = {k: v for k, v in (self.state | state).items() if v is not None}
        return numbers

    def _write(
        self,
        rows: list[tuple[int, bytes]],
        messages: Mapping[str, int],
        state: Mapping[str, bytes | None],
    ) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT INTO signals VALUES (?, ?)", rows)
        if messages:
            self._db.executemany("INSERT INTO messages VALUES (?, ?)", messages.items())
        for key, value in state.items():
            if value is None:
                self._db.execute("DELETE FROM state WHERE key = ?", (key,))
            else:
                self._db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))
        self._db.execute("COMMIT")

    def remember(self, meta: Meta) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(
            "UPDATE meta SET value = ? WHERE key = ?",
            ((value, key) for key, value in msgspec.structs.asdict(meta).items()),
        )
        self._db.execute("COMMIT")
        self.meta = meta

    def gaps(self) -> list[tuple[int, int, str]]:
        return self._db.execute("SELECT first, last, reason FROM gaps ORDER BY first").fetchall()

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return self._db.execute(
            "SELECT seq, body FROM signals WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
        ).fetchall()

    def checkpoint(self) -> None:
        """Moves the log's pages into the file, so that the log is written from its start again."""
        self._db.execute("PRAGMA wal_checkpoint(RESTART)")

    def roll_out_log(self, size: int) -> None:
        """Grows the log file to `size` bytes before anybody waits for it.

        To overwrite allocated blocks takes half the time of appending: no file size, no block map
        to be synced with the data. A change too big for the cache spills into the log and is then
        taken back. No space for that is no matter.
        """
        if not size:
            return
        with contextlib.suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA cache_size = 20")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT INTO signals VALUES (?, zeroblob(?))", (1 << 62, size))
        self.undo()
        self._db.execute("PRAGMA cache_size = -2000")

    def undo(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()


def salvage(path: Path, after: int) -> Iterator[bytes]:
    """The bodies above `after` that a damaged file still gives up, in order."""
    # What lies behind the damage is what the gap record stands for.
    with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(connect(path)) as db:
        rows = db.execute("SELECT body FROM signals WHERE seq > ? ORDER BY seq", (after,))
        yield from (body for (body,) in rows if isinstance(body, bytes))
