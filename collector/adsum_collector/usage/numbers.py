"""Caches the ledger's numbers of sources and groups, and the keys that it cannot hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from adsum_collector.usage.merge import Group
from adsum_collector.usage.source import Source

#: A byte for each remainder: with a million messages, four keys of five are still told apart.
SIEVE_BYTES: Final = 1 << 22


class Numbers:
    """Under which sources and groups are kept: looked up once, for they never change.

    Inside a transaction only, and to be forgotten if that fails.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._owners: dict[Source, int] = {}
        self._sources: dict[int, Source] = {}
        self._numbers: dict[Group, int] = {}
        self._groups: dict[int, Group] = {}

    def forget(self) -> None:
        for known in (self._owners, self._sources, self._numbers, self._groups):
            known.clear()

    def owner(self, source: Source) -> int:
        owner = self._owners.get(source)
        if owner is None:
            where = (source.session_id, source.begun)
            self._db.execute(
                "INSERT OR IGNORE INTO sources (session_id, begun) VALUES (?, ?)", where
            )
            (owner,) = self._db.execute(
                "SELECT id FROM sources WHERE session_id = ? AND begun = ?", where
            ).fetchone()
            self._owners[source] = owner
            self._sources[owner] = source
        return owner

    def source(self, owner: int) -> Source:
        source = self._sources.get(owner)
        if source is None:
            row = self._db.execute("SELECT begun, session_id FROM sources WHERE id = ?", (owner,))
            source = self._sources[owner] = Source(*row.fetchone())
        return source

    def number(self, group: Group) -> int:
        number = self._numbers.get(group)
        if number is None:
            where = (group.session_id, group.day, group.model, group.fast, group.geo, group.long)
            self._db.execute(
                "INSERT OR IGNORE INTO totals (session_id, day, model, fast, geo, long)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                where,
            )
            (number,) = self._db.execute(
                "SELECT id FROM totals WHERE session_id = ? AND day = ? AND model = ?"
                " AND fast = ? AND geo = ? AND long = ?",
                where,
            ).fetchone()
            self._numbers[group] = number
            self._groups[number] = group
        return number

    def group(self, number: int) -> Group:
        group = self._groups.get(number)
        if group is None:
            session_id, day, model, fast, geo, long = self._db.execute(
                "SELECT session_id, day, model, fast, geo, long FROM totals WHERE id = ?",
                (number,),
            ).fetchone()
            group = Group(session_id, day, model, bool(fast), geo, bool(long))
            self._groups[number] = group
        return group

    def row(self, key: int) -> bytes | None:
        found = self._db.execute("SELECT row FROM messages WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None


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
