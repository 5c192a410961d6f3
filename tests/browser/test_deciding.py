"""Deciding from the page: what each kind of request takes, who may, when nothing is decided, what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Browser, Page, expect

from adsum_shared.state import SessionView
from tests.browser import fleets, held
from tests.browser.conftest import ASKED, PHONE, OpenPage, wall_ms
from tests.browser.own_hubs import HIDE
from tests.browser.standin import StandIn
from tests.deciding import FakeMachine
from tests.hub_processes import HubProcess
from tests.support import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
]

READY = ".decide[data-ready=true]"
#: The schema of a form with one field.
BRANCH = {
    "type": "object",
    "properties": {"branch": {"type": "string", "title": "Branch"}},
    "required": ["branch"],
}
#: What decides is dropped if the keys' actions come late, as they may at the first press.
KEYS = "import('/static/keyboard/actions.js').then(() => null)"


async def at_session(open_page: OpenPage, hub: StandIn, view: SessionView, **more: Any) -> Page:
    control = more.pop("control", "approve")
    hub.load([view], [fleets.host("alpha", wall_ms(), control=control)])
    hub.activity[view.id] = []
    hub.me |= more.pop("me", {"role": "operator"})
    ready = more.pop("ready", f".session {READY}")
    return await open_page(path=f"/sessions/{view.id}", ready=ready, **more)


async def at_board(open_page: OpenPage, hub: StandIn, *views: SessionView, **more: Any) -> Page:
    hub.load(views, [fleets.host("alpha", wall_ms(), control="approve")])
    return await open_page(ready=more.pop("ready", f".card {READY}"), **more)


async def decided(hub: StandIn, count: int = 1) -> list[dict[str, Any]]:
    await wait_until(lambda: len(hub.commands) == count)
    return [asked for _, asked in hub.commands]


def about(view: SessionView, verb: str, **more: Any) -> dict[str, Any]:
    request = view.requests[0]
    assert request.hold is not None
    return {"verb": verb, "request_id": request.id, "binding": request.hold.binding, **more}


async def test_allowing_on_a_card_sends_the_binding_that_was_shown_and_tells_the_effect(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms())
    page = await at_board(open_page, hub, view)
    await page.get_by_role("button", name="Allow").click()

    assert await decided(hub) == [about(view, "allow")]
    said = page.locator(".toasts .fate")
    await expect(said).to_contain_text(
        "Work on a: Allow Bash “make all”: on its way to its machine."
    )
    await hub.report(1, "sent")
    await expect(said).to_contain_text("sent to the agent; waiting for confirmation")
    await expect(page.locator(".card .do")).to_have_count(0)
    await hub.report(1, "took_effect", requests=())
    await expect(said).to_contain_text("took effect")


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("overruled", "overruled: the terminal was first"),
        ("too_late", "too late: nothing was done"),
        ("refused", "refused by its machine: nothing was done. It was answered"),
    ],
)
async def test_what_went_otherwise_is_told_with_its_reason(
    open_page: OpenPage, hub: StandIn, outcome: str, said: str
) -> None:
    page = await at_session(open_page, hub, held.held("a", wall_ms()))
    await page.locator("[data-do=allow]").click()
    await decided(hub)
    reason = "it was answered" if outcome == "refused" else None
    await hub.report(1, outcome, reason=reason)

    await expect(page.locator(".request .fate")).to_contain_text(said)
    await expect(page.locator(".decisions")).to_contain_text("You allowed it")


async def test_what_the_hub_refuses_is_said_and_can_be_tried_again(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    page = await at_session(open_page, hub, held.held("a", wall_ms()))
    told = {"error": "This was decided already by bob (deny).", "next": "Look at the session."}
    hub.refuses_commands = told, 409
    await page.locator("[data-do=allow]").click()
    await expect(page.locator(".request .fate")).to_contain_text("decided already by bob (deny)")
    hub.refuses_commands = None
    await page.locator(f".session {READY} [data-do=allow]").click()
    await decided(hub)


async def test_another_persons_decision_is_shown_with_the_name_and_leaves_no_button(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms())
    page = await at_session(open_page, hub, view)
    hub.commands.append((view.id, about(view, "deny")))
    hub.me["name"] = "Bob <b>"
    await hub.report(1, "sent")
    hub.me["name"] = "you"

    await expect(page.locator(".request .fate")).to_contain_text(
        "Bob <b> denied it: sent to the agent"
    )
    await expect(page.locator(".request .do")).to_have_count(0)


async def test_always_shows_its_rules_before_it_is_sent(open_page: OpenPage, hub: StandIn) -> None:
    hold = {"verbs": ("allow", "always", "deny"), "always": ("Bash(make:*)", "Read(/x)")}
    view = held.held("a", wall_ms(), hold=hold)
    page = await at_session(open_page, hub, view)
    await page.locator("[data-do=always-open]").click()
    await expect(page.locator(".always li")).to_have_text(["Bash(make:*)", "Read(/x)"])
    assert hub.commands == []
    await page.locator(f"{READY} > [data-do=always]").click()
    assert await decided(hub) == [about(view, "always")]


async def test_what_may_be_dear_is_allowed_at_the_second_press_only(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), payload={"command": "git push --force origin main"})
    page = await at_board(open_page, hub, view)
    button = page.locator("[data-do=allow]")
    await button.dblclick()
    await expect(button).to_have_text("Press again: allow")
    await page.evaluate(ASKED)
    assert hub.commands == []
    await expect(page.locator(".card")).to_be_visible()

    async def again() -> bool:
        if await button.count():
            await button.click()
        return bool(hub.commands)

    await wait_until(again)
    assert await decided(hub) == [about(view, "allow")]


async def test_a_denial_is_held_for_three_seconds_and_undone_by_a_press_or_a_key(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms())
    page = await at_session(open_page, hub, view, clock=True)
    await page.get_by_label("Reason, for the agent").fill("Not now")
    await page.clock.run_for(1000)
    await page.locator("[data-do=deny]").click()
    await expect(page.locator(".toasts .fate")).to_contain_text("sent in 3 s")
    await page.clock.run_for(1200)
    await expect(page.locator(".toasts .fate")).to_contain_text("sent in 2 s")
    await page.locator(".toasts [data-do=undo]").click()
    await expect(page.locator(".toasts .fate")).to_contain_text("taken back. Nothing was sent.")
    await page.clock.run_for(3500)
    await page.locator("[data-do=stop]").click()
    await page.keyboard.press("z")
    await expect(page.locator(".toasts .fate").last).to_contain_text("taken back")
    await page.clock.run_for(1000)
    assert hub.commands == []


# On a page of its own: after the 6.7 s of the test above the link would be about to be called silent.
async def test_a_denial_that_nobody_takes_back_is_sent_with_its_reason(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms())
    page = await at_session(open_page, hub, view, clock=True)
    await page.get_by_label("Reason, for the agent").fill("Not now")
    await page.clock.run_for(1000)
    await page.locator("[data-do=stop]").click()
    await page.clock.run_for(2500)
    assert hub.commands == []
    await page.clock.run_for(600)
    assert await decided(hub) == [about(view, "deny", text="Not now", stop=True)]


@pytest.mark.parametrize("leaves", ["dispatchEvent(new Event('pagehide'))", HIDE])
async def test_leaving_the_page_cancels_what_could_still_be_taken_back(
    open_page: OpenPage, hub: StandIn, leaves: str
) -> None:
    page = await at_session(open_page, hub, held.held("a", wall_ms()), clock=True)
    await page.clock.run_for(1000)
    await page.locator("[data-do=deny]").click()
    await page.evaluate(leaves)
    await expect(page.locator(".toasts .fate")).to_contain_text("You left the page")
    await page.clock.run_for(5000)
    await page.evaluate(ASKED)
    assert hub.commands == []


async def test_a_denial_of_what_is_asked_no_more_is_not_sent(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms())
    page = await at_session(open_page, hub, view, clock=True)
    await page.clock.run_for(1000)
    await page.locator("[data-do=deny]").click()
    await hub.change(held.held("a", wall_ms(), hold={"binding": "another"}))
    await expect(page.locator(".request [data-do=allow]")).to_be_visible()
    await page.clock.run_for(5000)
    await expect(page.locator(".toasts .fate")).to_contain_text("It is asked no more.")
    assert hub.commands == []


async def test_a_press_on_what_has_only_just_come_decides_nothing(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms())
    page = await at_session(open_page, hub, view, clock=True, ready=".session [data-do=allow]")
    await page.locator("[data-do=allow]").click()
    await expect(page.locator(".toasts")).to_contain_text("only just come here")
    await page.clock.run_for(1000)
    other = held.held("a", wall_ms(), payload={"command": "rm x"}, hold={"binding": "another"})
    await hub.change(other)
    await expect(page.locator(".request-main")).to_have_text("rm x")
    await page.keyboard.press("a")
    await expect(page.locator(".toasts")).to_contain_text("only just come here")
    await page.evaluate(ASKED)
    assert hub.commands == []
    await page.clock.run_for(1000)
    await page.keyboard.press("a")
    assert await decided(hub) == [about(other, "allow")]


async def test_a_card_that_slips_under_the_pointer_is_not_decided(
    open_page: OpenPage, hub: StandIn
) -> None:
    first = held.held("a", wall_ms())
    page = await at_board(open_page, hub, first, clock=True, ready=".card .decide")
    await page.clock.run_for(1000)
    sooner = held.held("b", wall_ms(), age=5 * fleets.MINUTE)
    await hub.change(sooner)
    await expect(page.locator(".card")).to_have_count(2)
    await page.locator('[data-id="alpha:a"] [data-do=allow]').click()
    await expect(page.locator(".toasts")).to_contain_text("only just come here")
    await page.evaluate(ASKED)
    assert hub.commands == []


async def test_keys_decide_on_the_card_that_has_the_focus_and_never_while_typing(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms())
    page = await at_board(open_page, hub, view)
    await page.keyboard.press("a")
    await page.locator("#filter, .filter input").first.fill("a")
    await page.keyboard.press("a")
    await page.keyboard.press("Escape")
    await page.evaluate(ASKED)
    assert hub.commands == []
    await page.locator(f".card:has({READY}) .open").focus()
    await page.keyboard.press("a")
    assert await decided(hub) == [about(view, "allow")]


async def test_a_digit_answers_on_a_card_after_three_seconds(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), "question", {"questions": held.QUESTIONS[:1]})
    page = await at_board(open_page, hub, view)
    await expect(page.locator(".card .options")).to_be_hidden()
    await expect(page.locator(".card .do-option kbd").nth(1)).to_have_text("2")
    await page.evaluate(KEYS)
    await page.locator(".card .open").focus()
    await page.keyboard.press("2")
    await expect(page.locator(".toasts .fate")).to_contain_text("Answer “Blue”: sent in")
    assert await decided(hub) == [about(view, "answer", answers={"Which colour?": ["Blue"]})]


async def test_several_questions_are_answered_together_and_not_before_each_is(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), "question", {"questions": held.QUESTIONS})
    page = await at_session(open_page, hub, view)
    send = page.locator("[data-do=send]")
    await expect(send).to_have_text("2 of 2 not answered")
    await page.evaluate(KEYS)
    await page.keyboard.press("1")
    await expect(send).to_have_text("1 of 2 not answered")
    await expect(send).to_be_disabled()
    second = page.locator(".asked").nth(1)
    await second.get_by_text("Roof").click()
    await second.get_by_text("Door").click()
    await second.get_by_placeholder("And in your own words").fill("Gate")
    await second.get_by_placeholder("Note").fill("In oak")
    await page.locator(f"{READY} [data-do=send]").click()
    answers = {"Which colour?": ["Red"], "Which parts?": ["Roof", "Door", "Gate"]}
    notes = {"Which parts?": "In oak"}
    assert await decided(hub) == [about(view, "answer", answers=answers, notes=notes)]


async def test_the_send_button_stays_the_same_element_while_answers_are_filled_in(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), "question", {"questions": held.QUESTIONS[:1]})
    page = await at_session(open_page, hub, view)
    await _mark(page, "[data-do=send]")
    await page.get_by_text("Red", exact=True).click()
    await expect(page.locator("[data-marked]")).to_have_text("Send the answer")

    view = held.held("b", wall_ms(), "dialog", held.FORM | {"requested_schema": BRANCH})
    page = await at_session(open_page, hub, view)
    await _mark(page, "[data-do=send]")
    await page.get_by_label("Branch").fill("main")
    await expect(page.locator("[data-marked]")).to_have_text("Send the form")
    await page.get_by_label("Branch").fill("")
    await expect(page.locator("[data-marked]")).to_have_text("Branch is not filled in.")
    await expect(page.locator("[data-marked]")).to_be_disabled()


async def test_a_request_stays_the_same_element_when_a_hook_holds_it_later(
    open_page: OpenPage, hub: StandIn
) -> None:
    """Its controls are new with each binding: what was typed for one request decides no other."""
    view = held.held("a", wall_ms())
    unheld = replace(view, requests=(replace(view.requests[0], hold=None),))
    page = await at_session(open_page, hub, unheld, ready=".session .barred")
    await _mark(page, ".request")
    await hub.change(view)
    await page.locator("[data-marked]").get_by_label("Reason, for the agent").fill("No.")
    await hub.change(held.held("a", wall_ms(), hold={"binding": "another"}))
    await expect(page.get_by_label("Reason, for the agent")).to_have_value("")
    await expect(page.locator(".request")).to_have_attribute("data-marked", "")


async def _mark(page: Page, selector: str) -> None:
    """Set an attribute that a new element would not have."""
    await page.locator(selector).evaluate("(element) => element.setAttribute('data-marked', '')")


async def test_words_of_ones_own_take_the_place_of_the_one_option(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), "question", {"questions": held.QUESTIONS[:1]})
    page = await at_session(open_page, hub, view)
    await page.get_by_text("Red", exact=True).click()
    await page.get_by_placeholder("Or in your own words").fill("Green")
    await expect(page.get_by_label("Red")).not_to_be_checked()
    await page.locator(f"{READY} [data-do=send]").click()
    assert await decided(hub) == [about(view, "answer", answers={"Which colour?": ["Green"]})]


async def test_a_plan_is_read_and_approved_edited_in_a_mode(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), "plan", {"plan": held.PLAN})
    page = await at_session(open_page, hub, view)
    plan = page.locator(".plan")
    await expect(plan.locator(".plan-head")).to_have_text("Move the refunds")
    await expect(plan.locator("pre")).to_have_text("ALTER TABLE refunds\n  DROP COLUMN settled;")
    await expect(plan.locator("code")).to_have_text("settled_at")
    await expect(plan).to_contain_text("<script>alert(1)</script> <!-- unseen -->")
    await page.get_by_text("edits files without asking").click()
    await page.get_by_role("button", name="Change it").click()
    await page.get_by_label("The plan, as it is to be carried out").fill("Do less.")
    await page.locator(READY).get_by_role("button", name="Approve as edited").click()
    assert await decided(hub) == [about(view, "plan", mode="acceptEdits", text="Do less.")]


async def test_a_plan_is_approved_as_it_is_or_sent_back_with_words(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), "plan", {"plan": held.PLAN})
    page = await at_session(open_page, hub, view)
    await page.get_by_label("What to change").fill("Keep the column")
    await page.locator(READY).get_by_role("button", name="Send back").click()
    assert await decided(hub) == [about(view, "deny", text="Keep the column")]
    page = await at_session(open_page, hub, view)
    await page.get_by_role("button", name="Approve").click()
    assert (await decided(hub))[0] == about(view, "plan", mode="default")


async def test_a_servers_form_is_filled_in_by_its_schema(open_page: OpenPage, hub: StandIn) -> None:
    view = held.held("a", wall_ms(), "dialog", held.FORM, tool="forge")
    page = await at_session(open_page, hub, view)
    await expect(page.locator("[data-do=send]")).to_have_text("Branch is not filled in.")
    await page.get_by_label("Branch").fill("main")
    await page.get_by_label("How many").fill("1.5")
    await expect(page.locator("[data-do=send]")).to_have_text("How many takes a whole number.")
    await page.get_by_label("How many").fill("2")
    await page.get_by_label("kind").select_option("Hard")
    await page.get_by_label("By force").check()
    await page.locator(f"{READY} [data-do=send]").click()
    content = {"branch": "main", "count": 2, "kind": "hard", "force": True}
    assert await decided(hub) == [about(view, "elicit", content=content)]


async def test_a_form_is_held_while_it_is_shown_and_not_from_its_card(
    open_page: OpenPage, hub: StandIn
) -> None:
    verbs = "elicit", "deny", "defer", "extend"
    view = held.held("a", wall_ms(), "dialog", held.FORM, {"verbs": verbs}, tool="forge")
    page = await at_board(open_page, hub, view)
    await page.clock.install()
    await page.clock.run_for(20_000)
    assert hub.commands == []

    await page.locator(".card [data-do=open]").click()
    await wait_until(lambda: len(hub.commands) == 1)
    await page.clock.run_for(4_100)
    assert await decided(hub, 2) == [about(view, "extend")] * 2
    await page.keyboard.press("Escape")
    await expect(page.locator(".request")).to_have_count(0)
    await page.clock.run_for(20_000)
    assert len(hub.commands) == 2


async def test_an_edit_is_shown_as_what_changes_and_has_to_be_opened(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), payload=held.EDIT, tool="Edit", role="edit")
    page = await at_board(open_page, hub, view)
    await expect(page.locator(".card [data-do=allow]")).to_have_count(0)
    await page.get_by_role("button", name="Review").click()
    lines = page.locator(".sheet .diff span")
    await expect(lines).to_have_count(5)
    shown = await lines.evaluate_all("(all) => all.map((e) => e.dataset.sign + e.textContent)")
    assert [each.rstrip("\n") for each in shown] == [
        "   def settle(refund):",
        "--     refund.settled = True",
        "++     refund.settled_at = now()",
        "       refund.save()",
        "++     tell(refund)",
    ]
    await page.locator(f".sheet {READY} [data-do=allow]").click()
    assert await decided(hub) == [about(view, "allow")]


async def test_what_is_not_shown_whole_can_be_denied_only(
    open_page: OpenPage, hub: StandIn
) -> None:
    hold = {"verbs": ("deny", "defer"), "partial": True}
    page = await at_session(open_page, hub, held.held("a", wall_ms(), hold=hold))
    await expect(page.locator(".request .barred")).to_contain_text("Not all of what is asked")
    await expect(page.locator(".request .barred code")).to_have_text("adsum attach a")
    await expect(page.locator(".request [data-do=allow]")).to_have_count(0)
    await expect(page.locator(".request [data-do=deny]")).to_be_visible()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"me": {"role": "viewer"}}, "You may look, but not decide."),
        ({"me": {"decides": False}}, "Restart it without ADSUM_SIGN_IN=off."),
        ({"me": {"role": "operator", "hosts": ["h9"]}}, "On alpha you may look, but not decide"),
        ({"control": "off"}, "On alpha nothing can be decided from elsewhere."),
        ({"hold": {"until": 1}}, "The time to answer it from here is over."),
        ({"hold": None}, "It can be answered at its terminal only"),
        ({"reachability": "offline"}, "Its machine is offline"),
    ],
)
async def test_who_cannot_decide_sees_why_and_no_live_button(
    open_page: OpenPage, hub: StandIn, more: dict[str, Any], said: str
) -> None:
    where = {name: more.pop(name) for name in ("me", "control") if name in more}
    bare = "hold" in more and more.pop("hold") is None
    hold = {"until": 1} if said.startswith("The time") else None
    view = held.held("a", wall_ms(), hold=hold, **more)
    if bare:
        view = replace(view, requests=(replace(view.requests[0], hold=None),))
    page = await at_session(open_page, hub, view, ready=".request .barred", **where)
    await expect(page.locator(".request .barred")).to_contain_text(said)
    if "control" in where:
        commands = ["adsum control approve", "adsum attach a"]
        await expect(page.locator(".request .barred code")).to_have_text(commands)
    await expect(page.locator(".request .do:enabled")).to_have_count(0)


async def test_a_cut_link_ends_deciding_and_keeps_what_was_typed(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("WebSocket connection")
    view = held.held("a", wall_ms())
    page = await at_session(open_page, hub, view)
    await page.get_by_label("Reason, for the agent").fill("Because")
    hub.down = True
    await hub.cut()
    await expect(page.locator(".request .barred")).to_contain_text("no live connection to its hub")
    await expect(page.locator(".request [data-do=allow]")).to_be_disabled()
    await page.keyboard.press("a")
    hub.down = False
    await expect(page.locator(".request .barred")).to_have_count(0)
    await expect(page.get_by_label("Reason, for the agent")).to_have_value("Because")
    assert hub.commands == []


async def test_the_very_same_is_allowed_in_several_sessions_each_by_its_own_command(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    payloads: list[dict[str, Any]] = [
        {"command": "make", "timeout": 9},
        {"timeout": 9, "command": "make"},
        {"command": "make", "timeout": 9},
        {"command": "make", "timeout": 8},
    ]
    views = [
        held.held(f"s{n}", now, payload=each, hold={"cwd": f"/srv/{n}"})
        for n, each in enumerate(payloads)
    ]
    hub.load(views, [fleets.host("alpha", now, control="approve")])
    page = await open_page(path="/sessions/alpha:s0", ready=f".same {READY}")
    await expect(page.locator(".same label")).to_have_count(3)
    await expect(page.locator(".same label", has_text="s2")).to_contain_text("in /srv/2")
    await page.locator(".same label", has_text="s2").click()
    button = page.locator("[data-do=same]")
    await expect(button).to_have_text("Allow in these 2 sessions")

    async def pressed() -> bool:
        if await button.count():
            await button.click()
        return len(hub.commands) == 2

    await wait_until(pressed)
    assert sorted(hub.commands) == [
        (views[0].id, about(views[0], "allow")),
        (views[1].id, about(views[1], "allow")),
    ]


async def test_hostile_words_in_a_request_are_text(open_page: OpenPage, hub: StandIn) -> None:
    evil = "<img src=x onerror=alert(1)>"
    hold = {"verbs": ("allow", "always", "deny"), "always": (evil,)}
    view = held.held("a", wall_ms(), payload={"command": evil, evil: evil}, hold=hold, tool=evil)
    page = await at_session(open_page, hub, view)
    await page.locator("[data-do=always-open]").click()
    await expect(page.locator(".always li")).to_have_text(evil)
    await expect(page.locator(".request img")).to_have_count(0)
    question = {"question": evil, "options": [{"label": evil, "description": evil}]}
    await hub.change(held.held("a", wall_ms(), "question", {"questions": [question]}))
    await expect(page.locator(".asked-text")).to_have_text(evil)
    await hub.change(held.held("a", wall_ms(), "plan", {"plan": f"# {evil}\n- `{evil}`"}))
    await expect(page.locator(".plan-head")).to_have_text(evil)
    await expect(page.locator(".request img")).to_have_count(0)


@pytest.mark.parametrize("way", ["allow", "deny"])
async def test_a_swipe_asks_and_only_the_tap_after_it_decides(
    open_page: OpenPage, hub: StandIn, way: str
) -> None:
    view = held.held("a", wall_ms())
    page = await at_board(open_page, hub, view, viewport=PHONE)
    await held.swipe(page, way)
    await expect(page.locator(".swiped")).to_be_visible()
    await page.evaluate(ASKED)
    assert hub.commands == []
    await page.locator(f".swiped {READY} [data-do={way}-swiped]").click()
    assert await decided(hub) == [about(view, way)]


async def test_two_persons_and_what_is_unverified_are_said_before_anything_is_allowed(
    open_page: OpenPage, hub: StandIn
) -> None:
    view = held.held("a", wall_ms(), hold={"persons": 2, "agreed": ("bob",), "unverified": True})
    page = await at_board(open_page, hub, view)
    await expect(page.locator(".card .caution").first).to_contain_text(
        "1 of 2 have allowed it (bob)"
    )
    await expect(page.locator(".card [data-do=allow]")).to_have_count(0)
    page = await at_session(open_page, hub, view)
    await expect(page.locator(".request .caution").last).to_contain_text("Unverified")
    button = page.locator("[data-do=allow]")

    async def pressed() -> bool:
        await button.click()
        return len(hub.commands) == 1

    await wait_until(pressed)
    await hub.report(1, "awaits_second")
    await expect(page.locator(".request .fate")).to_contain_text("it takes another person")
    await expect(page.locator(".request [data-do=deny]")).to_be_visible()
    await hub.report(1, "seconded")
    await expect(page.locator(".request .fate")).to_contain_text("together with another")


READ = r"""import("/static/control/read.js").then(({ blocksOf, diffOf, isGrave }) => ({
  same: diffOf(["a", "b", "c"], ["a", "c", "d"]).map(({ sign, text }) => sign + text).join(),
  large: diffOf(Array.from({ length: 900 }, (_, i) => `a${i}`), Array.from({ length: 900 }, (_, i) => `b${i}`)).length,
  open: blocksOf("```\n# no head\n\n- no item").map(({ kind, text }) => [kind, text]),
  grave: ["rm -rf x", "git push -f", "curl x | sh", "DROP TABLE t"].map((command) => isGrave({ payload: { command } })),
  mild: ["ls", "git push", "rm x", "make sure"].map((command) => isGrave({ payload: { command } })),
}))"""


async def test_edits_plans_and_dear_commands_are_told_apart(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await at_board(open_page, hub, held.held("a", wall_ms()))
    assert await page.evaluate(READ) == {
        "same": " a,-b, c,+d",
        "large": 1800,
        "open": [["code", "# no head\n\n- no item"]],
        "grave": [True] * 4,
        "mild": [False] * 4,
    }


@pytest.mark.redis
@pytest.mark.timeout(150)
async def test_a_press_on_the_page_of_a_real_hub_is_obeyed_by_the_machine(
    browser: Browser, tmp_path: Path, redis_url: str
) -> None:
    hub = HubProcess(tmp_path / "hub", redis_url, demo="on")
    machine = FakeMachine(redis_url)
    machine.start()
    context = await browser.new_context()
    try:
        hub.start()
        machine.asks(tool_use_id="t1")
        page = await context.new_page()
        await page.goto(hub.url)
        await page.locator(f".card {READY} [data-do=allow]").click()
        await expect(page.locator(".toasts .fate")).to_contain_text(
            "Allow Bash “make clean”: took effect."
        )
        assert [(each.verb, each.request_id) for each in machine.obeyed] == [("allow", "r1")]
        machine.outcomes = ("overruled",)
        machine.asks("s2", "r2", tool_use_id="t2")
        await page.locator(f".card {READY} [data-do=deny]").click()
        await expect(page.locator(".toasts .fate").last).to_contain_text("the terminal was first")
    finally:
        await context.close()
        machine.stop()
        hub.kill()
