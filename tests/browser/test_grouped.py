"""The live list by host, project and agent: sections, their order, their counts, their folds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from adsum_shared.state import HostAgent, SessionView
from tests.browser import fleets
from tests.browser.addresses import ending
from tests.browser.conftest import OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import look_faults, too_wide

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ROW = ".group-row"


async def opened(
    open_page: OpenPage, fleet: fleets.Fleet, path: str = "/by/host", **more: Any
) -> Page:
    return await open_page(fleet, **{"ready": ".group", "path": path, **more})


async def names(page: Page) -> list[str]:
    return [name.strip() for name in await page.locator(".group h3").all_inner_texts()]


def section(page: Page, name: str) -> Any:
    return page.locator(".group").filter(has=page.locator("h3", has_text=name))


async def titles(page: Page, name: str) -> list[str]:
    found: list[str] = await section(page, name).locator(f"{ROW} .open bdi").all_inner_texts()
    return found


def people(now: int, *who: tuple[str, str, str | None], **more: Any) -> list[SessionView]:
    """Sessions of (host, state, project), named after their number."""
    return [
        fleets.session(
            f"s{n}", state, "…", now=now, age=(n + 1) * 1000, host=host, project=project,
            title=f"Number {n}", **more,
        )
        for n, (host, state, project) in enumerate(who)
    ]  # fmt: skip


async def test_sections_stand_by_their_most_urgent_need_then_by_name(open_page: OpenPage) -> None:
    now = wall_ms()
    sessions = people(
        now,
        ("box-10", "thinking", "a"),
        ("box-9", "acting", "a"),
        ("yak", "idle", "a"),
        ("zebu", "needs_permission", "a"),
        ("ant", "idle", "a"),
    )
    page = await opened(open_page, (sessions, []))
    assert await names(page) == ["zebu", "ant", "yak", "box-9", "box-10"]


async def test_a_section_counts_and_shows_those_who_need_someone_first(
    open_page: OpenPage,
) -> None:
    page = await opened(open_page, fleets.full(wall_ms()))
    counts = section(page, "alpha").locator(".group-counts li")

    assert [" ".join(text.split()) for text in await counts.all_inner_texts()] == [
        "6 Needs you",
        "5 Working",
        "3 Delivered",
    ]
    assert (await titles(page, "alpha"))[:2] == [
        "Upgrade to the new router",
        "Soft-delete for invoices",
    ]
    row = section(page, "alpha").locator(ROW).first
    words = " ".join((await row.inner_text()).split())
    for said in ("Needs permission: Bash", "npm install --save-exact", "web", "chore/router"):
        assert said in words
    assert "22 sessions, 2 hosts" in await page.inner_text(".grouped-count")


async def test_those_without_a_project_are_a_section_of_their_own(open_page: OpenPage) -> None:
    sessions = people(
        wall_ms(), ("a", "thinking", None), ("b", "thinking", "web"), ("c", "acting", "web")
    )
    page = await opened(open_page, (sessions, []), "/by/project")
    assert await names(page) == ["web", "No project"]
    assert "1 project" in await page.inner_text(".grouped-count")
    assert await titles(page, "web") == ["Number 1", "Number 2"]
    assert await titles(page, "No project") == ["Number 0"]


async def test_agents_have_a_section_each_and_another_than_the_usual_one_is_named(
    open_page: OpenPage,
) -> None:
    one, other = people(wall_ms(), ("a", "thinking", "web"), ("a", "thinking", "web"))
    known = (fleets.CLAUDE, HostAgent("codex", "Codex"))
    host = replace(fleets.host(one.host_id, wall_ms()), agents=known)
    fleet = ([one, replace(other, agent="codex")], [host])

    page = await opened(open_page, fleet, "/by/agent")
    assert await names(page) == ["Claude Code", "Codex"]
    assert await titles(page, "Claude Code") == ["Number 0"]
    assert await titles(page, "Codex") == ["Codex: Number 1"]
    await page.get_by_role("link", name="State", exact=True).click()
    card = page.locator(".card", has_text="Number 1")
    await expect(card.locator(".meta")).to_contain_text("Codex")
    await expect(page.locator(".card", has_text="Number 0").locator(".meta")).not_to_contain_text(
        "Claude"
    )


async def test_an_offline_host_stands_last_and_says_since_when(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await opened(open_page, fleets.broken(wall_ms()))
    assert (await names(page))[-1] == "gamma"
    gamma = section(page, "gamma")
    head = " ".join((await gamma.locator(".group-head").inner_text()).split())
    assert "offline, last seen 4m ago" in head
    assert "2 sessions, not counted" in head
    assert await gamma.locator(".group-counts").count() == 0
    assert "23 sessions" in await page.inner_text(".grouped-count")

    back = [replace(hub.sessions[f"gamma:gone-{n}"], reachability="live") for n in (1, 2)]
    await hub.change(*back, hosts=(fleets.host("gamma", wall_ms()),))
    await expect(gamma.locator(".group-counts [data-group=needs_you]")).to_contain_text("1")
    assert (await names(page))[-1] == "delta"


async def test_a_projects_sessions_on_offline_hosts_are_told_apart(open_page: OpenPage) -> None:
    now = wall_ms()
    sessions = [
        *people(now, ("a", "thinking", "web")),
        fleets.session(
            "gone", "needs_permission", "…", now=now, host="g", project="web", title="Gone",
            reachability="offline",
        ),
    ]  # fmt: skip
    fleet = (sessions, [fleets.host("a", now), fleets.host("g", now, "offline")])
    page = await opened(open_page, fleet, "/by/project")
    assert await titles(page, "web") == ["Number 0", "Gone"]
    assert await section(page, "web").locator("[data-group=needs_you]").count() == 0
    assert "1 on hosts that are offline" in " ".join(
        (await section(page, "web").locator(".group-counts").inner_text()).split()
    )


async def test_a_change_moves_a_session_and_its_section(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    sessions = people(now, ("a", "thinking", None), ("b", "thinking", None))
    page = await opened(open_page, (sessions, []))
    assert await names(page) == ["a", "b"]

    asking = fleets.session("s1", "needs_permission", "Needs permission", now=now, host="b")
    await hub.change(asking)
    await expect(page.locator(".group h3").first).to_contain_text("b")
    assert await section(page, "b").locator("[data-group=needs_you]").count() == 1


async def test_a_fold_is_remembered(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.full(wall_ms()))
    button = section(page, "alpha").locator(".group-fold")
    await button.focus()
    await page.keyboard.press("Enter")
    await expect(button).to_have_attribute("aria-expanded", "false")
    assert await titles(page, "alpha") == []

    await page.reload()
    await page.wait_for_selector(ROW)
    assert await titles(page, "alpha") == []
    assert len(await titles(page, "beta")) == 8

    await page.click("text=Fold all")
    await expect(page.locator(ROW)).to_have_count(0)
    await page.click("text=Unfold all")
    await expect(page.locator(ROW)).to_have_count(22)


async def test_folds_that_somebody_else_wrote_fold_nothing(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), path="/by/host", ready=ROW)
    for kept in ("[]", "7", '{"host:alpha": "yes"}', "{", "null"):
        await page.evaluate("(kept) => localStorage.setItem('adsum.folds', kept)", kept)
        await page.reload()
        await page.wait_for_selector(ROW)
        await expect(page.locator(ROW)).to_have_count(22)


async def test_many_sections_start_folded_but_those_that_need_someone(
    open_page: OpenPage,
) -> None:
    now = wall_ms()
    sessions = people(
        now, *((f"host-{n}", "idle" if n % 40 == 0 else "acting", None) for n in range(300))
    )
    page = await opened(open_page, (sessions, []))
    assert len(await names(page)) == 300
    assert await page.locator("[aria-expanded=true].group-fold").count() == 8

    # Whoever searches wants to see what is found.
    await page.locator(".filter input").fill("host-77")
    await expect(page.locator(f"{ROW} .open bdi")).to_have_text(["Number 77"])


async def test_far_sections_keep_their_room_and_are_drawn_when_they_come_near(
    open_page: OpenPage,
) -> None:
    page = await opened(open_page, fleets.crowd(wall_ms(), 5000))
    tall = await page.evaluate("document.body.scrollHeight")
    assert 0 < await page.locator(ROW).count() < 200
    assert tall > 20 * 26 * 40

    # Half of the hosts need nobody, and so are folded, below those that do.
    last = page.locator(".group").nth(19)
    await last.evaluate("(e) => e.scrollIntoView({ block: 'end' })")
    await expect(last.locator(ROW)).to_have_count(25)
    assert await page.locator(ROW).count() < 200
    assert await page.evaluate("document.body.scrollHeight") == tall

    await last.locator(".group-more").click()
    await expect(last.locator(ROW)).to_have_count(125)


async def test_a_row_opens_its_session_over_the_groups(open_page: OpenPage) -> None:
    page = await opened(open_page, fleets.full(wall_ms()), "/by/project?host=beta")
    await page.locator(f"{ROW} .group-age").first.click()
    await page.wait_for_selector("dialog[open]")
    await page.go_back()
    await expect(page.locator("dialog[open]")).to_have_count(0)
    await expect(page).to_have_url(ending("/by/project?host=beta"))

    link = page.locator(f"{ROW} a.open").first
    assert (await link.get_attribute("href") or "").startswith("/sessions/beta:")
    await link.focus()
    await page.keyboard.press("Enter")
    await page.wait_for_selector("dialog[open]")


async def test_a_filter_that_leaves_nothing_says_so(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.full(wall_ms()), path="/by/project?q=nobody+here", ready=".no-match"
    )
    await page.click("text=Clear filters")
    await expect(page.locator(".group").first).to_be_visible()


@pytest.mark.parametrize("path", ["/by/host", "/by/project"])
async def test_markup_in_a_groups_name_stays_text(open_page: OpenPage, path: str) -> None:
    page = await opened(open_page, fleets.hostile(wall_ms()), path)
    found = await names(page)
    for text in fleets.HOSTILE[:4]:
        assert text in found
    assert "\u202e" not in await page.inner_text("body")
    inside = "#app :is(img:not([src='/static/icon.svg']), script, iframe, style)"
    assert await page.locator(inside).count() == 0


async def test_a_project_with_the_name_of_a_built_in_is_a_project(open_page: OpenPage) -> None:
    sessions = people(wall_ms(), ("a", "thinking", "constructor"), ("a", "acting", "__proto__"))
    page = await opened(open_page, (sessions, []), "/by/project")
    assert await names(page) == ["__proto__", "constructor"]
    for name in ("__proto__", "constructor"):
        button = section(page, name).locator(".group-fold")
        await button.click()
        await expect(button).to_have_attribute("aria-expanded", "false")
        await button.click()
        await expect(button).to_have_attribute("aria-expanded", "true")


@pytest.mark.parametrize("path", ["/by/host", "/by/project"])
async def test_groups_are_shown_accessibly(open_page: OpenPage, path: str) -> None:
    page = await opened(open_page, fleets.broken(wall_ms()), path)
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert await look_faults(page) == []


async def test_no_width_of_the_groups_scrolls_sideways(open_page: OpenPage) -> None:
    now = wall_ms()
    word = "W" * 300
    long = [
        fleets.session(
            f"long-{n}", "idle", word, now=now, title=word, project=word, branch=word, host=word,
            reachability=reach,
        )
        for n, reach in enumerate(("live", "offline", "late"))
    ]  # fmt: skip
    fleet = (long, [fleets.host(word, now, "late")])
    for path in ("/by/host", "/by/project"):
        page = await opened(open_page, fleet, path)
        assert await too_wide(page, 360, 641, 1000, 2560) == []
