"""What the user sees of a collector that is away: how long an answer may be late, and what it costs.

A service manager that keeps the listening socket turns a refused connection, which shows in red,
into a wait. The CLI waits for each hook up to the hook's time-out: so whoever keeps the socket has
to have the collector answering well within it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.real_cli.census import census, subscribe
from tests.real_cli.cli_rig import Home, Terminal
from tests.real_cli.conftest import Figure, NewHome
from tests.real_cli.fleet import Machine, adsum, answers, until
from tests.real_cli.hook_sink import HookSink, http_hooks
from tests.real_cli.socket_keeper import SocketKeeper

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(120)]

#: The word with which the CLI begins to complain, of whatever hook and for whatever reason.
COMPLAINT = " hook "


@pytest.fixture
def held() -> Iterator[HookSink]:
    """A socket that listens and is not answered, unless the test starts it."""
    with contextlib.closing(HookSink()) as sink:
        yield sink


def test_a_collector_that_starts_at_the_first_hook_leaves_the_terminal_clean(
    new_home: NewHome, held: HookSink
) -> None:
    home = new_home("user")
    subscribe(home, held.url)
    held.start_when_called(startup_s=1.0)

    with Terminal(home) as terminal:
        terminal.type("do play:chain")
        terminal.wait_for("Three steps taken.")
        screen = terminal.screen()
        terminal.leave()

    assert COMPLAINT not in screen
    assert not [kind for _, _, kind in census(home) if kind and kind.startswith("hook_")]
    assert held.events >= {"UserPromptSubmit", "PreToolUse", "PostToolUse"}


def test_a_socket_nobody_answers_costs_the_whole_timeout_and_shows(
    new_home: NewHome, held: HookSink
) -> None:
    """Why keeping the socket is not enough by itself."""
    home = new_home("user")
    home.install_hooks(http_hooks(held.url, ("UserPromptSubmit",)))

    with Terminal(home) as terminal:
        terminal.type("do play:text")
        began = time.monotonic()
        took = terminal.wait_for("All is well.") - began
        screen = terminal.screen()
        terminal.leave()

    assert took >= 2.0
    assert COMPLAINT in screen
    assert census(home)["main", "attachment", "hook_cancelled"] == 1


@pytest.mark.core
def test_a_collector_killed_behind_its_kept_socket_leaves_the_terminal_clean(
    new_home: NewHome, figure: Figure
) -> None:
    home = new_home("user")
    machine = Machine("anvil", home, port=0, redis_url="redis://127.0.0.1:1")
    with SocketKeeper(adsum("collector"), machine.env, home.path / "collector.log") as keeper:
        dataclasses.replace(machine, port=keeper.port).install_hooks()
        be_patient(home)
        ready_url = f"http://127.0.0.1:{keeper.port}/readyz"
        until(lambda: answers(ready_url), "the collector to start")
        with Terminal(home) as terminal:
            keeper.kill()
            terminal.type("do play:chain")
            began = time.monotonic()
            took = terminal.wait_for("Three steps taken.", 40) - began
            screen = terminal.screen()
            terminal.leave()
        accepted = httpx.get(ready_url).json()["hooks"]["accepted"]

    figure("a turn of 7 hooks, the collector killed just before", took)
    assert COMPLAINT not in screen
    assert not [kind for _, _, kind in census(home) if kind and kind.startswith("hook_")]
    # One prompt, three tools begun and finished, the end of the session: none was lost.
    assert accepted == 8


def be_patient(home: Home) -> None:
    """Stretch the hooks' time-outs: a busy machine must not decide, the figure is what counts."""
    hooks = json.loads(home.settings.read_text())["hooks"]
    for (group,) in hooks.values():
        group["hooks"][0]["timeout"] = 30
    home.install_hooks(hooks)


def test_a_typed_compact_shows_nothing_of_our_hooks(new_home: NewHome, sink: HookSink) -> None:
    """The CLI reports every hook on PreCompact and PostCompact under a /compact that was typed."""
    home = new_home("user")
    subscribe(home, sink.url)

    with Terminal(home) as terminal:
        terminal.type("do play:text")
        terminal.wait_for("All is well.")
        terminal.type("/compact")
        terminal.wait_for("Compacted")
        screen = terminal.screen()

    assert urlsplit(sink.url).netloc not in screen
