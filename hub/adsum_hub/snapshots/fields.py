"""A host's snapshot as the fields of its Redis hash: what is in them, and what cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.fold.usage import is_usage_key
from adsum_hub.inbox.entries import MOST_MS, is_cursor
from adsum_hub.inbox.sequence import Runs
from adsum_hub.past import packed
from adsum_shared import streams
from adsum_shared.state import GapView

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


class HostRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hub keeps of a host besides its sessions. last_seen: hub's clock, ms.

    incomplete: whether there are gaps, for hubs that know of nothing else.
    """

    label: str | None = None
    last_seen: int = 0
    clock_offset_ms: int = 0
    incomplete: bool = False
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


_applied = msgspec.json.Decoder(dict[str, int])
_runs = msgspec.json.Decoder(Runs)
_host = msgspec.json.Decoder(HostRecord)
_facts = msgspec.json.Decoder(Facts)


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
        _require_numbers(applied)
        runs = _runs.decode(fields.get(streams.RUNS.encode(), b"{}"))
        for held in runs.values():
            _require_numbers(held)
        host = _sensible(_host.decode(fields.get(streams.HOST.encode(), b"{}")))
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
    if not all(map(is_usage_key, facts.usage)):
        # Whoever told of it so tells it again under the key of today.
        usage = {key: used for key, used in facts.usage.items() if is_usage_key(key)}
        facts = msgspec.structs.replace(facts, usage=usage)
    return packed(facts) if facts.past else facts


def session_of(field: bytes, prefix: str) -> str | None:
    """The session id in a field's name, if the field is of this kind."""
    mark = prefix.encode()
    return field[len(mark) :].decode(errors="replace") if field.startswith(mark) else None


def count_of(raw: bytes | None) -> int:
    """0 for what is no count. Longer ones Python refuses to read."""
    return int(raw) if raw and raw.isdigit() and len(raw) <= _DIGITS else 0


def _require_numbers(numbers: Mapping[str, int]) -> None:
    for key, number in numbers.items():
        if not 0 <= number <= streams.MOST_ID:
            raise ValueError(f"number {str(number)[:40]} of {key[:40]!r}")


def _sensible(host: HostRecord) -> HostRecord:
    if abs(host.clock_offset_ms) > MOST_MS or not 0 <= host.last_seen <= MOST_MS:
        raise ValueError("times beyond the calendar")
    if host.incomplete and not host.gaps:
        # Written by a version that knew no more: concerned is whoever was there by then.
        gap = GapView(host.last_seen + host.clock_offset_ms, "unknown")
        return msgspec.structs.replace(host, gaps=(gap,))
    return host
