"""Ends the process of a session that rests, and takes the session up again under the same id.

A signal goes to no process but the one that the agent's registry names, which was looked at while a
descriptor of it was held: a process id that is used again is never met. What a run needs to come back
lies in a file of the state directory that its owner alone may read; it is never sent anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import psutil

from adsum_collector.agents.base import Agent, Registered
from adsum_collector.control.seats import MOST_HEARD, Remembered
from adsum_collector.control.terminal import box_of, is_in_front, pane_of
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import Intake
from adsum_collector.processes import stat_fields
from adsum_shared import WallClock
from adsum_shared.commands import NotObeyedError
from adsum_shared.private_files import open_private, write_private
from adsum_shared.redact import without_secrets
from adsum_shared.signals import (
    AnySignal,
    ChildFinished,
    ChildStarted,
    ProcessGone,
    ProcessSeen,
    PromptSubmitted,
    SessionEnded,
    SessionSuspended,
    ToolStarted,
    TurnEnded,
)

log = logging.getLogger(__name__)

FOLDER: Final = "suspended"
MOST_BYTES: Final = 1 << 20
#: Of the machine: a record holds an environment, so there is an end to them.
MOST_SUSPENDED: Final = 500
#: How long a registry may still say `idle` when it is not so any more.
LAG_MS: Final = 600
#: How long a session must have rested whose prompt nobody here can see.
UNSEEN_MS: Final = 60_000
#: It takes 0.04 to 0.14 s at rest, and several on a machine that is busy.
ENDS_S: Final = 10.0
#: Within which a resumed session is registered; an untrusted directory never is.
COMES_S: Final = 20.0
LOOK_S: Final = 0.1
SOCKET: Final = "adsum"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{7,63}")


class SuspendedRun(msgspec.Struct, frozen=True):
    """A run that was ended. program: it, and the script that it runs, if it is an interpreter.

    at: ms. lost: what does not come back, in words. start: its process's, see `Registered`.
    """

    session_id: str
    agent: str
    cwd: str
    program: list[str]
    flags: list[str]
    env: dict[str, str]
    lost: list[str]
    at: int
    start: str = ""


class Resting(NamedTuple):
    """Where a session's process is registered. agent: whose registry it is."""

    agent: Agent
    directory: Path
    entry: Registered


#: The text at the prompt of an agent's process; None: it cannot be seen. Raises NotObeyedError: a
#: dialog or a menu is in its place, or somebody types.
SeeBox = Callable[[Agent, int], str | None]


def box_in_tmux(agent: Agent, pid: int) -> str | None:
    if (keyboard := agent.keyboard) is None or (pane := pane_of(pid)) is None:
        return None
    return box_of(pane, keyboard) if is_in_front(pane, pid) else None


class Suspender:
    """directories: agent -> where it keeps its files. now: ms of wall clock. see_box: see SeeBox.

    hindered: what else this collector knows that keeps a session from being ended, in words.
    """

    def __init__(
        self,
        state_dir: Path,
        directories: Mapping[Agent, Sequence[Path]],
        intakes: Mapping[str, Intake],
        *,
        now: WallClock,
        see_box: SeeBox = box_in_tmux,
        hindered: Callable[[str], str | None] = lambda _session_id: None,
    ) -> None:
        self._folder = state_dir / FOLDER
        self._directories, self._intakes = directories, intakes
        self._now, self._see_box, self._hindered = now, see_box, hindered
        #: the least lately heard is forgotten first
        self._heard: OrderedDict[str, Remembered] = OrderedDict()
        #: of processes that began later everything was heard, and is remembered
        self._since = _ticks()
        #: sessions that are being ended or taken up
        self._under_way: set[str] = set()
        self.comes_s = COMES_S

    def hear(self, signals: Sequence[AnySignal]) -> None:
        """All that any witness of this machine says, once: what no registry tells of a session's rest."""
        for each in signals:
            session_id = each.session_id
            match each:
                case PromptSubmitted() | ToolStarted():
                    heard = self._heard_of(session_id)
                    heard.begun = max(each.at, heard.begun)
                case ChildStarted():
                    heard = self._heard_of(session_id)
                    heard.schedule(each.child_id, each.child_kind, each.until)
                case ChildFinished():
                    self._heard_of(session_id).finish(each.child_id, each.child_kind)
                case TurnEnded() if each.background is not None and each.agent_id is None:
                    self._heard_of(session_id).list_all(each.background)
                case ProcessSeen():
                    self._heard_of(session_id).pid = each.pid
                case ProcessGone() if self._heard_of(session_id).pid not in (0, each.pid):
                    pass  # another process has taken the session up meanwhile
                case SessionEnded() | ProcessGone():
                    self._heard.pop(session_id, None)
                case _:
                    pass

    def _heard_of(self, session_id: str) -> Remembered:
        heard = self._heard.setdefault(session_id, Remembered())
        self._heard.move_to_end(session_id)
        if len(self._heard) > MOST_HEARD:
            self._heard.popitem(last=False)
            self._since = _ticks()
        return heard

    def is_suspended(self, session_id: str) -> bool:
        return _ID.fullmatch(session_id) is not None and self._file(session_id).exists()

    def _forget_if_it_lives(self, session_id: str) -> bool:
        """Its user took it up again. Raises NotObeyedError: what was told to end lives yet."""
        found = self._found(session_id)
        if found is not None:
            if self._kept(session_id).start == found.entry.start:
                raise NotObeyedError("it is still ending")
            self.forget(session_id)
        return found is not None

    def tidy(self) -> None:
        """Forgets what its users took up again, in another process than was told to end. Blocks."""
        kept = {file.stem for file in self._folder.glob("*.json")}
        for each in self._registered() if kept else ():
            session_id = each.entry.session_id
            if session_id in kept and session_id not in self._under_way:
                with contextlib.suppress(NotObeyedError):
                    if self._kept(session_id).start != each.entry.start:
                        self.forget(session_id)

    def sweep(self) -> None:
        """Removes what a collector that was killed left half done: it may hold keys. Blocks."""
        for pattern in (f"{_LAUNCH}*", ".*.json.*", f".{_LAUNCH}*"):
            for file in self._folder.glob(pattern):
                file.unlink(missing_ok=True)

    async def sleeps(self, session_id: str) -> bool:
        """Whether it is suspended, and nobody has taken it up again. Raises NotObeyedError."""
        if not self.is_suspended(session_id):
            return False
        return not await asyncio.to_thread(self._forget_if_it_lives, session_id)

    async def suspend(self, session_id: str, by: str, *, auto: bool = False) -> str:
        """What came of it, in words. Raises NotObeyedError, OSError: its process was not ended."""
        if sys.platform != "linux":
            raise NotObeyedError("flags and environment of a process can be read on Linux alone")
        if not _ID.fullmatch(session_id):
            raise NotObeyedError("its id is none that could be taken up again")
        found = await asyncio.to_thread(self._found, session_id)
        if found is None:
            raise NotObeyedError("no process of it is registered here: it has ended")
        self._under_way.add(session_id)
        try:
            return await self._put_aside(found, by, auto=auto)
        finally:
            self._under_way.discard(session_id)

    async def _put_aside(self, found: Resting, by: str, *, auto: bool) -> str:
        pid, again = found.entry.pid, self.is_suspended(found.entry.session_id)
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            raise NotObeyedError("it has just ended by itself") from None
        try:
            self._require_rest(found)
            seen = await self._require_empty_box(found)
            run = await asyncio.to_thread(_run_of, found, self._now())
            freed = await asyncio.to_thread(_memory_of, pid)
            await asyncio.to_thread(self._keep, run)
            await self._end(process, found, by, auto=auto, freed=freed, again=again)
        finally:
            os.close(process)
        unseen = "" if seen else "; what was typed and not sent, if anything, is lost"
        return f"{freed >> 20} MB are free again{unseen}"

    async def _end(
        self, process: int, found: Resting, by: str, *, auto: bool, freed: int, again: bool
    ) -> None:
        """Says so, looks once more, ends it. What was said stays true if we are killed meanwhile.

        It is said first, as its end would else be told as its user's. To say it takes a commit to disk,
        seconds on a busy one, in which somebody may type: what was said and not done is taken back.
        again: it was told before, so the way back stays if it ends meanwhile.
        """
        session_id, now = found.entry.session_id, self._now()
        told = SessionSuspended(
            session_id=session_id, at=now, seen=now, by=by, auto=auto, freed_bytes=freed
        )
        try:
            await self._require_unchanged(found)
            await self._intakes[found.agent.name].accept([told])
            await self._require_empty_box(found)
            await self._require_unchanged(found)
        except BaseException as error:
            if not again or _is_alive(found.entry):
                self.forget(session_id)
                undone = msgspec.structs.replace(told, at=self._now(), undone=True)
                with contextlib.suppress(SpoolUnavailable):  # so it gives way to its next turn
                    await self._intakes[found.agent.name].accept([undone])
            if isinstance(error, SpoolUnavailable):
                raise NotObeyedError(f"that it is suspended cannot be told ({error})") from error
            raise
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            signal.pidfd_send_signal(process, signal.SIGTERM)
        if not await _ended(process, ENDS_S):
            raise NotObeyedError(f"told to end, it has not within {ENDS_S:.0f} s; it is not killed")

    async def _require_unchanged(self, found: Resting) -> None:
        """Raises NotObeyedError."""
        again = await asyncio.to_thread(self._found, found.entry.session_id)
        if again is None or again.entry != found.entry:
            raise NotObeyedError(f"it has just {'begun to work' if again else 'ended'}")
        self._require_rest(again)

    def _found(self, session_id: str) -> Resting | None:
        """Where it lives, on this machine."""
        return next((e for e in self._registered() if e.entry.session_id == session_id), None)

    def _registered(self) -> Iterator[Resting]:
        """The living processes that registries name, each checked against the process table."""
        for agent, directories in self._directories.items():
            for directory in directories:
                folder = agent.registry_dir(directory)
                if folder is None or not folder.is_dir():
                    continue
                for file in sorted(folder.glob("*.json")):
                    entry = _read(agent, file)
                    if entry is not None and _is_alive(entry):
                        yield Resting(agent, directory, entry)

    def _require_rest(self, found: Resting) -> None:
        """Raises NotObeyedError: ending it now would lose something."""
        entry = found.entry
        session_id = entry.session_id
        if not _is_ours(entry.pid):
            raise NotObeyedError("its process belongs to another user")
        if stat_fields(entry.pid)[0] in (b"T", b"t"):  # the signal would wait for its user's `fg`
            raise NotObeyedError("it is stopped (Ctrl+Z)")
        if not entry.attended:
            raise NotObeyedError("another program runs it, not a terminal")
        if entry.status != "idle":
            raise NotObeyedError(_NO_REST.get(entry.status or "", "it works"))
        heard = self._heard.get(session_id, Remembered())
        if self._now() - entry.at < LAG_MS or heard.begun > entry.at:
            raise NotObeyedError("it works, or did until just now")
        if heard.is_to_wake(self._now()):
            raise NotObeyedError("something it started is still to run, or to report to it")
        if (why := self._hindered(session_id)) is not None:
            raise NotObeyedError(why)
        if not found.agent.has_conversation(found.directory, session_id):
            raise NotObeyedError("nothing was said in it yet, so it could not be taken up again")

    async def _require_empty_box(self, found: Resting) -> bool:
        """Whether it could be seen. Raises NotObeyedError."""
        typed = await asyncio.to_thread(self._see_box, found.agent, found.entry.pid)
        if typed:
            raise NotObeyedError("something is typed at its prompt, which would be lost")
        if typed is None and self._now() - found.entry.at < UNSEEN_MS:
            raise NotObeyedError(
                "its prompt cannot be seen from here (it is not in tmux), so it must have rested "
                f"for {UNSEEN_MS // 1000} s"
            )
        return typed is not None

    def _keep(self, run: SuspendedRun) -> None:
        """Raises NotObeyedError, OSError."""
        try:
            content = msgspec.json.encode(run)
        except UnicodeEncodeError:
            raise NotObeyedError(f"its environment or program {_NO_TEXT}") from None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sum(1 for _ in self._folder.glob("*.json")) >= MOST_SUSPENDED:
            raise NotObeyedError(f"{MOST_SUSPENDED} sessions are suspended here already")
        write_private(self._file(run.session_id), content)

    def forget(self, session_id: str) -> None:
        self._file(session_id).unlink(missing_ok=True)

    def _file(self, session_id: str) -> Path:
        return self._folder / f"{session_id}.json"

    def _kept(self, session_id: str) -> SuspendedRun:
        """Raises NotObeyedError."""
        step = "take it up again at a terminal, in its directory"
        try:
            if not _ID.fullmatch(session_id):
                raise FileNotFoundError
            with os.fdopen(open_private(self._file(session_id), os.O_RDONLY), "rb") as file:
                return msgspec.json.decode(file.read(MOST_BYTES), type=SuspendedRun)
        except FileNotFoundError:
            raise NotObeyedError("it was not suspended on this machine") from None
        except (OSError, ValueError, RecursionError) as error:
            raise NotObeyedError(f"what was kept of it cannot be read ({error}): {step}") from error

    async def resume(self, session_id: str, text: str | None = None) -> str:
        """How to get there, in words. Raises NotObeyedError, OSError: it has not come back."""
        run = self._kept(session_id)
        self._under_way.add(session_id)
        try:
            return await self._take_up(session_id, run, text)
        finally:
            self._under_way.discard(session_id)

    async def _take_up(self, session_id: str, run: SuspendedRun, text: str | None) -> str:
        if not await self.sleeps(session_id):
            raise NotObeyedError("it lives already: it was taken up again at a terminal")
        agent = next((each for each in self._directories if each.name == run.agent), None)
        if agent is None:
            raise NotObeyedError(f"nothing is known of {run.agent} here any more")
        # a file that they name may say something else by now
        read = functools.partial(_content, run.cwd)
        await asyncio.to_thread(agent.run_words, run.flags, run.env, read)
        words = [*_program(run, agent.resume), *agent.resuming(session_id, run.flags, text)]
        if shutil.which("tmux") is None:
            raise NotObeyedError("tmux is not installed, and it needs a terminal to run in")
        if not await asyncio.to_thread(os.path.isdir, run.cwd):
            raise NotObeyedError(f"its directory, {run.cwd}, is gone")
        name = f"adsum-{session_id[:8]}"
        file = await self._open(name, run, words)
        try:
            taken = await self._comes(session_id, text)
        except NotObeyedError as error:
            screen = await _tmux("capture-pane", "-pJ", "-t", f"={name}:")
            coloured = await _tmux("capture-pane", "-pe", "-t", f"={name}:")
            await _tmux("kill-session", "-t", f"={name}")
            if agent.keyboard is not None and agent.keyboard.box(coloured) is not None:
                screen = ""  # it has come up: its conversation stands there
            raise NotObeyedError(f"{error}{_last_words(screen)}") from None
        finally:
            file.unlink(missing_ok=True)
        self.forget(session_id)
        lost = "".join(f"; {each}" for each in (*run.lost, *([] if taken else [NOT_TAKEN])))
        return f"in tmux: tmux -L {SOCKET} attach -t {name}{lost}"

    async def _open(self, name: str, run: SuspendedRun, words: Sequence[str]) -> Path:
        """The file that it starts from, which it removes."""
        file = self._folder / f"{_LAUNCH}{secrets.token_hex(8)}"
        told = {"cwd": run.cwd, "words": list(words), "env": run.env}
        await asyncio.to_thread(write_private, file, json.dumps(told).encode())
        start = [sys.executable, "-I", "-S", str(_LAUNCHER), str(file)]
        size = ("-x", "160", "-y", "50", "-c", run.cwd)
        try:
            if said := await _tmux("new-session", "-d", "-s", name, *size, *start):
                raise NotObeyedError(f"tmux does not start it: {said}")
        except BaseException:
            file.unlink(missing_ok=True)  # it may hold a key
            raise
        return file

    async def _comes(self, session_id: str, text: str | None) -> bool:
        """Once it is registered: whether it was seen to take the text. Raises NotObeyedError."""
        loop, began, came = asyncio.get_running_loop(), self._now(), False
        until = loop.time() + self.comes_s
        while loop.time() < until:
            found = await asyncio.to_thread(self._found, session_id)
            if found is not None and found.entry.status is not None:
                came = True
                heard = self._heard.get(session_id, Remembered())
                if text is None or heard.begun >= began or found.entry.status == "busy":
                    return True
            await asyncio.sleep(LOOK_S)
        if not came:
            raise NotObeyedError(f"it has not come back within {self.comes_s:.0f} s")
        return False

    def rested(self, rest_ms: Callable[[str], int | None]) -> list[str]:
        """The sessions that have rested for as long as is set for their directory.

        None that began before this collector did: whether a wake-up is due there, it did not hear.
        """
        now = self._now()
        entries = (each.entry for each in self._registered())
        named = (each for each in entries if _ID.fullmatch(each.session_id))
        known = (each for each in named if int(each.start) >= self._since)
        resting = (each for each in known if each.status == "idle" and each.attended)
        set_for = ((each, rest_ms(each.cwd)) for each in resting)
        return [each.session_id for each, ms in set_for if ms is not None and now - each.at >= ms]


_LAUNCH: Final = "launch-"
_LAUNCHER: Final = Path(__file__).with_name("launch.py")
_NO_TEXT: Final = "holds bytes that are no text (UTF-8), which could not be given again"
#: Of a screen that is quoted, from its end.
LINES: Final = 8
NOT_TAKEN: Final = "whether it took the message is not known"
_NO_REST: Final = {
    "busy": "it works",
    "waiting": "it asks something: answer that first",
    "shell": "something it started runs in the background",
}


def _read(agent: Agent, file: Path) -> Registered | None:
    try:
        with file.open("rb") as opened:
            return agent.registered(opened.read(MOST_BYTES))
    except OSError:
        return None


def _ticks() -> int:
    """Now, as the system counts the starts of processes."""
    if sys.platform != "linux":
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _is_alive(entry: Registered) -> bool:
    """Its very process: one that bears its id by chance began at another time."""
    state, *fields = stat_fields(entry.pid)
    return state not in (b"Z", b"X") and fields[18].decode() == entry.start


def _is_ours(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


def _words_of(pid: int, name: str) -> list[str]:
    """Bytes that are no UTF-8 become surrogates, which nothing encodes. Raises OSError."""
    raw = Path(f"/proc/{pid}/{name}").read_bytes().removesuffix(b"\0")
    return [each.decode(errors="surrogateescape") for each in raw.split(b"\0")]


def _run_of(found: Resting, at: int) -> SuspendedRun:
    """Raises NotObeyedError, OSError."""
    entry = found.entry
    words = _words_of(entry.pid, "cmdline")
    if any(_SURROGATE.search(each) for each in words):
        raise NotObeyedError(f"its command line {_NO_TEXT}")
    env = dict(each.split("=", 1) for each in _words_of(entry.pid, "environ") if "=" in each)
    program = str(Path(f"/proc/{entry.pid}/exe").readlink()).removesuffix(" (deleted)")
    scripted = len(words) > 1 and words[1].endswith((".js", ".mjs", ".cjs"))
    behind = words[2:] if scripted else words[1:]
    told = found.agent.run_words(behind, env, functools.partial(_content, entry.cwd))
    return SuspendedRun(
        entry.session_id,
        found.agent.name,
        entry.cwd,
        [program, words[1]] if scripted else [program, words[0]],
        list(told.flags),
        told.env,
        list(told.lost),
        at,
        entry.start,
    )


def _content(cwd: str, path: str) -> bytes:
    """Raises OSError, ValueError: it is none that is read twice alike, such as a pipe, or too long."""
    with os.fdopen(os.open(Path(cwd, path), os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no plain file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES >> 20} MB")
    return content


def _program(run: SuspendedRun, resume: str) -> list[str]:
    """An update may have taken it away: then what its name stands for by now. Raises NotObeyedError.

    resume: see `Agent.resume`; it names the program of a run that names only its script.
    """
    program, second = run.program
    scripted = second.endswith((".js", ".mjs", ".cjs"))
    if Path(program).is_file() and (not scripted or Path(second).is_file()):
        return run.program if scripted else [program]
    name = resume.partition(" ")[0] if scripted else Path(second).name
    if (found := shutil.which(name, path=run.env.get("PATH"))) is None:
        raise NotObeyedError(f"its program, {program}, is gone")
    return [found]


def _memory_of(pid: int) -> int:
    """Bytes that are resident in it and all below it."""
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += each.memory_info().rss
    return total


async def _ended(process: int, within_s: float) -> bool:
    """process: its descriptor, which is readable once it has ended."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process, over.set)
    try:
        async with asyncio.timeout(within_s):
            await over.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(process)
    return True


def _outside(environ: Mapping[str, str]) -> list[str]:
    """A service's limits and folders are not for what it starts, nor does that end with it."""
    if not environ.get("INVOCATION_ID") or shutil.which("systemd-run") is None:
        return []
    words = ("--user", "--pipe", "--wait", "--collect", "--quiet", "--property=KillMode=process")
    return ["systemd-run", *words, "--"]


async def _tmux(*words: str) -> str:
    """What it says, or why it did not; of the user's own, on a server that is ours."""
    return await asyncio.to_thread(_ask_tmux, words)


def _ask_tmux(words: Sequence[str]) -> str:
    """In a thread: a process of uvloop's hands its end of a pipe on to the server, which keeps it."""
    environ = {name: value for name, value in os.environ.items() if name != "TMUX"}
    try:
        ended = subprocess.run(  # noqa: S603 - our words, and an id's
            [*_outside(environ), "tmux", "-L", SOCKET, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            timeout=ENDS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {ENDS_S:.0f} s"
    return ended.stdout.decode(errors="replace").strip()


def _last_words(screen: str) -> str:
    """What stands at its end, on one line; secrets are known by where they begin, and by signs."""
    masked = without_secrets(screen, secrets.token_hex())
    lines = "\n".join([line for line in masked.splitlines() if line.strip()][-LINES:])
    words = " ".join(re.sub(r"[^\w\s.,:;!?'()/*\[\]-]", " ", lines).split())
    return f"; its screen says: {words[:300]}" if words else ""
