"""The ledger keeps how far every transcript was read, every message once, and what is not sent yet.

Kept in SQLite, written by two processes: a worker that reads the history and the collector that
follows what grows. All of it can be had again from the transcripts. Blocks.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from adsum_collector.agents.records import Past, TranscriptFile, UsageRecord
from adsum_collector.errors import is_damage, is_full
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.merge import ROW, Kinds, Merge, UsageGroup, UsageSource
from adsum_collector.usage.scan import Scanned, ScanPlace
from adsum_shared.private_files import open_private

NAME: Final = "usage.db"
ASIDE: Final = ".aside"
APPLICATION: Final = 0x61647375
SCHEMA: Final = 1
#: Another process writes for a tenth of a second at most.
BUSY_S: Final = 10.0
#: What a batch of a history changes fits into both.
CACHE_KB: Final = 16_000
LOG_PAGES: Final = 4000

TABLES: Final = """
CREATE TABLE sources (
  id INTEGER PRIMARY KEY, begun INTEGER NOT NULL, session_id TEXT NOT NULL,
  UNIQUE (session_id, begun)
);
CREATE TABLE totals (
  id INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL, day TEXT NOT NULL, model TEXT NOT NULL,
  fast INTEGER NOT NULL, geo TEXT NOT NULL, long INTEGER NOT NULL,
  messages INTEGER NOT NULL DEFAULT 0, input INTEGER NOT NULL DEFAULT 0,
  output INTEGER NOT NULL DEFAULT 0, cache_read INTEGER NOT NULL DEFAULT 0,
  cache_5m INTEGER NOT NULL DEFAULT 0, cache_1h INTEGER NOT NULL DEFAULT 0,
  web_searches INTEGER NOT NULL DEFAULT 0,
  latest INTEGER NOT NULL DEFAULT 0,
  changes INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 0,
  UNIQUE (session_id, day, model, fast, geo, long)
);
CREATE INDEX untold ON totals (id) WHERE changes > told;
CREATE TABLE messages (key INTEGER PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE files (
  path BLOB PRIMARY KEY, session_id TEXT NOT NULL, child INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL, dev INTEGER NOT NULL,
  place BLOB NOT NULL, first INTEGER, first_s INTEGER,
  forked_from TEXT, fork_told INTEGER NOT NULL DEFAULT 1, past INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE told (reader TEXT NOT NULL);
"""


#: What whoever uses a ledger has to expect: the disk, and what it made of what was written.
SQL_ERRORS: Final = (sqlite3.Error, msgspec.DecodeError, struct.error)

#: Kept in one transaction: the more, the cheaper, and the more memory.
BATCH_RECORDS: Final = 20_000
#: Of a file: what is to be told of its session's past besides what it used up.
NO_PAST: Final = 0
PAST_DUE: Final = 1
PAST_TOLD: Final = 2
#: A byte for each remainder: with a million messages, four keys of five are still told apart.
SIEVE_BYTES: Final = 1 << 22
DAY_MS: Final = 24 * 3600 * 1000
_GROUP = "session_id, day, model, fast, geo, long"
_SUMS = "messages, input, output, cache_read, cache_5m, cache_1h, web_searches"
_ADD = ", ".join(f"{name} = {name} + ?" for name in _SUMS.split(", "))

_encode = msgspec.msgpack.Encoder().encode
_decode_place = msgspec.msgpack.Decoder(ScanPlace).decode


class Total(msgspec.Struct, frozen=True, gc=False):
    """latest: ms."""

    group: UsageGroup
    messages: int
    input: int
    output: int
    cache_read: int
    cache_5m: int
    cache_1h: int
    web_searches: int
    latest: int = 0

    @classmethod
    def of(cls, row: Sequence[Any]) -> Total:
        """As it is kept."""
        session_id, day, model, fast, geo, long, *sums = row
        return cls(UsageGroup(session_id, day, model, bool(fast), geo, bool(long)), *sums)


class Untold(msgspec.Struct, frozen=True):
    """To be handed back once it is told. changes: how often it had changed."""

    number: int
    changes: int
    total: Total


class Fork(msgspec.Struct, frozen=True):
    path: str
    session_id: str
    forked_from: str
    begun: int


class FileTurn(msgspec.Struct, frozen=True):
    """What a turn of reading found in a file. stamp: from before.

    past: what its session was about, if that is due to be reported.
    """

    path: bytes  # need not be text
    whose: TranscriptFile
    stamp: Stamp
    scanned: Scanned
    past: Past | None = None

    @property
    def source(self) -> UsageSource:
        """A main file that does not say when it was begun is taken for a copy of all it held at first."""
        place = self.scanned.place
        begun = -(place.held or 0) if place.begun is None else place.begun
        return UsageSource(begun, self.whose.session_id)


class Ledger:
    """zone, limit: see `Kinds`. note: what to tell people of its file."""

    def __init__(self, db: sqlite3.Connection, kinds: Kinds) -> None:
        self._db, self._kinds = db, kinds
        self._numbers = LedgerNumbers(db)
        self._sieve = Sieve(db)
        self.note: str | None = None

    @classmethod
    def open(
        cls, directory: Path, limit: Callable[[str], int | None], zone: tzinfo | None = None
    ) -> Ledger:
        """Raises LedgerError. Everything else here raises sqlite3.Error."""
        db, note = open_ledger(directory)
        ledger = cls(db, Kinds(zone, limit))
        ledger.note = note
        return ledger

    @classmethod
    def in_memory(cls, limit: Callable[[str], int | None], zone: tzinfo | None = None) -> Ledger:
        """To add up once and forget."""
        db = lay_out(sqlite3.connect(":memory:", isolation_level=None))
        ledger = cls(db, Kinds(zone, limit))
        # From Python 3.13 on a connection that nobody has closed is complained of.
        weakref.finalize(ledger, db.close)
        return ledger

    def close(self) -> None:
        self._db.close()

    def stamps(self) -> dict[str, Stamp]:
        """Of all files that were read to their ends."""
        found = self._db.execute("SELECT path, mtime_ns, size, inode, dev FROM files")
        return {os.fsdecode(path): Stamp(*stamp) for path, *stamp in found}

    def place(self, path: bytes) -> ScanPlace | None:
        row = self._db.execute("SELECT place FROM files WHERE path = ?", (path,)).fetchone()
        return _decode_place(row[0]) if row else None

    def places(self) -> dict[bytes, tuple[str, ScanPlace]]:
        """Of all files, with whose they are."""
        found = self._db.execute("SELECT path, session_id, place FROM files")
        return {path: (session, _decode_place(place)) for path, session, place in found}

    def take(self, turns: Sequence[FileTurn], now: int) -> int:
        """All of it or nothing; how many records bore dates that nobody can believe. now: ms."""
        time.tzset()  # a machine that travels has days of another zone from now on
        with self._writing():
            records = [record for turn in turns for record in turn.scanned.records]
            merge = Merge(self._numbers, self._kinds, self._held(records))
            for turn in turns:
                # A clock that was set back must not make all there is unbelievable.
                latest = max(now, turn.stamp.mtime_ns // 1_000_000) + DAY_MS
                merge.add(turn.source, turn.scanned.records, latest)
            self._keep_rows(merge.rows)
            self._db.executemany(
                f"UPDATE totals SET {_ADD}, latest = max(latest, ?), changes = changes + 1"  # noqa: S608 - names of ours
                " WHERE id = ?",
                [(*sums, number) for number, sums in merge.sums.items() if any(sums)],
            )
            firsts = [self._keep(turn) for turn in turns]
            self._find_forks(merge.moved.union(first for first in firsts if first is not None))
        return merge.future

    def _held(self, records: Sequence[UsageRecord]) -> dict[int, bytes]:
        keys = self._sieve.sifted([record.key for record in records])
        return dict(
            self._db.execute(
                "SELECT messages.key, row FROM json_each(?) AS asked CROSS JOIN messages"
                " ON messages.key = asked.value",
                (_as_json(keys),),
            )
        )

    def _keep_rows(self, rows: dict[int, bytes]) -> None:
        """One statement for all, in the order in which they lie on the disk: a third of the time."""
        keys = sorted(rows)
        self._sieve.mark(keys)
        self._db.execute(
            "INSERT OR REPLACE INTO messages SELECT value, substr(?, key * ? + 1, ?)"
            " FROM json_each(?)",
            (b"".join(map(rows.__getitem__, keys)), ROW.size, ROW.size, _as_json(keys)),
        )

    def _keep(self, turn: FileTurn) -> int | None:
        """The file's place. The first message of a main file's records: may be the file's first."""
        stamp, whose, place = turn.stamp, turn.whose, turn.scanned.place
        records = turn.scanned.records if whose.agent_id is None else ()
        first = next((record for record in records if not record.sidechain), None)
        self._db.execute(
            "INSERT INTO files (path, session_id, child, mtime_ns, size, inode, dev, place, first,"
            " first_s, past) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " mtime_ns = excluded.mtime_ns, size = excluded.size, inode = excluded.inode,"
            " dev = excluded.dev, place = excluded.place, first = ifnull(first, excluded.first),"
            " first_s = ifnull(first_s, excluded.first_s),"
            " past = CASE excluded.past WHEN 0 THEN past ELSE excluded.past END",
            (
                turn.path,
                whose.session_id,
                whose.agent_id is not None,
                0 if turn.scanned.more else stamp.mtime_ns,  # there is more, so it is stale
                stamp.size,
                stamp.inode,
                stamp.dev,
                _encode(place),
                first.key if first else None,
                first.at // 1000 if first else None,
                PAST_DUE if turn.past is not None else NO_PAST,
            ),
        )
        return first.key if first else None

    def _find_forks(self, keys: Iterable[int]) -> None:
        """Files that begin with a message of an older session's: of these messages."""
        its = self._db.execute(
            "SELECT path, session_id, place, first_s, row FROM files JOIN messages ON key = first"
            " WHERE child = 0 AND first IN (SELECT value FROM json_each(?))",
            (_as_json(sorted(keys)),),
        ).fetchall()
        for path, session_id, place, first_s, row in its:
            seconds, owner = int.from_bytes(row[:4], "little"), int.from_bytes(row[4:8], "little")
            source, begun = self._numbers.source(owner), abs(_decode_place(place).begun or 0)
            # Gateways that give one id to many messages do not give them one time as well.
            is_copy = source.session_id != session_id and abs(source.begun) != begun
            if is_copy and seconds == first_s:
                self._db.execute(
                    "UPDATE files SET forked_from = ?, fork_told = 0"
                    " WHERE path = ? AND forked_from IS NOT ?",
                    (source.session_id, path, source.session_id),
                )

    def __iter__(self) -> Iterator[Total]:
        for row in self._db.execute(f"SELECT {_GROUP}, {_SUMS}, latest FROM totals"):  # noqa: S608 - names of ours
            yield Total.of(row)

    def __len__(self) -> int:
        """How many messages."""
        return int(self._db.execute("SELECT count(*) FROM messages").fetchone()[0])

    def untold(self, most: int) -> list[Untold]:
        found = self._db.execute(
            f"SELECT id, changes, {_GROUP}, {_SUMS}, latest FROM totals"  # noqa: S608 - names of ours
            " WHERE changes > told AND (messages OR told) LIMIT ?",
            (most,),
        )
        return [Untold(row[0], row[1], Total.of(row[2:])) for row in found]

    def mark_told(self, totals: Iterable[Untold], forks: Iterable[Fork]) -> None:
        """Whatever has changed since stays untold."""
        with self._writing():
            self._db.executemany(
                "UPDATE totals SET told = ? WHERE id = ?",
                [(total.changes, total.number) for total in totals],
            )
            self._db.executemany(
                "UPDATE files SET fork_told = 1 WHERE path = ? AND forked_from = ?",
                [(os.fsencode(fork.path), fork.forked_from) for fork in forks],
            )

    def forks(self) -> list[Fork]:
        """Those not told yet."""
        found = self._db.execute(
            "SELECT path, session_id, forked_from, place FROM files WHERE fork_told = 0"
        )
        return [
            Fork(os.fsdecode(path), session_id, parent, abs(_decode_place(place).begun or 0))
            for path, session_id, parent, place in found
        ]

    def pasts(self) -> list[tuple[str, str]]:
        """Files of which it is due to tell what their sessions were about, and those."""
        found = self._db.execute("SELECT path, session_id FROM files WHERE past = ?", (PAST_DUE,))
        return [(os.fsdecode(path), session_id) for path, session_id in found]

    def mark_pasts(self, paths: Iterable[bytes], past: int) -> None:
        with self._writing():
            its = [(past, path) for path in paths]
            self._db.executemany("UPDATE files SET past = ? WHERE path = ?", its)

    def tell_to(self, reader: str) -> None:
        """Another reader has heard nothing yet, so all of it is to be told again."""
        (known,) = self._db.execute("SELECT max(reader) FROM told").fetchone()
        if known == reader:
            return
        with self._writing():
            self._db.execute("DELETE FROM told")
            self._db.execute("INSERT INTO told VALUES (?)", (reader,))
            if known is not None:
                self._db.execute("UPDATE totals SET told = 0")
                self._db.execute("UPDATE files SET fork_told = 0 WHERE forked_from IS NOT NULL")
                self._db.execute("UPDATE files SET past = ? WHERE past = ?", (PAST_DUE, PAST_TOLD))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._numbers.forget()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def _as_json(keys: Sequence[int]) -> str:
    return msgspec.json.encode(keys).decode()


T = TypeVar("T", UsageSource, UsageGroup)
_TABLE: Final = {UsageSource: "sources", UsageGroup: "totals"}


class LedgerNumbers:
    """Under which sources and groups are kept: looked up once, for they never change.

    Inside a transaction only, and to be forgotten if that fails. Fields of both are columns.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._numbers: dict[UsageSource | UsageGroup, int] = {}
        self._known: dict[tuple[type, int], Any] = {}

    def forget(self) -> None:
        self._numbers.clear()
        self._known.clear()

    def number(self, each: UsageSource | UsageGroup) -> int:
        return self._numbers.get(each) or self._entered(each)

    def source(self, number: int) -> UsageSource:
        return self._found(UsageSource, number)

    def group(self, number: int) -> UsageGroup:
        return self._found(UsageGroup, number)

    def row(self, key: int) -> bytes | None:
        found = self._db.execute("SELECT row FROM messages WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def _entered(self, each: UsageSource | UsageGroup) -> int:
        table, values = _TABLE[type(each)], msgspec.structs.astuple(each)
        names, marks = ", ".join(each.__struct_fields__), ", ".join("?" * len(values))
        self._db.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})", values)  # noqa: S608 - names of ours
        (number,) = self._db.execute(
            f"SELECT id FROM {table} WHERE ({names}) = ({marks})",  # noqa: S608 - as above
            values,
        ).fetchone()
        self._numbers[each], self._known[type(each), number] = number, each
        return int(number)

    def _found(self, kind: type[T], number: int) -> T:
        if (known := self._known.get((kind, number))) is None:
            names = kind.__struct_fields__
            row = self._db.execute(
                f"SELECT {', '.join(names)} FROM {_TABLE[kind]} WHERE id = ?",  # noqa: S608 - as above
                (number,),
            ).fetchone()
            # what is no text is kept as a number
            known = msgspec.convert(dict(zip(names, row, strict=True)), kind, strict=False)
            self._known[kind, number] = known
        return cast(T, known)


class Sieve:
    """Messages that a history tells for the first time are most, and need not be asked for.

    It knows something of a ledger that was empty when first asked for, and as long as no other
    connection writes. What a failed transaction has marked is asked for in vain, no more.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._version: int | None = None
        self._marks: bytearray | None = None

    def sifted(self, keys: list[int]) -> list[int]:
        """Without those that are certainly not held. Inside a transaction only."""
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            is_empty = self._db.execute("SELECT 1 FROM messages").fetchone() is None
            self._version, self._marks = version, bytearray(SIEVE_BYTES) if is_empty else None
        marks, most = self._marks, SIEVE_BYTES - 1
        return keys if marks is None else [key for key in keys if marks[key & most]]

    def mark(self, keys: Iterable[int]) -> None:
        """What is to be held from now on."""
        if (marks := self._marks) is not None:
            most = SIEVE_BYTES - 1
            for key in keys:
                marks[key & most] = 1


class LedgerError(Exception):
    """The ledger cannot be used just now; what it says is for people."""


def open_ledger(directory: Path) -> tuple[sqlite3.Connection, str | None]:
    """And what to tell people, if another had to be set aside for it. Raises LedgerError."""
    path = directory / NAME
    try:
        try:
            return _opened(path), None
        except sqlite3.DatabaseError as error:
            if not is_spoilt(error):
                raise
            set_aside(path)
            return _opened(path), _note(error)
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(sentence(error, directory)) from error


def set_aside(path: Path) -> None:
    """Only the latest is kept. Raises OSError."""
    with suppress(FileNotFoundError):
        path.replace(f"{path}{ASIDE}")
    for rest in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + rest).unlink(missing_ok=True)


def is_spoilt(error: Exception) -> bool:
    """Whether another file would do."""
    if isinstance(error, sqlite3.DatabaseError):
        return is_damage(error)
    return isinstance(error, msgspec.DecodeError | struct.error)


def replace_spoilt(directory: Path, error: Exception) -> str | None:
    """What to tell people."""
    try:
        set_aside(directory / NAME)
    except OSError:
        return None  # tried again, like all that follows
    return _note(error)


def _note(error: Exception) -> str:
    return (
        f"{NAME} could not be read ({error}): it was set aside and usage is added up anew. "
        "Nothing is to be done."
    )


def sentence(error: Exception, directory: Path) -> str:
    """What keeps usage from being added up, and the next step."""
    if is_full(error):
        return f"Usage waits: the disk of {directory} is full. Next: make room."
    return f"Usage waits: {directory / NAME} cannot be written to ({error}). Next: adsum doctor"


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    os.close(open_private(path, os.O_CREAT | os.O_RDWR))  # SQLite itself follows links
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_S)
    try:
        # Not kept for the disk's sake: what a loss of power takes is read again.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        lay_out(db)
    except BaseException:
        db.close()
        raise
    return db


def lay_out(db: sqlite3.Connection) -> sqlite3.Connection:
    """Its tables, if there are none yet. Raises DatabaseError."""
    db.execute("BEGIN IMMEDIATE")
    if not _is_ours(db):
        for statement in TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    db.execute("COMMIT")
    return db


def _is_ours(db: sqlite3.Connection) -> bool:
    """False if there is nothing yet. Raises DatabaseError, as for damage: another file would do."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not application:
        return False
    if application != APPLICATION:
        raise sqlite3.DatabaseError("it was not written by Adsum")
    if schema != SCHEMA:
        raise sqlite3.DatabaseError(
            f"it was written by another version (schema {schema}, not {SCHEMA})"
        )
    return True
