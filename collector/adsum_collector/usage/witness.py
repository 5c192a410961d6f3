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

from adsum_collector.agents.claude_code.usage_lines import used_by
from adsum_collector.agents.records import TranscriptFile
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.health import witness
from adsum_collector.intake import Intake
from adsum_collector.line_reader import MOST_TRANSCRIPT_BYTES
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.child import ChildError, HistoryTask
from adsum_collector.usage.file import SQL_ERRORS, LedgerError, is_spoilt, replace_spoilt, sentence
from adsum_collector.usage.ledger import Ledger
from adsum_collector.usage.past import History
from adsum_collector.usage.reading import Batch, PastOf, Reading
from adsum_collector.usage.stale import Stale
from adsum_collector.usage.telling import UsageTelling
from adsum_shared.state import HostWitness
from adsum_shared.usage import ScanProgress

#: Between two readings of what grew: the first growth is read at once, what follows soon.
ROUND_S: Final = 1.0
#: Between two looks at whom the spool tells, and at what could not be read.
IDLE_S: Final = 30.0
FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 300.0
ABSENT: Final = (
    "Not there, so nothing of it is counted: {}. Next: correct CLAUDE_CONFIG_DIR or claude_dirs."
)
#: Told at once; each may hold a prompt and an answer.
PASTS: Final = 16


class UsageWitness:
    """directory: the ledger's. lives: whether a session does. reader: whom the spool tells.

    now: ms of wall clock. limit: of a model's prices; see `Kinds`. named: the agent's directories that
    the user has named. idle: between two rounds.
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
        self._absent: list[Path] = []
        self._threads = ThreadPoolExecutor(1, "usage")
        self._wake = asyncio.Event()
        self._stale = Stale(lives, now)
        self._child = HistoryTask(directory, self._wake)
        self._pasts: list[PastOf] = []
        self._told_to: str | None = None
        self._retry_s = FIRST_RETRY_S
        self._trouble: str | None = None
        self._note: str | None = None
        self.faults: Counter[str] = Counter()
        self.read_at = 0
        self.idle = False

    @property
    def progress(self) -> ScanProgress | None:
        return self._child.progress

    def witness(self) -> HostWitness:
        told = witness("usage", self.read_at, self.faults)
        if self._trouble is not None:
            return msgspec.structs.replace(told, state="trouble", note=self._trouble)
        if self._absent:
            note = ABSENT.format(", ".join(map(str, self._absent)))
            return msgspec.structs.replace(told, state="trouble", note=note)
        return msgspec.structs.replace(told, note=self._note)

    def noticed(self, path: str, whose: TranscriptFile | None, stamp: Stamp | None) -> None:
        """A file as it is now; None: it is gone. What it used up while it was there stays used."""
        whose = whose or used_by(path)
        if stamp is None or whose is None or stamp.size > MOST_TRANSCRIPT_BYTES:
            self._stale.forget(path)
        elif self._stale.notice(path, whose, stamp):
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
        told = isinstance(error, LedgerError | ChildError)
        self._trouble = str(error) if told else sentence(error, self._directory)
        if is_spoilt(error) or (isinstance(error, ChildError) and error.damage):
            self._note = await self._in_thread(replace_spoilt, self._directory, error)
        await asyncio.sleep(self._retry_s)
        self._retry_s = min(self._retry_s * 2, LAST_RETRY_S)

    async def _follow(self) -> None:
        ledger = await self._in_thread(Ledger.open, self._directory, self._limit)
        try:
            self._note = ledger.note or self._note
            reading = Reading(ledger, self._history, self._now)
            telling = UsageTelling(ledger, self._intake, self._in_thread, self._now, self._lives)
            self._told_to = None
            self._stale.begin(await self._in_thread(ledger.stamps))
            while True:
                await self._round(ledger, reading, telling)
                await asyncio.sleep(ROUND_S)
                try:
                    async with asyncio.timeout(IDLE_S):
                        await self._wake.wait()
                except TimeoutError:
                    self._stale.retry(self._now())
        finally:
            # behind whatever the thread is still at
            self._threads.submit(ledger.close)

    async def _round(self, ledger: Ledger, reading: Reading, telling: UsageTelling) -> None:
        self._wake.clear()
        self.idle = False
        self._absent = await self._in_thread(_absent, self.named)
        reader = self._reader()
        if self._told_to != reader:
            await self._in_thread(ledger.tell_to, reader)
            self._stale.owe(await self._in_thread(ledger.pasts))
            self._told_to = reader
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
        await self._tell(telling)
        self._trouble, self._retry_s = None, FIRST_RETRY_S
        self.idle = True

    def _keep(self, batch: Batch) -> None:
        self._stale.keep(batch.done)
        self._pasts += batch.pasts
        self.faults.update(batch.faults)
        if batch.done:
            self.read_at = self._now()

    async def _tell(self, telling: UsageTelling) -> None:
        try:
            await telling.tell()
            while self._pasts:
                await telling.tell_pasts(self._pasts[:PASTS])
                del self._pasts[:PASTS]
        except SpoolUnavailable:
            # Nothing has been marked as told, so the next round tells it.
            self.faults["not accepted"] += 1

    async def _in_thread(self, work: Callable[..., Any], *args: Any) -> Any:
        call = functools.partial(work, *args)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _absent(named: Sequence[Path]) -> list[Path]:
    """Of several: one alone may well come into being with the first session."""
    several = named if len(named) > 1 else ()
    return [directory for directory in several if not directory.is_dir()]
