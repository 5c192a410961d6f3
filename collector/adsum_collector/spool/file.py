"""One SQLite file of the spool: numbered signals, and the little state that is true with them."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from adsum_collector.spool.connection import connect, is_damage, is_full, sync_directory
from adsum_collector.spool.directory import Sealed, unlink
from adsum_collector.spool.gaps import Gap, with_gap
from adsum_collector.spool.log import has_all, last_commit
from adsum_collector.spool.schema import Damaged, Meta, create_tables, read_meta, require_ours


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
        newest = connection.execute("SELECT max(seq) FROM signals").fetchone()[0]
        gaps = "SELECT first, last, reason FROM gaps ORDER BY first"
        self.gaps: list[Gap] = connection.execute(gaps).fetchall()
        self.last: int = max(newest or 0, meta.base, *(last for _, last, _ in self.gaps), 0)
        #: How many numbers of its own it lacks, if it was rewritten.
        self.absent = 0
        self.messages: dict[str, int] = {}
        self.state: dict[str, bytes] = {}
        self.size = 0

    @property
    def is_empty(self) -> bool:
        return self.last == self.meta.base

    def sealed(self, size: int, at: float) -> Sealed:
        """What is to be known of it once it is only read. Other gaps are those before it."""
        own = tuple(gap for gap in self.gaps if gap[1] > self.meta.base)
        absent = self.absent or sum(last - first + 1 for first, last, _ in own)
        return Sealed(self.path, self.meta.base + 1, self.last, size, at, own, absent)

    @classmethod
    def create(
        cls,
        path: Path,
        meta: Meta,
        *,
        messages: Mapping[str, int] | None = None,
        state: Mapping[str, bytes] | None = None,
        gaps: Sequence[Gap] = (),
        bodies: Iterable[bytes] = (),
    ) -> SpoolFile:
        """bodies: numbered on from the base, or from the last gap. Complete on disk or absent."""
        start = max([meta.base, *(last for _, last, _ in gaps)]) + 1
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with contextlib.ExitStack() as undo:
            undo.callback(unlink, path)  # as on a full disk, where its name will be needed again
            db = connect(path)
            undo.callback(db.close)
            db.execute("BEGIN IMMEDIATE")
            create_tables(db, meta)
            db.executemany("INSERT INTO messages VALUES (?, ?)", (messages or {}).items())
            db.executemany("INSERT INTO state VALUES (?, ?)", (state or {}).items())
            db.executemany("INSERT INTO gaps VALUES (?, ?, ?)", gaps)
            db.executemany("INSERT INTO signals VALUES (?, ?)", enumerate(bodies, start))
            db.execute("COMMIT")
            sync_directory(path.parent)
            file = cls(path, db, meta)
            file._read_for_writing()
            undo.pop_all()
        return file

    @classmethod
    def open(cls, path: Path) -> SpoolFile:
        """Checked whole, to be written to. Raises Damaged."""
        return cls._open(path, to_write=True)

    @classmethod
    def open_sealed(cls, path: Path) -> SpoolFile:
        """Only to be read: quick, as no page is looked at in advance; without messages, state, size."""
        return cls._open(path, to_write=False)

    @classmethod
    def _open(cls, path: Path, *, to_write: bool) -> SpoolFile:
        with contextlib.ExitStack() as undo:
            try:
                require_ours(path)
                commit = last_commit(path) if to_write else 0
                db = connect(path)
                undo.callback(db.close)
                meta, stored = read_meta(db)
                if not has_all(db, commit):
                    raise Damaged("its log is damaged")
                check = "PRAGMA quick_check"
                if to_write and (verdict := db.execute(check).fetchone()[0]) != "ok":
                    raise Damaged(verdict.replace("*** in database main ***\n", "").splitlines()[0])
                file = cls(path, db, meta)
                file.absent = int(stored.get("absent", 0))
                if to_write:
                    file._read_for_writing()
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    raise Damaged(str(error)) from error
                raise
            undo.pop_all()
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
        """On a full disk in memory only: what is kept here comes again from the hubs.

        Without that, nothing could be published from a full disk, nor acknowledged and deleted.
        """
        with self._if_there_is_space():
            self.write_meta(meta)
        self.meta = meta

    def write_meta(self, meta: Meta) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(
            "UPDATE meta SET value = ? WHERE key = ?",
            ((value, key) for key, value in msgspec.structs.asdict(meta).items()),
        )
        self._db.execute("COMMIT")

    def add_gap(self, gap: Gap) -> None:
        """On a full disk in memory only: what is dropped next makes room to write it down."""
        gaps = with_gap(self.gaps, gap)
        with self._if_there_is_space():
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM gaps")
            self._db.executemany("INSERT INTO gaps VALUES (?, ?, ?)", gaps)
            self._db.execute("COMMIT")
        self.gaps = gaps

    @contextlib.contextmanager
    def _if_there_is_space(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            self.undo()

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

    def copy_to(self, path: Path) -> None:
        self._db.execute("VACUUM INTO ?", (str(path),))

    def undo(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()
