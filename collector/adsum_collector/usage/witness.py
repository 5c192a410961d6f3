"""Reports soon what sessions used up: history by a process, what grows by a thread."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from adsum_collector.agents import usage_lines
from adsum_collector.agents.records import Past, TranscriptFile
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.health import witness
from adsum_collector.intake import Intake
from adsum_collector.line_reader import MOST_TRANSCRIPT_BYTES
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.backlog import ChildError, HistoryTask, Stale
from adsum_collector.usage.ledger import NO_PAST, PAST_TOLD, Fork, Ledger, Total
from adsum_collector.usage.ledger_file import (
    NAME,
    SQL_ERRORS,
    LedgerError,
    is_spoilt,
    replace_spoilt,
    sentence,
)
from adsum_collector.usage.reading import History, PastOf, UsageBatch, UsageReading
from adsum_shared.signals import KnownSignal, MetaChanged, SessionEnded, UsageTotalled
from adsum_shared.state import HostWitness, ScanProgress

#: Between two readings of what grew: the first growth is read at once, what follows soon.
ROUND_S: Final = 1.0
#: Between two looks at whom the spool tells, and at what could not be read.
IDLE_S: Final = 30.0
FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 300.0
ABSENT: Final = "Not there, so nothing of it is counted: {}. Next: correct {}."
#: Accepted at once: what a hook that comes meanwhile has to wait for. Each past may hold a prompt and
#: an answer.
TOTALS: Final = 100
PASTS: Final = 16
#: Nobody knows yet how much there is to be read.
LOOKING: Final = ScanProgress(0, 0, 0, 0)


class UsageWitness:
    """directory: the ledger's. lives: whether a session does. reader: who reads what the spool holds.

    now: ms of wall clock. limit: of a model's prices; see `Kinds`. named: the agent's directories that
    the user has named, named_by: in what. idle: between two rounds.
    """

    def __init__(
        self,
        intake: Intake,
        history: History,
        *,
        directory: Path,
        lives: Callable[[str], bool],
        reader: Callable[[], str],
        now: Callable[[], int],
        limit: Callable[[str], int | None],
    ) -> None:
        self._intake = intake
        self._history = history
        self._directory = directory
        self._lives = lives
        self._reader = reader
        self._now = now
        self._limit = limit
        self.named: Sequence[Path] = ()
        self.named_by = ""
        self._used_by = usage_lines().used_by
        self._absent: list[Path] = []
        self._threads = ThreadPoolExecutor(1, "usage")
        self._wake = asyncio.Event()
        self._stale = Stale(lives, now)
        self._child = HistoryTask(directory, self._wake)
        self._pasts: list[PastOf] = []
        self._reported_to: str | None = None
        self._retry_s = FIRST_RETRY_S
        self._trouble: str | None = None
        self._note: str | None = None
        #: The ledger is new, and not all that the first walk finds has been reported.
        self._is_first = not (directory / NAME).exists()
        self._walked = False
        self.faults: Counter[str] = Counter()
        self.read_at = 0
        self.idle = False

    @property
    def progress(self) -> ScanProgress | None:
        """Until what was read of a history has been reported as well; None: sums are complete."""
        return self._child.progress or (LOOKING if self._is_first else None)

    def witness(self) -> HostWitness:
        found = witness("usage", self.read_at, self.faults)
        if self._trouble is not None:
            return msgspec.structs.replace(found, state="trouble", note=self._trouble)
        if self._absent:
            note = ABSENT.format(", ".join(map(str, self._absent)), self.named_by)
            return msgspec.structs.replace(found, state="trouble", note=note)
        return msgspec.structs.replace(found, note=self._note)

    def noticed(self, path: str, whose: TranscriptFile | None, stamp: Stamp | None) -> None:
        """A file as it is now; None: it is gone. What it used up while it was there stays used."""
        whose = whose or self._used_by(path)
        if stamp is None or whose is None or stamp.size > MOST_TRANSCRIPT_BYTES:
            self._stale.forget(path)
        elif self._stale.notice(path, whose, stamp):
            self._wake.set()

    def walked(self) -> None:
        """All files there are have been noticed."""
        if not self._walked:
            self._walked = True
            self._wake.set()

    async def run(self) -> None:
        """Nothing that goes wrong with files, disk or process ends the collector."""
        try:
            while True:
                try:
                    await self._follow()
                except (LedgerError, ChildError, OSError, *SQL_ERRORS) as error:
                    await self._recover(error)
        finally:
            await self._child.stop()
            self._threads.shutdown(wait=False)

    async def _recover(self, error: Exception) -> None:
        await self._child.stop()
        is_said = isinstance(error, LedgerError | ChildError)
        self._trouble = str(error) if is_said else sentence(error, self._directory)
        if is_spoilt(error) or (isinstance(error, ChildError) and error.damage):
            self._note = await self._in_thread(replace_spoilt, self._directory, error)
        await asyncio.sleep(self._retry_s)
        self._retry_s = min(self._retry_s * 2, LAST_RETRY_S)

    async def _follow(self) -> None:
        ledger = await self._in_thread(Ledger.open, self._directory, self._limit)
        try:
            self._note = ledger.note or self._note
            reading = UsageReading(ledger, self._history, self._now)
            self._reported_to = None
            stamps = await self._in_thread(ledger.stamps)
            self._is_first = self._is_first or not stamps
            self._stale.begin(stamps)
            while True:
                await self._round(ledger, reading)
                await asyncio.sleep(ROUND_S)
                try:
                    async with asyncio.timeout(IDLE_S):
                        await self._wake.wait()
                except TimeoutError:
                    self._stale.retry(self._now())
        finally:
            # behind whatever the thread is still at
            self._threads.submit(ledger.close)

    async def _round(self, ledger: Ledger, reading: UsageReading) -> None:
        self._wake.clear()
        self.idle = False
        walked = self._walked
        self._absent = await self._in_thread(_absent, self.named)
        reader = self._reader()
        if self._reported_to != reader:
            await self._in_thread(ledger.tell_to, reader)
            self._stale.owe(await self._in_thread(ledger.pasts))
            self._reported_to = reader
        for batch in self._child.taken():
            self._keep(batch)
        if self._child.is_over():
            self._stale.settle(by_child=True)
        little, much = self._stale.errands(reads_much=self._child.is_free())
        if much:
            self._child.begin(much, self._stale.bytes_of(much))
        if little:
            for batch in await self._in_thread(lambda: list(reading.read(little))):
                self._keep(batch)
            self._stale.settle(by_child=False)
        try:
            await self._report(ledger)
        except SpoolUnavailable:
            # Nothing has been marked as told, so the next round reports it.
            self.faults["not accepted"] += 1
        else:
            if self._child.is_free():
                self._child.progress = None
                self._is_first = self._is_first and not walked
        self._trouble, self._retry_s = None, FIRST_RETRY_S
        self.idle = True

    def _keep(self, batch: UsageBatch) -> None:
        self._stale.keep(batch.done)
        self._pasts += batch.pasts
        self.faults.update(batch.faults)
        if batch.done:
            self.read_at = self._now()

    async def _report(self, ledger: Ledger) -> None:
        """All that has changed in the ledger, and the pasts. Raises SpoolUnavailable, sqlite3.Error.

        Between accepting and marking we may be killed: an absolute that comes twice does no harm.
        """
        forks = await self._in_thread(ledger.forks)
        while totals := await self._in_thread(ledger.untold, TOTALS):
            now = self._now()
            await self._intake.accept([_totalled(each.total, now) for each in totals])
            await self._in_thread(ledger.mark_told, totals, ())
        if forks:
            now = self._now()
            await self._intake.accept([_forked(fork, now) for fork in forks])
            await self._in_thread(ledger.mark_told, (), forks)
        while pasts := self._pasts[:PASTS]:
            now = self._now()
            # Of a session that has come to life since: nothing.
            over = [past for past in pasts if not self._lives(past.session_id)]
            alive = [past.path for past in pasts if self._lives(past.session_id)]
            if over:
                said = [s for one in over for s in past_signals(one.past, one.session_id, now)]
                await self._intake.accept(said)
            await self._in_thread(ledger.mark_pasts, [one.path for one in over], PAST_TOLD)
            await self._in_thread(ledger.mark_pasts, alive, NO_PAST)
            del self._pasts[:PASTS]

    async def _in_thread(self, work: Callable[..., Any], *args: Any) -> Any:
        call = functools.partial(work, *args)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _absent(named: Sequence[Path]) -> list[Path]:
    """Of several: one alone may well come into being with the first session."""
    several = named if len(named) > 1 else ()
    return [directory for directory in several if not directory.is_dir()]


def _totalled(total: Total, now: int) -> KnownSignal:
    group = total.group
    return UsageTotalled(
        session_id=group.session_id,
        at=min(total.latest, now) or now,
        seen=now,
        source="transcript",
        day=group.day,
        model=group.model,
        fast=group.fast,
        geo=group.geo,
        long=group.long,
        messages=total.messages,
        input_tokens=total.input,
        output_tokens=total.output,
        cache_read_tokens=total.cache_read,
        cache_5m_tokens=total.cache_5m,
        cache_1h_tokens=total.cache_1h,
        web_searches=total.web_searches,
    )


def _forked(fork: Fork, now: int) -> KnownSignal:
    return MetaChanged(
        session_id=fork.session_id,
        at=fork.begun or now,
        seen=now,
        source="transcript",
        forked_from=fork.forked_from,
    )


def past_signals(past: Past, session_id: str, seen: int) -> list[KnownSignal]:
    """The first prompt stands for a title where there is none.

    As one that a machine gave: should the session go on and be given another, that is a later one.
    """
    fields = {
        name: value
        for name in Past.__struct_fields__
        if name in MetaChanged.__struct_fields__ and (value := getattr(past, name)) is not None
    }
    if past.first_prompt and not (past.title or past.ai_title):
        fields["ai_title"] = past.first_prompt
    about = MetaChanged(
        session_id=session_id, at=past.started, seen=seen, source="transcript", **fields
    )
    ended = SessionEnded(
        session_id=session_id, at=past.ended, seen=seen, source="transcript", reason="process"
    )
    if past.cost is None:
        return [about, ended]
    # as old as they are, or the session's end: later ones may have been reported while it lived
    at = min(past.cost.at, past.ended)
    return [about, msgspec.structs.replace(past.cost, at=at, seen=seen), ended]
