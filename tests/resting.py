"""A machine with sessions that can be suspended, as the suspender sees it."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from adsum_collector.agents.base import Agent
from adsum_collector.agents.claude_code.agent import ClaudeCode
from adsum_collector.control.suspending import Suspender
from adsum_shared.signals import AnySignal
from tests.fake_claude import FakeClaude


class FakeIntake:
    """meanwhile: what happens while it writes to disk."""

    def __init__(self) -> None:
        self.accepted: list[AnySignal] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def accept(self, signals: list[AnySignal]) -> None:
        self.meanwhile()
        self.accepted += signals


class Machine:
    """box: what stands at every prompt; None: nobody can see it."""

    def __init__(self, folder: Path) -> None:
        self.claude = FakeClaude(folder / "config")
        self.intake = FakeIntake()
        self.box: str | None = ""
        self.why: str | None = None
        self.state_dir = folder / "state"
        self.state_dir.mkdir()
        self.suspender = self.restarted()

    def restarted(self) -> Suspender:
        def see(_agent: Agent, _pid: int) -> str | None:
            return self.box

        agent = ClaudeCode()
        return Suspender(
            self.state_dir,
            {agent: [self.claude.folder]},
            {agent.name: self.intake},  # type: ignore[dict-item] # as far as it is used
            now=lambda: time.time_ns() // 1_000_000,
            see_box=see,
            hindered=lambda _session_id: self.why,
        )


def tmux(*words: str) -> int:
    """On the server of the test."""
    if shutil.which("tmux") is None:
        return 1
    command = ["tmux", "-L", "adsum", *words]
    return subprocess.run(command, capture_output=True, check=False).returncode
