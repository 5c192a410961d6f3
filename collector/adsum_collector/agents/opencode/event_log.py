"""The witness of one OpenCode: follows its log of events, finds who runs which session, tells what was used."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from adsum_collector.agents.base import Surroundings
from adsum_collector.agents.opencode import database as db
from adsum_collector.agents.opencode.events import SessionLog, given_title
from adsum_collector.agents.runners import RunnerNews, Runners, Whereabouts, remember, runners_in
from adsum_collector.agents.words import model_name, project_of
from adsum_collector.errors import SpoolUnavailable, shown
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal
from adsum_shared.state import HostWitness

NAME: Final = "opencode.db"
#: Between two looks at whether the database has changed; two `stat` each.
LOOK_S: Final = 0.25
#: Between two looks at the processes, and at whether there is a database at all.
PROCESSES_S: Final = 1.0
#: Between two sums of what was used, and how far back the first one goes. ms.
COUNT_MS: Final = 10_000
COUNTED_MS: Final = 35 * 86_400_000
#: Sessions that are kept in mind. One that goes, and goes on, is read from its begin.
MOST_LOGS: Final = 256
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _News(NamedTuple):
    """What one look has found. last: see `db.sequences`. past: of sessions that nobody runs."""

    last: dict[str, int]
    rows: list[db.Row]
    past: list[db.Described]
    totals: list[db.ModelTotal]


def is_opencode(words: Sequence[str]) -> bool:
    return bool(words) and Path(words[0]).name in ("opencode", "opencode.exe", ".opencode")


class EventLog:
    """The witness of one directory. Nothing in it is written, and nothing of it is held open."""

    def __init__(self, directory: Path, around: Surroundings) -> None:
        self._path, self._around = directory / NAME, around
        self._runners, self._news = Runners(is_opencode, around.started_of), RunnerNews()
        self._logs: dict[str, SessionLog] = {}
        self._places: dict[str, Whereabouts] = {}
        self._told: dict[str, int] | None = None
        self._stamp: db.Stamp = ()
        #: What was counted last, and when.
        self._counted: tuple[db.Stamp, int] = (), 0
        self.faults: Counter[str] = Counter()
        self._trouble: str | None = None
        self.read_at = 0

    async def run(self) -> None:
        """Until cancelled."""
        looked, clock = -PROCESSES_S, asyncio.get_running_loop().time
        while True:
            try:
                if clock() >= looked + PROCESSES_S:
                    looked = clock()
                    if await asyncio.to_thread(self._path.is_file):
                        await self._look_for_runners()
                await self._look()
            except SpoolUnavailable:
                # Whoever was read is read again, whole, at the next look.
                self.faults["not accepted"] += 1
                self._stamp = ()
                for session in self._logs:
                    (self._told or {}).pop(session, None)
                self._logs.clear()
                self._places.clear()
                self._news.forget()
            except sqlite3.Error as error:
                # In the middle of a write, or of another version: tried again at the next look.
                self.faults[str(error)[:40]] += 1
                self._trouble = f"{shown(self._path)} cannot be read: {error}."
                await asyncio.sleep(PROCESSES_S)
            await asyncio.sleep(LOOK_S)

    def health(self, _now: int) -> HostWitness:
        state = "trouble" if self._trouble else "ok" if self.read_at else "silent"
        return HostWitness("database", state, self.read_at, dict(self.faults), self._trouble)

    async def _look_for_runners(self) -> None:
        """Raises SpoolUnavailable."""
        running = await asyncio.to_thread(self._runners.look)
        mains = {each: it for each, it in self._places.items() if not self._logs[each].parent}
        if signals := self._news.read(mains, running, self._around.now()):
            await self._around.accept(signals)

    async def _look(self) -> None:
        """Raises SpoolUnavailable, sqlite3.Error."""
        stamp, now = await asyncio.to_thread(db.stamp_of, self._path), self._around.now()
        counted, at = self._counted
        count = stamp != counted and not 0 <= now - at < COUNT_MS
        if not stamp or (stamp == self._stamp and not count):
            return
        since = (at - 2 * COUNT_MS if at else now - COUNTED_MS) if count else None
        news = await asyncio.to_thread(self._read, since)
        signals = [each for row in news.rows for each in self._signals(row, now)]
        signals += [each for past in news.past for each in _past(past, now)]
        signals += _used(news.totals, now)
        if signals:
            await self._around.accept(signals)
        self._told, self._stamp, self._trouble, self.read_at = news.last, stamp, None, now
        if count:
            self._counted = stamp, now

    def _read(self, since: int | None) -> _News:
        """In a thread. since: from when on what was used is to be counted. Raises sqlite3.Error."""
        past: list[db.Described] = []
        with db.opened(self._path) as database:
            last, told = db.sequences(database), self._told
            if told is None:
                told, past = self._before(database, last)
            rows = [
                row
                for session, seq in last.items()
                if seq > told.get(session, -1)
                for row in db.events(database, session, self._begin_after(session, seq))
            ]
            return _News(last, rows, past, db.totals(database, since) if since is not None else [])

    def _begin_after(self, session: str, last: int) -> int:
        """Of a session that is new to us all is read, or of a long one its latest rows."""
        told = (self._told or {}).get(session, -1) if session in self._logs else -1
        return max(told, last - db.MOST_ROWS)

    def _before(
        self, database: sqlite3.Connection, last: dict[str, int]
    ) -> tuple[dict[str, int], list[db.Described]]:
        """What counts as told when we begin, and the sessions of that: all that no process may still run."""
        running = self._runners.look()
        living, past = set(), []
        for each in db.sessions_of(database, self._around.now() - COUNTED_MS):
            if runners_in(Whereabouts(each.directory, each.updated), running):
                living.add(each.session)
            elif not each.parent:
                past.append(each)
        return {session: seq for session, seq in last.items() if session not in living}, past

    def _signals(self, row: db.Row, now: int) -> list[AnySignal]:
        log = self._logs.pop(row.session, None) or SessionLog(row.session)
        self._logs[row.session] = log
        if len(self._logs) > MOST_LOGS:
            oldest = next(iter(self._logs))
            del self._logs[oldest]
            self._places.pop(oldest, None)
        try:
            found = log.read(row.kind, row.data, now)
        except _UNREADABLE:
            self.faults["no event"] += 1
            return []
        remember(self._places, row.session, Whereabouts(log.directory, log.at))
        return found


def _past(one: db.Described, now: int) -> list[AnySignal]:
    """Of a session that nobody runs any more."""
    about: dict[str, Any] = {"session_id": one.session, "seen": now, "source": "transcript"}
    place: dict[str, Any] = {"cwd": one.directory, "project": project_of(one.directory)}
    begun, ended = min(one.created, now), min(one.updated, now)
    return [
        s.MetaChanged(**about, at=begun, ai_title=given_title(one.title), **place),
        s.SessionEnded(**about, at=ended, reason="process"),
    ]


def _used(totals: Sequence[db.ModelTotal], now: int) -> list[AnySignal]:
    """Cumulative, so to tell them twice does no harm."""
    found: list[AnySignal] = []
    costs: defaultdict[str, float] = defaultdict(float)
    for total in totals:
        costs[total.session] += total.cost
        found.append(
            s.UsageTotalled(
                session_id=total.session,
                at=min(total.latest, now),
                seen=now,
                source="transcript",
                day=total.day,
                model=model_name(total.model),
                messages=total.messages,
                input_tokens=total.input,
                output_tokens=total.output,
                cache_read_tokens=total.cache_read,
                cache_5m_tokens=total.cache_write,
            )
        )
    about: dict[str, Any] = {"at": now, "seen": now, "source": "transcript"}
    told = [
        s.CostReported(session_id=id_, cost_usd=usd, **about) for id_, usd in costs.items() if usd
    ]
    return [*found, *told]
