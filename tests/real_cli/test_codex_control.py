"""Decisions, prompts and interrupts from elsewhere, for the real Codex in its background server."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.real_cli.cli_rig import CliMissingError, Terminal
from tests.real_cli.codex_rig import PAINTED, CodexHome, MockResponses, codex_binary
from tests.real_cli.conftest import require
from tests.real_cli.fleet import Fleet, adsum, running_fleet, until
from tests.real_cli.test_codex_hooks import session
from tests.real_cli.test_codex_states import ASKED, CodexMachine, begins

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    require("tmux", "redis-server")
    pytest.importorskip("cryptography")
    try:
        codex_binary()
    except CliMissingError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("codex-control")
    with MockResponses() as model:
        home = CodexHome(folder / "anvil", model.url, shared=True).seed()
        with home.server(), running_fleet(folder, {"anvil": home}, CodexMachine) as fleet:
            keys = f"{fleet.hub_url}/api/v1/command-keys"
            until(lambda: httpx.get(keys).json().get("keys"), "the hub to show its key")
            words = adsum("control", "full", "--yes")
            env = fleet.machines[0].env
            subprocess.run(words, env=env, check=True, capture_output=True, text=True)
            yield fleet


class Decider:
    """Somebody elsewhere, and a session whose terminal stands beside it."""

    def __init__(self, fleet: Fleet, terminal: Terminal, words: str) -> None:
        self.fleet, self.terminal = fleet, terminal
        self.session = begins(fleet, terminal, words)
        host = fleet.machines[0].host_id
        self.url = f"{fleet.hub_url}/api/v1/sessions/{host}:{self.session}/commands"

    def requests(self) -> list[dict[str, Any]]:
        return list((self.fleet.session(self.session) or {}).get("requests", []))

    def asked(self) -> dict[str, Any]:
        return until(
            lambda: [each for each in self.requests() if each.get("hold")],
            "a request that is held",
            more=lambda: f"{self.fleet.session(self.session)} {self.terminal.screen()}",
        )[0]

    def do(self, verb: str, **more: Any) -> str:
        answer = httpx.post(self.url, json={"verb": verb, **more}, timeout=10)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["command"]["id"])

    def decide(self, verb: str, **more: Any) -> str:
        asked = self.asked()
        return self.do(verb, request_id=asked["id"], binding=asked["hold"]["binding"], **more)

    def outcome(self, command: str) -> str:
        answer = httpx.get(f"{self.url}/{command}?wait=15", timeout=20).json()
        return str(answer["command"]["outcome"])

    def rests(self) -> None:
        self.fleet.wait_for_state(self.session, "idle", 30)


@pytest.fixture
def decider(fleet: Fleet) -> Iterator[Callable[[str], Decider]]:
    with Terminal(fleet.machines[0].home, ()) as terminal:
        yield lambda words: Decider(fleet, terminal, words)


def test_allow_runs_the_command_as_it_was_shown(decider: Callable[[str], Decider]) -> None:
    who = decider("do play:perm")
    asked = who.asked()
    assert asked["payload"]["command"] == "mkdir -p sub && touch sub/f"
    assert asked["hold"]["verbs"] == ["allow", "deny", "defer"]
    who.terminal.wait_for(ASKED)  # its dialog stands all the while

    given = who.decide("allow")

    assert who.outcome(given) == "took_effect"
    who.terminal.wait_for("The folder stands.")
    assert ASKED not in who.terminal.screen()
    who.rests()


@pytest.mark.parametrize("stop", [False, True])
def test_a_denial_lets_the_turn_go_on_or_ends_it(
    decider: Callable[[str], Decider], stop: bool
) -> None:
    who = decider("do play:perm")

    given = who.decide("deny", **({"stop": True} if stop else {}))

    assert who.outcome(given) == "took_effect"
    who.terminal.wait_for("Conversation interrupted" if stop else "The folder stands.")
    who.rests()


@pytest.mark.core
def test_a_patch_is_shown_whole_and_allowed(decider: Callable[[str], Decider]) -> None:
    who = decider("do play:patch")
    machine = who.fleet.machines[0]
    assert f"*** Add File: {PAINTED}\n+red" in who.asked()["payload"]["command"]

    words = adsum("approve", who.session, "--yes", "--hub", who.fleet.hub_url)
    done = subprocess.run(words, env=machine.env, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr  # it took effect
    assert "+red" in done.stderr + done.stdout
    until((machine.home.work / PAINTED).exists, "the file")


def test_what_a_subagent_asks_is_decided(decider: Callable[[str], Decider]) -> None:
    who = decider("do play:spawnperm")
    assert who.asked()["agent_id"]

    given = who.decide("allow")

    assert who.outcome(given) == "took_effect"
    who.rests()


def test_a_question_is_answered_as_at_the_terminal(
    fleet: Fleet, decider: Callable[[str], Decider]
) -> None:
    home = fleet.machines[0].home
    assert isinstance(home, CodexHome)
    with Terminal(home, ()) as terminal:
        terminal.type("/plan")
        terminal.wait_for("Plan mode (")
        who = Decider(fleet, terminal, "what play:ask")
        answers = {"Which colour is it?": ["Blue"]}

        given = who.decide("answer", answers=answers, notes={"Which colour is it?": "a dark one"})

        assert who.outcome(given) == "took_effect"
        who.rests()
    told = [each.read_text() for each in home.rollouts() if who.session in each.name]
    assert '[\\"Blue\\",\\"user_note: a dark one\\"]' in told[0]


def test_the_keyboard_was_first(decider: Callable[[str], Decider]) -> None:
    who = decider("do play:perm")
    asked = who.asked()
    who.terminal.press_until_gone("y", ASKED)

    until(lambda: not who.requests(), "an end of it", timeout=5)
    body = {"verb": "deny", "request_id": asked["id"], "binding": asked["hold"]["binding"]}
    assert httpx.post(who.url, json=body).status_code in (409, 410)
    who.rests()


def test_key_and_click_in_the_same_instant(fleet: Fleet, decider: Callable[[str], Decider]) -> None:
    """The key runs the command, the click denies it. What is told is what happened."""
    who = decider("do play:perm")
    made = fleet.machines[0].home.work / "sub"
    for turn in range(6):
        if turn:
            assert who.outcome(who.do("prompt", text="do play:perm")) == "took_effect"
        asked = who.asked()
        who.terminal.wait_for(ASKED)
        subprocess.run(["rm", "-rf", str(made)], check=True)
        time.sleep(0.7)  # a dialog swallows keys that come as it appears
        pressing = threading.Timer(0.04 * turn, who.terminal.press, ("y",))
        pressing.start()
        body = {"verb": "deny", "request_id": asked["id"], "binding": asked["hold"]["binding"]}
        answer = httpx.post(who.url, json=body, timeout=10)
        pressing.join()
        who.rests()
        if answer.status_code == 202:
            outcome = who.outcome(answer.json()["command"]["id"])
            assert (outcome == "took_effect") != made.exists(), outcome
        else:
            assert made.exists()


def test_prompts_now_and_later_and_an_interrupt(decider: Callable[[str], Decider]) -> None:
    who = decider("do play:text")
    who.rests()

    given = who.do("prompt", text="now play:sleep")

    assert who.outcome(given) == "took_effect"
    who.fleet.wait_for_state(who.session, "acting", 30)
    who.terminal.wait_for("now play:sleep")
    later = who.do("queue", text="then play:text")
    stopped = who.do("interrupt")
    assert who.outcome(stopped) == "took_effect"
    assert who.outcome(later) == "took_effect"
    who.terminal.wait_for("then play:text")
    who.rests()


def held(fleet: Fleet) -> bool:
    views = (fleet.session(each) or {} for each in fleet.agents())
    return any(each.get("hold") for view in views for each in view.get("requests", []))


def test_a_turn_looks_the_same_while_its_request_can_be_decided_elsewhere(fleet: Fleet) -> None:
    machine = fleet.machines[0]
    home = machine.home
    assert isinstance(home, CodexHome)
    machine.collector.stop()
    plain = session(home)
    machine.collector.start()

    heard = session(home, lambda: until(lambda: held(fleet), "the request to be held"))

    assert heard == plain


def test_a_server_that_is_restarted_is_listened_to_again(
    fleet: Fleet, decider: Callable[[str], Decider]
) -> None:
    home = fleet.machines[0].home
    assert isinstance(home, CodexHome)
    who = decider("do play:text")
    who.rests()
    words = [home.program, "app-server", "daemon", "restart"]
    subprocess.run(words, env=home.env, capture_output=True, timeout=60, check=True)

    who.terminal.type("do play:perm")
    until(lambda: is_taken(who.terminal), "the prompt to be taken", more=who.terminal.screen)
    given = who.decide("allow")

    assert who.outcome(given) == "took_effect"
    who.terminal.wait_for("The folder stands.")


def is_taken(terminal: Terminal) -> bool:
    """A terminal that connects again takes no Enter meanwhile, and does not say so."""
    if "mkdir -p sub" in terminal.screen():
        return True
    terminal.press("Enter")
    time.sleep(0.5)  # for the dialog to come: a second Enter would answer it
    return False


def test_the_trail_has_it_all_and_control_that_ends_leaves_the_dialog(
    fleet: Fleet, decider: Callable[[str], Decider]
) -> None:
    who = decider("do play:perm")
    who.asked()
    for words in (("trail", "--verify"), ("off",)):
        command = adsum("control", *words)
        env = fleet.machines[0].env
        subprocess.run(command, env=env, check=True, capture_output=True, text=True)

    until(lambda: not any(each.get("hold") for each in who.requests()), "it to be handed back")
    who.terminal.press_until_gone("y", ASKED)
    who.rests()
