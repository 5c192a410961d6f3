"""What `/metrics` says of each machine, for so many of them: a label for each, for no session ever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from adsum_hub.host import Host

#: A label's values live in Prometheus for weeks. Machines beyond these are counted, not named.
MOST_HOSTS = 500
MOST_SIGNS = 100
REACH = ("live", "late", "offline")
LABELS = ("host", "host_id")


class _About(NamedTuple):
    """of: None where it is not known of that machine."""

    name: str
    told: str
    of: Callable[[Host], float | None]


def _backlog(host: Host) -> float | None:
    if host.beat is None:
        return None
    return max(0, host.beat.seq - host.applied.get(host.beat.spool_id, 0))


GAUGES = (
    _About("adsum_host_up", "1: heard lately.", lambda host: host.reachability == "live"),
    _About("adsum_host_sessions", "Sessions listed of it.", lambda host: len(host.states)),
    _About(
        "adsum_host_backlog_signals", "Signals on its disk that are not in the list yet.", _backlog
    ),
    _About(
        "adsum_host_clock_offset_seconds",
        "Its clock minus the hub's.",
        lambda host: host.clock.latest_ms / 1000,
    ),
    _About(
        "adsum_host_lag_seconds",
        "How long its newest batch was under way.",
        lambda host: None if host.lag_ms is None else host.lag_ms / 1000,
    ),
    _About(
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
    """gaps: host id -> how many. Who is named: those heard last."""
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
        gauge = GaugeMetricFamily(about.name, about.told, labels=LABELS)
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
    """As their heartbeats told last; nothing of a collector that is older than these counts."""
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
