"""The families that `/metrics` is made of as OpenTelemetry's data: same names, labels and values. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family
from prometheus_client.samples import Sample

from adsum_shared import __version__

#: What OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE asks for is not looked at: with deltas a
#: missed export would be lost for good.
CUMULATIVE = AggregationTemporality.CUMULATIVE
SCOPE = InstrumentationScope("adsum_hub", __version__)
#: These count from their collector's start, which the hub does not know: 0, as OTLP has it.
OF_COLLECTORS = "adsum_collector_"
UNKNOWN = 0


def metrics_data(
    families: Iterable[Family], resource: Resource, start: int, now: int
) -> MetricsData:
    """start: since when the hub counts. Both in ns."""
    start = min(start, now)  # a clock that was set back
    metrics = [metric for family in families for metric in _metrics(family, start, now)]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(SCOPE, metrics, "")], "")])


def _metrics(family: Family, start: int, now: int) -> Iterator[Metric]:
    """No unit: who makes Prometheus's names of these again would put it behind them."""
    if family.name.startswith(OF_COLLECTORS):
        start = UNKNOWN
    if family.type == "histogram":
        histogram = Histogram(list(_distributions(family.samples, start, now)), CUMULATIVE)
        if histogram.data_points:
            yield Metric(family.name, family.documentation, "", histogram)
        return
    points: defaultdict[str, list[NumberDataPoint]] = defaultdict(list)
    for sample in family.samples:
        # Always a float: a series that changes between the two kinds is two for some.
        value = float(sample.value)
        points[sample.name].append(NumberDataPoint(sample.labels, start, now, value))
    for name, found in points.items():
        counts = family.type == "counter"
        data = Sum(found, CUMULATIVE, is_monotonic=True) if counts else Gauge(found)
        yield Metric(name, family.documentation, "", data)


def _distributions(samples: Iterable[Sample], start: int, now: int) -> Iterator[HistogramDataPoint]:
    """Prometheus's buckets hold all below them too; those here only their own."""
    buckets: defaultdict[tuple[tuple[str, str], ...], list[Sample]] = defaultdict(list)
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in samples:
        key = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        if sample.name.endswith("_bucket"):
            buckets[key].append(sample)
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    for key, found in buckets.items():
        below = [int(sample.value) for sample in found]
        yield HistogramDataPoint(
            dict(key),
            start,
            now,
            count=below[-1],
            sum=sums[key],
            bucket_counts=[after - before for before, after in pairwise([0, *below])],
            explicit_bounds=[float(sample.labels["le"]) for sample in found[:-1]],
            min=None,  # type: ignore[arg-type]  # both may be left out, says OTLP; nobody notes them
            max=None,  # type: ignore[arg-type]  # as above
        )
