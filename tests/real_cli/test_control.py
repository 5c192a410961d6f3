"""Decisions from elsewhere on the real CLI: hub, Redis, collector, the hook that waits, its dialog."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_cli.cli_rig import claude_binary
from tests.real_cli.conftest import Figure, new_fleet
from tests.real_cli.fleet import Fleet, adsum, until
from tests.real_cli.session import ASKS, Session
from tests.real_cli.timeline import Watcher

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(120)]

COLOUR = "Which colour should the button be?"
FEATURES = "Which features do you want?"
CLICKS = 20


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet whose machine's owner agreed, by the command that they type."""
    pytest.importorskip("cryptography")
    with new_fleet(tmp_path_factory.mktemp("control"), "anvil") as fleet:
        until(lambda: fleet_keys(fleet), "the hub to show its key")
        control(fleet, "approve", "--yes")
        until(lambda: "approve" in levels(fleet), "the hub to know of the consent")
        yield fleet


def fleet_keys(fleet: Fleet) -> Any:
    return httpx.get(f"{fleet.hub_url}/api/v1/command-keys").json().get("keys")


def levels(fleet: Fleet) -> list[str]:
    hosts = httpx.get(f"{fleet.hub_url}/api/v1/hosts").json()["hosts"]
    return [str(each.get("control")) for each in hosts]


def control(fleet: Fleet, *words: str) -> str:
    machine = fleet.machines[0]
    program = ("--claude", str(claude_binary(machine.home.version))) if words[0] != "trail" else ()
    command = adsum("control", *words, *program)
    done = subprocess.run(command, env=machine.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Decider:
    """Somebody elsewhere, who sees what the hub lists of one session."""

    def __init__(self, fleet: Fleet, session: Session) -> None:
        self._fleet = fleet
        self.session = session
        self.work = session.machine.home.work
        host = session.machine.host_id
        self._url = f"{fleet.hub_url}/api/v1/sessions/{host}:{session.id}/commands"

    def play(self, script: str) -> None:
        """Without an eye on what the hub shows between: others' tests see to that."""
        self.session.terminal.type(f"do play:{script}")

    def requests(self) -> list[dict[str, Any]]:
        view = self._fleet.session(self.session.id) or {}
        return [each for each in view.get("requests", []) if each.get("hold")]

    def asked(self, count: int = 1) -> list[dict[str, Any]]:
        return until(
            lambda: found if len(found := self.requests()) >= count else [],
            "a request that is held",
            timeout=15,
            more=lambda: str(self._fleet.session(self.session.id)) + self.session.terminal.screen(),
        )

    def decide(self, verb: str, request: dict[str, Any] | None = None, **more: Any) -> str:
        """The command's id, once the hub has taken it."""
        request = request or self.asked()[0]
        body = {"verb": verb, "request_id": request["id"], "binding": request["hold"]["binding"]}
        answer = httpx.post(self._url, json=body | more, timeout=10)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["command"]["id"])

    def outcome(self, command_id: str) -> str:
        answer = httpx.get(f"{self._url}/{command_id}?wait=15", timeout=20).json()
        return str(answer["command"]["outcome"])

    def made(self, name: str, within: float = 8) -> None:
        until((self.work / name).exists, f"{name} to be made", timeout=within)

    def idle(self) -> None:
        self._fleet.wait_for_state(self.session.id, "idle", 15)

    def lines(self) -> list[dict[str, Any]]:
        return self.session.machine.home.told_in(self.session.id)

    def told(self, text: str) -> None:
        """The model has it in the result of its call."""
        until(
            lambda: any(text in json.dumps(each.get("message", "")) for each in self.lines()),
            f"the model to be told {text!r}",
            timeout=8,
            more=self.session.terminal.screen,
        )


@pytest.fixture
def decider(decided: Fleet) -> Iterator[Callable[..., Decider]]:
    """A session in a terminal and who decides for it, to the end of the test."""
    with contextlib.ExitStack() as open_until, Watcher(decided.hub_url) as watcher:

        def start(script: str, *flags: str, mode: str = "manual") -> Decider:
            session = Session(decided.machines[0], watcher, *flags, mode=mode)
            open_until.enter_context(session.terminal)
            who = Decider(decided, session)
            who.play(script)
            return who

        yield start


@pytest.mark.core
def test_allow_runs_the_call_as_it_was_shown(decider: Callable[..., Decider]) -> None:
    who = decider("perm")
    (request,) = who.asked()
    assert request["payload"]["command"] == "mkdir -p made/here"
    assert request["hold"]["until"] > (time.time() + 3600) * 1000  # somebody sits at this terminal
    who.session.terminal.wait_for(ASKS)

    given = who.decide("allow")

    who.made("made/here")
    assert who.outcome(given) == "took_effect"
    who.session.terminal.wait_for("The folder stands.")


def test_always_asks_no_second_time(decider: Callable[..., Decider]) -> None:
    who = decider("always")
    (request,) = who.asked()
    assert request["hold"]["always"]

    given = who.decide("always")

    assert who.outcome(given) == "took_effect"
    who.session.terminal.wait_for("Checked once.")
    who.play("always")
    until(lambda: who.session.terminal.screen().count("Checked once.") > 1, "the second run")
    assert not (who.work / ".claude" / "settings.local.json").exists()


@pytest.mark.core
def test_a_denial_tells_the_model_who_and_why(decider: Callable[..., Decider]) -> None:
    who = decider("perm2")

    given = who.decide("deny", text="use build/ instead")

    who.told("with Adsum: use build/ instead")
    assert who.outcome(given) == "took_effect"
    assert not (who.work / "made/second").exists()


def test_a_denial_can_end_the_turn(decider: Callable[..., Decider]) -> None:
    who = decider("perm2")

    given = who.decide("deny", stop=True)

    who.idle()
    assert who.outcome(given) == "took_effect"
    assert not (who.work / "made/second").exists()


@pytest.mark.parametrize(
    ("script", "answers", "told"),
    [
        ("ask", {COLOUR: ["Blue"]}, "Blue"),
        ("ask", {COLOUR: ["Neither, make it green"]}, "Neither, make it green"),
        ("askm", {FEATURES: ["Logging", "Tracing"]}, "Logging, Tracing"),
        ("ask2", {COLOUR: ["Red"], FEATURES: ["Metrics"]}, "Metrics"),
    ],
)
def test_questions_are_answered(
    decider: Callable[..., Decider], script: str, answers: Any, told: str
) -> None:
    who = decider(script)

    given = who.decide("answer", answers=answers)

    who.told(told)
    assert who.outcome(given) == "took_effect"


def test_a_plan_is_approved_with_a_mode(decider: Callable[..., Decider]) -> None:
    who = decider("plan", mode="plan")

    given = who.decide("plan", mode="acceptEdits")

    assert who.outcome(given) == "took_effect"
    who.session.terminal.wait_for("The plan is carried out.")
    who.session.terminal.wait_for("accept edits on")


def test_a_plan_is_edited(decider: Callable[..., Decider]) -> None:
    who = decider("plan", mode="plan")

    given = who.decide("plan", text="# Plan\n\n1. Do something else\n")

    who.told("Do something else")
    assert who.outcome(given) == "took_effect"


def test_a_plan_is_sent_back(decider: Callable[..., Decider]) -> None:
    who = decider("plan", mode="plan")

    given = who.decide("deny", text="Add tests first.")

    who.told("Add tests first.")
    assert who.outcome(given) == "took_effect"
    assert "plan mode on" in who.session.terminal.screen()


@pytest.mark.parametrize(("key", "script"), [("Enter", "permslow"), ("Escape", "perm2")])
def test_what_the_keyboard_answered_is_retired_within_a_second(
    decider: Callable[..., Decider], figure: Figure, key: str, script: str
) -> None:
    who = decider(script)
    (request,) = who.asked()

    answered = who.session.terminal.press_until_gone(key, ASKS)

    until(lambda: not who.requests(), "the request to be retired", timeout=5)
    figure(f"control: retired after {key}", time.monotonic() - answered)
    body = {"verb": "deny", "request_id": request["id"], "binding": request["hold"]["binding"]}
    host = who.session.machine.host_id
    url = f"{who._fleet.hub_url}/api/v1/sessions/{host}:{who.session.id}/commands"
    assert httpx.post(url, json=body).status_code in (409, 410)


@pytest.mark.core
def test_key_and_click_in_the_same_instant_never_both_never_neither(
    decider: Callable[..., Decider],
) -> None:
    """The key runs the call, the click denies it. What is told is what happened."""
    who = decider("stamp")
    for turn in range(5):
        if turn:
            who.play("stamp")
        stamp = who.work / "stamp"
        stamp.unlink(missing_ok=True)
        request = who.asked()[0]
        who.session.terminal.wait_for(ASKS)
        time.sleep(0.5)  # a dialog swallows keys that come as it appears
        pressing = threading.Timer(0.01 * turn, who.session.terminal.press, ("Enter",))
        pressing.start()
        body = {"verb": "deny", "request_id": request["id"], "binding": request["hold"]["binding"]}
        answer = httpx.post(who._url, json=body, timeout=10)
        pressing.join()
        until(lambda: not who.requests(), "an end of it")
        if answer.status_code == 202:
            outcome = who.outcome(answer.json()["command"]["id"])
            assert (outcome == "took_effect") != stamp.exists(), outcome
        else:
            who.made("stamp")
        who.idle()


def test_two_subagents_each_get_their_own_answer(decider: Callable[..., Decider]) -> None:
    who = decider("agents2", "--allowedTools", "Agent")
    asked = {each["payload"]["command"]: each for each in who.asked(2)}

    denied = who.decide("deny", asked["touch by-b"])
    allowed = who.decide("allow", asked["touch by-a"])

    who.made("by-a")
    assert who.outcome(allowed) == "took_effect"
    assert who.outcome(denied) == "took_effect"
    assert not (who.work / "by-b").exists()


@pytest.mark.core
def test_a_killed_collector_leaves_the_dialog_and_no_trace(decider: Callable[..., Decider]) -> None:
    who = decider("perm3")
    who.asked()
    who.session.terminal.wait_for(ASKS)
    collector = who.session.machine.collector
    try:
        collector.kill()

        screen = who.session.terminal.screen()
        assert ASKS in screen
        assert "failed" not in screen
        who.session.terminal.press_until_gone("Enter", ASKS)
        who.made("made/third")
    finally:
        collector.start()
    until(lambda: not who.requests(), "the hub to know that it is held no more")
    hooks = [(each.get("attachment") or {}).get("hookEvent") for each in who.lines()]
    assert "PermissionRequest" not in hooks


def test_from_the_command_to_the_tools_first_instruction(
    decider: Callable[..., Decider], figure: Figure
) -> None:
    who = decider("stamps")
    took: list[float] = []
    for turn in range(CLICKS):
        if turn:
            who.play("stamps")
        stamp = who.work / "stamp"
        stamp.unlink(missing_ok=True)
        request = who.asked()[0]
        given = time.time()
        who.decide("allow", request)
        who.made("stamp")
        took.append(float(until(stamp.read_text, "the time in it")) - given)
        who.idle()
    took.sort()
    figure("control: click to the tool, p50", took[len(took) // 2])
    figure("control: click to the tool, p99", took[-1])


def test_the_trail_has_it_all_and_is_whole(decided: Fleet) -> None:
    assert "whole" in control(decided, "trail", "--verify")
    assert "took_effect" in control(decided, "trail")


@pytest.mark.core
def test_control_that_ends_takes_the_hooks_that_wait_out(decided: Fleet) -> None:
    settings: Path = decided.machines[0].home.settings
    assert "--hold" in settings.read_text()

    control(decided, "off")

    assert "--hold" not in settings.read_text()
    control(decided, "approve", "--yes")
    kept = decided.machines[0].home.path / "adsum" / "control.json"
    assert not kept.stat().st_mode & 0o077
