"""The chart of usage: drawn, told in words, usable by keyboard, true to what it is drawn from."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, ViewportSize, expect

from adsum_shared.state import BudgetUse, BudgetView, UsagePoint, UsageSeries, UsageView
from tests.browser import fleets, spending
from tests.browser.addresses import ending
from tests.browser.conftest import OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import (
    SIZES,
    look_faults,
    overflow,
    resize,
    too_wide,
)
from tests.browser.test_usage import words
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

#: Different colours in a picture, and the share of it that is not empty.
LOOK = """(canvas) => {
  const { width, height } = canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const seen = new Set();
  let drawn = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 0) continue;
    drawn += 1;
    if (data[i + 3] === 255) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
  }
  return { colours: seen.size, share: drawn / (width * height) };
}"""


def split(hub: StandIn, *series: UsageSeries, days: int = 7, by: str = "day") -> None:
    spending.spent(hub)
    hub.reports[by] = replace(spending.report(by, days), series=list(series))


async def look(page: Page, selector: str = ".uplot canvas") -> dict[str, Any]:
    found: dict[str, Any] = await page.locator(selector).first.evaluate(LOOK)
    return found


async def legend(page: Page) -> list[str]:
    return [await words(each) for each in await page.locator(".legend li").all()]


async def test_the_chart_is_drawn_and_shown_accessibly(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".uplot")

    for size in SIZES.values():
        await resize(page, size)
        drawn = await look(page)
        assert drawn["share"] > 0.1
        assert drawn["colours"] >= 5
    assert await look_faults(page) == []
    assert await page.evaluate("window.violations") == []


async def test_nothing_of_the_chart_is_fetched_before_it_is_looked_at(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    page = await open_page()
    await page.wait_for_load_state("networkidle")
    fetched = "performance.getEntriesByType('resource').map((e) => e.name).join(' ')"
    assert "uplot" not in await page.evaluate(fetched)

    hub.may_answer.clear()
    await page.locator(".tool").first.click()
    await page.wait_for_selector(".log-ghost")
    await wait_until(lambda: hub.asked == ["day 7"])
    assert "uplot" not in await page.evaluate(fetched)
    hub.may_answer.set()
    await page.wait_for_selector(".uplot")


async def test_the_picture_is_told_in_words(open_page: OpenPage, hub: StandIn) -> None:
    split(
        hub,
        UsageSeries("big", "big", [UsagePoint("2026-11-17", 900, 9.0)]),
        UsageSeries("small", "small", [UsagePoint("2026-11-22", 50, 1.0)]),
    )
    page = await open_page(path="/usage", ready=".uplot")
    told = await page.get_by_role("img").get_attribute("aria-label")
    assert told == (
        "Cost per day by model, Mon, Nov 16, 2026 to Sun, Nov 22, 2026: $10.00 together, most on "
        "Tue, Nov 17, 2026 with $9.00. big 90 %, small 10 %. The table below has the sums."
    )
    assert await legend(page) == ["big 90 % ≈ $9.00", "small 10 % ≈ $1.00"]


async def test_the_keyboard_moves_over_the_days(open_page: OpenPage, hub: StandIn) -> None:
    split(
        hub,
        UsageSeries("big", "big", [UsagePoint("2026-11-21", 900, 9.0)]),
        UsageSeries("small", "small", [UsagePoint("2026-11-22", 50, 1.0)]),
    )
    page = await open_page(path="/usage", ready=".uplot")
    day = page.get_by_role("slider", name="Day")
    await day.focus()
    await expect(day).to_have_attribute("aria-valuetext", "Sun, Nov 22, 2026: $1.00")
    assert await legend(page) == ["big 0 % $0.00", "small 100 % ≈ $1.00"]
    await page.keyboard.press("ArrowLeft")
    await expect(day).to_have_attribute("aria-valuetext", "Sat, Nov 21, 2026: $9.00")
    assert await legend(page) == ["big 100 % ≈ $9.00", "small 0 % $0.00"]


async def test_the_pointer_shows_a_day_and_leaves_the_sums(
    open_page: OpenPage, hub: StandIn
) -> None:
    split(hub, UsageSeries("big", "big", [UsagePoint(f"2026-11-{n}", 1, 1.0) for n in (18, 19)]))
    page = await open_page(path="/usage", ready=".uplot")
    await page.locator(".u-over").hover(force=True)
    assert await words(page.locator(".legend-when")) == "Thu, Nov 19, 2026 ≈ $1.00"
    await page.mouse.move(2, 2)
    await expect(page.locator(".legend-when")).to_contain_text("Nov 16 to Nov 22")


async def test_each_layer_has_a_pattern_of_its_own(open_page: OpenPage, hub: StandIn) -> None:
    names = tuple(f"m{n}" for n in range(8))
    split(hub, *spending.series([f"2026-11-{n}" for n in range(16, 23)], names))
    page = await open_page(path="/usage", ready=".uplot")
    shapes = await page.locator(".swatch").evaluate_all(
        """(all) => all.map((canvas) => {
             const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
             const first = [...data.slice(0, 3)].join();
             const counts = {};
             let shape = "";
             for (let i = 0; i < data.length; i += 4) {
               const colour = [...data.slice(i, i + 3)].join();
               counts[colour] = (counts[colour] ?? 0) + 1;
             }
             const base = Object.keys(counts).sort((a, b) => counts[b] - counts[a])[0];
             for (let i = 0; i < data.length; i += 4) shape += [...data.slice(i, i + 3)].join() === base ? "." : "#";
             return shape + first.length * 0;
           })"""
    )
    assert len(set(shapes)) == 8


async def test_layers_stand_on_each_other(open_page: OpenPage, hub: StandIn) -> None:
    points = [UsagePoint("2026-11-21", 5, 1.0)]
    split(hub, UsageSeries("a", "a", points), UsageSeries("b", "b", points))
    page = await open_page(path="/usage", ready=".uplot")
    seen = await page.evaluate(
        """() => {
             const canvas = document.querySelector(".uplot canvas");
             const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
             return [...document.querySelectorAll(".swatch")].map((swatch) => {
               const colour = getComputedStyle(swatch).color.match(/\\d+/g).slice(0, 3).join();
               let count = 0;
               for (let i = 0; i < data.length; i += 4) if ([...data.slice(i, i + 3)].join() === colour) count += 1;
               return count;
             });
           }"""
    )
    # The upper one is patterned, so less than all of it has its bare colour.
    assert seen[0] > 1000
    assert seen[1] > seen[0] / 4


async def test_more_than_can_be_told_apart_are_one_layer(open_page: OpenPage, hub: StandIn) -> None:
    names = (*(f"m{n}" for n in range(11)), None)
    split(hub, *spending.series([f"2026-11-{n}" for n in range(16, 23)], names))
    page = await open_page(path="/usage", ready=".uplot")
    found = await legend(page)
    assert len(found) == 9
    assert found[-1].startswith("all others")


async def test_the_measure_and_the_split_are_chosen(open_page: OpenPage, hub: StandIn) -> None:
    cheap = UsageSeries("cheap", "cheap", [UsagePoint("2026-11-21", 5_000, 1.0)])
    dear = UsageSeries("dear", "dear", [UsagePoint("2026-11-21", 70, 9.0)])
    split(hub, dear, cheap)
    page = await open_page(path="/usage", ready=".uplot")
    assert await legend(page) == ["dear 90 % ≈ $9.00", "cheap 10 % ≈ $1.00"]
    await page.get_by_role("radio", name="Tokens").click()
    await expect(page.locator(".legend li").first).to_contain_text("cheap")
    assert await legend(page) == ["cheap 99 % 5.0k", "dear 1 % 70"]
    await expect(page).to_have_url(ending("?measure=tokens"))
    await page.locator("[name=split]").nth(1).click()
    await wait_until(lambda: hub.asked == ["day 7", "day 7"])
    await expect(page).to_have_url(ending("?measure=tokens&split=project"))


async def test_markup_in_a_name_is_text(open_page: OpenPage, hub: StandIn) -> None:
    points = [UsagePoint("2026-11-21", 5, 1.0)]
    split(hub, *(UsageSeries(text, text, points) for text in fleets.HOSTILE))
    hub.budgets = [
        replace(budget, name=text, uses=[replace(use, label=text) for use in budget.uses])
        for text in fleets.HOSTILE
        for budget in spending.budgets(wall_ms())
    ]
    page = await open_page(path="/usage", ready=".uplot")
    await expect(page.locator(".budget")).to_have_count(len(hub.budgets))
    await expect(page.locator(".legend li")).to_have_count(len(fleets.HOSTILE))
    assert await page.locator("main :is(img, script, iframe, style)").count() == 0
    assert "\u202e" not in await page.inner_text("main")


async def test_what_has_no_price_is_said_and_not_drawn(open_page: OpenPage, hub: StandIn) -> None:
    split(hub, UsageSeries("odd", "odd", [UsagePoint("2026-11-21", 5)]))
    page = await open_page(path="/usage", ready=".chart-room .nobody")
    await expect(page.locator(".chart-room")).to_have_text("No price is known.")
    await page.get_by_role("radio", name="Tokens").click()
    await page.wait_for_selector(".uplot")


async def test_a_single_day_has_no_chart(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    hub.reports["day 1"] = replace(spending.report("day", 1), since="2026-11-22")
    page = await open_page(path="/usage?days=1", ready=".report")
    await expect(page.locator(".chart-room")).to_have_count(0)


async def test_all_of_it_begins_where_something_was_used(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    series = [UsageSeries("m", "m", [UsagePoint("2026-10-30", 5, 1.0)])]
    hub.reports["day 400"] = replace(
        spending.report("day"), since="2025-10-19", total=UsageView(5), series=series
    )
    page = await open_page(path="/usage?days=400", ready=".uplot")
    await expect(page.locator(".legend-when")).to_contain_text("Oct 30 to Nov 22")


async def test_the_chart_follows_the_colours_of_the_system(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".uplot")
    pixel = "(c) => c.getContext('2d').getImageData(5, 5, 1, 1).data.join()"
    light = await page.locator(".swatch").first.evaluate(pixel)
    await page.emulate_media(color_scheme="dark")

    async def is_another() -> bool:
        return bool(await page.locator(".swatch").first.evaluate(pixel) != light)

    await wait_until(is_another)


async def test_the_chart_fits_any_width(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    hub.reports["day 90"] = spending.report("day", 90)
    narrow: ViewportSize = {"width": 360, "height": 800}
    page = await open_page(path="/usage?days=90", ready=".uplot", viewport=narrow)
    assert await overflow(page) == 0
    assert await too_wide(page, 641, 900, 1440, 360) == []


async def test_a_budget_of_one_session_names_it_as_people_do(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    known, bare = f"{'0' * 7}1-0000-0000-0000-{'0' * 12}", f"{'0' * 7}2-0000-0000-0000-{'0' * 12}"
    use = BudgetUse(f"alpha:{known}", "Fix the refund test", 1.0)
    hub.budgets = [
        BudgetView("session", 5.0, "session", known, "", [use], 0),
        BudgetView("session", 5.0, "session", bare, "", [], 0),
    ]
    page = await open_page(path="/usage", ready=".budget")
    found = [await words(each) for each in await page.locator(".budget-head").all()]
    assert found == ["Session Fix the refund test $5.00", "Session 00000002 $5.00"]
