"""`adsum up` as a user meets it: one command, everything heals, nothing is left behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests import forked
from tests.brokers import Broker, free_port, require_binary
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(90), pytest.mark.slow]


class Machine:
    """One machine's home, state directory and ports, and the commands run on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "state"
        self.hub_port, self.collector_port = free_port(), free_port()
        self.ups: list[subprocess.Popen[str]] = []
        home.mkdir(parents=True, exist_ok=True)

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADSUM_", "CLAUDE_"))}
        return kept | {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "ADSUM_STATE_DIR": str(self.state),
            "ADSUM_HUB_PORT": str(self.hub_port),
            "ADSUM_COLLECTOR_PORT": str(self.collector_port),
        }

    def adsum(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return forked.run(*words, env=self.env | env)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        with (self.home / "up.err").open("w") as said:
            up = subprocess.Popen(
                [sys.executable, "-m", "adsum", "up", *words],
                env=self.env | env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        self.ups.append(up)
        return up

    def up(self, *words: str, **env: str) -> tuple[subprocess.Popen[str], str]:
        """Started, and what it printed until it was up."""
        up = self.start(*words, **env)
        assert up.stdout is not None
        printed = ""
        while "Ctrl-C" not in printed:
            line = up.stdout.readline()
            assert line, self.said
            printed += line
        return up, printed

    @property
    def said(self) -> str:
        return (self.home / "up.err").read_text()

    def parts(self, up: subprocess.Popen[str]) -> dict[str, psutil.Process]:
        found = {}
        for child in psutil.Process(up.pid).children():
            words = " ".join(child.cmdline())
            name = "broker" if "broker.sock" in words else words.rpartition(" ")[2]
            found[name] = child
        return found

    def post(self, **hook: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.collector_port, timeout=5)
        token = (self.state / "token").read_text().strip()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        with contextlib.closing(connection):
            connection.request("POST", "/api/live/hook", json.dumps(hook), headers)
            return connection.getresponse().status

    def end(self) -> None:
        for up in self.ups:
            if up.poll() is None:
                up.terminate()
                try:
                    up.wait(20)
                except subprocess.TimeoutExpired:
                    up.kill()
                    up.wait()
            if up.stdout:
                up.stdout.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    require_binary()
    machine = Machine(tmp_path / "home")
    yield machine
    machine.end()


def waits(machine: Machine, state: str) -> Callable[[], bool]:
    def waiting() -> bool:
        answer = machine.adsum("agents", "--json")
        if answer.returncode != 0:
            return False
        sessions = json.loads(answer.stdout)["sessions"]
        return [one["state"]["state"] for one in sessions] == [state]

    return waiting


PROMPT = {"session_id": "s-1", "cwd": "/home/a/project", "hook_event_name": "UserPromptSubmit"}
ASK = {**PROMPT, "hook_event_name": "PermissionRequest", "tool_name": "Bash"}


@pytest.mark.core
async def test_one_command_runs_everything_and_it_heals_when_each_part_is_killed(
    machine: Machine,
) -> None:
    up, printed = machine.up()
    assert f"http://127.0.0.1:{machine.hub_port}" in printed
    assert "adsum hooks install`" in printed
    assert machine.post(**PROMPT, prompt="hello") == 200
    assert machine.post(**ASK) == 200
    await wait_until(waits(machine, "needs_permission"), timeout=15, interval=0.2)
    for name in ("hub", "broker", "collector"):
        machine.parts(up)[name].kill()
        await wait_until(lambda name=name: f"The {name} is back." in machine.said, timeout=20)
    await wait_until(waits(machine, "needs_permission"), timeout=15, interval=0.2)
    assert machine.post(**{**PROMPT, "hook_event_name": "SessionEnd"}, reason="other") == 200
    await wait_until(waits(machine, "session_ended"), timeout=15, interval=0.2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_stops_everything_and_leaves_nothing(
    machine: Machine, number: signal.Signals
) -> None:
    up, _ = machine.up("--no-hooks")
    children = list(machine.parts(up).values())
    assert len(children) == 3
    up.send_signal(number)
    assert up.wait(20) == 0
    assert not any(child.is_running() for child in children)
    assert "Adsum has stopped" in machine.said
    assert not (machine.state / "hub.json").exists()


async def test_killed_hard_it_leaves_no_orphan_and_starts_again_where_it_was(
    machine: Machine,
) -> None:
    up, _ = machine.up("--no-hooks")
    assert machine.post(**PROMPT, prompt="hello") == 200
    await wait_until(waits(machine, "thinking"), timeout=15, interval=0.2)
    children = list(machine.parts(up).values())
    up.kill()
    up.wait()
    await wait_until(lambda: not any(child.is_running() for child in children), timeout=15)
    machine.up("--no-hooks")
    await wait_until(waits(machine, "thinking"), timeout=15, interval=0.2)


async def test_a_second_up_names_the_first(machine: Machine) -> None:
    up, _ = machine.up("--no-hooks")
    second = machine.adsum("up")
    assert second.returncode == 1
    assert f"http://127.0.0.1:{machine.hub_port} (process {up.pid})" in second.stderr


@pytest.mark.parametrize("variable", ["ADSUM_HUB_PORT", "ADSUM_COLLECTOR_PORT"])
async def test_a_taken_port_is_named_with_its_owner_and_nothing_starts(
    machine: Machine, variable: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = machine.adsum("up", **{variable: str(port)})
    assert ended.returncode == 1
    assert f"127.0.0.1:{port}: Address already in use (process {os.getpid()}" in ended.stderr
    assert f"{variable}=" in ended.stderr
    assert not (machine.state / "broker").exists()


async def test_with_a_terminal_it_asks_and_installs(machine: Machine) -> None:
    terminal, inside = os.openpty()
    up = subprocess.Popen(
        [sys.executable, "-m", "adsum", "up"],
        env=machine.env,
        stdin=inside,
        stdout=subprocess.PIPE,
        stderr=inside,
        text=True,
    )
    machine.ups.append(up)
    os.close(inside)
    asked = b""
    while b"[Y/n]" not in asked:
        asked += os.read(terminal, 65536)
    assert not (machine.home / ".claude").exists()
    os.write(terminal, b"y\n")
    assert up.stdout is not None
    printed = "".join(iter(up.stdout.readline, "  Ctrl-C stops it.\n"))
    assert f"installed in {machine.home}/.claude/settings.json" in printed
    settings = json.loads((machine.home / ".claude/settings.json").read_text())
    assert "PreToolUse" in settings["hooks"]
    await wait_until(lambda: machine.adsum("hooks", "verify").returncode == 0, timeout=15)
    os.close(terminal)


@pytest.mark.core
async def test_hooks_are_in_the_settings_only_while_it_runs(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}')
    up, _ = machine.up("--yes")
    assert "adsum_collector/shim.py" in settings.read_text()

    up.terminate()
    up.wait(20)

    assert settings.read_text() == '{"model": "opus"}'
    assert "puts them back" in machine.said
    machine.up()
    assert "adsum_collector/shim.py" in settings.read_text()


async def test_while_it_is_stopped_the_status_says_that_hooks_are_out_on_purpose(
    machine: Machine,
) -> None:
    up, _ = machine.up("--yes")
    up.terminate()
    up.wait(20)

    status = machine.adsum("hooks", "status")

    assert status.returncode == 0
    assert "puts them back" in status.stdout


async def test_the_port_of_the_running_collector_counts_whatever_this_shell_believes(
    machine: Machine,
) -> None:
    machine.up("--yes")
    # Posted, whoever else has an account on the machine that runs this.
    machine.adsum("hooks", "install", "--transport", "http")

    status = machine.adsum("hooks", "status", ADSUM_COLLECTOR_PORT="47892")

    assert status.returncode == 0, status.stdout
    assert f"port {machine.collector_port}" in status.stdout


async def test_installing_while_no_collector_runs_says_what_that_looks_like(
    machine: Machine,
) -> None:
    installed = machine.adsum("hooks", "install", "--transport", "http")

    assert installed.returncode == 0
    assert "red line" in installed.stderr


async def test_hooks_removed_by_hand_while_it_is_down_stay_out(machine: Machine) -> None:
    up, _ = machine.up("--yes")
    up.terminate()
    up.wait(20)

    machine.adsum("hooks", "remove")
    _, printed = machine.up()

    assert "not installed" in printed
    assert not (machine.home / ".claude/settings.json").exists()


@pytest.mark.core
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on PATH")
async def test_the_lines_of_the_docs_make_a_session_appear_and_go(machine: Machine) -> None:
    page = (Path(__file__).parents[2] / "docs" / "start.md").read_text()
    section = page.split("## See one appear\n")[1].split("\n## ")[0]
    appear, go = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    usual = machine.home / ".local" / "state" / "adsum"
    usual.parent.mkdir(parents=True)
    usual.symlink_to(machine.state)
    machine.up("--no-hooks")

    def typed(lines: str) -> str:
        words = lines.replace("47892", str(machine.collector_port))
        done = subprocess.run(
            ["sh", "-c", words], env=machine.env, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert typed(appear) == "200\n"
    await wait_until(lambda: "Say hello" in machine.adsum("agents").stdout, 10)
    assert typed(appear.rpartition("hook '")[0] + go) == "200\n"
    await wait_until(lambda: "Say hello" in machine.adsum("history").stdout, 10)


async def test_left_alone_means_hooks_stay_where_they_are(machine: Machine) -> None:
    machine.adsum("hooks", "install")
    up, _ = machine.up("--no-hooks")
    up.terminate()
    up.wait(20)

    assert "adsum_collector/shim.py" in (machine.home / ".claude/settings.json").read_text()


async def test_a_redis_of_the_users_own_is_used_and_never_touched(
    machine: Machine, redis_server: Broker
) -> None:
    up, printed = machine.up("--no-hooks", "--redis-url", redis_server.url)
    assert redis_server.url in printed
    assert set(machine.parts(up)) == {"hub", "collector"}
    assert not (machine.state / "broker").exists()
    up.terminate()
    assert up.wait(20) == 0
    assert redis_server.answers()


async def test_a_redis_that_cannot_be_used_is_named_without_its_password(machine: Machine) -> None:
    away = machine.adsum(
        "up", "--redis-url", f"redis://me:secret@127.0.0.1:{free_port()}/0?password=secret"
    )
    assert away.returncode == 1
    assert "Redis at redis://127.0.0.1:" in away.stderr
    assert "leave it out" in away.stderr
    assert "secret" not in away.stderr


async def test_a_part_alone_needs_a_redis_url(machine: Machine) -> None:
    for part in ("hub", "collector"):
        ended = machine.adsum(part)
        assert ended.returncode == 1
        assert "ADSUM_REDIS_URL" in ended.stderr
        assert "adsum up" in ended.stderr


async def test_the_state_directory_that_cannot_be_made_is_named(machine: Machine) -> None:
    (machine.home / "file").write_text("")
    ended = machine.adsum("up", ADSUM_STATE_DIR=str(machine.home / "file" / "state"))
    assert ended.returncode == 1
    assert "ADSUM_STATE_DIR" in ended.stderr


async def test_what_it_makes_is_private(machine: Machine) -> None:
    machine.up("--no-hooks")
    assert stat.S_IMODE(machine.state.stat().st_mode) == 0o700
    assert stat.S_IMODE((machine.state / "broker").stat().st_mode) == 0o700
    readable = [p for p in machine.state.iterdir() if p.is_file() and p.stat().st_mode & 0o077]
    assert [path.name for path in readable if path.name != "hub.json"] == []


def test_the_version_is_answered_before_anything_is_imported(machine: Machine) -> None:
    quickest = 9.0
    for _ in range(5):
        start = time.perf_counter()
        ended = machine.adsum("--version")
        quickest = min(quickest, time.perf_counter() - start)
    assert ended.stdout.startswith("adsum ")
    assert quickest < 0.3
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "adsum", "--version"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert "typer" not in loaded
