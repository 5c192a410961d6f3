"""What a real hub sends by OTLP, against what its `/metrics` shows; its OTLP receiver fails first."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    HistogramDataPoint,
    Metric,
)

from tests.hub_processes import AgentCollector, HubProcess, started, tool_starts
from tests.post_boxes import Post, post_box
from tests.scraping import Scraped, scrape, value
from tests.support import wait_until

pytestmark = pytest.mark.redis

#: What stands still while no hook comes.
STILL = ("adsum_sessions", "adsum_hook_to_hub_seconds", "adsum_time_to_human", "adsum_host_up")


def decoded(post: Post) -> ExportMetricsServiceRequest:
    return ExportMetricsServiceRequest.FromString(post.body)


def metrics_of(post: Post) -> list[Metric]:
    (resource,) = decoded(post).resource_metrics
    (scope,) = resource.scope_metrics
    return list(scope.metrics)


def as_scraped(post: Post) -> Scraped:
    found: Scraped = {}
    for metric in metrics_of(post):
        for point in (*metric.sum.data_points, *metric.gauge.data_points):
            found[metric.name, labels(point.attributes)] = point.as_double
        for each in metric.histogram.data_points:
            found |= of_histogram(metric.name, each)
    return found


def of_histogram(name: str, point: HistogramDataPoint) -> Scraped:
    own, below = labels(point.attributes), 0
    found: Scraped = {(f"{name}_sum", own): point.sum, (f"{name}_count", own): point.count}
    bounds = [*map(str, point.explicit_bounds), "+Inf"]
    for bound, count in zip(bounds, point.bucket_counts, strict=True):
        below += count
        found[f"{name}_bucket", tuple(sorted((*own, ("le", bound))))] = below
    return found


def labels(attributes: list[KeyValue]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((each.key, each.value.string_value) for each in attributes))


def still(found: Scraped) -> Scraped:
    return {key: number for key, number in found.items() if key[0].startswith(STILL)}


async def test_what_metrics_shows_is_sent_once_the_otlp_receiver_takes_it(
    tmp_path: Path, redis_url: str
) -> None:
    with post_box() as receiver, post_box() as of_claude_code:
        receiver.status = 503
        place = f"http://me:S3cretWord@127.0.0.1:{receiver.port}/T0kenPath"
        hub = HubProcess(tmp_path / "hub", redis_url, otlp_endpoint=place)
        hub.env |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": of_claude_code.url,
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "OTEL_RESOURCE_ATTRIBUTES": "team.id=core",
            "NO_PROXY": "*",
        }
        collector = AgentCollector(tmp_path / "host", redis_url)
        with started(hub, collector):
            await hook(collector)
            await wait_until(lambda: "metrics do not reach" in hub.log.read_text(), timeout=10)
            receiver.status = 200
            await wait_until(lambda: "again" in hub.log.read_text(), timeout=10)
            await wait_until(
                lambda: value(as_scraped(receiver.posts[-1]), "adsum_collector_hooks_total") == 1,
                timeout=10,
            )
            shown = await asyncio.to_thread(scrape, hub.url)
            before = len(receiver.posts)
            await wait_until(lambda: len(receiver.posts) > before, timeout=10)
            sent = receiver.posts[-1]

            before = len(receiver.posts)
            assert await asyncio.to_thread(hub.stop) == 0
            assert len(receiver.posts) > before

    assert value(shown, "adsum_sessions", group="autonomous") == 1
    assert (value(shown, "adsum_hook_to_hub_seconds_count") or 0) >= 1
    assert still(as_scraped(sent)) == still(shown)
    assert as_scraped(sent).keys() == shown.keys()
    by_name = {metric.name: metric for metric in metrics_of(sent)}
    counter = by_name["adsum_signals_applied_total"].sum
    assert counter.is_monotonic
    assert counter.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = counter.data_points
    assert 0 < point.time_unix_nano - point.start_time_unix_nano < 60e9
    about = dict(labels(decoded(sent).resource_metrics[0].resource.attributes))
    assert about["service.name"] == "adsum-hub"
    assert about["service.instance.id"].endswith(f":{hub.port}")
    assert about["team.id"] == "core"
    assert sent.path == "/T0kenPath/v1/metrics"
    assert sent.headers["authorization"].startswith("Basic ")

    assert not of_claude_code.posts
    log = hub.log.read_text()
    assert log.count("metrics do not reach") == 1
    # On a busy machine its second is over before the answer is there.
    assert re.search("it answers 503 Service Unavailable|no answer in time", log)
    assert log.count("metrics reach") == 1
    assert "S3cretWord" not in log
    assert "T0kenPath" not in log


async def hook(collector: AgentCollector) -> None:
    async with httpx.AsyncClient() as client:
        await collector.hook(client, tool_starts("s1", 1))
