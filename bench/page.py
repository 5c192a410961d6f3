"""Frames of a page with 5,000 sessions and 1,000 changes a second, beside an empty page.

    python -m bench.page [--sessions 5000] [--rate 1000] [--seconds 30] [--rounds 2]

A real Chromium; the hub's part is played by the stand-in, which tells what has changed every 50 ms,
as a busy hub does. In turn with the dashboard a bare page of the same browser parses the same
messages and drops them. Frames are counted from one call of requestAnimationFrame to the next;
the heap is what is left after a forced collection, at the beginning and at the end. On a machine
that others use as well frames come late for want of a core: `own` is the CPU time of the main
thread's longest task, from Chromium's trace, which no neighbour lengthens.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from playwright.async_api import Browser, CDPSession, async_playwright

from adsum_shared.state import GROUP_OF, SessionView
from scripts.chromium import chromium
from tests.browser.fleets import crowd
from tests.browser.standin import Serving, StandIn

TICK_S = 0.05
SETTLE_S = 5.0
#: Of so many changes one moves a session to another section.
MOVES = 10
STATES = ("thinking", "acting", "responding")
ELSEWHERE = ("needs_permission", "session_ended", "acting")

DROP = """() => {
  const address = new URL("/ws", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address);
  socket.onopen = () => socket.send('{"epoch": null, "offset": null}');
  socket.onmessage = ({ data }) => { JSON.parse(data); };
}"""
COUNT = """() => {
  const gaps = [], tasks = [];
  window.counted = { gaps, tasks };
  let last = performance.now();
  const frame = (now) => { gaps.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame((now) => { last = now; requestAnimationFrame(frame); });
  new PerformanceObserver((list) => { for (const task of list.getEntries()) tasks.push(task.duration); })
    .observe({ entryTypes: ["longtask"] });
}"""


class Seen(NamedTuple):
    """Milliseconds; heap in MB. late: frames over 50 ms. tasks: those over 50 ms, and the longest."""

    frames: int
    p50: float
    p99: float
    worst: float
    late: int
    tasks: int
    longest: float
    own: float
    heap: float
    heap_end: float
    busy: float


def wall() -> int:
    return int(time.time() * 1000)


def changed(view: SessionView, dice: random.Random) -> SessionView:
    name = dice.choice(STATES)
    if dice.randrange(MOVES) == 0:
        name = dice.choice(ELSEWHERE)
    moves = GROUP_OF[name] != view.state.group
    since = wall() if moves else view.state.since
    label = f"Running: pytest -k n{dice.randrange(1_000_000)}"
    state = replace(view.state, group=GROUP_OF[name], state=name, label=label, since=since)
    urgency = 1 if name == "needs_permission" else None
    return replace(view, state=state, urgency=urgency, updated_at=wall())


async def keep_changing(hub: StandIn, rate: int) -> None:
    dice = random.Random(6)
    names = list(hub.sessions)
    due, turn = time.monotonic(), 0
    while True:
        count = int(rate * TICK_S)
        some = [names[(turn + n) % len(names)] for n in range(count)]
        turn += count
        await hub.change(*(changed(hub.sessions[name], dice) for name in some))
        hub.ring.clear()  # nobody resumes here, and it would grow for ever
        due += TICK_S
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def heap(session: CDPSession) -> float:
    await session.send("HeapProfiler.collectGarbage")
    used: dict[str, float] = await session.send("Runtime.getHeapUsage")
    return used["usedSize"] / 1e6


async def busy(session: CDPSession) -> float:
    """Seconds the page's main thread has worked."""
    found = (await session.send("Performance.getMetrics"))["metrics"]
    return next(float(each["value"]) for each in found if each["name"] == "TaskDuration")


def longest_task(trace: bytes) -> float:
    """Of the main threads of all pages, in milliseconds of CPU; of our pages only one is open."""
    events = msgspec.json.decode(trace)["traceEvents"]
    mains = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    own = (each.get("tdur", 0) for each in events if (each["pid"], each["tid"]) in mains)
    return max(own, default=0) / 1e3


async def look(browser: Browser, hub: StandIn, seconds: float, *, bare: bool) -> Seen:
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    page = await context.new_page()
    if bare:
        await page.goto(f"{hub.url}/static/manifest.webmanifest")
        await page.evaluate(DROP)
    else:
        await page.goto(hub.url)
        await page.wait_for_selector(".card", timeout=20_000)
    cdp = await context.new_cdp_session(page)
    await cdp.send("Performance.enable")
    await asyncio.sleep(SETTLE_S)
    before = await heap(cdp)
    await asyncio.sleep(0.5)  # the collection is none of the page's frames
    await browser.start_tracing(page=page, categories=["toplevel", "__metadata"])
    await page.evaluate(COUNT)
    began = await busy(cdp)
    await asyncio.sleep(seconds)
    worked = (await busy(cdp) - began) / seconds
    own = longest_task(await browser.stop_tracing())
    found: dict[str, Any] = await page.evaluate("window.counted")
    after = await heap(cdp)
    await context.close()
    gaps, tasks = sorted(found["gaps"]), found["tasks"]
    p99 = gaps[int(len(gaps) * 0.99)]
    late = sum(gap > 50 for gap in gaps)
    longest = max(tasks, default=0.0)
    figures = (len(gaps), statistics.median(gaps), p99, gaps[-1], late, len(tasks), longest, own)
    return Seen(*figures, before, after, worked)


async def run(sessions: int, rate: int, seconds: float, rounds: int) -> None:
    hub = StandIn(wall)
    hub.load(*crowd(wall(), sessions))
    path = chromium()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    seen: dict[str, list[Seen]] = {"adsum": [], "bare": []}
    async with Serving(hub), async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        changing = asyncio.create_task(keep_changing(hub, rate))
        for _ in range(rounds):
            seen["adsum"].append(await look(browser, hub, seconds, bare=False))
            seen["bare"].append(await look(browser, hub, seconds, bare=True))
        changing.cancel()
        await browser.close()
    head = (
        "frames",
        "p50",
        "p99",
        "worst",
        ">50 ms",
        "tasks",
        "longest",
        "own",
        "heap",
        "at end",
        "busy",
    )
    print(" " * 8 + "".join(f"{name:>9}" for name in head))
    for side, rows in seen.items():
        for row in rows:
            print(f"{side:8}" + "".join(f"{value:9.2f}" for value in row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    asyncio.run(run(options.sessions, options.rate, options.seconds, options.rounds))


if __name__ == "__main__":
    main()
