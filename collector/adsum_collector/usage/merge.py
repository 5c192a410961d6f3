"""Adds up what sessions used, day by day: every message counts once, however often it is written.

A fork repeats its session's lines in a file of its own and under its own session's id. A message
counts for the session whose file was begun first: see `UsageSource`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from struct import Struct
from typing import Final, Protocol

import msgspec
from msgspec.structs import astuple

from adsum_collector.agents.records import PRIME, UsageRecord, joined

#: Of zones, no offset is finer.
QUARTER_MS: Final = 900_000
#: A message: second, owner, group, five kinds of tokens; the request's id, searches, flags.
ROW: Final = Struct("<8IH2B")
SIDECHAIN: Final = 1
NO_LIMIT: Final = 2**62
FUTURE: Final = "date in the future"


class UsageSource(msgspec.Struct, frozen=True, gc=False):
    """A file of records. begun, ms: when it was; negative: then at the latest, as far as one can tell."""

    begun: int
    session_id: str

    def outranks(self, other: UsageSource, at: int) -> bool:
        """Whether a message that both tell, of that time, is rather this one's."""
        if self.begun > 0 < other.begun:
            return (self.begun, self.session_id) < (other.begun, other.session_id)
        return self._rank(at) < other._rank(at)

    def _rank(self, at: int) -> tuple[int, int, str]:
        """First what was there when the message was said; last what was begun thereafter."""
        begun = self.begun
        if begun > 0:
            return (0 if begun <= at else 2, begun, self.session_id)
        return (1, -begun, self.session_id)


class UsageGroup(msgspec.Struct, frozen=True, gc=False):
    """What is added up by itself. long: prompts above the limit that the model's prices name."""

    session_id: str
    day: str
    model: str
    fast: bool
    geo: str
    long: bool


class Numbered(Protocol):
    """Sources and groups by the numbers under which they are kept. Known ones never change."""

    def number(self, each: UsageSource | UsageGroup) -> int: ...
    def source(self, owner: int) -> UsageSource: ...
    def group(self, number: int) -> UsageGroup: ...
    def row(self, key: int) -> bytes | None: ...


#: Of a record, what with its session makes its group; the day as a quarter of an hour.
Kind = tuple[int, str, bool, str, bool]


class Kinds(dict[tuple[str, Kind], UsageGroup]):
    """zone: whose days; None: this machine's. limit: of a model's prices, in tokens of prompt."""

    def __init__(self, zone: tzinfo | None, limit: Callable[[str], int | None]) -> None:
        super().__init__()
        self.limits = _Limits(limit)
        self._zone = zone
        self._days: dict[int, str] = {}

    def __missing__(self, key: tuple[str, Kind]) -> UsageGroup:
        session_id, (quarter, model, fast, geo, over) = key
        day = self._days.get(quarter)
        if day is None:
            local = datetime.fromtimestamp(quarter * QUARTER_MS // 1000, self._zone)
            day = self._days[quarter] = local.date().isoformat()
        return UsageGroup(session_id, day, model, fast, geo, over)

    def kind(self, record: UsageRecord) -> Kind:
        prompt = record.input + record.cache_read + record.cache_5m + record.cache_1h
        over = prompt > self.limits[record.model]
        return (record.at // QUARTER_MS, record.model, record.fast, record.geo, over)


class _Limits(dict[str, int]):
    """Of prompts, by model; asked for once."""

    def __init__(self, limit: Callable[[str], int | None]) -> None:
        super().__init__()
        self._limit = limit

    def __missing__(self, model: str) -> int:
        found = self._limit(model)
        self[model] = NO_LIMIT if found is None else found
        return self[model]


class Merge:
    """Records on their way into what is kept.

    held: rows that are kept, of all keys of these records. latest: ms; no later date is believed.
    rows: those to be kept now. sums: by group, what comes to its seven sums, and its latest time.
    moved: keys of messages that have another owner now. future: how many were not believed.
    """

    def __init__(self, kept: Numbered, kinds: Kinds, held: Mapping[int, bytes]) -> None:
        self._kept, self._kinds, self._held = kept, kinds, held
        self.rows: dict[int, bytes] = {}
        self.sums: dict[int, list[int]] = {}
        self.moved: set[int] = set()
        self.future = 0

    def add(self, source: UsageSource, records: Iterable[UsageRecord], latest: int) -> None:
        owner, session_id = self._kept.number(source), source.session_id
        limits, kinds, rows, held = self._kinds.limits, self._kinds, self.rows, self._held
        pack, group, sums, last = ROW.pack, 0, [0] * 8, None
        for record in records:
            # Every message of a history passes here: taken apart at once, and nothing called.
            (
                key, request, at, model, fast, geo, side,
                tokens, output, read, for_5m, for_1h, writes, searches,
            ) = astuple(record)  # fmt: skip
            if at > latest:
                self.future += 1
                continue
            if key in rows or key in held:
                key = self._place(key, record)
                if self.row(key) is not None:
                    self._join(key, record, owner, source)
                    continue
            over = tokens + read + for_5m + for_1h > limits[model]
            kind = (at // QUARTER_MS, model, fast, geo, over)
            if kind != last:
                last, group = kind, self._kept.number(kinds[session_id, kind])
                sums = self.sums.setdefault(group, [0] * 8)
            rows[key] = pack(
                at // 1000, owner, group, tokens, output, read, for_5m, for_1h,
                request & 0xFFFF, searches, writes << 1 | side,
            )  # fmt: skip
            sums[0] += 1
            sums[1] += tokens
            sums[2] += output
            sums[3] += read
            sums[5] += for_1h
            # Most of these are nothing: to ask costs less than to add.
            if for_5m:
                sums[4] += for_5m
            if searches:
                sums[6] += searches
            if at > sums[7]:  # noqa: PLR1730 - a call costs more than this
                sums[7] = at

    def row(self, key: int) -> bytes | None:
        return self.rows.get(key) or self._held.get(key) or self._kept.row(key)

    def _place(self, key: int, record: UsageRecord) -> int:
        """One id, two requests: two messages, unless either copy is a side question's."""
        row = self.row(key)
        assert row is not None  # noqa: S101 - the caller has seen it
        *_, request, _, flags = ROW.unpack(row)
        if record.sidechain or flags & SIDECHAIN or request == record.request & 0xFFFF:
            return key
        return (key * 31 + record.request) % PRIME

    def _join(self, key: int, record: UsageRecord, number: int, source: UsageSource) -> None:
        row = ROW.unpack(self.row(key) or b"")
        owner, group = row[1], row[2]
        old = self._record(record, row)
        new = old if old == record else joined(old, record)
        first = number != owner and source.outranks(self._kept.source(owner), new.at)
        if new == old and not first:
            return  # as most copies are that forks make
        if new.sidechain != old.sidechain or (record.sidechain == old.sidechain and first):
            owner = number
        session_id = self._kept.source(owner).session_id
        its, day = self._kinds[session_id, self._kinds.kind(new)], self._kept.group(group).day
        if its.day != day and new.at // 1000 == row[0]:
            its = msgspec.structs.replace(its, day=day)  # as it was cut in another zone
        moved = self._kept.number(its)
        if new == old and (owner, moved) == (row[1], group):
            return
        if owner != row[1]:
            self.moved.add(key)
        self.rows[key] = _packed(new, owner, moved)
        self._count(group, old, -1)
        self._count(moved, new, 1)

    def _record(self, like: UsageRecord, row: tuple[int, ...]) -> UsageRecord:
        """What is kept of a message of which another copy has come."""
        seconds, _, group, tokens, output, read, for_5m, for_1h, request, searches, flags = row
        known = self._kept.group(group)
        return UsageRecord(
            key=like.key,
            # of a request and a time less is kept than a copy tells
            request=like.request if like.request & 0xFFFF == request else request,
            at=like.at if like.at // 1000 == seconds else seconds * 1000,
            model=known.model,
            fast=known.fast,
            geo=known.geo,
            sidechain=bool(flags & SIDECHAIN),
            input=tokens,
            output=output,
            cache_read=read,
            cache_5m=for_5m,
            cache_1h=for_1h,
            writes=flags >> 1,
            web_searches=searches,
        )

    def _count(self, group: int, record: UsageRecord, sign: int) -> None:
        sums = self.sums.setdefault(group, [0] * 8)
        sums[0] += sign
        sums[1] += sign * record.input
        sums[2] += sign * record.output
        sums[3] += sign * record.cache_read
        sums[4] += sign * record.cache_5m
        sums[5] += sign * record.cache_1h
        sums[6] += sign * record.web_searches
        sums[7] = max(sums[7], record.at)


def _packed(record: UsageRecord, owner: int, group: int) -> bytes:
    return ROW.pack(
        record.at // 1000,
        owner,
        group,
        record.input,
        record.output,
        record.cache_read,
        record.cache_5m,
        record.cache_1h,
        record.request & 0xFFFF,
        record.web_searches,
        record.writes << 1 | record.sidechain,
    )
