"""One session of the real CLI in a terminal, and what the hub says of it, side by side."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping

from tests.real_cli.cli_rig import Terminal, claude_binary
from tests.real_cli.fleet import Machine, until
from tests.real_cli.timeline import Timeline, Watcher

#: What stands on the screen once the CLI takes input, by permission mode.
READY = {
    "manual": "? for shortcuts",
    "bypassPermissions": "bypass permissions on",
    "plan": "plan mode on",
}
FREE = "bypassPermissions"
#: What the CLI shows: its permission dialog, and a line of a long answer of the scripted model.
ASKS = "Do you want to proceed?"
LINE = "One more line."
#: What the hub calls a session whose turn is over.
IDLE = "Waiting for your next prompt"
INTERRUPTED = "Interrupted"


class Session:
    """mode: its permissions, flags: more of its command line, extra: more of its environment."""

    def __init__(
        self,
        machine: Machine,
        watcher: Watcher,
        *flags: str,
        mode: str = FREE,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.machine = machine
        self.id = str(uuid.uuid4())
        self._watcher = watcher
        # What old versions call it.
        named = mode if mode != "manual" or machine.home.tells_at_once else "default"
        self._flags = ("--permission-mode", named, *flags)
        self._ready = READY[mode]
        self._home = dataclasses.replace(machine.home, extra=dict(extra or {}))
        self.hub = Timeline(watcher, self.id)
        self.others: list[Timeline] = []
        self.terminal = self._terminal("--session-id", self.id)

    def _terminal(self, *who: str) -> Terminal:
        return Terminal(self._home, (*self._flags, *who), self._ready)

    def resumed(self) -> Terminal:
        """Another terminal, in which the CLI goes on with this session."""
        self.hub.act("started again with --resume")
        return self._terminal("--resume", self.id)

    def successor(self) -> Timeline:
        """What the hub says of the session that this terminal has gone over to by itself."""
        (name,) = until(lambda: self._watcher.others(self.id, self.terminal.pid), "a new session")
        other = Timeline(self._watcher, name, self.hub.born)
        self.others.append(other)
        return other

    def type(self, text: str, shown: str | None = None) -> float:
        """Type a line and send it; the moment."""
        self.terminal.type(text, shown)
        return self.hub.act(f"typed {text!r}")

    def play(self, script: str) -> float:
        return self.type(f"do play:{script}")

    def press(self, key: str) -> float:
        self.terminal.press(key)
        return self.hub.act(f"pressed {key}")

    def answer(self, key: str, dialog: str) -> float:
        """Press until the dialog has gone; the moment."""
        pressed = self.terminal.press_until_gone(key, dialog)
        return self.hub.act(f"answered {dialog!r} with {key}", pressed)

    def no(self) -> str:
        """The key of the No of the dialog that stands there."""
        number = re.search(r"(\d)\. No", self.terminal.screen())
        assert number, self.terminal.screen()
        return number[1]

    def decline(self, dialog: str) -> float:
        """Choose the dialog's No; the moment."""
        self.terminal.wait_for(dialog)
        return self.answer(self.no(), dialog)

    def sees(self, text: str, within: float = 15.0) -> float:
        """The moment at which the text stood on the screen."""
        return self.hub.note(f"the screen says {text!r}", self.terminal.wait_for(text, within))

    def kill(self) -> float:
        os.kill(self.terminal.pid, signal.SIGKILL)
        return self.hub.act("killed with -9")


@contextlib.contextmanager
def headless(session: Session, prompt: str) -> Iterator[subprocess.Popen[bytes]]:
    """The session's prompt in a run without a terminal, which is over at the end of the block."""
    command = [str(claude_binary(session.machine.home.version)), "-p", prompt]
    command += ["--session-id", session.id]
    command += ["--permission-mode", FREE, "--output-format", "json"]
    session.hub.act(f"run with -p {prompt!r}")
    home = session.machine.home
    run = subprocess.Popen(
        command,
        cwd=home.work,
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield run
    finally:
        run.kill()
        run.wait(10)
