"""Does in sessions of this machine what people elsewhere want done: prompts, the queue, interrupts.

One thing at a time is done in a session. A command is obeyed at most once, also if the collector is
restarted meanwhile: its id is on disk before anything is done.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from adsum_collector.agents.base import Agent
from adsum_collector.control.consent import LiveConsent
from adsum_collector.control.queue import LASTS_MS, PromptQueue, Queued
from adsum_collector.processes import AgentProcess
from adsum_shared import WallClock
from adsum_shared.commands import MOST_PROMPT, Command, NotObeyedError
from adsum_shared.signals import AnySignal, QueuedItem, QueueReported

log = logging.getLogger(__name__)

#: Commands that are being obeyed, or wait for it.
MOST_AT_ONCE: Final = 32
#: Between two looks at what waits.
LOOK_S: Final = 0.5
#: Of a message that waits, as hubs show it.
SHOWN: Final = 500
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

Result = TypeVar("Result")
#: Obeys one command. Raises NotObeyedError, OSError: nothing was done.
Obey = Callable[[Command], Awaitable[None]]


class Reports(Protocol):
    """Where is told what came of a command, and what is so of a session."""

    def report(self, command: Command, outcome: str, reason: str | None = None) -> None: ...
    def tell(self, agent: str, signal: AnySignal) -> None: ...


class Actions:
    """agents: by name, the first is the default. processes: of the sessions that have not ended.

    verbs: what is done for each; others may be added before it runs. now: ms of wall clock.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        queue: PromptQueue,
        processes: Callable[[], Mapping[str, AgentProcess]],
        consent: LiveConsent,
        *,
        now: WallClock,
    ) -> None:
        self._agents, self._queue, self._processes = agents, queue, processes
        self._consent, self._now = consent, now
        self.reports: Reports
        self.verbs: dict[str, Obey] = {
            "queue": self._put_in,
            "withdraw": self._take_back,
            "move": self._move,
        }
        self._todo: asyncio.Queue[Command] = asyncio.Queue(MOST_AT_ONCE)
        self._alone: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._writing = asyncio.Lock()
        self._shown = 0

    async def accept(self, command: Command) -> None:
        """Uses its id up. Raises NotObeyedError, OSError: it will not be obeyed."""
        await self._changed(self._queue.use, command.id)
        if command.verb not in self.verbs:
            raise NotObeyedError(f"this machine's collector cannot `{command.verb}` yet")
        if self._todo.full():
            raise NotObeyedError("too much is asked of this machine at once: try again")
        text = command.text or ""
        if _CONTROL.search(text) or len(text) > MOST_PROMPT:
            raise NotObeyedError("the text is too long, or holds control characters")

    def begin(self, command: Command) -> None:
        """What `accept` let through is done soon; what came of it is reported. Returns at once."""
        self._todo.put_nowait(command)

    def hear(self, signals: Sequence[AnySignal]) -> None:
        """All that any witness of this machine says, once. Returns at once."""

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tend(), name="queue")
            while True:
                command = await self._todo.get()
                tasks.create_task(self._obey(command), name=command.verb)

    async def _obey(self, command: Command) -> None:
        async with self._alone[command.session_id]:
            try:
                if self._consent.level != "full":
                    raise NotObeyedError("this machine's owner does not allow it any more")
                await self.verbs[command.verb](command)
            except NotObeyedError as error:
                self.reports.report(command, "refused", str(error))
            except OSError as error:
                self.reports.report(command, "refused", f"it cannot be written down ({error})")

    async def _put_in(self, command: Command) -> None:
        now, session_id = self._now(), command.session_id
        text = (command.text or "").strip()
        if not text:
            raise NotObeyedError("there is nothing to say in it")
        item = Queued(command.id, session_id, text, command.by, now, now + LASTS_MS)
        await self._changed(self._queue.add, item, command.place)
        self.reports.report(command, "queued")
        self._show(session_id)

    async def _take_back(self, command: Command) -> None:
        session_id = command.session_id
        item = await self._changed(self._queue.take_out, session_id, command.item or "")
        self._report_item(item, "withdrawn", f"by {command.by}")
        self.reports.report(command, "took_effect")
        self._show(session_id)

    async def _move(self, command: Command) -> None:
        place, session_id = command.place or 0, command.session_id
        await self._changed(self._queue.move, session_id, command.item or "", place)
        self.reports.report(command, "took_effect")
        self._show(session_id)

    async def _tend(self) -> None:
        """What waited too long goes."""
        for session_id in sorted(self._queue.told | {*self._queue.sessions}):
            self._show(session_id)
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                for item in await self._changed(self._queue.expire, self._now()):
                    self._report_item(item, "expired", "it waited too long")
                    self._show(item.session_id)
            except OSError as error:
                log.warning("the queue cannot be written: %s", error)

    async def _changed(self, change: Callable[..., Result], *given: object) -> Result:
        async with self._writing:
            return await asyncio.to_thread(change, *given)

    def _report_item(self, item: Queued, outcome: str, reason: str | None = None) -> None:
        """Of the command that queued it."""
        about = Command(
            id=item.id, host_id="", session_id=item.session_id, verb="queue", by=item.by
        )
        self.reports.report(about, outcome, reason)

    def _show(self, session_id: str) -> None:
        """What waits, as it stands now."""
        self._shown = at = max(self._now(), self._shown + 1)
        items = [
            QueuedItem(each.id, each.text[:SHOWN], each.by, each.at, each.until, each.state)
            for each in self._queue.of(session_id)
        ]
        process = self._processes().get(session_id)
        agent = process.agent if process else next(iter(self._agents))
        self.reports.tell(agent, QueueReported(session_id=session_id, at=at, seen=at, items=items))
