"""The open report keeps up with machines that read their history, and never leaves one at a loss."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from adsum.text.words import cost, short
from adsum_shared.state import UsageReport, UsageView
from tests.browser import fleets, spending
from tests.browser.conftest import PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import look_faults, overflow, violations
from tests.browser.test_usage import tall_enough, words
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

EMPTY = UsageReport(1, 0, "2026-11-16", "2026-11-22", "day", [], UsageView(), ["One note."])


async def test_a_report_goes_as_far_back_as_the_hub(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".report", viewport=PHONE)
    for name, asked in (("90 days", "day 90"), ("All", "day 400")):
        await page.get_by_role("radio", name=name).check(force=True)
        await wait_until(lambda asked=asked: hub.asked[-1] == asked)
        assert await overflow(page) == 0


async def test_days_without_usage_lead_to_those_that_have_some(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    hub.reports |= {"day": EMPTY, "day 400": spending.report("day")}
    page = await open_page(path="/usage", ready=".report-older")
    said = await words(page.locator("main"))
    assert "Still counting: nothing is added up yet." in said
    assert "One note." in said
    assert "beta still reads its history: 37 % so far. What it finds is added here" in said
    assert await violations(page) == []

    await page.get_by_role("button", name="Show all").click()
    await expect(page.locator(".report tbody tr")).to_have_count(8)
    await expect(page.get_by_role("radio", name="All")).to_be_checked()
    await expect(page.locator(".report-older")).to_have_count(0)


async def test_nothing_older_is_promised_where_there_is_none(
    open_page: OpenPage, hub: StandIn
) -> None:
    hub.load(*fleets.full(wall_ms()))
    hub.reports = {"day": EMPTY}
    page = await open_page(path="/usage", ready="main .nobody")
    await wait_until(lambda: hub.asked == ["day 7", "day 400"])
    await page.wait_for_load_state("networkidle")
    await expect(page.locator(".report-older")).to_have_count(0)


async def test_what_the_hub_says_of_a_history_is_not_said_twice(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    hub.reports["day"] = replace(EMPTY, notes=["beta still reads its history: 37 % so far."])
    page = await open_page(path="/usage", ready=".report-note")
    assert (await page.inner_text("main")).count("reads its history") == 1


async def test_an_open_report_is_asked_for_again_while_a_machine_reads_and_once_when_it_is_done(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".report", clock=True)

    async def asked(times: int) -> None:
        """Its clock goes on meanwhile: the page may begin to count after we have moved it."""

        async def is_so() -> bool:
            await page.clock.run_for(500)
            return hub.asked == ["day 7"] * times

        await wait_until(is_so)

    await asked(1)
    hub.reports["day"] = spending.report("day", 2)
    hub.held["day 7"] = asyncio.Event()
    await asked(2)
    # What stands there is no less true for being asked for again.
    await expect(page.locator(".report-body[data-busy=false]")).to_have_count(1)
    hub.held.pop("day 7").set()
    await asked(3)

    await hub.change(hosts=(fleets.host("beta", await page.evaluate("Date.now()")),))
    await page.clock.run_for(100)
    await expect(page.get_by_text("still reads its history")).to_have_count(0)
    await asked(4)
    await page.clock.run_for(9_000)
    await page.wait_for_load_state("networkidle")
    assert hub.asked == ["day 7"] * 4
    await expect(page.locator(".report tbody tr")).to_have_count(3)


async def test_a_machine_that_reads_has_never_read_all(open_page: OpenPage) -> None:
    done = replace(spending.reading(1.0), left_s=0.0)
    page = await open_page(
        ([], [fleets.host("alpha", wall_ms(), scan=done)]),
        path="/hosts",
        ready="[role=progressbar]",
    )
    said = await words(page.locator(".scan"))
    assert "99 %" in said
    assert "left" not in said


NUMBERS = [
    0, 1, 999, 999.4, 999.5, 1_000, 1_250, 12_345, 99_949, 99_950, 454_700, 455_500, 999_499, 999_500,
    2_250_000, 58_999_999, 10**9, 123_456_789_012, 10**15, 10**30,
]  # fmt: skip
COSTS = [
    UsageView(5, cost_usd=usd, cost_source=source, unpriced_tokens=unpriced)
    for usd in (0.0, 0.0004, 0.005, 0.125, 1.9, 999.995, 1_234.5, 99_999.99, 10.0**6, 10.0**20)
    for source in ("reported", "computed", "mixed")
    for unpriced in (0, 7)
] + [UsageView(5), UsageView(), UsageView(unpriced_tokens=3)]  # fmt: skip


async def test_amounts_are_written_as_the_command_line_writes_them(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    load = "import('/static/core/format.js')"
    shown = await page.evaluate(f"(all) => {load}.then((f) => all.map(f.short))", NUMBERS)
    assert shown == [short(number) for number in NUMBERS]
    views = [
        {name: getattr(each, name) for name in each.__struct_fields__ if name != "web_searches"}
        for each in COSTS
    ]
    told = await page.evaluate(f"(all) => {load}.then((f) => all.map(f.costOf))", views)
    assert [each or "-" for each in told] == [cost(each) for each in COSTS]


async def test_an_empty_roll_with_a_past_leads_to_it(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    hub.load([], [fleets.host("alpha", wall_ms())])
    hub.reports = spending.reports()
    hub.past = [spending.over(wall_ms(), n) for n in range(7)] * 142
    page = await open_page(ready=".ways")
    said = await words(page.locator(".notice"))
    assert "No session is active 994 sessions are in the history." in said
    assert "no agent has run there" not in said
    assert await look_faults(page) == []
    assert await tall_enough(page, ".notice") == []

    await page.locator(".ways").get_by_role("link", name="Usage").click()
    await expect(page.get_by_role("heading", name="Usage")).to_be_visible()
    await page.go_back()
    await page.locator(".ways").get_by_role("link", name="History").click()
    await expect(page.get_by_role("heading", name="History")).to_be_visible()


async def test_an_empty_roll_without_a_past_says_what_to_do(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(([], [fleets.host("alpha", wall_ms())]), ready=".notice")
    await wait_until(lambda: hub.counted == 1)
    assert "no agent has run there yet. Three steps" in await words(page.locator(".notice"))
    await expect(page.locator(".ways")).to_have_count(0)


async def test_a_history_that_is_just_read_appears_on_an_empty_roll(
    open_page: OpenPage, hub: StandIn
) -> None:
    hub.load([], [fleets.host("alpha", wall_ms(), scan=spending.reading())])
    page = await open_page(ready=".notice", clock=True)
    await wait_until(lambda: hub.counted == 1)
    hub.past = [spending.over(wall_ms())]
    await page.clock.run_for(4_100)
    await wait_until(lambda: hub.counted == 2)
    await page.clock.run_for(100)
    await expect(page.locator(".notice")).to_contain_text("1 session is in the history.")


async def test_nobody_counts_the_past_while_somebody_is_on_the_roll(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    page = await open_page()
    await page.wait_for_load_state("networkidle")
    assert hub.counted == 0
