"""What the page says of witnesses: only what is wrong on cards and hosts, all of it on demand."""

from __future__ import annotations

import re

import msgspec
import pytest
from playwright.async_api import Page, expect

from adsum_shared.state import HostWitness
from tests.browser import fleets
from tests.browser.conftest import ASKED, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def faulty(now: int, **problems: str) -> fleets.SessionView:
    heard = fleets.witnesses(now, **problems)
    return fleets.session("a", "thinking", "…", now=now, title="A", witnesses=heard)


async def hint(page: Page) -> str:
    return await page.locator(".hint-text:popover-open").inner_text()


async def test_a_card_is_silent_about_witnesses_that_are_well(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    assert await page.locator(".chip").count() == 0


@pytest.mark.parametrize("problem", ["missing", "doubled"])
async def test_hooks_in_trouble_are_named_on_the_card(open_page: OpenPage, problem: str) -> None:
    page = await open_page(([faulty(wall_ms(), hook=problem)], []))
    chip = page.get_by_role("button", name=f"Hooks {problem}")

    await expect(chip).to_be_visible()
    description = await chip.evaluate(
        "(e) => document.getElementById(e.getAttribute('aria-describedby')).textContent"
    )
    assert "adsum doctor" in description
    assert "alpha" in description


async def test_a_problem_nobody_foresaw_is_named_as_it_is(open_page: OpenPage) -> None:
    page = await open_page(([faulty(wall_ms(), transcript="unreadable")], []))
    await expect(page.get_by_role("button", name="Transcript unreadable")).to_be_visible()


async def test_the_pointer_brings_the_explanation_and_can_go_over_to_it(
    open_page: OpenPage,
) -> None:
    page = await open_page(([faulty(wall_ms(), hook="missing")], []))
    await page.hover(".chip")
    assert "adsum hooks install" in await hint(page)
    await page.hover(".hint-text")
    assert "adsum hooks install" in await hint(page)

    await page.mouse.move(5, 5)
    await expect(page.locator(".hint-text:popover-open")).to_have_count(0)


async def test_the_focus_brings_the_explanation_and_escape_takes_it_away(
    open_page: OpenPage,
) -> None:
    page = await open_page(([faulty(wall_ms(), hook="missing")], []))
    await page.locator(".open").focus()
    await page.keyboard.press("Tab")
    assert "adsum hooks install" in await hint(page)

    await page.keyboard.press("Escape")
    await expect(page.locator(".hint-text:popover-open")).to_have_count(0)
    assert await page.evaluate("document.activeElement.className") == "chip"


async def test_pressing_the_chip_opens_the_details_with_commands_to_copy(
    open_page: OpenPage,
) -> None:
    page = await open_page(([faulty(wall_ms(), hook="missing")], []))
    await page.click(".chip")
    warning = page.locator(".sheet .warning")

    await expect(warning).to_contain_text("Hooks missing.")
    await warning.get_by_role("button", name="Copy adsum hooks install").click()

    async def copied() -> bool:
        return bool(await page.evaluate("navigator.clipboard.readText()") == "adsum hooks install")

    await wait_until(copied)


async def test_the_details_name_every_witness_with_its_age(open_page: OpenPage) -> None:
    fleet = ([faulty(wall_ms(), hook="missing")], [])
    page = await open_page(fleet, path="/sessions/alpha:a", ready=".session-body")
    rows = await page.locator(".session .witnesses li").all_inner_texts()

    # An age may have gone on by a second.
    assert [re.sub(r"\d+s", "Ns", " ".join(row.split())) for row in rows] == [
        "Hooks missing, never heard",
        "Transcript heard Ns ago",
        "Session registry heard Ns ago",
        "Process table heard Ns ago",
        "Status line heard Ns ago",
    ]


async def test_a_session_without_witnesses_says_so(open_page: OpenPage) -> None:
    view = fleets.session("a", "thinking", "…", now=wall_ms(), witnesses=())
    page = await open_page(([view], []), path="/sessions/alpha:a", ready=".session-body")
    await expect(page.locator(".session")).to_contain_text("No witness is known.")


async def test_a_host_says_unasked_what_is_wrong_and_what_to_do(open_page: OpenPage) -> None:
    page = await open_page(fleets.broken(wall_ms()))
    strip = page.locator("[data-host=eta]")
    await expect(strip).to_have_attribute("data-reach", "trouble")
    assert " ".join((await strip.inner_text()).split()) == "eta live Hooks missing 0 sessions"

    await strip.get_by_role("link").click()
    eta = page.locator("[data-machine=eta]")
    await expect(eta).to_have_attribute("data-reach", "trouble")
    said = await eta.locator(".faults").inner_text()
    assert "Hooks missing. Claude Code runs here" in said
    assert "Transcript trouble. 3 lines could not be read" in said
    assert "Status line" not in said
    assert await eta.locator(".host-note p > code").first.inner_text() == "adsum hooks install"
    await eta.get_by_role("button", name="Copy adsum hooks install").click()

    async def copied() -> bool:
        return bool(await page.evaluate("navigator.clipboard.readText()") == "adsum hooks install")

    await wait_until(copied)


async def test_the_step_at_the_end_of_a_note_is_set_as_a_command(open_page: OpenPage) -> None:
    note = "~/.claude/settings.json holds none of Adsum's hooks. Next: adsum hooks install"
    missing = HostWitness(name="hook", state="missing", note=note)
    box = fleets.host("alpha", wall_ms(), witnesses=(missing,))
    page = await open_page(([], [box]), path="/hosts", ready=".machine")

    assert await page.locator(".host-note code").all_inner_texts() == ["adsum hooks install"] * 2
    assert note in await page.inner_text(".host-note")


async def test_a_silent_witness_is_no_fault(open_page: OpenPage) -> None:
    silent = tuple(HostWitness(name=name) for name in fleets.WITNESSES)
    box = fleets.host("alpha", wall_ms(), witnesses=silent)
    page = await open_page(([], [box]), path="/hosts", ready=".machine")

    await expect(page.locator(".machine")).to_have_attribute("data-reach", "live")
    await expect(page.locator(".host-note")).to_have_count(0)


async def test_a_host_opens_to_all_its_witnesses(open_page: OpenPage) -> None:
    page = await open_page(fleets.broken(wall_ms()), path="/hosts", ready=".machine")
    eta = page.locator("[data-machine=eta]")
    button = eta.locator(".host-head")
    await button.focus()
    await page.keyboard.press("Enter")

    await expect(button).to_have_attribute("aria-expanded", "true")
    await expect(eta.locator(".witnesses li")).to_have_count(6)
    rows = [" ".join(row.split()) for row in await eta.locator(".witnesses li").all_inner_texts()]
    assert rows[0] == "Hooks missing, never heard"
    assert (
        rows[1]
        == "Transcript trouble, heard 3h 00m ago · unreadable line \u00d7 3, too long \u00d7 1"
    )
    assert re.fullmatch(r"Session registry heard \d+s ago", rows[2])
    assert rows[4] == "Status line never heard"

    await page.keyboard.press("Enter")
    await expect(eta.locator(".witnesses li")).to_have_count(0)


async def test_a_state_of_a_witness_never_heard_of_is_shown_by_name(open_page: OpenPage) -> None:
    odd = HostWitness(name="oracle", state="dreaming", heard_at=wall_ms() - 60_000)
    page = await open_page(
        ([], [fleets.host("alpha", wall_ms(), witnesses=(odd,))]), path="/hosts", ready=".machine"
    )
    await page.click(".host-head")

    row = await page.locator(".host-more li").inner_text()
    assert " ".join(row.split()) == "Oracle dreaming, heard 1m ago"


async def passes(page: Page, hub: StandIn, seconds: int) -> None:
    """With the ticks of a living hub, without which the page would take it for a dead one."""
    for _ in range(0, seconds, 5):
        await page.clock.run_for(5_000)
        now = await page.evaluate("Date.now()")
        await hub.tell(hub.message("tick") | {"now": now})
        await page.evaluate(ASKED)


async def test_ages_of_an_open_host_are_asked_for_and_of_a_closed_one_not(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    page = await open_page(
        ([], [fleets.host("alpha", now)]), path="/hosts", ready=".machine", clock=True
    )
    # What the page of the test before asked for may have come after that page was closed.
    hub.hosts_asked = 0
    later = HostWitness(name="hook", state="ok", heard_at=now - 90_000)
    before = hub.hosts["alpha"]
    hub.hosts["alpha"] = msgspec.structs.replace(before, witnesses=(later,))
    await passes(page, hub, 30)
    assert hub.hosts_asked == 0

    await page.click(".host-head")
    await expect(page.locator(".host-more li")).to_have_count(1)
    await expect(page.locator(".host-more li")).to_contain_text("heard 2m ago")
    heard = msgspec.structs.replace(later, heard_at=now - 400_000)
    hub.hosts["alpha"] = msgspec.structs.replace(before, witnesses=(heard,))
    await passes(page, hub, 10)
    await expect(page.locator(".host-more li")).to_contain_text("heard 7m ago")
    assert hub.hosts_asked == 2

    await page.click(".host-head")
    await expect(page.locator(".host-more li")).to_have_count(0)
    await passes(page, hub, 60)
    assert hub.hosts_asked == 2
