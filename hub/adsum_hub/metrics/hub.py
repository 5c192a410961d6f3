"""What `/metrics` says of the hub itself: its list, its way to Redis, whom it tells and lets in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from adsum_hub.auth.signing import Signing
from adsum_hub.host import Host
from adsum_hub.link import Link
from adsum_hub.metrics.hosts import families_of_hosts
from adsum_hub.metrics.measured import REASONS, Histogram, MeasuredBroadcast, need_of
from adsum_hub.notify.notifications import Notifications
from adsum_hub.roster import Roster
from adsum_hub.trouble import is_blind
from adsum_shared import __version__
from adsum_shared.state import Group, SessionView

REFUSALS = ("login", "pass", "role")


@dataclass(frozen=True)
class Asked:
    """Whom `/metrics` asks. signing: None where nobody has to sign in."""

    roster: Roster
    broadcast: MeasuredBroadcast
    link: Link
    notifications: Notifications | None = None
    signing: Signing | None = None


def families_of(asked: Asked, unsaved: Unsaved, sessions: Sessions) -> Iterator[Metric]:
    broadcast, hosts = asked.broadcast, asked.roster.hosts
    now = broadcast.measures.clock()
    yield from _of_hub(asked, now)
    yield from _measured(broadcast)
    yield from _of_sessions(sessions)
    yield _gauge(
        "adsum_snapshot_behind_seconds",
        "For how long a machine's state has waited to be saved, as scrapes have seen it.",
        unsaved.look(hosts.values(), now) / 1000,
    )
    yield from _of_notifications(asked.notifications)
    refused = {} if asked.signing is None else asked.signing.keeper.refused
    yield _counters(
        "adsum_sign_in_failures",
        "Refused logins, passes (a cookie or token that is not good) and roles.",
        "what",
        {each: refused.get(each, 0) for each in REFUSALS},
    )
    yield from families_of_hosts(hosts.values(), broadcast.measures.gaps_of_hosts)


class Sessions(NamedTuple):
    """groups: how many. oldest: by state that needs somebody, the longest wait, seconds."""

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
    """Whose state is not saved, and since which scrape. Nothing has to be noted when it is saved."""

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


def _of_hub(asked: Asked, now: int) -> Iterator[Metric]:
    link, broadcast, counts = asked.link, asked.broadcast, asked.roster.counts
    blind = is_blind(link, now)
    yield InfoMetricFamily("adsum_build", "This hub's version.", {"version": __version__})
    yield _gauge("adsum_ready", "1: the list is kept.", int(not blind and not broadcast.restoring))
    yield _gauge("adsum_redis_up", "1: Redis is being read.", int(not blind))
    yield _counter("adsum_redis_connects", "Times that reading began.", link.connects)
    if link.read_at:
        lag = (now - link.read_at) / 1000
        yield _gauge("adsum_consumer_lag_seconds", "Since Redis was last read; idle: 0.5.", lag)
    yield _gauge("adsum_websocket_clients", "Pages and watchers connected.", broadcast.clients)
    for name, told, key in _COUNTS:
        yield _counter(name, told, counts[key])


_COUNTS = (
    ("adsum_signals_applied", "Signals folded into the list.", "signals"),
    ("adsum_replays_asked", "Replays this hub has asked collectors for.", "replays"),
    ("adsum_set_aside", "Entries and signals that could not be used.", "set_aside"),
    ("adsum_snapshot_conflicts", "Snapshots that another hub had written first.", "conflicts"),
)


def _measured(broadcast: MeasuredBroadcast) -> Iterator[Metric]:
    measures = broadcast.measures
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


def _of_sessions(sessions: Sessions) -> Iterator[Metric]:
    groups = {group: sessions.groups[group] for group in (*Group, "offline")}
    yield _gauges(
        "adsum_sessions", "By group; offline: those of machines out of reach.", "group", groups
    )
    yield _gauges(
        "adsum_needs_you_oldest_seconds",
        "How long the session has waited that has waited longest; 0: none does.",
        "state",
        sessions.oldest,
    )


def _of_notifications(notifications: Notifications | None) -> Iterator[Metric]:
    if notifications is None:
        return
    notifier = notifications.notifier
    speakers = notifier.speakers
    for what, told in (
        ("sent", "Messages told."),
        ("failed", "Attempts that failed."),
        ("dropped", "Messages given up, or left out as too many."),
    ):
        values = {name: getattr(each.health, what) for name, each in speakers.items()}
        yield _counters(f"adsum_notifications_{what}", told, "channel", values)
    failing = {name: each.health.in_row for name, each in speakers.items()}
    yield _gauges(
        "adsum_notifications_failing", "Failures in a row, as of now.", "channel", failing
    )
    waiting = {each.name: notifier.pending.waiting(each.name) for each in notifier.config.channels}
    yield _gauges("adsum_notifications_waiting", "Cases to be told yet.", "channel", waiting)


def _gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value=value)


def _counter(name: str, told: str, value: float) -> Metric:
    return CounterMetricFamily(name, told, value=value)


def _gauges(name: str, told: str, label: str, values: Mapping[str, float]) -> Metric:
    return _labelled(GaugeMetricFamily(name, told, labels=[label]), values)


def _counters(name: str, told: str, label: str, values: Mapping[str, float]) -> Metric:
    return _labelled(CounterMetricFamily(name, told, labels=[label]), values)


def _labelled(
    family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, float]
) -> Metric:
    add: Callable[[list[str], float], None] = family.add_metric
    for label, value in values.items():
        add([label], value)
    return family


def _histogram(
    name: str, told: str, histograms: Mapping[str, Histogram], label: str | None = None
) -> Metric:
    family = HistogramMetricFamily(name, told, labels=[label] if label else [])
    for value, histogram in histograms.items():
        buckets, total = [], 0
        bounds = [*map(str, histogram.bounds), "+Inf"]
        for bound, count in zip(bounds, histogram.counts, strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric([value] if label else [], buckets, histogram.sum)
    return family
