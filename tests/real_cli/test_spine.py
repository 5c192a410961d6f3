"""The real CLI on two machines, seen through the hub: what stands on the screen stands in the list."""

from __future__ import annotations

import os
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.real_cli.cli_rig import Home, Terminal
from tests.real_cli.conftest import Figure, require
from tests.real_cli.fleet import Fleet, Machine, running_fleet
from tests.real_cli.mock_model import MockModel

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.redis,
    pytest.mark.browser,
    pytest.mark.timeout(180),
]

ASKS = "Do you want to proceed?"
PROMISED_S = 1.0
#: A host's clock is reckoned anew after every restart, from how late its news comes. One who was
#: entered anew under Needs You would have begun to wait seconds later.
CLOCKS_AGREE_MS = 1_000


@pytest.fixture(scope="module")
def fleet(_claude: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    require("redis-server")
    folder = tmp_path_factory.mktemp("fleet")
    with MockModel() as model:
        homes = {label: Home(folder / label, model.url).seed() for label in ("anvil", "birch")}
        with running_fleet(folder, homes) as running:
            yield running


@pytest.fixture(scope="module")
def page(fleet: Fleet) -> Iterator[Page]:
    require("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.goto(fleet.hub_url)
        yield page
        browser.close()


class Session:
    """One run of the CLI in a terminal, and the id it was started with."""

    def __init__(self, machine: Machine, mode: str = "manual", ready: str = "? for shortcuts"):
        self.machine = machine
        self.id = str(uuid.uuid4())
        flags = ("--permission-mode", mode, "--session-id", self.id)
        self.terminal = Terminal(machine.home, flags, ready)

    @property
    def card(self) -> str:
        """The selector of its card among those of present hosts under Needs You."""
        listed = 'section[data-group="needs_you"] .cards:not(.cards-absent)'
        return f'{listed} [data-id="{self.machine.host_id}:{self.id}"]'


def test_a_permission_prompt_stands_through_every_kill_until_it_is_answered(
    fleet: Fleet, page: Page, figure: Figure
) -> None:
    anvil, birch = (Session(machine) for machine in fleet.machines)
    with anvil.terminal, birch.terminal:
        for session in (anvil, birch):
            session.terminal.type("do play:perm")
            shown = session.terminal.wait_for(ASKS)
            listed = fleet.wait_for_state(session.id, "needs_permission")
            expect(page.locator(session.card)).to_be_visible(timeout=1_000)
            seen = time.monotonic()
            figure(f"{session.machine.label}: listed after the dialog", listed - shown)
            figure(f"{session.machine.label}: on the page after the dialog", seen - shown)
            assert seen - shown < PROMISED_S
        waiting_since = assert_both_wait(fleet, page, anvil, birch)

        for name, part in (
            ("hub", fleet.hub),
            ("broker", fleet.broker),
            ("collector", anvil.machine.collector),
        ):
            part.kill()
            began = time.monotonic()
            part.start()
            figure(f"kill of {name}: until it answers again", time.monotonic() - began)
            since = assert_both_wait(fleet, page, anvil, birch)
            figure(f"kill of {name}: until both stand everywhere", time.monotonic() - began)
            assert since == pytest.approx(waiting_since, abs=CLOCKS_AGREE_MS)

        anvil.terminal.press_until_gone("Enter", ASKS)
        ended = anvil.terminal.wait_for("The folder stands.")
        figure(
            "yes: idle after the turn's last words", fleet.wait_for_state(anvil.id, "idle") - ended
        )
        assert fleet.state(birch.id) == "needs_permission"

        answered = birch.terminal.press_until_gone("Escape", ASKS)
        figure("esc: idle after the key", fleet.wait_for_state(birch.id, "idle") - answered)
        for session in (anvil, birch):
            expect(page.locator(session.card)).to_have_attribute("data-state", "idle")


def assert_both_wait(fleet: Fleet, page: Page, *sessions: Session) -> list[int]:
    """In list, page and `adsum agents`. When each began to wait, in ms of the hub's clock."""
    for session in sessions:
        fleet.wait_for_state(session.id, "needs_permission")
        card = page.locator(session.card)
        expect(card).to_have_attribute("data-state", "needs_permission", timeout=15_000)
    listed = fleet.agents()
    for session in sessions:
        agent = listed[session.id]
        assert (agent["state"]["group"], agent["state"]["state"], agent["host"]) == (
            "needs_you",
            "needs_permission",
            session.machine.label,
        )
    return [listed[session.id]["state"]["since"] for session in sessions]


@pytest.fixture
def session(fleet: Fleet) -> Iterator[Session]:
    session = Session(fleet.machines[0], "bypassPermissions", "bypass permissions on")
    with session.terminal:
        yield session


def test_a_killed_agent_is_ended(fleet: Fleet, session: Session, figure: Figure) -> None:
    session.terminal.type("do play:slowtool")
    fleet.wait_for_state(session.id, "acting")

    os.kill(session.terminal.pid, signal.SIGKILL)

    killed = time.monotonic()
    figure(
        "kill -9 of the agent: ended", fleet.wait_for_state(session.id, "session_ended") - killed
    )


def test_esc_in_a_running_tool_is_idle(fleet: Fleet, session: Session, figure: Figure) -> None:
    session.terminal.type("do play:slowtool")
    fleet.wait_for_state(session.id, "acting")

    session.terminal.press("Escape")

    pressed = time.monotonic()
    figure("esc in a tool: idle", fleet.wait_for_state(session.id, "idle") - pressed)


def test_a_question_awaits_input_until_it_is_answered(fleet: Fleet, session: Session) -> None:
    question = "Which colour should the button be?"
    session.terminal.type("do play:ask")
    session.terminal.wait_for(question)
    fleet.wait_for_state(session.id, "awaiting_input", PROMISED_S)

    session.terminal.press_until_gone("Enter", "Enter to select")

    fleet.wait_for_state(session.id, "idle")


def test_a_plan_awaits_approval_until_it_is_approved(fleet: Fleet) -> None:
    session = Session(fleet.machines[0], "plan", "plan mode on")
    with session.terminal:
        session.terminal.type("do play:plan")
        session.terminal.wait_for("Would you like to proceed?")
        fleet.wait_for_state(session.id, "awaiting_approval", PROMISED_S)

        session.terminal.press_until_gone("Enter", "Would you like to proceed?")

        fleet.wait_for_state(session.id, "idle")


def test_a_session_that_is_left_is_ended(fleet: Fleet, session: Session) -> None:
    session.terminal.type("do play:text")
    fleet.wait_for_state(session.id, "idle")

    session.terminal.leave()

    fleet.wait_for_state(session.id, "session_ended")
