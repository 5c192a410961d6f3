"""One browser and one stand-in hub for all browser tests; a page that keeps record of its faults."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    async_playwright,
    expect,
)

from scripts.chromium import chromium
from tests.browser.fleets import Fleet
from tests.browser.standin import Serving, StandIn

DESK: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

#: Opens a page of the stand-in: open_page(fleet, viewport=PHONE, ready=".card", …).
OpenPage: TypeAlias = Callable[..., Awaitable[Page]]

#: Awaited in the page: whatever it asked for before has reached the hub.
ASKED = "fetch('/static/icon.svg', { cache: 'no-store' }).then((answer) => answer.text())"

RECORD_VIOLATIONS = """
  window.violations = [];
  document.addEventListener("securitypolicyviolation",
    (v) => window.violations.push(`${v.violatedDirective} ${v.blockedURI}`));
"""
#: Asked of the page once; the driver would tell of some sixty requests for each.
WHAT_IT_DID = """() => [
  window.violations,
  performance.getEntriesByType("resource").map(({ name }) => name).filter((name) => !name.startsWith("data:")),
]"""

#: All tests of a worker share one browser profile.
FORGET = "(localStorage.clear(), sessionStorage.clear())"


def wall_ms() -> int:
    return int(time.time() * 1000)


@asynccontextmanager
async def launched(path: str | None) -> AsyncIterator[Browser]:
    if path is None:
        pytest.skip("Chromium is missing; `make system-deps` installs it")
    expect.set_options(timeout=15_000)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        await browser.close()


async def new_context(browser: Browser) -> BrowserContext:
    permissions = ["clipboard-read", "clipboard-write"]
    return await browser.new_context(reduced_motion="reduce", permissions=permissions)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launched(chromium()) as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def whole_browser() -> AsyncIterator[Browser]:
    """For tests of notifications, whose files put it in the place of the other."""
    async with launched(chromium(whole=True)) as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def context(browser: Browser) -> BrowserContext:
    return await new_context(browser)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served() -> AsyncIterator[StandIn]:
    async with Serving(StandIn(wall_ms)) as standin:
        yield standin


@pytest.fixture
def hub(served: StandIn) -> StandIn:
    """The stand-in, with nobody in it."""
    served.load([], [])
    return served


@pytest.fixture
def expected_faults() -> list[str]:
    """Beginnings of the console errors that a test provokes; any other fails it."""
    return []


async def new_page(context: BrowserContext, clock: bool) -> Page:
    if clock:  # it is its whole context's; everyone else shares one, and its cache.
        assert context.browser is not None
        context = await context.browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    await page.add_init_script(RECORD_VIOLATIONS)
    if clock:
        await page.clock.install()
    return page


async def blank(page: Page) -> Page:
    """Return the page as good as new, but with its compiled scripts."""
    await page.unroute_all()
    await page.goto("about:blank")
    await page.mouse.move(-1, -1)
    return page


@pytest.fixture(scope="session")
def blank_pages() -> list[Page]:
    """Of tests that are over. A new one is a new process, which compiles all anew: a third of a load."""
    return []


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(
    context: BrowserContext,
    hub: StandIn,
    blank_pages: list[Page],
    expected_faults: list[str],
) -> AsyncIterator[OpenPage]:
    pages: list[tuple[Page, bool]] = []
    faults: list[str] = []

    async def dismiss(dialog: Any) -> None:
        faults.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    listeners: dict[str, Callable[[Any], Any]] = {
        "pageerror": lambda error: faults.append(f"error: {error}"),
        "dialog": dismiss,
        "console": lambda line: faults.append(line.text) if line.type == "error" else None,
    }

    async def opened(
        fleet: Fleet | None = None,
        *,
        viewport: ViewportSize = DESK,
        scheme: Literal["light", "dark"] = "light",
        ready: str = ".card",
        path: str = "/",
        clock: bool = False,
        narrowing: bool = False,
        unseen: bool = False,
    ) -> Page:
        """narrowing: with the facets open, as somebody left them. unseen: its window has no focus."""
        if fleet is not None:
            hub.load(*fleet)
        shared = not (clock or unseen)
        page = blank_pages.pop() if shared and blank_pages else await new_page(context, clock)
        pages.append((page, shared))
        for event, listener in listeners.items():
            page.on(event, listener)  # type: ignore[call-overload] # one of those it has
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size(viewport)
        if narrowing:
            await page.goto(hub.url + "/static/icon.svg")
            await page.evaluate("localStorage.setItem('adsum.narrowing', 'true')")
        if unseen:
            await page.add_init_script("document.hasFocus = () => false")
        await page.goto(hub.url + path)
        await page.wait_for_selector(ready, timeout=10_000)
        return page

    yield opened
    for page, shared in pages:
        broken, asked = await page.evaluate(WHAT_IT_DID)
        await page.evaluate(FORGET)
        faults += [f"policy: {v}" for v in broken]
        faults += [f"request outside: {url}" for url in asked if not url.startswith(hub.url)]
        if shared:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            blank_pages.append(await blank(page))
        else:
            await (page.close() if page.context is context else page.context.close())
    assert [f for f in faults if not f.startswith(tuple(expected_faults))] == []
