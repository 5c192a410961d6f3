"""Take the README's pictures: `python -m scripts.screenshots` with a made-up fleet and Chromium."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

from playwright.async_api import async_playwright

from tests.browser import fleets
from tests.browser.standin import Serving, StandIn

IMAGES = Path(__file__).parent.parent / "docs" / "img"
#: file, width, height, scheme, scale, whose details are open
SHOTS = (
    ("desk", 1440, 900, "light", 1, ""),
    ("phone", 390, 844, "dark", 2, ""),
    ("details", 1440, 900, "dark", 1, "alpha:work-2"),
)


def wall_ms() -> int:
    return int(time.time() * 1000)


async def main() -> None:
    async with Serving(StandIn(wall_ms)) as hub, async_playwright() as playwright:
        hub.load(*fleets.full(wall_ms()))
        deeds = [deed for deed in fleets.activity(wall_ms(), 40) if deed.kind != "agent.dreamt"]
        hub.activity = dict.fromkeys(hub.sessions, deeds)
        chromium = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, width, height, scheme, scale, session in SHOTS:
            page = await chromium.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                device_scale_factor=scale,
            )
            await page.goto(f"{hub.url}/#session={session}")
            await page.wait_for_selector(".log" if session else ".card")
            await page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
        await chromium.close()


if __name__ == "__main__":
    asyncio.run(main())
