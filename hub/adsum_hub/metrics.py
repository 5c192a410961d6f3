"""Serves `/livez`, `/readyz` and `/metrics`: the hub's health and what it measures.

Each machine has series of its own, up to a limit; and each agent; no session, project or person is ever a label.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from adsum_hub.auth.gate import STRANGER
from adsum_hub.auth.sign_in import CredentialIssuer
from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.notify.notifications import Notifications
from adsum_hub.observed import NEEDS, REASONS, Histogram, need_of
from adsum_hub.rest.api import add_endpoints, as_json, endpoint
from adsum_hub.roster import Roster
from adsum_hub.trouble import Link
from adsum_shared import __version__
from adsum_shared.signals import DEFAULT_AGENT
from adsum_shared.state import Group

#: Sessions counted in one go.
SLICE = 1_000
REFUSALS = ("login", "pass", "role")
#: A label's values live in Prometheus for weeks. Machines beyond these are counted, not named.
MOST_HOSTS = 500
MOST_SIGNS = 100
MOST_AGENTS = 10
OTHER_AGENTS = "other"
REACH = ("live", "late", "offline")
LABELS = ("host", "host_id")
GAUGE, COUNTER = GaugeMetricFamily, CounterMetricFamily
_COUNTS = (
    ("adsum_signals_applied", "Signals folded into the list.", "signals"),
    ("adsum_replays_asked", "Replays this hub has asked collectors for.", "replays"),
    ("adsum_set_aside", "Entries and signals that could not be used.", "set_aside"),
    ("adsum_snapshot_conflicts", "Snapshots that another hub had written first.", "conflicts"),
)
_NOTIFICATIONS = (
    (COUNTER, "sent", "Messages told."),
    (COUNTER, "failed", "Attempts that failed."),
    (COUNTER, "dropped", "Messages given up, or left out as too many."),
    (GAUGE, "in_row", "Failures in a row, as of now."),
)


class Ready(msgspec.Struct):
    """All that `/readyz` tells whoever has not signed in, where people have to."""

    ready: bool


class Readiness(msgspec.Struct):
    """ready: the list is as true as what the machines report; not while Redis cannot be read.

    lag_ms: since Redis was last read. problem: sentences for people; one may be there although the
    list is true, such as that Redis takes no writes. backlog: signals of all machines, known of by
    their heartbeats, that are not part of the list yet. counts: since this hub started.
    """

    ready: bool
    lag_ms: int | None
    problem: str | None
    backlog: int
    hosts: int
    sessions: int
    clients: int
    counts: dict[str, int]


class HubHealth:
    """What the three are asked about. signing: None where nobody has to sign in."""

    def __init__(
        self,
        roster: Roster,
        broadcast: Broadcast,
        link: Link,
        clock: Clock,
        notifications: Notifications | None = None,
        signing: CredentialIssuer | None = None,
    ) -> None:
        self._roster, self._broadcast, self._link, self._clock = roster, broadcast, link, clock
        self._notifications, self._signing = notifications, signing
        self.unsaved = Unsaved()
        self._scrape = asyncio.Lock()
        #: what Prometheus's own library knows of this process
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)

    def router(self) -> APIRouter:
        """Whoever may read the list may read `/metrics`: a token of the role viewer will do."""
        router = APIRouter(tags=["health"])

        @router.get("/livez", summary="The process answers")
        async def livez() -> Response:
            return Response("ok", media_type="text/plain")

        add_endpoints(router, self)

        @router.get("/metrics", summary="For Prometheus", response_class=Response)
        async def metrics() -> Response:
            async with self._scrape:
                return Response(await self.exposition(), media_type=CONTENT)

        return router

    @endpoint("GET /readyz", "The roster is being kept")
    async def readyz(self, request: Request) -> Readiness | Response:
        found = self.readiness()
        told = Ready(found.ready) if STRANGER in request.scope else found
        return as_json(told, 200 if found.ready else 503)

    def readiness(self) -> Readiness:
        roster, broadcast, now = self._roster, self._broadcast, self._clock()
        blind, told = self._link.blindness(now, now), broadcast.trouble
        # What was told of reading may be over since; the rest is not looked at anew here.
        trouble = blind or (told if told is not None and not told.blind else None)
        problem = trouble.problem if trouble else None
        if problem is None and broadcast.restoring:
            problem = f"The list is being restored: {len(roster.views)} sessions so far."
        return Readiness(
            ready=blind is None and not broadcast.restoring,
            lag_ms=now - self._link.read_at if self._link.read_at else None,
            problem=problem,
            backlog=sum(host.backlog for host in roster.all_hosts()),
            hosts=len(roster.hosts),
            sessions=len(roster.views),
            clients=broadcast.clients,
            counts=dict(roster.counts),
        )

    async def exposition(self) -> bytes:
        """With 100,000 sessions this takes 0.2 s, so other tasks get turns in between.

        Only the text is made in a thread: the roster may be read on the event loop alone.
        """
        groups, oldest = await _count_sessions(self._roster, self._clock())
        found = _Families(self._process.collect())
        for family in self._families(groups, oldest):
            found.append(family)
            await asyncio.sleep(0)
        return await asyncio.to_thread(generate_latest, found)

    def _families(
        self, groups: Counter[tuple[str, str]], oldest: dict[str, float]
    ) -> Iterator[Metric]:
        roster, link, broadcast, now = self._roster, self._link, self._broadcast, self._clock()
        measures, blind = roster.measures, link.is_blind(now)
        hosts = roster.hosts.values()
        yield InfoMetricFamily("adsum_build", "This hub's version.", {"version": __version__})
        ready = not blind and not broadcast.restoring
        yield GAUGE("adsum_ready", "1: the list is kept.", ready)
        yield GAUGE("adsum_redis_up", "1: Redis is being read.", not blind)
        yield GAUGE("adsum_websocket_clients", "Pages and watchers connected.", broadcast.clients)
        if link.read_at:
            lag, help = (now - link.read_at) / 1000, "Since Redis was last read; idle: 0.5."
            yield GAUGE("adsum_consumer_lag_seconds", help, lag)
        for name, help, key in _COUNTS:
            yield COUNTER(name, help, roster.counts[key])
        yield COUNTER("adsum_redis_connects", "Times that reading began.", link.connects)
        help = "From a hook's being taken to a client's being sent it; per client and message, the oldest."
        yield _histogram("adsum_hook_to_browser_seconds", help, {"": measures.to_browser}, [])
        help = "From a hook's being taken to its being in the list."
        yield _histogram("adsum_hook_to_hub_seconds", help, {"": measures.to_hub}, [])
        help = "From when a session began to need somebody to when it did no more."
        yield _histogram("adsum_time_to_human_seconds", help, measures.to_human, ["state"])
        gaps = {reason: measures.gaps[reason] for reason in REASONS}
        help = "Batches that told of signals lost for good."
        yield _family(COUNTER, "adsum_gaps", help, ["reason"], gaps)
        help = "By group; offline: those of machines out of reach."
        yield _family(GAUGE, "adsum_sessions", help, ["group", "agent"], by_agent(groups))
        help = "How long the session has waited that has waited longest; 0: none does."
        yield _family(GAUGE, "adsum_needs_you_oldest_seconds", help, ["state"], oldest)
        help = "For how long a machine's state has waited to be saved, as scrapes have seen it."
        unsaved = self.unsaved.look(hosts, now) / 1000
        yield GAUGE("adsum_snapshot_behind_seconds", help, unsaved)
        yield from _of_notifications(self._notifications)
        refused = {} if self._signing is None else self._signing.authenticator.refused
        help = "Refused logins, passes (a cookie or token that is not good) and roles."
        failures = {each: refused.get(each, 0) for each in REFUSALS}
        yield _family(COUNTER, "adsum_sign_in_failures", help, ["what"], failures)
        yield from families_of_hosts(hosts, measures.gaps_of_hosts)


class _Families(list[Metric], Collector):
    """What `generate_latest` takes for a registry."""

    def collect(self) -> Iterable[Metric]:
        return self


class Unsaved:
    """Since which scrape each machine's state has waited to be saved. Saving has to note nothing."""

    def __init__(self) -> None:
        #: host id and version -> when
        self._since: dict[tuple[str, int], int] = {}

    def look(self, hosts: Iterable[Host], now: int) -> int:
        """The longest wait, ms. A version that has been written meanwhile ends it."""
        due = [
            (host.id, host.saved.version)
            for host in hosts
            if host.saved.is_due(host.applied, host.cursor)
        ]
        self._since = {key: self._since.get(key, now) for key in due}
        return now - min(self._since.values(), default=now)


async def _count_sessions(
    roster: Roster, now: int
) -> tuple[Counter[tuple[str, str]], dict[str, float]]:
    """Sessions by group and agent; and the longest wait in seconds, by state that needs somebody."""
    groups: Counter[tuple[str, str]] = Counter()
    oldest = dict.fromkeys(NEEDS, 0.0)
    for number, view in enumerate(list(roster.views.values()), 1):
        state = view.state
        if view.reachability == "offline":  # whoever waits there, nobody can do anything for it
            groups["offline", view.agent] += 1
        else:
            groups[state.group, view.agent] += 1
            if state.group is Group.NEEDS_YOU:
                need = need_of(state.state)
                oldest[need] = max(oldest[need], (now - state.since) / 1000)
        if number % SLICE == 0:
            await asyncio.sleep(0)
    return groups, oldest


def by_agent(groups: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Of each agent all groups, those without sessions too. A signal may call an agent anything."""
    counts = Counter(agent for _, agent in groups)
    named = [agent for agent, _ in counts.most_common(MOST_AGENTS)] or [DEFAULT_AGENT]
    found = {(group, agent): 0 for agent in named for group in (*Group, "offline")}
    for (group, agent), count in groups.items():
        key = group, agent if agent in named else OTHER_AGENTS
        found[key] = found.get(key, 0) + count
    return found


def _of_notifications(notifications: Notifications | None) -> Iterator[Metric]:
    if notifications is None:
        return
    notifier = notifications.notifier
    healths = {name: each.health for name, each in notifier.senders.items()}
    waiting = {each.name: notifier.pending.waiting(each.name) for each in notifier.config.channels}
    for kind, what, help in _NOTIFICATIONS:
        values = {name: getattr(health, what) for name, health in healths.items()}
        name = f"adsum_notifications_{'failing' if what == 'in_row' else what}"
        yield _family(kind, name, help, ["channel"], values)
    help = "Cases to be told yet."
    yield _family(GAUGE, "adsum_notifications_waiting", help, ["channel"], waiting)


def _backlog(host: Host) -> float | None:
    if host.beat is None:
        return None
    return max(0, host.beat.seq - host.applied.get(host.beat.spool_id, 0))


#: Name, what it is, its value for a machine; None where that is not known.
_OF_HOST: tuple[tuple[str, str, Callable[[Host], float | None]], ...] = (
    ("adsum_host_up", "1: heard lately.", lambda host: host.reachability == "live"),
    ("adsum_host_sessions", "Sessions listed of it.", lambda host: len(host.verdicts)),
    ("adsum_host_backlog_signals", "Signals on its disk that are not in the list yet.", _backlog),
    (
        "adsum_host_clock_offset_seconds",
        "Its clock minus the hub's.",
        lambda host: host.clock.latest_ms / 1000,
    ),
    (
        "adsum_host_lag_seconds",
        "How long its newest batch was under way.",
        lambda host: None if host.lag_ms is None else host.lag_ms / 1000,
    ),
    (
        "adsum_host_last_seen_timestamp_seconds",
        "When it was last heard.",
        lambda host: host.clock.last_seen / 1000,
    ),
)

#: Field of Counts, name, what it is.
_OF_COLLECTOR = (
    (COUNTER, "hooks", "adsum_collector_hooks", "Hooks taken."),
    (COUNTER, "refused", "adsum_collector_hooks_refused", "Requests refused, hooks and others."),
    (COUNTER, "signals", "adsum_collector_signals_spooled", "Signals put into the spool."),
    (
        COUNTER,
        "published",
        "adsum_collector_signals_published",
        "Signals sent, replayed ones again.",
    ),
    (COUNTER, "published_bytes", "adsum_collector_published_bytes", "Bytes of the signals sent."),
    (COUNTER, "replays", "adsum_collector_replays", "Replays begun because a hub asked."),
    (GAUGE, "spool_bytes", "adsum_collector_spool_bytes", "Disk the spool takes."),
)


def families_of_hosts(hosts: Iterable[Host], gaps: Mapping[str, int]) -> Iterator[Metric]:
    """gaps: host id -> how many. The machines heard last have series of their own."""
    every = sorted(hosts, key=lambda host: -host.clock.last_seen)
    shown = {(host.label[:MOST_SIGNS], host.id): host for host in every[:MOST_HOSTS]}
    reached = Counter[str](host.reachability for host in every)
    reach = {kind: reached[kind] for kind in REACH}
    yield _family(GAUGE, "adsum_hosts", "Machines known.", ["reachability"], reach)
    help = f"Machines beyond the {MOST_HOSTS} that have series of their own."
    yield GAUGE("adsum_hosts_unnamed", help, len(every) - len(shown))
    for name, help, of in _OF_HOST:
        yield _family(GAUGE, name, help, LABELS, {key: of(host) for key, host in shown.items()})
    lost = {key: gaps.get(host.id, 0) for key, host in shown.items()}
    yield _family(COUNTER, "adsum_host_gaps", "Its batches that told of gaps.", LABELS, lost)
    # As of their last heartbeats; nothing for a collector that is older than these counts.
    told = {key: host.beat.counts for key, host in shown.items() if host.beat and host.beat.counts}
    for kind, field, name, help in _OF_COLLECTOR:
        counts = {key: getattr(each, field) for key, each in told.items()}
        yield _family(kind, name, help, LABELS, counts)


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    help: str,
    labels: Sequence[str],
    values: Mapping[Any, float | None],
) -> Metric:
    """values: by the value of the label, or by those of the labels; None is left out."""
    family = kind(name, help, labels=labels)
    for key, value in values.items():
        if value is not None:
            family.add_metric([key] if len(labels) == 1 else key, value)
    return family


def _histogram(
    name: str, help: str, histograms: Mapping[str, Histogram], labels: Sequence[str]
) -> Metric:
    family = HistogramMetricFamily(name, help, labels=labels)
    for value, histogram in histograms.items():
        bounds = [*map(str, histogram.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
        family.add_metric([value] if labels else [], buckets, histogram.sum)
    return family
