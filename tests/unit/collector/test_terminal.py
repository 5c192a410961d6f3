"""Typing into a terminal: a real tmux, and a program that has an input box as the agent's is."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents import known_agents
from adsum_collector.control import terminal
from adsum_collector.control.terminal import TmuxPane, box_of, pane_of, type_prompt
from adsum_shared.commands import NotObeyedError

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux"),
    pytest.mark.slow,
]
BOX = Path(__file__).parents[2] / "data" / "fake_box.py"
KEYBOARD = known_agents()[0].keyboard
assert KEYBOARD is not None


class Screen:
    """A tmux server of its own with one such program, at which nobody sits."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.log = folder / "log"
        self.tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "t.sock")]
        program = ["env", "-i", "LANG=C.UTF-8", "TERM=xterm", sys.executable, str(BOX)]
        self.ask("new-session", "-d", "-x", "100", "-y", "30", *program, str(self.log), mode)
        self.pid = int(self.ask("display-message", "-p", "#{pane_pid}"))
        found = pane_of(self.pid)
        assert found is not None
        self.pane: TmuxPane = found
        within(lambda: "key 0" in self.pane.screen())

    def ask(self, *words: str) -> str:
        return subprocess.run(
            [*self.tmux, *words], capture_output=True, text=True, check=True
        ).stdout

    def said(self) -> list[Any]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line]

    def box(self) -> str | None:
        return KEYBOARD.box(self.pane.screen()) if KEYBOARD else None

    def give(self, text: str, rests: Callable[[], bool] = lambda: True) -> None:
        assert KEYBOARD is not None
        type_prompt(self.pane, KEYBOARD, text, rests)


def within(holds: Callable[[], Any], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    found: list[Screen] = []

    def start(mode: str = "") -> Screen:
        (tmp_path / "log").touch()
        found.append(Screen(tmp_path, mode))
        return found[-1]

    yield start
    for each in found:
        subprocess.run([*each.tmux, "kill-server"], check=False, capture_output=True)


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
    rests = iter([True, False])

    with pytest.raises(NotObeyedError, match="came in between"):
        screen.give("go on", rests=lambda: next(rests))

    assert screen.said() == []


def test_what_does_not_arrive_is_not_submitted(
    shown: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "ARRIVES_S", 0.3)
    screen = shown("deaf")

    with pytest.raises(NotObeyedError, match="did not arrive"):
        screen.give("go on")

    assert screen.said() == []


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
