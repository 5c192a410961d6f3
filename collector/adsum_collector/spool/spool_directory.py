"""The spool's files as one row of numbers, appended at one end, unlinked at the other; the damaged put aside."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from adsum_collector.errors import SpoolUnavailable, is_full
from adsum_collector.spool.spool_file import (
    Append,
    Damaged,
    Meta,
    Row,
    Span,
    SpoolFile,
    SpoolGap,
    SpoolLimits,
    find_gap,
    left_of,
    log_of,
    shown_bytes,
    unlink,
    with_gap,
)
from adsum_collector.state_dir import make_private
from adsum_shared import Timer
from adsum_shared.private_files import write_private

log = logging.getLogger(__name__)

#: So many files are kept, the newest.
MOST_KEPT = 3
#: How long a host's problem names one.
NOTICE_S = 24 * 3600.0
_MARK = ".corrupt"


class Quarantined(msgspec.Struct, frozen=True):
    """was: the file's name before. at: ms of wall clock.

    missing: how many signals no hub has had and none will; None if nobody can tell.
    """

    name: str
    was: str
    at: int
    bytes: int
    cause: str
    missing: int | None

    @property
    def loss(self) -> str:
        if self.missing is None:
            return "signals may be missing"
        if self.missing == 1:
            return "1 signal is missing"
        return f"{self.missing:,} signals are missing" if self.missing else "nothing is missing"


class Quarantine:
    """files: those of the directory, newest first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.files = quarantined_in(directory)

    def take(self, path: Path, cause: str, missing: int | None, now: float) -> None:
        """now: seconds of wall clock. Raises OSError."""
        log.error("spool file %s is damaged (%s) and goes into quarantine", path, cause)
        ends = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
        names = (path.with_name(f"{path.name}{_MARK}{end}") for end in ends)
        to = next(name for name in names if not os.path.lexists(name))
        note = Quarantined(to.name, path.name, int(now * 1000), 0, cause, missing)
        with contextlib.suppress(OSError):  # a full disk; first, as a file without one has no cause
            write_private(_note_of(to), msgspec.json.encode(note), durable=False)
        path.replace(to)
        if log_of(path).exists():
            log_of(path).replace(log_of(to))
        if to.is_file():
            unlink(path)  # its index, if it has one
        # what is no plain file is somebody else's: not ours to delete
        files = quarantined_in(self._directory)
        ours = [self._directory / f.name for f in files if (self._directory / f.name).is_file()]
        for old in ours[MOST_KEPT:]:
            log.warning("%s goes, as newer spool files are in quarantine", old.name)
            unlink(old)
            _note_of(old).unlink(missing_ok=True)
        self.files = quarantined_in(self._directory)

    def notice(self, now: float) -> str | None:
        """What a host's problem says for a day; nothing of files that are gone."""
        recent = [each for each in self.files if 0 <= now - each.at / 1000 < NOTICE_S]
        there = [each for each in recent if (self._directory / each.name).exists()]
        if not there:
            return None
        newest = there[0]
        others = f" So were {len(there) - 1} others." if len(there) > 1 else ""
        return (
            f"The spool file {newest.was} was damaged ({newest.cause}) and quarantined as "
            f"{newest.name}; {newest.loss}. See `adsum collector spool status`.{others}"
        )


def quarantined_in(directory: Path) -> list[Quarantined]:
    """Newest first."""
    paths = directory.glob(f"spool-*.db{_MARK}*")
    found = [_read(each) for each in paths if not each.name.endswith((".json", "-wal", "-shm"))]
    return sorted(found, key=lambda each: (each.at, each.name), reverse=True)


def _read(path: Path) -> Quarantined:
    size = sum(part.stat().st_size for part in (path, log_of(path)) if part.is_file())
    try:
        note = msgspec.json.decode(_note_of(path).read_bytes(), type=Quarantined)
    except (OSError, msgspec.DecodeError):
        at, was = int(path.lstat().st_mtime * 1000), path.name.partition(_MARK)[0]
        note = Quarantined(path.name, was, at, 0, "nobody wrote down why", None)
    return msgspec.structs.replace(note, name=path.name, bytes=size)


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


#: Seconds between two looks at the free space.
SPACE_CHECK_S = 1.0
#: Between two tries of a disk that fails, the first and the longest pause: each try reads a file
#: through and makes a new one, which a dying disk must not do every second for ever.
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
#: After a pause of this length it is another failure.
CALM_S = 600.0
#: How many message ids a new file inherits: a sender gives up after seconds.
KEPT_MESSAGES = 256

_NAME = re.compile(r"spool-(\d+)\.db")


class Sealed(msgspec.Struct, frozen=True):
    """A full file, which is only read from now on. at: seconds of wall clock."""

    path: Path
    first: int
    last: int
    bytes: int
    at: float

    @classmethod
    def of(cls, file: SpoolFile) -> Sealed:
        stat = file.path.stat()
        return cls(file.path, file.meta.base + 1, file.last, stat.st_size, stat.st_mtime)


class Rows(msgspec.Struct, frozen=True):
    """Signals numbered `first` onwards, without a hole."""

    first: int
    bodies: list[bytes]

    @property
    def last(self) -> int:
        return self.first + len(self.bodies) - 1


class SpoolDirectory:
    """Synchronous, for one caller at a time. now: seconds of wall clock.

    All of it raises SpoolUnavailable, and any call may find the newest file damaged and go on with
    a new spool_id. Opening raises sqlite3.Error and OSError where the disk itself refuses.
    """

    def __init__(self, directory: Path, limits: SpoolLimits, now: Timer) -> None:
        self.directory, self.limits, self.now = directory, limits, now
        self._space_checked_at, self._suspect = float("-inf"), False
        self._before: tuple[Meta, int, Mapping[str, bytes | None]] | None = None
        self._tried_at, self._retry_s = float("-inf"), FIRST_RETRY_S
        make_private(directory)
        self.quarantine = Quarantine(directory)
        self.sealed: list[Sealed] = []
        self._reader: SpoolFile | None = None
        self._open(None)
        self.current.roll_out_log(limits.log_bytes)

    @property
    def meta(self) -> Meta:
        return self.current.meta

    @property
    def last(self) -> int:
        return self.current.last

    @property
    def size(self) -> int:
        return self.current.size + sum(file.bytes for file in self.sealed)

    @property
    def state(self) -> dict[str, bytes]:
        return self.current.state

    @property
    def _now_ms(self) -> int:
        return int(self.now() * 1000)

    @property
    def notice(self) -> str | None:
        return self.quarantine.notice(self.now())

    def commit(self, appends: Sequence[Append]) -> list[int]:
        """The last number of each, on disk when this returns; if it raises, nothing was accepted."""
        with self.trusted():
            if any(append.signals for append in appends):
                self._look_at_disk()
                if self.current.size >= self.limits.rotate_bytes:
                    self._rotate()
            return self.current.insert(appends)

    def read(self, after: int, limit: int, limit_bytes: int) -> Rows | SpoolGap | None:
        """What follows `after`; None at the end. At least one row, however big it is."""
        with self.trusted():
            return self._read(after, limit, limit_bytes)

    def acknowledge(self, seq: int, spool_id: str) -> None:
        """Every hub has `seq` durably: files wholly below it go once they are old enough."""
        with self.trusted():
            if self.meta.spool_id != spool_id:
                return  # it is another spool's number
            acked = min(seq, self.last)
            if acked > self.meta.acked:
                self.current.write(meta=msgspec.structs.replace(self.meta, acked=acked))
            self._drop_acknowledged(self.now() - self.limits.retention_s)

    def set_incarnation(self, incarnation: int) -> None:
        with self.trusted():
            self.current.write(meta=msgspec.structs.replace(self.meta, incarnation=incarnation))

    def begin_anew(
        self,
        reason: str,
        incarnation: int,
        instead_of: str,
        without: Sequence[Span] = (),
        spool_id: str = "",
        state: Mapping[str, bytes | None] | None = None,
        at: int = 0,
    ) -> None:
        """A new spool_id; what no hub has is kept, under new numbers. Number 1 is a gap.

        instead_of: the spool_id whose numbers these are; of another spool nothing is changed.
        without: what hubs have beyond the acknowledged. state: what changes with the spool_id.
        at: the time of that gap where hubs may know it already, in ms.
        """
        with self.trusted():
            if self.meta.spool_id == instead_of:
                self._begin_anew(reason, incarnation, without, spool_id, state, at)

    def probe(self) -> None:
        """Whether something could be written now."""
        with self.trusted():
            self._look_at_disk()
            self.current.probe()

    def close(self) -> None:
        self._close_reader()
        with contextlib.suppress(sqlite3.Error):  # a full disk must not keep us from stopping
            self.current.checkpoint()
        self.current.close()

    # Opening, and what crash or bit rot has left of the files

    def _open(self, known: Meta | None) -> None:
        """Damage is never fatal. known: what was true when the files were looked at last."""
        self.sealed = []
        paths = spool_paths(self.directory)
        while paths:
            try:
                self.current = SpoolFile.open(paths[-1], to_write=True)
            except Damaged as damage:
                if not damage.unfinished:
                    self._salvage(paths, damage, known)
                    return
                unlink(paths.pop())
                continue
            if known and known.spool_id == self.meta.spool_id:
                self.meta.acked = max(self.meta.acked, min(known.acked, self.last))
            try:
                self._open_sealed(paths[:-1])
            except BaseException:
                self.current.close()
                raise
            return
        meta = Meta(secrets.token_hex(8), 0, 0, 0)
        self.current = SpoolFile.create(path_of(self.directory, 1), meta)

    def _open_sealed(self, paths: list[Path]) -> None:
        unusable: list[tuple[Path, Damaged]] = []
        for path in paths:
            try:
                file = SpoolFile.open(path, to_write=False)
            except Damaged as damage:
                unusable.append((path, damage))
                continue
            file.close()
            if file.meta.spool_id == self.meta.spool_id:
                self.sealed.append(Sealed.of(file))
            else:
                unlink(path)  # a new beginning was interrupted after its file was complete
        missing = self._record_holes()
        for path, fault in unusable:
            lost = missing if len(unusable) == 1 else None
            self.quarantine.take(path, str(fault), lost, self.now())

    def _record_holes(self) -> int:
        """Of numbers between the files that no hub has and none will; how many there are."""
        gaps, after = self.current.gaps, self.meta.acked
        for first, last in (*((f.first, f.last) for f in self.sealed), (self.meta.base + 1, 0)):
            if first > after + 1:
                gaps = with_gap(gaps, SpoolGap(after + 1, first - 1, "corrupt", self._now_ms))
            after = max(after, last)
        missing = sum(gap.count for gap in gaps) - sum(gap.count for gap in self.current.gaps)
        if missing:
            self.current.write(gaps=gaps)
        return missing

    def _salvage(self, paths: list[Path], damage: Damaged, known: Meta | None) -> None:
        """The newest file is damaged: its numbers may have been sent, so none may be given again."""
        log.error("a new spool begins, as its newest file cannot be used: %s", damage)
        with contextlib.ExitStack() as opened:
            remains = {path: file for path in paths if (file := SpoolFile.open_remains(path))}
            for file in remains.values():
                opened.callback(file.close)
            metas = [*(file.meta for file in remains.values()), *([known] if known else [])]
            spool_id = next((meta.spool_id for meta in reversed(metas) if meta.spool_id), "")
            acked = max((meta.acked for meta in metas if meta.spool_id == spool_id), default=0)
            # the others are of before a new beginning, which has all that was to be kept
            ours = [file for file in remains.values() if file.meta.spool_id in ("", spool_id)]
            # incarnation 0: unknown, so the publisher takes the one after the stream's
            self.current = SpoolFile.create(
                next_path(paths[-1]),
                Meta(secrets.token_hex(8), 0, 0, 0),
                state=remains[paths[-1]].state if paths[-1] in remains else {},
                gaps=[SpoolGap(1, 1, "corrupt", self._now_ms)],
                rows=enumerate(_salvaged(ours, acked), 2),
            )
        for path in paths:
            if path == paths[-1] or path not in remains:
                cause = str(damage) if path == paths[-1] else "it cannot be opened"
                self.quarantine.take(path, cause, None, self.now())
            else:
                unlink(path)

    def _begin_anew(
        self,
        reason: str,
        incarnation: int,
        without: Sequence[Span] = (),
        spool_id: str = "",
        changes: Mapping[str, bytes | None] | None = None,
        at: int = 0,
    ) -> None:
        state = {**self.current.state, **(changes or {})}
        old = self._begin_file(
            Meta(spool_id or secrets.token_hex(8), incarnation, 0, 0),
            [SpoolGap(1, 1, reason, at or self._now_ms)],
            enumerate(self._unconfirmed(without), 2),
            {key: value for key, value in state.items() if value is not None},
        )
        while self.sealed:
            self._drop_oldest()
        unlink(old.path)

    def _begin_file(
        self,
        meta: Meta,
        gaps: Sequence[SpoolGap],
        rows: Iterable[Row] = (),
        state: Mapping[str, bytes] | None = None,
    ) -> SpoolFile:
        """From now on the next file is the current one. The one before, which is closed."""
        old = self.current
        messages = dict(list(old.messages.items())[-KEPT_MESSAGES:])
        if meta.spool_id != old.meta.spool_id:
            # a sender's second try is still known; its number was another spool's
            messages = dict.fromkeys(messages, 1)
        self.current = SpoolFile.create(
            next_path(old.path),
            meta,
            messages=messages,
            state=old.state if state is None else state,
            gaps=gaps,
            rows=rows,
        )
        old.close()
        self.current.roll_out_log(self.limits.log_bytes)
        return old

    def _unconfirmed(self, without: Sequence[Span]) -> Iterator[bytes]:
        for first, last in left_of(self.meta.acked, without, self.last):
            after = first - 1
            while after < last:
                found = self._read(after, min(1000, last - after), 16 << 20)
                if isinstance(found, Rows):
                    yield from found.bodies
                    after += len(found.bodies)
                else:
                    after = found.last if found else last

    # Reading

    def _read(self, after: int, limit: int, limit_bytes: int) -> Rows | SpoolGap | None:
        first, gaps = after + 1, self.current.gaps
        if first > self.last:
            return None
        if gap := find_gap(gaps, first):
            return msgspec.structs.replace(gap, first=first)
        last = min([self.last, *(gap.first - 1 for gap in gaps if gap.first > first)])
        sealed = next((file for file in self.sealed if file.last >= first), None)
        begins = sealed.first if sealed else self.meta.base + 1
        if first < begins:  # what no hub had is among the gaps
            return SpoolGap(first, min(last, begins - 1), "retention")
        rows = self._file(sealed).rows(after, limit)
        if rows and rows[0][0] == first:
            return _without_hole(rows, limit_bytes)
        last = min(last, rows[0][0] - 1 if rows else sealed.last if sealed else self.last)
        if last > self.meta.acked:
            hole = SpoolGap(max(first, self.meta.acked + 1), last, "corrupt", self._now_ms)
            self.current.write(gaps=with_gap(gaps, hole))
        return SpoolGap(first, last, "corrupt", self._now_ms)

    def _file(self, sealed: Sealed | None) -> SpoolFile:
        """To read from. Raises Damaged, after which all files are looked at anew."""
        if sealed is None:
            return self.current
        if self._reader is None or self._reader.path != sealed.path:
            self._close_reader()
            self._reader = SpoolFile.open(sealed.path, to_write=False)
        return self._reader

    # A failing disk, a full one

    @contextlib.contextmanager
    def trusted(self) -> Iterator[None]:
        """Turns errors of SQLite and of the disk into SpoolUnavailable.

        A full disk refuses and harms nothing. After any other error nobody knows what is on the
        disk, so it is read back before anything else happens.
        """
        try:
            if self._suspect:
                self._require_due()
                self._recover()
                self._suspect, self._before = False, None
            yield
        except (sqlite3.Error, OSError, Damaged) as error:
            self._suspect |= not is_full(error)
            try:
                self.current.undo()
            except sqlite3.Error:
                self._suspect = True
            text = f"{self.directory} cannot be used: {error}"
            if is_full(error):
                text = f"the disk of {self.directory} is full ({error}). Free some space there"
            raise SpoolUnavailable(text) from error

    def _require_due(self) -> None:
        passed = self.now() - self._tried_at
        if 0 <= passed < self._retry_s:
            raise SpoolUnavailable(
                f"{self.directory} failed a moment ago and is tried again in "
                f"{self._retry_s - passed:.0f} s. Look at that disk"
            )
        soon = 0 <= passed < CALM_S
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S) if soon else FIRST_RETRY_S
        self._tried_at = self.now()

    def _recover(self) -> None:
        """Believe only what can be read back, and add nothing to it.

        Pages whose fsync failed may be in memory only, and the next fsync says nothing of them. So
        they are written out anew, and the next commit goes into a file of its own. A try that fails
        midway has opened what is less by then: the next one starts from what was known before both.
        """
        self._before = self._before or (self.meta, self.last, self.current.unwritten)
        known, last, unwritten = self._before
        self.current.close()
        self._close_reader()
        self._open(known)
        if unwritten and self.meta.spool_id == known.spool_id:
            self.current.write(state=unwritten)
        if self.meta.spool_id == known.spool_id and self.last < last:
            self._begin_anew("corrupt", 0)  # or numbers would be given twice
        else:
            self._rotate()

    def _look_at_disk(self) -> None:
        """Once a second."""
        if 0 <= self.now() - self._space_checked_at < SPACE_CHECK_S:
            return
        if not self.current.path.exists():
            # Rejected: a new spool, as hubs may have some of what none has confirmed yet.
            log.error("%s was deleted; what was in it is written again", self.current.path)
            make_private(self.directory)
            self._begin_file(self.meta, self.current.gaps, self.current.rows())
        free, kept = self.limits.space(self.directory)
        if free < kept:
            self._drop_acknowledged(float("inf"))  # what hubs have stays for their comfort only
            free, kept = self.limits.space(self.directory)
        if free < kept:
            raise SpoolUnavailable(
                f"the disk of {self.directory} is full: {shown_bytes(free)} are free, and "
                f"the last {shown_bytes(kept)} are left to others. Free some space there"
            )
        self._space_checked_at = self.now()

    # Rotation, retention, eviction

    def _rotate(self) -> None:
        old = self.current
        old.checkpoint()
        acked, size = self.meta.acked, old.path.stat().st_size
        # of what hubs have, only the gaps inside files that are still there
        oldest = min(acked + 1, self.sealed[0].first if self.sealed else old.meta.base + 1)
        evicted, gaps = self._to_evict(size), [gap for gap in old.gaps if gap.last >= oldest]
        for file in evicted:
            if file.last > acked:
                log.warning("the spool reaches its cap: %s goes", file.path.name)
                first = max(file.first, acked + 1)
                gaps = with_gap(gaps, SpoolGap(first, file.last, "cap", self._now_ms))
        # With the gaps in it, before anything goes: a kill in between leaves none without a reason.
        self._begin_file(msgspec.structs.replace(old.meta, base=old.last), gaps)
        for _ in evicted:
            self._drop_oldest()
        if old.last == old.meta.base:
            unlink(old.path)
        else:
            self.sealed.append(Sealed(old.path, old.meta.base + 1, old.last, size, self.now()))

    def _to_evict(self, growth: int) -> list[Sealed]:
        """The oldest, so that the file which becomes full and the one that begins fit the cap."""
        size = sum(file.bytes for file in self.sealed) + growth + self.limits.rotate_bytes
        evicted: list[Sealed] = []
        for file in self.sealed:
            if size <= self.limits.cap_bytes:
                break
            evicted.append(file)
            size -= file.bytes
        return evicted

    def _drop_acknowledged(self, before: float) -> None:
        while self.sealed and self.sealed[0].last <= self.meta.acked and self.sealed[0].at < before:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._close_reader()
        unlink(self.sealed.pop(0).path)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _salvaged(files: Iterable[SpoolFile], acked: int) -> Iterator[bytes]:
    """The bodies beyond `acked` that can still be read."""
    for file in files:
        with contextlib.suppress(sqlite3.Error, OSError):
            yield from (body for _, body in file.readable(acked))


def _without_hole(rows: list[Row], limit_bytes: int) -> Rows:
    first = rows[0][0]
    bodies: list[bytes] = []
    for expected, (seq, body) in enumerate(rows, first):
        limit_bytes -= len(body)
        if seq != expected or (bodies and limit_bytes < 0):
            break
        bodies.append(body)
    return Rows(first, bodies)


def path_of(directory: Path, number: int) -> Path:
    return directory / f"spool-{number:06d}.db"


def next_path(path: Path) -> Path:
    return path_of(path.parent, int(path.stem.removeprefix("spool-")) + 1)


def spool_paths(directory: Path) -> list[Path]:
    """Oldest first."""
    found = (path for path in directory.iterdir() if _NAME.fullmatch(path.name))
    return sorted(found, key=lambda path: int(path.stem.removeprefix("spool-")))
