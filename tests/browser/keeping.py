"""What the browser keeps of the page, forgotten after each test that needs it: all share one context."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import BrowserContext

from tests.browser.standin import StandIn


@pytest_asyncio.fixture(loop_scope="session")
async def forgetful(context: BrowserContext, hub: StandIn) -> AsyncIterator[None]:
    yield
    page = await context.new_page()
    await page.goto(hub.url + "/static/icon.svg")
    await page.evaluate("localStorage.clear()")
    await page.close()
