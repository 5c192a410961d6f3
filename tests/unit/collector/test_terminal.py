"""Typing into a terminal: a real tmux, and a program that has an input box as the agent's is."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from adsum_collector.agents import known_agents
from adsum_collector.control import terminal
from adsum_collector.control.terminal import (
    KeysPressedError,
    TmuxPane,
    box_of,
    draft_in,
    interrupt,
    is_in_front,
    pane_of,
    type_prompt,
)
from adsum_shared.commands import NotObeyedError

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux"),
    pytest.mark.slow,
]
BOX = Path(__file__).parents[2] / "data" / "fake_box.py"
KEYBOARD = known_agents()[0].keyboard
assert KEYBOARD is not None


class Screen:
    """A tmux server of its own with one such program, at which nobody sits. a_job: it is a shell's job."""

    def __init__(self, folder: Path, mode: str, *, a_job: bool = False) -> None:
        self.log = folder / "log"
        self.tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "t.sock")]
        program = ["env", "-i", "LANG=C.UTF-8", "TERM=xterm", sys.executable, str(BOX)]
        program += [str(self.log), mode]
        shell = ["env", f"-C{folder}", "PS1=shell: ", "bash", "--norc", "-i"]
        start = ("new-session", "-d", "-x", "100", "-y", "30")
        self.ask(*start, *(shell if a_job else program))
        self.pid = int(self.ask("display-message", "-p", "#{pane_pid}"))
        within(
            lambda: pane_of(self.pid)
        )  # its terminal is its own a moment after tmux has begun it
        found = pane_of(self.pid)
        assert found is not None
        self.pane: TmuxPane = found
        if a_job:
            within(lambda: "shell:" in self.pane.screen())
            self.ask("send-keys", "-l", shlex.join(program))
            self.pane.press("Enter")
        within(lambda: "key 0" in self.pane.screen())
        if a_job:
            self.pid = psutil.Process(self.pid).children()[0].pid

    def ask(self, *words: str) -> str:
        return subprocess.run(
            [*self.tmux, *words], capture_output=True, text=True, check=True
        ).stdout

    def said(self) -> list[Any]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line]

    def box(self) -> str | None:
        return KEYBOARD.box(self.pane.screen()) if KEYBOARD else None

    def give(
        self, text: str, rests: Callable[[], bool] = lambda: True, *, vim: bool = False
    ) -> bool:
        assert KEYBOARD is not None
        draft = draft_in(self.pane, KEYBOARD, rests)
        return type_prompt(self.pane, KEYBOARD, text, draft, rests, vim=vim)

    def in_front(self) -> bool:
        return is_in_front(self.pane, self.pid)

    def stop(self) -> None:
        """As Ctrl+Z does: its shell has the terminal."""
        os.kill(self.pid, signal.SIGSTOP)
        within(lambda: "shell:" in self.pane.screen())


def within(holds: Callable[[], Any], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    found: list[Screen] = []

    def start(mode: str = "", *, a_job: bool = False) -> Screen:
        (tmp_path / "log").touch()
        found.append(Screen(tmp_path, mode, a_job=a_job))
        return found[-1]

    yield start
    for each in found:
        subprocess.run([*each.tmux, "kill-server"], check=False, capture_output=True)


@pytest.mark.core
@pytest.mark.parametrize(
    "text",
    [
        "go on",
        '-l; it\'s $HOME "x";',
        "one\n\n  two\nthree",
        "x" * 700 + " end",
        "ümlaut 漢字",
    ],
)
def test_a_text_arrives_as_it_was_written(shown: Callable[..., Screen], text: str) -> None:
    screen = shown()

    screen.give(text)

    within(screen.said)
    assert screen.said() == [{"submit": text}]


@pytest.mark.parametrize("mode", ["vim", "visual", "pending", ""])
def test_where_the_settings_say_vim_the_text_arrives_whole(
    shown: Callable[..., Screen], mode: str
) -> None:
    """In any of its modes, and in a box that is not vim's after all."""
    screen = shown(mode)

    screen.give("Add tests for it", vim=True)

    within(screen.said)
    assert screen.said() == [{"submit": "Add tests for it"}]


@pytest.mark.core
@pytest.mark.parametrize(
    ("mode", "vim", "why"),
    [
        ("stuck", True, "did not switch to INSERT"),
        ("vim", False, "does not hold what was typed"),  # `A` is a command, and `dd tests` is typed
    ],
)
def test_a_text_that_arrives_mangled_is_not_sent(
    shown: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch, mode: str, vim: bool, why: str
) -> None:
    monkeypatch.setattr(terminal, "ARRIVES_S", 0.3)
    screen = shown(mode)

    with pytest.raises(KeysPressedError, match=why):
        screen.give("Add tests for it" + " and more" * 100, vim=vim)

    assert screen.said() == []


def test_a_draft_is_put_aside_and_is_back(shown: Callable[..., Screen]) -> None:
    screen = shown()
    screen.ask("send-keys", "-l", "half a thought")
    within(lambda: screen.box() == "half a thought")

    screen.give("go on")

    within(lambda: screen.box() == "half a thought")
    assert screen.said() == [{"submit": "go on"}]


def test_a_pane_in_copy_mode_is_taken_out_of_it(shown: Callable[..., Screen]) -> None:
    screen = shown()
    screen.ask("copy-mode")

    screen.give("go on")

    within(screen.said)


def test_no_key_is_pressed_where_no_box_is(shown: Callable[..., Screen]) -> None:
    screen = shown("dialog")

    with pytest.raises(NotObeyedError, match="no input box"):
        screen.give("1")

    assert "key 0" in screen.pane.screen()


def test_nothing_is_typed_into_a_session_that_has_just_begun_to_work(
    shown: Callable[..., Screen],
) -> None:
    screen = shown()

    with pytest.raises(NotObeyedError, match="begun to work"):
        screen.give("go on", rests=lambda: False)

    assert "key 0" in screen.pane.screen()


def test_what_came_in_between_is_not_submitted(shown: Callable[..., Screen]) -> None:
    screen = shown()

    with pytest.raises(KeysPressedError, match="came in between"):
        screen.give("go on", rests=lambda: screen.box() != "go on")

    assert screen.said() == []


def test_a_dialog_that_comes_in_between_gets_no_key(shown: Callable[..., Screen]) -> None:
    screen = shown("asks")

    with pytest.raises(KeysPressedError, match="came in between"):
        screen.give("one\n1\ny")

    assert "key 4" in screen.pane.screen()
    assert screen.said() == []


def test_of_a_session_that_begins_to_work_the_rest_is_not_typed(
    shown: Callable[..., Screen],
) -> None:
    screen = shown()

    with pytest.raises(KeysPressedError, match="came in between"):
        screen.give("one\ntwo\nthree", rests=lambda: "two" not in (screen.box() or ""))

    assert screen.box() == "one\ntwo"


def test_the_shell_above_a_stopped_program_gets_no_key(
    shown: Callable[..., Screen], tmp_path: Path
) -> None:
    """Its input box still stands on the screen."""
    screen = shown(a_job=True)
    assert screen.in_front()
    screen.stop()
    assert psutil.Process(screen.pid).status() == psutil.STATUS_STOPPED

    with pytest.raises(NotObeyedError, match="does not have its terminal"):
        screen.give("touch told\ntouch told", rests=screen.in_front)

    assert screen.box() == ""
    assert not (tmp_path / "told").exists()


@pytest.mark.parametrize("ends", [signal.SIGSTOP, signal.SIGKILL])
def test_the_shell_that_comes_back_in_between_gets_no_key(
    shown: Callable[..., Screen], tmp_path: Path, ends: signal.Signals
) -> None:
    screen = shown(a_job=True)

    def rests() -> bool:
        if "Tidy" in (screen.box() or "") and "shell:" not in screen.pane.screen():
            os.kill(screen.pid, ends)
            within(lambda: "shell:" in screen.pane.screen())
        return screen.in_front()

    with pytest.raises(KeysPressedError, match="came in between"):
        screen.give("Tidy up:\ntouch told\n", rests=rests)

    assert not (tmp_path / "told").exists()


def test_whoever_has_another_terminal_is_not_in_front(shown: Callable[..., Screen]) -> None:
    """As one that runs in the terminal of an editor, itself in the pane."""
    screen = shown()

    assert screen.in_front()
    assert not is_in_front(screen.pane._replace(tty="/dev/null"), screen.pid)
    assert not is_in_front(screen.pane, os.getpid())
    assert not is_in_front(screen.pane._replace(tty=""), screen.pid)
    assert not is_in_front(screen.pane, 1 << 22)


def test_whoever_has_a_terminal_of_its_own_below_a_pane_is_in_none(
    shown: Callable[..., Screen],
) -> None:
    """As one in a recording, or in an editor's terminal: its inbox is the way to it."""
    screen = shown(a_job=True)
    screen.pane.press("C-c")
    screen.ask("respawn-pane", "-k", "-t", screen.pane.id, sys.executable, "-c", OWN_TERMINAL)
    first = int(screen.ask("display-message", "-p", "#{pane_pid}"))
    within(lambda: "its own" in screen.pane.screen())
    [below] = psutil.Process(first).children()

    assert pane_of(first) is not None
    assert pane_of(below.pid) is None


OWN_TERMINAL = "import pty; pty.spawn(['sh', '-c', 'echo its own; read it'])"


@pytest.mark.parametrize("fails", ["send-keys", "capture-pane"])
def test_once_enter_was_pressed_nothing_means_that_it_was_not(
    shown: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """A tmux that answers no more may have pressed it."""
    screen, asking, pressed = shown(), TmuxPane.ask, False

    def ask(pane: TmuxPane, *words: str) -> str:
        nonlocal pressed
        told = asking(pane, *words)
        pressed = pressed or words[-1] == "Enter"
        if pressed and words[0] == fails:
            raise NotObeyedError("tmux does not answer")
        return told

    monkeypatch.setattr(TmuxPane, "ask", ask)

    known: bool | NotObeyedError
    try:
        known = screen.give("go on")
    except NotObeyedError as error:  # which would say that nothing was done
        known = error
    assert known is False

    within(screen.said)
    assert screen.said() == [{"submit": "go on"}]


def test_escape_is_pressed_where_it_works(shown: Callable[..., Screen]) -> None:
    assert KEYBOARD is not None
    screen = shown()
    screen.ask("copy-mode")

    interrupt(screen.pane, KEYBOARD, lambda: True)

    within(screen.said)
    assert screen.said() == [{"escape": True}]


@pytest.mark.parametrize(("mode", "works"), [("dialog", True), ("", False)])
def test_escape_is_not_pressed_at_a_dialog_nor_once_it_works_no_more(
    shown: Callable[..., Screen], mode: str, works: bool
) -> None:
    assert KEYBOARD is not None
    screen = shown(mode)

    with pytest.raises(NotObeyedError, match=r"no input box|just ended"):
        interrupt(screen.pane, KEYBOARD, lambda: works)

    assert "key 0" in screen.pane.screen()


def test_what_does_not_arrive_is_not_submitted(
    shown: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "ARRIVES_S", 0.3)
    screen = shown("deaf")

    with pytest.raises(NotObeyedError, match="does not hold what was typed"):
        screen.give("go on")

    assert screen.said() == []


@pytest.mark.core
def test_nobody_is_typed_over(
    shown: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert KEYBOARD is not None
    screen = shown()
    sleeping = terminal.time.sleep

    def somebody_types(seconds: float) -> None:
        screen.ask("send-keys", "-l", "x")
        within(screen.box)
        sleeping(seconds)

    monkeypatch.setattr(terminal.time, "sleep", somebody_types)

    with pytest.raises(NotObeyedError, match="somebody is typing"):
        box_of(screen.pane, KEYBOARD)


def test_whoever_has_just_pressed_a_key_is_left_alone(
    shown: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert KEYBOARD is not None
    screen = shown()
    asking = TmuxPane.ask

    def attended(pane: TmuxPane, *words: str) -> str:
        return f"{int(time.time())}\n" if words[0] == "list-clients" else asking(pane, *words)

    monkeypatch.setattr(TmuxPane, "ask", attended)

    with pytest.raises(NotObeyedError, match="somebody is typing"):
        box_of(screen.pane, KEYBOARD)


def test_a_process_beside_tmux_is_in_no_pane(shown: Callable[..., Screen]) -> None:
    screen = shown()
    with subprocess.Popen(["sleep", "60"], env={"TMUX": f"{screen.tmux[-1]},1,0"}) as beside:
        try:
            found = pane_of(beside.pid)
            assert found is None or found.socket != screen.tmux[-1]
        finally:
            beside.kill()
    assert screen.pane.id == "%0"
    assert pane_of(1 << 22) is None
