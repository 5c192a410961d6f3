"""What a section's head counts, what a card says it did last, and that a permission stands out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from adsum_shared.state import ReviewView
from tests.browser import fleets
from tests.browser.conftest import OpenPage, wall_ms
from tests.browser.test_looks import SIZES, look_faults, resize

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

REVIEW = ReviewView("2 commits on " + "long/" * 30, 2, 1, "a1b2c3d", "long/" * 30)
SAID = "I have moved it, <b>and</b> all tests pass. " * 9


def delivering() -> fleets.Fleet:
    sessions, hosts = fleets.full(wall_ms())
    rests = {"idle", "task_complete"}
    return [
        replace(view, review=REVIEW, last_answer=SAID)
        if view.state.state in rests
        else replace(view, updated_at=view.state.since + 20_000)
        if view.state.state == "delegating"
        else view
        for view in sessions
    ], hosts


async def test_states_reviews_and_last_words_are_shown_accessibly(open_page: OpenPage) -> None:
    page = await open_page(delivering())

    needs = page.locator(".section[data-group=needs_you]")
    await expect(needs.locator(".counts")).to_have_text(
        "2 permissions · 1 question · 1 failed · 1 plan · 1 over budget · 1 stuck · 2 idle · "
        "2 to review"
    )
    await expect(needs.locator(".to-review").first).to_contain_text("to review: 2 commits")
    await expect(needs.locator(".latest").first).to_contain_text("moved it, <b>and</b> all")
    # Only where it says more than since when its state is what it is.
    await expect(page.locator("[data-state=delegating] .meta")).to_contain_text("active")
    await expect(page.locator("[data-state=queued] .meta")).not_to_contain_text("active")
    for size in SIZES.values():
        await resize(page, size)
        # The head of a phone is painted, since it stays while cards go by below it.
        covered = await needs.evaluate(
            """it => it.querySelector('.section-head').getBoundingClientRect().bottom
              - it.querySelector('.counts').getBoundingClientRect().top"""
        )
        assert covered <= 0
    assert await look_faults(page) == []


async def test_a_permission_is_drawn_more_urgently_than_any_other_need(open_page: OpenPage) -> None:
    page = await open_page(delivering())

    drawn = await page.locator(
        ".section[data-group=needs_you] .card:not(.card-absent)"
    ).evaluate_all(
        "(all) => all.map((card) => [card.dataset.state,"
        " getComputedStyle(card.querySelector('.badge')).backgroundColor])"
    )
    filled = {state for state, colour in drawn if colour != "rgba(0, 0, 0, 0)"}
    assert filled == {"needs_permission"}
