"""Take the README's pictures, of one frozen moment of the demo: `python -m scripts.screenshots`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import Browser, async_playwright

from adsum_hub.roster import Roster
from adsum_shared.state import SessionView
from scripts.chromium import chromium
from tests.demo_fleets import START, Audience, FrozenHub

IMAGES = Path(__file__).parent.parent / "docs" / "img"
#: When the audience comes: every state there is is on the page then.
MOMENT = START


class Shot(NamedTuple):
    """ready: what is on the page once it is drawn. path: STAR stands for the session to show."""

    name: str
    path: str
    ready: str
    width: int = 1440
    height: int = 900
    scheme: str = "light"
    scale: int = 1


STAR = "/sessions/"
SHOTS = (
    Shot("desk", "/", ".card"),
    Shot("phone", "/", ".card", 390, 844, "dark", 2),
    Shot("details", STAR, ".log", scheme="dark"),
    Shot("usage", "/usage?days=30", ".uplot canvas"),
)


def star(roster: Roster) -> str:
    """The session with the most to tell: it asks something, and has subagents if any has both."""

    def worth(view: SessionView) -> tuple[int, bool, int, str]:
        running = sum(child.status == "running" for child in view.children)
        return running * bool(view.requests), bool(view.requests), running, view.id

    return max((v for v in roster.views.values() if v.reachability == "live"), key=worth).id


async def take(browser: Browser, hub: FrozenHub, shot: Shot) -> bytes:
    """As PNG; the same each time, for neither the story nor any clock goes on."""
    about: dict[str, Any] = {
        "viewport": {"width": shot.width, "height": shot.height},
        "color_scheme": shot.scheme,
        "device_scale_factor": shot.scale,
        "reduced_motion": "reduce",
        "timezone_id": "UTC",
        "locale": "en-US",
    }
    context = await browser.new_context(**about)
    try:
        page = await context.new_page()
        # Chance would give it the focus or not, and what was looked at is unread no more.
        await page.add_init_script("document.hasFocus = () => false")
        await page.clock.set_fixed_time(hub.audience.now)
        path = shot.path + star(hub.audience.roster) if shot.path == STAR else shot.path
        await page.goto(hub.url + path)
        await page.wait_for_selector(shot.ready)
        await page.evaluate("document.fonts.ready.then(() => true)")
        before = b""
        while (picture := await page.screenshot(animations="disabled")) != before:
            before = picture  # something was still being drawn
        return picture
    finally:
        await context.close()


async def main() -> None:
    async with FrozenHub(Audience().at(MOMENT)) as hub, async_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        path = chromium()
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        for shot in SHOTS:
            (IMAGES / f"{shot.name}.png").write_bytes(await take(browser, hub, shot))
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
