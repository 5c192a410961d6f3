"""All that hears something of this machine's sessions, and what is said of it: `/readyz`, heartbeat."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from adsum_collector.agents.base import Agent, Desk, OwnWitness, Surroundings
from adsum_collector.delivery.publisher import Publisher
from adsum_collector.health import HookFiles, hook_witness, transcript_witness, witness
from adsum_collector.intake import HookDoor, Intake
from adsum_collector.local_socket import LocalSocket, Ticks
from adsum_collector.processes import ProcessTable, watched_in
from adsum_collector.receiver import Receiver
from adsum_collector.settings import CollectorSettings
from adsum_collector.spool.spool import Spool
from adsum_collector.state_dir import Identity
from adsum_collector.transcripts.tailer import Tailer
from adsum_collector.usage.witness import UsageWitness
from adsum_collector.watch import Registry, Watch
from adsum_shared import WallClock, __version__
from adsum_shared.envelope import Counts
from adsum_shared.state import HostWitness


@dataclass
class AgentWitnesses:
    """What hears of one agent's sessions, apart from what is one for the whole machine.

    directories: those that hold the agent's files, if it is on this machine.
    """

    agent: Agent
    directories: Sequence[Path]
    intake: Intake
    tailer: Tailer
    hooks: HookFiles
    own: Sequence[OwnWitness] = ()
    usage: UsageWitness | None = None

    @property
    def door(self) -> HookDoor:
        return HookDoor(self.agent.hook, self.intake, self.tailer.heard)

    def health(self, now: int) -> list[HostWitness]:
        """For an agent beside the first, if it is here; witnesses of the whole machine are listed once."""
        if not any(directory.is_dir() for directory in self.directories):
            return []
        tailer, files, title = self.tailer, self.hooks.look(now), self.agent.title
        told = [
            *([hook_witness(files, 0, {}, 0)] if files else []),
            *(
                [transcript_witness(tailer.read_at, tailer.faults, tailer.too_long)]
                if tailer.roots
                else []
            ),
            *(each.health(now) for each in self.own),
            *([self.usage.witness()] if self.usage else []),
        ]
        if self.agent.limits and told and not told[0].note:
            told[0] = msgspec.structs.replace(told[0], note=self.agent.limits)
        return [msgspec.structs.replace(each, name=f"{each.name} ({title})") for each in told]


@dataclass
class Witnesses:
    """receiver, local, watch and the status line hear of all agents. agents: the first is the default."""

    receiver: Receiver
    local: LocalSocket
    watch: Watch
    statusline: Ticks
    agents: Sequence[AgentWitnesses]

    def health(self, now: int) -> tuple[HostWitness, ...]:
        """now: ms. The registry and the process table are read every second, so they are fresh."""
        receiver, local, watch = self.receiver, self.local, self.watch
        first, statusline = self.agents[0], self.statusline
        tailer, files = first.tailer, first.hooks.look(now)
        return (
            hook_witness(files, receiver.accepted, receiver.refused, receiver.heard_at),
            witness("shim", local.heard_at, local.refused),
            transcript_witness(tailer.read_at, tailer.faults, tailer.too_long),
            witness("registry", now if watch.files else 0, watch.counts),
            witness("process", now),
            witness("statusline", statusline.heard_at, statusline.outcomes),
            *(each.health(now) for each in first.own),
            *([first.usage.witness()] if first.usage else []),
            *(told for each in self.agents[1:] for told in each.health(now)),
        )

    def counts(self, spool: Spool, publisher: Publisher) -> Counts:
        receiver, local = self.receiver, self.local
        return Counts(
            hooks=receiver.accepted + local.accepted,
            refused=receiver.refused.total() + local.refused.total() + self.left_out,
            signals=sum(each.intake.accepted for each in self.agents),
            published=publisher.published,
            published_bytes=publisher.published_bytes,
            replays=publisher.replays,
            spool_bytes=spool.size,
        )

    @property
    def usages(self) -> list[UsageWitness]:
        return [each.usage for each in self.agents if each.usage]

    @property
    def left_out(self) -> int:
        """Signals whose session has no usable id."""
        return sum(each.intake.left_out for each in self.agents)

    def facts(
        self, identity: Identity, spool: Spool, publisher: Publisher, now: int
    ) -> tuple[bool, dict[str, Any]]:
        """For `/readyz`. Ready: hooks are accepted; that the broker is away is only a problem."""
        ready = spool.problem is None
        receiver, local, watch = self.receiver, self.local, self.watch
        return ready, {
            "ready": ready,
            "version": __version__,
            "host_id": identity.host_id,
            "label": identity.label,
            "problem": problem_of(spool, publisher),
            "spool": {
                "spool_id": spool.spool_id,
                "last": spool.last_seq,
                "acked": spool.acked,
                "bytes": spool.size,
                "problem": spool.problem,
            },
            "stream": {
                "incarnation": spool.incarnation,
                "sent": publisher.sent,
                "backlog": spool.last_seq - publisher.sent,
                "problem": publisher.problem,
            },
            "left_out": self.left_out,
            "hooks": {"accepted": receiver.accepted, "refused": receiver.refused},
            "shim": {"accepted": local.accepted, "refused": local.refused},
            "registry": {"files": watch.files, **watch.counts},
            "transcripts": {"files": sum(each.tailer.files for each in self.agents)},
            "witnesses": self.health(now),
        }


def problem_of(spool: Spool, publisher: Publisher) -> str | None:
    """All that is wrong with this collector, the most important first."""
    told = [spool.problem, publisher.problem, spool.notice]
    return " ".join(text for text in told if text) or None


def watch_of(
    intakes: dict[str, Intake],
    agents: Sequence[Agent],
    settings: CollectorSettings,
    spool: Spool,
    table: ProcessTable,
    now: WallClock,
) -> Watch:
    """One for all agents: whatever kind a process is of, it ends in the same way."""
    registries = {
        path: Registry(agent.registry, intakes[agent.name])
        for agent in agents
        for directory in settings.directories_of(agent)
        if (path := agent.registry_dir(directory)) is not None
    }
    return Watch(
        next(iter(intakes.values())),
        registries=registries,
        watched=watched_in(lambda: spool.state),
        table=table,
        now=now,
    )


def witnesses_of(
    intakes: dict[str, Intake],
    agents: Sequence[Agent],
    settings: CollectorSettings,
    watch: Watch,
    port: int,
    now: WallClock,
    desk: Desk | None = None,
) -> list[AgentWitnesses]:
    spool = next(iter(intakes.values())).spool
    processes = watched_in(lambda: spool.state)

    def pids() -> dict[str, int]:
        return {session: process.pid for session, process in processes().items()}

    directories = {agent: settings.directories_of(agent) for agent in agents}
    transcripts = {
        agent: agent.transcript_dirs(directories[agent], os.environ, Path.home())
        for agent in agents
    }
    found: list[AgentWitnesses] = []
    for agent in agents:
        intake = intakes[agent.name]
        tailer = Tailer(
            intake,
            agent.transcripts,
            directories=transcripts[agent],
            watched=watched_in(lambda: spool.state),
            settled=watch.settled,
            now=now,
            others=[each for other in agents if other is not agent for each in transcripts[other]],
        )
        hooks = HookFiles(agent, directories[agent], port, now())
        around = Surroundings(intake.accept, pids, watch.table.started_of, now, desk)
        own = agent.own_witnesses(directories[agent], around)
        heard = AgentWitnesses(agent, directories[agent], intake, tailer, hooks, own)
        if agent.usage is not None:
            # The default agent's ledger lies where it lay when there was no other.
            ledger = settings.state_dir / agent.name if found else settings.state_dir
            heard.usage = usage_of(heard, ledger, settings, spool, now)
        found.append(heard)
    return found


def usage_of(
    heard: AgentWitnesses,
    directory: Path,
    settings: CollectorSettings,
    spool: Spool,
    now: WallClock,
) -> UsageWitness:
    """directory: for the ledger, which is one agent's."""
    agent = heard.agent
    usage = UsageWitness(
        heard.intake,
        agent,
        directory=directory,
        lives=heard.tailer.lives,
        # before the first stream there was none that could have been lost
        reader=lambda: f"{spool.spool_id} {max(spool.incarnation, 1)}",
        now=now,
    )
    usage.named = settings.directories_of(agent)
    usage.named_by = f"{agent.variable} or {agent.setting}"
    heard.tailer.observer = usage
    return usage
