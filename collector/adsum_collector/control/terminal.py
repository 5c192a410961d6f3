"""Types into the terminal of a session that runs in tmux, as its user would, and never by accident.

Nothing is typed but into an input box that is on the screen, while nobody else types, into a session
that rests. Every function blocks, so it is called in a thread.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import psutil

from adsum_collector.agents.base import Keyboard
from adsum_collector.processes import unix_paths
from adsum_shared.commands import NotObeyedError

#: Whoever touched a key so shortly before may be about to press the next.
QUIET_S: Final = 3
#: Between two looks at the box: it must not change meanwhile.
STILL_S: Final = 0.6
#: What tmux is given at once, in characters; a pasted text reaches the model as a quotation.
PIECE: Final = 300
#: Between the text and Enter: one that follows at once is taken for a part of a paste.
SUBMIT_S: Final = 0.15
ARRIVES_S: Final = 3.0
DRAWN_S: Final = 1.0
TMUX_S: Final = 5.0
_STEP_S: Final = 0.05
#: Of the end of the text, by which it is recognised in the box.
END: Final = 20
_PASTED = re.compile(r"\[Pasted text #\d+")


class TmuxPane(NamedTuple):
    """socket: of the tmux server."""

    socket: str
    id: str

    def ask(self, *words: str) -> str:
        """What tmux prints. Raises NotObeyedError."""
        program = shutil.which("tmux")
        if program is None:
            raise NotObeyedError("it runs in tmux, which is not on the collector's PATH")
        command = [program, "-S", self.socket, *words]
        try:
            done = subprocess.run(  # noqa: S603 - its words are ours; a text comes behind -l --
                command, capture_output=True, text=True, timeout=TMUX_S, check=True
            )
        except subprocess.CalledProcessError as error:
            raise NotObeyedError(f"tmux does not do it: {error.stderr.strip()[:200]}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotObeyedError(f"tmux does not answer ({error})") from error
        return done.stdout

    def press(self, key: str) -> None:
        self.ask("send-keys", "-t", self.id, key)

    def screen(self) -> str:
        """With its colours."""
        return self.ask("capture-pane", "-pe", "-t", self.id)


def pane_of(pid: int) -> TmuxPane | None:
    """The pane in which this process runs: both it and the tmux server are among its ancestors.

    None: it runs in no tmux of this user's. A pane's name proves nothing, nor does a variable, which
    whoever started it may have taken out or passed on.
    """
    try:
        parents = psutil.Process(pid).parents()
        servers = [each for each in parents if each.name().startswith("tmux")]
        mine = [each for each in servers if each.uids().real == os.getuid()]
        sockets = {path for it in mine for path in unix_paths(it.pid)}
    except psutil.Error:
        return None
    above = {str(pid), *(str(each.pid) for each in parents)}
    for socket in sorted(sockets):
        try:
            told = TmuxPane(socket, "").ask("list-panes", "-a", "-F", "#{pane_pid} #{pane_id}")
        except NotObeyedError:
            continue
        for first, _, name in (line.partition(" ") for line in told.splitlines()):
            if first in above:
                return TmuxPane(socket, name)
    return None


def box_of(pane: TmuxPane, keyboard: Keyboard) -> str:
    """The text in its input box, which nobody changes just now. Raises NotObeyedError."""
    told = pane.ask("list-clients", "-t", pane.id, "-F", "#{client_activity}")
    if any(time.time() - int(each) < QUIET_S for each in told.split() if each.isdecimal()):
        raise NotObeyedError("somebody is typing in its terminal")
    before = keyboard.box(pane.screen())
    if before is None:
        raise NotObeyedError("no input box is on its screen: a dialog, a menu, or another program")
    time.sleep(STILL_S)
    if keyboard.box(pane.screen()) != before:
        raise NotObeyedError("somebody is typing in its terminal")
    return before


def type_prompt(pane: TmuxPane, keyboard: Keyboard, text: str, rests: Callable[[], bool]) -> None:
    """Types and submits it; a draft that stands in the box is put aside, and is back afterwards.

    rests: whether the session rests at this moment. Raises NotObeyedError: nothing was submitted.
    """
    typed = keyboard.typed(text)
    if pane.ask("display", "-p", "-t", pane.id, "#{pane_in_mode}").strip() == "1":
        pane.ask("send-keys", "-t", pane.id, "-X", "cancel")
    draft = box_of(pane, keyboard)
    if draft:
        pane.press(keyboard.stash)
        if not _within(1.0, lambda: keyboard.box(pane.screen()) == ""):
            raise NotObeyedError("what stands in its input box could not be put aside")
    if not rests():
        raise NotObeyedError("it has just begun to work")
    _type(pane, keyboard, typed)
    if not _within(ARRIVES_S, lambda: _ends_with(keyboard.box(pane.screen()), typed)):
        where = "; the draft is in the stash (Ctrl+S)" if draft else ""
        raise NotObeyedError(f"the text did not arrive in its input box, nothing was sent{where}")
    time.sleep(SUBMIT_S)
    if not rests() or not _ends_with(keyboard.box(pane.screen()), typed):
        raise NotObeyedError("something came in between; what was typed stands there, unsent")
    pane.press(keyboard.submit)
    left = ("", draft)
    if not _within(ARRIVES_S, lambda: not rests() or keyboard.box(pane.screen()) in left):
        raise NotObeyedError("it was typed and not taken; it stands in its input box")


def _type(pane: TmuxPane, keyboard: Keyboard, text: str) -> None:
    """As keys, not as a paste: a paste of several lines is told to the model as something pasted."""
    for number, line in enumerate(text.split("\n")):
        if number:
            _send(pane, keyboard.newline)
        for start in range(0, len(line), PIECE):
            piece = line[start : start + PIECE]
            # behind --, for a text that begins with a dash; tmux would take a last ; for its own
            _send(pane, "-l", "--", piece[:-1] + "\\;" if piece.endswith(";") else piece)


def _send(pane: TmuxPane, *keys: str) -> None:
    """Until it is drawn: what a busy machine's agent reads together with the next is a paste to it."""
    before = pane.screen()
    pane.ask("send-keys", "-t", pane.id, *keys)
    _within(DRAWN_S, lambda: pane.screen() != before)


def _ends_with(box: str | None, typed: str) -> bool:
    """However the box wraps it."""
    if not box:
        return False
    end = re.sub(r"\s", "", typed)[-END:]
    return re.sub(r"\s", "", box).endswith(end) or _PASTED.search(box) is not None


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(_STEP_S)
    return True
