"""What tests of joining share: machines with a home of their own, and a hub's tokens."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from adsum_collector.state_dir import holder_of, running_port
from tests import forked
from tests.brokers import free_port
from tests.hub_processes import HubProcess
from tests.signing_in import admin


class Machine:
    """A user's home on a machine: HOME, state directory, settings of Claude Code."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / ".local" / "state" / "adsum"
        self.settings = home / ".claude" / "settings.json"
        home.mkdir(parents=True)
        self.env = {
            **{
                k: v for k, v in os.environ.items() if not k.startswith(("ADSUM_", "CLAUDE", "XDG"))
            },
            "HOME": str(home),
            "ADSUM_COLLECTOR_PORT": str(free_port()),
            "ADSUM_HOST_LABEL": home.name,
        }

    def run(self, *words: str, told: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        whole = {**self.env, **env}
        return forked.run(*words, env=whole, cwd=self.home, told=told, timeout=90)

    def spawn(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "adsum", *words],
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def join(
        self, url: str, token: str, *more: str, service: bool = False
    ) -> subprocess.CompletedProcess[str]:
        how = () if service else ("--no-service",)
        return self.run("join", url, "--token", "-", "--yes", *how, *more, told=token + "\n")

    @property
    def host_id(self) -> str:
        return str(json.loads((self.state / "host.json").read_bytes())["host_id"])

    @property
    def kept(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "machine.json").read_bytes())
        return found

    def hook(self, session: str, event: str = "UserPromptSubmit") -> None:
        body = {
            "session_id": session,
            "hook_event_name": event,
            "cwd": str(self.home),
            "prompt": "count the trees",
            "transcript_path": f"{self.home}/.claude/projects/x/{session}.jsonl",
        }
        self.post(body)

    def post(self, body: dict[str, Any]) -> None:
        """As Claude Code does, by what stands in the settings: which it is depends on the accounts."""
        hooks = json.loads(self.settings.read_text())["hooks"][body["hook_event_name"]]
        [hook] = [each for entry in hooks for each in entry["hooks"]]
        if hook["type"] == "http":
            reply = httpx.post(hook["url"], json=body, headers=hook["headers"], trust_env=False)
            assert (reply.status_code, reply.content) == (200, b"")
            return
        shim = subprocess.run(
            shlex.split(hook["command"]),
            env=self.env,
            input=json.dumps(body).encode(),
            capture_output=True,
            check=False,
        )
        assert (shim.returncode, shim.stdout, shim.stderr) == (0, b"", b"")

    def ready(self) -> dict[str, Any]:
        facts: dict[str, Any] = httpx.get(
            f"http://127.0.0.1:{running_port(self.state)}/readyz", trust_env=False
        ).json()
        return facts

    def tree(self) -> dict[str, bytes | None]:
        """Every path and what is in it."""
        return {
            str(path.relative_to(self.home)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.home.rglob("*"))
        }

    def end(self) -> None:
        holder = holder_of(self.state)
        if holder is not None and holder.pid.isdecimal():
            os.kill(int(holder.pid), signal.SIGTERM)
            until = time.monotonic() + 15
            while holder_of(self.state) is not None and time.monotonic() < until:
                time.sleep(0.05)


@contextmanager
def machines(*names: str) -> Iterator[list[Machine]]:
    """In a folder with a short name: a socket's path may have but 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="adsum-", ignore_cleanup_errors=True) as folder:
        made = [Machine(Path(folder) / name) for name in names]
        try:
            yield made
        finally:
            for each in made:
                each.end()


def join_token(hub: HubProcess, **asked: Any) -> str:
    with admin(hub) as client:
        made = client.post("/api/v1/join-tokens", json={"expires_s": 3600, **asked})
    assert made.status_code == 200, made.text
    secret: str = made.json()["secret"]
    return secret


def hosts(hub: HubProcess) -> dict[str, dict[str, Any]]:
    """By label."""
    with admin(hub) as client:
        return {each["label"]: each for each in client.get("/api/v1/hosts").json()["hosts"]}


def cards(hub: HubProcess) -> list[dict[str, Any]]:
    with admin(hub) as client:
        found: list[dict[str, Any]] = client.get("/api/v1/sessions").json()["sessions"]
    return found
