"""The command palette: what it finds, in which order, by keyboard alone, on desk and phone."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.browser import fleets, held
from tests.browser.addresses import ending
from tests.browser.conftest import ASKED, PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import look_faults, violations
from tests.support import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
]

ROW = ".palette-row"


async def open_palette(page: Page) -> Locator:
    await page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Find a session, a view or a command")
    await expect(box).to_be_focused()
    return box


async def rows(page: Page, family: str) -> list[str]:
    found = page.get_by_role("group", name=family).locator(".palette-title")
    return [text.strip() for text in await found.all_inner_texts()]


async def chosen(page: Page) -> str:
    """What a screen reader would be told of: the option that the box names."""
    found: str = await page.evaluate(
        """document.getElementById(document.querySelector("[role=combobox]")
             .getAttribute("aria-activedescendant"))?.querySelector(".palette-title").textContent"""
    )
    return found


async def test_it_opens_with_those_who_need_someone_and_the_views(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await open_palette(page)
    assert (await rows(page, "Sessions"))[:2] == [
        "Fix the flaky refund test",
        "Upgrade to the new router",
    ]
    assert "History" in await rows(page, "Views")
    assert "Theme: dark" in await rows(page, "Commands")
    assert "Sign out" not in await rows(page, "Commands")


async def test_what_is_typed_before_it_is_there_is_its_own_and_no_cards(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    come = asyncio.Event()

    async def late(route: Route) -> None:
        await come.wait()
        await route.continue_()

    await page.route("**/palette/view.js", late)
    cards = await page.locator("#main [data-id]").count()
    await page.keyboard.press("j")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("index")
    await page.keyboard.press("Enter")
    come.set()

    box = page.get_by_role("combobox", name="Find a session, a view or a command")
    await expect(box).to_have_value("index")
    await page.keyboard.type("ed")
    await expect(box).to_have_value("indexed")
    assert await page.locator("#main [data-id]").count() == cards
    await expect(page.locator(".sheet[open]")).to_have_count(0)


async def test_a_palette_that_does_not_come_is_given_up_by_escape(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.route("**/palette/view.js", lambda _: None)
    await page.keyboard.press("Control+k")
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")

    await expect(page.locator("#main [data-id]:focus-within")).to_have_count(1)


async def test_a_session_is_found_and_opened_by_keyboard(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await open_palette(page)
    await page.keyboard.type("docker im")
    assert await rows(page, "Sessions") == ["Shrink the Docker image"]
    assert await chosen(page) == "Shrink the Docker image"
    await page.keyboard.press("Enter")

    await expect(page.locator("#sheet-title")).to_have_text("Shrink the Docker image")
    await expect(page.locator(".palette")).to_have_count(0)


async def test_what_can_be_decided_is_found_and_led_to_and_not_decided(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms())
    hub.me |= {"role": "operator"}
    hub.load([view], [fleets.host("alpha", wall_ms(), control="approve")])
    hub.activity[view.id] = []
    page = await open_page()
    await open_palette(page)
    assert await chosen(page) == "Decide: Needs permission: Bash"
    await page.keyboard.type("decide bash")
    assert len(await rows(page, "Decide")) == 1
    await page.keyboard.press("Enter")

    await expect(page.locator(".request")).to_be_focused()
    assert hub.commands == []
    hub.load([view], [fleets.host("alpha", wall_ms(), control="off")])
    page = await open_page()
    await open_palette(page)
    assert await rows(page, "Decide") == []


async def test_sessions_are_found_by_project_host_and_state_whatever_the_filter_says(
    open_page: OpenPage,
) -> None:
    page = await open_page(fleets.broken(wall_ms()), path="/?host=beta")
    await page.goto(page.url.split("?")[0])
    await page.wait_for_selector(".facets .by")
    await page.locator("#filter").fill("nobody at all")
    box = await open_palette(page)
    for words, title in (
        ("payments-api", "Fix the flaky refund test"),
        ("gamma arm", "Build for arm64"),
        ("delta warm", "Warm the caches"),
        ("compacting", "Merge the two schedulers"),
    ):
        await box.fill(words)
        await expect(page.locator(".palette-title").first).to_have_text(title)


async def test_arrows_choose_and_wrap_and_the_box_says_which(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await open_palette(page)
    titles = [text.strip() for text in await page.locator(".palette-title").all_inner_texts()]
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("[aria-selected=true] .palette-title")).to_have_text(titles[1])
    assert await chosen(page) == titles[1]
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowUp")
    await expect(page.locator("[aria-selected=true] .palette-title")).to_have_text(titles[-1])
    assert await page.locator("[aria-selected=true]").is_visible()
    assert await page.locator("[aria-selected=true]").count() == 1


async def test_escape_gives_the_focus_back(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.locator(".card .open").nth(2).focus()
    await open_palette(page)
    await page.keyboard.type("x")
    await page.keyboard.press("Escape")
    await expect(page.locator(".palette")).to_have_count(0)
    await expect(page.locator(".card .open").nth(2)).to_be_focused()


async def test_over_an_open_session_only_the_palette_closes(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.locator(".card .open").first.click()
    await expect(page.locator("#sheet-title")).to_be_visible()
    box = await open_palette(page)
    await page.keyboard.press("Escape")
    await expect(page.locator(".palette")).to_have_count(0)
    await expect(page.locator("dialog.sheet[open]")).to_have_count(1)

    box = await open_palette(page)
    await box.fill("docker")
    await page.keyboard.press("Enter")
    await expect(page.locator("#sheet-title")).to_have_text("Shrink the Docker image")
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog[open]")).to_have_count(0)


async def test_views_filters_and_commands_do_what_they_say(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    box = await open_palette(page)
    await box.fill("host: beta")
    await expect(page.locator(f"{ROW}[aria-selected=true]")).to_contain_text("host: beta")
    await page.keyboard.press("Enter")
    await expect(page.locator(".narrowed-chip")).to_contain_text("beta")

    box = await open_palette(page)
    await box.fill("remove beta")
    await page.keyboard.press("Enter")
    await expect(page.locator(".narrowed-chip")).to_have_count(0)

    box = await open_palette(page)
    await box.fill("by project")
    await page.keyboard.press("Enter")
    await expect(page.locator("#main[data-view=project]")).to_have_count(1)

    box = await open_palette(page)
    await box.fill("theme dark")
    await page.keyboard.press("Enter")
    await expect(page.locator("html[data-theme=dark]")).to_have_count(1)

    box = await open_palette(page)
    await box.fill("compact")
    await page.keyboard.press("Enter")
    await expect(page.locator("html[data-density=compact]")).to_have_count(1)

    box = await open_palette(page)
    await box.fill("keyboard")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    await page.keyboard.press("Escape")

    box = await open_palette(page)
    await box.fill("copy link")
    await page.keyboard.press("Enter")
    await expect(page.locator(".palette [role=status]")).to_have_text("Link copied")
    assert await page.evaluate("navigator.clipboard.readText()") == page.url


async def test_a_filter_chosen_elsewhere_leads_to_the_board(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), path="/hosts", ready="#main .view, #main p")
    box = await open_palette(page)
    await box.fill("project: infra")
    await page.keyboard.press("Enter")
    await expect(page.locator(".card")).to_have_count(1)
    await expect(page).to_have_url(ending("/?project=infra"))


async def test_saved_views_are_in_it(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.evaluate(
        """import("/static/filter/state.js").then(({ saveView }) => saveView("Mornings", "/list", "?host=beta"))"""
    )
    box = await open_palette(page)
    assert await rows(page, "Saved views") == ["Mornings"]
    await box.fill("morn")
    await page.keyboard.press("Enter")
    await expect(page.locator("#main[data-view=list]")).to_have_count(1)
    await expect(page).to_have_url(ending("/list?host=beta"))


async def test_what_is_over_is_found_from_two_letters_on_and_marked(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    hub.load(*fleets.full(now))
    hub.past = [
        fleets.session("old-1", "session_ended", "Closed", now=now, title="Docker, long ago"),
        hub.sessions["alpha:work-0"],
    ]
    page = await open_page()
    box = await open_palette(page)
    await box.fill("d")
    await page.evaluate(ASKED)
    assert hub.sought == []
    await box.press_sequentially("ocke", delay=20)
    over = page.get_by_role("group", name="History")
    await expect(over.locator(ROW)).to_have_count(1)
    await expect(over.locator(".palette-tag")).to_have_text("over")
    # Not letter by letter; who is on the roll stands there once.
    assert hub.sought == [("docke", 0)]
    await over.locator(ROW).click()
    await expect(page.locator("#sheet-title")).to_have_text("Docker, long ago")


async def test_an_answer_that_comes_too_late_is_not_shown(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    hub.load(*fleets.full(now))
    hub.past = [
        fleets.session(f"old-{n}", "session_ended", "Closed", now=now, title=title)
        for n, title in enumerate(("Zebra crossing", "Quagga crossing"))
    ]
    hub.held["zebra"] = asyncio.Event()
    page = await open_page()
    box = await open_palette(page)
    await box.fill("zebra")
    await wait_until(lambda: ("zebra", 0) in hub.sought)
    await box.fill("quagga")
    await expect(page.locator(".palette-title")).to_have_text(["Quagga crossing"])
    hub.release()
    await page.evaluate(ASKED)
    await expect(page.locator(".palette-title")).to_have_text(["Quagga crossing"])


async def test_a_history_that_cannot_be_searched_says_so(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    hub.load(*fleets.full(wall_ms()))
    hub.fails_with = 500
    page = await open_page()
    box = await open_palette(page)
    await box.fill("zzzz")
    await expect(page.locator(".palette-failed")).to_contain_text("could not be searched")
    await expect(page.locator(".palette-none")).to_contain_text("Nothing found")
    await expect(box).to_have_attribute("aria-expanded", "false")
    assert await violations(page) == []


async def test_it_is_accessible(open_page: OpenPage) -> None:
    page = await open_page(fleets.broken(wall_ms()))
    box = await open_palette(page)
    assert await look_faults(page) == []
    await box.fill("a")
    assert await look_faults(page) == []


async def test_hostile_titles_are_plain_text(open_page: OpenPage) -> None:
    page = await open_page(fleets.hostile(wall_ms()))
    box = await open_palette(page)
    await expect(page.get_by_role("group", name="Sessions").locator(ROW)).to_have_count(5)
    await box.fill("alert(1)")
    await expect(page.locator(ROW).first).to_be_visible()
    assert "\u202e" not in await page.inner_text(".palette")
    assert await page.locator(".palette img, .palette script, .palette iframe").count() == 0
    await box.fill("<img src=x onerror=alert(1)>")
    await expect(page.locator(".palette-title").first).to_have_text("<img src=x onerror=alert(1)>")


async def test_a_phone_opens_it_from_its_menu(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=PHONE)
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("button", name="Search and commands").click()
    await page.get_by_role("combobox").fill("docker")
    low = await page.evaluate(
        """[...document.querySelectorAll(".palette :is(button, input, [role=option])")]
             .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44)
             .map((e) => e.outerHTML)"""
    )
    assert low == []
    await page.locator(ROW).first.click()
    await expect(page.locator("#sheet-title")).to_have_text("Shrink the Docker image")


async def test_what_more_holds_is_within_a_thumbs_reach(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=PHONE)
    await page.get_by_role("button", name="More").click()
    await expect(page.locator(".menu-link").first).to_be_visible()
    tops = await page.locator(".menu-link, .sheet .close").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().top)"
    )
    assert min(tops) > PHONE["height"] / 3
    assert tops == sorted(tops), "the keyboard goes from the top to the bottom"
    assert PHONE["height"] - tops[-1] < 80
    assert await violations(page) == []


async def test_the_filter_has_a_button_for_it(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=".facets .picks", narrowing=True)
    await page.get_by_role("button", name="Command palette, Ctrl K").click()
    await expect(page.locator(".palette[open]")).to_be_visible()
    await page.keyboard.press("Control+k")
    await expect(page.locator(".palette[open]")).to_have_count(1)
    await page.mouse.click(5, 5)
    await expect(page.locator(".palette[open]")).to_have_count(0)


async def test_who_signed_in_can_sign_out(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    hub.load(*fleets.full(wall_ms()))
    kept = hub.me
    hub.me = {"name": "ada", "role": "viewer", "csrf": "c", "sign_in": True}
    try:
        page = await open_page()
        box = await open_palette(page)
        await box.fill("sign out")
        await expect(page.locator(f"{ROW}[aria-selected=true]")).to_contain_text("Sign out")
        async with page.expect_request("**/api/v1/logout") as asked:
            await page.keyboard.press("Enter")
        assert (await asked.value).headers["x-csrf-token"] == "c"
    finally:
        hub.me = kept


async def test_words_rank_by_where_they_stand(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    ranked = await page.evaluate(
        """import("/static/palette/state.js").then(({ field, fit, wordsOf }) => {
          const best = (sought, texts) => texts
            .map((text) => [text, fit(wordsOf(sought), [field(text, 1)])])
            .filter(([, score]) => score > 0).sort((a, b) => b[1] - a[1]).map(([text]) => text);
          return [
            best("ref", ["a brief", "the refund", "refund", "ref"]),
            best("test flaky", ["Fix the flaky refund test", "Fix the test"]),
            best("rftst", ["Refund test", "Other"]),
            best("", ["anything"]),
          ];
        })"""
    )
    assert ranked == [
        ["ref", "refund", "the refund", "a brief"],
        ["Fix the flaky refund test"],
        ["Refund test"],
        [],
    ]
