"""The connection: lost, silent, resumed, refused; and what the page says meanwhile."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser import fleets
from tests.browser.conftest import ASKED, OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HANDSHAKE = "WebSocket connection to"


async def test_the_first_hello_asks_for_everything(open_page: OpenPage, hub: StandIn) -> None:
    page = await open_page(fleets.full(wall_ms()))

    assert hub.hellos == [{"epoch": None, "offset": None}]
    await expect(page.locator(".pill")).to_have_text("Live")


@pytest.mark.browser_pass
async def test_a_cut_connection_resumes_where_it_was(open_page: OpenPage, hub: StandIn) -> None:
    now = wall_ms()
    page = await open_page(([fleets.session("a", "thinking", "…", now=now)], []))
    await hub.change(fleets.session("b", "thinking", "…", now=now))
    await expect(page.locator(".card")).to_have_count(2)

    await hub.cut()
    hub.clients.clear()
    await hub.change(fleets.session("c", "thinking", "missed", now=now))

    await expect(page.locator(".card")).to_have_count(3)
    assert hub.hellos[1] == {"epoch": hub.epoch, "offset": 1}
    await expect(page.locator(".pill")).to_have_text("Live")


async def test_a_resumed_connection_is_live_though_the_hub_has_nothing_new(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await hub.cut()
    await wait_until(lambda: len(hub.hellos) == 2)

    await expect(page.locator(".pill")).to_have_text("Live", timeout=2000)


async def test_a_hub_that_started_anew_sends_a_snapshot_that_replaces_all(
    open_page: OpenPage, hub: StandIn
) -> None:
    now = wall_ms()
    page = await open_page(fleets.full(now))
    before = hub.epoch
    hub.load([fleets.session("only", "thinking", "…", now=now)], [fleets.host("alpha", now)])
    await hub.cut()

    await expect(page.locator(".card")).to_have_count(1)
    assert hub.hellos[-1]["epoch"] == before
    await expect(page.locator(".host")).to_have_count(1)


@pytest.mark.parametrize(
    "stray",
    [
        {"type": "deltas", "epoch": "another", "offset": 1, "now": 0},
        {"type": "tick", "offset": 7},
        {"type": "deltas", "offset": -1},
    ],
    ids=["unknown epoch", "tick ahead of us", "offset behind us"],
)
async def test_a_message_that_does_not_follow_makes_the_page_ask_for_everything(
    open_page: OpenPage, hub: StandIn, stray: dict[str, object]
) -> None:
    page = await open_page(fleets.full(wall_ms()))
    await hub.tell(hub.message("tick") | stray)
    await wait_until(lambda: len(hub.hellos) == 2)

    assert hub.hellos[1] == {"epoch": None, "offset": None}
    await expect(page.locator(".pill")).to_have_text("Live")


async def test_a_connection_that_fell_silent_is_opened_again(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await open_page(fleets.full(wall_ms()), clock=True)
    await page.clock.fast_forward(9_000)
    await hub.tell(hub.message("tick"))
    await page.evaluate(ASKED)
    await page.clock.fast_forward(9_000)
    assert len(hub.hellos) == 1

    await page.clock.fast_forward(3_000)
    await wait_until(lambda: len(hub.hellos) == 2)
    assert hub.hellos[1] == {"epoch": hub.epoch, "offset": 0}


async def test_a_frozen_hub_is_owned_up_to_after_two_missed_ticks(
    open_page: OpenPage, hub: StandIn
) -> None:
    """Its machine goes on taking connections, so none is refused and none is answered."""
    page = await open_page(fleets.full(wall_ms()), clock=True)
    hub.may_greet.clear()
    await page.clock.run_for(9_000)
    await expect(page.locator(".pill")).to_have_text("Live")
    await page.clock.run_for(3_000)
    await expect(page.locator(".pill")).to_contain_text("Reconnecting since")
    await page.clock.run_for(45_000)
    await expect(page.locator(".banner")).to_contain_text("Last updated at")

    hub.may_greet.set()
    await page.clock.run_for(10_000)
    await expect(page.locator(".pill")).to_have_text("Live")


@pytest.mark.browser_pass
async def test_a_lost_hub_is_owned_up_to_and_the_page_recovers(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append(HANDSHAKE)
    now = wall_ms()
    page = await open_page(([fleets.session("a", "idle", "Ready", now=now, age=1000)], []))
    hub.down = True
    await hub.cut()
    await expect(page.locator(".pill")).to_contain_text("Reconnecting since")
    await expect(page.locator(".pill")).to_contain_text("Offline since", timeout=15_000)
    await expect(page.locator(".banner")).to_contain_text("Last updated at")
    await expect(page).to_have_title("Offline · (1) Adsum")

    hub.down = False
    await expect(page.locator(".pill")).to_have_text("Live", timeout=20_000)
    await expect(page.locator(".banner")).to_have_count(0)
    await expect(page).to_have_title("(1) Adsum")


async def test_ages_stand_still_while_the_page_is_not_live(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append(HANDSHAKE)
    now = wall_ms()
    view = fleets.session("a", "idle", "Ready", now=now, age=5 * 60_000)
    page = await open_page(([view], []), clock=True)
    hub.down = True
    await hub.cut()
    await expect(page.locator(".pill")).to_contain_text("since")
    await page.clock.fast_forward(3_600_000)

    await expect(page.locator(".card .age")).to_have_text("5m")
