"""The units as systemd itself reads them, and the collector behind sockets that systemd opens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adsum.client import SilentError, readiness
from adsum.service.job import env_values
from adsum.service.service import install_service
from tests import service_managers
from tests.brokers import free_port
from tests.service_managers import Fake
from tests.support import wait_until

pytestmark = [pytest.mark.timeout(90), pytest.mark.slow]


def require(program: str) -> str:
    """Skips locally, fails in CI, where scripts/system-deps installs it."""
    found = shutil.which(program)
    if found is None:
        reason = f"no {program} on PATH; Debian has it in the package systemd"
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    """Only a home: nobody is asked to start anything."""
    return service_managers.install(monkeypatch, tmp_path)


def written(fake: Fake, *, system: bool) -> list[Path]:
    folder = fake.home / ("system" if system else "user")
    folder.mkdir()
    paths = []
    for path, (text, _) in install_service(system=system, hub=True, dry_run=True).files.items():
        if path.suffix in {".service", ".socket"}:
            paths.append(folder / path.name)
            paths[-1].write_text(text)
    return paths


@pytest.mark.parametrize("scope", ["user", "system"])
def test_systemd_finds_nothing_wrong_with_the_units(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    analyze = require("systemd-analyze")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(fake.folder))
    units = written(fake, system=scope == "system")
    ended = subprocess.run(
        [analyze, f"--{scope}", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )

    ours = [line for line in ended.stderr.splitlines() if "adsum" in line]
    assert len(units) == 3
    assert (ended.returncode, ours) == (0, [])


def test_the_hardening_is_scored(fake: Fake) -> None:
    """0 is best, 10 is no hardening at all; a user's manager can do less, and is not scored."""
    analyze = require("systemd-analyze")
    scores = {}
    for unit in written(fake, system=True):
        if unit.suffix == ".service":
            command = [analyze, "security", "--no-pager", "--offline=true", unit]
            told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            score = re.search(r"exposure level for \S+: ([\d.]+)", told)
            assert score, told
            scores[unit.stem] = float(score[1])

    print(f"systemd-analyze security: {scores}")
    assert max(scores.values()) < 3


@pytest.fixture
def activated(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """What the written files say, started by systemd's own little socket activator."""
    activate = require("systemd-socket-activate")
    port = str(free_port())
    monkeypatch.setenv("ADSUM_COLLECTOR_PORT", port)
    monkeypatch.setenv("ADSUM_REDIS_URL", "redis://127.0.0.1:1")  # collecting goes on without
    files = {path.name: text for path, (text, _) in install_service(dry_run=True).files.items()}
    doors = re.findall(r"^ListenStream=(.*)$", files["adsum-collector.socket"], re.MULTILINE)
    command = re.search(r"^ExecStart=(.*)$", files["adsum-collector.service"], re.MULTILINE)
    assert command is not None
    fake.state_dir.mkdir(mode=0o700)
    told = env_values(files["collector.env"])
    with (fake.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                activate,
                *(f"--listen={door}" for door in doors),
                *(f"--setenv={name}={value}" for name, value in told.items()),
                *shlex.split(command[1]),
            ],
            stderr=log,
        )
    yield f"http://127.0.0.1:{port}", fake.state_dir / "collector.sock"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0, (fake.folder / "log").read_text()


async def test_the_collector_takes_both_doors_from_systemd(activated: tuple[str, Path]) -> None:
    url, door = activated
    message = {
        "v": 1,
        "id": "shim-1",
        "at": time.time_ns() // 1_000_000,
        "pid": os.getpid(),
        "body": {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"},
    }

    def ready() -> bool:
        with contextlib.suppress(SilentError):
            return bool(readiness(url)["ready"])
        return False

    await wait_until(door.is_socket, timeout=30)
    answered = await asyncio.to_thread(speak, door, message)  # before it has even started

    assert answered["ok"] is True
    await wait_until(ready, timeout=30)


def speak(door: Path, message: object) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        line.connect(str(door))
        line.sendall(json.dumps(message).encode() + b"\n")
        answer: dict[str, object] = json.loads(line.makefile().readline())
        return answer
