"""Writing to a session from the page, unasked: prompts, the queue, interrupt, suspend and resume."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from adsum_shared.state import QueuedView, SessionView, SuspendedView
from tests.browser import fleets
from tests.browser.conftest import ASKED, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_deciding import READY, at_session, decided
from tests.support import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
]


def resting(now: int, **more: Any) -> SessionView:
    return fleets.session("a", "idle", "Waits for the next prompt", now=now, title="A", **more)


@pytest.mark.parametrize(
    ("way", "button", "verb"),
    [("terminal", "Send", "prompt"), ("inbox", "Send", "prompt"), ("queue", "Queue", "queue")],
)
async def test_a_prompt_goes_the_way_the_session_takes_and_can_be_taken_back(
    open_page: OpenPage, hub: StandIn, way: Any, button: str, verb: str
) -> None:
    view = resting(wall_ms(), prompt_way=way)
    page = await at_session(open_page, hub, view, control="full")
    await page.keyboard.press("r")
    await page.keyboard.type("Go on ad")
    press = page.locator(READY).get_by_role("button", name=button)
    await press.click()
    await page.locator(".toasts [data-do=undo]").click()
    await expect(page.get_by_label("A prompt")).to_have_value("Go on ad")
    assert hub.commands == []
    await press.click()
    assert await decided(hub) == [{"verb": verb, "text": "Go on ad"}]
    await expect(page.get_by_label("A prompt")).to_have_value("")


async def test_the_queue_is_shown_and_changed_item_by_item(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    queue = [QueuedView(f"i{n}", f"Task {n}", "ann", now, now + 3_600_000) for n in range(3)]
    page = await at_session(open_page, hub, resting(now, queue=tuple(queue)), control="full")
    await expect(page.locator(".queue li")).to_have_count(3)
    await expect(page.locator(".sheet-state .meta, .meta").first).to_contain_text("3 queued")
    row = page.locator(".queue li").nth(1)
    await row.locator(f"{READY} [data-do=up]").click()
    await row.locator("[data-do=withdraw]").click()
    assert await decided(hub, 2) == [
        {"verb": "move", "item": "i1", "place": 0},
        {"verb": "withdraw", "item": "i1"},
    ]


async def test_interrupting_and_suspending_take_two_presses_and_resuming_one(
    open_page: OpenPage, hub: StandIn
) -> None:
    async def twice(page: Page, does: str, count: int) -> None:
        button = page.locator(f"{READY} [data-do={does}]")

        async def pressed() -> bool:
            await button.click()
            return len(hub.commands) == count

        await button.click()
        await page.evaluate(ASKED)
        assert hub.commands == []
        await wait_until(pressed)

    now = wall_ms()
    working = fleets.session("a", "thinking", "Thinking", now=now, prompt_way="queue")
    page = await at_session(open_page, hub, working, control="full")
    await twice(page, "interrupt", 1)
    assert hub.commands[0][1] == {"verb": "interrupt"}
    page = await at_session(open_page, hub, resting(now), control="full")
    await twice(page, "suspend", 1)
    assert hub.commands[0][1] == {"verb": "suspend"}
    away = fleets.session(
        "a", "suspended", "Suspended", now=now, suspended=SuspendedView(now, "ann", False, 9 << 20)
    )
    page = await at_session(open_page, hub, away, control="full")
    await expect(page.locator("[data-part=prompt]")).to_contain_text("by ann, which freed 9.4 MB")
    await page.get_by_label("A prompt to go on with, if any").fill("Go on")
    await page.locator(f"{READY} [data-do=resume]").click()
    assert await decided(hub) == [{"verb": "resume", "text": "Go on"}]


@pytest.mark.parametrize(("control", "count"), [("off", 0), ("approve", 1)])
async def test_only_full_control_lets_anybody_write_to_a_session(
    open_page: OpenPage, hub: StandIn, control: str, count: int
) -> None:
    page = await at_session(
        open_page, hub, resting(wall_ms()), control=control, ready=".session-body"
    )
    await expect(page.locator("[data-part=prompt] .barred code")).to_have_count(count)
    await expect(page.get_by_label("A prompt")).to_have_count(0)
