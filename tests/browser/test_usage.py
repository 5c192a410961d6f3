"""What was used up, on cards, in details, of machines, in the head and in the report; and how it is asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Locator, Page, expect

from adsum_shared.state import (
    ContextView,
    RateLimitView,
    ScanProgress,
    Summary,
    UsageView,
)
from tests.browser import fleets, spending
from tests.browser.addresses import ending
from tests.browser.conftest import ASKED, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import (
    look_faults,
    too_wide,
    violations,
)
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def used(usage: UsageView | None = None, state: str = "thinking", **more: Any) -> fleets.Fleet:
    view = fleets.session("a", state, "…", now=wall_ms(), title="A", usage=usage, **more)
    return [view], []


async def words(place: Locator) -> str:
    return " ".join((await place.inner_text()).split())


async def tall_enough(page: Page, within: str) -> list[str]:
    """What is tapped there and is lower than a fingertip."""
    low: list[str] = await page.evaluate(
        """(within) => [...document.querySelectorAll(within + " :is(a, button, input)")]
             .map((e) => e.closest(".result") ?? e)
             .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44)
             .map((e) => e.outerHTML)""",
        within,
    )
    return low


SPENT = [
    (spending.USES[0], "≈ $1.24 · 2.5M tokens", "$1.2418, from list prices"),
    (spending.USES[1], "$0.31 · 52.0k tokens", "$0.3071, as the agent reports"),
    (spending.USES[2], "unpriced · 87.0k tokens", "Unpriced, no price is known for the model"),
    (spending.USES[3], "≈ $104.20 · 59.0M tokens", "in part as the agent reports"),
    (spending.USES[4], "unpriced · 150 tokens", "70 tokens have no price"),
    (UsageView(9, 1, cost_usd=0.12, unpriced_tokens=7), "≥ $0.12 · 10 tokens", "7 tokens have"),
    (spending.HUGE, "≈ $12.3M · 4.0T tokens", "4,000,000,000,000 tokens. $12,345,678.9"),
    (UsageView(cost_usd=0.5, cost_source="reported"), "$0.50", "0 tokens. $0.50"),
    (UsageView(10, cost_usd=0.0), "≈ $0.00 · 10 tokens", "10 tokens. $0.00"),
]
CONTEXTS = (
    (ContextView(124_000, 200_000), "62 % context full", False),
    (ContextView(159_000, 200_000), "80 % context full", True),
    (ContextView(206_000, 200_000), "103 % context full", True),
    (ContextView(0, 200_000), "0 % context full", False),
)
OVER = ("session_ended", "suspended", "archived")


def cards(state: str = "thinking", **columns: Iterable[Any]) -> fleets.Fleet:
    """Return one session for each value of the columns, named s0, s1 and so on."""
    names, rows = list(columns), zip(*columns.values(), strict=True)
    return [
        fleets.session(f"s{n}", state, "…", now=wall_ms(), **dict(zip(names, row, strict=True)))
        for n, row in enumerate(rows)
    ], []


async def test_a_card_tells_dollars_and_tokens_and_how_they_are_known(open_page: OpenPage) -> None:
    page = await open_page(cards(usage=(usage for usage, _, _ in SPENT)))
    for n, (_, said, source) in enumerate(SPENT):
        spent = page.locator(f".card[data-id='alpha:s{n}'] .spent")
        assert await words(spent) == said
        assert source in (await spent.get_attribute("title") or "")


async def test_a_card_that_used_nothing_says_nothing(open_page: OpenPage) -> None:
    page = await open_page(cards(usage=(None, UsageView(), UsageView(cost_usd=0.0))))
    await expect(page.locator(".card")).to_have_count(3)
    await expect(page.locator(".spent, .gauge")).to_have_count(0)


async def test_the_context_is_told_in_words_and_stands_out_when_nearly_full(
    open_page: OpenPage,
) -> None:
    page = await open_page(cards(context=(context for context, _, _ in CONTEXTS)))
    for n, (_, said, near) in enumerate(CONTEXTS):
        gauge = page.locator(f".card[data-id='alpha:s{n}'] .gauge")
        assert " ".join((await gauge.text_content() or "").split()) == said
        await expect(gauge).to_have_attribute("data-near", str(near).lower())
        await expect(gauge.locator(".icon")).to_have_count(int(near))


async def test_the_context_of_what_is_over_is_nobodys_concern(
    open_page: OpenPage, hub: StandIn
) -> None:
    hub.load([], [])
    for state in OVER:
        views, _ = used(state=state, context=ContextView(190_000, 200_000))
        hub.sessions |= {state: replace(views[0], id=f"alpha:{state}")}
    page = await open_page()
    await expect(page.locator(".card")).to_have_count(len(OVER))
    await expect(page.locator(".gauge")).to_have_count(0)


async def test_a_context_of_unknown_size_has_no_gauge_but_is_in_the_details(
    open_page: OpenPage,
) -> None:
    page = await open_page(used(context=ContextView(61_000)))
    await expect(page.locator(".gauge")).to_have_count(0)
    await page.click(".open")
    assert "61,000 tokens" in await words(page.locator("[data-part=usage]"))


async def test_the_details_tell_all_kinds_and_where_it_works(open_page: OpenPage) -> None:
    fleet = used(
        spending.USES[0], context=ContextView(124_000, 200_000), worktree="/wt/big", branch="feat",
        pr="https://github.com/acme/billing/pull/7", forked_from="parent",
        last_prompt="Go on", last_answer="Done.",
    )  # fmt: skip
    page = await open_page(fleet)
    await page.click(".open")
    sheet = page.locator(".sheet")

    usage = await words(sheet.locator("[data-part=usage] .facts"))
    assert usage == (
        "cost ≈ $1.24, from list prices tokens 2,474,068 input 12,400 output 48,211 "
        "cache read 2,103,455 cache written 310,002 web searches 3 "
        "context 124,000 of 200,000 tokens, 62 % full"
    )
    about = await words(sheet.locator("[data-part=about]"))
    assert "worktree /wt/big branch feat pull request https://github.com/acme/billing/pull/7" in (
        about
    )
    assert await words(sheet.locator("[data-part=words]")) == "Said last You Go on Agent Done."


async def test_an_answer_that_the_state_quotes_is_not_said_twice(open_page: OpenPage) -> None:
    [view], _ = used(last_answer="Done. ")
    view = replace(view, state=replace(view.state, context={"last_message": "Done."}))
    page = await open_page(([view], []))
    await page.click(".open")
    await expect(page.locator(".sheet .said")).to_have_count(1)


async def test_a_fork_leads_to_its_parent_and_back(open_page: OpenPage) -> None:
    now = wall_ms()
    child = fleets.session("child", "thinking", "…", now=now, title="Child", forked_from="parent")
    parent = fleets.session("parent", "idle", "…", now=now, title="Parent")
    page = await open_page(([child, parent], []), path="/sessions/alpha:child", ready=".session")
    await page.locator("[data-part=about]").get_by_role("button", name="parent").click()
    await expect(page.locator("#view-title")).to_have_text("Parent")

    await page.go_back()
    await expect(page.locator("#view-title")).to_have_text("Child")


async def test_a_pull_request_opens_outside(open_page: OpenPage) -> None:
    page = await open_page(used(pr="https://github.com/acme/billing/pull/7"))
    await page.click(".open")
    link = page.get_by_role("link", name="https://github.com/acme/billing/pull/7")

    await expect(link).to_have_attribute("href", "https://github.com/acme/billing/pull/7")
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    await expect(link).to_have_attribute("target", "_blank")


NO_PAGES = (
     "javascript:alert(1)", "JaVaScRiPt:alert(1)//https://x", " javascript:alert(1)",
     "data:text/html,<script>alert(1)</script>", "file:///etc/passwd", "blob:https://x/y",
     "#12", "//evil.example/x", "https:", "<img src=x onerror=alert(1)>",
)  # fmt: skip


async def test_an_address_that_is_no_web_page_is_only_text(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(used(pr="https://example.com/0"))
    await page.click(".open")
    for address in NO_PAGES:
        await hub.change(*used(pr=address)[0])
        await expect(page.locator("[data-part=about]")).to_contain_text(address.strip())
        outside = page.locator(".sheet a:not([href^='/']), .sheet :is(img, script)")
        await expect(outside).to_have_count(0)


async def test_markup_in_what_was_said_stays_text(open_page: OpenPage, hub: StandIn) -> None:
    """No dialog and no request outside either: the page's record of faults fails the test."""
    page = await open_page(used())
    await page.click(".open")
    for n, text in enumerate(fleets.HOSTILE):
        views, _ = used(
            spending.USES[0], pr=text, worktree=text, forked_from=text,
            last_prompt=text, last_answer=f"{text} indeed {n}",
        )  # fmt: skip
        await hub.change(*views)
        await expect(page.locator(".sheet .said").last).to_contain_text(f"indeed {n}")
        await expect(page.locator(".sheet .said")).to_have_count(2)
        outside = page.locator(".sheet :is(img, script, iframe, style, a:not([href^='/']))")
        assert await outside.count() == 0
        assert "\u202e" not in await page.inner_text(".sheet")


async def test_the_head_tells_today_and_exactly_on_demand(
    open_page: OpenPage, hub: StandIn
) -> None:
    hub.load(*fleets.full(wall_ms()))
    hub.summary = spending.SUMMARY
    page = await open_page()
    tool = page.locator(".tool").first

    await expect(tool).to_contain_text("≈ $12.40")
    assert await words(tool) == "Used up: ≈ $12.40 · 3.2M tokens today"
    told = "Today so far: $12.4031 and 3,214,555 tokens."
    assert (await tool.get_attribute("title") or "").startswith(told)


@pytest.mark.parametrize(
    "summary", [Summary(), Summary(total_tokens_today=0), Summary(total_cost_today_usd=0.0)]
)
async def test_a_day_on_which_nothing_was_used_shows_no_figures(
    open_page: OpenPage, hub: StandIn, summary: Summary
) -> None:
    hub.load(*fleets.full(wall_ms()))
    hub.summary = summary
    page = await open_page()
    await page.evaluate(ASKED)
    await expect(page.locator(".tool")).to_have_count(0)


async def test_a_day_whose_tokens_have_no_price_says_so(open_page: OpenPage, hub: StandIn) -> None:
    hub.load(*fleets.full(wall_ms()))
    hub.summary = Summary(total_tokens_today=5000)
    page = await open_page()
    await expect(page.locator(".tool").first).to_contain_text("unpriced")


async def test_today_is_asked_for_now_and_then(open_page: OpenPage, hub: StandIn) -> None:
    hub.load(*fleets.full(wall_ms()))
    page = await open_page(clock=True)
    hub.summary = spending.SUMMARY
    for _ in range(4):
        await page.clock.run_for(5_000)
        await hub.tell(hub.message("tick") | {"now": await page.evaluate("Date.now()")})
        await page.evaluate(ASKED)
    await expect(page.locator(".tool").first).to_contain_text("≈ $12.40")


def machine(**more: Any) -> fleets.Fleet:
    return [], [fleets.host("alpha", wall_ms(), **more)]


async def test_a_machine_tells_its_limits_and_when_they_begin_anew(open_page: OpenPage) -> None:
    page = await open_page(
        machine(limits=spending.limits(wall_ms(), 92.4)), path="/hosts", ready=".machine"
    )
    short = page.locator(".limit-short")
    assert "5-hour limit 92 % used, resets at" in (await short.first.get_attribute("title") or "")
    await expect(short.first).to_have_attribute("data-near", "true")
    await expect(short.first.locator(".icon")).to_have_count(1)
    await expect(short.last).to_have_attribute("data-near", "false")

    await page.click(".host-head")
    await expect(page.locator(".limits li")).to_have_count(2)
    rows = [await words(row) for row in await page.locator(".limits li").all()]
    assert rows == ["5-hour limit 92 %, resets in 1h 04m", "7-day limit 18 %, resets in 3d 2h"]


async def test_a_limit_that_has_begun_anew_no_longer_alarms(open_page: OpenPage) -> None:
    limits = (RateLimitView("five_hour", 97, wall_ms() - 1000), RateLimitView("odd_one", 12.5))
    page = await open_page(machine(limits=limits), path="/hosts", ready=".machine")
    await expect(page.locator(".limit-short")).to_have_count(1)
    await page.click(".host-head")
    await expect(page.locator(".limits li")).to_have_count(2)
    rows = [await words(row) for row in await page.locator(".limits li").all()]
    assert rows == ["5-hour limit has been reset; not reported since", "odd one limit 13 %"]


async def test_reading_history_shows_its_progress_and_goes_when_done(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(machine(scan=spending.reading()), path="/hosts", ready=".machine")
    bar = page.get_by_role("progressbar", name="alpha reads its history")

    await expect(bar).to_have_attribute("aria-valuenow", "37")
    said = "37 %: 1,850 of 5,000 files, 1.8 GB of 4.8 GB, 38 MB/s, 1m left"
    assert said in await words(page.locator(".scan"))
    assert "1 reading history" in await words(page.locator(".totals"))

    await hub.change(hosts=(fleets.host("alpha", wall_ms()),))
    await expect(page.locator(".scan")).to_have_count(0)


async def test_progress_that_is_not_known_yet_is_none(open_page: OpenPage) -> None:
    page = await open_page(machine(scan=ScanProgress(0, 0, 0, 0)), path="/hosts", ready=".machine")
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "0")
    assert "left" not in await words(page.locator(".scan"))


async def rows(page: Page) -> list[str]:
    return [await words(row) for row in await page.locator(".report tbody tr").all()]


async def test_the_strip_tells_who_is_near_a_limit_or_reads_and_leads_to_it(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    page = await open_page(ready=".host")
    assert (
        await words(page.locator("[data-host=alpha]"))
        == ("alpha live 12 sessions 5h 92 % 5-hour limit 92 % used, resets at ")
        + (await words(page.locator("[data-host=alpha]"))).split("resets at ")[1]
    )
    assert "reads its history, 37 %" in await words(page.locator("[data-host=beta]"))

    await page.click("[data-host=beta] .host-head")
    await expect(page.locator("[data-machine=beta] .host-head")).to_have_attribute(
        "aria-expanded", "true"
    )
    await expect(page).to_have_url(ending("/hosts#beta"))


async def test_the_report_is_asked_for_when_it_is_opened(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page()
    await page.evaluate(ASKED)
    assert hub.asked == []

    await page.locator(".tool").first.click()
    await page.wait_for_selector(".report")
    assert hub.asked == ["day 7"]
    await expect(page).to_have_url(ending("/usage"))
    found = await rows(page)
    assert found[0] == "Total 12 700k 300k 52.0M 6.0M 59.0M ≈ $104.20"
    assert found[1] == "2026-11-22 1 % 1 12.4k 48.2k 2.1M 310k 2.5M ≈ $1.24"
    assert "unpriced" in found[3]
    assert await page.inner_text(".report-source") == "≈ from list prices, wholly or in part"
    assert "have no price" in await page.locator(".report-note").last.inner_text()


async def test_the_sums_stand_on_top_and_are_compared_with_those_before(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".totals")
    assert [await words(each) for each in await page.locator(".total").all()] == [
        "Cost ≈ $104.20 in part as the agent reports, in part from list prices "
        "84 times as much as in the 7 days before (≈ $1.24)",
        "Tokens 59.0M 700k input, 300k output, 52.0M cache read, 6.0M cache written "
        "24 times as much as in the 7 days before (2.5M)",
        "Sessions 12",
    ]


async def test_the_keyboard_alone_chooses(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".report")
    await page.get_by_role("radio", name="7 days").focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("radio", name="30 days")).to_be_checked()
    await page.locator("[name=by]:checked").focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("columnheader").first).to_have_text("Host")
    assert hub.asked == ["day 7", "day 30", "host 30"]
    link = page.get_by_role("link", name="CSV")
    await expect(link).to_have_attribute("href", "/api/v1/usage?by=host&days=30&format=csv")
    await expect(page).to_have_url(ending("/usage?days=30&by=host"))


async def test_the_address_says_what_is_shown(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    path = "/usage?since=2026-11-01&until=2026-11-09&by=model&split=host&measure=tokens"
    page = await open_page(path=path, ready=".report")
    assert hub.asked == ["model 2026-11-01..2026-11-09"]
    for name in ("Dates", "Tokens", "Host"):
        await expect(page.get_by_role("radio", name=name, exact=True).first).to_be_checked()
    await expect(page.locator("[name=since]")).to_have_value("2026-11-01")
    await expect(page).to_have_url(ending(path))

    await page.get_by_role("radio", name="90 days").click()
    await wait_until(lambda: hub.asked[-1] == "model 90")
    await expect(page).to_have_url(ending("/usage?by=model&split=host&measure=tokens&days=90"))


async def test_back_shows_the_report_before(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage?days=30", ready=".report")
    await page.get_by_role("link", name="2026-11-22").click()
    await wait_until(lambda: hub.asked[-1] == "session 2026-11-22..2026-11-22")
    await expect(page).to_have_url(ending("/usage?since=2026-11-22&until=2026-11-22&by=session"))
    await page.go_back()
    await wait_until(lambda: hub.asked[-1] == "day 30")
    await expect(page.get_by_role("radio", name="30 days")).to_be_checked()


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("days=banana&by=colour", "The address asks for by=colour days=banana"),
        ("since=yesterday", "yesterday is no day"),
        ("since=2026-02-30", "2026-02-30 is no day"),
        ("since=2026-11-09&until=2026-11-01", "The first day is after the last."),
    ],
)
async def test_an_address_that_cannot_be_is_answered_plainly(
    open_page: OpenPage, hub: StandIn, search: str, said: str
) -> None:
    spending.spent(hub)
    page = await open_page(path=f"/usage?{search}", ready=".view :is(.wrong-days, .report-note)")
    assert said in await words(page.locator("main"))
    assert hub.asked == ([] if "since" in search else ["day 7"])


async def test_a_session_in_the_report_opens(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage?by=session", ready=".report")
    await page.get_by_role("link", name="Work of day 2").click()
    await expect(page.get_by_role("dialog", name="Work of day 2")).to_contain_text("unpriced")

    await page.keyboard.press("Escape")
    await expect(page.get_by_role("link", name="Work of day 2")).to_be_focused()
    await expect(page).to_have_url(ending("/usage?by=session"))


async def test_a_row_leads_to_its_sessions(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage?by=project", ready=".report")
    link = page.get_by_role("link", name="payments-api").first
    await expect(link).to_have_attribute("href", "/list?project=payments-api")
    assert (await rows(page))[-1].startswith("no project")
    await expect(page.get_by_role("link", name="no project")).to_have_count(0)


async def test_the_report_is_sorted_by_any_column(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage?by=host", ready=".report")
    heads = expect(page.locator(".report tbody tr th"))
    await heads.to_have_text(["Total", "alpha", "beta"])
    await page.get_by_role("button", name="Sessions").click()
    await heads.to_have_text(["Total", "beta", "alpha"])
    head = page.get_by_role("columnheader", name="Sessions")
    await expect(head).to_have_attribute("aria-sort", "descending")
    await page.get_by_role("button", name="Sessions").click()
    await expect(head).to_have_attribute("aria-sort", "ascending")
    await heads.to_have_text(["Total", "alpha", "beta"])


async def test_the_report_is_saved_as_csv(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".report")
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="CSV").click()
    assert (await downloading.value).suggested_filename == "usage.csv"


@pytest.mark.parametrize(
    ("search", "said"),
    [("", "No usage: 2026-11-22."), ("?days=1", "No usage yet today.")],
)
async def test_a_report_without_rows_says_so(
    open_page: OpenPage, hub: StandIn, search: str, said: str
) -> None:
    spending.spent(hub, read=True)
    nothing: dict[str, Any] = {"rows": [], "series": [], "notes": [], "sessions": 0, "before": None}
    hub.reports["day"] = replace(spending.report("day", 1, UsageView()), split=None, **nothing)
    page = await open_page(path=f"/usage{search}", ready="main .nobody")
    assert await page.inner_text("main .nobody") == said
    await expect(page.locator(".chart, .totals")).to_have_count(0)


async def test_budgets_tell_how_much_of_each_is_used(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    hub.budgets = spending.budgets(wall_ms())
    page = await open_page(path="/usage", ready=".budget")
    found = [await words(each) for each in await page.locator(".budget").all()]
    assert re.fullmatch(
        r"Each project \$10\.00 a day 1 over payments-api \$12\.40 of \$10\.00, 124 %, over since .+ "
        r"billing \$8\.60 of \$10\.00, 86 % web \$0\.31 of \$10\.00, 3 % and 3 others with less\.",
        found[0],
    )
    assert found[1] == "Sessions web* $5.00 each Nothing used yet."
    assert found[2] == "The team $500.00 in 30 days Everybody $217.00 of $500.00, 43 %"


async def test_a_hub_without_budgets_says_how_to_set_one(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".budgets")
    assert "None is set. A [[budgets]] entry" in await words(page.locator(".budgets"))


async def test_a_report_that_fails_is_owned_up_to_and_asked_for_again(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    spending.spent(hub, read=True)  # or it asks by itself every four seconds, and the button goes
    hub.fails_with = 500
    hub.may_answer.clear()
    page = await open_page(path="/usage", ready="main .log-ghost")
    await expect(page.locator("main").get_by_role("status")).to_have_text("Loading the report")
    assert await violations(page) == []
    hub.may_answer.set()
    await expect(page.locator(".log-failed")).to_contain_text("answered with status 500")
    assert await violations(page) == []

    hub.fails_with = None
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(".report")).to_have_count(1)
    hub.fails_with = 200
    await page.locator("[name=by]").nth(3).click()
    await expect(page.locator(".log-failed")).to_contain_text("could not be read. Below")
    await expect(page.get_by_role("columnheader").first).to_have_text("Day")


async def test_a_late_answer_does_not_replace_the_one_that_was_asked_for_later(
    open_page: OpenPage, hub: StandIn
) -> None:
    spending.spent(hub)
    page = await open_page(path="/usage", ready=".report")
    hub.held = {"host 7": asyncio.Event(), "project 7": asyncio.Event()}
    await page.locator("[name=by]").nth(1).click()
    await wait_until(lambda: hub.asked[-1:] == ["host 7"])
    await page.locator("[name=by]").nth(2).click()
    await wait_until(lambda: hub.asked[-1:] == ["project 7"])
    await page.evaluate(ASKED)
    await expect(page.locator(".log-failed")).to_have_count(0)
    hub.held["project 7"].set()
    await expect(page.get_by_role("columnheader").first).to_have_text("Project")
    hub.held["host 7"].set()
    await page.evaluate(ASKED)
    await expect(page.get_by_role("columnheader").first).to_have_text("Project")


async def test_usage_is_shown_accessibly(open_page: OpenPage, hub: StandIn) -> None:
    spending.spent(hub)
    hub.budgets = spending.budgets(wall_ms())
    page = await open_page(path="/usage?since=2026-11-16&until=2026-11-22", ready=".uplot")
    for n in range(6):
        await page.locator("[name=by]").nth(n).check(force=True)
        await expect(page.locator("[data-busy=true]")).to_have_count(0)
        assert await too_wide(page, 390, 1440) == []
    await expect(page.get_by_role("columnheader").first).to_have_text("Session")
    assert await look_faults(page) == []
    assert await tall_enough(page, "main") == []


async def test_huge_figures_widen_nothing(open_page: OpenPage, hub: StandIn) -> None:
    word = "W" * 300
    limits = tuple(RateLimitView(f"{word}{n}", 100, wall_ms() + 10**9) for n in range(3))
    scan = ScanProgress(10**9, 10**8, 10**15, 10**14, 10**10, 10**7)
    fleet = used(spending.HUGE, "idle", context=ContextView(10**12, 10**12))
    hub.load(fleet[0], [fleets.host("alpha", wall_ms(), limits=limits, scan=scan)])
    hub.summary = Summary(total_cost_today_usd=12_345_678.9, total_tokens_today=4 * 10**12)
    report = spending.report("session", 3, spending.HUGE)
    days = ["2026-11-20", "2026-11-21", "2026-11-22"]
    hub.reports["day"] = replace(
        report,
        rows=[replace(row, label=word, usage=spending.HUGE) for row in report.rows],
        series=spending.series(days, (word, word + "2")),
    )
    hub.budgets = [
        replace(
            each, name=word, uses=[replace(use, label=word, spent_usd=1e9) for use in each.uses]
        )
        for each in spending.budgets(wall_ms())
    ]
    page = await open_page()
    assert await too_wide(page, 1440, 641, 390) == []
    for path, ready in (("/usage", ".uplot"), ("/hosts#alpha", ".limits")):
        await page.goto(hub.url + path)
        await page.wait_for_selector(ready)
        assert await too_wide(page, 1440, 641, 390) == []
