"""Sessions that are over: searched for, opened, and what the page says while it has no answer."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime

import pytest
from playwright.async_api import Page, expect

from tests.browser import fleets, spending
from tests.browser.addresses import ending
from tests.browser.conftest import ASKED, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import (
    SIZES,
    look_faults,
    resize,
    violations,
)
from tests.browser.test_usage import tall_enough, words
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

BOX = "input[placeholder^=Title]"


def remembered(hub: StandIn, count: int = 7) -> None:
    now = wall_ms()
    hub.load(*fleets.full(now))
    hub.past = [spending.over(now, n) for n in range(count)]


async def searched(open_page: OpenPage) -> Page:
    return await open_page(path="/history", ready=".result")


async def test_the_latest_stand_there_at_once_with_what_they_are_known_by(
    open_page: OpenPage, hub: StandIn
) -> None:
    remembered(hub)
    page = await open_page()
    assert hub.sought == []
    await page.get_by_role("link", name="History").click()
    results = page.locator(".result")

    await expect(results).to_have_count(7)
    said = await words(results.nth(1))
    assert re.fullmatch(
        r"Work of day 1 ended at \d+:\d\d [AP]M billing alpha opus 4.1 took 2h 00m \$0.31 · 52.0k tokens",
        said,
    )
    assert hub.sought == [("", 0)]
    await expect(page.locator(BOX)).to_be_focused()


async def test_what_is_typed_is_asked_for_once_the_typing_pauses(
    open_page: OpenPage, hub: StandIn
) -> None:
    remembered(hub)
    page = await open_page(path="/history", ready=".result", clock=True)
    await page.clock.pause_at(await page.evaluate("Date.now() + 1000"))
    for letter in "day 3":
        await page.locator(BOX).press_sequentially(letter)
        await page.clock.run_for(100)
    await page.evaluate(ASKED)
    assert hub.sought == [("", 0)]

    await page.clock.run_for(400)
    await wait_until(lambda: hub.sought == [("", 0), ("day 3", 0)])

    async def drawn() -> bool:
        await page.clock.run_for(20)
        return (await page.locator(".found").inner_text()).startswith("1 session,")

    await wait_until(drawn)
    await expect(page.locator(".result")).to_have_count(1)


async def test_a_search_without_a_match_says_so(open_page: OpenPage, hub: StandIn) -> None:
    remembered(hub)
    page = await searched(open_page)
    await page.fill(BOX, "<b>nothing</b>")
    await expect(page.locator(".nobody")).to_have_text("No session matches “<b>nothing</b>”.")
    await expect(page.locator(".result")).to_have_count(0)
    assert await violations(page) == []

    await page.get_by_role("button", name="Clear the search").click()
    await expect(page.locator(".result")).to_have_count(7)
    await expect(page.locator(BOX)).to_have_value("")


async def test_a_hub_without_a_past_says_so(open_page: OpenPage, hub: StandIn) -> None:
    remembered(hub, 0)
    page = await open_page(path="/history", ready=".nobody")
    assert "No session has ended yet" in await page.inner_text(".nobody")
    assert await violations(page) == []


async def test_more_are_shown_on_demand(open_page: OpenPage, hub: StandIn) -> None:
    remembered(hub, 60)
    page = await searched(open_page)
    await expect(page.locator(".result")).to_have_count(50)
    # One more has ended meanwhile, so that the next page begins with one that is shown already.
    hub.past = [spending.over(wall_ms(), 99), *hub.past]
    await page.get_by_role("button", name="Show more (10 not shown)").click()

    await expect(page.locator(".result")).to_have_count(60)
    ids = await page.locator(".result").evaluate_all("(all) => all.map((e) => e.dataset.id)")
    assert len(set(ids)) == 60
    assert hub.sought[-1] == ("", 50)


async def test_a_search_that_fails_is_owned_up_to_and_asked_for_again(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    remembered(hub)
    hub.fails_with = 500
    hub.may_answer.clear()
    page = await open_page(path="/history", ready=".seek ~ .ghosts")
    await expect(page.locator(".ghosts").get_by_role("status")).to_have_text("Searching")
    assert await violations(page) == []
    hub.may_answer.set()
    await expect(page.locator(".log-failed")).to_contain_text("answered with status 500")
    assert await violations(page) == []

    hub.fails_with = None
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(".result")).to_have_count(7)
    hub.fails_with = 200
    await page.fill(BOX, "day 2")
    await expect(page.locator(".log-failed")).to_contain_text("could not be read. Below are the")
    await expect(page.locator(".result")).to_have_count(7)

    hub.fails_with = None
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(".result")).to_have_count(1)


async def test_an_earlier_answer_never_replaces_a_later_one(
    open_page: OpenPage, hub: StandIn
) -> None:
    remembered(hub)
    page = await searched(open_page)
    hub.held = {"day 2": asyncio.Event(), "day 3": asyncio.Event()}
    await page.fill(BOX, "day 2")
    await wait_until(lambda: ("day 2", 0) in hub.sought)
    await page.fill(BOX, "day 3")
    await wait_until(lambda: ("day 3", 0) in hub.sought)
    await page.evaluate(ASKED)
    await expect(page.locator(".log-failed")).to_have_count(0)
    hub.held["day 3"].set()
    await expect(page.locator(".result")).to_have_count(1)
    hub.held["day 2"].set()
    await page.evaluate(ASKED)
    await expect(page.locator(".result")).to_contain_text("Work of day 3")


async def test_the_keyboard_alone_searches_opens_reads_and_returns(
    open_page: OpenPage, hub: StandIn
) -> None:
    remembered(hub)
    hub.activity["alpha:past-3"] = fleets.activity(wall_ms())
    page = await open_page()
    await page.get_by_role("link", name="History").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(BOX)).to_be_focused()
    await page.keyboard.type("day 3")
    await expect(page.locator(".result")).to_have_count(1)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")

    sheet = page.get_by_role("dialog", name="Work of day 3")
    await expect(sheet.locator(".line")).to_have_count(12)
    await expect(sheet).to_contain_text("in part as the agent reports")
    await expect(page).to_have_url(ending("/sessions/alpha:past-3"))
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.wait_for_url("**/history?find=day+3")
    await expect(page.locator(BOX)).to_have_value("day 3")
    await expect(page.locator(".result .row-open")).to_be_focused()

    await page.keyboard.press("ArrowUp")
    await expect(page.locator(BOX)).to_be_focused()


async def test_what_is_sought_stands_in_the_address(open_page: OpenPage, hub: StandIn) -> None:
    remembered(hub)
    hub.past.append(spending.over(wall_ms(), 8, project="reports"))
    page = await open_page(
        path="/history?find=day&on=beta&in=odd+%3Cb%3E&q=live&host=alpha", ready=".nobody, .result"
    )
    assert hub.asked_of_history[-1] == {"q": "day", "host": "beta", "project": "odd <b>"}
    await expect(page.locator(BOX)).to_have_value("day")
    await expect(page.get_by_label("Machine")).to_have_value("beta")
    await expect(page.get_by_label("Project")).to_have_value("odd <b>")

    await page.get_by_label("Machine").select_option("alpha")
    await page.get_by_label("Project").select_option("")
    await wait_until(lambda: hub.asked_of_history[-1] == {"q": "day", "host": "alpha"})
    await page.wait_for_url("**/history?q=live&host=alpha&find=day&on=alpha")

    await page.reload()
    await expect(page.locator(BOX)).to_have_value("day")
    await expect(page.get_by_label("Machine")).to_have_value("alpha")
    assert hub.asked_of_history[-1] == {"q": "day", "host": "alpha"}
    await page.wait_for_selector(".result")
    assert {"reports", "billing"} <= set(
        await page.get_by_label("Project").locator("option").all_inner_texts()
    )


async def test_what_was_found_stands_by_the_day_on_which_it_ended(
    open_page: OpenPage, hub: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    now = round(noon.timestamp() * 1000)
    hub.load(*fleets.full(now))
    hub.past = [spending.over(now, n) for n in (0, 1, 9)]
    monkeypatch.setattr(hub, "now", lambda: now)
    page = await open_page(path="/history", ready=".result")
    await expect(page.locator(".day-head")).to_have_text(
        ["Today", "Yesterday", "Friday, November 13, 2026"]
    )


async def test_a_link_into_the_past_opens_it_and_survives_a_reload(
    open_page: OpenPage, hub: StandIn
) -> None:
    remembered(hub)
    page = await open_page(path="/sessions/alpha:past-2", ready=".session-body")
    await page.reload()
    await expect(page.locator("#view-title")).to_have_text("Work of day 2")
    await expect(page.locator(".standing")).to_contain_text("Session closed")
    await expect(page.locator(".sheet-state")).to_contain_text("It ended on")
    await expect(page.locator("[data-part=about]")).to_contain_text("duration")

    await page.get_by_role("link", name="Board").first.click()
    await expect(page.locator(".card").first).to_be_visible()


async def test_a_found_session_that_becomes_the_page_leads_back_to_the_search(
    open_page: OpenPage, hub: StandIn
) -> None:
    remembered(hub)
    page = await open_page(path="/history?find=day", ready=".result")
    await page.locator(".row-open").nth(2).click()
    await page.get_by_role("link", name="Open as a page").click()
    await expect(page.locator(".session #view-title")).to_have_text("Work of day 2")
    await expect(page.locator(".place")).to_have_text("session 3/ of 7")
    await page.get_by_role("button", name="Next session").click()
    await expect(page.locator("#view-title")).to_have_text("Work of day 3")

    await page.locator(".session-ways").get_by_role("link", name="History").click()
    await expect(page.locator(BOX)).to_have_value("day")
    await page.wait_for_url("**/history?find=day")


async def test_what_is_over_tells_its_tokens_by_kind(open_page: OpenPage, hub: StandIn) -> None:
    remembered(hub)
    page = await open_page(path="/sessions/alpha:past-0", ready="[data-part=usage]")
    said = await words(page.locator("[data-part=usage] .facts"))
    assert "input 12,400 output 48,211 cache read 2,103,455 cache written 310,002" in said


async def test_a_session_that_cannot_be_fetched_is_owned_up_to(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    remembered(hub)
    page = await searched(open_page)
    await page.route("**/api/v1/sessions/*", lambda route: route.abort())
    await page.get_by_role("link", name="Work of day 2").click()
    await expect(page.locator(".log-failed")).to_contain_text("The hub could not be reached.")
    assert await violations(page) == []

    await page.unroute("**/api/v1/sessions/*")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("dialog", name="Work of day 2")).to_be_visible()


async def test_a_session_that_is_delivered_long_ago_is_still_read_when_it_leaves_the_roll(
    open_page: OpenPage, hub: StandIn
) -> None:
    hub.load(*fleets.full(wall_ms()))
    page = await open_page()
    await page.locator(".card[data-id='alpha:done-1'] .open").click()
    hub.past = [hub.sessions["alpha:done-1"]]
    await hub.change(gone=("alpha:done-1",))
    await expect(page.locator(".card[data-id='alpha:done-1']")).to_have_count(0)
    await expect(page.get_by_role("dialog", name="Add CSV export to reports")).to_contain_text(
        "Finished: all 4 tasks"
    )


async def test_one_that_comes_back_to_the_roll_is_live_again(
    open_page: OpenPage, hub: StandIn
) -> None:
    remembered(hub)
    page = await open_page(path="/sessions/alpha:past-2", ready=".sheet-state")
    back = fleets.session("past-2", "thinking", "Thinking again", now=wall_ms(), title="Back")
    await hub.change(back)
    await expect(page.locator("#view-title")).to_have_text("Back")
    await expect(page.locator(".standing")).to_contain_text("Thinking again")


async def test_markup_in_the_past_stays_text(open_page: OpenPage, hub: StandIn) -> None:
    """No dialog and no request outside either: the page's record of faults fails the test."""
    now = wall_ms()
    hub.load([], [fleets.host("alpha", now)])
    hub.past = [
        spending.over(now, n, title=text, project=text, branch=text, pr=text, last_prompt=text)
        for n, text in enumerate(fleets.HOSTILE)
    ]
    page = await searched(open_page)
    await expect(page.locator(".result")).to_have_count(len(fleets.HOSTILE))
    for index in range(len(fleets.HOSTILE)):
        await page.locator(".row-open").nth(index).click()
        await expect(page.locator("[data-part=words]")).to_have_count(1)
        outside = ".sheet :is(img, script, iframe, style, a:not(.way)), .history :is(img, script)"
        assert await page.locator(outside).count() == 0
        assert "\u202e" not in await page.inner_text("body")
        await page.keyboard.press("Escape")
        await expect(page.locator(".sheet")).to_have_count(0)


async def test_history_is_shown_accessibly(open_page: OpenPage, hub: StandIn) -> None:
    remembered(hub)
    hub.past.append(spending.over(wall_ms(), 8, title="T" * 300, project="P" * 300))
    page = await open_page(path="/history", ready=".result")
    assert await look_faults(page) == []
    assert await tall_enough(page, ".history") == []

    await page.locator(".result").last.click()
    await page.wait_for_selector("[data-part=usage]")
    assert await look_faults(page) == []
    for size in SIZES.values():
        await resize(page, size)
        wide = "(e) => e.scrollWidth - e.clientWidth"
        assert await page.locator(".sheet").evaluate(wide) == 0
