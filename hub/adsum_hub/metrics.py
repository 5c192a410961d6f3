"""Serves `/livez`, `/readyz` and `/metrics`: the hub's health and what it measures.

Each machine has series of its own, up to a limit; no session, project or person is ever a label.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

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
from adsum_hub.measures import NEEDS, REASONS, Histogram, Measures, need_of
from adsum_hub.notify.notifier import Notifications
from adsum_hub.rest.api import as_json, endpoint
from adsum_hub.roster import Roster
from adsum_hub.trouble import Link
from adsum_shared import __version__
from adsum_shared.state import Group, SessionView

#: Sessions counted in one go.
SLICE = 1_000
REFUSALS = ("login", "pass", "role")
#: A label's values live in Prometheus for weeks. Machines beyond these are counted, not named.
MOST_HOSTS = 500
MOST_SIGNS = 100
REACH = ("live", "late", "offline")
LABELS = ("host", "host_id")
_COUNTS = (
    ("adsum_signals_applied", "Signals folded into the list.", "signals"),
    ("adsum_replays_asked", "Replays this hub has asked collectors for.", "replays"),
    ("adsum_set_aside", "Entries and signals that could not be used.", "set_aside"),
    ("adsum_snapshot_conflicts", "Snapshots that another hub had written first.", "conflicts"),
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
        self._roster = roster
        self._broadcast = broadcast
        self._link = link
        self._clock = clock
        self._notifications = notifications
        self._signing = signing
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

        @endpoint(router, "GET /readyz", "The roster is being kept")
        async def readyz(request: Request) -> Readiness | Response:
            found = self.readiness()
            told = Ready(found.ready) if STRANGER in request.scope else found
            return as_json(told, 200 if found.ready else 503)

        @router.get("/metrics", summary="For Prometheus", response_class=Response)
        async def metrics() -> Response:
            async with self._scrape:
                return Response(await self.exposition(), media_type=CONTENT)

        return router

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
        counts = await _sessions(self._roster, self._clock())
        found = list(self._process.collect())
        for family in self._families(counts):
            found.append(family)
            await asyncio.sleep(0)
        registry = CollectorRegistry()
        registry.register(_Families(found))
        return await asyncio.to_thread(generate_latest, registry)

    def _families(self, counts: _SessionCounts) -> Iterator[Metric]:
        hosts, measures = self._roster.hosts.values(), self._roster.measures
        yield from self._of_hub()
        yield from _of_measures(measures)
        yield from _of_sessions(counts)
        yield GaugeMetricFamily(
            "adsum_snapshot_behind_seconds",
            "For how long a machine's state has waited to be saved, as scrapes have seen it.",
            value=self.unsaved.look(hosts, self._clock()) / 1000,
        )
        yield from _of_notifications(self._notifications)
        refused = {} if self._signing is None else self._signing.authenticator.refused
        yield _counters(
            "adsum_sign_in_failures",
            "Refused logins, passes (a cookie or token that is not good) and roles.",
            "what",
            {each: refused.get(each, 0) for each in REFUSALS},
        )
        yield from families_of_hosts(hosts, measures.gaps_of_hosts)

    def _of_hub(self) -> Iterator[Metric]:
        link, broadcast, now = self._link, self._broadcast, self._clock()
        blind = link.is_blind(now)
        yield InfoMetricFamily("adsum_build", "This hub's version.", {"version": __version__})
        gauges: dict[str, tuple[str, float]] = {
            "adsum_ready": ("1: the list is kept.", not blind and not broadcast.restoring),
            "adsum_redis_up": ("1: Redis is being read.", not blind),
            "adsum_websocket_clients": ("Pages and watchers connected.", broadcast.clients),
        }
        if link.read_at:
            lag = (now - link.read_at) / 1000
            gauges["adsum_consumer_lag_seconds"] = ("Since Redis was last read; idle: 0.5.", lag)
        for name, (help, value) in gauges.items():
            yield GaugeMetricFamily(name, help, value=value)
        counters = {name: (help, self._roster.counts[key]) for name, help, key in _COUNTS}
        counters["adsum_redis_connects"] = ("Times that reading began.", link.connects)
        for name, (help, value) in counters.items():
            yield CounterMetricFamily(name, help, value=value)


class _SessionCounts(NamedTuple):
    """groups: sessions in each. oldest: the longest wait in seconds, by state that needs somebody."""

    groups: Counter[str]
    oldest: dict[str, float]

    def add(self, view: SessionView, now: int) -> None:
        if view.reachability == "offline":  # whoever waits there, nobody can do anything for it
            self.groups["offline"] += 1
            return
        state = view.state
        self.groups[state.group] += 1
        if state.group is Group.NEEDS_YOU:
            need = need_of(state.state)
            self.oldest[need] = max(self.oldest[need], (now - state.since) / 1000)


class Unsaved:
    """Since which scrape each machine's state has waited to be saved. Saving has to note nothing."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, int]] = {}

    def look(self, hosts: Iterable[Host], now: int) -> int:
        """The longest wait, ms. A version that has been written meanwhile ends it."""
        due = {
            host.id: host.saved.version
            for host in hosts
            if host.saved.is_due(host.applied, host.cursor)
        }
        before, self._since = self._since, {}
        for key, version in due.items():
            known = before.get(key)
            began = known[1] if known is not None and known[0] == version else now
            self._since[key] = version, began
        return max((now - began for _, began in self._since.values()), default=0)


async def _sessions(roster: Roster, now: int) -> _SessionCounts:
    found = _SessionCounts(Counter(), dict.fromkeys(NEEDS, 0.0))
    views = list(roster.views.values())
    for start in range(0, len(views), SLICE):
        for view in views[start : start + SLICE]:
            found.add(view, now)
        await asyncio.sleep(0)
    return found


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

    def describe(self) -> Iterable[Metric]:
        return ()  # else it is collected once more, to learn the names


def _of_measures(measures: Measures) -> Iterator[Metric]:
    yield _histogram(
        "adsum_hook_to_browser_seconds",
        "From a hook's being taken to a client's being sent it; per client and message, the oldest.",
        {"": measures.to_browser},
    )
    yield _histogram(
        "adsum_hook_to_hub_seconds",
        "From a hook's being taken to its being in the list.",
        {"": measures.to_hub},
    )
    yield _histogram(
        "adsum_time_to_human_seconds",
        "From when a session began to need somebody to when it did no more.",
        measures.to_human,
        "state",
    )
    gaps = {reason: measures.gaps[reason] for reason in REASONS}
    yield _counters("adsum_gaps", "Batches that told of signals lost for good.", "reason", gaps)


def _of_sessions(counts: _SessionCounts) -> Iterator[Metric]:
    groups = {group: counts.groups[group] for group in (*Group, "offline")}
    yield _gauges(
        "adsum_sessions", "By group; offline: those of machines out of reach.", "group", groups
    )
    yield _gauges(
        "adsum_needs_you_oldest_seconds",
        "How long the session has waited that has waited longest; 0: none does.",
        "state",
        counts.oldest,
    )


def _of_notifications(notifications: Notifications | None) -> Iterator[Metric]:
    if notifications is None:
        return
    notifier = notifications.notifier
    senders = notifier.senders
    for what, help in (
        ("sent", "Messages told."),
        ("failed", "Attempts that failed."),
        ("dropped", "Messages given up, or left out as too many."),
    ):
        values = {name: getattr(each.health, what) for name, each in senders.items()}
        yield _counters(f"adsum_notifications_{what}", help, "channel", values)
    failing = {name: each.health.in_row for name, each in senders.items()}
    yield _gauges(
        "adsum_notifications_failing", "Failures in a row, as of now.", "channel", failing
    )
    waiting = {each.name: notifier.pending.waiting(each.name) for each in notifier.config.channels}
    yield _gauges("adsum_notifications_waiting", "Cases to be told yet.", "channel", waiting)


class _HostGauge(NamedTuple):
    """of: its value for a machine; None where that is not known."""

    name: str
    help: str
    of: Callable[[Host], float | None]


def _backlog(host: Host) -> float | None:
    if host.beat is None:
        return None
    return max(0, host.beat.seq - host.applied.get(host.beat.spool_id, 0))


GAUGES = (
    _HostGauge("adsum_host_up", "1: heard lately.", lambda host: host.reachability == "live"),
    _HostGauge("adsum_host_sessions", "Sessions listed of it.", lambda host: len(host.verdicts)),
    _HostGauge(
        "adsum_host_backlog_signals", "Signals on its disk that are not in the list yet.", _backlog
    ),
    _HostGauge(
        "adsum_host_clock_offset_seconds",
        "Its clock minus the hub's.",
        lambda host: host.clock.latest_ms / 1000,
    ),
    _HostGauge(
        "adsum_host_lag_seconds",
        "How long its newest batch was under way.",
        lambda host: None if host.lag_ms is None else host.lag_ms / 1000,
    ),
    _HostGauge(
        "adsum_host_last_seen_timestamp_seconds",
        "When it was last heard.",
        lambda host: host.clock.last_seen / 1000,
    ),
)

#: Field of Counts -> name, what it is.
COLLECTOR_COUNTERS = {
    "hooks": ("adsum_collector_hooks", "Hooks taken."),
    "refused": ("adsum_collector_hooks_refused", "Requests refused, hooks and others."),
    "signals": ("adsum_collector_signals_spooled", "Signals put into the spool."),
    "published": ("adsum_collector_signals_published", "Signals sent, replayed ones again."),
    "published_bytes": ("adsum_collector_published_bytes", "Bytes of the signals sent."),
    "replays": ("adsum_collector_replays", "Replays begun because a hub asked."),
}


def families_of_hosts(hosts: Iterable[Host], gaps: Mapping[str, int]) -> Iterator[Metric]:
    """gaps: host id -> how many. The machines heard last have series of their own."""
    every = sorted(hosts, key=lambda host: -host.clock.last_seen)
    named = {host.id: (host.label[:MOST_SIGNS], host.id) for host in every[:MOST_HOSTS]}
    reach = GaugeMetricFamily("adsum_hosts", "Machines known.", labels=["reachability"])
    for kind in REACH:
        reach.add_metric([kind], sum(host.reachability == kind for host in every))
    yield reach
    yield GaugeMetricFamily(
        "adsum_hosts_unnamed",
        f"Machines beyond the {MOST_HOSTS} that have series of their own.",
        value=len(every) - len(named),
    )
    shown = every[:MOST_HOSTS]
    for about in GAUGES:
        gauge = GaugeMetricFamily(about.name, about.help, labels=LABELS)
        for host in shown:
            value = about.of(host)
            if value is not None:
                gauge.add_metric(named[host.id], value)
        yield gauge
    lost = CounterMetricFamily("adsum_host_gaps", "Its batches that told of gaps.", labels=LABELS)
    for host in shown:
        lost.add_metric(named[host.id], gaps.get(host.id, 0))
    yield lost
    yield from _of_collectors(shown, named)


def _of_collectors(shown: Iterable[Host], named: Mapping[str, tuple[str, str]]) -> Iterator[Metric]:
    """As of their last heartbeats; nothing for a collector that is older than these counts."""
    told = [
        (named[host.id], host.beat.counts)
        for host in shown
        if host.beat is not None and host.beat.counts is not None
    ]
    for field, (name, words) in COLLECTOR_COUNTERS.items():
        counter = CounterMetricFamily(name, words, labels=LABELS)
        for labels, counts in told:
            counter.add_metric(labels, getattr(counts, field))
        yield counter
    spool = GaugeMetricFamily("adsum_collector_spool_bytes", "Disk the spool takes.", labels=LABELS)
    for labels, counts in told:
        spool.add_metric(labels, counts.spool_bytes)
    yield spool


def _gauges(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, help, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family


def _counters(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, help, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family


def _histogram(
    name: str, help: str, histograms: Mapping[str, Histogram], label: str | None = None
) -> Metric:
    family = HistogramMetricFamily(name, help, labels=[label] if label else [])
    for value, histogram in histograms.items():
        buckets, total = [], 0
        bounds = [*map(str, histogram.bounds), "+Inf"]
        for bound, count in zip(bounds, histogram.counts, strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric([value] if label else [], buckets, histogram.sum)
    return family
