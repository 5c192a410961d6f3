"""What sessions used up, day by day: every message once, however often and wherever it is told.

A fork repeats its session's lines in a file of its own and under its own session's id. A message
counts for the session whose file was begun first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, tzinfo
from struct import Struct
from typing import Final

import msgspec
from msgspec.structs import astuple

from adsum_collector.agents.usage import UNSPLIT, Record, joined
from adsum_collector.usage_keys import Keys

#: Of zones, no offset is finer.
QUARTER_MS: Final = 900_000
#: A message: second, owner, group, five kinds of tokens; the request's id, searches, flags. With
#: its key and its cell these are less than 60 bytes.
ROW: Final = Struct("<8IH2B")
SIDECHAIN: Final = 1
PRIME: Final = 2**61 - 1
NO_LIMIT: Final = 2**62


class Source(msgspec.Struct, frozen=True, order=True, gc=False):
    """A file of records. begun: when its own first line was written, ms; 0 if it does not say.

    Those that do not say count as older than any that does: they are of older releases.
    """

    begun: int
    session_id: str


class Group(msgspec.Struct, frozen=True, gc=False):
    """What is added up by itself. over: prompts above the limit that the model's prices name."""

    session_id: str
    day: str
    model: str
    fast: bool
    geo: str
    over: bool


class Total(msgspec.Struct, frozen=True, gc=False):
    """unsplit: of `cache_5m`, what may as well have been written for an hour."""

    group: Group
    messages: int
    input: int
    output: int
    cache_read: int
    cache_5m: int
    cache_1h: int
    web_searches: int
    unsplit: int


class Totals:
    """zone: whose days. limit: of a model's prices, in tokens of prompt; None without one."""

    def __init__(self, zone: tzinfo, limit: Callable[[str], int | None]) -> None:
        self._groups = _Groups(zone, limit)
        self._sources: list[Source] = []
        self._numbers: dict[Source, int] = {}
        self._keys = Keys()
        self._rows = bytearray()

    def __len__(self) -> int:
        """How many messages."""
        return len(self._keys)

    def __iter__(self) -> Iterator[Total]:
        return map(self._groups.total, range(len(self._groups.sums)))

    def add(self, source: Source, records: Iterable[Record]) -> list[Total]:
        """The totals that changed, as they are now. One that all moved away from is left at 0."""
        owner = self._numbers.setdefault(source, len(self._sources))
        if owner == len(self._sources):
            self._sources.append(source)
        groups, place, rows = self._groups, self._keys.place, self._rows
        changed: set[int] = set()
        group, sums, last = 0, [0], None
        for record in records:
            # Every message of a history passes here: taken apart at once, and nothing called.
            (
                key, request, at, model, fast, geo, side,
                tokens, output, read, for_5m, for_1h, writes, searches,
            ) = astuple(record)  # fmt: skip
            slot = place(key)
            if slot >= 0 and self._is_another(slot, record):
                slot = place((key * 31 + request) % PRIME)
            if slot >= 0:
                changed.update(self._merge(slot, record, owner))
                continue
            over = tokens + read + for_5m + for_1h > groups.limits[model]
            kind = (at // QUARTER_MS, model, fast, geo, over)
            if kind != last:
                last, group = kind, groups.number(source.session_id, kind)
                sums = groups.sums[group]
                changed.add(group)
            rows += ROW.pack(
                at // 1000, owner, group, tokens, output, read, for_5m, for_1h,
                request & 0xFFFF, searches, writes << 1 | side,
            )  # fmt: skip
            sums[0] += 1
            sums[1] += tokens
            sums[2] += output
            sums[3] += read
            sums[4] += for_5m
            sums[5] += for_1h
            sums[6] += searches
            sums[7] += for_5m if writes == UNSPLIT else 0
        return [groups.total(each) for each in changed]

    def _is_another(self, slot: int, record: Record) -> bool:
        """One id, two requests: two messages, unless either copy is a side question's."""
        *_, request, _, flags = ROW.unpack_from(self._rows, slot * ROW.size)
        return not (record.sidechain or flags & SIDECHAIN or request == record.request & 0xFFFF)

    def _merge(self, slot: int, record: Record, number: int) -> tuple[int, ...]:
        """Which groups have changed."""
        where = slice(slot * ROW.size, (slot + 1) * ROW.size)
        row = ROW.unpack(self._rows[where])
        owner, group = row[1], row[2]
        old = self._kept(record, row)
        new = old if old == record else joined(old, record)
        if new.sidechain != old.sidechain or (
            record.sidechain == old.sidechain and self._sources[number] < self._sources[owner]
        ):
            owner = number
        moved = self._groups.number(self._sources[owner].session_id, self._groups.kind(new))
        if new == old and (owner, moved) == (row[1], group):
            return ()
        self._rows[where] = _row(new, owner, moved)
        self._groups.count(group, old, -1)
        self._groups.count(moved, new, 1)
        return group, moved

    def _kept(self, like: Record, row: tuple[int, ...]) -> Record:
        """What is kept of a message of which another copy has come."""
        seconds, _, group, tokens, output, read, for_5m, for_1h, request, searches, flags = row
        known = self._groups.known[group]
        return Record(
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


#: Of a record, what with its session makes its group; the day as a quarter of an hour.
_Kind = tuple[int, str, bool, str, bool]


class _Limits(dict[str, int]):
    """Of prompts, by model; asked for once."""

    def __init__(self, limit: Callable[[str], int | None]) -> None:
        super().__init__()
        self._limit = limit

    def __missing__(self, model: str) -> int:
        found = self._limit(model)
        self[model] = NO_LIMIT if found is None else found
        return self[model]


class _Groups:
    def __init__(self, zone: tzinfo, limit: Callable[[str], int | None]) -> None:
        self.known: list[Group] = []
        self.sums: list[list[int]] = []
        self.limits = _Limits(limit)
        self._zone = zone
        self._days: dict[int, str] = {}
        self._numbers: dict[Group, int] = {}

    def kind(self, record: Record) -> _Kind:
        prompt = record.input + record.cache_read + record.cache_5m + record.cache_1h
        over = prompt > self.limits[record.model]
        return (record.at // QUARTER_MS, record.model, record.fast, record.geo, over)

    def number(self, session_id: str, kind: _Kind) -> int:
        quarter, model, fast, geo, over = kind
        day = self._days.get(quarter)
        if day is None:
            local = datetime.fromtimestamp(quarter * QUARTER_MS // 1000, self._zone)
            day = self._days[quarter] = local.date().isoformat()
        group = Group(session_id, day, model, fast, geo, over)
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = len(self.known)
            self.known.append(group)
            self.sums.append([0] * 8)
        return number

    def count(self, group: int, record: Record, sign: int) -> None:
        sums = self.sums[group]
        sums[0] += sign
        sums[1] += sign * record.input
        sums[2] += sign * record.output
        sums[3] += sign * record.cache_read
        sums[4] += sign * record.cache_5m
        sums[5] += sign * record.cache_1h
        sums[6] += sign * record.web_searches
        sums[7] += sign * record.cache_5m if record.writes == UNSPLIT else 0

    def total(self, group: int) -> Total:
        return Total(self.known[group], *self.sums[group])


def _row(record: Record, owner: int, group: int) -> bytes:
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
