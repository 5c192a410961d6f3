"""Narrowing the list by facets, filters in the address, saved views."""

from __future__ import annotations

import json
from urllib.parse import quote

import msgspec
import pytest
from playwright.async_api import Page, expect

from tests.browser import fleets
from tests.browser.addresses import ending
from tests.browser.conftest import DESK, PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import SIZES, overflow, too_wide, violations, violations_in_both
from tests.support import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
]

SONNET = "claude-sonnet-4-5-20250929"
FACETS = ".facets .picks"


async def cards(page: Page) -> list[str]:
    return sorted(await page.locator(".card").evaluate_all("(all) => all.map((e) => e.dataset.id)"))


async def open_facet(page: Page, name: str) -> None:
    await page.get_by_role("group", name="Filter by").get_by_role("button", name=name).click()
    await page.wait_for_selector(".popover:popover-open .value")


async def values(page: Page) -> list[list[str]]:
    """Name and count, as they stand in the open popover."""
    drawn = page.locator(".popover:popover-open .value, .fold[open] .value")
    return [
        [await row.locator(".value-name").inner_text(), await row.locator(".value-count").inner_text()]
        for row in await drawn.all()
    ]  # fmt: skip


async def count_of(page: Page, value: str) -> str:
    row = page.locator(".popover:popover-open .value", has_text=value)
    return (await row.locator(".value-count").inner_text()).split()[0]


async def test_a_facet_keeps_those_with_its_value_and_says_so_in_the_address(
    open_page: OpenPage,
) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True)
    await open_facet(page, "Host")
    await page.get_by_label("beta").check()

    await expect(page.locator(".card[data-id^='alpha:']")).to_have_count(0)
    assert {card.split(":")[0] for card in await cards(page)} == {"beta"}
    await expect(page).to_have_url(ending("/?host=beta"))
    await expect(page.locator(".narrowed-chip")).to_have_text("Remove filter Host: beta")


async def test_values_of_one_facet_add_up_and_facets_narrow_each_other(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.full(wall_ms()), ready=FACETS, narrowing=True, path="/?state=thinking&state=error"
    )
    assert await cards(page) == ["alpha:infra-1", "alpha:work-0"]

    await page.goto(page.url + "&project=infra")
    await page.wait_for_selector(".card")
    assert await cards(page) == ["alpha:infra-1"]


async def test_counts_are_of_what_the_other_filters_leave(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True, path="/?host=beta")
    await open_facet(page, "Host")
    # Its own facet counts both hosts, or nobody could add the other.
    assert [row[0] for row in await values(page)] == ["beta", "alpha"]
    assert await count_of(page, "alpha") == "14"
    await page.keyboard.press("Escape")

    await open_facet(page, "Model")
    assert await count_of(page, "opus 4.1") == "2"
    assert await count_of(page, "sonnet 4.5") == "4"


async def test_counts_follow_the_roster(open_page: OpenPage, hub: StandIn) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True)
    await open_facet(page, "Host")
    assert await count_of(page, "beta") == "8"

    fresh = fleets.session("new", "thinking", "…", now=wall_ms(), host="beta", title="New")
    await hub.change(fresh)
    row = page.locator(".popover:popover-open .value", has_text="beta")
    await expect(row.locator(".value-count")).to_contain_text("9")


async def test_a_facet_of_one_value_is_not_offered(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True)
    names = [name.strip() for name in await page.locator(".picks .pick").all_inner_texts()]
    assert names == ["Host", "Project", "Group", "State", "Model"]


async def test_an_offline_hosts_sessions_are_found_by_their_facet(open_page: OpenPage) -> None:
    page = await open_page(fleets.broken(wall_ms()), ready=FACETS, narrowing=True)
    await open_facet(page, "Host")
    await page.get_by_label("gamma").check()

    await expect(page.locator(".card")).to_have_count(2)
    assert await cards(page) == ["gamma:gone-1", "gamma:gone-2"]


async def test_many_values_have_a_search_box(open_page: OpenPage) -> None:
    page = await open_page(fleets.crowd(wall_ms(), 200), ready=FACETS, narrowing=True)
    await open_facet(page, "Host")
    await page.keyboard.type("host-39")
    await expect(page.locator(".popover:popover-open .value")).to_have_count(1)

    assert [row[0] for row in await values(page)] == ["host-39"]
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Space")
    await expect(page.locator(".narrowed-chip")).to_contain_text("host-39")
    await expect(page.locator(".card")).to_have_count(5)


async def test_filters_survive_a_reload_and_the_way_back_and_forth(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True)
    await open_facet(page, "Host")
    await page.get_by_label("beta").check()
    await page.keyboard.press("Escape")
    await page.get_by_role("navigation", name="Group by").get_by_role("link", name="None").click()
    await expect(page).to_have_url(page.url.split("/list")[0].rstrip("/") + "/list?host=beta")
    await page.click(".narrowed-chip")
    await expect(page.locator(".narrowed-chip")).to_have_count(0)

    await page.go_back()
    await expect(page.locator(".narrowed-chip")).to_have_text("Remove filter Host: beta")
    await expect(page).to_have_url(ending("/?host=beta"))
    await page.reload()
    await expect(page.locator(".narrowed-chip")).to_have_text("Remove filter Host: beta")
    assert {card.split(":")[0] for card in await cards(page)} == {"beta"}
    await page.go_forward()
    await expect(page.locator(".narrowed-chip")).to_have_count(0)
    await expect(page).to_have_url(ending("/list"))


async def test_all_of_it_goes_by_keyboard(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True)
    host = page.locator(".picks .pick").first
    await host.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("alpha")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Space")
    await expect(page.get_by_label("beta")).to_be_checked()
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_label("alpha")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator(".narrowed-chip")).to_have_count(2)

    await page.keyboard.press("Escape")
    await expect(page.locator(".popover:popover-open")).to_have_count(0)
    await expect(host).to_be_focused()

    # Whoever takes a filter away goes on from its neighbour.
    chips = page.locator(".narrowed-chip")
    await chips.first.focus()
    await page.keyboard.press("Enter")
    await expect(chips).to_have_count(1)
    await expect(chips.first).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(chips).to_have_count(0)
    assert await page.evaluate("document.activeElement.closest('.facets') !== null")


async def test_clear_all_clears_words_too(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.full(wall_ms()),
        ready=FACETS,
        narrowing=True,
        path="/?q=refund&host=beta&group=needs_you",
    )
    await expect(page.locator(".narrowed-chip")).to_have_count(3)
    await page.get_by_role("button", name="Clear all").click()

    await expect(page.locator(".narrowed-chip")).to_have_count(0)
    assert await page.input_value("#filter") == ""
    await expect(page).to_have_url(ending("/"))


ABSURD = {
    "unknown values": "/?host=nowhere&state=%E2%80%AEdreaming&group=__proto__&model=constructor",
    "a broken escape": "/?host=%ZZ&q=%",
    "control characters": "/?host=%00%1b%5b31m&project=%0d%0aSet-Cookie:x",
    "markup": "/?project=" + quote("<img src=x onerror=alert(1)>"),
    "a thousand values": "/?" + "&".join(f"host=h{n}" for n in range(1000)),
    "too long a value": "/?project=" + "p" * 20_000,
}


@pytest.mark.parametrize("what", ABSURD)
async def test_an_absurd_address_is_harmless(open_page: OpenPage, what: str) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=".narrowed", path=ABSURD[what])
    await expect(page.locator(".narrowed-chip", has_text="no match").first).to_be_visible()
    assert await page.locator(".card").count() == 0
    assert await overflow(page) == 0
    assert await violations(page) == []

    chips = page.locator(".narrowed-chip")
    before = await chips.count()
    await chips.first.click()
    if before < 12:
        await expect(chips).to_have_count(before - 1)
    if before > 1:
        await page.get_by_role("button", name="Clear all").click()
    await expect(page.locator(".card").first).to_be_visible()
    await expect(page).to_have_url(ending("/"))


async def test_a_megabyte_of_filters_is_cut(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True)
    # As no server takes so long a line, it comes by a link within the page.
    await page.evaluate(
        """() => {
          const link = document.createElement("a");
          link.href = "/list?" + Array.from({ length: 20000 }, (_, n) => `host=${"x".repeat(40)}${n}`).join("&");
          document.body.append(link);
          link.click();
          link.remove();
        }"""
    )
    await expect(page.locator(".narrowed-chip")).to_have_count(12)
    assert len(page.url) < 5000
    await page.get_by_role("button", name="Clear all").click()
    await expect(page.locator(".narrowed-chip")).to_have_count(0)


async def test_hostile_names_are_plain_text(open_page: OpenPage) -> None:
    page = await open_page(fleets.hostile(wall_ms()), ready=FACETS, narrowing=True)
    for name in ("Host", "Project", "State", "Model", "Agent"):
        await open_facet(page, name)
        await expect(page.locator(".popover:popover-open .value")).to_have_count(
            len(fleets.HOSTILE)
        )
        assert "\u202e" not in await page.inner_text(".popover:popover-open")
        await page.locator(".popover:popover-open input").first.check()
        await page.keyboard.press("Escape")

    assert "\u202e" not in await page.inner_text(".facets")
    await expect(page.locator(".card")).to_have_count(1)
    assert await page.locator(".facets img, .facets script, .facets iframe").count() == 0

    await page.get_by_role("button", name="Save view").click()
    await page.locator(".save input").fill(fleets.HOSTILE[0] + "\u202e")
    await page.keyboard.press("Enter")
    await page.click(".pick-saved")
    await expect(page.locator(".saved-name")).to_have_text(fleets.HOSTILE[0] + "\u25af")


async def test_a_facet_value_too_long_for_an_address_still_narrows_after_a_reload(
    open_page: OpenPage,
) -> None:
    now = wall_ms()
    long = fleets.session("a", "thinking", "…", now=now, title="Long", project="P" * 300)
    short = fleets.session("b", "thinking", "…", now=now, title="Short", project="short")
    page = await open_page(([long, short], []), ready=FACETS, narrowing=True)
    await open_facet(page, "Project")
    await page.get_by_label("PPPP").check()
    await expect(page.locator(".card")).to_have_count(1)
    await page.reload()
    await page.wait_for_selector(".card")
    assert await cards(page) == ["alpha:a"]
    assert await overflow(page) == 0


async def save(page: Page, name: str) -> None:
    await page.get_by_role("button", name="Save view", exact=True).click()
    box = page.get_by_label("Save these filters as")
    await expect(box).to_be_focused()
    await box.fill(name)
    await page.keyboard.press("Enter")
    await expect(page.locator(".popover:popover-open")).to_have_count(0)


async def test_a_saved_view_brings_view_and_filters_back(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.full(wall_ms()), ready=FACETS, narrowing=True, path="/?host=beta&q=a"
    )
    await save(page, "Beta alone")
    await page.goto(page.url.split("/?")[0] + "/list")
    await page.wait_for_selector(FACETS)
    await page.click(".pick-saved")
    await expect(page.locator(".popover:popover-open")).to_contain_text(
        "Stored in this browser only."
    )
    await page.get_by_role("link", name="Beta alone").click()

    await expect(page.locator(".narrowed-chip")).to_have_count(2)
    await expect(page).to_have_url(ending("/?q=a&host=beta"))
    await expect(page.locator(".popover:popover-open")).to_have_count(0)


async def test_a_saved_view_brings_the_order_of_the_list_back(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.full(wall_ms()), ready=FACETS, narrowing=True, path="/list?q=a&sort=-cost"
    )
    await save(page, "Dearest")
    await page.goto(page.url.split("/list")[0] + "/list?q=a")
    await page.wait_for_selector(FACETS)
    await page.click(".pick-saved")
    await expect(page.locator(".saved-holds")).to_have_text("List · “a” · by cost downwards")
    await page.get_by_role("link", name="Dearest").click()

    await expect(page.get_by_label("Sort by")).to_have_value("cost")
    await expect(page).to_have_url(ending("/list?q=a&sort=-cost"))


async def test_the_suggested_name_gives_way_to_what_is_typed(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True, path="/?host=beta")
    await page.get_by_role("button", name="Save view", exact=True).click()
    await expect(page.get_by_label("Save these filters as")).to_be_focused()
    await page.keyboard.type("Mine")
    await expect(page.get_by_label("Save these filters as")).to_have_value("Mine")


async def test_a_saved_view_without_filters_takes_none_along(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True, path="/by/host")
    await page.click(".pick-saved")
    await page.get_by_label("Save this view as").fill("All hosts")
    await page.keyboard.press("Enter")
    await page.goto(page.url.replace("/by/host", "/?host=beta"))
    await page.wait_for_selector(".narrowed-chip")
    await page.click(".pick-saved")
    await page.get_by_role("link", name="All hosts").click()

    await expect(page.locator(".narrowed-chip")).to_have_count(0)
    await expect(page).to_have_url(ending("/by/host"))
    await page.go_back()
    await expect(page.locator(".narrowed-chip")).to_have_count(1)


async def test_saved_views_are_renamed_moved_and_deleted_in_the_settings(
    open_page: OpenPage, expected_faults: list[str]
) -> None:
    # Of what else the settings ask, the stand-in knows not all.
    expected_faults.append("Failed to load resource")
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True, path="/?host=beta")
    await save(page, "One")
    await save(page, "Two")
    await page.goto(page.url.split("/?")[0] + "/settings")
    names = page.locator(".saved-rename")
    await expect(names).to_have_count(2)

    async def held() -> list[str]:
        found: list[str] = await names.evaluate_all("(all) => all.map((box) => box.value)")
        return found

    await page.get_by_role("button", name="Move Two up").click()
    await wait_until(lambda: _is(held(), ["Two", "One"]))
    await names.first.fill("One")
    await names.first.press("Enter")
    await expect(page.locator(".saved-views [role=alert]")).to_contain_text("already")
    await names.first.fill("Zwei")
    await names.first.press("Enter")
    await wait_until(lambda: _is(held(), ["Zwei", "One"]))
    await page.get_by_role("button", name="Delete One").click()
    await wait_until(lambda: _is(held(), ["Zwei"]))
    await page.reload()
    await expect(names).to_have_count(1)
    assert await held() == ["Zwei"]


async def _is(asked: object, wanted: list[str]) -> bool:
    return bool(await asked == wanted)  # type: ignore[misc] # an awaitable


BROKEN = {
    "no JSON": ("{", "could not be read"),
    "no list": ('{"a": 1}', "could not be read"),
    "half of it": (
        json.dumps([{"name": "Good", "path": "/list", "search": "?host=beta"}, 7, {"name": "x"},
                    {"name": "Away", "path": "//evil.example", "search": ""}]),
        "3 of 4 saved views could not be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
async def test_broken_storage_is_told_in_one_line_and_harms_nothing(
    open_page: OpenPage, what: str
) -> None:
    kept, told = BROKEN[what]
    page = await open_page(fleets.full(wall_ms()), ready=FACETS, narrowing=True)
    await page.evaluate("(kept) => localStorage.setItem('adsum.views', kept)", kept)
    await page.reload()
    await page.wait_for_selector(FACETS)
    await page.click(".pick-saved")
    await expect(page.locator(".popover:popover-open .saved-trouble")).to_contain_text(told)
    await expect(page.locator(".saved-way")).to_have_count(1 if what == "half of it" else 0)

    await page.get_by_label("Save this view as").fill("Mended")
    await page.keyboard.press("Enter")
    await page.click(".pick-saved")
    await expect(page.locator(".popover:popover-open .saved-trouble")).to_have_count(0)
    await expect(page.get_by_role("link", name="Mended")).to_be_visible()


async def test_open_facets_are_accessible(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.full(wall_ms()),
        ready=FACETS,
        narrowing=True,
        path="/?host=alpha&project=nope",
    )
    await open_facet(page, "Project")
    assert await violations_in_both(page) == []
    await page.keyboard.press("Escape")
    await page.click(".pick-saved")
    await expect(page.locator(".save input")).to_be_visible()
    assert await violations_in_both(page) == []


async def test_a_phone_has_one_button_and_a_sheet(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=PHONE, ready=".head .pick")
    await expect(page.locator(".head .pick")).to_have_count(1)
    await page.click(".head .pick")
    await page.locator(".fold summary", has_text="Host").click()
    await page.get_by_label("beta").check()
    assert await violations_in_both(page) == []
    low = await page.evaluate(
        """[...document.querySelectorAll(".sheet :is(a, button, label, summary)")]
             .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44)
             .map((e) => e.outerHTML)"""
    )
    assert low == []
    await page.get_by_role("button", name="Show 8 sessions").click()

    await expect(page.locator(".sheet")).to_have_count(0)
    await expect(page.locator(".head .pick-count")).to_have_text("1")
    assert page.url.split("#")[0].endswith("/?host=beta")
    assert await overflow(page) == 0
    assert await violations_in_both(page) == []


async def test_the_row_fits_every_width(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.broken(wall_ms()),
        ready=".narrowed",
        path="/?host=alpha&host=beta&state=nope&q=" + "w" * 90,
    )
    assert await too_wide(page, 360, 641, 900, 1100) == []


async def test_five_thousand_are_counted_under_several_filters(open_page: OpenPage) -> None:
    page = await open_page(fleets.crowd(wall_ms(), 5000), ready=FACETS, narrowing=True)
    left = await page.evaluate(
        """async () => {
          const { tally } = await import("/static/filter/state.js");
          const { allSessions } = await import("/static/core/roster.js");
          const { filtersIn } = await import("/static/core/filters.js");
          const wanted = filtersIn("?host=host-1&host=host-2&project=project-3&q=number");
          return tally(allSessions(), wanted).left;
        }"""
    )
    assert left == sum(1 for n in range(5000) if n % 40 in (1, 2) and n % 17 == 3)


@pytest.mark.parametrize("size", SIZES)
async def test_theme_and_density_are_kept(open_page: OpenPage, size: str) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=SIZES[size])
    background = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(background)
    high = await page.locator(".card").nth(3).evaluate("(e) => e.offsetHeight")
    await page.evaluate(
        """import("/static/core/preferences.js").then((look) => (look.setTheme("dark"), look.setDensity("compact")))"""
    )
    dark = await page.evaluate(background)
    assert dark != light
    assert await page.locator(".card").nth(3).evaluate("(e) => e.offsetHeight") < high
    assert await violations(page) == []

    await page.reload()
    await page.wait_for_selector(".card")
    assert await page.evaluate(background) == dark
    assert await page.evaluate("document.documentElement.dataset.density") == "compact"


async def test_a_kept_look_that_is_none_changes_nothing(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.evaluate(
        """localStorage.setItem("adsum.theme", '"<b>"'); localStorage.setItem("adsum.density", "{");"""
    )
    await page.reload()
    await page.wait_for_selector(".card")
    assert await page.evaluate("document.documentElement.dataset.theme ?? null") is None
    assert await page.evaluate("document.documentElement.dataset.density ?? null") is None


async def test_the_early_script_needs_nothing_else(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=DESK)
    await page.evaluate(
        """() => new Promise((done) => {
          localStorage.setItem("adsum.theme", '"dark"');
          delete document.documentElement.dataset.theme;
          const script = document.createElement("script");
          script.src = "/static/early.js";
          script.onload = done;
          document.head.append(script);
        })"""
    )
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"


async def test_a_session_that_changes_leaves_the_filtered_list(
    open_page: OpenPage, hub: StandIn
) -> None:
    sessions, hosts = fleets.full(wall_ms())
    page = await open_page((sessions, hosts), ready=FACETS, narrowing=True, path="/?state=thinking")
    await expect(page.locator(".card")).to_have_count(1)
    one = next(each for each in sessions if each.state.state == "thinking")
    state = msgspec.structs.replace(one.state, state="acting", label="Running")
    await hub.change(msgspec.structs.replace(one, state=state))
    await expect(page.locator(".card")).to_have_count(0)
