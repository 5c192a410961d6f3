"""Names as long as people give them: no card gives its title away to them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from playwright.async_api import Page

from tests.browser import fleets
from tests.browser.conftest import OpenPage, wall_ms
from tests.browser.test_looks import DRAW_ALL, resize

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LONG = "other-project-with-a-rather-long-name"


def named(now: int) -> fleets.Fleet:
    """A full fleet in which every project and branch has a long name."""
    sessions, hosts = fleets.full(now)
    return [replace(view, project=LONG, branch=LONG) for view in sessions], hosts


async def narrowest_title(page: Page) -> float:
    """The least share of its card that a title has got."""
    share: float = await page.evaluate(
        """Math.min(...[...document.querySelectorAll('.card .title')]
            .map(title => [title, title.closest('.card')].map(e => e.getBoundingClientRect().width))
            .filter(([, card]) => card)
            .map(([title, card]) => title / card))"""
    )
    return share


async def test_long_names_leave_titles_their_room(open_page: OpenPage) -> None:
    page = await open_page(named(wall_ms()), ready=".card")
    await page.evaluate(DRAW_ALL)

    for width in (1600, 1440, 1280, 1024, 900, 768, 390):
        await resize(page, {"width": width, "height": 900})
        assert await narrowest_title(page) > 0.5, width
