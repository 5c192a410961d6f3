"""One SQLite file of the spool holds numbered signals, and the little state committed with them."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import msgspec

from adsum_collector.errors import is_damage, is_full
from adsum_shared.private_files import open_private, sync_folder
from adsum_shared.signals import decode_signal

log = logging.getLogger(__name__)

#: The user_version of every file.
VERSION = 1
SCHEMA = """
CREATE TABLE signals (seq INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE messages (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE gaps (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, reason TEXT NOT NULL, at INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""
_TABLES = frozenset({"signals", "messages", "state", "gaps", "meta"})
#: At offset 18 of an SQLite file that is written through a log, as all spool files are.
_HAS_LOG = 2
#: What a burst may leave of the log.
_LOG_LIMIT = 16 << 20
#: The size of a page, the salt of all frames since a reset.
_LOG_HEADER = struct.Struct(">8xI4x8s8x")
_LOG_FRAME = struct.Struct(">4xI8s8x")  # the size of the database if a commit ends here, the salt
#: Numbers in a row that give nothing, after which a damaged file is taken to have ended.
MOST_UNREADABLE = 50_000

Row = tuple[int, bytes]
#: First and last number, both included.
Span = tuple[int, int]
_NOTHING: Mapping[str, Any] = {}

#: A full file of a large spool; a small spool has files of an eighth of its cap, so that the
#: oldest, should it have to go whole, is no great part of it.
MOST_ROTATE_BYTES = 64 << 20
MOST_LOG_BYTES = 4 << 20


class SpoolLimits(msgspec.Struct, frozen=True):
    """retention_s: how long an acknowledged file stays.

    log_bytes: the write-ahead log's size after which SQLite moves it into the file. min_free_bytes,
    min_free_share: refuse while less than the smaller of both is free. Two per cent alone would
    have a disk of a terabyte refuse at 20 GB, and 64 MB alone a small one for ever.
    """

    cap_bytes: int = 512 << 20
    rotate_bytes: int = MOST_ROTATE_BYTES
    retention_s: float = 24 * 3600.0
    min_free_bytes: int = 64 << 20
    min_free_share: float = 0.02
    log_bytes: int = MOST_LOG_BYTES

    @classmethod
    def of(cls, cap_bytes: int, retention_s: float) -> SpoolLimits:
        rotate_bytes = min(MOST_ROTATE_BYTES, cap_bytes // 8)
        log_bytes = min(MOST_LOG_BYTES, rotate_bytes // 4)
        return cls(cap_bytes, rotate_bytes, retention_s, log_bytes=log_bytes)

    def space(self, directory: Path) -> tuple[int, int]:
        """The bytes free on the directory's disk, and how many of them are left to others."""
        usage = shutil.disk_usage(directory)
        return usage.free, min(self.min_free_bytes, int(usage.total * self.min_free_share))


class Damaged(Exception):  # noqa: N818 - what the file is
    """The file cannot be used. unfinished: it was never completed, so nothing was in it."""

    def __init__(self, cause: str, *, unfinished: bool = False) -> None:
        super().__init__(cause)
        self.unfinished = unfinished


class Append(msgspec.Struct, frozen=True, gc=False):
    """What becomes durable together. message_id: the sender's, to recognise its second try.

    state: small values kept under their keys until replaced; None removes one.
    """

    signals: Sequence[bytes]
    message_id: str | None = None
    state: Mapping[str, bytes | None] = {}


class SpoolGap(msgspec.Struct, frozen=True, order=True):
    """Numbers that will never come, and why. at: when they were lost, in ms; 0 if that is unknown.

    A hub that asks again must hear the same time as all others: what began later is whole.
    """

    first: int
    last: int
    reason: str
    at: int = 0

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class Meta(msgspec.Struct):
    """base: the number before the file's first. acked: every hub has this number and all below."""

    spool_id: str
    incarnation: int
    acked: int
    base: int


class SpoolFile:
    """Not safe for two threads at once; the one connection to its file.

    messages, state and size (the bytes of its signals) are those of a file that is written to.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, meta: Meta) -> None:
        self.path, self.meta, self._db = path, meta, db
        self.gaps: list[SpoolGap] = []
        self.last = 0
        self.messages: dict[str, int] = {}
        self.state: dict[str, bytes] = {}
        self.size = 0
        #: state that a full disk had no room for
        self.unwritten: dict[str, bytes | None] = {}
        self._is_written = False

    @classmethod
    def create(
        cls,
        path: Path,
        meta: Meta,
        *,
        messages: Mapping[str, int] | None = None,
        state: Mapping[str, bytes] | None = None,
        gaps: Sequence[SpoolGap] = (),
        rows: Iterable[Row] = (),
    ) -> SpoolFile:
        """Complete on disk or absent."""
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with contextlib.ExitStack() as undo:
            undo.callback(unlink, path)  # as on a full disk, where its name will be needed again
            db = connect(path)
            undo.callback(db.close)
            db.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.executemany("INSERT INTO meta VALUES (?, ?)", msgspec.structs.asdict(meta).items())
            db.executemany("INSERT INTO messages VALUES (?, ?)", (messages or {}).items())
            db.executemany("INSERT INTO state VALUES (?, ?)", (state or {}).items())
            given = map(msgspec.structs.astuple, gaps)
            db.executemany("INSERT INTO gaps VALUES (?, ?, ?, ?)", given)
            db.executemany("INSERT INTO signals VALUES (?, ?)", rows)
            db.execute("COMMIT")
            sync_folder(path.parent)
            file = cls.over(path, db, to_write=True)
            undo.pop_all()
        return file

    @classmethod
    def open(cls, path: Path, *, to_write: bool) -> SpoolFile:
        """Raises Damaged.

        A file to write is checked whole. Of a sealed one no page is looked at in advance: that
        takes 100 ms for each, during which no hook could be answered.
        """
        with contextlib.ExitStack() as undo:
            try:
                require_ours(path)
                commit = _last_commit(path) if to_write else 0
                db = connect(path)
                undo.callback(db.close)
                if to_write:
                    _require_sound(db, commit)
                file = cls.over(path, db, to_write=to_write)
                columns = db.execute("SELECT * FROM gaps LIMIT 0").description
                if to_write and len(columns) == 3:  # of 0.1
                    db.execute("ALTER TABLE gaps ADD at INTEGER NOT NULL DEFAULT 0")
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    raise Damaged(str(error)) from error
                raise
            undo.pop_all()
        return file

    @classmethod
    def open_remains(cls, path: Path) -> SpoolFile | None:
        """What a file that cannot be used still gives up; None if that is nothing."""
        try:
            require_ours(path)
            db = connect(path)
        except (Damaged, OSError, sqlite3.Error):
            return None
        file = cls(path, db, Meta("", 0, 0, 0))
        with contextlib.suppress(sqlite3.Error, Damaged):
            file.meta = _read_meta(db)
        with contextlib.suppress(sqlite3.Error):
            rows = db.execute("SELECT key, value FROM state").fetchall()
            file.state = {key: value for key, value in rows if isinstance(value, bytes)}
        return file

    @classmethod
    def over(cls, path: Path, db: sqlite3.Connection, *, to_write: bool = False) -> SpoolFile:
        """On a connection that is there. Raises Damaged, DatabaseError."""
        file = cls(path, db, _read_meta(db))
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise Damaged(
                "a newer version of Adsum has written it: its schema is "
                f"{version}, and this version reads {VERSION}"
            )
        gaps = db.execute("SELECT * FROM gaps ORDER BY first")
        file.gaps = [SpoolGap(*gap) for gap in gaps]
        newest = db.execute("SELECT max(seq) FROM signals").fetchone()[0] or 0
        file.last = max(newest, file.meta.base, *(gap.last for gap in file.gaps), 0)
        if to_write:
            file._is_written = True
            file.messages = dict(db.execute("SELECT id, seq FROM messages ORDER BY seq"))
            file.state = dict(db.execute("SELECT key, value FROM state"))
            total = "SELECT coalesce(sum(length(body) + 24), 0) FROM signals"
            file.size = db.execute(total).fetchone()[0]
        return file

    def insert(self, appends: Sequence[Append]) -> list[int]:
        """One durable transaction; the last number of each append. A known message adds nothing.

        State without a signal is kept in memory while the disk is full.

        Numbers are given out here, by the only writer, rather than by AUTOINCREMENT, whose counter
        would be one more page to write in every commit.
        """
        seq = self.last
        rows: list[Row] = []
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
        self.write(rows, messages, state)
        self.last = seq
        self.size += sum(len(body) + 24 for _, body in rows)
        return numbers

    def write(
        self,
        rows: Sequence[Row] = (),
        messages: Mapping[str, int] = _NOTHING,
        state: Mapping[str, bytes | None] = _NOTHING,
        *,
        meta: Meta | None = None,
        gaps: Sequence[SpoolGap] | None = None,
    ) -> None:
        """One durable transaction.

        Without a signal in it a full disk does not refuse it, or nothing could be published from
        that disk, nor be acknowledged and deleted. Memory holds it then: state is written with the
        next signal, before which none depends on it; hubs give the rest again, and readers find it.
        """
        owed = {**self.unwritten, **state}
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO signals VALUES (?, ?)", rows)
            self._db.executemany("INSERT INTO messages VALUES (?, ?)", messages.items())
            for key, value in owed.items():
                if value is None:
                    self._db.execute("DELETE FROM state WHERE key = ?", (key,))
                else:
                    self._db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))
            if meta is not None:
                fields = msgspec.structs.asdict(meta).items()
                self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", fields)
            if gaps is not None:
                self._db.execute("DELETE FROM gaps")
                given = map(msgspec.structs.astuple, gaps)
                self._db.executemany("INSERT INTO gaps VALUES (?, ?, ?, ?)", given)
            self._db.execute("COMMIT")
            self.unwritten = {}
        except sqlite3.Error as error:
            if rows or not is_full(error):
                raise
            self.undo()
            self.unwritten = owed
        self.meta = meta or self.meta
        self.gaps = self.gaps if gaps is None else list(gaps)
        self.messages |= messages
        if any(self.state.get(key) != value for key, value in state.items()):
            self.state = {k: v for k, v in {**self.state, **state}.items() if v is not None}

    def probe(self) -> None:
        """Writes what is there already. Raises sqlite3.Error, on a full disk as well."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("UPDATE meta SET value = value")
        self._db.execute("COMMIT")

    def rows(self, after: int = 0, limit: int = -1) -> list[Row]:
        """The first `limit` rows after `after`; of a sealed file around whatever damage there is.

        Of one that is written nothing can be believed then, and DatabaseError says so.
        """
        query = "SELECT seq, body FROM signals WHERE seq > ? ORDER BY seq LIMIT ?"
        try:
            return self._db.execute(query, (after, limit)).fetchall()
        except sqlite3.DatabaseError as error:
            if self._is_written or not is_damage(error):
                raise
            log.warning("%s is damaged (%s); it is read around that", self.path, error)
            return list(islice(self.readable(after), limit if limit >= 0 else None))

    def readable(self, after: int) -> Iterator[Row]:
        """Row by row: nobody can tell how far damage goes, and a cursor that meets it stops.

        Damage may change a body without breaking a page, and one body that is no signal would spoil
        a whole batch for the hub. Raises DatabaseError for what is no damage.
        """
        unread = 0
        for seq in count(after + 1):
            try:
                row = self._db.execute("SELECT body FROM signals WHERE seq = ?", (seq,)).fetchone()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                row = None
            if row and _is_signal(row[0]):
                unread = 0
                yield seq, row[0]
            elif (unread := unread + 1) > MOST_UNREADABLE:
                return

    def checkpoint(self) -> None:
        """Moves the log's pages into the file, so that the log is written from its start again."""
        self._db.execute("PRAGMA wal_checkpoint(RESTART)")

    def roll_out_log(self, size: int) -> None:
        """Grows the log file to `size` bytes before anybody waits for it, and has it moved at that.

        To overwrite allocated blocks takes half the time of appending: no file size, no block map
        to be synced with the data. SQLite takes the log to end where the zeros begin. No space for
        that is no matter.
        """
        if size:
            self._db.execute(f"PRAGMA wal_autocheckpoint = {size // 4096}")
            with contextlib.suppress(OSError), log_of(self.path).open("ab") as file:
                file.write(bytes(max(0, size - file.tell())))
                file.flush()
                os.fsync(file.fileno())

    def undo(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()


def with_gap(gaps: Sequence[SpoolGap], gap: SpoolGap) -> list[SpoolGap]:
    """What has a reason already keeps it; neighbours with one reason become one."""
    covered = [(each.first, each.last) for each in sorted(gaps)]
    spans = left_of(gap.first - 1, covered, gap.last)
    added = (SpoolGap(*span, gap.reason, gap.at) for span in spans)
    joined: list[SpoolGap] = []
    for each in sorted([*gaps, *added]):
        before = joined[-1] if joined else None
        if before and before.reason == each.reason and before.last + 1 == each.first:
            joined[-1] = SpoolGap(before.first, each.last, each.reason, max(before.at, each.at))
        else:
            joined.append(each)
    return joined


def left_of(acked: int, without: Sequence[Span], last: int) -> Iterator[Span]:
    """The numbers above `acked` and up to `last` that are not in the spans, which are in order."""
    after = acked
    for first, end in (*without, (last + 1, last + 1)):
        if min(first - 1, last) > after:
            yield after + 1, min(first - 1, last)
        after = max(after, end)


def find_gap(gaps: Iterable[SpoolGap], seq: int) -> SpoolGap | None:
    return next((gap for gap in gaps if gap.first <= seq <= gap.last), None)


def connect(path: Path) -> sqlite3.Connection:
    """One connection per file, so no shared-memory index and no lock calls: raises DatabaseError.

    The log is checkpointed by us, outside the commits that a sender waits for.
    """
    try:
        os.close(open_private(path, os.O_RDWR))  # SQLite itself follows links
    except OSError as error:
        raise sqlite3.OperationalError(str(error)) from error
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        require_log(db)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT}")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def require_log(db: sqlite3.Connection) -> None:
    """SQLite keeps the mode it has, without an error, where the disk refuses the change."""
    if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise sqlite3.OperationalError("the disk takes no write-ahead log")


def require_ours(path: Path) -> None:
    """Raises Damaged for what is no spool file, before it is opened to be written.

    SQLite would wait for a pipe, and turn another program's database into one with a log.
    """
    if not path.is_file():
        raise Damaged("it is no plain file" if os.path.lexists(path) else "it is gone")
    with path.open("rb") as file:
        head = file.read(100)
    if head and (len(head) < 100 or not head.startswith(b"SQLite format 3\0")):
        raise Damaged("it is no database")
    if head and head[18] != _HAS_LOG:
        raise Damaged("it is another program's database")


def _read_meta(db: sqlite3.Connection) -> Meta:
    """Raises Damaged, DatabaseError."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    if not tables:
        raise Damaged("it was never finished", unfinished=True)
    if not tables >= _TABLES:
        raise Damaged("it is another program's database")
    try:
        return msgspec.convert(dict(db.execute("SELECT key, value FROM meta")), Meta)
    except msgspec.ValidationError as error:
        raise Damaged(f"it does not say whose numbers it holds: {error}") from error


def _is_signal(body: object) -> bool:
    if not isinstance(body, bytes):
        return False
    try:
        decode_signal(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _last_commit(path: Path) -> int:
    """The log's frame that ends the last commit it holds; 0 if there is none.

    SQLite takes the log to end before its first broken frame, and drops the commits behind it
    without a word. Frames of before the log's last reset bear another salt, those of what was
    taken back no size.
    """
    try:
        with log_of(path).open("rb") as file:
            head = file.read(_LOG_HEADER.size)
            if len(head) < _LOG_HEADER.size:
                return 0
            page_size, salt = _LOG_HEADER.unpack(head)
            found, at = 0, 0
            while len(frame := file.read(_LOG_FRAME.size)) == _LOG_FRAME.size:
                at += 1
                size, its = _LOG_FRAME.unpack(frame)
                if its == salt and size:
                    found = at
                file.seek(page_size, 1)
            return found
    except FileNotFoundError:
        return 0


def _require_sound(db: sqlite3.Connection, commit: int) -> None:
    """commit: what `_last_commit` found before SQLite opened the file. Raises Damaged."""
    if commit:
        try:
            _, frames, _ = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.OperationalError as error:
            if not is_full(error):  # then nobody can tell
                raise
        else:
            if frames < commit:
                raise Damaged("its log is damaged")
    verdict = db.execute("PRAGMA quick_check").fetchone()[0]
    if verdict != "ok":
        raise Damaged(verdict.replace("*** in database main ***\n", "").splitlines()[0])


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def unlink(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def shown_bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
