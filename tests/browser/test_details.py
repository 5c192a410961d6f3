"""The details of one session: how they open and close, what they hold, when they ask again."""

from __future__ import annotations

import re

import msgspec
import pytest
from playwright.async_api import Locator, Page, expect

from adsum_shared.state import ActivityEntry, RequestView, SessionView
from tests.browser import fleets
from tests.browser.addresses import ending
from tests.browser.conftest import ASKED, PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

REFUND = "beta:payments-1"
HIDE = "Object.defineProperty(document, 'visibilityState', {value: '%s', configurable: true});"
NOT_FOUND = "Failed to load resource: the server responded with a status of 404"
TELL = "document.dispatchEvent(new Event('visibilitychange'))"


def card(page: Page, title: str) -> Locator:
    return page.locator(".card", has=page.get_by_role("button", name=title, exact=True))


def part(page: Page, name: str) -> Locator:
    return page.locator(f".part[data-part={name}]")


def relabelled(view: SessionView, label: str) -> SessionView:
    return msgspec.structs.replace(view, state=msgspec.structs.replace(view.state, label=label))


async def opened(open_page: OpenPage, view: SessionView) -> Page:
    """The page of this one session."""
    return await open_page(([view], []), path=f"/sessions/{view.id}", ready=".session-body")


async def test_a_card_opens_its_details_and_the_address_names_them(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    button = card(page, "Fix the flaky refund test").get_by_role("button")
    await expect(button).to_have_attribute("aria-expanded", "false")
    await button.click()

    dialog = page.get_by_role("dialog", name="Fix the flaky refund test")
    await expect(dialog).to_be_visible()
    await expect(page).to_have_url(ending("/sessions/beta:payments-1"))
    assert await page.get_attribute("[data-id='beta:payments-1'] .open", "aria-expanded") == "true"
    assert await page.locator("[aria-expanded=true]").count() == 1


async def test_anywhere_on_the_card_opens_them_too(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await card(page, "Soft-delete for invoices").locator(".meta").click()
    await expect(page.get_by_role("dialog", name="Soft-delete for invoices")).to_be_visible()


async def test_selecting_a_command_on_the_card_opens_nothing(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    box = await card(page, "Upgrade to the new router").locator(".ask-text").bounding_box()
    assert box is not None
    left, line = round(box["x"]), round(box["y"] + 8)
    await page.mouse.move(left + 20, line)
    await page.mouse.down()
    await page.mouse.move(left + 160, line)
    await page.mouse.up()

    assert await page.evaluate("getSelection().toString()") != ""
    await expect(page.locator(".sheet")).to_have_count(0)


async def test_the_keyboard_alone_opens_reads_and_closes(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.locator(".card .open").nth(2).focus()
    title = await page.evaluate("document.activeElement.textContent")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog", name=title)).to_be_visible()
    assert await page.evaluate("document.activeElement.id") == "sheet-title"

    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.ariaLabel") == "Close"
    inside = (
        "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
    )
    for _ in range(4):
        await page.keyboard.press("Tab")
        assert await page.evaluate(inside)

    await page.keyboard.press("Escape")
    await expect(page.locator(".sheet")).to_have_count(0)
    assert await page.evaluate("document.activeElement.textContent") == title
    await page.wait_for_url(lambda url: url.endswith("/"))


@pytest.mark.parametrize("way", ["button", "outside", "back"])
async def test_the_details_close(open_page: OpenPage, way: str) -> None:
    page = await open_page(fleets.full(wall_ms()), path="/?q=refund")
    await page.locator(".card .open").click()
    await expect(page.locator(".sheet")).to_be_visible()
    if way == "button":
        await page.get_by_role("button", name="Close").click()
    elif way == "outside":
        await page.mouse.click(200, 700)
    else:
        await page.go_back()

    await expect(page.locator(".sheet")).to_have_count(0)
    await page.wait_for_url("**/?q=refund")
    await expect(page.locator(".card")).to_have_count(1)


async def test_closed_details_leave_no_step_in_the_history(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await page.locator(".card .open").first.click()
    await expect(page.locator(".sheet")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator(".sheet")).to_have_count(0)
    await page.wait_for_url(lambda url: url.endswith("/"))

    await page.go_back()
    await page.wait_for_url("about:blank")
    await page.go_forward()


@pytest.mark.parametrize("framed", [True, False], ids=["a frame later", "before any frame"])
async def test_closing_gives_the_focus_to_a_card_that_moved_meanwhile(
    open_page: OpenPage, hub: StandIn, framed: bool
) -> None:
    """Between closing and the next frame the closed sheet still has the focus, as on a busy machine."""
    now = wall_ms()
    view = fleets.session("a", "awaiting_input", "Asked you a question", now=now, title="A")
    page = await open_page(([view], []))
    await page.locator(".card .open").click()
    await expect(page.locator(".sheet")).to_be_visible()
    working = fleets.session("a", "thinking", "Generating", now=now, title="A")
    await hub.change(working)
    await expect(page.locator("[data-group=autonomous] .card")).to_have_count(1)

    if framed:
        await page.keyboard.press("Escape")
    else:
        at_once = "sheet => { sheet.close(); sheet.dispatchEvent(new Event('close')); }"
        await page.locator(".sheet").evaluate(at_once)
    await expect(page.locator("[data-group=autonomous] .open")).to_be_focused()


@pytest.mark.parametrize("keys", ["xx", "xjx"])
async def test_closing_twice_in_a_row_does_not_leave_the_page(
    open_page: OpenPage, keys: str
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await card(page, "Fix the flaky refund test").get_by_role("button").click()
    await expect(page.locator(".sheet")).to_be_visible()
    pressed = """(keys) => {
      for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    }"""
    await page.evaluate(pressed, keys)
    await expect(page.locator(".sheet")).to_have_count(0)
    await expect(card(page, "Fix the flaky refund test")).to_be_visible()

    await card(page, "Fix the flaky refund test").get_by_role("button").click()
    await expect(page.locator(".sheet")).to_be_visible()
    await page.keyboard.press("x")
    await expect(page.locator(".sheet")).to_have_count(0)


async def test_open_details_survive_a_reload_with_the_list_below_them(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await card(page, "Fix the flaky refund test").get_by_role("button").click()
    await expect(page.locator(".sheet")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("dialog", name="Fix the flaky refund test")).to_be_visible()
    await expect(page.locator(".board")).to_be_visible()

    await page.keyboard.press("Escape")
    await expect(page.locator(".sheet")).to_have_count(0)
    await page.wait_for_url(hub.url + "/")


async def test_a_link_to_nobody_says_so(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append(NOT_FOUND)
    page = await open_page(fleets.full(wall_ms()), path="/sessions/alpha:nobody", ready=".session")
    said = "There is no session alpha:nobody, neither in the live list nor in the history"
    await expect(page.locator(".session")).to_contain_text(said)
    assert hub.asked == []


async def test_a_session_that_leaves_while_it_is_read_says_so(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append(NOT_FOUND)
    page = await open_page(fleets.full(wall_ms()))
    await card(page, "Fix the flaky refund test").get_by_role("button").click()
    await expect(page.locator(".sheet-state")).to_be_visible()
    await hub.change(gone=(REFUND,))
    await expect(page.locator(".sheet")).to_contain_text("There is no session")

    await page.keyboard.press("Escape")
    await expect(page.locator(".sheet")).to_have_count(0)


async def test_an_address_that_cannot_be_read_is_shown_as_it_stands(
    open_page: OpenPage, expected_faults: list[str]
) -> None:
    expected_faults.append(NOT_FOUND)
    page = await open_page(fleets.full(wall_ms()), path="/sessions/%E0%A4%A", ready=".session")
    await expect(page.locator(".session")).to_contain_text("No such session")
    await expect(page.locator(".not-found code")).to_have_text("%E0%A4%A")
    ways = await page.locator(".not-found .button").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect()).map(({ left, right }) => [left, right])"
    )
    assert ways[1][0] - ways[0][1] >= 8, "the two ways touch"


async def test_an_address_that_names_no_session_is_no_page(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), path="/sessions/", ready=".blank")
    await expect(page.locator(".blank")).to_contain_text("Page not found")


async def test_the_state_says_why_it_is_believed(open_page: OpenPage) -> None:
    now = wall_ms()
    view = fleets.session("a", "error", "Failed: rate limit", now=now, age=120_000)
    state = msgspec.structs.replace(
        view.state, source="transcript", confidence=0.7, context={"message": "429: slow down"}
    )
    page = await opened(open_page, msgspec.structs.replace(view, state=state))

    await expect(page.locator(".standing")).to_contain_text("Failed: rate limit")
    said = await page.inner_text(".sheet-state")
    assert "Why: Known from its transcript, likely (70 %), since" in said
    assert "Heard since, in agreement: hooks, session registry" in said
    assert "before that" not in said
    assert "429: slow down" in said


async def test_who_was_heard_before_the_state_is_told_from_who_never_was(
    open_page: OpenPage,
) -> None:
    now = wall_ms()
    view = fleets.session("a", "thinking", "…", now=now, age=10_000)
    told = fleets.witnesses(now, process="missing")
    page = await opened(open_page, msgspec.structs.replace(view, witnesses=told))

    said = await page.inner_text(".sheet-state")
    assert "Last heard before that: session registry, status line." in said


async def test_every_open_request_is_shown_in_full(open_page: OpenPage) -> None:
    now = wall_ms()
    long = "\n".join(f"line {n}" for n in range(400))
    edit = RequestView(
        id="e",
        kind="permission",
        tool="Edit",
        opened_at=now - 5000,
        agent_id="c1",
        payload={"file_path": "/src/a.py", "new_string": long, "replace_all": True, "n": None},
    )
    asked = fleets.waiting(now)[0].requests[0]
    child = fleets.ChildView(id="c1", kind="agent", status="running", description="Sort imports")
    view = fleets.session(
        "a", "needs_permission", "…", now=now, requests=(asked, edit), children=(child,)
    )
    page = await opened(open_page, view)
    requests = page.locator(".request")

    await expect(requests).to_have_count(2)
    first, second = await requests.all_inner_texts()
    assert "Permission: Edit" in first
    assert "asked by Sort imports" in first
    assert "/src/a.py" in first
    assert "line 399" in first
    assert "replace all" in first
    assert "Should deleted invoices stay visible to auditors?" in second
    assert "And for support staff?" in second
    assert await requests.nth(1).locator(".answers li").count() == 3


async def test_a_child_that_its_session_left_behind_says_so(open_page: OpenPage) -> None:
    now = wall_ms()
    lost = fleets.ChildView(id="c1", kind="agent", status="orphaned", finished_at=now - 90_000)
    page = await opened(
        open_page, fleets.session("a", "session_ended", "Closed", now=now, children=(lost,))
    )
    said = await page.locator(".session .child-status").inner_text()
    assert " ".join(said.split()) == "orphaned, its session ended"


async def test_all_children_stand_in_the_tree_those_that_run_first(
    open_page: OpenPage,
) -> None:
    now = wall_ms()
    view = next(s for s in fleets.working(now) if s.state.state == "delegating")
    view = msgspec.structs.replace(view, children=view.children[::-1])
    page = await opened(open_page, view)
    rows = await page.locator(".session .child").all_inner_texts()

    assert len(rows) == 7
    assert all("running" in row for row in rows[:5])
    assert "failed 1m ago" in rows[5]
    assert re.search(r"completed \d+s ago", rows[6])


async def test_what_it_did_is_listed_newest_first_with_exact_times(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    hub.load([fleets.session("a", "thinking", "…", now=now)], [])
    hub.activity["alpha:a"] = fleets.activity(now)
    page = await open_page(path="/sessions/alpha:a", ready=".log")
    lines = await page.locator(".line").all_inner_texts()

    assert len(lines) == 12
    assert "Make the refund test pass" in lines[0]
    assert "agent dreamt" in lines[1]
    assert "Bash: pytest" in lines[-1]
    assert "by a subagent" in lines[7]
    assert "by a subagent" not in lines[6]
    age = page.locator(".line .age").nth(1)
    await expect(age).to_have_text("1m")
    assert ":" in (await age.get_attribute("title") or "")


async def test_alike_entries_are_each_listed(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    hub.load([fleets.session("a", "thinking", "…", now=now)], [])
    hub.activity["alpha:a"] = [ActivityEntry(now, "tool.started", "Read: a.py")] * 3
    page = await open_page(path="/sessions/alpha:a", ready=".log")
    await expect(page.locator(".line")).to_have_count(3)


async def test_while_it_is_fetched_the_page_says_so(open_page: OpenPage, hub: StandIn) -> None:
    hub.load([fleets.session("a", "thinking", "…", now=wall_ms())], [])
    hub.may_answer.clear()
    page = await open_page(path="/sessions/alpha:a", ready=".log-ghost")
    await expect(part(page, "activity").get_by_role("status")).to_have_text("Loading its activity")

    hub.may_answer.set()
    await expect(page.locator(".log-ghost")).to_have_count(0)
    assert "No activity yet." in await page.inner_text(".session")


async def test_a_session_the_hub_keeps_no_record_of_is_no_fault(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append(NOT_FOUND)
    hub.load([fleets.session("a", "thinking", "…", now=wall_ms())], [])
    hub.fails_with = 404
    page = await open_page(path="/sessions/alpha:a", ready=".session")
    await expect(part(page, "activity")).to_contain_text("no longer has a record of this session")


async def test_an_answer_that_fails_can_be_asked_for_again(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource: the server responded with a status of 500")
    now = wall_ms()
    hub.load([fleets.session("a", "thinking", "…", now=now)], [])
    hub.fails_with = 500
    page = await open_page(path="/sessions/alpha:a", ready=".log-failed")
    assert "The hub answered with status 500." in await page.inner_text(".log-failed")

    hub.fails_with = None
    hub.activity["alpha:a"] = fleets.activity(now)
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(".line")).to_have_count(12)
    await expect(page.locator(".log-failed")).to_have_count(0)


async def test_an_answer_that_is_no_json_is_owned_up_to(open_page: OpenPage, hub: StandIn) -> None:
    hub.load([fleets.session("a", "thinking", "…", now=wall_ms())], [])
    hub.fails_with = 200
    page = await open_page(path="/sessions/alpha:a", ready=".log-failed")
    assert "The hub's answer could not be read." in await page.inner_text(".log-failed")


async def test_a_lost_hub_keeps_what_was_read_and_says_so(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.extend(["WebSocket connection to", "Failed to load resource"])
    now = wall_ms()
    view = fleets.session("a", "thinking", "…", now=now)
    hub.load([view], [])
    hub.activity["alpha:a"] = fleets.activity(now)
    page = await open_page(path="/sessions/alpha:a", ready=".log")
    await page.route("**/activity", lambda route: route.abort())
    await hub.change(relabelled(view, "More"))
    await expect(page.locator(".log-failed")).to_contain_text("The hub could not be reached.")
    await expect(page.locator(".line")).to_have_count(12)

    hub.down = True
    await hub.cut()
    await expect(page.locator(".sheet-stale")).to_contain_text("Not live.", timeout=15_000)

    await page.unroute("**/activity")
    hub.down = False
    await expect(page.locator(".sheet-stale")).to_have_count(0, timeout=15_000)
    await expect(page.locator(".log-failed")).to_have_count(0)


async def test_a_busy_session_is_asked_about_once_a_second_at_most(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    view = fleets.session("a", "thinking", "…", now=now)
    hub.load([view], [])
    page = await open_page(
        path="/sessions/alpha:a", ready="[data-part=activity] .quiet", clock=True
    )
    await page.clock.pause_at(await page.evaluate("Date.now() + 100"))
    assert len(hub.asked) == 1

    hub.activity["alpha:a"] = [ActivityEntry(now, "tool.started", "Read: a.py")]
    for n in range(20):
        await hub.change(relabelled(view, f"Step {n}"))
    passed = 0
    while await page.inner_text(".session .badge") != "Step 19":
        await page.clock.run_for(20)
        passed += 20
    await page.clock.run_for(900 - passed)
    await page.evaluate(ASKED)
    assert len(hub.asked) == 1

    await page.clock.run_for(200 + passed)
    await wait_until(lambda: len(hub.asked) == 2)
    await page.clock.run_for(5000)
    await page.evaluate(ASKED)
    assert len(hub.asked) == 2


async def test_a_change_while_an_answer_is_on_its_way_is_asked_for_after_it(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    view = fleets.session("a", "thinking", "…", now=now)
    hub.load([view], [])
    hub.may_answer.clear()
    page = await open_page(path="/sessions/alpha:a", ready=".log-ghost")
    await hub.change(relabelled(view, "Later"))
    await expect(page.locator(".session .badge")).to_have_text("Later")
    assert len(hub.asked) == 1

    hub.may_answer.set()
    await wait_until(lambda: len(hub.asked) == 2)


async def test_a_page_that_nobody_sees_asks_nothing_until_it_is_seen(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = fleets.session("a", "thinking", "…", now=wall_ms())
    hub.load([view], [])
    page = await open_page(
        path="/sessions/alpha:a", ready="[data-part=activity] .quiet", clock=True
    )
    await page.evaluate(HIDE % "hidden" + TELL)
    await hub.change(relabelled(view, "Unseen"))
    await expect(page.locator(".session .badge")).to_have_text("Unseen")
    await page.clock.run_for(60_000)
    await page.evaluate(ASKED)
    assert len(hub.asked) == 1

    await page.evaluate(HIDE % "visible" + TELL)
    await wait_until(lambda: len(hub.asked) == 2)


async def test_closed_details_ask_nothing(open_page: OpenPage, hub: StandIn) -> None:
    view = fleets.session("a", "thinking", "…", now=wall_ms())
    hub.load([view], [])
    page = await open_page(clock=True)
    await page.locator(".card .open").click()
    await page.wait_for_selector("[data-part=activity] .quiet")
    await hub.change(relabelled(view, "Just before"))
    await expect(page.locator(".sheet .badge")).to_have_text("Just before")
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator(".sheet")).to_have_count(0)

    await hub.change(relabelled(view, "On"))
    await expect(page.locator(".card .badge")).to_have_text("On")
    await page.clock.run_for(60_000)
    await page.evaluate(ASKED)
    assert len(hub.asked) == 1


async def test_on_a_phone_the_details_take_the_whole_window(open_page: OpenPage) -> None:
    page = await open_page(fleets.full(wall_ms()), viewport=PHONE)
    await card(page, "Fix the flaky refund test").get_by_role("button").click()
    box = await page.locator(".sheet").bounding_box()
    assert box is not None
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 390, 844)


async def test_markup_in_the_details_stays_text(open_page: OpenPage, hub: StandIn) -> None:
    """No dialog and no request outside either: the page's record of faults fails the test."""
    sessions, hosts = fleets.hostile(wall_ms())
    hub.load(sessions, hosts)
    for view in sessions:
        hub.activity[view.id] = [
            ActivityEntry(wall_ms(), text, text, text) for text in fleets.HOSTILE
        ]
    page = await open_page()
    for index in range(len(sessions)):
        await page.locator(".card .open").nth(index).click()
        await expect(page.locator(".line")).to_have_count(len(fleets.HOSTILE))
        outside = ".sheet :is(img, script, iframe, style, a:not(.way))"
        assert await page.locator(outside).count() == 0
        assert "\u202e" not in await page.inner_text(".sheet")
        await page.keyboard.press("Escape")
        await expect(page.locator(".sheet")).to_have_count(0)
