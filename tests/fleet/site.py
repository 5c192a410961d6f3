"""A site as an operator sets one up: Redis by TLS with its users, two hubs by HTTPS, three machines that join."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import redis

from adsum_shared import streams
from tests.brokers import require_binary
from tests.hub_processes import HubProcess, number_in
from tests.joining import Machine, machines
from tests.partition.machines import CUT, Switch, network
from tests.signing_in import admin
from tests.tls import tls_before

T = TypeVar("T")

DEPLOY = Path(__file__).parent.parent.parent / "deploy" / "redis"
HUBS = ("hub1", "hub2")
HOSTS = ("oak", "elm", "ash")
PASSWORD = "of-the-hubs"


def until(predicate: Callable[[], T], timeout: float, what: str) -> T:
    """Its first truthy value."""
    ends = time.monotonic() + timeout
    while not (found := predicate()):
        assert time.monotonic() < ends, f"still not {what} after {timeout:.0f} s"
        time.sleep(0.05)
    return found


class Site:
    """Every part in a network of its own. at: by name; urls: of the hubs, as machines reach them."""

    def __init__(self, root: Path, switch: Switch, hosts: list[Machine]) -> None:
        self.root = root
        self.switch = switch
        self.at = switch.machines
        self.hosts = {each.home.name: each for each in hosts}
        self.urls = {name: f"https://{self.at[name].address}" for name in HUBS}
        self.ca = root / "tls" / "ca.crt"
        place = f"{self.at['redis'].address}:6379"
        self.hubs = {
            name: HubProcess(
                root / name,
                f"rediss://hub:{PASSWORD}@{place}/0?ssl_ca_certs={self.ca}",
                sign_in="on",
                public_url=self.urls[name],
                machine_redis_url=f"rediss://{place}/0",
            )
            for name in HUBS
        }

    def run(self, name: str, work: Callable[[], T]) -> T:
        return self.at[name].run(work)

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Redis by the scripts of deploy/, then each hub behind its own TLS."""
        tls = self.ca.parent
        env = {**os.environ, "ADSUM_REDIS_TLS_DIR": str(tls)}
        names = [each.address for each in self.at.values()]
        command = [str(DEPLOY / "certificate"), *names]
        subprocess.run(command, env=env, check=True, capture_output=True)
        files = tls / "redis.crt", tls / "redis.key"
        with contextlib.ExitStack() as stack:
            server = self.run("redis", lambda: self._redis(*files))
            stack.callback(_end, server)
            for name, hub in self.hubs.items():
                stack.callback(hub.kill)
                self.run(name, hub.start)
                stack.enter_context(
                    tls_before(
                        hub.port,
                        443,
                        *files,
                        address=self.at[name].address,
                        inside=self.at[name].inside(),
                    )
                )
            yield

    def _redis(self, certificate: Path, key: Path) -> subprocess.Popen[bytes]:
        """Without a port that is not TLS."""
        data, tools = self.root / "data", self.root / "tools"
        data.mkdir()
        tools.mkdir()
        (tools / "redis-server").symlink_to(require_binary())
        env = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "REDIS_DATA": str(data),
            "REDIS_HUB_PASSWORD": PASSWORD,
        }
        words = ["--port", "0", "--tls-port", "6379", "--bind", self.at["redis"].address]
        words += ["--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
        words += ["--tls-ca-cert-file", str(self.ca), "--tls-auth-clients", "no"]
        with (self.root / "redis.log").open("wb") as log:
            return subprocess.Popen(
                ["sh", str(DEPLOY / "start.sh"), *words], env=env, stdout=log, stderr=log
            )

    def typed(self, name: str, words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """A line as somebody types it on a machine, or on a hub's as its user."""
        own = self.hosts[name].env if name in self.hosts else self.hubs[name].env
        command = [sys.executable, "-P", "-m", *shlex.split(words)]
        return self.run(
            name,
            lambda: subprocess.run(
                command,
                env={**own, **env},
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=90,
            ),
        )

    def line(self, hub: str) -> str:
        """What to type on the machine, as the hub prints it."""
        made = self.typed(hub, "adsum hub tokens create --join")
        assert made.returncode == 0, made.stderr
        [line] = [each for each in made.stdout.splitlines() if each.startswith("adsum join ")]
        return line

    def ask(self, hub: str, path: str) -> Any:
        def get() -> Any:
            with admin(self.hubs[hub]) as client:
                return client.get(f"/api/v1/{path}").json()

        return self.run(hub, get)

    def host(self, hub: str, name: str) -> dict[str, Any]:
        listed: list[dict[str, Any]] = self.ask(hub, "hosts")["hosts"]
        return next((each for each in listed if each["label"] == name), {})

    def reaches(self, name: str) -> set[str]:
        """What the hubs say of it: live, late or offline."""
        return {str(self.host(hub, name).get("reachability")) for hub in HUBS}

    def numbers(self, hub: str, name: str, session: str) -> list[int]:
        """Of all its hooks that the hub shows, oldest first."""
        host_id = self.hosts[name].host_id
        found = self.ask(hub, f"sessions/{host_id}:{session}/activity")
        return [number_in(entry["text"]) for entry in found.get("entries", [])]

    def cut(self, name: str) -> None:
        for other in ("redis", *HUBS):
            self.switch.set(name, other, CUT, both=True)

    def write(self, name: str) -> None:
        """As the machine itself, by what joining gave it. Raises RedisError."""
        machine = self.hosts[name]

        def add() -> None:
            with redis.Redis.from_url(machine.kept["redis_url"], socket_timeout=5) as client:
                key = streams.beat(machine.host_id)
                client.set(key, client.get(key) or b"", px=streams.BEAT_TTL_MS)

        self.run(name, add)


def _end(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.wait()


@contextlib.contextmanager
def site(root: Path) -> Iterator[Site]:
    with network("redis", *HUBS, *HOSTS) as switch, machines(*HOSTS) as hosts:
        made = Site(root, switch, hosts)
        with made.open():
            yield made
