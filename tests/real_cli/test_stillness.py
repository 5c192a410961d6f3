"""What can be seen of the real CLI from outside while its model says nothing, and while it speaks."""

from __future__ import annotations

import time

import pytest

import adsum_collector.watch as watch_module
from adsum_collector.processes import AgentProcess, cpu_ms, received_ago
from adsum_collector.watch import Work, news_of_work
from adsum_shared.signals import Alive, AnySignal, ProcessStill
from tests.real_cli.cli_rig import Terminal
from tests.real_cli.conftest import NewHome
from tests.real_cli.fleet import until
from tests.real_cli.session import LINE

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(60)]

FLAGS = ("--permission-mode", "manual")


def test_a_silent_model_leaves_the_cli_still_and_a_speaking_one_does_not(
    new_home: NewHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However busily it draws its spinner."""
    monkeypatch.setattr(watch_module, "CPU_INTERVAL_MS", 0)
    with Terminal(new_home("user"), FLAGS) as terminal:
        agent = AgentProcess(terminal.pid)

        def look(
            known: dict[AgentProcess, Work],
        ) -> tuple[list[AnySignal], dict[AgentProcess, Work]]:
            now = time.time_ns() // 1_000_000
            return news_of_work(known, {"S": agent}, cpu_ms, now, received_ago)

        def silent_for(ms: int) -> bool:
            return (received_ago([agent.pid])[agent.pid] or 0) > ms

        _, known = look({})
        terminal.type("do play:slow")
        terminal.wait_for(LINE)
        (heard,), _ = look(known)

        assert isinstance(heard, Alive)
        until(lambda: not silent_for(200), "a word of the model to come in")

        terminal.press("Escape")
        terminal.wait_for("Interrupted")
        terminal.type("do play:mute")
        until(lambda: silent_for(2_000), "the model to be silent")
        _, known = look({})
        until(lambda: silent_for(7_000), "the model to be silent for longer")
        (still,), _ = look(known)

        assert isinstance(still, ProcessStill)
        assert still.connected
