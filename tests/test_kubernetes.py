"""deploy/kubernetes, as kustomize builds it: every name leads somewhere, and no pod has rights to spare."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from adsum_hub.settings import HubSettings
from adsum_shared.host_keys import MOST_BYTES
from adsum_shared.settings import KNOWN

pytestmark = pytest.mark.timeout(60)

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "deploy" / "kubernetes"
Objects = list[dict[str, Any]]


def _documents(path: Path) -> Objects:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def _written() -> Objects:
    """What stands in the files that the kustomizations name."""
    files = ["namespace.yaml", "hub.yaml", "ingress.yaml", "../redis/kubernetes.yaml"]
    return [each for name in files for each in _documents(FOLDER / name)]


OBJECTS = _written()


def _named(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] == kind}


def _pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for each in OBJECTS:
        if each["kind"] in ("Deployment", "StatefulSet"):
            yield each["metadata"]["name"], each["spec"]["template"]


def _kustomization(folder: Path) -> dict[str, Any]:
    (told,) = _documents(folder / "kustomization.yaml")
    return told


PODS = dict(_pods())
WITHOUT_ROOT = {
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_meets_the_standard_that_its_namespace_enforces(name: str) -> None:
    spec = PODS[name]["spec"]

    assert WITHOUT_ROOT.items() <= spec["securityContext"].items()
    assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    (namespace,) = _named("Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", PODS)
def test_every_volume_that_is_mounted_is_there(name: str) -> None:
    spec = PODS[name]["spec"]
    (owner,) = [each for each in OBJECTS if each.get("spec", {}).get("template") == PODS[name]]
    claims = owner["spec"].get("volumeClaimTemplates", [])
    there = {each["name"] for each in spec["volumes"]} | {c["metadata"]["name"] for c in claims}
    mounted = {m["name"] for container in spec["containers"] for m in container["volumeMounts"]}

    assert mounted == there
    for volume in spec["volumes"]:
        if claim := volume.get("persistentVolumeClaim"):
            assert claim["claimName"] in _named("PersistentVolumeClaim")
        if config := volume.get("configMap"):
            made = _kustomization(ROOT / "deploy" / "redis")["configMapGenerator"]
            assert config["name"] in {each["name"] for each in made}


def test_every_secret_and_map_that_is_read_is_made_or_may_be_missing() -> None:
    told = _kustomization(FOLDER)
    secrets = {each["name"] for each in told["secretGenerator"]}
    maps = {each["name"] for each in told["configMapGenerator"]}
    example = (FOLDER / "secret.env.example").read_text()
    keys = set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    for template in PODS.values():
        for container in template["spec"]["containers"]:
            for source in container.get("envFrom", []):
                assert source["configMapRef"]["name"] in maps
            for variable in container.get("env", []):
                if read := variable.get("valueFrom", {}).get("secretKeyRef"):
                    assert read["name"] in secrets
                    assert read["key"] in keys
    assert not re.search(r"^\w+=.", example, re.MULTILINE)


def test_services_and_policies_select_pods_that_are_there() -> None:
    labels = [template["metadata"]["labels"] for template in PODS.values()]
    selectors = [each["spec"]["selector"] for each in _named("Service").values()]
    selectors += [e["spec"]["podSelector"]["matchLabels"] for e in _named("NetworkPolicy").values()]

    assert selectors
    assert all(any(wanted.items() <= each.items() for each in labels) for wanted in selectors)
    for service in _named("Service").values():
        (template,) = [
            t
            for t in PODS.values()
            if service["spec"]["selector"].items() <= t["metadata"]["labels"].items()
        ]
        ports = {p["name"] for c in template["spec"]["containers"] for p in c["ports"]}
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports


def test_the_ingress_leads_to_the_hub_under_its_public_name() -> None:
    (ingress,) = _named("Ingress").values()
    (rule,) = ingress["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    (maps,) = _kustomization(FOLDER)["configMapGenerator"]

    service = _named("Service")[backend["name"]]
    assert backend["port"]["name"] in {each["name"] for each in service["spec"]["ports"]}
    assert f"ADSUM_PUBLIC_URL=https://{rule['host']}" in maps["literals"]
    assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]


def test_only_the_ingress_controllers_namespace_reaches_a_hub_that_believes_it() -> None:
    hub = PODS["adsum-hub"]
    (container,) = hub["spec"]["containers"]
    policies = [
        each["spec"]
        for each in _named("NetworkPolicy").values()
        if each["spec"]["podSelector"]["matchLabels"].items() <= hub["metadata"]["labels"].items()
    ]
    ways_in = [way for each in policies for way in each.get("ingress", [])]

    assert {"name": "FORWARDED_ALLOW_IPS", "value": "*"} in container["env"]
    assert {kind for each in policies for kind in each["policyTypes"]} == {"Ingress", "Egress"}
    assert ways_in == [
        {
            "from": [
                {
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}
                    }
                }
            ],
            "ports": [{"protocol": "TCP", "port": "http"}],
        }
    ]


def test_a_hub_calls_redis_names_and_the_internet_and_nobody_inside() -> None:
    ways_out = _named("NetworkPolicy")["adsum-hub-out"]["spec"]["egress"]
    redis, names, outside = ways_out

    assert redis["to"] == [
        {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "adsum-redis"}}}
    ]
    assert {each["port"] for each in names["ports"]} == {53}
    assert {each["port"] for each in outside["ports"]} == {443, 465, 587}
    blocks = [each["ipBlock"] for each in outside["to"]]
    for inside in (
        "10.1.2.3",
        "172.20.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "fd00::1",
    ):
        address = ip_address(inside)
        for block in blocks:
            if address in ip_network(block["cidr"]):
                assert any(address in ip_network(each) for each in block["except"]), inside


def test_the_ingress_lets_the_largest_batch_of_a_machine_pass() -> None:
    (ingress,) = _named("Ingress").values()
    passes = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]

    assert int(passes.removesuffix("m")) << 20 >= MOST_BYTES


def test_the_hub_accepts_what_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (container,) = PODS["adsum-hub"]["spec"]["containers"]
    (maps,) = _kustomization(FOLDER)["configMapGenerator"]
    told = dict(each.split("=", 1) for each in maps["literals"])
    told |= {each["name"]: each["value"] for each in container["env"] if "value" in each}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name, value in told.items():
        if name.startswith("ADSUM_"):
            assert name.removeprefix("ADSUM_").lower() in KNOWN
            monkeypatch.setenv(name, value)

    settings = HubSettings()

    assert settings.redis_url == "redis://hub:$(REDIS_HUB_PASSWORD)@adsum-redis:6379/0"
    assert "adsum-redis" in _named("Service")
    assert container["ports"] == [{"name": "http", "containerPort": settings.hub_port}]
    probe = container["livenessProbe"]["httpGet"]
    assert probe["httpHeaders"] == [{"name": "Host", "value": f"127.0.0.1:{settings.hub_port}"}]


def test_kustomize_builds_all_of_it(tmp_path: Path) -> None:
    command = next(
        (c for c in (["kustomize", "build"], ["kubectl", "kustomize"]) if shutil.which(c[0])), None
    )
    if command is None:
        pytest.skip(
            "neither kustomize nor kubectl is on PATH (Debian 13: apt install kubernetes-client)"
        )
    for folder in ("redis", "kubernetes"):
        ignored = shutil.ignore_patterns("tls", "secret.env")
        shutil.copytree(ROOT / "deploy" / folder, tmp_path / folder, ignore=ignored)
    (tmp_path / "kubernetes" / "secret.env").write_text(
        "REDIS_HUB_PASSWORD=p\nREDIS_MACHINES_PASSWORD=\n"
    )

    run = subprocess.run(
        [*command, str(tmp_path / "kubernetes")], capture_output=True, text=True, check=False
    )

    if 'unknown field "envs"' in run.stderr:
        pytest.skip(
            "this kubectl brings kustomize 2.0, which knows no envs; from 1.21 on it is newer"
        )
    assert run.returncode == 0, run.stderr
    built = [each for each in yaml.safe_load_all(run.stdout) if each]
    assert len(built) == len(OBJECTS) + 3
    assert {each["metadata"].get("namespace") for each in built} == {None, "adsum"}
    made = {e["metadata"]["name"] for e in built if e["kind"] in ("Secret", "ConfigMap")}
    read = set(re.findall(r"name: (adsum-(?:redis|hub)-[a-z0-9]{10})$", run.stdout, re.MULTILINE))
    assert made == read
    scripts = [e["data"]["start.sh"] for e in built if "start.sh" in e.get("data", {})]
    assert scripts == [(ROOT / "deploy" / "redis" / "start.sh").read_text()]
