"""From opening the dashboard to its first card, with a real hub that holds 5,000 sessions.

    python -m bench.first_card_page [--sessions 5000] [--rounds 7]

Cold: a browser that has never seen the page. Warm: one that has, and whose cache is kept. From the
start of the navigation to the frame in which the first card is painted, by the page's own clock; as
fast as loopback is, and as over a slow phone (1.6 Mbit/s down, 150 ms to and fro). Beside them, in
turn, a bare page that the same hub serves: an icon, until it is loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, async_playwright

from adsum_shared.connect import open_redis
from scripts.chromium import chromium
from tests.brokers import running_broker
from tests.hub_processes import HubProcess
from tests.rosters import beat, store

HOSTS = 50
#: As Chromium's developer tools have them for a phone on a slow network.
SLOW = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 94_000}
PAINTED = """
  new MutationObserver((_, observer) => {
    if (!document.querySelector(".card")) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now(); }));
  }).observe(document, { childList: true, subtree: true });
"""
WHEN_PAINTED = """() => new Promise((tell) => {
  const look = () => (window.painted ? tell(window.painted) : setTimeout(look, 20));
  look();
})"""


async def opened(
    context: BrowserContext, url: str, *, slow: bool, bare: bool
) -> tuple[float, float]:
    """Milliseconds; and how many kB came over the network for it, messages apart."""
    page = await context.new_page()
    cdp = await context.new_cdp_session(page)
    await cdp.send("Network.enable")
    if slow:
        await cdp.send("Network.emulateNetworkConditions", SLOW)
    if bare:
        await page.goto(f"{url}/static/icon.svg")
        took = await page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        await page.close()
        return float(took), 0.0
    await page.add_init_script(PAINTED)
    await page.goto(url, wait_until="commit")
    await page.wait_for_selector(".card", timeout=60_000)
    # Not wait_for_function, which needs what the page's policy forbids.
    took = float(await page.evaluate(WHEN_PAINTED))
    size = await page.evaluate(
        "performance.getEntries().reduce((sum, each) => sum + (each.transferSize || 0), 0)"
    )
    await page.close()
    return took, float(size) / 1e3


async def rounds(browser: Browser, url: str, count: int) -> None:
    took: dict[str, list[tuple[float, float]]] = {}
    for _ in range(count):
        for slow in (False, True):
            net = "slow" if slow else "loopback"
            context = await browser.new_context(viewport={"width": 1440, "height": 900})
            for name, bare in (("cold", False), ("warm", False), ("bare page", True)):
                found = await opened(context, url, slow=slow, bare=bare)
                took.setdefault(f"{net}, {name}", []).append(found)
            await context.close()
    print(f"{'ms':22}{'median':>8}{'worst':>8}{'kB':>8}")
    for name, rows in sorted(took.items()):
        times = [row[0] for row in rows]
        size = statistics.median(row[1] for row in rows)
        print(f"{name:22}{statistics.median(times):8.0f}{max(times):8.0f}{size:8.0f}")


async def run(sessions: int, count: int) -> None:
    path = chromium()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="adsum-bench-") as name:
        root = Path(name)
        with running_broker(root / "broker", "--appendonly", "no", unix=True) as broker:
            async with open_redis(broker.url) as redis:
                ids = await store(redis, HOSTS, sessions, int(time.time() * 1000))

                async def live() -> None:
                    while True:
                        await beat(redis, ids, int(time.time() * 1000))
                        await asyncio.sleep(2)

                beating = asyncio.create_task(live())
                hub = HubProcess(root / "hub", broker.url, sign_in="off", log_level="warning")
                try:
                    await asyncio.to_thread(hub.start)
                    async with async_playwright() as playwright:
                        browser = await playwright.chromium.launch(
                            executable_path=path, args=arguments
                        )
                        await rounds(browser, hub.url, count)
                        await browser.close()
                finally:
                    beating.cancel()
                    hub.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    asyncio.run(run(options.sessions, options.rounds))


if __name__ == "__main__":
    main()
