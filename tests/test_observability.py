"""deploy/observability: every metric it names is a real hub's, and every setting is one of ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from adsum_shared.settings import KNOWN
from tests.brokers import running_broker
from tests.hub_processes import AgentCollector, HubProcess, started, tool_starts
from tests.scraping import Scraped, scrape, value

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "deploy" / "observability"
OVERLAY = ROOT / "deploy" / "compose.observability.yml"
PAGE = ROOT / "docs" / "observability.md"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((FOLDER / "grafana" / "dashboards" / "adsum.json").read_text())
EXPRESSIONS = [rule["expr"] for rule in RULES]
EXPRESSIONS += [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
METRIC = re.compile(r"\b(?:adsum|process|python)_\w+")
#: Prometheus's own, of what it has scraped.
GIVEN_BY_PROMETHEUS = {"job", "instance", "le"}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Of a hub with a machine that has said something, and a channel."""
    home = tmp_path_factory.mktemp("observability")
    rules = json.dumps([{"on": "needs_you", "channels": ["push"]}])
    with running_broker(home / "broker") as broker:
        hub = HubProcess(home / "hub", broker.url, notify=rules)
        collector = AgentCollector(home / "host", broker.url)
        with started(hub, collector):
            said = httpx.post(
                f"{collector.url}/api/live/hook",
                json=tool_starts("s1", 1),
                headers=collector.headers(),
            )
            assert said.status_code == 200
            # The first heartbeat may arrive before the first batch, from which the lag comes.
            deadline = time.monotonic() + 15
            while (
                not value(found := scrape(hub.url), "adsum_collector_hooks_total")
                or value(found, "adsum_host_lag_seconds") is None
            ):
                assert time.monotonic() < deadline, sorted({name for name, _ in found})
                time.sleep(0.1)
            yield found


def _names(expressions: list[str]) -> set[str]:
    # What stands in braces or after `by` are labels and their values.
    bare = (re.sub(r"\{[^}]*\}|by \([^)]*\)", "", each) for each in expressions)
    return {name for each in bare for name in METRIC.findall(each)}


@pytest.mark.redis
def test_every_metric_that_alerts_and_dashboard_name_is_there(scraped: Scraped) -> None:
    there = {name for name, _ in scraped}
    named = _names(EXPRESSIONS)

    assert len(named) > 25
    assert not named - there


@pytest.mark.redis
def test_every_label_that_alerts_and_dashboard_ask_for_is_there(scraped: Scraped) -> None:
    labels = {(name, label, text) for name, own in scraped for label, text in own}
    wrong = []
    for expression in EXPRESSIONS:
        for name, inner in re.findall(r"(\w+)\{([^}]*)\}", expression):
            for label, sign, text in re.findall(r'(\w+)(!?=~?)"([^"]*)"', inner):
                known = {own for called, of, own in labels if (called, of) == (name, label)}
                if label not in GIVEN_BY_PROMETHEUS and (not known or text not in known):
                    wrong.append(f"{name}: {label}{sign}{text}")
        names = _names([expression])
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            wrong += [
                f"{expression}: by {label}"
                for label in re.split(r",\s*", grouped)
                if label not in GIVEN_BY_PROMETHEUS
                and not any(
                    (called, of) == (name, label) for name in names for called, of, _ in labels
                )
            ]

    assert not wrong


@pytest.mark.redis
def test_the_page_tells_of_every_metric_and_of_no_other(scraped: Scraped) -> None:
    there = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in scraped}
    there = {name for name in there if name.startswith("adsum_")}
    told = set(re.findall(r"`(adsum_\w*[a-z])\b", PAGE.read_text()))

    assert there - told == set()
    assert told - there == set()


@pytest.mark.redis
def test_no_series_is_named_after_a_session(scraped: Scraped) -> None:
    labels = {label for _, own in scraped for label, _ in own}
    texts = {text for _, own in scraped for _, text in own}

    assert labels.isdisjoint({"session", "session_id", "project", "cwd", "title"})
    assert not [text for text in texts if "s1" in text]


def test_there_is_an_alert_for_each_thing_that_has_to_be_known() -> None:
    names = {rule["alert"] for rule in RULES}

    assert len(names) == len(RULES)
    assert {
        "AdsumHubDown",
        "AdsumConsumerLag",
        "AdsumGaps",
        "AdsumBacklog",
        "AdsumHostOffline",
        "AdsumNeedsYouWaiting",
        "AdsumNotificationsFailing",
    } <= names
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule["alert"]
        assert rule["annotations"].keys() == {"summary", "next"}, rule["alert"]


def test_a_waiting_session_alerts_after_ten_minutes() -> None:
    rule = next(rule for rule in RULES if rule["alert"] == "AdsumNeedsYouWaiting")

    assert rule["expr"].endswith("> 600")


def test_the_dashboard_shows_what_it_is_for_and_no_panel_covers_another() -> None:
    panels = DASHBOARD["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert taken.isdisjoint(cells), panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells

    assert len({panel["id"] for panel in panels}) == len(panels)
    shown = " ".join(sorted(_names([t["expr"] for p in panels for t in p["targets"]])))
    for part in ("hook_to_browser", "adsum_sessions", "host_up", "gaps", "time_to_human"):
        assert part in shown


def test_the_dashboard_and_its_source_fit_together() -> None:
    sources = yaml.safe_load((FOLDER / "grafana" / "datasources" / "prometheus.yml").read_text())
    provider = yaml.safe_load((FOLDER / "grafana" / "dashboards" / "provider.yml").read_text())
    grafana = yaml.safe_load(OVERLAY.read_text())["services"]["grafana"]
    mounted = [volume.split(":")[1] for volume in grafana["volumes"]]

    assert sources["datasources"][0]["url"] == "http://prometheus:9090"
    assert provider["providers"][0]["options"]["path"] in mounted


def _promtool() -> str:
    own = ROOT / ".rig" / "prometheus" / "promtool"
    found = str(own) if own.exists() else shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not there (as root, `make system-deps` fetches it with apt)")
    return found


def _check(*words: str | Path) -> None:
    run = subprocess.run(
        [_promtool(), *map(str, words)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_prometheus_takes_its_settings_and_the_alerts() -> None:
    _check("check", "config", "--syntax-only", FOLDER / "prometheus.yml")
    _check("check", "rules", FOLDER / "alerts.yml")


def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text())
    for rule in rules["groups"][0]["rules"]:
        del rule["annotations"]  # every word of them would have to be repeated there
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    cases = shutil.copy(ROOT / "tests" / "data" / "alerts" / "alerts_test.yml", tmp_path)

    _check("test", "rules", cases)


def _composed() -> dict[str, Any]:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed (Debian, Ubuntu: apt install docker-compose)")
    run = subprocess.run(
        ["docker-compose", "-f", "docker-compose.yml", "-f", str(OVERLAY), "config"],
        cwd=ROOT,
        env={**os.environ, "ADSUM_GRAFANA_PASSWORD": "p"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    composed: dict[str, Any] = yaml.safe_load(run.stdout)
    return composed


def test_prometheus_reaches_the_hub_by_a_name_that_it_answers_to() -> None:
    services = _composed()["services"]
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]
    target = config["static_configs"][0]["targets"][0]
    secret = config["authorization"]["credentials_file"].rsplit("/", 1)[1]

    assert target in json.loads(services["hub"]["environment"]["ADSUM_HUB_HOSTS"])
    assert set(services["hub"]["networks"]) & set(services["prometheus"]["networks"])
    assert "redis" not in services["prometheus"]["networks"]
    assert secret in str(services["prometheus"]["secrets"])
    for name in ("prometheus", "grafana"):
        assert all("127.0.0.1" in str(port) for port in services[name]["ports"])


def test_every_setting_of_ours_in_the_overlay_exists() -> None:
    environment = yaml.safe_load(OVERLAY.read_text())["services"]["hub"]["environment"]
    named = {name.removeprefix("ADSUM_").lower() for name in environment}

    assert named
    assert named <= KNOWN
