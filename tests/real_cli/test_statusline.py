"""The user's status line in our wrapper: the same on the screen, nothing in the transcript, ticks here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_cli.census import census
from tests.real_cli.cli_rig import Home, Terminal, claude_binary
from tests.real_cli.conftest import NewHome
from tests.real_cli.fleet import Machine, adsum, free_port, until

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(120)]

#: Two rows, a colour, and something of the input and of the environment.
LINE = (
    "input=$(cat); printf '\\033[31mred\\033[0m %s\\n' \"$COLUMNS\"; "
    'echo "$input" | grep -o \'"display_name":"[^"]*"\''
)
SHOWN = '"display_name":"'
MODE = "manual mode on"
PROMPT = "\u276f"
HINT = "? for shortcuts"


def choose(home: Home, command: str, **more: Any) -> None:
    """Set the user's status line."""
    settings = json.loads(home.settings.read_text())
    line = {"type": "command", "command": command, **more}
    home.settings.write_text(json.dumps({**settings, "statusLine": line}))


def resting(terminal: Terminal) -> list[str]:
    """The screen once it has stood still for a second, colours and all, without the durations."""
    still, since = "", time.monotonic()
    while time.monotonic() < since + 1:  # its command is run a while after a turn
        screen = terminal.screen(colours=True)
        if screen != still:
            still, since = screen, time.monotonic()
    # Colours that are put back behind the last letter of a row are seen by nobody.
    rows = [re.sub(r"(\x1b\[[0-9;]*m)+$", "", row) for row in still.split("\n")]
    return [re.sub(r"✻.*", "✻", row) for row in rows]


def a_turn(home: Home, ready: str) -> list[list[str]]:
    """What stands on the screen before and after one turn, and while a prompt is typed."""
    with Terminal(home, ready=ready) as terminal:
        screens = [resting(terminal)]
        terminal.type("do play:text")
        terminal.wait_for("All is well.")
        screens.append(resting(terminal))
        terminal.press("h", "e", "y")
        screens.append(resting(terminal))
        terminal.press("C-u")
        terminal.leave()
    return screens


@pytest.fixture
def wrapped(new_home: NewHome) -> Iterator[Machine]:
    """A user's machine with a collector, whose broker is away; hooks are not installed yet."""
    machine = Machine("anvil", new_home("wrapped"), free_port(), "redis://127.0.0.1:1")
    machine.collector.start()
    yield machine
    machine.collector.stop()


def install(machine: Machine, *flags: str) -> None:
    """By the command a user types."""
    command = adsum("hooks", "install", "--claude", str(claude_binary()), *flags)
    subprocess.run(command, env=machine.env, check=True, capture_output=True)


def heard(machine: Machine) -> dict[str, Any]:
    """What the collector says of its status line witness."""
    facts = httpx.get(f"http://127.0.0.1:{machine.port}/readyz").json()
    return next(dict(each) for each in facts["witnesses"] if each["name"] == "statusline")


@pytest.mark.core
def test_a_wrapped_line_is_the_same_on_the_screen_and_is_heard_here(
    wrapped: Machine, new_home: NewHome
) -> None:
    plain = new_home("plain")
    for home in (plain, wrapped.home):
        choose(home, LINE, padding=3)
    install(wrapped)
    assert (
        "adsum_collector/agents/claude_code/statusline_wrapper.py"
        in wrapped.home.settings.read_text()
    )

    as_ever = a_turn(plain, SHOWN)
    screens = a_turn(wrapped.home, SHOWN)

    assert screens == as_ever
    assert census(wrapped.home) == census(plain)
    until(lambda: heard(wrapped).get("heard_at"), "a tick to be heard")
    assert not heard(wrapped).get("counts")


def test_a_command_that_fails_shows_what_it_ever_showed_and_is_counted(
    wrapped: Machine, new_home: NewHome
) -> None:
    plain = new_home("plain")
    for home in (plain, wrapped.home):
        choose(home, "echo half; exit 3")
    install(wrapped)

    assert a_turn(wrapped.home, MODE) == a_turn(plain, MODE)
    until(lambda: heard(wrapped).get("counts", {}).get("exit code 3"), "the failure to be counted")


def test_a_run_that_the_cli_cancels_leaves_no_process_and_is_no_fault(
    wrapped: Machine, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    choose(wrapped.home, f"echo $$ $PPID >> {pids}; sleep 60; echo never")
    install(wrapped)

    with Terminal(wrapped.home, ready=MODE) as terminal:
        until(pids.exists, "the first run")
        terminal.type("do play:text")
        terminal.wait_for("All is well.")
        until(lambda: len(pids.read_text().splitlines()) > 1, "the second run")
        first = pids.read_text().splitlines()[0].split()
        until(lambda: not any(map(is_alive, first)), "the first run to be gone")
        terminal.leave()

    until(lambda: not any(map(is_alive, pids.read_text().split())), "every run to be gone")
    until(lambda: heard(wrapped).get("heard_at"), "a tick to be heard")
    assert not heard(wrapped).get("counts")


def is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


def test_an_empty_line_shows_which_is_why_an_empty_slot_is_left_alone(new_home: NewHome) -> None:
    plain, empty = new_home("plain"), new_home("empty")
    choose(empty, "cat > /dev/null")

    without, line = a_turn(plain, MODE)[0], a_turn(empty, MODE)[0]

    assert HINT in "".join(without)
    assert HINT not in "".join(line), "the hint gives way"
    assert row_of(MODE, line) == row_of(MODE, without)
    assert row_of(PROMPT, line) == row_of(PROMPT, without) - 1, "to a row with nothing in it"
    assert census(empty) == census(plain)


def row_of(text: str, rows: list[str]) -> int:
    return next(number for number, row in enumerate(rows) if text in row)


def test_our_wrapper_in_an_empty_slot_shows_no_more_than_an_empty_line(
    wrapped: Machine, new_home: NewHome
) -> None:
    empty = new_home("empty")
    choose(empty, "cat > /dev/null")
    install(wrapped, "--statusline")

    assert a_turn(wrapped.home, MODE) == a_turn(empty, MODE)
    assert census(wrapped.home) == census(empty)
    until(lambda: heard(wrapped).get("heard_at"), "a tick to be heard")
