"""`adsum doctor` beside the real CLI: the two views agree, and a lie of ours is found."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from adsum_shared.state import Group, HostView, SessionView
from tests.hubs import stand_in_hub
from tests.real_cli.cli_rig import Home, Terminal, claude_binary
from tests.real_cli.conftest import Figure, require
from tests.real_cli.fleet import Fleet, Machine, adsum, running_fleet
from tests.real_cli.mock_model import MockModel

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(120)]

ASKS = "Do you want to proceed?"
MANUAL = ("--permission-mode", "manual")


@pytest.fixture(scope="module")
def fleet(_claude: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    require("redis-server")
    folder = tmp_path_factory.mktemp("doctor")
    with MockModel() as model:
        home = Home(folder / "anvil", model.url).seed()
        with running_fleet(folder, {"anvil": home}) as running:
            yield running


def ask(machine: Machine, hub_url: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = adsum(*words, "--hub", hub_url, "--claude", str(claude_binary()))
    env = {**machine.env, "COLUMNS": "80"}
    cwd = machine.home.work
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)


def doctor(machine: Machine, hub_url: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """(exit code, findings by id)."""
    done = ask(machine, hub_url, "doctor", "--json")
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, {each["id"]: each for each in json.loads(done.stdout)["checks"]}


def settled(fleet: Fleet, session_id: str, state: str) -> SessionView:
    fleet.wait_for_state(session_id, state)
    return msgspec.convert(fleet.session(session_id), SessionView)


def test_a_waiting_and_an_idle_session_agree_until_one_of_us_lies(
    fleet: Fleet, figure: Figure
) -> None:
    (machine,) = fleet.machines
    flags = ("--session-id",)
    asking_id, idle_id = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2))
    asking = Terminal(machine.home, (*MANUAL, *flags, asking_id))
    idle = Terminal(machine.home, (*MANUAL, *flags, idle_id))
    with asking, idle:
        asking.type("do play:perm")
        asking.wait_for(ASKS)
        idle.type("do play:text")
        views = [
            settled(fleet, asking_id, "needs_permission"),
            settled(fleet, idle_id, "idle"),
        ]

        began = time.monotonic()
        code, found = doctor(machine, fleet.hub_url)
        figure("adsum doctor with two sessions", time.monotonic() - began)

        assert found["agents"]["result"] == "ok", found["agents"]
        assert "2 sessions" in found["agents"]["what"]
        assert code == 0, [each for each in found.values() if each["result"] == "fail"]
        assert_told_wrong_views(machine, fleet, views)


def assert_told_wrong_views(machine: Machine, fleet: Fleet, views: list[SessionView]) -> None:
    """From a hub that has one of the two at work, and not the other."""
    asking, idle = views
    hosts = httpx.get(f"{fleet.hub_url}/api/v1/hosts").json()["hosts"]
    with stand_in_hub() as hub:
        hub.hosts = msgspec.convert(hosts, list[HostView])
        state = msgspec.structs.replace(asking.state, group=Group.AUTONOMOUS, state="thinking")
        hub.sessions = [msgspec.structs.replace(asking, state=state, requests=())]

        code, found = doctor(machine, hub.url)

    assert (code, found["agents"]["result"]) == (1, "fail")
    lines = sorted(found["agents"]["details"])
    assert len(lines) == 2
    assert lines[0].startswith(asking.session_id[:8])
    assert "Adsum says thinking (" in lines[0]
    assert "Claude Code says waiting, permission prompt." in lines[0]
    assert lines[1].startswith(idle.session_id[:8])
    assert "not in Adsum's list; Claude Code says idle" in lines[1]


def test_asking_the_agent_changes_none_of_its_files(fleet: Fleet) -> None:
    """Asked while no session runs: sessions write of themselves."""
    (machine,) = fleet.machines
    with Terminal(machine.home, MANUAL) as used:
        used.leave()
    before = at_rest(machine.home)

    assert doctor(machine, fleet.hub_url)[1]["agents"]["result"] == "ok"

    assert files_of(machine.home) == before


def at_rest(home: Home) -> dict[str, bytes]:
    """The files once nobody has written them for a second: killed sessions write as they end."""
    found, since = files_of(home), time.monotonic()
    while time.monotonic() - since < 1.0:
        time.sleep(0.1)
        if (now := files_of(home)) != found:
            found, since = now, time.monotonic()
    return found


def files_of(home: Home) -> dict[str, bytes]:
    kept = [home.path / ".claude.json", *(home.path / ".claude").rglob("*")]
    return {str(path): path.read_bytes() for path in kept if path.is_file()}


def test_verify_times_every_way_and_leaves_no_session(fleet: Fleet, figure: Figure) -> None:
    (machine,) = fleet.machines

    done = ask(machine, fleet.hub_url, "hooks", "verify", "--json")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for way in ("collector", "hub", "shim"):
        figure(f"adsum hooks verify: {way}", told[f"{way}_ms"] / 1000)
    assert 0 < told["collector_ms"] < told["hub_ms"] < 1_000
    assert fleet.session("adsum-probe") is None
    key = f"{machine.host_id}:adsum-probe"
    assert httpx.get(f"{fleet.hub_url}/api/v1/sessions/{key}/activity").status_code == 404
