"""What is known of Codex's threads, whoever said it: which of them are sessions, and whose others are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from adsum_shared.signals import (
    AnySignal,
    RequestOpened,
    ToolFinished,
    ToolStarted,
    TurnInterrupted,
)

#: The thread heard of longest ago goes.
MOST_THREADS: Final = 8192

MOST_ASKED: Final = 256
MOST_RAN: Final = 256
#: Patches that are kept, and how long one may be, in characters: more is not shown whole.
MOST_PATCHES: Final = 64
MOST_PATCH: Final = 64 << 10
#: Hooks after which a thread asks for nothing any more that it asked for before.
ENDS: Final = frozenset({"UserPromptSubmit", "Stop", "SubagentStop", "Interrupt", "SessionEnd"})

ThreadKind = Literal["session", "child", "hidden"]


class KnownThread(msgspec.Struct):
    """kind: `hidden` threads review what is asked, or invent a title. session: whose a child is.

    begun: a prompt was typed. turn: of its lines, the turn read last; None: no line was read.
    reviewed: permissions are asked of another model. call: digest and id of the latest that a hook told of.
    """

    kind: ThreadKind
    session: str
    begun: bool = False
    turn: str | None = None
    reviewed: bool = False
    call: tuple[str | None, str | None] = None, None


class AskedCommand(msgspec.Struct, frozen=True):
    """A command for which permission is asked. at: since when, ms. call: its own id, if it is known."""

    thread: str
    session: str
    command: str
    at: int
    call: str | None = None


class KnownThreads:
    """By thread id, which is the session's id where the thread is one.

    asked: commands for which permission was asked and whose end no hook has told of. patches: the
    latest that hooks told of, by call. ran: calls that were let run. stopped: thread -> when a turn of
    it was interrupted last, ms. Long hooks are read in a thread, beside all others.
    """

    def __init__(self) -> None:
        self._threads: OrderedDict[str, KnownThread] = OrderedDict()
        self._lock = threading.Lock()
        self.asked: dict[str, AskedCommand] = {}
        self.patches: dict[str, str] = {}
        self.ran: dict[str, None] = {}
        self.stopped: dict[str, int] = {}

    def get(self, thread_id: str | None) -> KnownThread | None:
        return self._threads.get(thread_id or "")

    def learn(
        self,
        thread_id: str,
        kind: ThreadKind = "session",
        session: str | None = None,
        *,
        begun: bool = True,
    ) -> KnownThread:
        """The thread, which is now the one heard of last. What was known of its turns stays."""
        with self._lock:
            known = self._threads.pop(thread_id, None) or KnownThread(kind, thread_id)
            known.kind, known.session = kind, session or thread_id
            known.begun = known.begun or begun
            self._threads[thread_id] = known
            if len(self._threads) > MOST_THREADS:
                self._threads.popitem(last=False)
            return known

    def note(self, thread: str, signals: Sequence[AnySignal]) -> None:
        """What any witness says of calls that ran, and of turns that were interrupted."""
        for signal in signals:
            if isinstance(signal, TurnInterrupted):
                self.stopped.pop(thread, None)
                self.stopped[thread] = signal.at
            elif isinstance(signal, ToolFinished) and (signal.ok or signal.role == "shell"):
                self.ran[signal.tool_use_id] = None
        for kept in (self.ran, self.stopped):
            while len(kept) > MOST_RAN:
                del kept[next(iter(kept))]

    def keep_patch(self, call: object, text: object) -> None:
        """The server asks for permission without the patch itself."""
        if isinstance(call, str) and isinstance(text, str) and len(text) <= MOST_PATCH:
            self.patches = dict([*self.patches.items()][1 - MOST_PATCHES :]) | {call: text}

    def hear(self, event: str, thread: str, signals: Sequence[AnySignal]) -> None:
        """Keeps in mind which commands are asked for, by what a hook of that thread said."""
        known = self._threads[thread]
        for signal in signals:
            if isinstance(signal, ToolStarted):
                known.call = signal.digest, signal.tool_use_id
            elif isinstance(signal, RequestOpened) and signal.request_kind == "permission":
                command = (signal.payload or {}).get("command")
                if signal.role == "shell" and isinstance(command, str):
                    digest, call = known.call
                    key = call if digest == signal.digest else None
                    asked = AskedCommand(thread, known.session, command, signal.at, key)
                    self.asked[key or thread] = asked
            elif isinstance(signal, ToolFinished):
                self.asked.pop(signal.tool_use_id, None)
        if event in ENDS or len(self.asked) > MOST_ASKED:
            self.asked = {key: it for key, it in self.asked.items() if it.thread != thread}
