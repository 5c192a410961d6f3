"""docker-compose.yml and the Dockerfile, as far as they can be checked without a Docker engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.connection import parse_url

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


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


def _config(**env: str) -> dict[str, Any]:
    run = _run([*_compose_command(), "config"], **env)
    assert run.returncode == 0, run.stderr
    config: dict[str, Any] = yaml.safe_load(run.stdout)
    return config


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    config: dict[str, Any] = _config()["services"]
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


def test_every_port_is_published_on_loopback_only(services: dict[str, Any]) -> None:
    ports = {name: _published(service) for name, service in services.items()}

    assert ports == {
        "hub": [("127.0.0.1", "47893", "47893")],
        "redis": [("127.0.0.1", "47891", "6379")],
    }


def test_redis_keeps_what_it_was_given_and_refuses_when_full(services: dict[str, Any]) -> None:
    command = " ".join(map(str, services["redis"]["command"]))

    assert "--appendonly yes --appendfsync everysec" in command
    assert "--maxmemory-policy noeviction" in command
    assert any("/data" in str(volume) for volume in services["redis"]["volumes"])


def test_the_hub_waits_for_a_redis_that_answers(services: dict[str, Any]) -> None:
    assert services["hub"]["depends_on"]["redis"]["condition"] == "service_healthy"
    assert "redis-cli ping" in services["redis"]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", ["hub", "redis"])
def test_a_service_has_no_more_rights_than_it_needs(services: dict[str, Any], name: str) -> None:
    service = services[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("password", ["", "s3cret"])
def test_hub_and_redis_agree_on_the_password(password: str) -> None:
    services = _config(ADSUM_REDIS_PASSWORD=password)["services"]

    url = parse_url(services["hub"]["environment"]["ADSUM_REDIS_URL"])
    command = services["redis"]["command"]

    assert url.get("password", "") == password
    assert command[command.index("--requirepass") + 1] == password
    assert services["redis"]["environment"]["REDISCLI_AUTH"] == password


def test_the_hub_accepts_what_compose_tells_it(services: dict[str, Any]) -> None:
    told = services["hub"]["environment"]
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

    assert re.search(r"^USER adsum$", last, re.MULTILINE)
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


def test_the_image_and_compose_use_commands_that_exist(services: dict[str, Any]) -> None:
    entry = json.loads(re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE)[0])
    command = services["hub"]["command"]
    command = shlex.split(command) if isinstance(command, str) else command

    run = _run([sys.executable, "-m", *entry, *command, "--help"])

    assert run.returncode == 0, run.stderr
