"""The list: every session as a row, in the reader's order, thousands of them, without a jump."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from adsum_shared.state import SessionView, UsageView
from tests.browser import fleets, spending
from tests.browser.addresses import ending
from tests.browser.conftest import DESK, PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import look_faults, resize, too_wide
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ROW = ".list-row"
ATTENTION = [
    "Fix the flaky refund test",
    "Upgrade to the new router",
    "Soft-delete for invoices",
    "Rotate the signing keys",
]


async def opened(
    open_page: OpenPage, fleet: fleets.Fleet, path: str = "/list", **more: Any
) -> Page:
    return await open_page(fleet, **{"ready": ROW, "path": path, **more})


async def titles(page: Page) -> list[str]:
    return [title.strip() for title in await page.locator(f"{ROW} .open bdi").all_inner_texts()]


async def sorted_by(page: Page) -> dict[str, str]:
    """What the heads of the columns say of the order."""
    found: dict[str, str] = await page.evaluate(
        """Object.fromEntries([...document.querySelectorAll("th[aria-sort]")]
             .map((head) => [head.dataset.col, head.ariaSort]))"""
    )
    return found


def dear(now: int, *costs: float | None) -> fleets.Fleet:
    """Sessions at work that cost so much, in this order of attention."""
    return [
        fleets.session(
            f"s{n}", "thinking", "…", now=now, age=n * 1000, title=f"At {cost}",
            usage=UsageView(1000, cost_usd=cost),
        )
        for n, cost in enumerate(costs)
    ], []  # fmt: skip


async def test_rows_stand_in_the_order_of_attention(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.full(wall_ms()))
    found = await titles(page)

    assert found[:4] == ATTENTION
    assert found.index("Rewrite the quick start") < found.index("Cache the exchange rates")
    assert found[-1] == "Spike: websocket proxy"
    assert await sorted_by(page) == {}
    assert "22 sessions" in await page.inner_text(".list-count")


async def test_a_row_says_what_a_card_says(open_page: OpenPage) -> None:
    page = await opened(open_page, spending.fleet(wall_ms()))
    row = page.locator(ROW, has_text="Fix the flaky refund test")
    words = " ".join((await row.inner_text()).split())

    for said in (
        "Needs permission: Bash", "psql $STAGING_URL", "payments-api", "beta",
        "fix/refund-race", "opus 4.1", "4m", "52.0k", "$0.31", "92 %",
    ):  # fmt: skip
        assert said in words


@pytest.mark.parametrize("path", ["/list", "/by/host"])
async def test_a_usual_state_is_not_cut(open_page: OpenPage, path: str) -> None:
    one = fleets.session("s", "idle", "Waiting for your next prompt", now=wall_ms())
    page = await open_page(([one], []), path=path, ready=".badge bdi")
    for size in (DESK, PHONE):
        await resize(page, size)
        assert await page.eval_on_selector(".badge bdi", "it => it.scrollWidth <= it.clientWidth")


async def test_a_press_on_a_head_sorts_turns_round_and_goes_back(open_page: OpenPage) -> None:
    page = await opened(open_page, dear(wall_ms(), 3.0, None, 20.0, 0.5))
    head = page.locator("th[data-col=cost] button")

    await head.click()
    await expect(page).to_have_url("/".join([*page.url.split("/")[:3], "list?sort=-cost"]))
    await expect(page.locator(f"{ROW} .open bdi")).to_have_text(
        ["At 20.0", "At 3.0", "At 0.5", "At None"]
    )
    assert await sorted_by(page) == {"cost": "descending"}

    await head.click()
    await expect(page.locator(f"{ROW} .open bdi")).to_have_text(
        ["At 0.5", "At 3.0", "At 20.0", "At None"]
    )
    await expect(page).to_have_url(ending("/list?sort=cost"))
    assert await sorted_by(page) == {"cost": "ascending"}

    await head.click()
    await expect(page.locator("th[aria-sort]")).to_have_count(0)
    await expect(page).to_have_url(ending("/list"))


async def test_every_column_can_be_sorted_by_the_keyboard(open_page: OpenPage) -> None:
    page = await opened(open_page, spending.fleet(wall_ms()))
    heads = await page.locator("thead th").all()
    assert len(heads) == 10
    await page.locator("thead button").first.focus()

    for head in heads:
        name = await head.get_attribute("data-col") or ""
        assert await page.evaluate("document.activeElement.closest('th')?.dataset.col") == name
        await page.keyboard.press("Enter")
        await page.wait_for_selector(f"th[data-col={name}][aria-sort]")
        assert [*(await sorted_by(page))] == [name]
        await page.keyboard.press("Tab")


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("title", "A state from the future"),
        ("-title", "Upgrade to the new router"),
        ("age", "Cache the exchange rates"),
        ("-age", "Spike: websocket proxy"),
        ("project", "Sessions out of Postgres"),
    ],
)
async def test_an_address_with_an_order_opens_in_it(
    open_page: OpenPage, sort: str, first: str
) -> None:
    page = await opened(open_page, fleets.full(wall_ms()), f"/list?sort={sort}")
    assert (await titles(page))[0] == first


#: Follows an address as a link within the page does.
FOLLOW = """(address) => {
  const link = document.createElement("a");
  link.href = address;
  document.body.append(link);
  link.click();
  link.remove();
}"""


async def test_an_absurd_order_is_that_of_attention(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.full(wall_ms()), "/list?sort=-")
    assert (await titles(page))[:4] == ATTENTION
    for sort in ("nonsense", "constructor", "%00", "--cost", "x" * 5000):
        await page.evaluate(FOLLOW, "/list?sort=title")
        await expect(page.locator("th[aria-sort]")).to_have_count(1)
        await page.evaluate(FOLLOW, f"/list?sort={sort}")
        await expect(page.locator("th[aria-sort]")).to_have_count(0)
        assert (await titles(page))[:4] == ATTENTION


async def test_back_undoes_an_order_and_a_filter_keeps_it(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.full(wall_ms()))
    await page.click("th[data-col=title] button")
    await expect(page.locator(f"{ROW} .open").first).to_have_text("A state from the future")
    await page.locator(".filter input").fill("the")
    await page.wait_for_url("**/list?*q=the*")
    assert "sort=title" in page.url

    await page.reload()
    await page.wait_for_selector(ROW)
    assert await sorted_by(page) == {"title": "ascending"}
    assert (await titles(page))[0] == "A state from the future"

    await page.go_back()
    await expect(page.locator("th[aria-sort]")).to_have_count(0)
    assert (await titles(page))[:4] == ATTENTION


async def test_a_row_opens_its_session_and_back_returns_to_the_same_order(
    open_page: OpenPage,
) -> None:
    page = await opened(open_page, fleets.full(wall_ms()), "/list?sort=title")
    before = await titles(page)
    await page.locator(ROW).nth(1).locator("[data-col=project]").click()
    await page.wait_for_selector("dialog[open]")
    assert "/sessions/" in page.url

    await page.go_back()
    await expect(page.locator("dialog[open]")).to_have_count(0)
    await expect(page).to_have_url(ending("/list?sort=title"))
    assert await titles(page) == before


async def test_a_title_is_a_link_to_the_sessions_page(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.full(wall_ms()))
    link = page.locator(f"{ROW} a.open").first
    assert await link.get_attribute("href") == "/sessions/beta:payments-1"

    await link.focus()
    await page.keyboard.press("Enter")
    await page.wait_for_selector("dialog[open]")


async def test_what_a_row_says_can_be_selected_without_opening_it(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.full(wall_ms()))
    box = await page.locator(f"{ROW} .open bdi").first.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + 2, middle)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] - 2, middle, steps=5)
    await page.mouse.up()

    assert "flaky refund" in await page.evaluate("getSelection().toString()")
    await expect(page).to_have_url(ending("/list"))


async def test_thousands_of_rows_are_drawn_only_where_they_are_seen(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.crowd(wall_ms(), 5000))
    table = page.locator(".list-table")
    assert await table.get_attribute("aria-rowcount") == "5001"
    assert await page.locator(ROW).count() < 80
    assert await page.locator(ROW).first.get_attribute("aria-rowindex") == "2"
    tall = await table.evaluate("(e) => e.offsetHeight")
    assert 4990 * 40 < tall < 5010 * 40 + 100

    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await page.wait_for_selector(f"{ROW}[aria-rowindex='5001']")
    assert await page.locator(ROW).count() < 80
    assert await table.evaluate("(e) => e.offsetHeight") == tall

    await page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")

    async def in_the_middle() -> bool:
        index: int = await page.evaluate(
            "+(document.elementFromPoint(700, 450).closest('tr')?.ariaRowIndex ?? 0)"
        )
        return abs(index - 2500) < 40

    await wait_until(in_the_middle)


async def test_the_focus_survives_scrolling(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.crowd(wall_ms(), 2000))
    await page.locator(f"{ROW} .open").nth(2).focus()
    who = await page.evaluate("document.activeElement.closest('tr').dataset.id")

    for share in (0.5, 1, 0.2):
        await page.evaluate("(share) => scrollTo(0, document.body.scrollHeight * share)", share)
        # Of where it stands only its neighbours are left.
        await expect(page.locator(f"{ROW}[aria-rowindex='7']")).to_have_count(0)
        assert await page.evaluate("document.activeElement.closest('tr')?.dataset.id") == who

    await page.keyboard.press("Tab")
    await page.keyboard.press("Shift+Tab")
    assert await page.evaluate("document.activeElement.closest('tr')?.dataset.id") == who


async def test_the_focus_goes_from_row_to_row_without_scrolling(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.crowd(wall_ms(), 300))
    await page.locator(f"{ROW} .open").first.focus()
    for _ in range(6):
        await page.keyboard.press("Tab")
        # Drawn: what a change of the focus brings about has come about.
        await page.evaluate(
            "new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))"
        )
    assert await page.evaluate("document.activeElement.closest('tr').ariaRowIndex") == "8"
    assert await page.evaluate("scrollY") == 0


async def test_a_change_draws_its_own_row_only(open_page: OpenPage, hub: StandIn) -> None:
    sessions, hosts = fleets.full(wall_ms())
    page = await opened(open_page, (sessions, hosts))
    await page.evaluate(
        """async () => {
          const { options } = await import("/static/vendor/preact.js");
          const diffed = options.diffed;
          window.drawn = [];
          options.diffed = (vnode) => {
            if (typeof vnode.type === "function")
              window.drawn.push(`${vnode.type.name} ${vnode.props.entry?.id ?? ""}`.trim());
            diffed?.(vnode);
          };
        }"""
    )
    working = next(s for s in sessions if s.state.state == "thinking")
    state = replace(working.state, label="Generating more…")
    await hub.change(replace(working, state=state))
    await expect(page.get_by_text("Generating more…")).to_have_count(1)

    drawn = await page.evaluate("window.drawn")
    assert [name for name in drawn if name.startswith("Row ")] == [f"Row {working.id}"]
    assert not {"Table", "View", "Page", "Content"} & set(drawn)


def at_cost(view: SessionView, cost: float) -> SessionView:
    return replace(view, usage=UsageView(1000, cost_usd=cost))


async def test_rows_whose_figures_change_move_to_their_places(
    open_page: OpenPage, hub: StandIn
) -> None:
    sessions, hosts = dear(wall_ms(), 1.0, 2.0, 3.0)
    page = await opened(open_page, (sessions, hosts), "/list?sort=-cost")
    assert await titles(page) == ["At 3.0", "At 2.0", "At 1.0"]

    await hub.change(at_cost(sessions[0], 9.0))
    names = page.locator(f"{ROW} .open bdi")
    await expect(names).to_have_text(["At 1.0", "At 3.0", "At 2.0"])


async def test_rows_stand_still_under_the_pointer(open_page: OpenPage, hub: StandIn) -> None:
    sessions, hosts = dear(wall_ms(), 1.0, 2.0, 3.0)
    page = await opened(open_page, (sessions, hosts), "/list?sort=-cost")
    box = await page.locator(ROW).first.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + 300, box["y"] + 10)
    await hub.change(at_cost(sessions[0], 9.0))
    await expect(page.locator(ROW).nth(2)).to_contain_text("$9.00")

    # For as long as it moves: well beyond the time between two orders.
    for step in range(12):
        await page.mouse.move(box["x"] + 300 + step, box["y"] + 10)
        assert await titles(page) == ["At 3.0", "At 2.0", "At 1.0"]
        await page.evaluate("new Promise((done) => setTimeout(done, 100))")
    await expect(page.locator(f"{ROW} .open bdi").first).to_have_text("At 1.0")


async def test_a_row_with_the_focus_keeps_it_and_its_height_as_others_come(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await opened(open_page, fleets.crowd(wall_ms(), 600))
    await page.evaluate("scrollTo(0, 4000)")
    await page.wait_for_selector(f"{ROW}[aria-rowindex='105']")
    await page.locator(f"{ROW}[aria-rowindex='105'] .open").focus()
    place = "document.activeElement.getBoundingClientRect().top"
    before = await page.evaluate(place)

    urgent = [
        fleets.session(f"new-{n}", "needs_permission", "Now", now=wall_ms(), age=10**7)
        for n in range(3)
    ]
    await hub.change(*urgent)
    await page.wait_for_selector(f"{ROW}[aria-rowindex='108'] .open:focus")
    assert abs(await page.evaluate(place) - before) < 2


async def test_sessions_of_offline_hosts_stand_apart_and_are_not_counted(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await opened(open_page, fleets.broken(wall_ms()))
    assert "23 sessions, and 2 on offline hosts, not counted" in await page.inner_text(
        ".list-count"
    )
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await page.wait_for_selector(".list-divider")
    last = page.locator(".list-divider ~ .list-row")
    assert await last.locator(".open bdi").all_inner_texts() == [
        "Split the monolith",
        "Build for arm64",
    ]
    assert "last seen 4m ago" in " ".join((await last.first.text_content() or "").split())
    grey, ink = [
        await page.evaluate(f"getComputedStyle(document.querySelector('{row} .open')).color")
        for row in (".list-row[data-absent=true]", ".list-row[data-absent=false]")
    ]
    assert grey != ink

    await page.click("th[data-col=title] button")
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await expect(last.locator(".open bdi")).to_have_text(["Build for arm64", "Split the monolith"])

    back = replace(hub.sessions["gamma:gone-1"], reachability="live")
    await hub.change(back, hosts=(fleets.host("gamma", wall_ms()),))
    await expect(last.locator(".open bdi")).to_have_text(["Build for arm64"])


async def test_a_filter_that_leaves_nothing_says_so_and_can_be_cleared(
    open_page: OpenPage,
) -> None:
    page = await open_page(
        fleets.full(wall_ms()), path="/list?q=nobody+here&sort=title", ready=".no-match"
    )
    await page.click("text=Clear filters")
    await expect(page.locator(ROW).first).to_be_visible()
    await expect(page).to_have_url(ending("/list?sort=title"))


async def test_a_phone_sorts_by_a_choice_and_shows_the_figure(open_page: OpenPage) -> None:
    page = await opened(open_page, spending.fleet(wall_ms()), viewport=PHONE)
    assert await page.locator("thead").is_hidden()
    await page.locator(".list-sort select").select_option("cost")
    await page.wait_for_url("**/list?sort=-cost")
    await expect(page.locator(ROW).first.locator("[data-col=cost]")).to_be_visible()
    await page.click(".list-way")
    await page.wait_for_url("**/list?sort=cost")


async def test_markup_in_any_field_of_a_row_stays_text(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.hostile(wall_ms()))
    found = await titles(page)
    for text in fleets.HOSTILE[:4]:
        assert text in found
    assert "\u202e" not in await page.inner_text("body")
    inside = "#app :is(img:not([src='/static/icon.svg']), script, iframe, style)"
    assert await page.locator(inside).count() == 0

    await page.locator(f"{ROW} .open").first.click()
    await page.wait_for_selector("dialog[open]")


async def test_the_list_is_shown_accessibly(open_page: OpenPage) -> None:
    sessions, hosts = fleets.broken(wall_ms())
    spent, _ = spending.fleet(wall_ms())
    page = await opened(open_page, ([*spent, *sessions[len(spent) :]], hosts), "/list?sort=-cost")
    assert await look_faults(page) == []


async def test_no_width_of_the_list_scrolls_sideways(open_page: OpenPage) -> None:
    now = wall_ms()
    word = "W" * 300
    long = fleets.session(
        "long", "idle", word, now=now, title=word, project=word, branch=word, model=word,
        usage=spending.HUGE, context=spending.CONTEXTS[1],
    )  # fmt: skip
    page = await opened(open_page, ([long], [fleets.host("alpha", now)]))
    for width in (360, 641, 780, 1000, 1180, 2560):
        assert await too_wide(page, width) == []
        high = await page.locator(ROW).evaluate("(e) => e.offsetHeight")
        assert high == (64 if width <= 640 else 40)
