"""Finds out of the system which process runs which of Codex's threads, and that a command runs.

A process that runs a thread holds a lock on a file that bears its id, from 0.157 on: the terminal's own
where it runs its session itself, and the background server for all of its. So that is known before the
first hook, without any, and of a session that was taken up again and not prompted yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from adsum_collector.agents.base import Surroundings
from adsum_collector.agents.codex.known_threads import AskedCommand, KnownThreads
from adsum_collector.agents.codex.rollout import Thread, transcript_file
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.processes import commands_below, linux_locks
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal
from adsum_shared.state import COMPRESSED, COMPRESSED_MB, HostWitness

LOCKS: Final = "thread-writer-locks"
SUFFIX: Final = ".lock"
LOOK_S: Final = 1.0
#: The same while a command is asked for that may begin to run.
ASKING_S: Final = 0.2
MOST_LOCKS: Final = 4096
#: A lock this much younger than its thread was taken when the thread was taken up again.
NEW_MS: Final = 2_000
#: Of a rollout's first line, which holds the client's own instructions to the model.
MOST_HEAD: Final = 4 << 20
#: What is counted at the start, of rollouts that are not read.
#: A start time is known to a second at worst.
START_SLACK_MS: Final = 1_000
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Lock(NamedTuple):
    """pid: who holds it. since: when it was taken, ms."""

    pid: int
    since: int


class LockNews:
    """What is new in the locks of one home. Pure but for what it keeps in mind.

    started_of: when a process began, ms; None if it is gone.
    """

    def __init__(
        self, threads: KnownThreads, started_of: Callable[[int], int | None], *, from_begin: bool
    ) -> None:
        self._threads, self._started_of = threads, started_of
        self._told: dict[str, Lock] = {}
        #: False: what the first look finds may have been so for long.
        self._looked = from_begin

    def read(self, held: Mapping[str, Lock], present: set[str], now: int) -> list[KnownSignal]:
        """held: by thread. present: the threads whose file is there, held or not. now: ms."""
        found: list[KnownSignal] = []
        for thread in [each for each in self._told if each not in held]:
            del self._told[thread]
            if thread not in present:
                about = {**_about(thread, now, now), "source": "registry"}
                found.append(s.SessionEnded(**about, reason="closed"))
        for thread, lock in held.items():
            known = self._threads.get(thread)
            if self._told.get(thread) == lock or known is None or not known.begun:
                continue
            if known.kind == "session" and (started := self._started_of(lock.pid)) is not None:
                found += self._taken(thread, lock, started, now)
                self._told[thread] = lock
        self._looked = True
        return found

    def _taken(self, thread: str, lock: Lock, started: int, now: int) -> list[KnownSignal]:
        # The server that takes a thread up may be older than the terminal that had it.
        moved = lock.since >= begun_at(thread, lock.since) + NEW_MS
        about = _about(thread, lock.since if moved else now, now)
        seen = s.ProcessSeen(**about, pid=lock.pid, started=started, moved=moved)
        if not self._looked or not moved:
            return [seen]
        return [seen, s.SessionStarted(**_about(thread, lock.since, now), reason="resume")]

    def untold(self, held: Mapping[str, Lock]) -> list[str]:
        """Threads that are held, and of which nobody has said what they are."""
        return [thread for thread in held if self._threads.get(thread) is None]

    def forget(self) -> None:
        self._told.clear()


def begun_at(thread: str, otherwise: int) -> int:
    """When a thread was begun, ms, by its id; those of older versions do not say."""
    digits = thread.replace("-", "")
    return int(digits[:12], 16) if digits[12:13] == "7" else otherwise


def _about(session: str, at: int, now: int) -> dict[str, Any]:
    return {"session_id": session, "at": min(at, now), "seen": now, "source": "process"}


def resumed_by(words: Sequence[str]) -> str | None:
    """The thread that `codex resume ID` takes up. Of versions that hold no locks."""
    if len(words) < 3 or Path(words[0]).name != "codex" or "resume" not in words[1:]:
        return None
    return next((word for word in words if _ID.fullmatch(word)), None)


class Resumes:
    """Processes whose command lines name a session that they took up again."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._before: set[int] = set()

    def look(self) -> list[tuple[str, int]]:
        """(thread, process id) of those that are new. One may not be what it becomes at its first look."""
        pids, found = set(psutil.pids()), []
        for pid in pids - self._before:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.uids().real == os.getuid() and (at := resumed_by(process.cmdline())):
                    found.append((at, pid))
        self._before, self._seen = self._seen & pids, pids
        return found


def began(
    asked: AskedCommand, running: Iterable[tuple[int, Sequence[str]]], now: int
) -> KnownSignal | None:
    """The end of a request, if the very command that it asked for runs: it was granted.

    running: of the processes below the session's, when each began (ms), and its words. A shell is
    given the command as its last word, in a sandbox or not.
    """
    for started, words in running:
        if started + START_SLACK_MS >= asked.at and words and words[-1] == asked.command:
            about = _about(asked.session, now, now)
            if asked.call:
                return s.RequestClosed(**about, tool_use_id=asked.call)
            return s.RequestClosed(**about, request_id=asked.thread)
    return None


class LiveThreads:
    """The witness of one home. name: of which home, where there are several."""

    def __init__(
        self, directory: Path, threads: KnownThreads, around: Surroundings, name: str = "threads"
    ) -> None:
        self.name = name
        self._directory, self._threads, self._around = directory, threads, around
        self._news = LockNews(threads, around.started_of, from_begin=False)
        self._held: dict[str, Lock] = {}
        self._resumes, self._resumed = Resumes(), dict[str, int]()
        self.faults: Counter[str] = Counter()
        self.looked_at = 0

    async def run(self) -> None:
        """Until cancelled."""
        looked, clock = -LOOK_S, asyncio.get_running_loop().time
        self.faults.update(await asyncio.to_thread(packed_rollouts, self._directory))
        while True:
            try:
                if clock() >= looked + LOOK_S:
                    looked = clock()
                    await self._look()
                await self._look_for_commands()
            except SpoolUnavailable:
                self.faults["not accepted"] += 1
                self._news.forget()
            await asyncio.sleep(ASKING_S if self._threads.asked else LOOK_S)

    def health(self, _now: int) -> HostWitness:
        state = "ok" if self._held else "silent"
        return HostWitness(self.name, state, self.looked_at, dict(self.faults))

    async def _look(self) -> None:
        """Raises SpoolUnavailable."""
        self._held, present = await asyncio.to_thread(locks_in, self._directory)
        if len(present) >= MOST_LOCKS:
            self.faults["too many locks"] += 1
        for thread in self._news.untold(self._held):
            await asyncio.to_thread(self._learn, thread)
        self.looked_at = now = self._around.now()
        signals = self._news.read(self._held, present, now)
        if not present and not await asyncio.to_thread((self._directory / LOCKS).is_dir):
            signals += await self._taken_up(now)
        if signals:
            await self._around.accept(signals)

    async def _taken_up(self, now: int) -> list[KnownSignal]:
        """Of versions without locks: sessions that a terminal has taken up again.

        Of others the terminal need not be what runs them.
        """
        found: list[KnownSignal] = []
        for thread, pid in await asyncio.to_thread(self._resumes.look):
            if self._threads.get(thread) is None:
                await asyncio.to_thread(self._learn, thread)
            known, started = self._threads.get(thread), self._around.started_of(pid)
            if known is None or known.kind != "session" or started is None:
                continue
            if self._resumed.get(thread) != pid:
                self._resumed[thread] = pid
                found.append(s.ProcessSeen(**_about(thread, now, now), pid=pid, started=started))
        return found

    def _learn(self, thread: str) -> None:
        """By its rollout, which is there from the first prompt on."""
        path = rollout_of(self._directory / "sessions", thread)
        if path is not None and (kind := kind_of(path)) is not None:
            self._threads.learn(thread, kind.kind or "hidden", kind.session or thread)

    async def _look_for_commands(self) -> None:
        """Raises SpoolUnavailable."""
        pids = self._around.pids()
        for key, asked in list(self._threads.asked.items()):
            pid = pids.get(asked.session)
            if pid is None or (self._held and asked.session not in self._held):
                continue  # another home's
            running = await asyncio.to_thread(_commands, pid)
            if (closed := began(asked, running, self._around.now())) is not None:
                self._threads.ran[asked.call or asked.thread] = None
                await self._around.accept([closed])
                self._threads.asked.pop(key, None)


def packed_rollouts(directory: Path) -> dict[str, int]:
    """How many rollouts Codex has compressed, and their MB. Nobody reads those; see docs/decisions.md."""
    sizes = []
    for place in ("sessions/*/*/*", "archived_sessions"):
        for path in directory.glob(f"{place}/*.jsonl.zst"):
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size)
    return {COMPRESSED: len(sizes), COMPRESSED_MB: -(-sum(sizes) // 10**6)} if sizes else {}


def _commands(pid: int) -> list[tuple[int, list[str]]]:
    return list(commands_below(pid))


def locks_in(directory: Path) -> tuple[dict[str, Lock], set[str]]:
    """(by thread, the locks that are held; the threads whose file is there)."""
    files: dict[str, tuple[int, int]] = {}
    with contextlib.suppress(OSError), os.scandir(directory / LOCKS) as entries:
        for entry in entries:
            thread = entry.name.removesuffix(SUFFIX)
            named = thread != entry.name and _ID.fullmatch(thread) is not None
            if named and len(files) < MOST_LOCKS:
                with contextlib.suppress(OSError):
                    stat = entry.stat()
                    files[thread] = stat.st_ino, stat.st_mtime_ns // 1_000_000
    holders = linux_locks() if files else {}
    held = {
        thread: Lock(holders[inode], since)
        for thread, (inode, since) in files.items()
        if inode in holders
    }
    return held, set(files)


def rollout_of(sessions: Path, thread: str) -> Path | None:
    """It lies below the local day on which its thread was begun."""
    try:
        begun = datetime.fromtimestamp(begun_at(thread, 0) / 1000, tz=UTC)
        around = [begun + timedelta(days=days) for days in (0, -1, 1)]
    except (ValueError, OverflowError, OSError):
        return None  # no time at all: anybody may write such an id on a command line
    for day in around:
        with contextlib.suppress(OSError):
            for path in (sessions / f"{day:%Y/%m/%d}").iterdir():
                if path.name.endswith(f"-{thread}.jsonl"):
                    return path
    return None


def kind_of(rollout: Path) -> Thread | None:
    """What its first line says. None if that cannot be read."""
    file = transcript_file(rollout.name)
    try:
        with rollout.open("rb") as lines:
            head = lines.readline(MOST_HEAD)
    except OSError:
        return None
    return Thread.head(head, file) if file is not None and head.endswith(b"\n") else None
