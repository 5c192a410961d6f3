"""Suspend and resume on the real CLI: hub, Redis, collector, and sessions that a user started."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_cli.cli_rig import claude_binary
from tests.real_cli.conftest import Figure, new_fleet
from tests.real_cli.fleet import Fleet, adsum, until
from tests.real_cli.session import IDLE, Session
from tests.real_cli.timeline import Watcher

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def controlled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet whose machine's owner lets everything be done."""
    pytest.importorskip("cryptography")
    with new_fleet(tmp_path_factory.mktemp("suspend"), "anvil") as fleet:
        machine = fleet.machines[0]
        machine.collector.env["TMUX_TMPDIR"] = str(machine.home.path)
        restart(fleet)
        until(lambda: httpx.get(f"{fleet.hub_url}/api/v1/command-keys").json().get("keys"), "keys")
        program = ("--claude", str(claude_binary(machine.home.version)))
        command = adsum("control", "full", "--yes", *program)
        subprocess.run(command, env=machine.env, check=True, capture_output=True)
        until(lambda: "full" in levels(fleet), "the hub to know of the consent")
        yield fleet
        kill = ["tmux", "-L", "adsum", "kill-server"]
        subprocess.run(kill, env=machine.collector.env, capture_output=True, check=False)


def levels(fleet: Fleet) -> list[str]:
    hosts = httpx.get(f"{fleet.hub_url}/api/v1/hosts").json()["hosts"]
    return [str(each.get("control")) for each in hosts if each["reachability"] == "live"]


def restart(fleet: Fleet) -> None:
    fleet.machines[0].collector.stop()
    fleet.machines[0].collector.start()


class Owner:
    """Somebody elsewhere, for one session."""

    def __init__(self, fleet: Fleet, session: Session) -> None:
        self.fleet, self.session = fleet, session
        host = session.machine.host_id
        self._url = f"{fleet.hub_url}/api/v1/sessions/{host}:{session.id}/commands"

    def give(self, verb: str, **more: Any) -> dict[str, Any]:
        """What its machine says of it at last; or the hub's refusal."""
        answer = httpx.post(self._url, json={"verb": verb} | more, timeout=10)
        if answer.status_code != 202:
            return {"outcome": "no command", "reason": answer.json()["error"]}
        named = answer.json()["command"]["id"]
        told: dict[str, Any] = {}
        until(
            lambda: (
                told.update(httpx.get(f"{self._url}/{named}?wait=10", timeout=20).json())
                or told["final"]
            ),
            f"an end of {verb}",
            timeout=120,
            more=lambda: str(told),
        )
        return dict(told["command"])

    def works_then_rests(self) -> None:
        self.session.terminal.type("do play:text")
        self.rests()

    def rests(self) -> None:
        """After a turn: before its first one a session is idle too, and ready."""
        until(
            lambda: self.view().get("state", {}).get("label") == IDLE,
            "its turn to be over",
            timeout=60,
            more=lambda: str(self.view()),
        )

    def view(self) -> dict[str, Any]:
        return self.fleet.session(self.session.id) or {}

    def prompts(self) -> list[str]:
        found = [p for p in self.session.machine.home.transcripts() if p.stem == self.session.id]
        return [
            line for p in found for line in p.read_text().splitlines() if '"role":"user"' in line
        ]


@pytest.fixture
def owner(controlled: Fleet) -> Iterator[Callable[..., Owner]]:
    with contextlib.ExitStack() as open_until, Watcher(controlled.hub_url) as watcher:

        def start(*flags: str, mode: str = "manual") -> Owner:
            session = Session(controlled.machines[0], watcher, *flags, mode=mode)
            open_until.enter_context(session.terminal)
            return Owner(controlled, session)

        yield start


@pytest.mark.core
def test_suspended_over_restarts_and_resumed_with_a_message(
    owner: Callable[..., Owner], controlled: Fleet, figure: Figure
) -> None:
    who = owner("--effort", "low")
    who.works_then_rests()
    time.sleep(1)  # a registry that lags behind is not believed
    pid, began = who.session.terminal.pid, time.monotonic()

    told = who.give("suspend")

    assert told["outcome"] == "took_effect", told
    figure("control: suspend, command to outcome", time.monotonic() - began)
    until(lambda: not Path(f"/proc/{pid}").exists(), "its process to be gone")
    controlled.wait_for_state(who.session.id, "suspended")
    freed = who.view()["suspended"]["freed_bytes"]
    assert freed > 100 << 20

    restart(controlled)
    controlled.hub.stop()
    controlled.hub.start()
    controlled.wait_for_state(who.session.id, "suspended", 20)
    until(lambda: "full" in levels(controlled), "the machine to be heard again")
    began = time.monotonic()
    told = who.give("resume", text="do play:talk")

    assert told["outcome"] == "took_effect", told
    figure("control: resume, command to outcome", time.monotonic() - began)
    assert "tmux -L adsum attach" in told["reason"]
    until(lambda: any("do play:talk" in each for each in who.prompts()), "its message to be there")
    who.rests()
    words = Path(f"/proc/{who.view()['pid']}/cmdline").read_bytes().split(b"\0")
    assert words[1:3] == [b"--resume", who.session.id.encode()]
    assert words[3:5] == [b"--effort", b"low"]


def test_what_works_or_holds_a_draft_is_not_suspended(owner: Callable[..., Owner]) -> None:
    who = owner()
    who.works_then_rests()
    who.session.terminal._tmux("send-keys", "-l", "half of a tho")
    who.session.terminal.wait_for("half of a tho")
    time.sleep(4)  # the keys of somebody who types are another reason

    told = who.give("suspend")
    assert (told["outcome"], "typed" in told["reason"]) == ("refused", True), told

    who.session.terminal.press("C-u")
    who.session.terminal.type("do play:slow")
    who.fleet.wait_for_state(who.session.id, "thinking", 20)
    assert "It works" in who.give("suspend")["reason"]
    assert who.session.terminal.screen()


def test_rest_suspends_and_a_prompt_resumes_without_the_bypass(
    owner: Callable[..., Owner], controlled: Fleet
) -> None:
    who = owner(mode="bypassPermissions")
    who.works_then_rests()
    config = controlled.machines[0].home.path / ".config" / "adsum" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[control]\nsuspend_after_min = 0.05\n")
    try:
        controlled.wait_for_state(who.session.id, "suspended", 60)
    finally:
        config.unlink()
    assert who.view()["suspended"]["auto"] is True

    told = who.give("prompt", text="do play:text")

    assert told["outcome"] == "took_effect", told
    assert "skipped permissions" in told["reason"]
    who.rests()
    assert who.view().get("mode") != "bypassPermissions"
