"""An agent's program on this machine: where it is, its version, and which of its processes runs a session.

The last is for agents whose sessions no hook and no registry names: the one in a session's directory runs it.
Where several processes of the agent are in one directory nobody knows which of them it is. Then none is
named, and the session is over once the last of them has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from adsum_collector.agents.base import Surroundings
from adsum_collector.agents.installer import ProgramNotFoundError, Version
from adsum_collector.errors import SpoolUnavailable
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal
from adsum_shared.state import HostWitness

_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
#: Where installers put programs, beside PATH: a service or a cron job has a short PATH.
_FOLDERS = (".local/bin", ".npm-global/bin", ".bun/bin", ".volta/bin")
_SHARED_FOLDERS = (Path("/usr/local/bin"), Path("/opt/homebrew/bin"))


def find_program(name: str, env: Mapping[str, str], home: Path, *more: Path) -> Path | None:
    """more: where it may be as well."""
    if on_path := shutil.which(name, path=env.get("PATH", "")):
        return Path(on_path)
    places = [home / folder / name for folder in _FOLDERS]
    places += [*more, *(folder / name for folder in _SHARED_FOLDERS)]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def version_of(program: Path, timeout_s: float = 10.0) -> Version | None:
    """None when the program does not answer as an agent does."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own program, no shell
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            env={**os.environ, "DISABLE_AUTOUPDATER": "1"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_in(answer.stdout) if answer.returncode == 0 else None


def version_in(text: str) -> Version | None:
    """Return the first version number in it."""
    found = _VERSION.search(text)
    return tuple(int(number) for number in found.groups()) if found else None


def installed_version(
    chosen: Path | None, found: Path | None, name: str, title: str
) -> tuple[Version | None, Path | None]:
    """(version, program), see `Installer.program`. found: the one to take unless another was chosen."""
    program = chosen or found
    version = version_of(program) if program else None
    if chosen and version is None:
        raise ProgramNotFoundError(
            f"{chosen} does not answer `--version` as {title} does. {name_it(name)}"
        )
    return version, program


def name_it(name: str) -> str:
    return f"Give --claude the path of the `{name}` program."


LOOK_S: Final = 1.0

#: A start time is known to a second at worst.
SLACK_MS: Final = 2_000
#: Sessions that are kept in mind; the one heard of longest ago goes.
MOST_SESSIONS: Final = 512


class Whereabouts(NamedTuple):
    """directory: where a session runs. at: when it was heard of last, ms."""

    directory: str
    at: int


class Runner(NamedTuple):
    """A process. started: ms. directory: resolved, as the system tells it."""

    started: int
    directory: str
    parent: int


class Runners:
    """The processes of one agent. is_agent: whether a command line is one of its own."""

    def __init__(
        self,
        is_agent: Callable[[Sequence[str]], bool],
        started_of: Callable[[int], int | None],
    ) -> None:
        self._is_agent, self._started_of = is_agent, started_of
        self._seen: set[int] = set()
        self._before: set[int] = set()
        self._running: dict[int, Runner] = {}

    def look(self) -> dict[int, Runner]:
        """By process id. Blocks for some ms: a process may not be at once what it becomes, so it is read twice."""
        pids = set(psutil.pids())
        for pid, runner in list(self._running.items()):
            if pid not in pids or self._started_of(pid) != runner.started:
                del self._running[pid]
        for pid in pids - self._before:
            with contextlib.suppress(psutil.Error, OSError):
                process = psutil.Process(pid)
                if process.uids().real == os.getuid() and self._is_agent(process.cmdline()):
                    started, parent = self._started_of(pid), process.ppid()
                    self._running[pid] = Runner(started or 0, process.cwd(), parent)
        self._before, self._seen = self._seen & pids, pids
        return dict(self._running)


class RunnerNews:
    """What is new in which process runs which session. Pure but for what it keeps in mind."""

    def __init__(self) -> None:
        #: session id -> its process, 0 if it is one of several.
        self._told: dict[str, int] = {}
        self._over: dict[str, int] = {}

    def read(
        self, sessions: Mapping[str, Whereabouts], running: Mapping[int, Runner], now: int
    ) -> list[KnownSignal]:
        """now: ms of wall clock."""
        found: list[KnownSignal] = []
        for session in [each for each in self._told if each not in sessions]:
            del self._told[session]
        self._over = {each: at for each, at in self._over.items() if each in sessions}
        for session, place in sessions.items():
            found += self._of(session, place, running, now)
        return found

    def _of(
        self, session: str, place: Whereabouts, running: Mapping[int, Runner], now: int
    ) -> Iterable[KnownSignal]:
        near = runners_in(place, running)
        about: dict[str, Any] = {"session_id": session, "at": now, "seen": now, "source": "process"}
        told = self._told.get(session)
        if told is not None and (told in near or (not told and near)):
            return []
        if told is not None:
            del self._told[session]
            self._over[session] = place.at
            # the end of a process that was named is told by who watches processes
            return [] if told else [s.SessionEnded(**about, reason="process")]
        if not near or place.at <= self._over.get(session, 0):
            return []
        self._told[session] = near[0] if len(near) == 1 else 0
        if len(near) > 1:
            return []
        return [s.ProcessSeen(**about, pid=near[0], started=running[near[0]].started)]

    def forget(self) -> None:
        """What was told last has not arrived."""
        self._told.clear()


def runners_in(place: Whereabouts, running: Mapping[int, Runner]) -> list[int]:
    """Those that were there when the session was heard of; of one that starts itself anew, the first."""
    directory = os.path.realpath(place.directory) if place.directory else ""
    return [
        pid
        for pid, runner in running.items()
        if runner.directory == directory
        and runner.parent not in running
        and runner.started <= place.at + SLACK_MS
    ]


def remember(sessions: dict[str, Whereabouts], session: str, place: Whereabouts) -> None:
    """As the one heard of last. Lines of the past move it into no past."""
    before = sessions.pop(session, None)
    at = max(place.at, before.at) if before else place.at
    sessions[session] = Whereabouts(place.directory or (before.directory if before else ""), at)
    if len(sessions) > MOST_SESSIONS:
        del sessions[next(iter(sessions))]


class RunnerWitness:
    """Tells who runs the sessions of an agent. sessions: filled by who reads its files.

    directories: where it keeps its files; as long as none is there, nothing is looked for.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        is_agent: Callable[[Sequence[str]], bool],
        sessions: dict[str, Whereabouts],
        around: Surroundings,
    ) -> None:
        self._directories, self._sessions, self._around = directories, sessions, around
        self._runners, self._news = Runners(is_agent, around.started_of), RunnerNews()
        self.faults: Counter[str] = Counter()
        self.looked_at = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if any(directory.is_dir() for directory in self._directories):
                await self._look()
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        running = await asyncio.to_thread(self._runners.look)
        self.looked_at = now = self._around.now()
        try:
            if signals := self._news.read(dict(self._sessions), running, now):
                await self._around.accept(signals)
        except SpoolUnavailable:
            self.faults["not accepted"] += 1
            self._news.forget()

    def health(self, _now: int) -> HostWitness:
        state = "ok" if self.looked_at else "silent"
        return HostWitness("runners", state, self.looked_at, dict(self.faults))
