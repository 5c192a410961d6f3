"""Every look of the page: accessible, within its policy and its width, on desk and phone."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped] # it ships none
from playwright.async_api import Page, ViewportSize, expect

from tests.browser import fleets
from tests.browser.conftest import DESK, PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SIZES = {"desk": DESK, "phone": PHONE}
RULES: dict[str, Any] = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"],
    "resultTypes": ["violations"],
}
#: All that another colour scheme can break.
COLOURS: dict[str, Any] = {**RULES, "runOnly": {"type": "rule", "values": ["color-contrast"]}}
SCHEMES: dict[Literal["light", "dark"], dict[str, Any]] = {"light": RULES, "dark": COLOURS}
#: Every rule in each width, every colour of a desk in each scheme. What only a phone shows is checked in
#: the dark scheme.
LOOKS: tuple[tuple[str, Literal["light", "dark"], dict[str, Any]], ...] = (
    ("desk", "light", RULES),
    ("desk", "dark", COLOURS),
    ("phone", "dark", RULES),
)
DRAW_ALL = "document.styleSheets[0].insertRule('.card { content-visibility: visible !important }')"
HANDSHAKE = "WebSocket connection to"
AXE = Axe().axe_script
#: Resolves when the page has drawn what changed.
DRAWN = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
RUN_AXE = """([within, rules]) =>
  axe.run(within ?? document, rules).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`)))"""


async def violations(
    page: Page, rules: dict[str, Any] = RULES, within: str | None = None
) -> list[str]:
    """Return what axe finds, also in cards below the fold.

    within: selector of the part to look at; None means the whole document.
    """
    await page.evaluate(DRAW_ALL)
    # The script stays in the document, and parsing it takes 20 to 60 ms.
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE)
    found: list[str] = await page.evaluate(RUN_AXE, [within, rules])
    return found


async def resize(page: Page, size: ViewportSize) -> None:
    """Change the window and wait until the page is drawn in it."""
    await page.set_viewport_size(size)
    await page.evaluate(DRAWN)


async def too_wide(page: Page, *widths: int) -> list[int]:
    """Return the window's widths in which the page is wider than its window."""
    found = []
    for width in widths:
        await resize(page, {"width": width, "height": 800})
        found += [width] if await overflow(page) else []
    return found


async def look_faults(page: Page) -> list[str]:
    """Return what axe finds in each of LOOKS, and where the page is too wide. Ends on a phone, in the dark."""
    faults = []
    for size, scheme, rules in LOOKS:
        await page.emulate_media(color_scheme=scheme)
        await resize(page, SIZES[size])
        faults += [f"{size}, {scheme}: {fault}" for fault in await violations(page, rules)]
        if wide := await overflow(page):
            faults.append(f"{size}: {wide} px too wide")
    return faults


async def violations_in_both(page: Page) -> list[str]:
    """In both colour schemes: to draw a page anew takes longer than to look at it."""
    found = []
    for scheme, rules in SCHEMES.items():
        await page.emulate_media(color_scheme=scheme)
        found += [f"{scheme}: {each}" for each in await violations(page, rules)]
    return found


async def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width: int = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width


@pytest.mark.parametrize("fleet", ["empty", "full", "broken"])
async def test_a_fleet_is_shown_accessibly(open_page: OpenPage, fleet: str) -> None:
    people = getattr(fleets, fleet)(wall_ms())
    page = await open_page(people, ready=".notice" if fleet == "empty" else ".card")

    assert await look_faults(page) == []


@pytest.mark.parametrize("who", ["alpha:web-2", "alpha:search-ranking", "gamma:gone-1"])
async def test_details_are_shown_accessibly(open_page: OpenPage, hub: StandIn, who: str) -> None:
    hub.load(*fleets.broken(wall_ms()))
    hub.activity[who] = fleets.activity(wall_ms(), 24)
    page = await open_page(path=f"/sessions/{who}", ready=".session")
    await expect(page.locator(".line")).to_have_count(24)

    assert await look_faults(page) == []


async def test_details_without_activity_are_shown_accessibly(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    hub.load(*fleets.full(wall_ms()))
    hub.fails_with = 500
    hub.may_answer.clear()
    page = await open_page(path="/sessions/alpha:docs-1", ready=".log-ghost")
    assert await look_faults(page) == []

    hub.may_answer.set()
    await page.wait_for_selector(".log-failed")
    assert await look_faults(page) == []


@pytest.mark.parametrize("size", SIZES)
async def test_open_hints_are_shown_accessibly(open_page: OpenPage, size: str) -> None:
    page = await open_page(fleets.broken(wall_ms()), viewport=SIZES[size])
    await page.locator(".open").first.focus()
    while await page.locator(".hint-text:popover-open").count() == 0:
        await page.keyboard.press("Tab")

    assert await violations_in_both(page) == []
    assert await overflow(page) == 0


async def test_a_page_that_lost_its_hub_is_shown_accessibly(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append(HANDSHAKE)
    page = await open_page(fleets.broken(wall_ms()), viewport=PHONE)
    hub.down = True
    await hub.cut()
    await page.wait_for_selector(".banner", timeout=15_000)

    assert await look_faults(page) == []


async def test_a_page_that_never_reached_its_hub_says_what_to_do(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append(HANDSHAKE)
    hub.down = True
    page = await open_page(viewport=PHONE, ready=".notice", clock=True)

    await expect(page.locator(".notice")).to_contain_text("No answer from the hub")
    await expect(page.locator(".notice")).to_contain_text("adsum up")
    assert await violations(page) == []

    # With its clock stopped the page does not try again by itself.
    await page.clock.pause_at(await page.evaluate("Date.now() + 100"))
    hub.load(*fleets.full(wall_ms()))

    async def reached() -> bool:
        # By script: it vanishes with the first card, maybe under the pointer.
        await page.evaluate("document.querySelector('.notice .button')?.click()")
        return hub.hellos != []

    await wait_until(reached, interval=0.1)


async def test_a_refused_address_is_named(open_page: OpenPage, hub: StandIn) -> None:
    hub.refuse_with = 1008
    page = await open_page(ready=".notice")

    assert "The hub refuses this address" in await page.inner_text(".notice")
    assert hub.url in await page.inner_text(".notice")


async def test_no_width_scrolls_sideways(open_page: OpenPage) -> None:
    page = await open_page(fleets.broken(wall_ms()))
    assert await too_wide(page, 360, 641, 900, 1100, 2560) == []


async def test_a_word_without_spaces_does_not_widen_the_phone(open_page: OpenPage) -> None:
    now = wall_ms()
    long = fleets.session(
        "long", "idle", "L" * 300, now=now, title="T" * 300, project="P" * 300, branch="B" * 300
    )
    note = fleets.HostWitness(name="W" * 90, state="missing", note="N" * 300, counts={"C" * 90: 1})
    box = fleets.host("H" * 200, now, problem="X" * 300, witnesses=(note,))
    page = await open_page(([long], [box]), viewport=PHONE)
    assert await overflow(page) == 0


async def test_a_word_without_spaces_does_not_widen_the_details(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    word = "W" * 300
    request = fleets.RequestView(
        id="r", kind="permission", tool=word, opened_at=now, payload={"command": word, word: word}
    )
    child = fleets.ChildView(
        id="c", kind=word, status=word, description=word, started_at=now, finished_at=now
    )
    view = fleets.session(
        "long", "idle", word, now=now, title=word, cwd=word, requests=(request,),
        children=(child,), witnesses=(fleets.WitnessView("hook", 0, word),),
    )  # fmt: skip
    hub.load([view], [])
    hub.activity[view.id] = [fleets.ActivityEntry(now, word, word, word)]
    page = await open_page(viewport=PHONE, path=f"/sessions/{view.id}", ready=".line")
    assert await overflow(page) == 0

    # At the side of the list, too.
    await page.goto(page.url.partition("/sessions")[0])
    await page.locator(".card").click()
    await page.wait_for_selector(".sheet .line")
    assert await page.locator(".sheet").evaluate("(e) => e.scrollWidth - e.clientWidth") == 0


@pytest.mark.parametrize("path", ["/", "/sessions/alpha:web-2"])
async def test_everything_tapped_on_a_phone_is_44_px_high(open_page: OpenPage, path: str) -> None:
    ready = ".card" if path == "/" else ".session-body"
    page = await open_page(fleets.broken(wall_ms()), viewport=PHONE, path=path, ready=ready)
    # A card's button is as good as the card: a tap anywhere on it does the same.
    low = await page.evaluate(
        """[...document.querySelectorAll("a, button, input")]
             .map((e) => e.matches(".open") ? e.closest(".card") : e)
             .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44)
             .map((e) => e.outerHTML)"""
    )
    assert low == []


async def test_the_focus_can_be_seen(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.keyboard.press("Tab")
    style = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


async def test_an_empty_hub_says_what_to_do_next(open_page: OpenPage) -> None:
    page = await open_page(fleets.empty(wall_ms()), ready=".notice")
    text = await page.inner_text(".notice")

    assert "adsum hooks install" in text
    assert "claude" in text
    assert "Add more machines" in text


async def test_a_command_is_copied(open_page: OpenPage) -> None:
    page = await open_page(fleets.empty(wall_ms()), ready=".notice")
    await page.click("[aria-label='Copy adsum hooks install']")

    async def copied() -> bool:
        return bool(await page.evaluate("navigator.clipboard.readText()") == "adsum hooks install")

    await wait_until(copied)
