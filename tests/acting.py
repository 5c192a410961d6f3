"""One session that people elsewhere act in, and all that is reported of it."""

import asyncio
import contextlib
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adsum_collector.agents.claude_code.agent import ClaudeCode
from adsum_collector.control.actions import Actions
from adsum_collector.control.consent import LiveConsent
from adsum_collector.control.queue import PromptQueue
from adsum_collector.control.seats import Seats
from adsum_collector.processes import AgentProcess, look_up
from adsum_shared.commands import Command, NotObeyedError
from adsum_shared.signals import AnySignal, PromptSubmitted, QueueReported
from tests.support import wait_until


class Mute(ClaudeCode):
    """Nothing is typed into the terminal that the tests themselves run in."""

    keyboard = None


class Machine:
    """One session, whose process is this one, and all that is reported of it. clock: ms."""

    def __init__(self, state_dir: Path, agent: ClaudeCode | None = None) -> None:
        self.agent = agent or Mute()
        self.state_dir, self.clock = state_dir, 1_000_000
        self.registry = state_dir / "sessions"
        self.registry.mkdir()
        self.entry: dict[str, Any] = {"sessionId": "s", "pid": os.getpid(), "status": "idle"}
        self.entry |= {"messagingSocketPath": str(state_dir / "inbox.sock")}
        self.process = AgentProcess(os.getpid(), look_up(os.getpid()) or 0)
        self.messages: list[str] = []
        #: the state of the first that waits, as each message arrives
        self.on_disk: list[str] = []
        self.outcomes: list[tuple[str, str, str | None]] = []
        self.shown: list[QueueReported] = []
        self.takes = True
        self.not_alone: str | None = None
        self.rests()
        self.actions = self.collector()

    def collector(self) -> Actions:
        agent = self.agent
        seats = Seats(
            {agent.name: agent},
            {agent.name: [self.registry]},
            SimpleNamespace(look=lambda: {"s": self.process}),
        )
        consent = LiveConsent(self.state_dir, wall=time.time, timer=time.monotonic)
        made = Actions(seats, PromptQueue(self.state_dir), consent, now=lambda: self.clock)
        made.reports = self
        return made

    def start(self) -> None:
        self._running = asyncio.create_task(self.actions.run())

    async def stop(self) -> None:
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def require_prompting(self, command: Command) -> None:
        if self.not_alone:
            raise NotObeyedError(self.not_alone)

    async def write_down(self, command: Command) -> None:
        raise AssertionError

    def report(self, command: Command, outcome: str, reason: str | None = None) -> None:
        self.outcomes.append((command.id, outcome, reason))

    def tell(self, agent: str, signal: AnySignal) -> None:
        assert agent == "claude_code"
        assert isinstance(signal, QueueReported)
        self.shown.append(signal)

    def is_so(self, **entry: Any) -> None:
        self.entry |= entry | {"statusUpdatedAt": self.clock}
        path = self.registry / f"{os.getpid()}.json"
        path.with_suffix(".draft").write_text(json.dumps(self.entry))
        path.with_suffix(".draft").replace(path)

    def rests(self) -> None:
        self.is_so(status="idle")

    def works(self) -> None:
        self.is_so(status="busy")

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """As the session does: a message begins a turn, and a hook tells of it."""
        text = json.loads(await reader.read())["message"]["content"]
        writer.close()
        self.messages.append(text)
        self.on_disk += [each.state for each in PromptQueue(self.state_dir).of("s")[:1]]
        if self.takes:
            self.works()
            self.says(text)

    def says(self, text: str) -> None:
        told = PromptSubmitted(session_id="s", at=self.clock, seen=self.clock, text=text)
        self.actions.hear([told])

    async def give(self, verb: Any, name: str, **more: Any) -> None:
        command = Command(id=name, host_id="h", session_id="s", verb=verb, by="ann", **more)
        await self.actions.accept(command)
        self.actions.begin(command)

    def told(self, name: str) -> list[str]:
        return [outcome for each, outcome, _ in self.outcomes if each == name]

    def why(self, name: str) -> str:
        return next(why or "" for each, _, why in reversed(self.outcomes) if each == name)

    async def until(self, name: str, outcome: str) -> None:
        await wait_until(lambda: outcome in self.told(name), 20)
