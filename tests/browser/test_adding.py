"""Adding a machine: the line to type, who may have one, what stands there until it is here, lines revoked."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser import fleets
from tests.browser.conftest import OpenPage, wall_ms
from tests.browser.standin import StandIn
from tests.browser.test_looks import look_faults
from tests.browser.test_usage import tall_enough

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SHEET = ".sheet[data-name=add_machine]"


async def adding(open_page: OpenPage, hub: StandIn, role: str = "admin", **options: Any) -> Page:
    now = wall_ms()
    hub.load([], [fleets.host("alpha", now), fleets.host("beta", now, "offline")])
    hub.me = {"name": "you", "role": role, "csrf": "c", "sign_in": True}
    page = await open_page(path="/hosts", ready=".machine", **options)
    await page.get_by_role("button", name="Add a machine").click()
    await page.wait_for_selector(f"{SHEET} .adding > p")
    return page


async def test_a_line_is_made_and_the_machine_comes(open_page: OpenPage, hub: StandIn) -> None:
    page = await adding(open_page, hub)
    await page.get_by_label("Name (optional)").fill("mini-3")
    await page.get_by_role("button", name="Create the command").click()

    line = page.locator(f"{SHEET} .adding-line > .command code")
    await expect(line).to_contain_text("adsum join https://hub.example.net --token adsum_join_t0")
    assert (hub.tokens["t0"].label, hub.tokens["t0"].reusable) == ("mini-3", False)
    await page.get_by_role("button", name="Copy adsum join").first.click()
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied == await line.inner_text()
    come = page.locator(".adding-come")
    await expect(come).to_contain_text("Waiting for its first signal")

    await hub.change(hosts=(fleets.host("mini-3", wall_ms()),))

    await expect(come).to_contain_text("mini-3 is connected")
    await come.get_by_role("link", name="Show it").click()
    await expect(page.locator(SHEET)).to_have_count(0)
    await expect(page.locator("[data-machine=mini-3][data-open=true]")).to_be_visible()


async def test_a_machine_that_comes_back_is_here_too(open_page: OpenPage, hub: StandIn) -> None:
    page = await adding(open_page, hub)
    await page.get_by_role("button", name="Create the command").click()
    await page.wait_for_selector(".adding-come")
    await hub.change(hosts=(fleets.host("beta", wall_ms()),))

    await expect(page.locator(".adding-come")).to_contain_text("beta is connected")


async def test_the_token_need_not_stand_in_a_history(open_page: OpenPage, hub: StandIn) -> None:
    page = await adding(open_page, hub)
    await page.get_by_role("button", name="Create the command").click()
    await page.get_by_text("out of the shell").click()

    quiet = page.locator(".adding-quiet")
    await expect(quiet.locator(".command code")).to_have_text(
        "adsum join https://hub.example.net --token -"
    )
    await expect(quiet.locator(".adding-token code")).to_contain_text("adsum_join_t0")


async def test_lines_are_listed_and_revoked(open_page: OpenPage, hub: StandIn) -> None:
    page = await adding(open_page, hub)
    await page.get_by_label("The command is valid for").select_option("many")
    await page.get_by_label("It expires after").select_option("a week")
    await page.get_by_role("button", name="Create the command").click()
    row = page.locator(".adding-list li")
    await expect(row).to_contain_text("not used yet")
    assert hub.tokens["t0"].until - hub.tokens["t0"].since == 7 * 24 * 3_600_000

    await page.get_by_role("button", name="Revoke t0").click()

    await expect(row).to_have_count(0)
    assert hub.tokens == {}


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_whoever_may_not_is_told_who_may(
    open_page: OpenPage, hub: StandIn, role: str
) -> None:
    hub.refuses_tokens = ({"error": "asked all the same"}, 403)
    page = await adding(open_page, hub, role)

    sheet = page.locator(SHEET)
    await expect(sheet).to_contain_text(f"for admins, and you are signed in as {role}")
    await expect(sheet).to_contain_text("adsum hub tokens create --join")
    await expect(sheet.locator("form")).to_have_count(0)


async def test_a_refusal_says_why(
    open_page: OpenPage, hub: StandIn, expected_faults: list[str]
) -> None:
    expected_faults.append("Failed to load resource")
    page = await adding(open_page, hub)
    hub.refuses_tokens = (
        {"error": "Redis refuses: no permission.", "next": "Give the hub +acl."}, 409,
    )  # fmt: skip
    await page.get_by_role("button", name="Create the command").click()

    await expect(page.get_by_role("alert")).to_contain_text("Give the hub +acl.")


async def test_a_hub_without_sign_in_says_that_it_is_alone(
    open_page: OpenPage, hub: StandIn
) -> None:
    hub.load(*fleets.full(wall_ms()))
    page = await open_page(path="/hosts#add", ready=f"{SHEET} .adding-note")

    await expect(page.locator(".adding-note")).to_contain_text("answers on its own machine only")


async def test_a_warning_of_the_hub_stands_with_the_line(open_page: OpenPage, hub: StandIn) -> None:
    page = await adding(open_page, hub)
    hub.note = "The hub is at a loopback address."
    await page.get_by_role("button", name="Create the command").click()

    await expect(page.locator(".adding-note")).to_contain_text("loopback")


async def test_it_is_shown_accessibly(open_page: OpenPage, hub: StandIn) -> None:
    page = await adding(open_page, hub)
    assert await look_faults(page) == []
    # By keys alone, from the button on.
    await page.get_by_role("button", name="Create the command").press("Enter")
    await expect(page.locator("#adding-line")).to_be_focused()
    await page.get_by_text("out of the shell").press("Enter")
    await expect(page.locator(".adding-list li")).to_have_count(1)
    assert await look_faults(page) == []
    assert await tall_enough(page, SHEET) == []
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Add a machine")).to_be_focused()
