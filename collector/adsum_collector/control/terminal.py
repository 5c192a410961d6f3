"""Types into the terminal of a session that runs in tmux, as its user would, and never by accident.

Nothing is typed but into an input box that is on the screen, while nobody else types, into a session
that rests. Every function blocks, so it is called in a thread.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from adsum_collector.agents.base import Keyboard
from adsum_collector.processes import stat_fields, unix_paths
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
_PANES: Final = "#{pane_pid} #{pane_id} #{pane_tty}"
#: What takes the keys to vim's INSERT mode, and how long the screen may take to name it.
_INSERT: Final = "i"
VIM_S: Final = 0.5
_COMPARED: Final = re.compile(r"[^\w!-~]")
_CAME_BETWEEN: Final = "something came in between"
_PASTED = re.compile(r"\[Pasted text #\d+")


class KeysPressedError(NotObeyedError):
    """Keys were pressed, and nothing was submitted: to try it again would press them again."""


class TmuxPane(NamedTuple):
    """socket: of the tmux server. tty: its device."""

    socket: str
    id: str
    tty: str = ""

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
    whoever started it may have taken out or passed on; one with another terminal, as of an editor
    that runs in the pane, does not get what is typed there.
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
            told = TmuxPane(socket, "").ask("list-panes", "-a", "-F", _PANES)
        except NotObeyedError:
            continue
        for line in told.splitlines():
            first, name, tty = line.split(" ", 2)
            if first in above and _held(pid, tty) is not None:
                return TmuxPane(socket, name, tty)
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


def draft_in(pane: TmuxPane, keyboard: Keyboard, rests: Callable[[], bool]) -> str:
    """The text that stands in its input box, into which can be typed now. No key of the agent's is pressed.

    rests: whether the session rests at this moment, and has its terminal. Raises NotObeyedError.
    """
    _leave_mode(pane)
    draft = box_of(pane, keyboard)
    if not rests():
        raise NotObeyedError("it has just begun to work, or does not have its terminal")
    return draft


def type_prompt(
    pane: TmuxPane,
    keyboard: Keyboard,
    text: str,
    draft: str,
    rests: Callable[[], bool],
    *,
    vim: bool,
) -> bool:
    """Types and submits it; a draft that stands in the box is put aside, and is back afterwards.

    draft: what `draft_in` has found. vim: the settings make the box vim's. Returns whether the text was
    seen to be taken: once Enter was pressed it may have been, whatever is seen. Raises
    KeysPressedError, and NotObeyedError before any key.
    """
    typing = _Typing(pane, keyboard, rests)
    typed = keyboard.typed(text)
    if keyboard.box(typing.open_screen()) != draft:
        raise NotObeyedError("somebody is typing in its terminal")
    aside = ", and in its stash for a draft (Ctrl+S)" if draft else ""
    try:
        if draft:
            typing.send(keyboard.stash)
            if not _within(DRAWN_S, lambda: typing.box() == ""):
                raise NotObeyedError("what stands in its input box could not be put aside")
        _insert(typing, vim=vim)
        _type(typing, typed)
        time.sleep(SUBMIT_S)
        if not typing.holds(typed) or not rests():
            raise NotObeyedError(_CAME_BETWEEN)
    except NotObeyedError as error:
        where = f"look what stands at its prompt{aside}"
        raise KeysPressedError(f"{error}: nothing was sent; {where}") from error
    try:
        pane.press(keyboard.submit)
        return _within(ARRIVES_S, lambda: not rests() or typing.box() in ("", draft))
    except NotObeyedError:  # tmux may have pressed it, and not have said so
        return False


def interrupt(pane: TmuxPane, keyboard: Keyboard, works: Callable[[], bool]) -> None:
    """Presses Escape, which at a dialog would deny what that asks. Raises NotObeyedError: it did not.

    works: whether the session works at this moment, and has its terminal.
    """
    _leave_mode(pane)
    if keyboard.box(pane.screen()) is None:
        raise NotObeyedError("no input box is on its screen: a dialog, a menu, or another program")
    if not works():
        raise NotObeyedError("its turn has just ended, or it asks something")
    pane.press(keyboard.interrupt)


def is_in_front(pane: TmuxPane, pid: int) -> bool:
    """Whether a key pressed in the pane reaches this process: it is not stopped, nor behind another."""
    state, in_front = _held(pid, pane.tty) or ("X", False)
    return in_front and state not in "TtZX"


def _held(pid: int, tty: str) -> tuple[str, bool] | None:
    """The process's state, and whether it is in front at this terminal; None: it has not this one."""
    try:
        device = Path(tty).stat().st_rdev
        if sys.platform != "linux":
            told = subprocess.run(  # noqa: S603 - our words and a number
                ["ps", "-o", "stat=", "-o", "tty=", "-p", str(pid)],  # noqa: S607 - as the user's PATH has it
                capture_output=True, text=True, timeout=TMUX_S, check=True,
            ).stdout.split()  # fmt: skip
            return (told[0][0], "+" in told[0]) if f"/dev/{told[1]}" == tty else None
        state, _, group, _, its_tty, in_front, *_ = stat_fields(pid)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None
    # as the kernel packs a device into 32 bits
    major, minor = os.major(device), os.minor(device)
    packed = (minor & 0xFF) | major << 8 | (minor & ~0xFF) << 12
    return (state.decode(), group == in_front) if int(its_tty) == packed else None


def _leave_mode(pane: TmuxPane) -> None:
    """A mode of tmux's own, as of copying, in which it takes the keys for itself."""
    if pane.ask("display", "-p", "-t", pane.id, "#{pane_in_mode}").strip() != "0":
        pane.ask("send-keys", "-t", pane.id, "-X", "cancel")


class _Typing(NamedTuple):
    """Each key is preceded by a look: what comes in between must not get the rest of a text."""

    pane: TmuxPane
    keyboard: Keyboard
    rests: Callable[[], bool]

    def box(self) -> str | None:
        return self.keyboard.box(self.pane.screen())

    def holds(self, typed: str) -> bool:
        """Whether the box holds this text, however it wraps it: all of it, or its end where it has scrolled.

        Letters, digits and ASCII are compared: terminals draw other characters in other ways. A
        placeholder of a paste stands for keys of ours: the box was empty before.
        """
        screen = self.pane.screen()
        box = self.keyboard.box(screen) or ""
        shown, wanted = (_COMPARED.sub("", each) for each in (box, typed))
        if _PASTED.search(box) is not None:
            return True
        return wanted.endswith(shown) if self.keyboard.scrolled(screen) else shown == wanted

    def open_screen(self) -> str:
        """One with an input box on it, of a session that rests. Raises NotObeyedError."""
        screen = ""

        def shows() -> bool:  # one that is half drawn has none
            nonlocal screen
            screen = self.pane.screen()
            return self.keyboard.box(screen) is not None

        if not _within(DRAWN_S, shows) or not self.rests():
            raise NotObeyedError(_CAME_BETWEEN)
        return screen

    def send(self, *keys: str) -> None:
        """Until it is drawn: what a busy machine's agent reads together with the next is a paste to it."""
        before = self.open_screen()
        self.pane.ask("send-keys", "-t", self.pane.id, *keys)
        _within(DRAWN_S, lambda: self.pane.screen() != before)


def _insert(typing: _Typing, *, vim: bool) -> None:
    """Have vim's box take the keys as text. Raises NotObeyedError.

    In NORMAL mode the screen names no mode, as without vim, and an operator may be pending.
    """

    def mode() -> str | None:
        return typing.keyboard.vim_mode(typing.open_screen())

    if mode() == "INSERT" or not (vim or mode()):
        return
    for again in (False, True):
        if again or mode():
            typing.send("Escape")
        typing.send(_INSERT)
        if _within(VIM_S, lambda: mode() == "INSERT"):
            return
        if typing.box() == _INSERT:  # it is not vim's after all
            typing.send("BSpace")
            return
    raise NotObeyedError("its input box is in vim mode and did not switch to INSERT")


def _type(typing: _Typing, text: str) -> None:
    """As keys, not as a paste: a paste of several lines is told to the model as something pasted.

    Raises NotObeyedError. What has come of the first piece is looked at before the others are typed.
    """
    before, looked = "", False
    for number, line in enumerate(text.split("\n")):
        if number:
            typing.send(typing.keyboard.newline)
        for start in range(0, len(line), PIECE):
            piece = line[start : start + PIECE]
            # behind --, for a text that begins with a dash; tmux would take a last ; for its own
            typing.send("-l", "--", piece[:-1] + "\\;" if piece.endswith(";") else piece)
            before += piece
            if not looked:
                looked = True
                _require_held(typing, before)
    _require_held(typing, text)


def _require_held(typing: _Typing, text: str) -> None:
    """Raises NotObeyedError."""
    if not _within(ARRIVES_S, lambda: typing.holds(text)):
        step = "if the editor mode is vim, set `editorMode` to vim in its settings"
        raise NotObeyedError(f"its input box does not hold what was typed; {step}")


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(_STEP_S)
    return True
