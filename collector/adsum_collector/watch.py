"""Watches registry files as they change, and processes as they end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from adsum_collector.agents.base import Adapt
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.file_events import file_events
from adsum_collector.intake import Intake
from adsum_collector.line_reader import open_plain
from adsum_collector.processes import (
    SAME_START_MS,
    AgentProcess,
    ProcessTable,
    WatchedSessions,
    cpu_ms,
    received_ago,
)
from adsum_shared import WallClock
from adsum_shared.signals import (
    LATENESS,
    Alive,
    AnySignal,
    MetaChanged,
    ProcessGone,
    ProcessSeen,
    ProcessStill,
    SessionEnded,
    Signal,
    Source,
    StatusReported,
    UnknownSignal,
)

T = TypeVar("T", bound=Signal)
log = logging.getLogger(__name__)

#: Between two looks at everything, whatever else happens.
LOOK_INTERVAL_S = 1.0
#: A file above this is nobody's registry entry.
MOST_BYTES = 64 << 10

#: Of a process id: no other digits than these, and no more of them than one has.
_ENTRY = re.compile(r"[0-9]{1,10}\.json")

Stamp = tuple[int, int, int]


class Registry(NamedTuple):
    """Of one agent. adapt: for a file's content."""

    adapt: Adapt
    intake: Intake


class Watch:
    """registries: each directory of registry files, and where what those say comes in.

    now: ms of wall clock.
    """

    def __init__(
        self,
        intake: Intake,
        *,
        registries: Mapping[Path, Registry],
        watched: WatchedSessions,
        table: ProcessTable,
        now: WallClock,
    ) -> None:
        self._intake, self._registries, self._watched = intake, registries, watched
        self.table, self._now = table, now
        self._observed = 0
        self._work: dict[AgentProcess, Work] = {}
        self._known: dict[Path, Known] = {}
        self._stamps: dict[Path, Stamp] = {}
        self._events = file_events(list(registries), _is_entry, recursive=False)
        self._wake = asyncio.Event()
        #: Set once it is known which of the sessions that have not ended have a process.
        self.settled = asyncio.Event()
        self._exits: dict[AgentProcess, int] = {}
        self.counts: Counter[str] = Counter()
        self._refused: set[Path] = set()
        self._told_moves = False
        self.files = 0

    @property
    def agent_version(self) -> str | None:
        """What the agent that started last calls its version, if its registry says so."""
        told = [
            (known.entry.process.started, signal.version)
            for known in self._known.values()
            for signal in known.entry.signals
            if isinstance(signal, MetaChanged) and signal.version
        ]
        return max(told)[1] if told else None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_files(), name="registry files")
            try:
                while True:
                    self._wake.clear()
                    wait = await self.look()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(wait):
                            await self._wake.wait()
            finally:
                for descriptor in self._exits.values():
                    self._forget_exit(descriptor)

    async def look(self) -> float:
        """One look at everything; seconds until the next is due."""
        try:
            missing = await self._look_at_files()
            await self._look_at_processes()
        except SpoolUnavailable:
            # Nothing was marked as told, so the next look tells it.
            self.counts["not accepted"] += 1
            return LOOK_INTERVAL_S
        self._await_exits()
        self.settled.set()
        return VANISHED_MS / 1000 / 2 if missing else LOOK_INTERVAL_S

    def _observe(self) -> int:
        """Return the wall clock in ms, or 1 ms after the last observation if that is later.

        When several terminals take up one session, the hub and `state_changes` order them by these
        times. One look reads several files within a millisecond. With equal times the hub falls back
        to the pid. It may then choose another process than the one the collector watches, and the
        session never ends. A clock that was set back further than LATENESS starts a new sequence.
        """
        now = self._now()
        if 0 <= self._observed - now < LATENESS:
            now = self._observed + 1
        self._observed = now
        return now

    async def _look_at_files(self) -> bool:
        """True while a file is missing that may yet return."""
        present = set(self._list())
        self.files = len(present)
        for path in self._stamps.keys() - present - self._known.keys():
            del self._stamps[path]
        self._refused &= present | self._registries.keys()
        # At our start the younger first: of two that have a session it is the one.
        started = None if self.settled.is_set() else self._started
        for path in sorted(present, key=started, reverse=started is not None):
            await self._look_at(path)
        if self.settled.is_set() and not self._told_moves:
            # At the second look: hooks are sooner than the registry to tell of a new session.
            news = news_of_moves(self._watched.look(), self._living(), self._observe())
            if news:
                await self._intake.accept(news)
            self._told_moves = True
        missing = False
        for path in [path for path in self._known if path not in present]:
            missing |= not await self._miss(path)
        return missing

    def _list(self) -> Iterable[Path]:
        for directory in self._registries:
            with contextlib.suppress(OSError):
                self._events.enter(str(directory))
            try:
                with os.scandir(directory) as entries:
                    # `*.key` files beside them are secrets: only plain numbers are opened
                    names = [entry.name for entry in entries]
            except OSError as error:
                self._refuse(directory, error)
            else:
                self._refused.discard(directory)
                yield from (directory / name for name in names if _is_entry(name))

    def _refuse(self, path: Path, error: OSError) -> None:
        """Counted once for as long as it lasts; that it is not there, or not any more, is no fault."""
        if path not in self._refused and not isinstance(error, FileNotFoundError):
            self._refused.add(path)
            self.counts["unreadable"] += 1
            log.warning("what sessions say of themselves cannot be read: %s", error)

    def _started(self, path: Path) -> tuple[int, str]:
        return self.table.started_of(int(path.stem)) or 0, path.name

    async def _look_at(self, path: Path) -> None:
        known = self._known.get(path)
        try:
            stamp = _stamp(path)
            settled = known is None or not (known.missing_since or known.entry.asks_for_host)
            if self._stamps.get(path) == stamp and settled:
                return
            now = self._observe()
            entry = self._read(path, now)
        except OSError as error:
            self._refuse(path, error)
            return
        self._refused.discard(path)
        if entry is None:
            self._stamps[path] = stamp
            return
        others, starts = self._living(path), not self.settled.is_set()
        news = news_of_entry(entry, known, self._watched.look(), now, others, starts=starts)
        if news:
            await self._registries[path.parent].intake.accept(news)
        self._known[path] = Known(entry)
        self._stamps[path] = stamp

    def _read(self, path: Path, now: int) -> Entry | None:
        with os.fdopen(open_plain(path), "rb") as file:
            raw = file.read(MOST_BYTES)
        try:
            signals = list(self._registries[path.parent].adapt(raw, now))
        except (ValueError, RecursionError):
            # Half-written, or another program's: the next change of the file brings it again.
            self.counts["unreadable"] += 1
            return None
        pid = next((s.pid for s in signals if isinstance(s, StatusReported) and s.pid), None)
        entry = read_entry(signals, self.table.started_of(pid or int(path.stem)))
        if entry is None:
            self.counts["no such process"] += 1
        return entry

    async def _miss(self, path: Path) -> bool:
        """True once a missing file has been dealt with."""
        known, now = self._known[path], self._observe()
        if not known.missing_since:
            known.missing_since = now
        if now - known.missing_since < VANISHED_MS:
            return False
        lives = self.table.lives(known.entry.process)
        news = news_of_absence(known, self._watched.look(), now, self._living(path), lives=lives)
        if news:
            await self._registries[path.parent].intake.accept(news)
        del self._known[path]
        self._stamps.pop(path, None)
        return True

    def _living(self, but: Path | None = None) -> list[Entry]:
        """What the registry's files say of living processes."""
        told = [known.entry for path, known in self._known.items() if path != but]
        return [entry for entry in told if self.table.lives(entry.process)]

    async def _look_at_processes(self) -> None:
        watched = self._watched.look()
        gone = {process for process in set(watched.values()) if not self.table.lives(process)}
        living = self._living() if gone else []
        news = news_of_processes(watched, gone, self._observe(), living)
        at_work, work = news_of_work(
            self._work, watched, cpu_ms, self._now(), received_ago, self._resting()
        )
        if news or at_work:
            await self._intake.accept([*news, *at_work])
        self._work = work

    def _resting(self) -> set[int]:
        """The process ids of which the registry says that no turn runs, or that one waits for a human."""
        return {
            known.entry.process.pid
            for known in self._known.values()
            for signal in known.entry.signals
            if isinstance(signal, StatusReported) and signal.status in RESTING
        }

    def _await_exits(self) -> None:
        """Linux tells of a process's end at once; elsewhere the next look finds out."""
        if not hasattr(os, "pidfd_open"):
            return
        processes = set(self._watched.look().values())
        for process in self._exits.keys() - processes:
            self._forget_exit(self._exits.pop(process))
        for process in processes - self._exits.keys():
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(process.pid)
                self._exits[process] = descriptor
                asyncio.get_running_loop().add_reader(descriptor, self._exited, process)

    def _exited(self, process: AgentProcess) -> None:
        self._forget_exit(self._exits.pop(process))
        self._wake.set()

    @staticmethod
    def _forget_exit(descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    async def _follow_files(self) -> None:
        """Wakes the loop early. Where the system tells nothing, the loop's own pace has to do."""
        with contextlib.closing(self._events):
            async for _ in self._events.changes():
                self._wake.set()


def _stamp(path: Path) -> Stamp:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _is_entry(name: str) -> bool:
    return _ENTRY.fullmatch(name) is not None


#: A registry file can vanish and be back within 15 ms; gone for this long, it is gone.
VANISHED_MS = 200
#: Between two measurements of a process's work, and so the pace of the signs of life it gives.
CPU_INTERVAL_MS = 30_000
#: The share of one core above which a process works, where nobody tells what it receives.
CPU_SHARE = 0.01
#: The same where that is told. The real CLI takes 0.8 to 1.9 % at rest, 2.8 to 7 % to draw its
#: spinner in a silent turn, and 10 % while it writes an answer, of which its connection tells
#: better. A tool or a server below it that computes takes most of a core.
CPU_SHARE_BESIDE_WIRE = 0.15
#: Of the registry: of these nobody asks what they receive.
RESTING = frozenset({"idle", "shell", "waiting"})


class Entry(msgspec.Struct, frozen=True):
    """One file of the registry, of a living process: what it says, in our words."""

    session_id: str
    process: AgentProcess
    signals: tuple[AnySignal, ...] = ()

    @property
    def asks_for_host(self) -> bool:
        """Whether another file may still name the host, so that this one is read again."""
        return any(isinstance(each, StatusReported) and each.host == "" for each in self.signals)


class Known(msgspec.Struct):
    """What was told last of one registry file. missing_since: ms, 0 while the file is there."""

    entry: Entry
    missing_since: int = 0


class Work(msgspec.Struct, frozen=True):
    """used: ms of processor time a process had used by `at` (ms)."""

    at: int
    used: int


def news_of_work(
    known: Mapping[AgentProcess, Work],
    watched: Mapping[str, AgentProcess],
    cpu: Callable[[int], int | None],
    now: int,
    received: Callable[[Iterable[int]], Mapping[int, int | None]] = lambda _pids: {},
    resting: Set[int] = frozenset(),
) -> tuple[list[AnySignal], dict[AgentProcess, Work]]:
    """Whether each session's process works or stands still; and what to know at the next look.

    cpu, received: see `processes.cpu_ms` and `received_ago`. resting: process ids of which nobody
    needs to ask what they receive. A process is measured only once its last measurement is old
    enough. Of one that stands still that is said each time: the hub knows since when it was silent.
    """
    due = {
        process
        for process in set(watched.values())
        # a clock that was set back starts anew
        if (before := known.get(process)) is None or not 0 <= now - before.at < CPU_INTERVAL_MS
    }
    measured = {
        process: Work(now, used) for process in due if (used := cpu(process.pid)) is not None
    }
    work = {each: known[each] for each in watched.values() if each in known and each not in due}
    shares = {
        process: (found.used - known[process].used) / (now - known[process].at)
        for process, found in measured.items()
        if process in known and now > known[process].at
    }
    silent = [process.pid for process, share in shares.items() if share < CPU_SHARE_BESIDE_WIRE]
    wires = received([pid for pid in silent if pid not in resting])
    news: list[AnySignal] = []
    for session_id, process in watched.items():
        if process not in shares:
            continue
        told, ago = process.pid in wires, wires.get(process.pid)
        fields: dict[str, Any] = {"agent": process.agent}
        if ago is not None and ago < now - known[process].at:
            news.append(_said(Alive, session_id, "process", now, event="wire", **fields))
        elif shares[process] >= (CPU_SHARE_BESIDE_WIRE if told else CPU_SHARE):
            news.append(_said(Alive, session_id, "process", now, event="cpu", **fields))
        elif process.pid not in resting:
            fields["connected"] = ago is not None if told else None
            news.append(_said(ProcessStill, session_id, "process", now, **fields))
    return news, work | measured


def read_entry(signals: list[AnySignal], started: int | None) -> Entry | None:
    """An entry of what a registry file says; None if it names no living process.

    started: when the process it names began, None if there is none. A file left over by a killed
    agent may name a process id that another program bears by now: that one began after the file's
    own stamp. The stamp is the agent's, some 100 ms late; ours is the same from every witness.
    """
    named = next((s for s in signals if isinstance(s, StatusReported | ProcessSeen)), None)
    if named is None or named.pid is None or started is None:
        return None
    if named.started and started > named.started + SAME_START_MS:
        return None
    return Entry(
        named.session_id,
        AgentProcess(named.pid, started),
        tuple(
            msgspec.structs.replace(signal, started=started)
            if isinstance(signal, StatusReported | ProcessSeen)
            else signal
            for signal in signals
        ),
    )


def news_of_entry(
    entry: Entry,
    known: Known | None,
    watched: Mapping[str, AgentProcess],
    now: int,
    others: Iterable[Entry] = (),
    *,
    starts: bool = False,
) -> list[AnySignal]:
    """What a registry file that is there tells beyond what was told of it before. now: ms.

    others: the other files', of living processes. starts: it is our first look.
    """
    before = known.entry if known else None
    told = [_core(signal) for signal in before.signals] if before else []
    news: list[AnySignal] = []
    signals: Iterable[AnySignal] = entry.signals
    moved = before is not None and before.session_id != entry.session_id
    if before is not None and moved:
        # /clear and in-app /resume: the same process names another session. Told although the hook has
        # ended the old one: only now have the user's own hooks on its end run. Where another has it
        # still that is told anew, whoever is watched by now: between hook and registry either may have spoken.
        if heir := news_of_heir(before.session_id, others, now, before):
            news += heir
        elif before.session_id not in watched or _is_running(before, watched):
            news.append(_said(SessionEnded, before.session_id, "registry", now))
        signals = (_disown(signal, before) for signal in signals)
    process = watched.get(entry.session_id)
    if moved or process is None or not process.is_same(entry.process):
        # By /resume a terminal may come to a session that a younger one had, or has still. So that is told
        # although a hook has named the process before: no hook knows that it came from another session.
        # Nor does anybody of one that came while no collector ran.
        moved |= starts and process is None
        news.append(_process_seen(entry, now, moved=moved))
    news += (s for s in signals if not isinstance(s, ProcessSeen) and _core(s) not in told)
    return news


def news_of_absence(
    known: Known,
    watched: Mapping[str, AgentProcess],
    now: int,
    others: Iterable[Entry] = (),
    *,
    lives: bool = True,
) -> list[AnySignal]:
    """A registry file has gone: its session has ended, unless the hook has said so before.

    If the process is gone too, that is what `news_of_processes` tells. others: see `news_of_entry`.
    """
    if now - known.missing_since < VANISHED_MS:
        return []
    session_id = known.entry.session_id
    if heir := news_of_heir(session_id, others, now, known.entry):
        return heir
    running = lives and _is_running(known.entry, watched)
    return [_said(SessionEnded, session_id, "registry", now)] if running else []


def news_of_processes(
    watched: Mapping[str, AgentProcess],
    gone: Set[AgentProcess],
    now: int,
    living: Sequence[Entry] = (),
) -> list[AnySignal]:
    """The sessions whose process is no more: kill -9 leaves no other sign."""
    news: list[AnySignal] = []
    for session_id, process in watched.items():
        if process in gone:
            news.append(
                _said(ProcessGone, session_id, "process", now, **msgspec.structs.asdict(process))
            )
            news += news_of_heir(session_id, living, now)
    return news


def news_of_heir(
    session_id: str, others: Iterable[Entry], now: int, left: Entry | None = None
) -> list[AnySignal]:
    """One of two terminals on a session was closed: which process has it still, and what that does.

    The file of the remaining one has not changed, so nobody would read it again. Its status is stamped
    right after that of the closed one, `left`, which was younger; by our clock only if that is unknown,
    as the CLI may have stamped its next status already. (Rejected: to believe the hook of the closed
    one; the session stood as closed until its next prompt, a dialog on the other's screen too.)
    """
    mine = [entry for entry in others if entry.session_id == session_id]
    if not mine:
        return []
    heir = max(mine, key=lambda entry: entry.process.started)
    told = [each for each in heir.signals if isinstance(each, StatusReported)]
    stamps = [
        each.at for each in (left.signals if left else ()) if isinstance(each, StatusReported)
    ]
    since = max(stamps) + 1 if stamps else now
    return [
        _process_seen(heir, now, again=True),
        *(msgspec.structs.replace(each, at=max(each.at, since), seen=now) for each in told),
    ]


def _core(signal: AnySignal) -> AnySignal:
    """A signal without the time at which we looked: what it says, to tell whether that is new."""
    if isinstance(signal, UnknownSignal):
        return signal
    at = signal.at if isinstance(signal, StatusReported) else 0
    return msgspec.structs.replace(signal, at=at, seen=0)


def _disown(signal: AnySignal, before: Entry) -> AnySignal:
    """A session that has just taken over a process bears, for a while, the last one's status."""
    inherited = isinstance(signal, StatusReported) and any(
        isinstance(old, StatusReported) and old.at == signal.at for old in before.signals
    )
    if not inherited:
        return signal
    return msgspec.structs.replace(signal, status=None, waiting_for=None)


def news_of_moves(
    watched: Mapping[str, AgentProcess], living: Sequence[Entry], now: int
) -> list[AnySignal]:
    """At our start: the sessions whose process has gone over to another one while nobody looked.

    living: what all files of the registry say of living processes.
    """
    news: list[AnySignal] = []
    for session_id, process in watched.items():
        at = next((each for each in living if each.process.is_same(process)), None)
        if at is not None and at.session_id != session_id:
            ended = [_said(SessionEnded, session_id, "registry", now)]
            news += news_of_heir(session_id, living, now) or ended
    return news


def _process_seen(entry: Entry, now: int, **told: bool) -> ProcessSeen:
    pid, started = entry.process.pid, entry.process.started
    about = {"pid": pid, "started": started, **told}
    return _said(ProcessSeen, entry.session_id, "registry", now, **about)


def _is_running(entry: Entry, watched: Mapping[str, AgentProcess]) -> bool:
    process = watched.get(entry.session_id)
    return process is not None and process.is_same(entry.process)


def _said(kind: type[T], session_id: str, source: Source, now: int, **fields: Any) -> T:
    return kind(session_id=session_id, at=now, seen=now, source=source, **fields)
