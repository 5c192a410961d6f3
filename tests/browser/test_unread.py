"""Marks of what is unread: where they stand, what clears them, what they outlive, what else tells of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from adsum_shared.state import SessionView
from tests.browser import fleets
from tests.browser.conftest import PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import look_faults
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MARK = ".card .new-mark"
ELSEWHERE = "document.hasFocus = () => %s"
BADGES = "window.badges = []; navigator.setAppBadge = async (n) => badges.push(n ?? 'dot'); navigator.clearAppBadge = async () => badges.push(0)"


def asking(now: int, name: str = "a", **more: Any) -> SessionView:
    label = "Asked you a question"
    fields = {"title": name.upper(), "unread": True, **more}
    return fleets.session(name, "awaiting_input", label, now=now, **fields)


async def standing_still(
    open_page: OpenPage, hub: StandIn, *views: SessionView, **more: Any
) -> Page:
    """A browser of its own, which has looked at nothing yet and whose time stands still."""
    hub.load(views, [])
    page = await open_page(clock=True, unseen=True, **more)
    # Not sooner: on a busy machine the browser may take that long to be told.
    await page.clock.pause_at(await page.evaluate("Date.now() / 1000 + 1"))
    await page.evaluate(ELSEWHERE % "true")
    return page


async def stored(page: Page) -> dict[str, int]:
    marks: dict[str, int] = json.loads(
        await page.evaluate("localStorage.getItem('adsum.seen')") or "{}"
    )
    return marks


async def test_what_calls_since_the_reader_looked_is_marked(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    done = fleets.session("b", "task_complete", "Finished", now=now, title="B", unread=True)
    woken = fleets.session("c", "thinking", "…", now=now, title="C", unread=True)
    read = asking(now, "d", unread=False)
    page = await standing_still(open_page, hub, asking(now), done, woken, read)
    marked = page.locator(".card", has=page.locator(".new-mark")).locator(".title bdi")
    assert sorted(await marked.all_inner_texts()) == ["A", "B"]
    await expect(page.locator("[data-id='alpha:a'] .title")).to_have_text("New: A")
    bold = "getComputedStyle(document.querySelector('[data-id=\"alpha:{}\"] .open')).fontWeight"
    assert await page.evaluate(bold.format("a")) == "700"
    assert await page.evaluate(bold.format("d")) != "700"


async def test_a_moment_before_the_readers_eyes_clears_it(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await standing_still(open_page, hub, asking(wall_ms()))
    await page.evaluate(ELSEWHERE % "false")
    await page.clock.run_for(300)
    await page.evaluate(ELSEWHERE % "true")
    await page.clock.run_for(1200)
    await expect(page.locator(MARK)).to_have_count(1)
    await page.clock.run_for(600)

    async def cleared() -> bool:
        await page.clock.run_for(20)
        return await page.locator(MARK).count() == 0

    await wait_until(cleared)


@pytest.mark.parametrize("where", ["elsewhere", "in the sheet of another"])
async def test_nobody_looks_nothing_is_cleared(
    open_page: OpenPage, hub: StandIn, where: str
) -> None:
    now = wall_ms()
    page = await standing_still(open_page, hub, asking(now), asking(now, "b", unread=False))
    if where == "elsewhere":
        await page.evaluate(ELSEWHERE % "false")
    else:
        await page.locator("[data-id='alpha:b'] .open").click()

        async def open_now() -> bool:
            await page.clock.run_for(20)
            return await page.locator(".sheet[open]").count() == 1

        await wait_until(open_now)
    await page.clock.run_for(5000)
    await expect(page.locator(MARK)).to_have_count(1)

    if where == "elsewhere":
        await page.evaluate(ELSEWHERE % "true")
        await page.clock.run_for(1000)
        await expect(page.locator(MARK)).to_have_count(1)


async def test_what_is_out_of_sight_stays_unread(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    views = [asking(now, f"s{n}", age=n * 1000) for n in range(60)]
    page = await standing_still(open_page, hub, *views)

    async def some_cleared() -> bool:
        await page.clock.run_for(500)
        return 0 < len(await stored(page)) < 30

    await wait_until(some_cleared)
    await page.clock.run_for(5000)
    assert len(await stored(page)) < 30


async def test_opening_clears_it_and_it_can_be_marked_again(
    open_page: OpenPage, hub: StandIn
) -> None:
    hub.load([asking(wall_ms())], [])
    page = await open_page(path="/list", ready="main", clock=True)
    await page.goto(hub.url + "/sessions/alpha:a")
    unread = page.get_by_role("button", name="Unread")
    await expect(unread).to_have_attribute("aria-pressed", "false")
    await unread.focus()
    await page.keyboard.press("Enter")
    await expect(unread).to_have_attribute("aria-pressed", "true")
    await hub.change(replace(hub.sessions["alpha:a"], title="B"))
    await expect(page.locator("#view-title")).to_have_text("B")
    await expect(unread).to_have_attribute("aria-pressed", "true")

    # On purpose: the eye alone does not clear it, opening it does.
    await page.goto(hub.url)
    await expect(page.locator(MARK)).to_have_count(1)
    await page.clock.run_for(5000)
    await expect(page.locator(MARK)).to_have_count(1)
    await page.locator(".card .open").click()
    await expect(unread).to_have_attribute("aria-pressed", "false")
    await page.keyboard.press("Escape")
    await expect(page.locator(".sheet, .new-mark")).to_have_count(0)


async def test_a_later_call_is_unread_again(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    hub.load([asking(now)], [])
    page = await open_page(clock=True)
    await page.evaluate(
        "import('/static/core/attention.js').then((seen) => seen.markSeen('alpha:a'))"
    )
    await expect(page.locator(MARK)).to_have_count(0)
    await page.evaluate(ELSEWHERE % "false")
    await hub.change(asking(now, age=-60_000))
    await expect(page.locator(MARK)).to_have_count(1)

    await hub.change(asking(now, age=-60_000, unread=False))
    await expect(page.locator(MARK)).to_have_count(0)


async def test_other_tabs_and_a_reload_know_what_was_read(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    hub.load([asking(now), asking(now, "b")], [])
    page = await open_page(clock=True)
    await page.evaluate(ELSEWHERE % "false")
    other = await page.context.new_page()
    await other.add_init_script(ELSEWHERE % "false")
    await other.goto(hub.url)
    await expect(other.locator(MARK)).to_have_count(2)
    await page.locator(".card .open").first.click()
    await expect(other.locator(MARK)).to_have_count(1)

    await other.reload()
    await expect(other.locator(".card")).to_have_count(2)
    await expect(other.locator(MARK)).to_have_count(1)


async def test_all_is_marked_as_read_at_once(open_page: OpenPage, hub: StandIn) -> None:
    hub.load([asking(wall_ms(), f"s{n}", age=n) for n in range(60)], [])
    page = await open_page(clock=True)
    await page.evaluate(ELSEWHERE % "false")
    await expect(page.locator(MARK)).to_have_count(60)
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("mark all as")
    await expect(page.get_by_role("option", name="Mark all as read")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.locator(MARK)).to_have_count(0)
    assert len(await stored(page)) == 60


async def test_a_broken_memory_counts_as_none(open_page: OpenPage, hub: StandIn) -> None:
    hub.load([asking(wall_ms())], [])
    page = await open_page(clock=True)
    await page.add_init_script(ELSEWHERE % "false")
    for kept in ("{", "[1, 2]", "null", '"x"', '{"alpha:a": "9999999999999"}'):
        await page.goto(hub.url + "/static/icon.svg")
        await page.evaluate(f"localStorage.setItem('adsum.seen', {json.dumps(kept)})")
        await page.goto(hub.url)
        await expect(page.locator(MARK)).to_have_count(1)
        await page.locator(".card .open").click()
        await wait_until(lambda: _has(page, "alpha:a"))


async def _has(page: Page, name: str) -> bool:
    return f'"{name}":1' in (await page.evaluate("localStorage.getItem('adsum.seen')") or "")


async def test_marks_of_those_who_left_long_ago_are_forgotten(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    hub.load([asking(now)], [])
    page = await open_page(clock=True)
    gone = {f"alpha:old-{n}": now - 3 * 86_400_000 for n in range(4000)} | {"alpha:just": now}
    await page.evaluate(f"localStorage.setItem('adsum.seen', JSON.stringify({json.dumps(gone)}))")
    await page.reload()
    await page.locator(".card .open").click()
    await wait_until(lambda: _has(page, "alpha:a"))
    assert set(await stored(page)) == {"alpha:a", "alpha:just"}


async def test_tabs_favicon_and_badge_tell_of_it(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    done = fleets.session("b", "task_complete", "Finished", now=now, title="B", unread=True)
    hub.load([done], [])
    page = await open_page(clock=True, viewport=PHONE, ready=".tab")
    await page.add_init_script(BADGES)
    await page.reload()
    tab = page.locator(".tab[data-group=delivered]")
    await expect(tab).to_contain_text("1 new")
    icon = page.locator("link[rel=icon]")
    assert "2563eb" in (await icon.get_attribute("href") or "")
    await wait_until(lambda: _badge(page, "dot"))

    await hub.change(asking(now))
    await wait_until(lambda: _badge(page, 1))
    await tab.click()
    await expect(page.locator("[data-id='alpha:b']")).to_be_visible()
    await expect(tab.locator(".new-mark")).to_have_count(0)
    await hub.change(replace(asking(now), unread=False))
    await expect(page).to_have_title("(1) Adsum")

    async def plain() -> bool:
        return "2563eb" not in (await icon.get_attribute("href") or "")

    await wait_until(plain)
    await hub.change(gone=("alpha:a",))
    await wait_until(lambda: _badge(page, 0))


async def _badge(page: Page, last: int | str) -> bool:
    return bool(await page.evaluate("badges.at(-1)") == last)


async def test_marks_are_shown_accessibly(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    views = [asking(now), *(asking(now, f"h{n}", title=t) for n, t in enumerate(fleets.HOSTILE))]
    hub.load([*views, asking(now, "long", title="T" * 300)], [])
    page = await open_page(clock=True)
    await page.evaluate(ELSEWHERE % "false")
    await expect(page.locator(MARK)).to_have_count(8)
    assert await look_faults(page) == []
