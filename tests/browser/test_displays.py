"""What a domain says of a session, in place of the state's own words and beside them."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from adsum_hub.views import with_display
from adsum_shared.state import Chip, DisplayView, ReportView
from tests.browser import fleets
from tests.browser.conftest import OpenPage, wall_ms

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = "<img src=x onerror=alert(1)>"


def shown(name: str, display: DisplayView, **more: Any) -> fleets.Fleet:
    view = fleets.session(name, "idle", "Done", now=wall_ms(), title=name, display=display, **more)
    return [view], []


async def test_a_card_bears_the_domains_words_and_chips_and_keeps_the_states_own(
    open_page: OpenPage,
) -> None:
    display = DisplayView("Tests failing", chips=(Chip("3 red", "bad"), Chip(HOSTILE)))
    page = await open_page(shown("a", display))
    card = page.locator(".card")

    await expect(card.locator(".badge")).to_have_text("Tests failing")
    assert "Done" in (await card.locator(".badge").get_attribute("title") or "")
    await expect(card.locator(".chip")).to_have_text(["3 red", HOSTILE])


async def test_a_card_bears_what_the_agent_itself_reported_and_its_details_the_notes(
    open_page: OpenPage,
) -> None:
    told = ReportView("blocked", wall_ms(), "PAN-80", f"No access.\n{HOSTILE}", "review-agent")
    page = await open_page(shown("a", DisplayView(), report=told))
    card = page.locator(".card")

    await expect(card.locator(".reported")).to_have_text("reported blocked: PAN-80")
    await card.click()
    details = page.locator("dialog[open]")
    await expect(details.locator(".because", has_text="Reported:")).to_contain_text(
        "blocked PAN-80 by review-agent"
    )
    await expect(details.locator("blockquote.said", has_text="No access.")).to_contain_text(HOSTILE)


async def test_a_domains_hint_of_urgency_sorts_the_cards(open_page: OpenPage) -> None:
    now = wall_ms()
    views = [
        with_display(
            fleets.session(name, "needs_permission", "Asks", now=now, title=name),
            DisplayView(urgency_hint=hint),
        )
        for name, hint in [("a-waits", 7), ("b-hurries", 2)]
    ]
    page = await open_page((views, []))

    await expect(page.locator(".card .title")).to_have_text(["b-hurries", "a-waits"])
