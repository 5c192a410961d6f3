"""Stores a host's facts, cursor and applied numbers in Redis, by compare-and-set.

The script writes facts and cursor and trims the stream in one step. Without the comparison a hub
that was frozen and thaws would put an old state over a newer one, whose entries are trimmed by
then: up to 98 % of the state was lost so in directed runs.
"""

import asyncio
import logging
import secrets
from collections.abc import Collection, Iterable, Mapping
from importlib.resources import files
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta
from redis.exceptions import ResponseError

from adsum_hub.facts import Facts
from adsum_hub.inbox import MOST_MS, Runs, covers, is_cursor
from adsum_hub.past import packed
from adsum_shared import streams
from adsum_shared.connect import Redis
from adsum_shared.state import GapView

log = logging.getLogger(__name__)

_SCRIPT = files("adsum_hub").joinpath("save.lua").read_text()
#: Sessions decoded or encoded before the loop gets its turn: some milliseconds.
SLICE = 200
#: Fields per reply of a scan.
SCANNED = 500
#: More sessions than that are not put into one script, but whole, bit by bit, into a draft, which
#: then takes the snapshot's place: 100,000 in one command held Redis up for a second, or never got
#: through the client's time-out. (Rejected: a draft that begins as a copy. COPY took as long.)
MOST_AT_ONCE = 1_000
DRAFT_BYTES = 1 << 20
#: A draft whose hub died goes by itself; every bit of it that is written prolongs it.
DRAFT_TTL_MS = 60_000
HEADER = (
    streams.VERSION,
    streams.SCHEMA,
    streams.CURSOR,
    streams.APPLIED,
    streams.RUNS,
    streams.HOST,
)
#: A version of so many digits is none: a script could not count on from it.
_DIGITS = 15


class NewerSchemaError(Exception):
    """A newer version has written it; nothing was changed."""

    def __init__(self, schema: int) -> None:
        super().__init__(schema)
        self.schema = schema


class HostRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hub keeps of a host besides its sessions. last_seen: hub's clock, ms."""

    label: str | None = None
    last_seen: Annotated[int, Meta(ge=0, le=MOST_MS)] = 0
    clock_offset_ms: Annotated[int, Meta(ge=-MOST_MS, le=MOST_MS)] = 0
    gaps: tuple[GapView, ...] = ()


class Snapshot(msgspec.Struct, frozen=True):
    """unreadable: sessions whose facts could not be decoded; they stay in Redis untouched.

    newer: its schema, where this version must not write over it; else 0. aside: sessions that were
    unreadable and have begun anew. problem: why it could not be used, and so is empty.
    """

    version: int = 0
    cursor: str = "0-0"
    applied: dict[str, int] = {}
    host: HostRecord = HostRecord()
    sessions: dict[str, Facts] = {}
    unreadable: tuple[str, ...] = ()
    runs: Runs = {}
    newer: int = 0
    aside: tuple[str, ...] = ()
    problem: str | None = None


class Keep(NamedTuple):
    """What else a save leaves as it is.

    aside: unreadable sessions that are written now; what was there is moved aside first. fields:
    the others that could not be read, and what was moved aside before. above: a version that there
    was, lest one is given twice after Redis has lost some.
    """

    aside: Collection[str] = ()
    fields: Collection[str] = ()
    above: int = 0


class Stored(NamedTuple):
    """version: after a save. behind: the stream's ids begin anew, below the cursor that was saved."""

    version: int
    behind: bool = False


_Numbers = dict[str, Annotated[int, Meta(ge=0, le=streams.MOST_ID)]]
_applied = msgspec.json.Decoder(_Numbers)
_runs = msgspec.json.Decoder(dict[str, _Numbers])
_host = msgspec.json.Decoder(HostRecord)
_facts = msgspec.json.Decoder(Facts)
_encode = msgspec.json.Encoder().encode


def decode_header(fields: Mapping[bytes, bytes]) -> Snapshot:
    """All but the sessions. Total: of a header that makes no sense only the version is kept.

    Everything is replayed then. Its sessions are not taken over without it: nobody could say which
    numbers are in them, and what is folded twice is wrong in ways that do not show.
    """
    version = count_of(fields.get(streams.VERSION.encode(), b""))
    schema = count_of(fields.get(streams.SCHEMA.encode(), b""))
    newer = schema if schema > streams.SCHEMA_NUMBER else 0
    try:
        cursor = fields.get(streams.CURSOR.encode(), b"0-0").decode()
        applied = _applied.decode(fields.get(streams.APPLIED.encode(), b"{}"))
        runs = _runs.decode(fields.get(streams.RUNS.encode(), b"{}"))
        host = _host.decode(fields.get(streams.HOST.encode(), b"{}"))
    except (ValueError, RecursionError) as error:
        return Snapshot(version=version, newer=newer, problem=str(error)[:200])
    if not is_cursor(cursor):
        cursor = "0-0"  # what is read again is known by its numbers
    return Snapshot(version, cursor, applied, host, runs=runs, newer=newer)


def decode_facts(value: bytes) -> Facts | None:
    """None for what is none."""
    try:
        facts = _facts.decode(value)
    except (ValueError, RecursionError):
        return None
    return packed(facts) if facts.past else facts


def session_of(field: bytes, prefix: str) -> str | None:
    """The session id in a field's name, if the field is of this kind."""
    mark = prefix.encode()
    return field[len(mark) :].decode(errors="replace") if field.startswith(mark) else None


def count_of(raw: bytes | None) -> int:
    """0 for what is no count. Longer ones Python refuses to read."""
    return int(raw) if raw and raw.isdigit() and len(raw) <= _DIGITS else 0


class Saved:
    """What of one machine Redis holds already, what is to be written next, and whether it may be.

    version: of the snapshot last seen. applied, cursor: what it holds. newer: see Snapshot.

    dirty: sessions that have changed since, gone: sessions that are to leave it. unreadable, aside:
    sessions whose facts in it cannot be read, and those that have begun anew for that reason.
    highest: the highest version ever seen; Redis may have lost some.
    """

    def __init__(self) -> None:
        self.highest = 0
        self.dirty: set[str] = set()
        self.gone: set[str] = set()
        self.unreadable: set[str] = set()
        self.aside: set[str] = set()
        self._see(Snapshot())

    def adopt(self, snapshot: Snapshot) -> None:
        self._see(snapshot)
        self.unreadable = set(snapshot.unreadable)
        self.aside = set(snapshot.aside)
        self.dirty.clear()
        self.gone.clear()

    def is_due(self, applied: Mapping[str, int], cursor: str) -> bool:
        """A hub that is behind the stored snapshot never writes.

        Entries it has not read may be trimmed already, so its older cursor would lose them for
        everyone. The cursor alone is worth writing: what was set aside is not to be read again, and
        a collector waits for it to know what became of its entries.
        """
        if self.newer or not covers(applied, self.applied):
            return False
        return bool(self.dirty or self.gone) or applied != self.applied or cursor != self.cursor

    def change(self, changed: Collection[str]) -> None:
        self.dirty |= set(changed)
        self.gone -= set(changed)

    def drop(self, sessions: Collection[str]) -> None:
        self.gone |= set(sessions)
        self.dirty -= set(sessions)
        self.unreadable -= set(sessions)
        self.aside -= set(sessions)

    def take(self) -> tuple[set[str], set[str]]:
        """What the next save writes and what it removes. Given back with `refused`, if it fails."""
        dirty, self.dirty = self.dirty, set()
        gone, self.gone = self.gone, set()
        return dirty, gone

    def keep(self, dirty: Collection[str]) -> Keep:
        aside = self.unreadable & set(dirty)
        fields = [streams.SESSION + key for key in self.unreadable - aside]
        fields += [streams.ASIDE + key for key in self.aside]
        # Redis has lost versions: another hub may have given higher ones than we have seen.
        unseen = secrets.randbelow(1 << 32) if self.version < self.highest else 0
        return Keep(sorted(aside), sorted(fields), self.highest + unseen)

    def written(self, version: int, header: Snapshot, kept: Collection[str]) -> None:
        self.version = version
        self.highest = max(self.highest, version)
        self.applied = header.applied
        self.cursor = header.cursor
        self.unreadable -= set(kept)
        self.aside |= set(kept)

    def refused(
        self, dirty: Collection[str], gone: Collection[str], present: Collection[str]
    ) -> None:
        self.dirty |= set(dirty)
        self.gone |= {key for key in gone if key not in present}

    def overtaken(
        self, stored: Snapshot, applied: Mapping[str, int], present: Collection[str]
    ) -> None:
        """Another hub has written, or Redis was set back. Its fold is ours: who is ahead matters."""
        rolled_back = not covers(stored.applied, self.applied)
        self._see(stored)
        if rolled_back:
            # Redis has lost its tail: what we wrote since is gone there, so write it all again.
            self.dirty = set(present)
        elif covers(stored.applied, applied):
            self.dirty.clear()

    def _see(self, stored: Snapshot) -> None:
        self.version = stored.version
        self.highest = max(self.highest, stored.version)
        self.applied = dict(stored.applied)
        self.cursor = stored.cursor
        self.newer = stored.newer


async def load_header(redis: Redis, host_id: str) -> Snapshot:
    """All but the sessions."""
    try:
        found: Any = await redis.hmget(streams.snapshot(host_id), list(HEADER))
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        # One host's key: it must not end the reading of all others, over and over.
        return Snapshot(problem="its key is of another type")
    pairs = zip(HEADER, found, strict=True)
    return decode_header({name.encode(): value for name, value in pairs if value is not None})


async def load_snapshot(redis: Redis, host_id: str) -> Snapshot:
    """Of one moment. The loop has its turn while it is decoded."""
    fields = await _fields(redis, streams.snapshot(host_id))
    header = decode_header(fields)
    if header.problem is not None:
        log.warning("header of the snapshot of %s unreadable: %s", host_id, header.problem)
        return header
    sessions: dict[str, Facts] = {}
    unreadable: list[str] = []
    aside: list[str] = []
    for count, (field, value) in enumerate(fields.items(), 1):
        if count % SLICE == 0:
            await asyncio.sleep(0)
        if (kept := session_of(field, streams.ASIDE)) is not None:
            aside.append(kept)
        if (session_id := session_of(field, streams.SESSION)) is None:
            continue
        facts = decode_facts(value)
        if facts is None:
            log.warning("facts of session %.40r of %s unreadable", session_id, host_id)
            unreadable.append(session_id)
        else:
            sessions[session_id] = facts
    return msgspec.structs.replace(
        header, sessions=sessions, unreadable=tuple(unreadable), aside=tuple(aside)
    )


async def _fields(redis: Redis, key: str) -> dict[bytes, bytes]:
    """In slices: HGETALL of 100,000 sessions holds Redis up for half a second."""
    scan: Any = redis.hscan
    cursor, found = await scan(key, 0, count=SCANNED)
    if cursor == 0:
        return dict(found)  # one reply, so of one moment
    version = await redis.hget(key, streams.VERSION)
    fields: dict[bytes, bytes] = {}
    cursor = -1
    while cursor:
        cursor, found = await scan(key, max(0, cursor), count=SCANNED)
        fields |= found
    if version == await redis.hget(key, streams.VERSION):
        return fields
    # Another hub has written meanwhile, so these are of several moments.
    whole: Any = await redis.hgetall(key)
    return dict(whole)


async def save_snapshot(
    redis: Redis,
    host_id: str,
    header: Snapshot,
    dirty: Mapping[str, Facts],
    gone: Iterable[str],
    *,
    keep: Keep = Keep(),  # noqa: B008 - immutable
    whole: Mapping[str, Facts] | None = None,
) -> Stored | None:
    """None when another hub has written since `header.version`. Raises NewerSchemaError.

    whole: all sessions there are, of the header's moment, where there are too many dirty ones.
    """
    draft = "" if whole is None else streams.draft(host_id, secrets.token_hex(4))
    if whole is not None:
        try:
            await _draw_up(redis, draft, whole)
        except ResponseError:
            # Out of memory, perhaps: what is drawn up by then would keep everybody else from it.
            await redis.unlink(draft)
            raise
    drawn_up = draft or streams.draft(host_id, "")
    keys = streams.snapshot(host_id), streams.inbox(host_id), drawn_up, streams.stored(host_id)
    words = _words(header, {} if draft else dirty, gone, keep, draft)
    answer: Any = await redis.eval(_SCRIPT, len(keys), *keys, *words)
    if answer[0] == 1:
        return Stored(int(answer[1]), behind=bool(answer[2]))
    if draft:
        await redis.unlink(draft)
    if answer[0] == -1:
        raise NewerSchemaError(int(answer[1]))
    return None


def _words(
    header: Snapshot, dirty: Mapping[str, Facts], gone: Iterable[str], keep: Keep, draft: str
) -> list[Any]:
    """The script's arguments; see there."""
    pairs = [(streams.SESSION + key, _encode(facts)) for key, facts in dirty.items()]
    moved = [(streams.SESSION + key, streams.ASIDE + key) for key in keep.aside]
    if draft:
        moved += [(field, field) for field in keep.fields]
    own = (header.version, header.cursor, *map(_encode, (header.applied, header.host, header.runs)))
    counts = "draft" if draft else "", len(pairs), len(moved)
    words = (word for pair in (*pairs, *moved) for word in pair)
    ended = (prefix + key for key in gone for prefix in (streams.SESSION, streams.ASIDE))
    return [*own, streams.SCHEMA_NUMBER, keep.above, *counts, *words, *ended]


async def _draw_up(redis: Redis, draft: str, whole: Mapping[str, Facts]) -> None:
    """Write the sessions beside the snapshot; the script puts the whole in its place at once.

    Until then nothing refers to it: a hub that dies over this has changed nothing.
    """
    fields: list[Any] = []
    size = 0
    for count, (session_id, facts) in enumerate(whole.items(), 1):
        value = _encode(facts)
        size += len(value)
        fields += (streams.SESSION + session_id, value)
        if count % SLICE == 0:
            await asyncio.sleep(0)
        if size >= DRAFT_BYTES or count == len(whole):
            # both at once, or a hub that dies in between leaves it for ever
            more = redis.pipeline()
            more.hset(draft, items=fields)
            more.pexpire(draft, DRAFT_TTL_MS)
            await more.execute()
            fields, size = [], 0
