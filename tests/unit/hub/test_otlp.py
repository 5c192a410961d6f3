"""What `/metrics` shows as OpenTelemetry's data, and who is told when an OTLP receiver refuses it."""

from __future__ import annotations

import asyncio
import base64
import logging
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry.sdk.metrics.export import Gauge, Histogram, Metric, Sum
from opentelemetry.sdk.resources import Resource
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as Family

from adsum_hub.link import Link
from adsum_hub.metrics.measured import MeasuredBroadcast, MeasuredRoster
from adsum_hub.metrics.metrics import Asked
from adsum_hub.metrics.otlp import Export, Sender, interval_s, sending
from adsum_hub.metrics.otlp_export import Exporter, open_export
from adsum_hub.metrics.otlp_points import CUMULATIVE, metrics_data
from adsum_hub.settings import HubSettings
from adsum_shared.settings import SettingsError
from tests.post_boxes import post_box
from tests.support import wait_until

START, NOW = 1_000, 2_000


def converted(*families: Family, now: int = NOW) -> list[Metric]:
    data = metrics_data(families, Resource({}), START, now)
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    return list(scope.metrics)


def test_a_counter_is_a_sum_since_the_hubs_start_under_the_name_that_metrics_shows() -> None:
    family = CounterMetricFamily("adsum_gaps", "Batches.", labels=["reason"])
    family.add_metric(["cap"], 3)
    family.add_metric(["lost"], 0)
    (metric,) = converted(family)

    assert (metric.name, metric.description, metric.unit) == ("adsum_gaps_total", "Batches.", "")
    assert isinstance(metric.data, Sum)
    assert metric.data.is_monotonic
    assert metric.data.aggregation_temporality is CUMULATIVE
    found = [(each.attributes, each.value) for each in metric.data.data_points]
    assert found == [({"reason": "cap"}, 3.0), ({"reason": "lost"}, 0.0)]
    times = {(each.start_time_unix_nano, each.time_unix_nano) for each in metric.data.data_points}
    assert times == {(START, NOW)}


def test_what_a_collector_has_counted_began_nobody_knows_when() -> None:
    (metric,) = converted(CounterMetricFamily("adsum_collector_hooks", "Taken.", value=5))

    assert [each.start_time_unix_nano for each in metric.data.data_points] == [0]


def test_a_clock_that_was_set_back_makes_no_start_after_the_end() -> None:
    (metric,) = converted(CounterMetricFamily("a", "A.", value=5), now=START - 500)

    assert [each.start_time_unix_nano for each in metric.data.data_points] == [START - 500]


@pytest.mark.parametrize("given", [1, True, 0.5])
def test_a_gauge_is_always_a_float(given: float) -> None:
    (metric,) = converted(GaugeMetricFamily("adsum_ready", "1: kept.", value=given))

    assert metric.name == "adsum_ready"
    assert isinstance(metric.data, Gauge)
    (point,) = metric.data.data_points
    assert (type(point.value), point.value, point.attributes) == (float, given, {})


def test_the_version_is_a_gauge_as_metrics_shows_it() -> None:
    (metric,) = converted(InfoMetricFamily("adsum_build", "Version.", {"version": "1.2"}))

    assert metric.name == "adsum_build_info"
    assert isinstance(metric.data, Gauge)
    assert [each.attributes for each in metric.data.data_points] == [{"version": "1.2"}]


def test_each_bucket_of_a_histogram_holds_only_its_own() -> None:
    family = HistogramMetricFamily("adsum_wait_seconds", "How long.", labels=["state"])
    family.add_metric(["idle"], [("0.5", 2), ("1.0", 2), ("+Inf", 7)], 31.5)
    family.add_metric(["asking"], [("0.5", 0), ("1.0", 0), ("+Inf", 0)], 0.0)
    (metric,) = converted(family)

    assert metric.name == "adsum_wait_seconds"
    assert isinstance(metric.data, Histogram)
    assert metric.data.aggregation_temporality is CUMULATIVE
    first, second = metric.data.data_points
    assert first.attributes == {"state": "idle"}
    assert (first.bucket_counts, first.explicit_bounds) == ([2, 0, 5], [0.5, 1.0])
    assert (first.count, first.sum, first.start_time_unix_nano) == (7, 31.5, START)
    assert (second.attributes, second.count, second.sum) == ({"state": "asking"}, 0, 0.0)


def test_a_family_without_data_is_left_out() -> None:
    empty = [
        CounterMetricFamily("a", "A.", labels=["x"]),
        GaugeMetricFamily("b", "B.", labels=["x"]),
        HistogramMetricFamily("c", "C.", labels=["x"]),
    ]
    assert converted(*empty) == []
    assert converted() == []


def asked() -> Asked:
    roster = MeasuredRoster()
    return Asked(roster, MeasuredBroadcast(roster, lambda: 1), Link())


async def test_where_no_otlp_receiver_is_named_nothing_is_loaded_and_nothing_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "adsum_hub.metrics.otlp_export", None)
    # What people set for Claude Code is no order to the hub.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    async with sending(HubSettings(), asked(), 1) as run:
        await run()


async def test_without_the_extra_the_start_ends_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "adsum_hub.metrics.otlp_export")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(SettingsError) as found:
        async with sending(HubSettings(otlp_endpoint="http://127.0.0.1:9"), asked(), 1):
            pass
    assert "ADSUM_OTLP_ENDPOINT" in str(found.value)
    assert "not installed" in str(found.value)
    assert "add opentelemetry-exporter-otlp-proto-http" in str(found.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", None),
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
        ("https://otlp.example.net/otlp/", "https://otlp.example.net/otlp"),
        ("http://[::1]:4318/v1/metrics", "http://[::1]:4318"),
    ],
)
def test_the_otlp_receivers_base_url_is_kept(given: str, kept: str | None) -> None:
    assert HubSettings(otlp_endpoint=given).otlp_endpoint == kept


@pytest.mark.parametrize(
    "given",
    [
        "127.0.0.1:4318",
        "grpc://h:4317",
        "http://",
        "http://h:99999",
        "http://h?key=S3cret",
        "http://h x",
        "http://otel..example:4318",
        f"http://{'a' * 64}.example:4318",
    ],
)
def test_what_is_no_base_url_is_refused_with_an_example_and_not_quoted(given: str) -> None:
    with pytest.raises(
        SettingsError, match=r"ADSUM_OTLP_ENDPOINT.*http://127\.0\.0\.1:4318"
    ) as found:
        HubSettings(otlp_endpoint=given)
    assert "S3cret" not in str(found.value)


@pytest.mark.parametrize(
    ("given", "kept"), [({}, 60.0), ({"OTEL_METRIC_EXPORT_INTERVAL": "5000"}, 5.0)]
)
def test_how_often_is_said_by_the_sdks_own_variable(given: dict[str, str], kept: float) -> None:
    assert interval_s(given) == kept


@pytest.mark.parametrize(("given", "kept"), [("1", 1.0), ("-5", 1.0), ("nan", 1.0), ("1m", 60.0)])
def test_an_interval_that_makes_no_sense_neither_floods_nor_ends_the_hub(
    given: str, kept: float
) -> None:
    assert interval_s({"OTEL_METRIC_EXPORT_INTERVAL": given}) == kept


async def test_an_export_is_given_up_before_the_next_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []

    def opened(endpoint: str, instance: str, timeout_s: float) -> Export:
        given.append(timeout_s)
        return OtlpReceiver()

    monkeypatch.setattr("adsum_hub.metrics.otlp_export.open_export", opened)
    for interval in ("2000", "60000"):
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", interval)
        async with sending(HubSettings(otlp_endpoint="http://127.0.0.1:9"), asked(), 1):
            pass

    assert given == [2.0, 10.0]


class OtlpReceiver:
    """An export whose answer the test chooses; it may hang."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.calls = 0
        self.free = threading.Event()
        self.free.set()

    def __call__(self, families: Sequence[Family], now: int) -> str | None:
        self.calls += 1
        self.free.wait(10)
        return self.problem

    def sender(self) -> Sender:
        async def gather() -> Sequence[Family]:
            return []

        return Sender(gather, self, "http://h:4318", 0.001)


async def test_an_outage_is_told_when_it_begins_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    receiver = OtlpReceiver()
    sender = receiver.sender()
    for problem in (None, "gone.", "gone.", "busy.", None, None):
        receiver.problem = problem
        await sender.send()

    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "metrics do not reach http://h:4318: gone."),
        ("INFO", "metrics reach http://h:4318 again"),
    ]


def test_an_otlp_receiver_that_hangs_gets_no_second_export_and_holds_up_nobodys_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("adsum_hub.metrics.otlp.LAST_S", 0.05)
    receiver = OtlpReceiver()
    receiver.free.clear()

    async def hub() -> None:
        sender = receiver.sender()
        running = asyncio.create_task(sender.run())
        await wait_until(lambda: receiver.calls == 1)
        running.cancel()
        await sender.last()

    began = time.monotonic()
    asyncio.run(hub())
    took = time.monotonic() - began
    receiver.free.set()
    for thread in threading.enumerate():
        if thread.name == "otlp":
            thread.join(5)

    assert took < 2
    assert receiver.calls == 1
    # And nothing of the thread's, whose loop was gone.
    assert [each.message for each in caplog.records] == [
        "metrics do not reach http://h:4318: no answer in time, as the hub ended."
    ]


async def test_an_answer_that_does_not_end_is_told_before_it_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("adsum_hub.metrics.otlp.WAITED_S", 0.05)
    caplog.set_level(logging.INFO)
    receiver = OtlpReceiver()
    receiver.free.clear()
    sender = receiver.sender()
    await sender.send()
    told = [each.message for each in caplog.records]
    receiver.free.set()
    await sender.send()

    assert told == ["metrics do not reach http://h:4318: no answer in time."]
    assert caplog.records[-1].message == "metrics reach http://h:4318 again"


async def test_the_last_export_tells_what_came_after_the_one_before() -> None:
    receiver = OtlpReceiver()
    sender = receiver.sender()
    await sender.send()
    await sender.last()

    assert receiver.calls == 2


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Exporter:
    directly(monkeypatch)
    return open_export("http://127.0.0.1:9/T0kenPath", "here:1", 0.2)


def test_the_resource_names_the_hub_and_heeds_the_sdks_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod,service.name=claude"
    )
    attributes = open_export("http://127.0.0.1:9", "here:1", 0.2).resource.attributes

    assert attributes["service.name"] == "adsum-hub"
    assert attributes["service.instance.id"] == "here:1"
    assert attributes["deployment.environment"] == "prod"
    assert "service.version" in attributes


def test_nobody_there_is_told_by_the_systems_own_words(
    exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    problem = exporter([], time.time_ns()) or ""

    assert problem.startswith("Connection refused. See whether")
    assert not caplog.records  # the libraries' own tries, which tell of the path too


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "it answers 401 Unauthorized. Give it a key"),
        (302, "it answers 302 Found. See"),
        (404, "it answers 404 Not Found. See"),
        (599, "it answers 599. See"),
    ],
)
def test_a_refusal_is_told_with_its_status(
    status: int, told: str, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(self: Any, *args: Any, **kwargs: Any) -> requests.Response:
        response = requests.Response()
        response.status_code = status
        return response

    monkeypatch.setattr(requests.Session, "request", answer)
    assert (exporter([], time.time_ns()) or "").startswith(told)


@pytest.mark.parametrize("value", ["S3cret%0Ax,S3cret;bad", "S3cret%E2%82%AC"])
def test_a_header_that_cannot_be_sent_is_told_without_its_value(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directly(monkeypatch)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{value}")
    with post_box() as receiver:
        exporter = open_export(receiver.url, "here:1", 0.2)
        problem = exporter([], time.time_ns()) or ""

    assert problem.startswith("a value in OTEL_EXPORTER_OTLP_HEADERS cannot be sent in a header.")
    assert "S3cret" not in problem + caplog.text


@pytest.mark.parametrize(
    "proxy",
    ["http://", "http://me:S3cret@h:99999", "http://me:S3cret@a..b:1", "http://S3cret€:x@h"],
)
def test_a_proxys_url_that_is_none_is_told_and_not_quoted(
    proxy: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    through(proxy, monkeypatch)
    problem = open_export("http://127.0.0.1:9", "here:1", 0.2)([], time.time_ns()) or ""

    assert problem.startswith("a URL cannot be used. See that of the proxy")
    assert "S3cret" not in problem + caplog.text


def directly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")


def through(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy)


def test_a_login_of_netrc_replaces_no_header_and_the_proxy_still_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine otel.example.net login u password p\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20key")
    with post_box() as proxy:
        through(proxy.url, monkeypatch)
        open_export("http://otel.example.net:4318", "here:1", 5)([], time.time_ns())

    (post,) = proxy.posts
    assert post.path == "http://otel.example.net:4318/v1/metrics"
    assert post.headers["authorization"] == "Bearer key"


def test_a_login_in_the_url_may_have_any_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    directly(monkeypatch)
    with post_box() as receiver:
        place = receiver.url.replace("//", "//me:p%E2%82%AC@")
        assert open_export(place, "here:1", 5)([], time.time_ns()) is None

    (post,) = receiver.posts
    assert post.headers["authorization"] == f"Basic {base64.b64encode('me:p€'.encode()).decode()}"


def test_a_certificate_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/hosts")  # for other programs
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")
    problem = open_export("https://127.0.0.1:9", "here:1", 0.2)([], time.time_ns()) or ""

    assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in problem
