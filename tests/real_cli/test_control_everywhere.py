"""Decided on the page of a real browser, for the real CLI on two machines, while parts of it break."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from playwright.sync_api import Browser, Page, expect

from tests.hub_processes import HubProcess
from tests.real_cli import asking_server
from tests.real_cli.conftest import Figure, new_fleet
from tests.real_cli.elsewhere import READY, Elsewhere, agree, browsing, control
from tests.real_cli.fleet import Fleet, Part, accepts, adsum, free_port, until
from tests.real_cli.scripts import FEATURES, PLAN, PLAN_FILE, QUESTION, SCRIPTS, Call, Turn, shell
from tests.real_cli.session import ASKS, Session
from tests.real_cli.timeline import Watcher
from tests.signing_in import cookie_name, sign_in

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.redis,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]

ANVIL, BELLOWS = 0, 1
KEYS = "/api/v1/command-keys"
#: Each takes some four seconds: `ADSUM_INSTANTS=50` for more of them.
SAME_INSTANT = int(os.environ.get("ADSUM_INSTANTS", "15"))
#: What the collector or a hub says of a command of which nothing more is to be heard.
OVER = {"took_effect", "overruled", "too_late", "refused"}
#: A wire to Redis that can be stopped, with all that is under way in it, and let go again.
WIRE = """
import asyncio, sys
from tests.proxies import Proxy
async def run(port, target):
    async with await asyncio.start_server(Proxy(target).open, "127.0.0.1", port) as server:
        await server.serve_forever()
asyncio.run(run(*map(int, sys.argv[1:])))
"""

SERVER = {"command": sys.executable, "args": [asking_server.__file__]}
FORM_FLAGS = (
    *("--mcp-config", json.dumps({"mcpServers": {"rig": SERVER}}), "--strict-mcp-config"),
    *("--allowedTools", "mcp__rig__ask"),
)
SCRIPTS["form"] = (Turn(calls=(Call("mcp__rig__ask", {}),)), Turn("Thanks for the form."))
for name in ("killed", "stuck", "wiped", "cut", "theirs", "both"):
    SCRIPTS[name] = Turn(calls=(shell(f"echo it >> {name}"),)), Turn("It ran.")
SCRIPTS["tour"] = (
    Turn(calls=(shell("python3 -m compileall -h"),)),
    Turn(calls=(shell("python3 -m compileall -h"),)),
    Turn(calls=(Call("AskUserQuestion", {"questions": [QUESTION, FEATURES]}),)),
    Turn(calls=(shell("echo it >> denied"),)),
    Turn(calls=(shell("echo it >> stopped"),)),
    Turn("It went on."),
)
FRAME = {**QUESTION, "question": "Which colour should the frame be?"}
SCRIPTS["words"] = (
    Turn(calls=(Call("AskUserQuestion", {"questions": [QUESTION]}),)),
    Turn(calls=(Call("AskUserQuestion", {"questions": [FRAME]}),)),
    Turn("Both are known."),
)
SCRIPTS["plans"] = (
    Turn(calls=(Call("Write", {"file_path": PLAN_FILE, "content": PLAN}),)),
    Turn(calls=(Call("ExitPlanMode", {"plan": PLAN}),)),
    Turn(calls=(Call("ExitPlanMode", {"plan": PLAN}),)),
    Turn("The plan is carried out."),
)
SCRIPTS["ruled"] = Turn(calls=(shell("mkdir made-by-rule"),)), Turn("It ran.")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two machines whose owners agreed, by the command that they type."""
    pytest.importorskip("cryptography")
    with new_fleet(tmp_path_factory.mktemp("everywhere"), "anvil", "bellows") as fleet:
        agree(fleet)
        yield fleet


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def elsewhere(site: Fleet, browser: Browser) -> Iterator[Callable[..., Elsewhere]]:
    """A session in a terminal of one of both machines, and its page, to the end of the test."""
    with contextlib.ExitStack() as open_until, Watcher(site.hub_url) as watcher:

        def start(script: str, machine: int, *flags: str, mode: str = "manual") -> Elsewhere:
            session = Session(site.machines[machine], watcher, *flags, mode=mode)
            open_until.enter_context(session.terminal)
            page = browser.new_page()
            open_until.callback(page.close)
            there = Elsewhere(page, site, session)
            session.terminal.type(f"do play:{script}")
            return there

        yield start


def ran(there: Elsewhere, name: str) -> int:
    """How often."""
    file = there.work / name
    return len(file.read_text().split()) if file.exists() else 0


def reachability(fleet: Fleet, host_id: str) -> str:
    hosts = httpx.get(f"{fleet.hub_url}/api/v1/hosts").json()["hosts"]
    return next(each["reachability"] for each in hosts if each["id"] == host_id)


class Race:
    """One session that is asked again and again; what the page, the hub and the agent have of each."""

    def __init__(self, there: Elsewhere, fleet: Fleet) -> None:
        self.there, self.fleet = there, fleet
        self.request: dict[str, Any] = {}
        #: seconds by which the key is later than the click; it goes after whoever was not first
        self.later = 0.0

    def run(self, name: str, dice: random.Random) -> str:
        """What became of the click: an outcome, or what the page says of one that was not taken."""
        there = self.there
        there.asked(f">> {name}")
        there.session.terminal.wait_for(ASKS)
        self.request = self.fleet.session(there.session.id)["requests"][0]  # type: ignore[index]  # it stands on the page
        number = there.session.no()
        later = self.later + dice.uniform(-0.02, 0.02)
        pressing = threading.Timer(max(later, 0), there.session.terminal.press, (number,))
        pressing.start()
        time.sleep(max(-later, 0))
        there.press()
        pressing.join()
        until(self.is_over, "an end of the request", more=there.text)
        told = until(self.told, "the page to tell", more=there.text)
        self.later += 0.015 if told != "took_effect" else -0.015
        return told

    def is_over(self) -> bool:
        view = self.fleet.session(self.there.session.id) or {}
        return all(each["id"] != self.request["id"] for each in view.get("requests", []))

    def told(self) -> str:
        """By the page itself, of the decision that was pressed last; empty: not yet."""
        key = f"{self.there.id} {self.request['id']} {self.request['hold']['binding']}"
        look = "async (key) => (await import('/static/control/state.js')).givenOf(key)"
        given = self.there.page.evaluate(look, key)
        if given is None:
            return "never pressed"
        phase = str(given["phase"])
        return phase if phase in OVER | {"failed", "cancelled"} else ""


def test_click_and_key_in_the_same_instant_never_both_never_neither(
    elsewhere: Callable[..., Elsewhere], site: Fleet
) -> None:
    """The click allows, the key says No. What the page tells is what happened, each time."""
    dice, number = random.Random(18), 0
    told: list[str] = []
    allowed: list[str] = []
    there = elsewhere("text", ANVIL)
    race = Race(there, site)
    while len(told) < SAME_INSTANT:
        number += 1
        names = [f"n{number}-{turn}" for turn in range(8)]
        calls = [Turn(calls=(shell(f"echo it >> {name}"),), wait=0.3) for name in names]
        SCRIPTS[f"race{number}"] = (*calls, Turn("All were asked."))
        site.wait_for_state(there.session.id, "idle", 15)
        there.session.terminal.press("C-u")  # a key that came after the dialog is a draft by now
        there.session.terminal.type(f"do play:race{number}")
        for name in names:
            told.append(race.run(name, dice))
            if told[-1] == "took_effect":
                there.made(name)
                allowed.append(name)
            else:  # it was denied, which ends the turn
                site.wait_for_state(there.session.id, "idle", 15)
                assert ran(there, name) == 0, told
                break
    assert [ran(there, name) for name in allowed] == [1] * told.count("took_effect")
    print({each: told.count(each) for each in set(told)})
    # the instant is sought again each time, so both win now and then
    assert (
        min(told.count("took_effect"), len(told) - told.count("took_effect")) > SAME_INSTANT // 10
    )


def test_a_hub_killed_before_the_machine_obeys_tells_the_truth_when_it_is_back(
    elsewhere: Callable[..., Elsewhere], site: Fleet
) -> None:
    there = elsewhere("killed", ANVIL)
    there.asked(">> killed")
    collector = site.machines[ANVIL].collector
    collector.send(signal.SIGSTOP)
    there.press()
    there.says("on its way")
    site.hub.kill()
    assert ran(there, "killed") == 0

    collector.send(signal.SIGCONT)

    until(lambda: ran(there, "killed") == 1, "it to run", timeout=8)
    site.hub.start()
    there.says("took effect")
    there.session.terminal.wait_for("It ran.")
    assert [each["outcome"] for each in there.commands()] == ["took_effect"]
    assert ran(there, "killed") == 1


def test_a_hub_killed_before_it_gave_the_command_leaves_the_dialog_and_another_try(
    elsewhere: Callable[..., Elsewhere], site: Fleet
) -> None:
    there = elsewhere("stuck", BELLOWS)
    there.asked(">> stuck")
    site.hub.send(signal.SIGSTOP)
    there.press()
    there.says("sending")
    site.hub.kill()

    there.says("It may have been given all the same")
    assert ASKS in there.session.terminal.screen()
    there.says("nothing can be decided here")

    site.hub.start()
    there.click(">> stuck")
    there.says("took effect")
    assert ran(there, "stuck") == 1


def test_a_redis_that_forgot_everything_leaves_the_request_to_be_decided_once(
    elsewhere: Callable[..., Elsewhere], site: Fleet
) -> None:
    there = elsewhere("wiped", ANVIL)
    there.asked(">> wiped")
    redis.Redis.from_url(site.machines[ANVIL].redis_url).flushall()

    site.wait_for_state(there.session.id, "needs_permission")
    assert ASKS in there.session.terminal.screen()
    there.click(">> wiped")
    there.says("took effect")
    assert ran(there, "wiped") == 1


def test_a_machine_cut_off_obeys_no_click_that_comes_late(
    elsewhere: Callable[..., Elsewhere], site: Fleet
) -> None:
    bellows = site.machines[BELLOWS]
    port, broker = free_port(), bellows.redis_url.rpartition(":")[2]
    command = [sys.executable, "-c", WIRE, str(port), broker]
    log = bellows.home.path / "wire.log"
    wire = Part(command, {"PATH": ""}, log, lambda: accepts(port))
    wire.start()
    bellows.collector.env["ADSUM_REDIS_URL"] = f"redis://127.0.0.1:{port}"
    bellows.collector.stop()
    bellows.collector.start()
    there = elsewhere("cut", BELLOWS)
    try:
        there.asked(">> cut")
        wire.send(signal.SIGSTOP)
        there.press()
        there.says("The machine did not respond in time")
        there.says("Its machine is offline")
        assert ran(there, "cut") == 0

        there.session.terminal.press_until_gone("Enter", ASKS)
        until(lambda: ran(there, "cut") == 1, "the key to run it", timeout=5)
        wire.send(signal.SIGCONT)
        until(lambda: reachability(site, bellows.host_id) == "live", "it to be heard again")
        # read from the stream's end on, so never at all; or heard late
        assert there.commands()[-1]["outcome"] in ("given", "expired", "too_late")
        assert ran(there, "cut") == 1
    finally:
        bellows.collector.stop()
        wire.kill()
        bellows.collector.env["ADSUM_REDIS_URL"] = bellows.redis_url
        bellows.collector.start()


def choose(page: Page, option: str) -> None:
    """Click an option once it can be chosen: before a hook holds the question, the page only lists it."""
    page.locator(".pick-one", has_text=option).click(timeout=20_000)


def outcomes(there: Elsewhere) -> list[tuple[str, str]]:
    return [(each["verb"], each["outcome"]) for each in there.commands()]


@pytest.mark.core
def test_one_session_is_led_from_the_page_to_its_end(elsewhere: Callable[..., Elsewhere]) -> None:
    """Always, an answer, a denial with words, one that ends the turn: what the model is told of each."""
    there = elsewhere("tour", ANVIL)
    page = there.page
    there.click("compileall", "always-open")
    page.locator(f"{READY} > [data-do=always]").click()

    choose(page, "Blue")  # it was asked no second time
    features = page.locator(".asked").nth(1)
    for option in FEATURES["options"][:2]:
        features.get_by_text(option["label"], exact=True).click()
    there.click("Which colour", "send")
    there.asked(">> denied")
    told = results(there)
    assert "Blue" in told
    assert "Metrics" in told

    page.get_by_label("Reason, for the agent").fill("Use another file.")
    there.click(">> denied", "deny")
    there.asked(">> stopped", timeout=30)
    assert "Use another file." in results(there)
    there.click(">> stopped", "stop")

    given = [(verb, "took_effect") for verb in ("always", "answer", "deny", "deny")]
    until(lambda: outcomes(there) == given, "all to be told", more=lambda: str(outcomes(there)))
    assert (ran(there, "denied"), ran(there, "stopped")) == (0, 0)
    assert "It went on." not in there.session.terminal.screen()


def test_a_question_is_answered_by_an_option_and_another_in_own_words(
    elsewhere: Callable[..., Elsewhere],
) -> None:
    there = elsewhere("words", ANVIL)
    choose(there.page, "Blue")
    there.click("the button", "send")
    frame = there.page.locator(".request", has_text="the frame")
    frame.get_by_label("Or in your own words").fill("Mauve, as ever", timeout=20_000)
    there.click("the frame", "send")

    there.session.terminal.wait_for("Both are known.")
    given = [("answer", "took_effect")] * 2
    until(lambda: outcomes(there) == given, "both to be told", more=lambda: str(outcomes(there)))
    assert "Blue" in results(there)
    assert "Mauve, as ever" in results(there)


@pytest.mark.core
def test_a_plan_is_sent_back_and_then_approved_as_edited_in_a_mode(
    elsewhere: Callable[..., Elsewhere],
) -> None:
    there = elsewhere("plans", BELLOWS, mode="plan")
    page = there.page
    there.asked("Do nothing")
    page.get_by_label("What to change").fill("Add tests first.")
    there.click("Do nothing", "deny")
    until(lambda: "Add tests first." in results(there), "the model to be told")

    there.asked("Do nothing", timeout=30)
    page.get_by_text("edits files without asking").click()
    page.get_by_role("button", name="Change it").click()
    page.get_by_label("The plan, as it is to be carried out").fill(
        "# Plan\n\n1. Do something else\n"
    )
    there.click("Approve as edited", "allow")

    there.session.terminal.wait_for("The plan is carried out.")
    there.session.terminal.wait_for("accept edits on")
    assert "Do something else" in results(there)


def results(there: Elsewhere) -> str:
    """What the model was told of its calls."""
    return "".join(told for each in there.lines() if '"tool_result"' in (told := json.dumps(each)))


@pytest.mark.core
@pytest.mark.parametrize(
    ("key", "most_s"), [(None, 8.0), ("type", 3.0), ("Escape", 3.0), ("defer", 4.0)]
)
def test_a_form_that_nobody_looks_at_elsewhere_is_drawn_in_its_terminal(
    elsewhere: Callable[..., Elsewhere],
    site: Fleet,
    figure: Figure,
    key: str | None,
    most_s: float,
) -> None:
    """key: what somebody does about it a second after it is asked; None: nothing."""
    there = elsewhere("text", BELLOWS, *FORM_FLAGS)
    terminal = there.session.terminal
    site.wait_for_state(there.session.id, "idle", 15)
    there.page.goto(site.hub_url)
    terminal.type("do play:form")
    begun = terminal.wait_for("running Elicitation hook")
    time.sleep(1)
    if key == "type":
        terminal.type("and another thing")
    elif key == "defer":
        machine = site.machines[BELLOWS]
        command = adsum("defer", there.session.id, "--yes", "--hub", site.hub_url)
        subprocess.run(command, env=machine.env, check=True)
    elif key is not None:
        terminal.press(key)
    drawn = terminal.wait_for("Who are you?", timeout=12)
    figure(f"a form is drawn in its terminal ({key or 'nobody does anything'})", drawn - begun)
    assert drawn - begun < most_s


@pytest.mark.core
def test_a_form_is_filled_in(elsewhere: Callable[..., Elsewhere]) -> None:
    there = elsewhere("form", BELLOWS, *FORM_FLAGS)
    there.page.locator(".request").get_by_label("name").fill("Ada")
    there.click("Who are you?", "send")

    there.says("took effect")
    there.session.terminal.wait_for("Thanks for the form.")
    until(
        lambda: any(
            '"tool_result"' in (line := json.dumps(each)) and "Ada" in line
            for each in there.lines()
        ),
        "the model to be told",
        timeout=8,
    )


def test_a_hook_of_the_users_that_is_first_retires_it_here(
    elsewhere: Callable[..., Elsewhere], tmp_path: Path
) -> None:
    shown = tmp_path / "shown"
    allowed = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    answer = json.dumps({"hookSpecificOutput": allowed})
    waits = f"cat > /dev/null; until [ -e {shown} ]; do sleep 0.05; done"
    theirs = {"type": "command", "command": f"{waits}; echo '{answer}'"}
    settings = {"hooks": {"PermissionRequest": [{"hooks": [theirs]}]}}
    there = elsewhere("theirs", ANVIL, "--settings", json.dumps(settings))
    there.asked(">> theirs")

    shown.touch()
    until(lambda: ran(there, "theirs"), "their hook to decide", timeout=10)
    expect(there.page.locator(".request")).to_have_count(0)
    there.session.terminal.wait_for("It ran.")
    assert there.commands() == []


def configured(fleet: Fleet, machine: int, text: str) -> Path:
    config = fleet.machines[machine].home.path / ".config" / "adsum" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text)
    return config


def test_what_a_rule_allowed_is_marked_as_its_own(
    elsewhere: Callable[..., Elsewhere], site: Fleet
) -> None:
    rule = '[[control.rule]]\nname = "folders"\ndecision = "allow"\ntool = "shell"\n'
    config = configured(site, ANVIL, f'{rule}pattern = "mkdir *"\ndry_run = false\n')
    try:
        there = elsewhere("ruled", ANVIL)
        there.made("made-by-rule")
    finally:
        config.unlink()
    told = there.says("The rule “folders” allowed it")
    assert "took effect" in there.says("took effect"), told
    assert "rule:folders" in control(site.machines[ANVIL], "trail")


def test_two_persons_allow_it_together_and_one_alone_does_not(
    elsewhere: Callable[..., Elsewhere], site: Fleet, browser: Browser, tmp_path: Path
) -> None:
    bellows = site.machines[BELLOWS]
    tag = f'[[control.tag]]\nname = "production"\ndirectories = ["{bellows.home.work}"]\n'
    config = configured(site, BELLOWS, f'[control]\ntwo_persons = ["production"]\n{tag}')
    hub = HubProcess(tmp_path / "hub", bellows.redis_url, sign_in="on")
    with contextlib.ExitStack() as stack:
        stack.callback(config.unlink)
        stack.callback(hub.kill)
        hub.start()
        until(lambda: len(httpx.get(site.hub_url + KEYS).json()["keys"]) == 2, "its key")
        control(bellows, "approve", typed="yes\n")  # which pins this hub's key as well
        there = elsewhere("both", BELLOWS)
        people = []
        for name in ("Ann", "Bob"):
            context = browser.new_context()
            stack.callback(context.close)
            secret = sign_in(hub, "operator", name)
            context.add_cookies([{"name": cookie_name(hub), "value": secret, "url": hub.url}])
            people.append(Elsewhere(context.new_page(), site, there.session, hub.url))
        ann, bob = people

        ann.click(">> both")
        ann.says("it takes another person")
        assert ASKS in there.session.terminal.screen()
        assert ran(there, "both") == 0
        bob.click(">> both")

        bob.says("took effect")
        ann.says("together with another person")
        until(lambda: ran(there, "both") == 1, "it to run", timeout=5)
