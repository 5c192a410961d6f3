"""Everything by keyboard: moving, opening, going elsewhere; never while somebody types."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser import fleets
from tests.browser.addresses import ending
from tests.browser.conftest import ASKED, PHONE, OpenPage, wall_ms
from tests.browser.test_looks import SIZES, look_faults
from tests.support import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
]

FOCUSED = "document.activeElement.closest('[data-id]')?.dataset.id ?? null"


async def focused(page: Page, wanted: str | None) -> None:
    """Keys are answered once their module has come, so it is waited for."""

    async def is_there() -> bool:
        return bool(await page.evaluate(FOCUSED) == wanted)

    await wait_until(is_there)


async def ids(page: Page) -> list[str]:
    found: list[str] = await page.locator("#main [data-id]").evaluate_all(
        "(all) => all.map((e) => e.dataset.id)"
    )
    return found


@pytest.mark.parametrize("path", ["/", "/list", "/by/host", "/by/project"])
async def test_j_and_k_walk_through_the_view_as_one_sees_it(open_page: OpenPage, path: str) -> None:
    page = await open_page(fleets.full(wall_ms()), path=path, ready="#main [data-id]")
    order = await ids(page)
    assert len(order) >= 3
    for one in order[:3]:
        await page.keyboard.press("j")
        await focused(page, one)
    await page.keyboard.press("k")
    await focused(page, order[1])
    for _ in range(3):
        await page.keyboard.press("k")
    await focused(page, order[0])


@pytest.mark.parametrize("size", SIZES)
async def test_what_j_reaches_can_be_seen(open_page: OpenPage, size: str) -> None:
    page = await open_page(
        fleets.full(wall_ms()), viewport=SIZES[size], ready=".head .pick, .facets .by"
    )
    shown = [one for one in await page.locator("#main [data-id]").all() if await one.is_visible()]
    await page.keyboard.press("j")
    await focused(page, await shown[0].get_attribute("data-id"))
    hidden = await page.evaluate(
        """async (count) => {
          const { runKey } = await import("/static/keyboard/actions.js");
          const found = [];
          for (let n = 1; n < 2 * count; n++) {
            runKey(n < count ? "j" : "k");
            await new Promise(requestAnimationFrame);
            const item = document.activeElement.closest("[data-id]");
            const { x, width, top, bottom } = item.getBoundingClientRect();
            // One that is higher than the window shows its beginning at least.
            const ends = bottom - top < innerHeight / 2 ? [top + 3, bottom - 3] : [top + 3];
            if (ends.some((y) => !item.contains(document.elementFromPoint(x + width / 2, y)))) found.push(`${n} ${item.dataset.id}`);
          }
          return found;
        }""",
        len(shown),
    )
    assert hidden == []
    await focused(page, await shown[0].get_attribute("data-id"))


async def test_enter_opens_and_x_gives_the_focus_back(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.keyboard.press("j")
    await focused(page, "beta:payments-1")
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog.sheet[open]")).to_have_count(1)
    await page.keyboard.press("x")
    await expect(page.locator("dialog.sheet[open]")).to_have_count(0)
    await focused(page, "beta:payments-1")


async def test_j_and_k_go_on_in_an_open_session_and_the_focus_follows(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    order = await ids(page)
    await page.keyboard.press("j")
    await focused(page, order[0])
    await page.keyboard.press("Enter")
    title = page.locator("#sheet-title")
    await expect(title).to_have_text("Fix the flaky refund test")
    await page.keyboard.press("j")
    await expect(title).to_have_text("Upgrade to the new router")
    await page.keyboard.press("j")
    await expect(title).to_have_text("Soft-delete for invoices")
    await page.keyboard.press("k")
    await expect(title).to_have_text("Upgrade to the new router")
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog.sheet[open]")).to_have_count(0)
    await focused(page, order[1])


async def test_o_opens_as_a_page_and_x_leaves_it(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.keyboard.press("j")
    await focused(page, "beta:payments-1")
    await page.keyboard.press("o")
    await expect(page.locator("#main .session")).to_have_count(1)
    await expect(page).to_have_url(ending("/sessions/beta:payments-1"))
    await expect(page.locator("dialog[open]")).to_have_count(0)

    await page.keyboard.press("x")
    await expect(page.locator("#main .session")).to_have_count(0)
    await expect(page).to_have_url(ending("/"))


async def test_g_and_a_second_key_go_elsewhere_with_the_filters(
    open_page: OpenPage, expected_faults: list[str]
) -> None:
    # Of what the settings ask, the stand-in knows not all.
    expected_faults.append("Failed to load resource")
    page = await open_page(fleets.full(wall_ms()), path="/?host=beta")
    for key, path in (("l", "/list"), ("h", "/hosts"), ("s", "/settings")):
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page.locator(f"#main[data-view={path[1:]}]")).to_have_count(1)
        assert path in page.url
    await page.keyboard.press("g")
    await page.keyboard.press("b")
    await page.wait_for_selector(".card")
    await expect(page).to_have_url(ending("/?host=beta"))
    # A second key that leads nowhere does nothing at all.
    await page.keyboard.press("g")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await focused(page, "beta:payments-1")


async def test_1_2_3_go_to_the_sections(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    for key, group in (("2", "autonomous"), ("3", "delivered"), ("1", "needs_you")):
        await page.keyboard.press(key)
        first = page.locator(f".section[data-group={group}] .card").first
        await focused(page, await first.get_attribute("data-id"))


async def test_1_2_3_choose_the_tab_of_a_phone(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=PHONE)
    await page.keyboard.press("3")
    await expect(page.locator(".section[data-group=delivered]")).to_be_visible()
    await expect(page.locator(".section[data-group=needs_you]")).to_be_hidden()


async def test_in_a_list_1_keeps_one_group_and_then_all(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), path="/list", ready="#main [data-id]")
    await page.keyboard.press("1")
    await expect(page.locator(".narrowed-chip")).to_contain_text("Needs you")
    await page.keyboard.press("1")
    await expect(page.locator(".narrowed-chip")).to_have_count(0)


async def test_slash_goes_to_the_filter_and_escape_leaves_it(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.keyboard.press("/")
    await expect(page.locator("#filter")).to_be_focused()
    # These are letters now.
    await page.keyboard.type("jk?g1x/")
    assert await page.input_value("#filter") == "jk?g1x/"
    await expect(page.locator("dialog[open]")).to_have_count(0)
    await page.keyboard.press("Escape")
    assert await page.input_value("#filter") == ""
    await page.keyboard.press("j")
    await focused(page, "beta:payments-1")


@pytest.mark.parametrize("held", ["Control", "Alt", "Meta"])
async def test_with_another_key_held_down_nothing_is_ours(open_page: OpenPage, held: str) -> None:
    page = await open_page(fleets.full(wall_ms()))
    prevented = await page.evaluate(
        """(held) => ["j", "x", "1", "u"].map((key) => {
          const press = new KeyboardEvent("keydown", { key, [held]: true, bubbles: true, cancelable: true });
          return !document.body.dispatchEvent(press);
        })""",
        {"Control": "ctrlKey", "Alt": "altKey", "Meta": "metaKey"}[held],
    )
    assert prevented == [False] * 4
    await focused(page, None)


async def test_keys_rest_while_a_popover_or_a_sheet_is_open(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), ready=".facets .picks", narrowing=True)
    await page.locator(".picks .pick").first.click()
    await page.wait_for_selector(".popover:popover-open .value")
    await page.keyboard.press("j")
    await page.keyboard.press("?")
    await expect(page.locator("dialog[open]")).to_have_count(0)
    await page.keyboard.press("Escape")

    await page.keyboard.press("?")
    await expect(page.locator("dialog[open]")).to_have_count(1)
    for key in "jxgl2":
        await page.keyboard.press(key)
    await page.evaluate(ASKED)
    await expect(page.locator("dialog[open]")).to_have_count(1)
    await expect(page).to_have_url(ending("/"))


async def test_the_list_of_keys_is_accessible_and_gives_the_focus_back(
    open_page: OpenPage,
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.keyboard.press("j")
    await focused(page, "beta:payments-1")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert await look_faults(page) == []
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog[open]")).to_have_count(0)
    await focused(page, "beta:payments-1")


async def test_u_marks_as_read_and_as_unread(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    seen = """import("/static/core/attention.js").then(({ isSeen }) =>
      import("/static/core/roster.js").then(({ entryOf }) => isSeen(entryOf("beta:payments-1").view.peek())))"""
    await page.keyboard.press("j")
    await focused(page, "beta:payments-1")
    before = await page.evaluate(seen)
    await page.keyboard.press("u")

    async def other() -> bool:
        return bool(await page.evaluate(seen) != before)

    await wait_until(other)


async def test_a_list_of_thousands_is_walked_row_by_row(open_page: OpenPage) -> None:
    page = await open_page(fleets.crowd(wall_ms(), 3000), path="/list", ready="#main [data-id]")
    await page.keyboard.press("j")
    first = (await ids(page))[0]
    await focused(page, first)
    # By script, each step once the rows have been drawn: more than are drawn at first.
    walked = await page.evaluate(
        """async () => {
          const { runKey } = await import("/static/keyboard/actions.js");
          const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          const at = () => document.activeElement.closest("[data-id]")?.dataset.id;
          const walk = async (key) => {
            const met = [];
            for (let n = 0; n < 80; n++) {
              runKey(key);
              await frame();
              await frame();
              met.push(at());
            }
            return met;
          };
          return [await walk("j"), await walk("k")];
        }"""
    )
    there, back = walked
    assert len({first, *there}) == 81
    assert back == [*reversed(there[:-1]), first]
