"""A list that comes in parts: its first cards stand at once, and nothing is taken for the whole before it is."""

from __future__ import annotations

import msgspec
import pytest
from playwright.async_api import expect

from adsum_shared.state import Group
from tests.browser import fleets
from tests.browser.conftest import OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_the_first_part_stands_before_the_rest_has_come(
    open_page: OpenPage, hub: StandIn
) -> None:
    fleet = fleets.crowd(wall_ms(), 120)
    count = sum(view.state.group == "needs_you" for view in fleet[0])

    hub.load(*fleet)
    hub.first_part = 30
    page = await open_page()
    needing = page.locator("[data-group=needs_you] .count").first

    await expect(page.locator(".pill")).to_have_text("Connecting")
    # Counts tell of all that there are.
    await expect(needing).to_have_text(str(count))
    assert await page.locator(".card").count() <= 30

    hub.may_follow.set()
    await expect(page.locator(".pill")).to_have_text("Live")
    await expect(page.locator(".card")).to_have_count(120)
    await expect(needing).to_have_text(str(count))


async def test_a_list_that_broke_off_is_asked_for_anew(open_page: OpenPage, hub: StandIn) -> None:
    hub.load(*fleets.crowd(wall_ms(), 60))
    hub.first_part = 30
    page = await open_page()
    hub.first_part = None
    hub.may_follow.set()
    await hub.cut()

    await expect(page.locator(".card")).to_have_count(60)
    assert all(hello == {"epoch": None, "offset": None} for hello in hub.hellos)


async def test_whoever_came_before_it_broke_off_is_not_counted_twice(
    open_page: OpenPage, hub: StandIn
) -> None:
    fleet = fleets.crowd(wall_ms(), 120)
    count = sum(view.state.group == "needs_you" for view in fleet[0])
    hub.load(*fleet)
    hub.first_part = 90
    page = await open_page()
    needing = page.locator("[data-group=needs_you] .count").first
    await expect(needing).to_have_text(str(count))

    whole = hub.snapshot()
    groups = [view.state.group for view in whole["sessions"][20:]]
    more = {group.value: groups.count(group) for group in Group}
    part = whole | {"sessions": whole["sessions"][:20], "more": more}
    await page.evaluate(
        "async (part) => (await import('/static/core/roster.js')).applySnapshot(part)",
        msgspec.to_builtins(part),
    )

    await expect(needing).to_have_text(str(count))
    hub.may_follow.set()
    await expect(page.locator(".pill")).to_have_text("Live")


async def test_whom_no_part_names_is_gone(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    sessions = [fleets.session(name, "thinking", "…", now=now) for name in "abcd"]
    page = await open_page((sessions, []))
    hub.load(sessions[1:], [])
    hub.first_part = 1
    await hub.cut()

    await wait_until(lambda: len(hub.hellos) == 1)
    await expect(page.locator(".card")).to_have_count(4)
    hub.may_follow.set()
    await expect(page.locator(".card")).to_have_count(3)
