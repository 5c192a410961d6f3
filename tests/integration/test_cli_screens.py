"""`agents --watch` and `top` on a terminal: drawn in place, at any size, and left as it was."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adsum_shared.state import Group
from tests.hubs import StandIn, session, stand_in_hub

ASKS = session("0a1b2c3d", Group.NEEDS_YOU, "needs_permission", label="Needs permission: Bash")
CLEARED, OTHER_SCREEN, BACK = b"\x1b[2J", b"\x1b[?1049h", b"\x1b[?1049l"
COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-9][;m]")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *words: str, columns: int = 80, lines: int = 24, **env: str) -> None:
        self.end, inside = os.openpty()
        self.drawn = b""
        self._size(columns, lines)
        kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "adsum", *words],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            env={**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **env},
        )
        self.before = termios.tcgetattr(inside)
        self.inside = inside

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        self._size(columns, lines)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def until(self, end: bytes, timeout_s: float = 20) -> bytes:
        """What was drawn until then, from the last time on."""
        deadline, read = time.monotonic() + timeout_s, b""
        while end not in read:
            assert time.monotonic() < deadline, read[-2000:]
            if select.select([self.end], [], [], 0.1)[0]:
                read += os.read(self.end, 65536)
        self.drawn += read
        return read

    def press(self, keys: bytes) -> None:
        os.write(self.end, keys)


@contextmanager
def on_terminal(*words: str, columns: int = 80, lines: int = 24, **env: str) -> Iterator[Terminal]:
    terminal = Terminal(*words, columns=columns, lines=lines, **env)
    try:
        yield terminal
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
        terminal.process.wait(10)
        os.close(terminal.inside)
        os.close(terminal.end)


@pytest.fixture
def hub() -> Iterator[StandIn]:
    with stand_in_hub() as hub:
        hub.sessions = [ASKS]
        yield hub


def test_a_watch_is_redrawn_in_place_and_follows_the_terminals_size(hub: StandIn) -> None:
    with on_terminal("agents", "-w", "--hub", hub.url) as terminal:
        terminal.until(b"1 needs you")
        hub.tell(session("new", title="A second one"))
        drawn = terminal.until(b"A second one")
        assert OTHER_SCREEN in terminal.drawn
        # Nothing is wiped before it is drawn anew: that is what flickers.
        assert CLEARED not in drawn
        terminal.resize(140, 24)
        terminal.until(b"TOKENS", timeout_s=10)
        os.killpg(terminal.process.pid, signal.SIGINT)
        terminal.until(BACK)
        assert terminal.process.wait(10) == 0
        assert b"\x1b[?25h" in terminal.drawn  # the cursor is back


def test_without_colours_the_state_is_told_all_the_same(hub: StandIn) -> None:
    with on_terminal("agents", "--hub", hub.url, NO_COLOR="1") as terminal:
        drawn = terminal.until(b"1 needs you")
        assert "▲ Needs permission: Bash".encode() in drawn
        assert COLOUR.search(drawn) is None


def test_colours_are_there_unless_switched_off(hub: StandIn) -> None:
    with on_terminal("agents", "--hub", hub.url) as terminal:
        assert COLOUR.search(terminal.until(b"1 needs you"))


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_the_full_screen_is_left_as_it_was(hub: StandIn, key: bytes) -> None:
    pytest.importorskip("textual", reason="adsum top needs the extra tui")
    with on_terminal("top", "--hub", hub.url) as terminal:
        terminal.until(b"Needs permission")
        assert OTHER_SCREEN in terminal.drawn
        terminal.press(key)
        terminal.until(BACK)
        assert terminal.process.wait(15) == 0
        assert termios.tcgetattr(terminal.inside) == terminal.before


def test_a_message_breaks_between_words_at_the_terminals_width() -> None:
    with on_terminal("agents", "--hub", "http://127.0.0.1:9", columns=40) as terminal:
        lines = terminal.until(b"ADSUM_HUB_URL.\r\n").decode().split("\r\n")
        assert terminal.process.wait(10) == 3
    assert " ".join(lines).startswith("adsum: No hub answers at http://127.0.0.1:9 (")
    assert len(lines) > 4
    assert all(len(line) <= 40 for line in lines)


def test_of_a_list_that_leaves_the_screen_the_first_is_said_again(hub: StandIn) -> None:
    hub.sessions = [ASKS, *(session(f"s{number}") for number in range(30))]
    first = b"First: Needs permission: Bash, for "
    with on_terminal("agents", "--hub", hub.url, lines=24) as terminal:
        assert first in terminal.until(b"adsum show 0a1b2c")
    with on_terminal("agents", "--hub", hub.url, lines=50) as terminal:
        drawn = terminal.until(b"delivered")
        assert terminal.process.wait(10) == 0
        if select.select([terminal.end], [], [], 0)[0]:
            drawn += os.read(terminal.end, 65536)
        assert first not in drawn


def test_a_hub_that_is_away_is_told_on_the_terminal_itself() -> None:
    pytest.importorskip("textual", reason="adsum top needs the extra tui")
    with on_terminal("top", "--hub", "http://127.0.0.1:9") as terminal:
        terminal.until(b"No hub answers")
        assert terminal.process.wait(15) == 3
