"""One pass over every view and everything that opens over one: drawn whole, in its width, accessible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, ViewportSize, expect

from adsum_hub.app import WEB
from adsum_hub.web.assets import Assets
from tests.browser import fleets, held, spending
from tests.browser.conftest import DESK, PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import overflow, resize, violations

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

#: What is on a view once it is drawn.
DRAWN = {
    "board": ".card",
    "host": ".group-row",
    "project": ".group-row",
    "agent": ".group-row",
    "list": ".list-row",
    "hosts": ".machine",
    "usage": ".report",
    "history": ".result",
    "settings": ".saved-views",
    "session": ".session-body .log",
}
#: Tabs and the browser's history tell these from the roll.
NAMED = ("hosts", "usage", "history", "settings")
PAGES = Assets(WEB).pages
STAR = "alpha:web-2"
Scheme = Literal["light", "dark"]
SIZES: dict[str, tuple[ViewportSize, Scheme]] = {"desk": (DESK, "light"), "phone": (PHONE, "dark")}


@pytest.fixture
def busy(hub: StandIn) -> StandIn:
    now = wall_ms()
    hub.load(*fleets.broken(now))
    hub.activity[STAR] = fleets.activity(now)
    hub.past = [spending.over(now, number) for number in range(5)]
    hub.reports = spending.reports()
    hub.budgets = spending.budgets(now)
    return hub


@pytest.mark.browser_pass
@pytest.mark.parametrize("view", PAGES)
async def test_every_view_is_drawn_in_its_width_and_accessible(
    open_page: OpenPage, busy: StandIn, expected_faults: list[str], view: str
) -> None:
    if view == "settings":
        expected_faults.append("Failed to load resource")  # the stand-in notifies nobody
    path = PAGES[view] + (STAR if view == "session" else "")
    page = await open_page(path=path, ready=DRAWN[view])

    if view in NAMED:
        assert f"{view.title()} \u00b7 " in await page.title()
    assert await faults_on_desk_and_phone(page) == []


async def faults_on_desk_and_phone(page: Page, within: str | None = None) -> list[str]:
    """Return what axe finds, and where the page is too wide: light on a desk, dark on a phone."""
    faults = []
    for name, (size, scheme) in SIZES.items():
        await page.emulate_media(color_scheme=scheme)
        await resize(page, size)
        faults += [f"{name}: {fault}" for fault in await violations(page, within=within)]
        if wide := await overflow(page):
            faults.append(f"{name}: {wide} px too wide")
    return faults


async def test_every_kind_of_request_is_drawn_in_its_width_and_accessible(
    open_page: OpenPage, hub: StandIn
) -> None:
    sessions, hosts = held.every_kind(wall_ms())
    hub.load(sessions, [replace(host, control="full") for host in hosts])
    hub.activity = {view.id: [] for view in sessions}
    page = await open_page(ready=".card .decide")
    assert await faults_on_desk_and_phone(page) == []
    await page.locator(".card .open").first.click()
    for view in sessions:
        await page.evaluate(
            """(id) => import("/static/core/navigation.js").then((m) => m.openSession(id))""",
            view.id,
        )
        await expect(page.locator(".sheet h2")).to_have_text(view.title or "")
        await expect(page.locator(".sheet .controls")).to_have_count(2)
        if more := await page.locator(".sheet [data-do=always-open]").all():
            await expect(page.locator(".sheet [data-decide][data-ready=true]")).not_to_have_count(0)
            await more[0].click()
            await expect(page.locator(".sheet .always")).to_be_visible()
        assert await faults_on_desk_and_phone(page, ".sheet") == [], view.id


async def palette(page: Page) -> None:
    await page.keyboard.press("Control+k")
    await expect(page.locator(".palette-row").first).to_be_visible()


async def shortcuts(page: Page) -> None:
    await page.keyboard.press("?")
    await expect(page.locator(".shortcuts").first).to_be_visible()


async def details(page: Page) -> None:
    await page.locator("#main [data-id] .open").first.click()
    await expect(page.locator(".sheet .session-body")).to_be_visible()


async def menu(page: Page) -> None:
    await page.get_by_role("button", name="More").click()
    await expect(page.locator(".menu")).to_be_visible()


async def narrowing(page: Page) -> None:
    await page.locator(".pick").first.click()
    await expect(page.locator(".picks, .sheet .fold").first).to_be_visible()


async def adding(page: Page) -> None:
    await page.get_by_role("button", name="Add a machine").click()
    await expect(page.locator(".adding-form")).to_be_visible()


@pytest.mark.parametrize(
    ("opens", "size", "view"),
    [
        (palette, "desk", "board"),
        (palette, "phone", "list"),
        (shortcuts, "desk", "board"),
        (details, "desk", "board"),
        (details, "phone", "list"),
        (menu, "phone", "board"),
        (narrowing, "desk", "list"),
        (narrowing, "phone", "board"),
        (adding, "desk", "hosts"),
    ],
)
async def test_what_opens_over_a_view_is_accessible(
    open_page: OpenPage,
    busy: StandIn,
    opens: Callable[[Page], Awaitable[None]],
    size: str,
    view: str,
) -> None:
    viewport, scheme = SIZES[size]
    page = await open_page(path=PAGES[view], viewport=viewport, scheme=scheme, ready=DRAWN[view])
    await opens(page)

    assert await violations(page) == []
    assert await overflow(page) == 0
