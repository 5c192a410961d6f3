"""Keeps which process runs which session, across restarts, so that an ended one is noticed."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import psutil

from adsum_shared.signals import (
    DEFAULT_AGENT,
    LATENESS,
    LEFT,
    AnySignal,
    ProcessGone,
    ProcessSeen,
    SessionEnded,
)

_PREFIX = "process:"
#: Two start times of one process id this close are the same start, measured twice: the boot time
#: they are reckoned from moves when the clock is set.
SAME_START_MS = 2_000
#: More than the system says of a process in one line.
STAT_BYTES = 4096

#: Of linux/netlink.h, sock_diag.h and inet_diag.h. Established: the only TCP state that is asked for.
_SOCK_DIAG, _BY_FAMILY, _DUMP, _ERROR, _DONE, _ESTABLISHED, _INFO = 4, 20, 0x301, 2, 3, 1, 2
_MESSAGE, _ATTRIBUTE, _NUMBER = struct.Struct("=IHHII"), struct.Struct("=HH"), struct.Struct("=I")
_ASKED = struct.Struct("=BBBBI48x")
#: Of a message's start the socket's inode and the first attribute; of tcp_info its last_data_recv.
_INODE_AT, _ATTRIBUTES_AT, _RECEIVED_AT = _MESSAGE.size + 68, _MESSAGE.size + 72, 4 + 52
#: A socket takes 4.5 us to be told of. A machine with more serves others, and is not asked.
_MOST_DIAGNOSTICS = 8 << 20


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


class WatchedProcess(NamedTuple):
    """What the spool's state says of a session's process. since, heir: see `ProcessSeen`, 0 = its start."""

    process: AgentProcess
    since: int = 0
    heir: bool = False

    def written(self) -> bytes:
        pid, started, agent = self.process.pid, self.process.started, self.process.agent
        if self.since:
            return f"{pid} {started} {agent} {self.since} {self.heir:d}".encode()
        return f"{pid} {started} {agent}".removesuffix(f" {DEFAULT_AGENT}").encode()


def _kept(value: bytes | None) -> WatchedProcess | None:
    with contextlib.suppress(ValueError):  # bit rot; the registry names it again
        pid, started, *more = (value or b"").decode().split(" ")
        since, heir = (int(more[1]), more[2:] == ["1"]) if len(more) > 1 else (0, False)
        return WatchedProcess(AgentProcess(int(pid), int(started), *more[:1]), since, heir)
    return None


def state_changes(
    signals: Iterable[AnySignal], state: Mapping[str, bytes]
) -> dict[str, bytes | None]:
    """What these signals change in the spool's state, in the same commit as the signals.

    Of several processes that have a session the hub takes the one that came to it last, and so it is
    watched, whichever speaks: else its end would be told by nobody. That a transcript was closed is not
    the end of its process: that is told when it has come. Nor is it an end what a hook tells when
    another terminal has just been found to have the session still. A hook does not say of which of
    the two it is, and can be later than that finding.
    """
    changes: dict[str, bytes | None] = {}
    for signal in signals:
        key = _PREFIX + signal.session_id
        held = _kept(changes.get(key, state.get(key)))
        if isinstance(signal, ProcessSeen):
            found = AgentProcess(signal.pid, signal.started, signal.agent)
            since = signal.at if signal.again or signal.moved else 0
            if held is None or _takes_over(held, found, since):
                changes[key] = WatchedProcess(found, since, signal.again).written()
        elif isinstance(signal, ProcessGone) or (
            isinstance(signal, SessionEnded)
            and (signal.source != "transcript" or signal.reason == LEFT)
            and not (
                held is not None
                and held.heir
                and signal.source == "hook"
                and signal.at <= held.since + LATENESS
            )
        ):
            changes[key] = None
    return changes


def _takes_over(held: WatchedProcess, found: AgentProcess, since: int) -> bool:
    if held.process.is_same(found):
        return since > held.since or not held.process.started
    return (since or found.started) > (held.since or held.process.started)


def watched(state: Mapping[str, bytes]) -> dict[str, AgentProcess]:
    """Session id -> process, for every session that has not ended."""
    found: dict[str, AgentProcess] = {}
    for key, value in state.items():
        if key.startswith(_PREFIX) and (kept := _kept(value)) is not None:
            found[key.removeprefix(_PREFIX)] = kept.process
    return found


class HasState(Protocol):
    @property
    def state(self) -> Mapping[str, bytes]: ...


class WatchedSessions:
    """Session id -> process, of all sessions that have not ended, as the spool's state has them."""

    def __init__(self, spool: HasState) -> None:
        self._spool = spool
        self._read: Mapping[str, bytes] = {}
        self._found: dict[str, AgentProcess] = {}

    def look(self) -> dict[str, AgentProcess]:
        """Asked every second: read anew only from a state that is another one."""
        if (now := self._spool.state) is not self._read:
            self._read, self._found = now, watched(now)
        return self._found


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


def stat_fields(pid: int) -> list[bytes]:
    """What Linux says of a process, from its state on; `X` alone: there is none."""
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return [b"X"]
    return told[told.rindex(b")") + 2 :].split()


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


def commands_below(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Of each process below this one that can be read: when it began, ms, and its words."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        below = _below(pid) if sys.platform == "linux" else process.children(recursive=True)
        for child in below:
            with contextlib.suppress(psutil.Error):  # gone since
                yield int(child.create_time() * 1000), child.cmdline()


def linux_locks() -> dict[int, int]:
    """By inode, the process that holds a lock of `flock` on the whole file; elsewhere nothing.

    (Rejected: by device too. The kernel names another one than `stat` on btrfs and overlays.)
    """
    held: dict[int, int] = {}
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return held
    for line in lines:
        words = line.split()
        if len(words) >= 8 and words[1:4] == ["FLOCK", "ADVISORY", "WRITE"]:
            with contextlib.suppress(ValueError):
                held[int(words[5].rpartition(":")[2])] = int(words[4])
    return held


def received_ago(pids: Iterable[int]) -> dict[int, int | None]:
    """How many ms ago each process last received a byte on a TCP connection of its own.

    A connection that was opened later than that counts from then. None: it has none that is open.
    A process is missing if the system does not tell: elsewhere than on Linux, in a container that
    has its own network, under another user. Only its own connections: those of a server below it
    may be kept alive for days, and say nothing of the model.
    """
    held = {pid: inodes for pid in pids if (inodes := _sockets_of(pid)) is not None}
    wanted = frozenset[int]().union(*held.values())
    try:
        ages = {**_ages(socket.AF_INET, wanted), **_ages(socket.AF_INET6, wanted)} if held else {}
    except OSError:
        return {}
    return {
        pid: min((ages[inode] for inode in inodes if inode in ages), default=None)
        for pid, inodes in held.items()
    }


def _sockets_of(pid: int) -> set[int] | None:
    """Inodes of its sockets of whatever kind; None if they cannot be seen, or not from here."""
    found = set()
    try:
        if Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink():
            return None
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
    except OSError:
        return None
    return found


def unix_paths(pid: int) -> list[str]:
    """Of each Unix socket of a process that bears one: its path. Empty where that is not told.

    (Rejected: psutil's `net_connections` on Linux. It raises RuntimeError at a line that it does not
    understand, and any user of the machine can write one: names of sockets may hold line ends.)
    """
    if sys.platform != "linux":
        try:
            found = psutil.Process(pid).net_connections("unix")
        except (psutil.Error, OSError, RuntimeError):
            return []
        return [str(each.laddr) for each in found if each.laddr]
    try:
        table = Path("/proc/net/unix").read_bytes()
    except OSError:
        return []
    return read_unix_paths(table, _sockets_of(pid) or set())


def read_unix_paths(table: bytes, inodes: Set[int]) -> list[str]:
    """Of what /proc/net/unix says, the paths of these sockets.

    A socket that two lines tell of has none: one of them is a line that somebody wrote into a name.
    """
    paths: dict[int, bytes] = {}
    for line in table.split(b"\n"):
        words = line.split(None, 7)
        if len(words) >= 7 and words[6].isdigit() and (inode := int(words[6])) in inodes:
            paths[inode] = b"" if inode in paths or len(words) == 7 else words[7]
    return [os.fsdecode(path) for path in paths.values() if path]


def _ages(family: int, wanted: frozenset[int]) -> dict[int, int]:
    """Ms since each of these sockets received something. Raises OSError if that is not told.

    (Rejected: /proc/net/tcp, which does not count bytes. And the bytes themselves: the age needs
    no second look, and a connection that is new needs none to compare it with.)
    """
    asked = _ASKED.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 1 << _ESTABLISHED)
    ages: dict[int, int] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.send(_MESSAGE.pack(_MESSAGE.size + len(asked), _BY_FAMILY, _DUMP, 1, 0) + asked)
        read = 0
        while read <= _MOST_DIAGNOSTICS:
            raw = kernel.recv(64 << 10)
            read += len(raw)
            if not read_ages(raw, wanted, ages):
                return ages
    raise OSError("too many sockets")


def read_ages(raw: bytes, wanted: Set[int], ages: dict[int, int]) -> bool:
    """Adds to `ages` what these messages tell; whether more are to come. Raises OSError."""
    at = 0
    while at + _MESSAGE.size <= len(raw):
        length, kind, *_ = _MESSAGE.unpack_from(raw, at)
        if kind == _DONE:
            return False
        if kind == _ERROR or length < _MESSAGE.size:
            raise OSError("no socket diagnostics")
        end = min(at + length, len(raw))
        if end >= at + _ATTRIBUTES_AT:
            (inode,) = _NUMBER.unpack_from(raw, at + _INODE_AT)
            if inode in wanted and (age := _age(raw[at + _ATTRIBUTES_AT : end])) is not None:
                ages[inode] = age
        at += _aligned(length)
    return True


def _age(attributes: bytes) -> int | None:
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if kind == _INFO and length >= _RECEIVED_AT + _NUMBER.size <= len(attributes) - at:
            return int(_NUMBER.unpack_from(attributes, at + _RECEIVED_AT)[0])
        at += max(_aligned(length), _ATTRIBUTE.size)
    return None


def _aligned(length: int) -> int:
    return (length + 3) & ~3


@cache
def _boot_ms() -> int:
    return int(psutil.boot_time() * 1000)
