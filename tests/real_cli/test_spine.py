"""The real CLI on two machines, seen through the hub: what stands on the screen stands in the list."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from scripts.chromium import chromium
from tests.real_cli.conftest import Figure, OpenSession, new_fleet
from tests.real_cli.fleet import Fleet, until
from tests.real_cli.session import ASKS, Session
from tests.real_cli.timeline import Watcher

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.redis,
    pytest.mark.browser,
    pytest.mark.timeout(180),
]

PROMISED_S = 1.0
#: A host's clock is reckoned anew after every restart, from how late its news comes. One who was
#: entered anew under Needs You would have begun to wait seconds later.
CLOCKS_AGREE_MS = 1_000


@pytest.fixture(scope="module")
def fleet(_claude: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One of our own, since its parts are killed."""
    with new_fleet(tmp_path_factory.mktemp("spine"), "anvil", "birch") as fleet:
        yield fleet


@pytest.fixture(scope="module")
def watcher(fleet: Fleet) -> Iterator[Watcher]:
    with Watcher(fleet.hub_url) as watcher:
        yield watcher


@pytest.fixture(scope="module")
def page(fleet: Fleet) -> Iterator[Page]:
    path = chromium() or pytest.skip("Chromium is missing; `make system-deps` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(fleet.hub_url)
        yield page
        browser.close()


def card(session: Session) -> str:
    """The selector of its card among those of present hosts under Needs You."""
    listed = 'section[data-group="needs_you"] .cards:not(.cards-absent)'
    return f'{listed} [data-id="{session.machine.host_id}:{session.id}"]'


def test_a_permission_prompt_stands_through_every_kill_until_it_is_answered(
    fleet: Fleet, page: Page, open_session: OpenSession, figure: Figure
) -> None:
    anvil, birch = (open_session(machine=machine, mode="manual") for machine in fleet.machines)
    for session in (anvil, birch):
        session.play("perm")
        shown = session.sees(ASKS)
        listed = session.hub.shows("needs_permission")
        expect(page.locator(card(session))).to_be_visible(timeout=1_000)
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
        began = anvil.hub.act(f"killed the {name}")
        part.start()
        figure(f"kill of {name}: until it answers again", time.monotonic() - began)
        since = assert_both_wait(fleet, page, anvil, birch)
        figure(f"kill of {name}: until both stand everywhere", time.monotonic() - began)
        assert since == pytest.approx(waiting_since, abs=CLOCKS_AGREE_MS)

    anvil.answer("Enter", ASKS)
    ended = anvil.sees("The folder stands.")
    figure("yes: idle after the turn's last words", anvil.hub.shows("idle") - ended)
    assert birch.hub.now["state"]["state"] == "needs_permission"

    answered = birch.answer("Escape", ASKS)
    figure("esc: idle after the key", birch.hub.shows("idle") - answered)
    for session in (anvil, birch):
        expect(page.locator(card(session))).to_have_attribute("data-state", "idle")


def assert_both_wait(fleet: Fleet, page: Page, *sessions: Session) -> list[int]:
    """In list, page and `adsum agents`. When each began to wait, in ms of the hub's clock."""
    for session in sessions:
        until(lambda who=session.id: fleet.state(who) == "needs_permission", "the list")
        shown = page.locator(card(session))
        expect(shown).to_have_attribute("data-state", "needs_permission", timeout=15_000)
    listed = fleet.agents()
    for session in sessions:
        agent = listed[session.id]
        assert (agent["state"]["group"], agent["state"]["state"], agent["host"]) == (
            "needs_you",
            "needs_permission",
            session.machine.label,
        )
    return [listed[session.id]["state"]["since"] for session in sessions]
