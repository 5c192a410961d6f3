"""Keeps which process runs which session, across restarts, so that an ended one is noticed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec
import psutil

from adsum_shared.signals import DEFAULT_AGENT, AnySignal, ProcessGone, ProcessSeen, SessionEnded

_PREFIX = "process:"
#: Two start times of one process id this close are the same start, measured twice: the boot time
#: they are reckoned from moves when the clock is set.
SAME_START_MS = 2_000
#: More than the system says of a process in one line.
STAT_BYTES = 4096


class AgentProcess(msgspec.Struct, frozen=True):
    """started: ms of host wall clock, 0 if nobody could say. agent: of which kind it is."""

    pid: int
    started: int = 0
    agent: str = DEFAULT_AGENT

    def is_same(self, other: AgentProcess) -> bool:
        if self.pid != other.pid:
            return False
        unknown = not self.started or not other.started
        return unknown or abs(self.started - other.started) <= SAME_START_MS


def state_changes(signals: Iterable[AnySignal]) -> dict[str, bytes | None]:
    """What these signals change in the spool's state, in the same commit as the signals."""
    changes: dict[str, bytes | None] = {}
    for signal in signals:
        if isinstance(signal, ProcessSeen):
            agent = f" {signal.agent}" if signal.agent != DEFAULT_AGENT else ""
            value = f"{signal.pid} {signal.started}{agent}"
            changes[_PREFIX + signal.session_id] = value.encode()
        elif isinstance(signal, ProcessGone | SessionEnded):
            changes[_PREFIX + signal.session_id] = None
    return changes


def watched(state: Mapping[str, bytes]) -> dict[str, AgentProcess]:
    """Session id -> process, for every session that has not ended."""
    found: dict[str, AgentProcess] = {}
    for key, value in state.items():
        if key.startswith(_PREFIX):
            with contextlib.suppress(ValueError):  # bit rot; the registry names it again
                pid, started, *agent = value.decode().split(" ")
                process = AgentProcess(int(pid), int(started), *agent[:1])
                found[key.removeprefix(_PREFIX)] = process
    return found


def watched_in(state: Callable[[], Mapping[str, bytes]]) -> Callable[[], dict[str, AgentProcess]]:
    """`watched`, asked every second: read anew only from a state that is another one."""
    read: Mapping[str, bytes] = {}
    found: dict[str, AgentProcess] = {}

    def ask() -> dict[str, AgentProcess]:
        nonlocal read, found
        if (now := state()) is not read:
            read, found = now, watched(now)
        return found

    return ask


class ProcessTable:
    """Start times of living processes, told the same way every time.

    known: what earlier runs have said of processes that still live.
    """

    def __init__(self, known: Iterable[AgentProcess] = ()) -> None:
        self._said = {process.pid: process for process in known}

    def started_of(self, pid: int) -> int | None:
        """Ms of host wall clock; None if no such process lives."""
        started = look_up(pid)
        if started is None:
            self._said.pop(pid, None)
            return None
        now = AgentProcess(pid, started)
        said = self._said.get(pid)
        if said is None or not said.started or not said.is_same(now):
            self._said[pid] = said = now
        return said.started

    def lives(self, process: AgentProcess) -> bool:
        started = self.started_of(process.pid)
        return started is not None and process.is_same(AgentProcess(process.pid, started))


def look_up(pid: int) -> int | None:
    """A process's start in ms of wall clock, from the system; None if it is gone or a zombie."""
    if not 0 < pid < 1 << 31:
        return None  # said by somebody else, and no process id anywhere
    if sys.platform == "linux":
        return _look_up_linux(pid)
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return int(process.create_time() * 1000)
    except psutil.Error:
        return None


def _look_up_linux(pid: int) -> int | None:
    """One small read instead of psutil's four: this is asked of every session, every second.

    By the plain calls: a file object asks the system six things more, and takes twice the time.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            stat = os.read(descriptor, STAT_BYTES)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    # the name in brackets may hold anything, brackets too
    state, *fields = stat[stat.rindex(b")") + 2 :].split()
    if state in {b"Z", b"X"}:
        return None
    return _boot_ms() + int(fields[18]) * 1000 // os.sysconf("SC_CLK_TCK")


def cpu_ms(pid: int) -> int | None:
    """What a process and all below it have used of the processors so far; None if it is gone.

    With those below that are over: else a call that runs one command after the other would seem to
    have worked less and less. A tool of an MCP server can work for minutes while its agent waits.
    """
    try:
        process = psutil.Process(pid)
        used = _used(process)
        below = _below(pid) if sys.platform == "linux" else process.children(recursive=True)
    except psutil.Error:
        return None
    for child in below:
        with contextlib.suppress(psutil.Error):  # gone since
            used += _used(child)
    return int(used * 1000)


def _used(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:4]))  # user, system, and both of those waited for


def _below(pid: int) -> Iterator[psutil.Process]:
    """As psutil's `children`, which reads of every process of the machine whose child it is."""
    with contextlib.suppress(OSError, psutil.Error):  # gone since
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_bytes().split()):
                yield psutil.Process(child)
                yield from _below(child)


@cache
def _boot_ms() -> int:
    return int(psutil.boot_time() * 1000)
