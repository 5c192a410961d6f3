"""The real CLI with our plugin in place of hooks in its settings, and with both."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_cli.cli_rig import claude_binary
from tests.real_cli.conftest import Figure, OpenSession, new_fleet
from tests.real_cli.fleet import Fleet, Machine, adsum, until
from tests.real_cli.session import ASKS, IDLE, Session
from tests.real_cli.timeline import Watcher

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fleet(_claude: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One machine, whose settings hold no hooks of ours but the plugin."""
    with new_fleet(tmp_path_factory.mktemp("plugin"), "anvil") as fleet:
        (machine,) = fleet.machines
        subprocess.run(adsum("hooks", "remove"), env=machine.env, check=True, capture_output=True)
        install_plugin(machine)
        yield fleet


@pytest.fixture(scope="module")
def watcher(fleet: Fleet) -> Iterator[Watcher]:
    with Watcher(fleet.hub_url) as watcher:
        yield watcher


def claude(machine: Machine, *words: str) -> str:
    command = [str(claude_binary()), "plugin", *words]
    done = subprocess.run(
        command, env=machine.home.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install_plugin(machine: Machine) -> None:
    """From a copy of the marketplace: what the CLI writes beside it is not to stand in ours."""
    market = machine.home.path / "market"
    for folder in (".claude-plugin", "plugin"):
        shutil.copytree(ROOT / folder, market / folder)
    claude(machine, "marketplace", "add", str(market))
    claude(machine, "install", "adsum@adsum")


def told_by_doctor(machine: Machine, fleet: Fleet) -> dict[str, dict[str, Any]]:
    command = [*adsum("doctor", "--json", "--hub", fleet.hub_url), "--claude", str(claude_binary())]
    done = subprocess.run(
        command, env=machine.env, cwd=machine.home.work, capture_output=True, text=True, check=False
    )
    return {each["id"]: each for each in json.loads(done.stdout)["checks"]}


def heard(machine: Machine) -> tuple[int, dict[str, int]]:
    """How many hooks were accepted, posted or by the shim; which were refused, and why."""
    told = httpx.get(f"http://127.0.0.1:{machine.port}/readyz", timeout=2).json()
    posted, shim = told["hooks"], told["shim"]
    return posted["accepted"] + shim["accepted"], posted["refused"] | shim["refused"]


def shim_heard(fleet: Fleet) -> bool:
    (host,) = httpx.get(f"{fleet.hub_url}/api/v1/hosts", timeout=2).json()["hosts"]
    return any(each["name"] == "shim" and each.get("heard_at") for each in host["witnesses"])


def play(open_session: OpenSession, machine: Machine, script: str) -> Session:
    """The shim of a plugin is told no socket: it looks where collectors keep it."""
    session = open_session(extra={"ADSUM_STATE_DIR": machine.env["ADSUM_STATE_DIR"]})
    session.play(script)
    session.hub.works()
    session.hub.shows("idle", label=IDLE)
    return session


def doings(fleet: Fleet, session: Session) -> list[tuple[str, str]]:
    url = f"{fleet.hub_url}/api/v1/sessions/{session.machine.host_id}:{session.id}/activity"
    return [(e["kind"], e.get("text", "")) for e in httpx.get(url, timeout=2).json()["entries"]]


def test_both_manifests_are_valid_to_the_cli(fleet: Fleet) -> None:
    for path in (ROOT, ROOT / "plugin"):
        claude(fleet.machines[0], "validate", "--strict", str(path))


@pytest.mark.core
def test_sessions_report_through_the_plugin_alone(
    fleet: Fleet, open_session: OpenSession, figure: Figure
) -> None:
    (machine,) = fleet.machines
    before, refused = heard(machine)
    session = open_session(mode="manual", extra={"ADSUM_STATE_DIR": machine.env["ADSUM_STATE_DIR"]})
    until(lambda: shim_heard(fleet), "SessionStart to arrive through the plugin's shim")
    session.play("perm")
    asked = session.sees(ASKS)
    figure("plugin: permission shown", session.hub.shows("needs_permission") - asked)
    session.answer("Enter", ASKS)
    session.hub.shows("idle", label=IDLE)

    until(lambda: heard(machine)[0] - before >= 5, "all hooks of the turn to arrive")
    assert heard(machine)[1] == refused
    assert not any("hook error" in line for line in session.terminal.screen().splitlines())
    found = told_by_doctor(machine, fleet)
    assert (found["hooks"]["result"], found["hooks-doubled"]["result"]) == ("ok", "ok"), found
    assert "adsum@adsum" in found["hooks"]["what"]


def test_hooks_in_the_settings_as_well_count_nothing_twice(
    fleet: Fleet, open_session: OpenSession
) -> None:
    (machine,) = fleet.machines
    alone = play(open_session, machine, "bash")
    single, _ = heard(machine)

    machine.install_hooks()
    both = play(open_session, machine, "bash")

    assert heard(machine)[0] - single > 4
    until(lambda: len(doings(fleet, both)) >= len(doings(fleet, alone)), "all to be told")
    assert doings(fleet, both) == doings(fleet, alone)
    doubled = told_by_doctor(machine, fleet)["hooks-doubled"]
    assert (doubled["result"], doubled["fix"]) == ("warn", "adsum hooks remove"), doubled
