"""The compose files and the Dockerfile, as far as they can be checked without a Docker engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.connection import parse_url

from adsum_shared.settings import KNOWN

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
OVERLAYS = [
    "compose.collectors.yml",
    "compose.collectors-tls.yml",
    "compose.tls.yml",
    "compose.tailscale.yml",
    "compose.observability.yml",
]
#: What overlays insist on.
NEEDED = {
    "ADSUM_REDIS_PASSWORD": "p",
    "ADSUM_MACHINES_PASSWORD": "m",
    "ADSUM_DOMAIN": "hub.example.net",
    "ADSUM_GRAFANA_PASSWORD": "g",
}


def _compose_command() -> list[str]:
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    plugin = ["docker", "compose"]
    if shutil.which("docker") and _run([*plugin, "version"]).returncode == 0:
        return plugin
    pytest.skip("docker-compose is not installed (Debian, Ubuntu: apt install docker-compose)")


def _run(command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("ADSUM_")} | env,
        capture_output=True,
        text=True,
        check=False,
    )


@cache
def _config(*overlays: str, **env: str) -> dict[str, Any]:
    files = ["docker-compose.yml", *(f"deploy/{name}" for name in overlays)]
    flags = [word for file in files for word in ("-f", file)]
    # Compose 1 tells of every service, Compose 2 only of those that its profiles start.
    run = _run([*_compose_command(), *flags, "--profile", "demo", "config"], **env)
    assert run.returncode == 0, run.stderr
    config: dict[str, Any] = yaml.safe_load(run.stdout)
    return config


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    config: dict[str, Any] = _config(**NEEDED)["services"]
    return config


@pytest.fixture(scope="module", params=OVERLAYS)
def overlaid(request: pytest.FixtureRequest) -> dict[str, Any]:
    """All services with one more file: name -> as Compose sees it."""
    config: dict[str, Any] = _config(request.param, **NEEDED)["services"]
    return config


def _published(service: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(host address, host port, container port) in the short or the long form of `config`."""
    found = []
    for port in service.get("ports", []):
        if isinstance(port, dict):
            found.append((port.get("host_ip", ""), str(port["published"]), str(port["target"])))
        else:
            address, outer, inner = port.removesuffix("/tcp").rsplit(":", 2)
            found.append((address, outer, inner))
    return found


def test_only_the_hub_is_published_and_on_loopback_only(services: dict[str, Any]) -> None:
    ports = {name: _published(service) for name, service in services.items()}

    assert ports == {
        "hub": [("127.0.0.1", "47893", "47893")],
        "demo": [],
        "redis": [],
    }


def test_nothing_is_published_beyond_loopback_in_clear(overlaid: dict[str, Any]) -> None:
    """What is published further speaks TLS: Redis's TLS port, and Caddy's."""
    further = {
        (name, inner)
        for name, service in overlaid.items()
        for address, _, inner in _published(service)
        if address != "127.0.0.1"
    }

    assert further <= {("redis", "6380"), ("caddy", "443"), ("caddy", "443/udp"), ("caddy", "80")}


def test_redis_is_alone_with_the_hub_and_has_no_way_out() -> None:
    config = _config()
    inside = {n for n, each in config["services"].items() if "redis" in each.get("networks", {})}

    assert inside == {"redis", "hub"}
    assert config["networks"]["redis"]["internal"] is True


def test_redis_keeps_what_it_was_given_and_refuses_when_full(services: dict[str, Any]) -> None:
    start = (ROOT / "deploy" / "redis" / "start.sh").read_text()

    assert "--appendonly yes --appendfsync everysec" in start
    assert "--maxmemory-policy noeviction" in start
    assert "--maxmemory 512mb" in " ".join(services["redis"]["command"])
    assert any("/data" in str(volume) for volume in services["redis"]["volumes"])


def test_the_hub_waits_for_a_redis_that_answers(services: dict[str, Any]) -> None:
    assert services["hub"]["depends_on"]["redis"]["condition"] == "service_healthy"
    assert "redis-cli --user probe" in services["redis"]["healthcheck"]["test"][-1]


def test_every_service_has_no_more_rights_than_it_needs(overlaid: dict[str, Any]) -> None:
    for name, service in overlaid.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert service["logging"]["options"]["max-size"], name
        assert name == "demo" or service["restart"] == "unless-stopped"
        added = service.get("cap_add", [])
        assert added == (["NET_BIND_SERVICE"] if name == "caddy" else []), name


def test_every_service_has_a_health_check(overlaid: dict[str, Any]) -> None:
    """Those of our image have the image's."""
    without = {name for name, each in overlaid.items() if "healthcheck" not in each}

    assert without == {"hub"}
    assert "HEALTHCHECK" in DOCKERFILE


@pytest.mark.parametrize("password", ["", "s3cret"])
def test_hub_and_redis_agree_on_the_password(password: str) -> None:
    services = _config(ADSUM_REDIS_PASSWORD=password)["services"]

    url = parse_url(services["hub"]["environment"]["ADSUM_REDIS_URL"])

    assert (url["username"], url.get("password", "")) == ("hub", password)
    assert services["redis"]["environment"]["REDIS_HUB_PASSWORD"] == password
    assert "REDIS_MACHINES_PASSWORD" not in services["redis"]["environment"]


@pytest.mark.parametrize("overlay", OVERLAYS[:2])
@pytest.mark.parametrize("missing", ["ADSUM_REDIS_PASSWORD", "ADSUM_MACHINES_PASSWORD"])
def test_a_redis_that_is_published_has_passwords(overlay: str, missing: str) -> None:
    given = {name: value for name, value in NEEDED.items() if name != missing}
    flags = ["-f", "docker-compose.yml", "-f", f"deploy/{overlay}"]

    run = _run([*_compose_command(), *flags, "config"], **given)

    assert run.returncode != 0
    assert ".env.example" in run.stderr


def _deploy_files() -> list[Path]:
    found = [ROOT / "docker-compose.yml", ROOT / ".env.example"]
    found += [path for path in sorted((ROOT / "deploy").rglob("*")) if path.is_file()]
    return [path for path in found if "tls" not in path.parts]


def test_every_setting_that_is_named_exists() -> None:
    """But for those that compose files put in themselves: of them none reaches our programs."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in _deploy_files()}
    composed = set(re.findall(r"\$\{(ADSUM_\w+)", "".join(texts.values())))
    unknown = {
        f"{path}: {name}"
        for path, text in texts.items()
        for name in re.findall(r"ADSUM_[A-Z0-9_]+", text)
        if name.removeprefix("ADSUM_").lower() not in KNOWN and name not in composed
    }

    assert not unknown


def test_the_programs_are_given_settings_only(overlaid: dict[str, Any]) -> None:
    given = {*overlaid["hub"]["environment"], *overlaid["demo"]["environment"]}
    settings = {name for name in given if name.startswith("ADSUM_")}

    assert {name.removeprefix("ADSUM_").lower() for name in settings} <= KNOWN
    assert given - settings <= {"XDG_CONFIG_HOME", "FORWARDED_ALLOW_IPS"}


def _passed_on(path: Path) -> set[str]:
    """What a service gets as .env has it, and does not get where that is silent."""
    services = yaml.safe_load(path.read_text())["services"].values()
    given = [each.get("environment", {}) for each in services]
    return {name for each in given for name, value in each.items() if value is None}


def test_the_example_names_every_variable_and_its_default() -> None:
    example = (ROOT / ".env.example").read_text()
    told = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", example, re.MULTILINE))
    files = [ROOT / "docker-compose.yml", *(ROOT / "deploy" / name for name in OVERLAYS)]
    read = {
        name: default if sign == ":-" else ""
        for path in files
        for name, sign, default in re.findall(
            r"\$\{(\w+)(:-|:\?)?([^}]*)\}",
            re.sub(r"^ *#.*$", "", path.read_text(), flags=re.MULTILINE),
        )
    }
    read |= {name: "" for path in files for name in _passed_on(path)}

    del told["COMPOSE_FILE"]
    assert told == read


def test_the_example_holds_no_secret_that_works() -> None:
    secrets = re.findall(
        r"(?m)^#?(\w*(?:PASSWORD|AUTHKEY)\w*)=(.*)$", (ROOT / ".env.example").read_text()
    )

    assert len(secrets) == 4
    assert not [name for name, value in secrets if value]


def test_every_file_that_is_mounted_exists(overlaid: dict[str, Any]) -> None:
    # As written: Compose makes the paths absolute, and a folder of whatever is not there.
    mounts = [
        mount["source"] if isinstance(mount, dict) else mount.split(":")[0]
        for service in overlaid.values()
        for mount in service.get("volumes", [])
    ]
    files = [Path(mount) for mount in mounts if mount.startswith("/")]

    assert files
    assert not [path for path in files if not path.exists() and path.name != "tls"]


def _told(services: dict[str, Any]) -> dict[str, str]:
    """Our settings as the hub gets them: one without a value does not get there."""
    given = services["hub"]["environment"].items()
    return {k: v for k, v in given if k.startswith("ADSUM_") and v is not None}


@pytest.mark.parametrize("overlay", OVERLAYS[:2])
def test_machines_are_told_of_a_published_redis_by_the_name_that_env_gives_it(overlay: str) -> None:
    name = "rediss://redis.example.net:47890"

    services = _config(overlay, **NEEDED, ADSUM_MACHINE_REDIS_URL=name)["services"]

    assert _told(services)["ADSUM_MACHINE_REDIS_URL"] == name


@pytest.mark.parametrize("overlay", OVERLAYS[:2])
def test_what_env_is_silent_about_does_not_come_before_config_toml(
    overlay: str, tmp_path: Path
) -> None:
    written = {"public_url": "https://hub.example.net", "machine_redis_url": "rediss://r:1"}
    (tmp_path / "adsum").mkdir()
    lines = [f'{name} = "{value}"' for name, value in written.items()]
    (tmp_path / "adsum" / "config.toml").write_text("\n".join(lines))
    told = _told(_config(overlay, **NEEDED)["services"])
    script = (
        "import json; from adsum_hub.settings import HubSettings; s = HubSettings();"
        "print(json.dumps([s.public_url, s.machine_redis_url]))"
    )

    run = _run([sys.executable, "-c", script], **told, XDG_CONFIG_HOME=str(tmp_path))

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == list(written.values())


def test_the_hub_accepts_what_compose_tells_it(services: dict[str, Any]) -> None:
    told = _told(services)
    script = (
        "import json; from adsum_hub.settings import HubSettings; s = HubSettings();"
        "print(json.dumps([s.hub_host, s.hub_port, s.hub_allow_public, s.redis_url]))"
    )

    run = _run([sys.executable, "-c", script], **told)

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == ["0.0.0.0", 47893, True, told["ADSUM_REDIS_URL"]]  # noqa: S104 - inside a container


def test_the_image_copies_only_what_the_build_context_holds() -> None:
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
    }

    assert copied == allowed
    assert not {name for name in copied if not (ROOT / name).exists()}


def test_the_image_runs_as_an_ordinary_user_and_installs_by_hash() -> None:
    last = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    installs = re.findall(r"pip\S* (?:\S+ )*?install [^&]+", DOCKERFILE.replace("\\\n", " "))

    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


@pytest.mark.parametrize("name", ["hub", "demo"])
def test_the_image_and_compose_use_commands_that_exist(services: dict[str, Any], name: str) -> None:
    entry = json.loads(re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE)[0])
    command = services[name]["command"]
    command = shlex.split(command) if isinstance(command, str) else command

    run = _run([sys.executable, "-m", *entry, *command, "--help"], COLUMNS="200")

    assert run.returncode == 0, run.stderr
    assert all(word in run.stdout for word in command if word.startswith("--"))


def _images_of_others(text: str) -> list[str]:
    return [
        each
        for each in re.findall(r"^\s+image: (\S+)$", text, re.MULTILINE)
        if "ADSUM_IMAGE" not in each
    ]


def test_every_image_of_others_can_be_pinned_by_digest() -> None:
    files = [ROOT / "docker-compose.yml", *sorted((ROOT / "deploy").glob("compose.*.yml"))]
    images = [image for file in files for image in _images_of_others(file.read_text())]
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)

    assert len(images) >= 5
    assert all(re.fullmatch(r"\$\{[A-Z]+_IMAGE:-[\w./:-]+\}", image) for image in images)
    assert bases == ["${PYTHON_IMAGE}"] * 2


def test_one_name_leads_to_the_image_built_here_or_to_that_of_a_release() -> None:
    kustomization = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text())
    published = {"ADSUM_IMAGE": "ghcr.io/owner/adsum", "ADSUM_VERSION": "0.1.0"}
    images = {
        name: [
            _config(**NEEDED, **env)["services"][service]["image"] for service in ("hub", "demo")
        ]
        for name, env in {"built": {}, "published": published}.items()
    }
    hub = _config()["services"]["hub"]

    assert images == {
        "built": ["adsum:latest"] * 2,
        "published": ["ghcr.io/owner/adsum:0.1.0"] * 2,
    }
    assert hub["build"]["dockerfile"] == "deploy/Dockerfile"
    assert {"name": "adsum", "newName": "adsum", "newTag": "latest"} in kustomization["images"]


def test_pinning_names_every_image_with_its_digest_and_fails_if_one_is_not_found(
    tmp_path: Path,
) -> None:
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$6" != "$MISSING" ] && echo "sha256:of-$6"\n')
    docker.chmod(0o755)

    pinned = _run(["deploy/pin"], DOCKER=str(docker))
    failed = _run(["deploy/pin"], DOCKER=str(docker), MISSING="redis:8")

    example = (ROOT / ".env.example").read_text()
    named = re.findall(r"^#(?!ADSUM_)([A-Z]+_IMAGE)=(.+)$", example, re.MULTILINE)
    assert pinned.stdout.splitlines() == [f"{n}={image}@sha256:of-{image}" for n, image in named]
    assert {"PYTHON_IMAGE", "REDIS_IMAGE"} <= dict(named).keys()
    assert failed.returncode != 0
    assert "REDIS_IMAGE" not in failed.stdout


def test_caddy_alone_is_believed_about_whose_request_it_is() -> None:
    services = _config("compose.tls.yml", **NEEDED)["services"]

    believed = services["hub"]["environment"]["FORWARDED_ALLOW_IPS"]
    assert believed == services["caddy"]["networks"]["web"]["ipv4_address"]
