"""A session's own page: its address, its neighbours, what it says beyond the card, and each of its looks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from adsum_shared.state import ActivityEntry, SessionView
from tests.browser import fleets, spending
from tests.browser.conftest import PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import SIZES, look_faults, too_wide
from tests.browser.test_usage import tall_enough, words
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

REFUND = "beta:payments-1"
TITLE = "#view-title"


async def at_page(
    open_page: OpenPage, hub: StandIn, view: SessionView, count: int = 12, **more: Any
) -> Page:
    """The page of this one session, with so much activity."""
    hub.load([view], [fleets.host(view.host, wall_ms())])
    hub.activity[view.id] = fleets.activity(wall_ms(), count)
    ready = ".log" if count else ".session-body"
    return await open_page(path=f"/sessions/{view.id}", ready=ready, **more)


def whole(now: int, **more: Any) -> SessionView:
    """One with all that a page can show."""
    view = next(s for s in fleets.working(now) if s.state.state == "delegating")
    said = {"last_prompt": "Go on", "last_answer": "Done so far.", "cwd": "/home/ada/src/api"}
    view = replace(view, usage=spending.USES[0], context=spending.CONTEXTS[1], **said)
    asked = fleets.permission("rm -r build", now, fleets.MINUTE)
    return replace(view, requests=(asked,), started_at=now - fleets.HOUR, **more)


async def copied(page: Page, text: str) -> None:
    async def there() -> bool:
        return bool(await page.evaluate("navigator.clipboard.readText()") == text)

    await wait_until(there)


async def test_the_address_opens_the_page_and_names_it_in_the_title(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.full(wall_ms()), path=f"/sessions/{REFUND}", ready=".session-body"
    )
    await expect(page).to_have_title("Fix the flaky refund test · (9) Adsum")
    await expect(page.locator(".standing")).to_contain_text("Needs permission: Bash")
    await expect(page.locator(".sheet")).to_have_count(0)

    await page.locator(".session-ways").get_by_role("link", name="Board").click()
    await expect(page.locator(".card").first).to_be_visible()
    await expect(page).to_have_title("(9) Adsum")


async def test_two_columns_on_a_desk_and_one_on_a_phone(open_page: OpenPage, hub: StandIn) -> None:
    sides = "[...document.querySelectorAll('.session-main, .session-side')].map((e) => e.getBoundingClientRect().x)"
    page = await at_page(open_page, hub, whole(wall_ms()))
    left, right = await page.evaluate(sides)
    assert right > left + 600
    await page.set_viewport_size(PHONE)
    left, right = await page.evaluate(sides)
    assert left == right


async def test_the_head_stays_in_sight(open_page: OpenPage, hub: StandIn) -> None:
    for size in SIZES.values():
        page = await at_page(open_page, hub, whole(wall_ms()), 100, viewport=size)
        await page.evaluate("scrollTo(0, 1500)")
        box = await page.locator(TITLE).bounding_box()
        assert box is not None
        assert 0 < box["y"] < 150
        assert await page.evaluate("scrollY") > 1000


async def test_the_keyboard_alone_goes_from_session_to_session(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.full(wall_ms()), path=f"/sessions/{REFUND}", ready=".session-body"
    )
    following = page.get_by_role("button", name="Next session")
    await expect(page.locator(".place")).to_have_text("session 1/ of 22")
    await following.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(TITLE)).to_have_text("Upgrade to the new router")
    await expect(following).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator(TITLE)).to_have_text("Soft-delete for invoices")

    await page.go_back()
    await expect(page.locator(TITLE)).to_have_text("Upgrade to the new router")
    await page.get_by_role("button", name="Previous session").click()
    await expect(page.locator(TITLE)).to_have_text("Fix the flaky refund test")
    before = page.get_by_role("button", name="Previous session")
    await expect(before).to_have_attribute("aria-disabled", "true")
    await before.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(TITLE)).to_have_text("Fix the flaky refund test")


async def test_neighbours_are_those_whom_the_filter_leaves(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), path="/?q=beta&group=needs_you")
    await page.locator(".card .open").first.click()
    sheet = page.locator(".sheet")
    await sheet.get_by_role("button", name="Next session").click()
    await expect(page.get_by_role("dialog", name="Sessions out of Postgres")).to_be_visible()
    await expect(sheet.get_by_role("button", name="Next session")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)
    await page.wait_for_url("**/?q=beta&group=needs_you")


async def test_what_lies_over_the_board_becomes_the_page_and_back_again(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.locator(".card .open").first.click()
    await page.get_by_role("link", name="Open as a page").click()
    await expect(page.locator(".session-body")).to_be_visible()
    await expect(page.locator(".sheet, .board")).to_have_count(0)
    await page.reload()
    await expect(page.locator(TITLE)).to_have_text("Fix the flaky refund test")

    await page.go_back()
    await expect(page.get_by_role("dialog", name="Fix the flaky refund test")).to_be_visible()
    await expect(page.locator(".board")).to_be_visible()
    await page.go_back()
    await expect(page.locator(".sheet")).to_have_count(0)
    assert page.url == hub.url + "/"
    await page.go_forward()
    await page.go_forward()
    await expect(page.locator(".session-body")).to_be_visible()


async def test_link_directory_and_id_are_copied(open_page: OpenPage, hub: StandIn) -> None:
    view = whole(wall_ms())
    page = await at_page(open_page, hub, view)
    for what, text in (
        ("the link to this session", f"{hub.url}/sessions/{view.id}"),
        ("the directory", "/home/ada/src/api"),
        ("the session's id", view.session_id),
        ("the host's name", view.host),
    ):
        await page.get_by_role("button", name=f"Copy {what}").click()
        await copied(page, text)


TAKE_UP = [
    ("/home/ada/src/api", "cd /home/ada/src/api && claude --resume over-1"),
    ("~/my work", "cd ~/'my work' && claude --resume over-1"),
    ("/tmp/it's; rm -r ~", "cd '/tmp/it'\\''s; rm -r ~' && claude --resume over-1"),
    ("/tmp/a\nrm -r ~", None),
    (None, "claude --resume over-1"),
    ("/tmp/\u202ereversed", None),
]


async def test_one_that_is_over_says_how_to_take_it_up_again(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    view = fleets.session("over-1", "session_ended", "Closed", now=now, ended_at=now)
    page = await at_page(open_page, hub, replace(view, cwd="/before"), 0)
    todo = page.locator("[data-part=todo]")
    await expect(todo).to_contain_text("It has ended.")
    for cwd, command in TAKE_UP:
        await hub.change(replace(view, cwd=cwd))
        await expect(todo.locator(".command code")).to_have_text([command] if command else [])


async def test_one_at_work_gets_no_command_to_run_it_twice(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await at_page(open_page, hub, whole(wall_ms()))
    await expect(page.locator("[data-part=todo]")).to_contain_text("Nothing: it is working.")
    await expect(page.locator("[data-part=todo] .command")).to_have_count(0)


async def test_what_it_did_stands_by_turns_and_what_was_before_them_last(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    view = fleets.session("a", "thinking", "…", now=now)
    hub.load([view], [])
    kinds = ("tool.started", "prompt.submitted", "tool.started", "prompt.submitted", "turn.failed")
    hub.activity["alpha:a"] = [
        ActivityEntry(now - 9000 + n, kind, f"step {n}") for n, kind in enumerate(kinds)
    ]
    page = await open_page(path="/sessions/alpha:a", ready=".log")
    turns = [
        " ".join(turn.replace("\n", " ").split())
        for turn in await page.locator(".turn").all_inner_texts()
    ]
    assert len(turns) == 3
    assert [turn.startswith("Prompt") for turn in turns] == [True, True, False]
    for turn, steps in zip(turns, ("34", "12", "0"), strict=True):
        assert [n for n in "01234" if f"step {n}" in turn] == list(steps)
    assert await page.locator("[data-kind='turn.failed']").get_attribute("data-failed") == "true"


async def test_prompts_and_requests_alone_by_the_keyboard(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await at_page(open_page, hub, whole(wall_ms()), 100)
    await expect(page.locator(".log-end")).to_contain_text("The last 100 entries are stored")
    await page.get_by_role("button", name="Only prompts and requests").focus()
    await page.keyboard.press("Space")
    await expect(page.locator(".line[data-kind='tool.started']")).to_have_count(0)
    kinds = await page.locator(".line").evaluate_all("(all) => all.map((e) => e.dataset.kind)")
    assert set(kinds) == {"prompt.submitted", "request.opened"}
    await page.keyboard.press("Space")
    await expect(page.locator(".line")).to_have_count(100)


async def test_a_child_tells_how_long_it_took_and_how_it_ended(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await at_page(open_page, hub, whole(wall_ms()))
    failed = page.locator(".family [data-status=failed]")
    assert "took 4m" in await words(failed)
    assert await failed.locator(".child-status use").get_attribute("href") == (
        "/static/vendor/lucide.svg#octagon-x"
    )


async def test_words_that_a_machine_keeps_to_itself_are_told_of(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = fleets.session("a", "thinking", "…", now=wall_ms(), title=None)
    page = await at_page(open_page, hub, view, 0)
    await expect(page.locator("[data-part=words]")).to_contain_text("privacy level “metadata”")


async def test_the_raw_view_is_fetched_when_it_is_wanted_and_is_text(
    open_page: OpenPage, hub: StandIn
) -> None:
    hostile = "</pre><script>alert(1)</script>\u202e\u0007"
    view = whole(wall_ms(), branch=hostile)
    page = await at_page(open_page, hub, view)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.locator("[data-part=raw] summary").focus()
    assert not [url for url in asked if url.endswith(view.id)]
    await page.keyboard.press("Enter")

    text = await page.inner_text(".json")
    assert "\u202e" not in text
    assert json.loads(text)["branch"] == hostile
    await page.get_by_role("button", name="Copy the JSON").click()
    await copied(page, text)


async def test_a_raw_view_that_fails_is_owned_up_to(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    page = await at_page(open_page, hub, whole(wall_ms()))
    await page.route("**/api/v1/sessions/*", lambda route: route.abort())
    await page.locator("[data-part=raw] summary").click()
    raw = page.locator("[data-part=raw]")
    await expect(raw.locator(".log-failed")).to_contain_text("could not be reached")
    await page.unroute("**/api/v1/sessions/*")
    await raw.get_by_role("button", name="Try again").click()
    await expect(raw.locator(".json")).to_contain_text('"session_id"')


async def test_one_on_a_host_that_is_offline_is_as_last_seen(open_page: OpenPage) -> None:
    page = await open_page(
        fleets.broken(wall_ms()), path="/sessions/gamma:gone-1", ready=".session-body"
    )
    await expect(page.locator(".sheet-state")).to_contain_text("Its host is offline")
    await expect(page.locator("[data-part=todo]")).to_contain_text("Its machine is out of reach")


async def test_one_of_the_past_that_is_slow_to_come_or_fails_says_so(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    hub.load(*fleets.full(wall_ms()))
    hub.past = [spending.over(wall_ms(), 1)]
    page = await open_page(ready=".card")
    held = asyncio.Event()

    async def hold(route: Any) -> None:
        await held.wait()
        await route.abort()

    await page.route("**/api/v1/sessions/*", hold)
    await page.goto(hub.url + "/sessions/alpha:past-1")
    await expect(page.locator(TITLE)).to_have_text("Loading")
    await expect(page.locator(".session .ghosts")).to_be_visible()
    held.set()
    await expect(page.locator(TITLE)).to_have_text("No answer")
    await page.unroute("**/api/v1/sessions/*")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(TITLE)).to_have_text("Work of day 1")


async def test_markup_on_the_page_stays_text(open_page: OpenPage, hub: StandIn) -> None:
    """No dialog and no request outside either: the page's record of faults fails the test."""
    sessions, hosts = fleets.hostile(wall_ms())
    text = "\n".join(fleets.HOSTILE)
    extra = dict.fromkeys(
        ("cwd", "branch", "mode", "last_prompt", "last_answer", "forked_from"), text
    )
    sessions = [replace(view, title=text, pr=text, worktree=text, **extra) for view in sessions]
    hub.load(sessions, hosts)
    for view in sessions:
        hub.activity[view.id] = [
            ActivityEntry(wall_ms(), each, each, each) for each in fleets.HOSTILE
        ]
    page = await open_page(path=f"/sessions/{sessions[0].id}", ready=".log")
    await page.locator("[data-part=raw] summary").click()
    await page.wait_for_selector(".json")
    assert await page.locator(".session :is(img, script, iframe, style, a:not(.way))").count() == 0
    assert "\u202e" not in await page.inner_text("body")
    assert "\u202e" not in await page.title()


@pytest.mark.parametrize("who", ["whole", "over", "nobody"])
async def test_a_page_is_shown_accessibly(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str], who: str
) -> None:
    expected_faults.extend(["Failed to load resource"] if who == "nobody" else [])
    now = wall_ms()
    view = whole(now)
    hub.load([view, *fleets.waiting(now)], [fleets.host("alpha", now)])
    hub.activity[view.id] = fleets.activity(now, 24)
    hub.past = [spending.over(now, 1, cwd="~/src/billing")]
    name = {"whole": view.id, "over": "alpha:past-1", "nobody": "alpha:nobody"}[who]
    page = await open_page(path=f"/sessions/{name}", ready=".session")
    await expect(page.locator(".ghosts, .log-ghost")).to_have_count(0)
    if who != "nobody":
        await page.locator("[data-part=raw] summary").click()
        await page.wait_for_selector(".json")
    assert await look_faults(page) == []
    assert await tall_enough(page, ".session") == []
    assert await too_wide(page, 360) == []


@pytest.mark.parametrize("path", ["/list?sort=-title", "/by/host", "/by/project"])
async def test_neighbours_stand_in_the_order_of_the_view_below(
    open_page: OpenPage, path: str
) -> None:
    page = await open_page(fleets.full(wall_ms()), path=path, ready="main [data-id] .open")
    ids = await page.locator("main [data-id]").evaluate_all("(all) => all.map((e) => e.dataset.id)")
    await page.locator("main [data-id] .open").first.click()
    await page.get_by_role("button", name="Next session").click()
    await page.wait_for_url(lambda url: f"/sessions/{ids[1]}" in url)
    await page.get_by_role("link", name="Open as a page").click()
    await page.get_by_role("button", name="Next session").click()
    await page.wait_for_url(lambda url: f"/sessions/{ids[2]}" in url)
