"""The living process of a session: how it can be reached, what it is at, and what of it no registry tells."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from adsum_collector.agents.base import Agent, SessionLine
from adsum_collector.processes import AgentProcess, WatchedSessions, look_up
from adsum_shared.commands import NotObeyedError
from adsum_shared.signals import ALL_CHILDREN, BackgroundTask, ChildKind, StatusReported

#: Of what bears no time of its own.
_UNDATED: Final = 1 << 60
MOST_ENTRY: Final = 1 << 20


class Seat(NamedTuple):
    """A session's living process, as its registry has it at this moment.

    status: `idle` while it rests, since `at` (ms); None: it does not say. inbox: takes messages.
    line: the agent's own way to it; then its word comes by that, and from no registry.
    """

    agent: Agent
    pid: int
    status: str | None
    at: int
    inbox: Path | None
    line: SessionLine | None = None


class Seats:
    """registries: agent's name -> where it keeps a file for each process. All of it may block.

    processes: of the sessions that have not ended.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        registries: Mapping[str, Sequence[Path]],
        processes: WatchedSessions,
    ) -> None:
        self._agents, self._registries, self.processes = agents, registries, processes

    def agent_of(self, session_id: str) -> str:
        process = self.processes.look().get(session_id)
        return process.agent if process else next(iter(self._agents))

    def require_sound(self, session_id: str, text: str) -> None:
        """Raises NotObeyedError: it can never be said there, by whatever way."""
        agent = self._agents.get(self.agent_of(session_id))
        if agent is not None and agent.keyboard is not None:
            agent.keyboard.typed(text)
        elif agent is not None:
            agent.message(text, "")

    def require_reach(self, session_id: str) -> None:
        """Raises NotObeyedError: its agent knows that nothing is ever said to this one."""
        agent = self._agents.get(self.agent_of(session_id))
        if agent is not None and (why := agent.out_of_reach(session_id)):
            raise NotObeyedError(why)

    def of(self, session_id: str) -> Seat | None:
        """None: nobody says which process is the session's, or it is not this user's, or has gone."""
        process = self.processes.look().get(session_id)
        if process is None or process.agent not in self._agents or not _is_ours(process):
            return None
        agent = self._agents[process.agent]
        line = agent.line_to(session_id)
        if line is not None and (word := line.status_of(session_id)) is not None:
            return Seat(agent, process.pid, *word, inbox=None, line=line)
        for directory in self._registries.get(process.agent, ()):
            try:
                with (directory / f"{process.pid}.json").open("rb") as file:
                    raw = file.read(MOST_ENTRY)
                told = agent.registry(raw, _UNDATED)
            except (OSError, ValueError, RecursionError):
                continue
            for each in told:
                if not isinstance(each, StatusReported) or each.session_id != session_id:
                    continue
                if each.pid in (None, process.pid):
                    at = each.at if each.at < _UNDATED else 0
                    return Seat(agent, process.pid, each.status, at, agent.inbox(raw))
        return None


def _is_ours(process: AgentProcess) -> bool:
    started = look_up(process.pid)
    if started is None or not process.is_same(AgentProcess(process.pid, started)):
        return False
    try:
        return Path(f"/proc/{process.pid}").stat().st_uid == os.getuid()
    except OSError:  # not Linux: tmux and the socket's owner tell
        return not Path("/proc/self").exists()


#: Sessions of which is remembered what was heard, and what is remembered of one.
MOST_HEARD: Final = 5_000
MOST_SCHEDULED: Final = 256
#: So long after its time a wake-up has been, or never will be.
WAKES_MS: Final = 60_000
#: Of these the registry says `shell` or `busy`.
_TOLD_BY_REGISTRY: Final = frozenset({"agent", "shell"})


@dataclass(slots=True)
class Remembered:
    """What was heard of a session's process. begun: when something began in it last, ms.

    scheduled: child -> its kind, and when it wakes the session, ms; None: nobody said.
    """

    begun: int = 0
    pid: int = 0
    scheduled: dict[str, tuple[ChildKind, int | None]] = field(default_factory=dict)

    def schedule(self, child_id: str, kind: ChildKind, until: int | None = None) -> None:
        if kind in _TOLD_BY_REGISTRY:
            return
        if child_id in self.scheduled or len(self.scheduled) < MOST_SCHEDULED:
            self.scheduled[child_id] = (kind, until)

    def finish(self, child_id: str, kind: ChildKind) -> None:
        if child_id == ALL_CHILDREN:
            self.scheduled = {k: v for k, v in self.scheduled.items() if v[0] != kind}
        else:
            self.scheduled.pop(child_id, None)

    def is_to_wake(self, now: int) -> bool:
        """Something is scheduled whose time has not passed."""
        hours = (until for _, until in self.scheduled.values())
        return any(until is None or now < until + WAKES_MS for until in hours)

    def list_all(self, told: Sequence[BackgroundTask]) -> None:
        """All that is scheduled but for wake-ups, which no list names."""
        self.scheduled = {k: v for k, v in self.scheduled.items() if v[1] is not None}
        for each in told:
            if each.status in ("running", "pending"):
                self.schedule(each.id, each.kind)
