"""The collector's composition root: build all that hears of sessions and all that acts, supervise, and stop in a written order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent, Desk, OwnWitness, Surroundings
from adsum_collector.control.actions import Actions
from adsum_collector.control.consent import LiveConsent, Trail
from adsum_collector.control.feed import CommandFeed
from adsum_collector.control.policy import LivePolicy, policy_file
from adsum_collector.control.queue import PromptQueue
from adsum_collector.control.remote import HoldTimes, OwnersWord, Parties, RemoteControl
from adsum_collector.control.seats import Seats
from adsum_collector.control.suspend_verbs import SuspendVerbs
from adsum_collector.control.suspending import Suspender
from adsum_collector.delivery.publisher import Arrival, Publisher
from adsum_collector.delivery.transports import HubPlace, HubTransport, RedisTransport, Transport
from adsum_collector.errors import SpoolUnavailable, StartError
from adsum_collector.health import HookFiles, hook_witness, transcript_witness, witness
from adsum_collector.intake import HookDoor, Intake, ReportIntake
from adsum_collector.listening.local_socket import LocalSocket, Ticks
from adsum_collector.listening.receiver import Receiver, Server, server_config
from adsum_collector.listening.sockets import open_sockets
from adsum_collector.processes import ProcessTable, WatchedSessions, watched
from adsum_collector.settings import CollectorSettings
from adsum_collector.spool.spool import Spool, SpoolStatus
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_collector.state_dir import Identity, hold_lock, load_identity, token_of
from adsum_collector.transcripts.tailer import Tailer
from adsum_collector.usage.witness import UsageWitness
from adsum_collector.watch import Registry, Watch
from adsum_shared import WallClock, __version__
from adsum_shared.connect import check_url
from adsum_shared.envelope import Beat, Counts
from adsum_shared.privacy import private_as
from adsum_shared.redis_url import RedisUrlError
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
            "problem": _problem_of(spool, publisher),
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


def _problem_of(spool: Spool, publisher: Publisher) -> str | None:
    """All that is wrong with this collector, the most important first."""
    told = [spool.problem, publisher.problem, spool.notice]
    return " ".join(text for text in told if text) or None


def _watch_of(
    intakes: dict[str, Intake],
    agents: Sequence[Agent],
    settings: CollectorSettings,
    spool: Spool,
    table: ProcessTable,
    now: WallClock,
) -> Watch:
    """One for all agents: whatever kind a process is of, it ends in the same way."""
    registries = {
        path: Registry(partial(agent.registry, directory=directory), intakes[agent.name])
        for agent in agents
        for directory in settings.directories_of(agent)
        if (path := agent.registry_dir(directory)) is not None
    }
    return Watch(
        next(iter(intakes.values())),
        registries=registries,
        watched=WatchedSessions(spool),
        table=table,
        now=now,
    )


def _witnesses_of(
    intakes: dict[str, Intake],
    agents: Sequence[Agent],
    settings: CollectorSettings,
    watch: Watch,
    port: int,
    now: WallClock,
    desk: Desk | None = None,
) -> list[AgentWitnesses]:
    spool = next(iter(intakes.values())).spool
    sessions = WatchedSessions(spool)

    def pids() -> dict[str, int]:
        return {session: process.pid for session, process in sessions.look().items()}

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
            watched=sessions,
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


log = logging.getLogger(__name__)

#: How long a stop waits for the broker to take what is in the spool; the rest goes at next start.
DRAIN_S = 3.0


async def run_collector(
    settings: CollectorSettings, agents: Sequence[Agent] = (), hub: HubPlace | None = None
) -> None:
    """Runs until SIGTERM or SIGINT. Raises StartError, or what ended a vital task.

    agents: all that are known, unless they are named. hub: through which its signals go, where no Redis URL is set.
    """
    transport = _transport(settings.redis_url, hub)
    identity = load_identity(settings.state_dir, settings.host_label)
    # The doors first: what comes while the spool is still being checked waits and is not refused.
    with (
        hold_lock(settings.state_dir, settings.collector_port),
        open_sockets(settings) as (http, unix),
    ):
        async with open_spool(settings) as spool:
            port = http.getsockname()[1]
            collector = Collector(
                settings, identity, spool, agents or known_agents(), transport, port
            )
            place = transport.place
            log.info("%s: hooks on 127.0.0.1:%d, signals to %s", identity.label, port, place)
            await collector.begin()
            await collector.run(http, unix)


def _acting(
    settings: CollectorSettings,
    agents: Sequence[Agent],
    spool: Spool,
    intakes: Mapping[str, Intake],
    nonce: str,
) -> tuple[Actions, RemoteControl, SuspendVerbs]:
    """What carries out what people elsewhere want, as far as this machine's owner agreed."""
    known = {agent.name: agent for agent in agents}
    consent = LiveConsent(
        settings.state_dir,
        wall=time.time,
        timer=time.monotonic,
        allowed=settings.privacy != "metadata",
    )
    queue, policy = PromptQueue(settings.state_dir), LivePolicy(policy_file())
    registries = {
        agent.name: [
            found
            for directory in settings.directories_of(agent)
            if (found := agent.registry_dir(directory)) is not None
        ]
        for agent in agents
    }
    seats = Seats(known, registries, WatchedSessions(spool))
    actions = Actions(seats, queue, consent, now=now_ms)
    remote = RemoteControl(
        Parties(known, intakes, actions, nonce),
        OwnersWord(consent, policy),
        Trail(settings.state_dir),
        HoldTimes(settings.hold_s, settings.hold_subagent_s, settings.form_s),
        now=now_ms,
        timer=time.monotonic,
    )
    suspender = Suspender(
        settings.state_dir,
        {agent: settings.directories_of(agent) for agent in agents},
        intakes,
        now=now_ms,
        hindered=lambda session_id: (
            "a message waits for it" if queue.of(session_id) else remote.asks(session_id)
        ),
    )
    return actions, remote, SuspendVerbs(suspender, actions, consent, policy)


class Collector:
    """All parts of one collector, wired."""

    def __init__(
        self,
        settings: CollectorSettings,
        identity: Identity,
        spool: Spool,
        agents: Sequence[Agent],
        transport: Transport,
        port: int,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._transport = transport
        self._spool = spool
        self._nonce = secrets.token_hex(8)
        private = private_as(settings.privacy, identity.salt)
        self._intakes = {agent.name: Intake(spool, private, agent.name) for agent in agents}
        self._arrival = Arrival(settings.state_dir, identity, spool, self._adopt)
        self._publisher = Publisher(
            spool,
            transport,
            identity.host_id,
            nonce=self._nonce,
            beat=self._beat,
            now=time.time,
            arrival=self._arrival,
        )
        acting = _acting(settings, agents, spool, self._intakes, self._nonce)
        self._actions, self._control, self._suspending = acting
        self._reports = ReportIntake(
            settings.state_dir,
            self._intakes,
            machine=self._arrival,
            lives=lambda named: any(each.tailer.lives(named) for each in heard),
            now=now_ms,
        )
        self._feed = CommandFeed(transport, self._arrival, self._control, self._reports)
        table = ProcessTable(watched(spool.state).values())
        watch = _watch_of(self._intakes, agents, settings, spool, table, now_ms)
        heard = _witnesses_of(self._intakes, agents, settings, watch, port, now_ms, self._control)
        doors = {each.agent.name: each.door for each in heard}
        ticks = Ticks(agents[0].statusline)
        self._parts = Witnesses(
            receiver=Receiver(doors, port=port, token=token_of(settings.state_dir), status=self),
            local=LocalSocket(
                doors, ticks, table=table, now=now_ms, control=self._control, reports=self._reports
            ),
            watch=watch,
            statusline=ticks,
            agents=heard,
        )

    def _adopt(self, identity: Identity) -> None:
        self._identity = identity
        for intake in self._intakes.values():
            intake.private = private_as(self._settings.privacy, identity.salt)

    async def begin(self) -> None:
        """What has to be on disk before the first signal is."""
        try:
            await self._arrival.begin()
            await self._publisher.join()
        except SpoolUnavailable as error:
            # A spool that takes no signals either: tried again before any is sent.
            log.warning("the spool cannot be written to: %s", error)

    async def run(self, http: socket.socket, unix: socket.socket) -> None:
        """Parts live and die together. Order of a stop: doors, witnesses, stream, last heartbeat."""
        server = Server(server_config(self._parts.receiver))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn raises the signal it caught again once it has stopped; without a handler of
            # our own that would end the process before it drains.
            loop.add_signal_handler(number, lambda: None)
        async with asyncio.TaskGroup() as tasks:
            witnesses = [
                tasks.create_task(self._parts.local.serve(unix), name="local socket"),
                tasks.create_task(self._parts.watch.run(), name="watch"),
                tasks.create_task(self._control.run(), name="control"),
                tasks.create_task(self._actions.run(), name="actions"),
                tasks.create_task(self._suspending.run(), name="suspending"),
                tasks.create_task(self._feed.run(), name="commands"),
                *(tasks.create_task(each.run(), name="usage") for each in self._parts.usages),
                *(
                    tasks.create_task(own.run(), name=f"a witness of {each.agent.name}")
                    for each in self._parts.agents
                    for own in each.own
                ),
                *(
                    tasks.create_task(each.tailer.run(), name=f"tailer of {each.agent.name}")
                    for each in self._parts.agents
                ),
            ]
            publishing = tasks.create_task(self._publisher.run(), name="publisher")
            await server.serve(sockets=[http])
            for task in witnesses:
                task.cancel()
            await asyncio.wait(witnesses)
            self._publisher.drain()
            await asyncio.wait([publishing], timeout=DRAIN_S)
            publishing.cancel()
        left = self._spool.last_seq - self._publisher.sent
        log.info("stopped; %d signals wait in the spool for the next start", left)

    def facts(self) -> tuple[bool, dict[str, Any]]:
        return self._parts.facts(self._identity, self._spool, self._publisher, now_ms())

    async def spool_status(self) -> SpoolStatus:
        status = await self._spool.status()
        problem = _problem_of(self._spool, self._publisher)
        return msgspec.structs.replace(status, sent=self._publisher.sent, problem=problem)

    def _beat(self, sent: int, stopping: bool) -> Beat:  # noqa: FBT001 - the publisher's callback
        return Beat(
            host_id=self._identity.host_id,
            label=self._identity.label,
            at=now_ms(),
            nonce=self._nonce,
            spool_id=self._spool.spool_id,
            seq=self._spool.last_seq,
            sent=sent,
            version=__version__,
            agent_version=self._parts.watch.agent_version,
            fingerprint=self._identity.fingerprint,
            stopping=stopping,
            problem=_problem_of(self._spool, self._publisher),
            witnesses=self._parts.health(now_ms()),
            scan=next(filter(None, (each.progress for each in self._parts.usages)), None),
            counts=self._parts.counts(self._spool, self._publisher),
            via=self._transport.via,
            agents=tuple(each.agent.words for each in self._parts.agents),
            control=self._control.level,
            commands_problem=self._feed.problem,
            report_key=self._reports.public,
        )


@contextlib.asynccontextmanager
async def open_spool(settings: CollectorSettings) -> AsyncIterator[Spool]:
    limits = SpoolLimits.of(settings.spool_cap_mb << 20, settings.spool_retention_h * 3600)
    spool = await Spool.open(settings.state_dir / "spool", limits)
    try:
        yield spool
    finally:
        await spool.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _transport(url: str | None, hub: HubPlace | None) -> Transport:
    if not url and hub is not None:
        return HubTransport(hub)
    if not url:
        raise StartError(
            "No Redis URL. Set ADSUM_REDIS_URL, or run `adsum up`, which brings a broker."
        )
    try:
        check_url(url)
    except RedisUrlError as error:
        raise StartError(str(error)) from None
    return RedisTransport(url)
