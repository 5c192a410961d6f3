"""What the cards say, where they stand, and how a change moves them."""

from __future__ import annotations

import re

import msgspec
import pytest
from playwright.async_api import Page, expect

from adsum_shared.state import ChildView, Group, SessionView
from tests.browser import fleets
from tests.browser.addresses import ending
from tests.browser.conftest import PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def section(group: str) -> str:
    return f".section[data-group={group}]"


async def titles(page: Page, group: str, kind: str = ":not(.card-absent)") -> list[str]:
    found = await page.locator(f"{section(group)} .card{kind} .title bdi").all_inner_texts()
    return [title.strip() for title in found]


def restated(view: SessionView, state: str, label: str, now: int) -> SessionView:
    fresh = fleets.session(view.session_id, state, label, now=now, age=0, host=view.host)
    return msgspec.structs.replace(view, state=fresh.state, urgency=fresh.urgency, requests=())


async def test_the_most_urgent_and_longest_waiting_stands_first_and_says_why(
    open_page: OpenPage,
) -> None:
    page = await open_page(fleets.full(wall_ms()))

    assert await titles(page, "needs_you") == [
        "Fix the flaky refund test",
        "Upgrade to the new router",
        "Soft-delete for invoices",
        "Rotate the signing keys",
        "Sessions out of Postgres",
        "Tune the reranker",
        "Backfill the events table",
        "Session tmp-1",
        "Rewrite the quick start",
    ]
    assert await page.locator(".card-first").count() == 1
    first = await page.inner_text(".card-first")
    assert "blocked until you allow or deny, the longest wait of this kind" in first
    assert "psql $STAGING_URL -c 'ALTER TABLE refunds" in first
    assert "beta" in first


async def test_working_sessions_stand_in_the_order_they_came(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    older, newer = (
        fleets.session(name, "thinking", "…", now=now, age=age, title=name)
        for name, age in (("older", 90_000), ("newer", 10_000))
    )
    page = await open_page(([older, newer], []))
    assert await titles(page, "autonomous") == ["newer", "older"]

    await hub.change(restated(older, "acting", "Running Bash: ls", wall_ms()))
    await expect(page.locator("[data-state=acting]")).to_have_count(1)
    assert await titles(page, "autonomous") == ["newer", "older"]


async def test_a_question_shows_its_options_and_a_plan_its_first_lines(
    open_page: OpenPage,
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    question = page.locator(".card", has_text="Soft-delete for invoices")
    plan = page.locator(".card", has_text="Sessions out of Postgres")

    assert await question.locator(".options li").all_inner_texts() == [
        "Keep, read-only",
        "Hide, keep in export",
        "Delete after 30 days",
    ]
    assert "and 1 more question" in await question.inner_text()
    assert "1. Add a SessionStore port" in await plan.inner_text()


async def test_a_delta_moves_a_card_to_another_section(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    asking = fleets.session(
        "one", "needs_permission", "Needs permission: Bash", now=now, title="One"
    )
    page = await open_page(([asking], [fleets.host("alpha", now)]))
    assert await titles(page, "needs_you") == ["One"]

    await hub.change(restated(asking, "acting", "Running Bash: make", wall_ms()))
    await expect(page.locator(f"{section('autonomous')} .card")).to_have_count(1)
    assert await titles(page, "needs_you") == []
    assert "Nobody needs you. 1 agent is at work." in await page.inner_text(section("needs_you"))

    await hub.change(restated(asking, "task_complete", "Finished: all", wall_ms()))
    await expect(page.locator(f"{section('delivered')} .card")).to_have_count(1)

    await hub.change(gone=(asking.id,))
    await expect(page.locator(".notice")).to_contain_text("No sessions yet")


async def test_a_delta_redraws_its_own_card_only(open_page: OpenPage, hub: StandIn) -> None:
    sessions, hosts = fleets.full(wall_ms())
    page = await open_page((sessions, hosts))
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
    state = msgspec.structs.replace(working.state, label="Generating more…")
    await hub.change(msgspec.structs.replace(working, state=state))
    await expect(page.get_by_text("Generating more…")).to_have_count(1)

    drawn = await page.evaluate("window.drawn")
    assert [name for name in drawn if name.startswith("Card")] == [f"Card {working.id}"]
    assert not {"Section", "Content", "Page", "Hosts", "Head"} & set(drawn)


async def test_a_state_never_heard_of_is_shown_by_its_group(open_page: OpenPage) -> None:
    now = wall_ms()
    strange = [
        fleets.session(
            f"s-{group}", "dreaming", "Dreaming", now=now, group=group, title=f"In {group}"
        )
        for group in Group
    ]
    page = await open_page((strange, []))

    for group, icon in zip(Group, ("hand", "activity", "package-check"), strict=True):
        card = page.locator(f"{section(group)} .card")
        assert "Dreaming" in await card.inner_text()
        used = await card.locator(".badge use").get_attribute("href")
        assert used == f"/static/vendor/lucide.svg#{icon}"
        assert await page.inner_text(f"{section(group)} .count") == "1"


async def test_an_offline_hosts_sessions_are_grey_last_seen_and_not_counted(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(fleets.broken(wall_ms()))

    assert await titles(page, "needs_you", ".card-absent") == ["Split the monolith"]
    assert await page.inner_text(f"{section('needs_you')} .count") == "9"
    assert await page.inner_text(f"{section('autonomous')} .count") == "10"
    absent = page.locator(f"{section('needs_you')} .card-absent")
    assert "last seen 4m ago" in await absent.inner_text()
    colour = "getComputedStyle(document.querySelector('{} .title')).color"
    grey, ink = [
        await page.evaluate(colour.format(card)) for card in (".card-absent", ".card-first")
    ]
    assert grey != ink

    back = msgspec.structs.replace(hub.sessions["gamma:gone-1"], reachability="live")
    await hub.change(back, hosts=(fleets.host("gamma", wall_ms()),))
    await expect(page.locator(f"{section('needs_you')} .count")).to_have_text("10")
    assert await titles(page, "needs_you", ".card-absent") == []


async def test_hosts_in_trouble_come_first_and_say_what_is_wrong(open_page: OpenPage) -> None:
    page = await open_page(fleets.broken(wall_ms()))
    hosts = await page.locator(".host").all_inner_texts()

    assert [text.split()[0] for text in hosts] == [
        "gamma", "delta", "epsilon", "eta", "zeta",
    ]  # fmt: skip
    assert await page.inner_text(".hosts-rest") == "2 more, all well"
    assert "offline, last seen 4m ago" in " ".join(hosts[0].split())
    assert "its disk is full" in hosts[2]
    assert "its clock is 42s behind" in hosts[4]


async def test_many_hosts_are_folded_and_all_can_be_seen(open_page: OpenPage) -> None:
    page = await open_page(fleets.crowd(wall_ms(), 40))
    assert await page.locator(".host").count() == 8

    await page.click("text=32 more")
    await page.wait_for_selector(":nth-match(.machine, 40)")

    assert await page.locator(".machine").count() == 40


def child(name: str, status: str = "running", **more: object) -> ChildView:
    return ChildView(id=name, kind="agent", status=status, description=f"job {name}", **more)  # type: ignore[arg-type]


async def test_children_are_a_short_tree_those_that_run_first(open_page: OpenPage) -> None:
    now = wall_ms()
    over = child("d", "failed", started_at=now - 90_000, finished_at=now - 60_000)
    running = [child(str(n), started_at=now - 125_000) for n in range(3)]
    strange = ChildView(id="x", kind="oracle", status="running", type="Dreamer")
    view = fleets.session(
        "p", "delegating", "Running 4", now=now, children=(over, *running, strange, over)
    )
    page = await open_page(([view], []))
    rows = await page.locator(".children li").all_inner_texts()

    assert len(rows) == 5
    assert "subagent" in rows[0]
    assert "job 0" in rows[0]
    assert "running 2m" in rows[0]
    assert "Dreamer" in rows[3]
    assert rows[4] == "and 2 more"


async def test_a_child_that_ended_says_how_and_when(open_page: OpenPage) -> None:
    now = wall_ms()
    over = child("d", "failed", started_at=now - 190_000, finished_at=now - 65_000)
    view = fleets.session("p", "thinking", "…", now=now, children=(over, child("r")))
    page = await open_page(([view], []))
    assert "failed 1m ago" in await page.locator(".children li").nth(1).inner_text()


async def test_a_child_given_up_says_so_and_since_when(open_page: OpenPage) -> None:
    now = wall_ms()
    lost = child("l", "orphaned", started_at=now - 900_000, finished_at=now - 365_000)
    view = fleets.session("p", "thinking", "…", now=now, children=(child("r"), lost))
    page = await open_page(([view], []))
    status = page.locator(".children li").nth(1).locator(".child-status")

    assert " ".join((await status.inner_text()).split()) == "orphaned, no word for 6m"
    await expect(status.locator("use")).to_have_attribute("href", re.compile("#unplug$"))


async def test_a_child_given_up_is_not_called_finished(open_page: OpenPage) -> None:
    now = wall_ms()
    ended = (child("l", "orphaned", finished_at=now), child("d", "completed", finished_at=now))
    view = fleets.session("p", "idle", "…", now=now, children=ended)
    page = await open_page(([view], []))
    assert "2 children, none running" in await page.inner_text(".card .meta")


async def test_children_that_have_all_ended_are_only_counted(open_page: OpenPage) -> None:
    now = wall_ms()
    ended = tuple(child(str(n), "completed", finished_at=now) for n in range(6))
    view = fleets.session("p", "thinking", "…", now=now, children=ended)
    page = await open_page(([view], []))

    assert await page.locator(".children").count() == 0
    assert "6 children, finished" in await page.inner_text(".card .meta")


async def test_time_in_state_counts_on_and_is_exact_on_hover(open_page: OpenPage) -> None:
    now = wall_ms()
    page = await open_page(
        ([fleets.session("t", "thinking", "…", now=now, age=57_000)], []), clock=True
    )
    age = page.locator(".card .age")
    await expect(age).to_have_text("1m", timeout=6000)

    await page.clock.fast_forward(7_000_000)
    await expect(age).to_have_text("1h 57m")
    assert ":" in (await age.get_attribute("title") or "")


async def test_ages_are_those_of_the_hubs_clock(open_page: OpenPage, hub: StandIn) -> None:
    ahead = wall_ms() + 3_600_000
    hub.load([fleets.session("t", "idle", "Ready", now=ahead, age=5 * 60_000)], [])
    hub.now = lambda: wall_ms() + 3_600_000
    try:
        page = await open_page()
        await expect(page.locator(".card .age")).to_have_text("5m")
    finally:
        hub.now = wall_ms


async def test_thousands_of_sessions_are_counted_and_drawn_a_page_at_a_time(
    open_page: OpenPage,
) -> None:
    page = await open_page(fleets.crowd(wall_ms(), 1500))

    assert await page.inner_text(f"{section('autonomous')} .count") == "1,000"
    assert await page.locator(f"{section('autonomous')} .card").count() == 100
    await page.click(f"{section('autonomous')} .more")
    await page.wait_for_selector(f"{section('autonomous')} :nth-match(.card, 300)")

    assert await page.locator(f"{section('autonomous')} .card").count() == 300


async def test_the_filter_keeps_what_matches_every_word_and_stands_in_the_address(
    open_page: OpenPage,
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.keyboard.press("/")
    await page.keyboard.type("beta plan")
    await expect(page.locator(f"{section('needs_you')} .count")).to_have_text("1 of 9")

    assert await titles(page, "needs_you") == ["Sessions out of Postgres"]
    assert await page.locator(".card-first").count() == 0
    await expect(page).to_have_url(ending("/?q=beta+plan"))

    await page.keyboard.press("Escape")
    await expect(page.locator(f"{section('needs_you')} .card")).to_have_count(9)


async def test_an_address_with_a_filter_opens_filtered(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), path="/?q=router", viewport=PHONE)
    assert await titles(page, "needs_you") == ["Upgrade to the new router"]
    # It asks, and nothing can be pressed on it.
    await expect(page.locator(".card .where")).to_contain_text("in its terminal on")
    assert await page.locator(".tab .tab-count").all_inner_texts() == ["1"]


async def test_tabs_carry_counts_and_choose_the_section_on_a_phone(
    open_page: OpenPage,
) -> None:
    page = await open_page(fleets.broken(wall_ms()), viewport=PHONE)
    counts = await page.locator(".tab .tab-count").all_inner_texts()
    assert counts == ["9", "10", "4"]
    assert await page.locator(section("autonomous")).is_hidden()

    await page.click(".tab[data-group=autonomous]")
    await expect(page.locator(section("autonomous"))).to_be_visible()
    await expect(page.locator(section("needs_you"))).to_be_hidden()
    await expect(page).to_have_url(ending("#autonomous"))


async def test_title_and_favicon_carry_the_count_of_those_who_need_you(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    asking = fleets.session("a", "awaiting_input", "Asked you a question", now=now)
    page = await open_page(([asking], []))
    icon = page.locator("link[rel=icon]")
    await expect(page).to_have_title("(1) Adsum")
    assert "%3E1%3C" in (await icon.get_attribute("href") or "")

    await hub.change(restated(asking, "thinking", "…", wall_ms()))
    await expect(page).to_have_title("Adsum")
    assert (await icon.get_attribute("href") or "").endswith("/static/icon.svg")


async def test_markup_in_any_field_stays_text(open_page: OpenPage) -> None:
    """No dialog and no request outside either: the page's record of faults fails the test."""
    page = await open_page(fleets.hostile(wall_ms()))
    texts = await titles(page, "needs_you")

    for text in fleets.HOSTILE[:4]:
        assert text in texts
    inside = "#app :is(img:not([src='/static/icon.svg']), script, iframe, style)"
    assert await page.locator(inside).count() == 0


async def test_marks_that_reverse_the_writing_are_made_visible(open_page: OpenPage) -> None:
    page = await open_page(fleets.hostile(wall_ms()))
    text = await page.inner_text("body")

    assert "\u202e" not in text
    assert "▯gpj.exe▯" in text
