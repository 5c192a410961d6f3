"""The hub's own trouble and a machine's losses: said while they last, in words, and never shown as live."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from adsum_shared.state import GapView, HubTrouble
from tests.browser import fleets
from tests.browser.conftest import DESK, PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import SIZES, look_faults, overflow, violations

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CAUSE = "Redis cannot be read (Error 111 connecting to 127.0.0.1:6379). Start it."


def blind(now: int) -> HubTrouble:
    return HubTrouble(CAUSE, now - 65_000, blind=True)


def full_redis(now: int) -> HubTrouble:
    return HubTrouble("Redis is out of memory and takes no writes.", now - 65_000)


async def text_of(page: Page, selector: str) -> str:
    return " ".join((await page.inner_text(selector)).split())


@pytest.mark.parametrize("size", SIZES)
async def test_a_list_that_stands_still_does_not_look_live(
    open_page: OpenPage, hub: StandIn, size: str
) -> None:
    now = wall_ms()
    page = await open_page(
        ([fleets.session("a", "idle", "Ready", now=now)], []), viewport=SIZES[size]
    )
    await expect(page.locator(".pill")).to_have_text("Live")
    await hub.own_up(blind(now))

    await expect(page.locator(".pill")).to_contain_text("Stale")
    said = await text_of(page, ".banner")
    assert re.match(r"The list stands still since \d+:\d\d:\d\d [AP]M\. Redis cannot be read", said)
    assert CAUSE in said
    await expect(page.locator("main")).to_have_attribute("data-stale", "true")
    await expect(page).to_have_title("Stale \u00b7 (1) Adsum")

    await hub.own_up(None)
    await expect(page.locator(".pill")).to_have_text("Live")
    await expect(page.locator(".banner")).to_have_count(0)
    await expect(page.locator("main")).to_have_attribute("data-stale", "false")
    await expect(page).to_have_title("(1) Adsum")


async def test_what_is_to_be_typed_stands_as_code_in_the_banner(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    page = await open_page(([fleets.session("a", "idle", "Ready", now=now)], []))
    await hub.own_up(HubTrouble("Redis is down: run `adsum up` there.", now))
    await expect(page.locator(".banner code")).to_have_text("adsum up")
    assert "`" not in await page.inner_text(".banner")


@pytest.mark.parametrize("size", SIZES)
async def test_where_machines_cannot_report_the_list_is_live_and_the_trouble_told(
    open_page: OpenPage, hub: StandIn, size: str
) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=SIZES[size])
    await hub.own_up(full_redis(wall_ms()))

    await expect(page.locator(".pill")).to_contain_text("Trouble")
    said = await text_of(page, ".banner")
    assert re.match(r"Trouble since .*\. Redis is out of memory and takes no writes\.$", said)
    await expect(page.locator("main")).to_have_attribute("data-stale", "false")


async def test_a_change_says_nothing_of_trouble_so_it_stays_told(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    page = await open_page(([fleets.session("a", "idle", "Ready", now=now)], []))
    await hub.own_up(full_redis(now))
    await hub.change(fleets.session("b", "idle", "Ready", now=now))
    await expect(page.locator(".card")).to_have_count(2)
    await expect(page.locator(".banner")).to_have_count(1)


async def test_ages_are_as_of_when_the_list_stood_still(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    view = fleets.session("a", "idle", "Ready", now=now, age=5 * 60_000)
    hub.load([view], [])
    hub.trouble = HubTrouble(CAUSE, now - 2 * 60_000, blind=True)
    page = await open_page(clock=True)

    await expect(page.locator(".card .age")).to_have_text("3m")
    await page.clock.run_for(3_000)
    await expect(page.locator(".card .age")).to_have_text("3m")


async def test_a_hub_that_could_not_read_yet_does_not_say_that_nobody_is_there(
    open_page: OpenPage, hub: StandIn
) -> None:
    hub.load([], [])
    hub.trouble = blind(wall_ms())
    page = await open_page(ready=".banner")

    assert "once the hub can read Redis" in await page.inner_text("main")
    await hub.own_up(None)
    await expect(page.locator("main")).to_contain_text("No sessions yet")


async def test_trouble_that_ended_while_the_page_was_away_is_gone_when_it_is_back(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await hub.own_up(blind(wall_ms()))
    await expect(page.locator(".banner")).to_have_count(1)
    hub.trouble = None
    await hub.cut()
    await expect(page.locator(".banner")).to_have_count(0)
    await expect(page.locator(".pill")).to_have_text("Live")


async def test_open_details_do_not_look_live_either(open_page: OpenPage, hub: StandIn) -> None:
    page = await open_page(
        fleets.full(wall_ms()), path="/sessions/alpha:search-ranking", ready=".session"
    )
    await expect(page.locator(".sheet-stale")).to_have_count(0)
    await hub.own_up(blind(wall_ms()))
    await expect(page.locator(".sheet-stale")).to_contain_text("Last updated at")


async def test_trouble_is_shown_accessibly(open_page: OpenPage, hub: StandIn) -> None:
    page = await open_page(fleets.broken(wall_ms()))
    for trouble in (blind(wall_ms()), full_redis(wall_ms())):
        await hub.own_up(trouble)
        await expect(page.locator(".banner")).to_contain_text(trouble.problem[:20])
        assert await look_faults(page) == []


async def test_a_long_cause_does_not_widen_the_phone(open_page: OpenPage, hub: StandIn) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=PHONE)
    await hub.own_up(HubTrouble("X" * 300, wall_ms(), blind=True))
    await expect(page.locator(".banner")).to_have_count(1)
    assert await overflow(page) == 0


async def test_markup_in_a_cause_is_text(open_page: OpenPage, hub: StandIn) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await hub.own_up(HubTrouble(fleets.HOSTILE[0], wall_ms(), blind=True))
    await expect(page.locator(".banner")).to_contain_text("<img src=x onerror=alert(1)>")


async def test_the_filter_keeps_its_width_on_a_phone_whatever_the_link_does(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("WebSocket connection to")
    page = await open_page(fleets.full(wall_ms()), viewport=PHONE)
    box = page.locator(".filter")
    live = await box.bounding_box()
    assert live is not None
    assert live["width"] > 180
    await hub.own_up(blind(wall_ms()))
    await expect(page.locator(".pill")).to_contain_text("Stale")
    assert await box.bounding_box() == live
    hub.down = True
    await hub.cut()
    await expect(page.locator(".pill")).to_contain_text("Reconnecting")
    assert await box.bounding_box() == live
    words = "(e) => e.scrollWidth <= e.clientWidth"
    assert await page.locator(".pill").evaluate(words)


GAPS = (GapView(0, "cap", 1_234), GapView(0, "lost"), GapView(0, "sun_spots", 2))


def lossy(now: int) -> fleets.Fleet:
    """A machine that lost something 70, 40 and 10 minutes ago, and a session that began between."""
    gaps = tuple(
        GapView(now - ago * 60_000, gap.reason, gap.numbers)
        for gap, ago in zip(GAPS, (70, 40, 10), strict=True)
    )
    view = fleets.session(
        "a", "idle", "Ready", now=now, title="A", incomplete=True, started_at=now - 3_600_000
    )
    return [view], [fleets.host("alpha", now, gaps=gaps, set_aside=3)]


LOST = r"Something before .+ is missing: its spool was deleted\."
LATEST = r"2 signals from before .+ are missing: sun spots\."


async def test_a_session_says_what_of_it_is_missing_and_why(open_page: OpenPage) -> None:
    page = await open_page(lossy(wall_ms()))
    told = await page.locator(".meta .late").get_attribute("title")
    assert re.fullmatch(f"{LATEST} {LOST}", told or "")

    await page.click(".open")
    warning = page.locator(".sheet .warning")
    await expect(warning).to_contain_text("Incomplete.")
    assert re.search(f"{LATEST} {LOST} What is shown", await warning.inner_text())


async def test_a_session_whose_hosts_gaps_are_unknown_still_says_that_something_is_missing(
    open_page: OpenPage,
) -> None:
    view = fleets.session("a", "thinking", "\u2026", now=wall_ms(), incomplete=True)
    page = await open_page(([view], []))
    told = await page.locator(".meta .late").get_attribute("title")
    assert told == "Part of its activity is missing."


@pytest.mark.parametrize("size", [DESK, PHONE])
async def test_an_open_host_lists_what_it_lost(open_page: OpenPage, size: object) -> None:
    page = await open_page(lossy(wall_ms()), viewport=size)
    await page.click(".hosts-fold" if size == PHONE else ".host-head")
    await page.wait_for_selector(".machine")
    if size == DESK:
        await page.wait_for_selector(".host-lost")  # named by the address, it opens by itself
        await page.click(".machine .host-head")
    await expect(page.locator(".host-lost")).to_have_count(0)
    await page.click(".host-head")
    await expect(page.locator(".host-lost")).to_have_count(4)
    lost = await page.locator(".host-lost").all_inner_texts()

    cap = r"1,234 signals from before .+ are missing: its disk allowance was used up\."
    for words, text in zip((LATEST, LOST, cap), lost, strict=False):
        assert re.fullmatch(words, text)
    assert lost[3] == "3 entries were set aside: unreadable, or sent by a copy of it."
    assert await violations(page) == []
    assert await overflow(page) == 0


async def test_the_first_row_of_an_open_host_keeps_its_distance(open_page: OpenPage) -> None:
    page = await open_page(([], [fleets.host("alpha", wall_ms())]), path="/hosts", ready=".machine")
    await page.click(".host-head")
    head = await page.locator(".host-head").bounding_box()
    row = await page.locator(".host-more li").first.bounding_box()
    assert head is not None
    assert row is not None
    assert row["y"] - (head["y"] + head["height"]) >= 6
