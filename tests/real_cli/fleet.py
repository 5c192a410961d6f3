"""The whole of Adsum as real processes: a broker, a hub, machines; each can be killed and restarted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.real_cli.cli_rig import Home, claude_binary
from tests.seals import SECRET

T = TypeVar("T")
_POLL_S = 0.02


@dataclass
class Part:
    """One process. is_up: whether it answers."""

    command: list[str]
    env: dict[str, str]
    log: Path
    is_up: Callable[[], bool]
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until(self._is_settled, f"{self.log.stem} to answer", more=self._last_words)
        assert self.is_up(), self._last_words()

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """As the kernel does it: no last word, no clean-up."""
        self._end(subprocess.Popen.kill)

    def stop(self) -> None:
        self._end(subprocess.Popen.terminate)

    def _end(self, end: Callable[[subprocess.Popen[bytes]], None]) -> None:
        if self._process is not None:
            end(self._process)
            self._process.wait(10)
            self._process = None

    def _is_settled(self) -> bool:
        return self.is_up() or (self._process is not None and self._process.poll() is not None)

    def _last_words(self) -> str:
        return self.log.read_text()[-2000:]


@dataclass
class Machine:
    """A host of its own as far as Adsum can tell: HOME, state directory, port, identity."""

    label: str
    home: Home
    port: int
    redis_url: str
    #: Whose keys `adsum control` trusts.
    hub_url: str = ""
    collector: Part = field(init=False)

    def __post_init__(self) -> None:
        log = self.home.path / f"collector-{self.label}.log"
        url = f"http://127.0.0.1:{self.port}/livez"
        self.collector = Part(adsum("collector"), self.env, log, lambda: answers(url))

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.path),
            "TMPDIR": str(self.home.path / "tmp"),  # also of the agents that the collector starts
            "ADSUM_STATE_DIR": str(self.home.path / "adsum"),
            "ADSUM_COLLECTOR_PORT": str(self.port),
            "ADSUM_HOST_LABEL": self.label,
            "ADSUM_REDIS_URL": self.redis_url,
            **({"ADSUM_HUB_URL": self.hub_url} if self.hub_url else {}),
        }

    @property
    def host_id(self) -> str:
        host: dict[str, str] = json.loads((self.home.path / "adsum" / "host.json").read_text())
        return host["host_id"]

    def install_hooks(self, transport: str = "http") -> None:
        """By the command a user types. transport: whatever accounts the machine of the tests has."""
        words = ("--claude", str(claude_binary(self.home.version)), "--transport", transport)
        command = adsum("hooks", "install", *words)
        subprocess.run(command, env=self.env, check=True, capture_output=True)


@dataclass
class Fleet:
    """Machines that share a broker, and one hub."""

    broker: Part
    hub: Part
    hub_url: str
    machines: list[Machine]

    def session(self, session_id: str) -> dict[str, Any] | None:
        """What the hub's list says of it now; None: not listed, or the hub is away."""
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(f"{self.hub_url}/api/v1/sessions", timeout=2)
            for session in answer.json()["sessions"]:
                if session["session_id"] == session_id:
                    return dict(session)
        return None

    def state(self, session_id: str) -> str | None:
        session = self.session(session_id)
        return str(session["state"]["state"]) if session else None

    def wait_for_state(self, session_id: str, state: str, timeout: float = 10.0) -> float:
        """The monotonic moment at which the hub listed it so."""
        until(
            lambda: self.state(session_id) == state,
            f"{session_id} to be {state}",
            timeout=timeout,
            more=lambda: str(self.session(session_id)),
        )
        return time.monotonic()

    def agents(self) -> dict[str, dict[str, Any]]:
        """What `adsum agents --json` lists, by session id."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.hub.log.parent)}
        command = adsum("agents", "--json", "--hub", self.hub_url)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return {session["session_id"]: session for session in json.loads(done.stdout)["sessions"]}


@contextlib.contextmanager
def running_fleet(
    folder: Path, homes: Mapping[str, Home], kind: type[Machine] = Machine
) -> Iterator[Fleet]:
    """A broker, a hub, and a collector with hooks installed for each of the homes, by label."""
    redis_port, hub_port = free_port(), free_port()
    redis_url, hub_url = f"redis://127.0.0.1:{redis_port}", f"http://127.0.0.1:{hub_port}"
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    hub_env = {
        **env,
        "ADSUM_STATE_DIR": str(folder / "hub"),
        "ADSUM_HUB_PORT": str(hub_port),
        "ADSUM_SIGN_IN": "off",
        "ADSUM_HUB_SECRET": SECRET,
        "ADSUM_DEMO": "on",  # else it would sign no decision
        "ADSUM_REDIS_URL": redis_url,
    }
    fleet = Fleet(
        Part(_redis(folder, redis_port), env, folder / "broker.log", lambda: accepts(redis_port)),
        Part(adsum("hub"), hub_env, folder / "hub.log", lambda: answers(f"{hub_url}/readyz")),
        hub_url,
        [kind(label, home, free_port(), redis_url, hub_url) for label, home in homes.items()],
    )
    collectors = [machine.collector for machine in fleet.machines]
    try:
        for part in (fleet.broker, fleet.hub, *collectors):
            part.start()
        for machine in fleet.machines:
            machine.install_hooks()
        yield fleet
    finally:
        for part in (*collectors, fleet.hub, fleet.broker):
            part.stop()


def adsum(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "adsum", *words]


def _redis(folder: Path, port: int) -> list[str]:
    durable = ["--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"]
    return [
        "redis-server",
        "--bind",
        "127.0.0.1",
        "--port",
        str(port),
        "--dir",
        str(folder),
        *durable,
    ]


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, timeout=2).is_success
    return False


def until(
    so: Callable[[], T], what: str, *, timeout: float = 30.0, more: Callable[[], str] | None = None
) -> T:
    """The first truthy answer. more: what to show when there is none in time."""
    deadline = time.monotonic() + timeout
    while not (answer := so()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s for {what}. {more() if more else ''}")
        time.sleep(_POLL_S)
    return answer
