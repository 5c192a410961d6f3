"""Hears what Codex's background server tells all its clients of its threads, and reports it as signals.

It is a guest there: it starts no server, comes after others have come, and is gone with the server until
others have come to the next one. It subscribes to nothing and answers nothing, unless the owner lets
people elsewhere decide.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from adsum_collector.agents.base import Surroundings
from adsum_collector.agents.codex.control_socket import (
    ControlSocket,
    ControlSocketError,
    ServerMessage,
    ServerRefusedError,
    connected,
    socket_of,
)
from adsum_collector.agents.codex.known_threads import KnownThreads, ThreadKind
from adsum_collector.agents.codex.requests import SharedRequests, sayable
from adsum_collector.agents.records import NAME_MAX, one_line
from adsum_collector.errors import SpoolUnavailable, shown
from adsum_collector.processes import unix_paths
from adsum_shared import signals as s
from adsum_shared.commands import NotObeyedError
from adsum_shared.signals import AnySignal, KnownSignal
from adsum_shared.state import HostWitness

PID_FILE: Final = Path("app-server-daemon/daemon.pid")
#: Between two looks for a server; a guest comes when others were there at two of them.
LOOK_S: Final = 1.0
#: After a connection was lost or refused, doubled each time up to the latter.
AGAIN_S: Final = 1.0
AGAIN_MOST_S: Final = 60.0
#: Threads that are asked for at the beginning; the youngest count, as ids begin with the time.
MOST_LOADED: Final = 512
#: Threads whose status is kept; a server holds those of the sessions that are open, and theirs.
MOST_STATUSES: Final = 2048
#: How often a thread nobody has spoken of is asked for.
MOST_ASKED: Final = 64

APPROVAL: Final = "waitingOnApproval"
QUESTION: Final = "waitingOnUserInput"
#: What a flag is called by the rules that know such a status; the more urgent first.
WAITS_FOR: Final = {APPROVAL: "permission prompt", QUESTION: "input needed"}
TYPES: Final = frozenset({"notLoaded", "idle", "systemError", "active"})
#: The threads of these invent titles, or review what is asked.
HIDDEN: Final = frozenset({"thread_title", "guardian_review"})


class ThreadStatus(msgspec.Struct, rename="camel"):
    type: str
    active_flags: list[str] = []


class ServerThread(msgspec.Struct, rename="camel"):
    """As `thread/started` and `thread/read` tell of one. preview: its first prompt."""

    id: str
    session_id: str
    status: ThreadStatus
    ephemeral: bool = False
    parent_thread_id: str | None = None
    thread_source: Any = None
    source: Any = None
    preview: str = ""
    name: str | None = None


class _Started(msgspec.Struct):
    thread: ServerThread


class _Changed(msgspec.Struct, rename="camel"):
    thread_id: str
    status: ThreadStatus


class _ThreadNamed(msgspec.Struct, rename="camel"):
    thread_id: str
    thread_name: str | None = None


class _Loaded(msgspec.Struct):
    data: list[str]


class _Turn(msgspec.Struct):
    id: str
    status: str


class _Turns(msgspec.Struct):
    data: list[_Turn]


class Heard(msgspec.Struct):
    """A thread's last word. at: ms, by the server's clock, which is the host's."""

    status: ThreadStatus
    at: int


class Broadcasts:
    """Translates what the server says. Pure but for what it keeps in mind: the last word of each thread.

    A session's word is that of its threads together: it works while a subagent works, and waits for a
    human if any of them does. moved: what the server said in another way than expected -> how often.
    """

    def __init__(self, threads: KnownThreads) -> None:
        self._threads = threads
        self._heard: dict[str, Heard] = {}
        self._told: dict[str, tuple[str, str | None]] = {}
        self._left: dict[str, None] = {}
        self.moved: Counter[str] = Counter()

    def read(self, message: ServerMessage, seen: int) -> list[KnownSignal]:
        """What it means; nothing, for what is not of threads. Raises nothing."""
        step = _STEPS.get(message.method)
        if step is None or message.id is not None:
            return []
        kind, read = step
        try:
            said = msgspec.json.decode(message.params, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.moved[message.method] += 1
            return []
        found: list[KnownSignal] = read(self, said, min(message.emitted or seen, seen), seen)
        return found

    def begin(self, threads: Iterable[ServerThread], seen: int) -> list[KnownSignal]:
        """How things are when the connection begins."""
        found: list[KnownSignal] = []
        for thread in threads:
            found += self._learn(thread, seen)
            self._keep(thread.id, thread.status, seen)
        return [*found, *self.settle(seen)]

    def unknown(self) -> list[str]:
        """Threads that have a status, and of which nobody has said what they are."""
        return [each for each in self._heard if self._threads.get(each) is None]

    def told(self) -> Mapping[str, tuple[str, str | None]]:
        """By session, what was said of it last."""
        return self._told

    def asking(self) -> list[str]:
        """Threads that wait for a human, and are a session's."""
        return [
            thread
            for thread, heard in self._heard.items()
            if heard.status.active_flags
            and (known := self._threads.get(thread)) is not None
            and known.kind != "hidden"
        ]

    def word_of(self, session: str) -> tuple[str, int] | None:
        """Of its own thread: what it is at, as a registry would say, and since when."""
        heard = self._heard.get(session)
        if heard is None:
            return None
        waits = "waiting" if heard.status.active_flags else "busy"
        return waits if heard.status.type == "active" else "idle", heard.at

    def forget(self, sessions: Iterable[str]) -> None:
        for session in sessions:
            self._told.pop(session, None)

    def learn(self, thread: ServerThread, seen: int) -> list[KnownSignal]:
        """What an unknown thread is, as the server tells when it is asked."""
        return [*self._learn(thread, seen), *self.settle(seen)]

    def settle(self, seen: int) -> list[KnownSignal]:
        """What is to be said of sessions that are known, and begun, by now."""
        of = {each: known for each in self._heard if (known := self._threads.get(each))}
        sessions = dict.fromkeys(each.session for each in of.values() if each.kind != "hidden")
        return [signal for each in sessions for signal in self._say(each, seen)]

    def _learn(self, thread: ServerThread, seen: int) -> list[KnownSignal]:
        source = thread.thread_source
        is_child = thread.session_id != thread.id or thread.parent_thread_id is not None
        hidden = thread.ephemeral or (isinstance(source, str) and source in HIDDEN)
        kind: ThreadKind = "hidden" if hidden else "child" if is_child else "session"
        self._threads.learn(thread.id, kind, thread.session_id, begun=bool(thread.preview))
        named = _ThreadNamed(thread.id, thread.name)
        return self._named(named, seen, seen) if thread.name and kind == "session" else []

    def _started(self, said: _Started, at: int, seen: int) -> list[KnownSignal]:
        found = self._learn(said.thread, seen)
        self._keep(said.thread.id, said.thread.status, at)
        return found

    def _changed(self, said: _Changed, at: int, seen: int) -> list[KnownSignal]:
        thread, status = said.thread_id, said.status
        if status.type not in TYPES:
            self.moved[f"status {status.type[:24]}"] += 1
            return []
        for flag in status.active_flags:
            if flag not in WAITS_FOR:
                self.moved[f"flag {flag[:24]}"] += 1
        before = self._heard.get(thread)
        known = self._threads.get(thread)
        found: list[KnownSignal] = []
        if before is not None and before.status.active_flags and not status.active_flags:
            session = known.session if known else thread
            found.append(s.RequestClosed(**_about(session, at, seen), request_id=thread))
        if status.type == "notLoaded":
            return [*found, *self._unloaded(thread, at, seen)]
        self._keep(thread, status, at)
        if known is None or known.kind == "hidden":
            return found
        if known.kind == "session":
            if thread in self._left:
                del self._left[thread]
                found.append(s.SessionStarted(**_about(thread, at, seen), reason="resume"))
            known.begun = known.begun or status.type == "active"
            if status.type == "systemError" and known.turn is None:
                # Where the rollout is read, that tells the cause.
                found.append(s.TurnFailed(**_about(thread, at, seen)))
        return [*found, *self._say(known.session, seen)]

    def _unloaded(self, thread: str, at: int, seen: int) -> list[KnownSignal]:
        self._heard.pop(thread, None)
        known = self._threads.get(thread)
        if known is None or known.kind == "hidden":
            return []
        if known.kind == "child":
            return self._say(known.session, seen)
        self._told.pop(thread, None)
        self._left[thread] = None
        if len(self._left) > MOST_STATUSES:
            del self._left[next(iter(self._left))]
        if not known.begun:
            return []
        return [s.SessionEnded(**_about(thread, at, seen), reason="closed")]

    def _named(self, said: _ThreadNamed, at: int, seen: int) -> list[KnownSignal]:
        known, name = self._threads.get(said.thread_id), one_line(said.thread_name, NAME_MAX)
        if not name or known is None or known.kind != "session":
            return []
        return [s.MetaChanged(**_about(said.thread_id, at, seen), ai_title=name)]

    def _keep(self, thread: str, status: ThreadStatus, at: int) -> None:
        self._heard.pop(thread, None)
        if status.type == "notLoaded":
            return
        self._heard[thread] = Heard(status, at)
        if len(self._heard) > MOST_STATUSES:
            del self._heard[next(iter(self._heard))]
            self.moved["too many threads"] += 1

    def _say(self, session: str, seen: int) -> list[KnownSignal]:
        """The session's word, if it is another than before."""
        root = self._threads.get(session)
        if root is None or not root.begun or session not in self._heard:
            return []
        words = [
            heard
            for thread, heard in self._heard.items()
            if (known := self._threads.get(thread)) is not None
            and known.session == session
            and known.kind != "hidden"
        ]
        flags = {flag for heard in words for flag in heard.status.active_flags}
        waits = next((word for flag, word in WAITS_FOR.items() if flag in flags), None)
        busy = any(heard.status.type == "active" for heard in words)
        told = ("waiting", waits) if waits else ("busy" if busy else "idle", None)
        if self._told.get(session) == told:
            return []
        self._told[session] = told
        at = max(heard.at for heard in words)
        about = _about(session, at, seen)
        return [s.StatusReported(**about, status=told[0], waiting_for=told[1])]


_STEPS: Final[dict[str, tuple[type[Any], Callable[[Broadcasts, Any, int, int], Any]]]] = {
    "thread/started": (_Started, Broadcasts._started),  # noqa: SLF001 - a table of its own steps
    "thread/status/changed": (_Changed, Broadcasts._changed),  # noqa: SLF001 - as above
    "thread/name/updated": (_ThreadNamed, Broadcasts._named),  # noqa: SLF001 - as above
}


def _about(session: str, at: int, seen: int) -> dict[str, Any]:
    return {"session_id": session, "at": at, "seen": seen, "source": "registry"}


class ServerStatus:
    """The witness of one home. name: of which home, where there are several."""

    def __init__(
        self, directory: Path, threads: KnownThreads, around: Surroundings, name: str = "server"
    ) -> None:
        self.name = name
        self._directory, self._threads, self._around = directory, threads, around
        self._broadcasts = Broadcasts(threads)
        self._running: set[str] = set()
        self.faults: Counter[str] = Counter()
        self._refusal: str | None = None
        self.heard_at = 0
        self.is_connected = False
        self._server: ControlSocket | None = None

    async def run(self) -> None:
        """Until cancelled."""
        again = AGAIN_S
        while True:
            path = await self._until_others_are_there()
            try:
                async with connected(path) as server:
                    self._refusal, again, self.is_connected = None, AGAIN_S, True
                    await self._listen(server)
            except ControlSocketError as error:
                if not self.is_connected:
                    self.faults["refused"] += 1
                    self._refusal = str(error)
            except SpoolUnavailable:
                self.faults["not accepted"] += 1  # the next connection begins with all of it
            finally:
                self.is_connected, self._server = False, None
            await asyncio.sleep(again)
            again = min(2 * again, AGAIN_MOST_S)

    def health(self, _now: int) -> HostWitness:
        moved = self._broadcasts.moved
        state = "ok" if self.is_connected or self.heard_at else "silent"
        note = None
        if self._refusal is not None:
            state = "trouble"
            note = (
                f"The background server of {shown(self._directory)} does not let Adsum listen "
                f"({self._refusal}). States rest on hooks and files. Next: adsum hooks status --agent codex"
            )
        elif moved:
            state = "trouble"
            note = (
                f"The background server of {shown(self._directory)} says things that this version does not "
                f"know ({', '.join(list(moved)[:3])}). States rest on hooks and files. Next: update Adsum."
            )
        return HostWitness(self.name, state, self.heard_at, dict(self.faults + moved), note)

    async def _until_others_are_there(self) -> str:
        """The path of a socket whose server has other clients: the first one's name is the server's."""
        seen = 0
        while True:
            path = await asyncio.to_thread(_visited, self._directory)
            seen = seen + 1 if path is not None else 0
            if seen > 1 and path is not None:
                return path
            await asyncio.sleep(LOOK_S)

    async def _listen(self, server: ControlSocket) -> None:
        """Raises ControlSocketError and SpoolUnavailable."""
        self._broadcasts = Broadcasts(self._threads)
        self._running = set()
        loaded = await self._loaded(server)
        threads = [each for each in [await self._look_up(server, one) for one in loaded] if each]
        pid, now = await asyncio.to_thread(server_pid, self._directory), self._around.now()
        unloaded = self._unloaded(loaded, pid, now)
        await self._report([*self._broadcasts.begin(threads, now), *unloaded])
        self._server = server
        requests = SharedRequests(server, self._threads, self._around, self._broadcasts.moved)
        try:
            await self._follow(server, requests)
        finally:
            await requests.close()

    async def _follow(self, server: ControlSocket, requests: SharedRequests) -> None:
        """Raises ControlSocketError and SpoolUnavailable."""
        while True:
            await requests.follow(self._broadcasts.asking())
            try:
                async with asyncio.timeout(LOOK_S):
                    message = await server.next()
            except TimeoutError:
                await self._report(self._broadcasts.settle(self._around.now()))
                continue
            await requests.hear(message)
            self.heard_at = now = self._around.now()
            signals = self._broadcasts.read(message, now)
            for one in self._broadcasts.unknown()[:MOST_ASKED]:
                thread = await self._look_up(server, one)
                if thread is not None:
                    signals += self._broadcasts.learn(thread, self._around.now())
            await self._report(signals)

    # What is said to a session, see `SessionLine`.

    def status_of(self, session_id: str) -> tuple[str, int] | None:
        return self._broadcasts.word_of(session_id) if self._server is not None else None

    async def say(self, session_id: str, text: str) -> str | None:
        """With no setting beside it, so that the turn has those of the one before."""
        words = [{"type": "text", "text": sayable(text)}]
        try:
            await self._required().call("turn/start", {"threadId": session_id, "input": words})
        except ServerRefusedError as error:
            raise NotObeyedError(str(error)) from error
        except ControlSocketError as error:  # it was written, and may have been taken
            return str(error)
        return None

    async def interrupt(self, session_id: str) -> None:
        """The very turn that runs now: of another, that began meanwhile, the server takes no word."""
        server, latest = self._required(), {"limit": 1, "sortDirection": "desc"}
        try:
            raw = await server.call("thread/turns/list", {"threadId": session_id, **latest})
            turns = msgspec.json.decode(raw, type=_Turns).data
            if not turns or turns[0].status != "inProgress":
                raise NotObeyedError("nothing runs in it")
            await server.call("turn/interrupt", {"threadId": session_id, "turnId": turns[0].id})
        except (ControlSocketError, msgspec.DecodeError, RecursionError) as error:
            raise NotObeyedError(str(error)) from error

    def _required(self) -> ControlSocket:
        if self._server is None:
            raise NotObeyedError("its server is not reached")
        return self._server

    async def _loaded(self, server: ControlSocket) -> list[str]:
        raw = await server.call("thread/loaded/list", {})
        try:
            return sorted(msgspec.json.decode(raw, type=_Loaded).data)[-MOST_LOADED:]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._broadcasts.moved["thread/loaded/list"] += 1
            return []

    async def _look_up(self, server: ControlSocket, thread: str) -> ServerThread | None:
        """None if it is unloaded by now, or told of in another way than expected: then it is hidden."""
        try:
            raw = await server.call("thread/read", {"threadId": thread})
            return msgspec.json.decode(raw, type=_Started).thread
        except ControlSocketError:
            self.faults["unknown thread"] += 1
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._broadcasts.moved["thread/read"] += 1
        self._threads.learn(thread, "hidden", begun=False)
        return None

    def _unloaded(self, loaded: Sequence[str], pid: int | None, now: int) -> list[KnownSignal]:
        """The ends of sessions that this server ran, and has unloaded while nobody listened."""
        return [
            s.SessionEnded(**_about(session, now, now), reason="closed")
            for session, running in self._around.pids().items()
            if running == pid and session not in loaded and len(loaded) < MOST_LOADED
        ]

    async def _report(self, signals: Sequence[KnownSignal]) -> None:
        """With the process that runs the session, which is the server's. Raises SpoolUnavailable."""
        if not signals:
            return
        found: list[AnySignal] = []
        pid = await asyncio.to_thread(server_pid, self._directory)
        started = self._around.started_of(pid) if pid is not None else None
        for signal in signals:
            session = signal.session_id
            if isinstance(signal, s.SessionEnded):
                self._running.discard(session)
            elif isinstance(signal, s.StatusReported) and pid and started:
                if session not in self._running:
                    about = {**_about(session, signal.seen, signal.seen), "source": "process"}
                    found.append(s.ProcessSeen(**about, pid=pid, started=started))
                self._running.add(session)
            found.append(signal)
        await self._around.accept(found)


class _PidFile(msgspec.Struct):
    pid: int


def server_pid(directory: Path) -> int | None:
    """Of the background server of this home, as it says itself; it need not live any more."""
    try:
        return msgspec.json.decode((directory / PID_FILE).read_bytes()[:4096], type=_PidFile).pid
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def has_clients(pid: int, path: str) -> bool:
    """Whether somebody is connected: beside the socket that listens, one of each bears its path."""
    return unix_paths(pid).count(path) > 1


def _visited(directory: Path) -> str | None:
    """The path of this home's socket, if somebody is connected to it. It blocks."""
    path, pid = socket_of(directory), server_pid(directory)
    return path if pid is not None and has_clients(pid, path) else None
