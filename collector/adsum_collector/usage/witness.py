"""Reports soon what sessions used up: history by a process, what grows by a thread."""

import asyncio
import contextlib
import functools
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from adsum_collector.agents import usage_lines
from adsum_collector.agents.base import Agent
from adsum_collector.agents.records import Past, TranscriptFile
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.health import witness
from adsum_collector.intake import Intake
from adsum_collector.line_reader import MOST_TRANSCRIPT_BYTES
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.ledger import (
    NAME,
    NO_PAST,
    PAST_TOLD,
    SQL_ERRORS,
    Fork,
    Ledger,
    LedgerError,
    Total,
    is_spoilt,
    replace_spoilt,
    sentence,
)
from adsum_collector.usage.reading import (
    Errand,
    Order,
    PastOf,
    UsageBatch,
    UsageReading,
    WorkerReport,
    shipped_limit,
)
from adsum_shared import WallClock
from adsum_shared.signals import KnownSignal, MetaChanged, SessionEnded, UsageTotalled
from adsum_shared.state import HostWitness, ScanProgress

COMMAND: Final = (sys.executable, "-I", "-m", "adsum_collector.usage.reading")
#: A batch names its files, and what some of their sessions were about.
LINE_BYTES: Final = 64 << 20
#: From so much on two processes share it, where there are two cores.
MUCH_BYTES: Final = 32 << 20
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
#: Read by a thread; more is the process's.
LITTLE_BYTES: Final = 8 << 20
LITTLE_FILES: Final = 64
#: A file that rests for so long is one of a session that is over, if nothing says that it lives.
QUIET_MS: Final = 60_000
RETRY_MS: Final = 600_000
#: Nobody knows yet how much there is to be read.
LOOKING: Final = ScanProgress(0, 0, 0, 0)


class _Unread(msgspec.Struct, frozen=True):
    """A file as it was noticed. stamp: None if only its session's past is to be told."""

    whose: TranscriptFile
    stamp: Stamp | None = None


class Stale:
    """Files with something unread in them. lives: whether a session does. now: ms.

    What grows while it is being read is both stale and being read, and waits until that is over.
    """

    def __init__(self) -> None:
        self._read: dict[str, Stamp] = {}
        self._stale: dict[str, _Unread] = {}
        self._reading: dict[str, _Unread] = {}
        self._failed: dict[str, _Unread] = {}
        self._young: dict[str, _Unread] = {}
        self._retried_at = 0

    def __len__(self) -> int:
        return len(self._stale) + len(self._reading)

    def notice(self, path: str, whose: TranscriptFile, stamp: Stamp) -> bool:
        """Whether there is something to read."""
        for files in (self._young, self._failed, self._stale):
            files.pop(path, None)
        if _same(self._read.get(path), stamp):
            return False
        self._stale[path] = _Unread(whose, stamp)
        return True

    def forget(self, path: str) -> None:
        """There is nothing to read."""
        # Being read it may fail, and would be tried again for ever.
        for files in (self._young, self._failed, self._stale, self._reading):
            files.pop(path, None)

    def begin(self, read: Mapping[str, Stamp]) -> None:
        """read: how the files were that have been read to their ends."""
        self._read = dict(read)
        unread, self._reading = {**self._reading, **self._stale}, {}
        self._stale = {
            path: file
            for path, file in unread.items()
            if file.stamp is None or not _same(self._read.get(path), file.stamp)
        }

    def owe(self, pasts: Iterable[tuple[str, str]]) -> None:
        """Files of which only their sessions' pasts are to be told, with those sessions."""
        for path, session_id in pasts:
            self._stale.setdefault(path, _Unread(TranscriptFile(session_id)))

    def retry(self, now: int) -> None:
        """What could not be read, once in a while: nobody may ever put that right."""
        if not 0 <= now - self._retried_at < RETRY_MS:
            self._retried_at = now
            self._stale = {**self._failed, **self._stale}
            self._failed = {}

    def errands(
        self, lives: Callable[[str], bool], now: int, *, reads_much: bool
    ) -> tuple[list[Errand], int | None]:
        """What is to be read now: first the sessions that live, then the newest.

        By the thread; or, where it is much and the process is free for it, by that, with its bytes.
        """
        self._owe_the_rested(now)
        alive = {f.whose.session_id for f in self._stale.values() if lives(f.whose.session_id)}
        waiting = [path for path in self._stale if path not in self._reading]
        waiting.sort(key=lambda path: self._order(path, alive))
        little: list[str] = []
        left = LITTLE_BYTES
        for path in waiting:
            if (growth := self._growth(path)) <= left and len(little) < LITTLE_FILES:
                little.append(path)
                left -= growth
        is_much = reads_much and len(little) < len(waiting)
        size = sum(map(self._growth, waiting)) if is_much else None
        given = waiting if is_much else little
        return [self._errand(path, alive, now) for path in given], size

    def keep(self, done: Iterable[tuple[bytes, Stamp]]) -> None:
        """These were read to their ends, as they were when they were opened."""
        for raw, stamp in done:
            path = os.fsdecode(raw)
            self._read[path] = stamp
            self._reading.pop(path, None)

    def settle(self, errands: Iterable[Errand]) -> None:
        """All were tried. What has not been read to its end could not be."""
        for errand in errands:
            file = self._reading.pop(path := os.fsdecode(errand.path), None)
            if file is not None and path not in self._stale:
                self._failed[path] = file

    def _owe_the_rested(self, now: int) -> None:
        """Their pasts: they were read as soon as they came, and could still have been growing."""
        rested = [(p, f) for p, f in self._young.items() if _age(f, now) > QUIET_MS]
        for path, file in rested:
            del self._young[path]
            self.owe([(path, file.whose.session_id)])

    def _order(self, path: str, alive: Container[str]) -> tuple[bool, int]:
        file = self._stale[path]
        return file.whose.session_id not in alive, -(file.stamp.mtime_ns if file.stamp else 0)

    def _growth(self, path: str) -> int:
        if (stamp := self._stale[path].stamp) is None:
            return 0
        read = self._read.get(path)
        return stamp.size - (read.size if read and read.size <= stamp.size else 0)

    def _errand(self, path: str, alive: Container[str], now: int) -> Errand:
        file = self._reading[path] = self._stale.pop(path)
        lives = file.whose.session_id in alive
        is_over = file.whose.agent_id is None and not lives
        past = is_over and _age(file, now) > QUIET_MS
        if is_over and not past:
            self._young[path] = file
        return Errand(os.fsencode(path), file.whose, past=past, urgent=lives)


def _age(file: _Unread, now: int) -> int:
    return now - (file.stamp.mtime_ns // 1_000_000 if file.stamp else 0)


def _same(one: Stamp | None, other: Stamp) -> bool:
    """Devices are numbered anew when a system starts, and nothing has changed by that."""
    return one is not None and (one.mtime_ns, one.size, one.inode) == (
        other.mtime_ns,
        other.size,
        other.inode,
    )


class WorkerError(Exception):
    """It says why, for people. damage: of the ledger."""

    def __init__(self, why: str, *, damage: bool = False) -> None:
        super().__init__(why)
        self.damage = damage


class HistoryTask:
    """The process as its parent sees it, at most one at a time. wake: set whenever there is news of it.

    progress: of what it has read; whoever reports what that was clears it, once it is reported.
    """

    def __init__(self, agent: str, directory: Path, wake: asyncio.Event) -> None:
        self._agent, self._directory, self._wake = agent, directory, wake
        self._task: asyncio.Task[None] | None = None
        self._batches: list[UsageBatch] = []
        self._began = 0.0
        self.progress: ScanProgress | None = None

    def is_free(self) -> bool:
        return self._task is None

    def begin(self, errands: Sequence[Errand], size: int) -> None:
        """size: how many bytes there are to read."""
        loop = asyncio.get_running_loop()
        self.progress = ScanProgress(len(errands), 0, size, 0)
        self._began = loop.time()
        processes = 2 if size >= MUCH_BYTES and _cores() > 1 else 1
        order = Order(self._agent, str(self._directory), errands, processes)
        self._task = loop.create_task(self._run(order), name="usage history")
        self._task.add_done_callback(lambda _task: self._wake.set())

    def taken(self) -> list[UsageBatch]:
        """What has been kept since this was asked last."""
        batches, self._batches = self._batches, []
        return batches

    def is_over(self) -> bool:
        """True once. Raises what it ended with: WorkerError, OSError."""
        if self._task is None or not self._task.done():
            return False
        task, self._task = self._task, None
        task.result()
        return True

    async def stop(self) -> None:
        if self._task is not None:
            # Not again where a stop before was itself cancelled: it would not wait for its process.
            if not self._task.cancelling():
                self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # asked for, or it is complained of
        self._task, self.progress = None, None

    async def _run(self, order: Order) -> None:
        child = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES
        )
        try:
            # Its reads wait for everybody else's, where the system knows of that.
            with contextlib.suppress(psutil.Error, OSError, AttributeError):
                psutil.Process(child.pid).ionice(psutil.IOPRIO_CLASS_IDLE)
            await self._listen(child, order)
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            gone = asyncio.ensure_future(child.wait())
            try:
                await asyncio.shield(gone)
            except asyncio.CancelledError:
                await (
                    gone
                )  # told to stop at its very end, it has a process to wait for all the same
                raise

    async def _listen(self, child: Process, order: Order) -> None:
        assert child.stdin is not None  # noqa: S101 - both are pipes
        assert child.stdout is not None  # noqa: S101 - as above
        with contextlib.suppress(ConnectionError):  # what it says, or how it ends, tells why
            child.stdin.write(msgspec.json.encode(order) + b"\n")
            await child.stdin.drain()
        while line := await child.stdout.readline():
            try:
                report = msgspec.json.decode(line, type=WorkerReport)
            except msgspec.DecodeError as error:
                raise WorkerError(f"Reading the history failed: {error}.") from error
            if report.failure is not None:
                raise WorkerError(report.failure, damage=report.damage)
            if report.over:
                return
            self._batches.append(report)
            self._advance(report)
            self._wake.set()
        code = await child.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise WorkerError(
            f"Reading the history was broken off ({how}). It goes on by itself where it was."
        )

    def _advance(self, batch: UsageBatch) -> None:
        if (progress := self.progress) is None:
            return
        passed = max(asyncio.get_running_loop().time() - self._began, 0.001)
        done = min(progress.bytes_done + batch.bytes_read, progress.bytes)
        rate = int(done / passed)
        self.progress = msgspec.structs.replace(
            progress,
            files_done=min(progress.files_done + len(batch.done), progress.files),
            bytes_done=done,
            bytes_per_s=rate,
            left_s=(progress.bytes - done) / rate if rate else None,
        )


def _cores() -> int:
    # what this process may use, where the system knows of that
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


class UsageWitness:
    """directory: the ledger's. lives: whether a session does. reader: who reads what the spool holds.

    now: ms of wall clock. named: the agent's directories that the user has named, named_by: in what.
    idle: between two rounds.
    """

    def __init__(
        self,
        intake: Intake,
        agent: Agent,
        *,
        directory: Path,
        lives: Callable[[str], bool],
        reader: Callable[[], str],
        now: WallClock,
    ) -> None:
        self._intake, self._agent, self._directory = intake, agent, directory
        self._lives, self._reader, self._now = lives, reader, now
        self.named: Sequence[Path] = ()
        self.named_by = ""
        self._used_by = usage_lines(agent).used_by
        self._absent: list[Path] = []
        self._threads = ThreadPoolExecutor(1, "usage")
        self._wake = asyncio.Event()
        self._stale = Stale()
        self._worker = HistoryTask(agent.name, directory, self._wake)
        self._with_worker: list[Errand] = []
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
        return self._worker.progress or (LOOKING if self._is_first else None)

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
                except (LedgerError, WorkerError, OSError, *SQL_ERRORS) as error:
                    await self._recover(error)
        finally:
            await self._worker.stop()
            self._threads.shutdown(wait=False)

    async def _recover(self, error: Exception) -> None:
        await self._worker.stop()
        is_said = isinstance(error, LedgerError | WorkerError)
        self._trouble = str(error) if is_said else sentence(error, self._directory)
        if is_spoilt(error) or (isinstance(error, WorkerError) and error.damage):
            self._note = await self._in_thread(replace_spoilt, self._directory, error)
        await asyncio.sleep(self._retry_s)
        self._retry_s = min(self._retry_s * 2, LAST_RETRY_S)

    async def _follow(self) -> None:
        ledger = await self._in_thread(Ledger.open, self._directory, shipped_limit)
        try:
            self._note = ledger.note or self._note
            reading = UsageReading(ledger, self._agent, self._now)
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
        for batch in self._worker.taken():
            self._keep(batch)
        if self._worker.is_over():
            self._stale.settle(self._with_worker)
        errands, size = self._stale.errands(
            self._lives, self._now(), reads_much=self._worker.is_free()
        )
        if size is not None:
            self._with_worker = errands
            self._worker.begin(errands, size)
        elif errands:
            for batch in await self._in_thread(lambda: list(reading.read(errands))):
                self._keep(batch)
            self._stale.settle(errands)
        try:
            await self._report(ledger)
        except SpoolUnavailable:
            # Nothing has been marked as told, so the next round reports it.
            self.faults["not accepted"] += 1
        else:
            if self._worker.is_free():
                self._worker.progress = None
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
