"""The way in, at a real hub in a real browser: the link, what is wrong with one, and where it leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import pytest
import pytest_asyncio
import redis
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped] # it ships none
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.brokers import Broker, running_broker
from tests.browser.addresses import ending
from tests.browser.conftest import DESK, PHONE, RECORD_VIOLATIONS
from tests.browser.test_looks import SCHEMES, overflow, resize
from tests.hub_processes import HubProcess
from tests.signing_in import asking, cookie_name, link, log_in

pytestmark = [pytest.mark.browser, pytest.mark.redis, pytest.mark.asyncio(loop_scope="session")]

Visit: TypeAlias = Callable[..., Awaitable[Page]]
SMALLEST: ViewportSize = {"width": 360, "height": 640}
#: What is said of the answers that these tests provoke.
EXPECTED = tuple(
    f"Failed to load resource: the server responded with a status of {status}"
    for status in (401, 404, 410, 503)
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path_factory.mktemp("hub") / "one", broker.url, sign_in="on")
    try:
        yield hub.start()
    finally:
        hub.kill()


@pytest.fixture(autouse=True)
def unlimited(broker: Broker) -> None:
    """These tests sign in more often than people do."""
    with redis.Redis.from_url(broker.url) as client:
        for key in client.scan_iter("adsum:{auth}:tries:*"):
            client.delete(key)


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, guarded: HubProcess) -> AsyncIterator[Visit]:
    """A page of a browser that nobody has signed in with yet; its faults fail the test."""
    contexts: list[BrowserContext] = []
    pages: list[Page] = []
    faults: list[str] = []

    async def visit(path: str, viewport: ViewportSize = DESK, **options: Any) -> Page:
        context = await browser.new_context(reduced_motion="reduce", viewport=viewport, **options)
        contexts.append(context)
        page = await context.new_page()
        pages.append(page)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        await page.add_init_script(RECORD_VIOLATIONS)
        await page.goto(guarded.url + path)
        return page

    yield visit
    for page in pages:
        faults += await page.evaluate("window.violations")
    for context in contexts:
        await context.close()
    assert [fault for fault in faults if not fault.startswith(EXPECTED)] == []


async def new_link(hub: HubProcess, role: str = "viewer") -> str:
    code = await asyncio.to_thread(link, hub, role)
    return f"/login#{code}"


async def role_of(page: Page) -> str:
    """Of whoever is signed in, as the page is told."""
    role: str = await page.evaluate(
        "fetch('/api/v1/me').then((a) => a.json()).then((me) => me.role)"
    )
    return role


@pytest.mark.browser_pass
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
async def test_a_link_signs_in_and_leaves_no_code_behind(
    visit: Visit, guarded: HubProcess, viewport: ViewportSize
) -> None:
    page = await visit(await new_link(guarded, "operator"), viewport)
    await page.wait_for_url(guarded.url + "/")

    assert await role_of(page) == "operator"
    await expect(page.locator(".pill")).to_have_text("Live")
    [cookie] = await page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (
        *(cookie_name(guarded), True, "Strict"),
    )
    assert await page.evaluate("document.cookie") == ""
    await page.go_back()
    assert "#" not in page.url


async def test_a_used_link_says_so_on_a_page_that_everybody_can_use(
    visit: Visit, guarded: HubProcess
) -> None:
    path = await new_link(guarded)
    code = path.partition("#")[2]
    assert (await asyncio.to_thread(log_in, guarded, code)).status_code == 200
    page = await visit(path)

    await expect(page.get_by_role("status")).to_contain_text("used already")
    await expect(page.get_by_role("textbox", name="Login link or code")).to_be_focused()
    assert page.url == guarded.url + "/login"
    for viewport in (DESK, PHONE, SMALLEST):
        await resize(page, viewport)
        assert await overflow(page) == 0
        sizes = await page.evaluate(
            "[...document.querySelectorAll('input, button')].map((one) => one.offsetHeight)"
        )
        assert min(sizes) >= 44
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            # Beside the policy, which is the page's: axe brings its own script.
            found = await Axe().run(page)
            assert found.response["violations"] == []


async def test_a_used_link_in_a_browser_that_is_signed_in_goes_on(
    visit: Visit, guarded: HubProcess
) -> None:
    path = await new_link(guarded)
    page = await visit(path)
    await page.wait_for_url(guarded.url + "/")
    await page.goto(guarded.url + path)
    await page.wait_for_url(guarded.url + "/")


@pytest.mark.parametrize(
    ("code", "said"),
    [("x" * 32, "No login link has this code"), ("half", "part of it is missing")],
)
async def test_a_wrong_code_says_what_is_wrong_with_it(visit: Visit, code: str, said: str) -> None:
    page = await visit(f"/login#{code}")
    await expect(page.get_by_role("status")).to_contain_text(said)


async def test_a_page_that_needs_signing_in_is_shown_after_it_with_its_filters(
    visit: Visit, guarded: HubProcess
) -> None:
    page = await visit("/list?q=a%20b&state=acting")
    await expect(page.get_by_role("heading", name="Sign in to Adsum")).to_be_visible()
    box = page.get_by_role("textbox", name="Login link or code")
    await expect(box).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("Paste the link")

    # By hand and by keyboard, and the whole link where its code would do.
    await page.keyboard.type(f"  {guarded.url}{await new_link(guarded)} ")
    await page.keyboard.press("Enter")
    await page.wait_for_url(lambda url: "/list?" in url)

    assert "q=a" in page.url
    assert "state=acting" in page.url
    await expect(page.locator(".pill")).to_have_text("Live")


ELSEWHERE = [
    "//evil.example/",
    "https://evil.example/",
    "/\\evil.example/",
    "javascript:alert(1)",
    "\\\\evil.example",
    "/login?next=/login",
    "http://[",
    "/%09/evil.example",
    "/\t/evil.example",
]


async def test_after_it_nobody_is_led_away(visit: Visit, guarded: HubProcess) -> None:
    page = await visit("/static/icon.svg")
    for wanted in ELSEWHERE:
        # First away from the dashboard, which leads to the way in once it is signed out.
        await page.goto(guarded.url + "/static/icon.svg")
        await page.context.clear_cookies()
        code = (await new_link(guarded)).partition("#")[2]
        await page.evaluate(
            "([next, code]) => location.assign(`/login?next=${encodeURIComponent(next)}#${code}`)",
            [wanted, code],
        )
        await page.wait_for_url(lambda url: "/login" not in url and "icon.svg" not in url)

        assert page.url.startswith(guarded.url + "/"), wanted


async def test_another_link_in_the_same_tab_is_taken(visit: Visit, guarded: HubProcess) -> None:
    page = await visit(f"/login#{'x' * 32}")
    await expect(page.get_by_role("status")).to_contain_text("No login link")
    code = (await new_link(guarded)).partition("#")[2]
    await page.evaluate("(code) => { location.hash = code }", code)
    await page.wait_for_url(guarded.url + "/")


async def test_a_hub_that_is_away_keeps_the_code_for_another_try(
    visit: Visit, guarded: HubProcess
) -> None:
    page = await visit("/login")
    await page.context.route("**/api/v1/login", lambda route: route.fulfill(status=503, json={}))
    code = (await new_link(guarded)).partition("#")[2]
    box = page.get_by_role("textbox", name="Login link or code")
    await box.fill(code)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("status")).to_contain_text("status 503")
    await expect(box).to_have_value(code)

    await page.context.unroute("**/api/v1/login")
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(guarded.url + "/")


async def test_whoever_is_signed_out_elsewhere_is_led_to_the_way_in_and_back(
    visit: Visit, guarded: HubProcess
) -> None:
    page = await visit(await new_link(guarded))
    await page.wait_for_url(guarded.url + "/")
    await page.goto(guarded.url + "/history?q=x")
    await expect(page.locator(".pill")).to_have_text("Live")
    # The page polls the hub until the hub returns 401. After that the page may be gone, so no script runs in it.
    await page.evaluate(
        """() => void import("/static/core/api.js").then(async ({ askHub }) => {
          while ((await askHub("/api/v1/hosts", new AbortController().signal)).status !== 401);
        })"""
    )
    [cookie] = await page.context.cookies()
    with asking(guarded, cookie=cookie["value"]) as client:
        headers = {"x-csrf-token": client.get("/api/v1/me").json()["csrf"]}
        client.post("/api/v1/logout", headers=headers)
    await page.wait_for_url(lambda url: "/login?" in url)

    await expect(page).to_have_url(ending("/login?over&next=%2Fhistory%3Fq%3Dx"))
    said = "This sign-in has expired or was revoked."
    await expect(page.get_by_role("status")).to_have_text(said)
    # By then a worker stands between the page and the hub.
    await page.goto(guarded.url + "/list")
    await page.wait_for_url(guarded.url + "/login?next=/list")


async def test_whoever_signs_out_is_told_so_and_nothing_else(
    visit: Visit, guarded: HubProcess
) -> None:
    page = await visit(await new_link(guarded))
    await page.wait_for_url(guarded.url + "/")
    await page.goto(guarded.url + "/settings")
    await page.get_by_role("button", name="Sign out").click()
    await page.wait_for_url(guarded.url + "/login?out&next=%2Fsettings")
    await expect(page.get_by_role("status")).to_have_text("You are signed out.")
    # To somebody who has yet to sign in nothing has to be explained.
    await page.goto(guarded.url + "/login?next=/list")
    await expect(page.get_by_role("textbox", name="Login link or code")).to_be_focused()
    await expect(page.locator("#said")).to_be_hidden()


async def test_what_is_to_be_typed_stands_as_code(visit: Visit) -> None:
    page = await visit(f"/login#{'x' * 32}")
    status = page.get_by_role("status")
    await expect(status).to_contain_text("No login link has this code")
    await expect(status.locator("code")).to_have_text("adsum login")
    assert "`" not in await status.inner_text()


async def test_a_viewer_is_not_offered_tests_that_would_be_refused(
    visit: Visit, guarded: HubProcess
) -> None:
    for role, may in (("viewer", False), ("operator", True)):
        page = await visit(await new_link(guarded, role))
        await page.wait_for_url(guarded.url + "/")
        await page.goto(guarded.url + "/settings")
        channels = page.get_by_role("region", name="Channels")
        button = channels.get_by_role("button", name="Send a test").first
        await expect(button).to_be_enabled(enabled=may)
        said = "" if may else "For operators and admins: you are signed in as viewer."
        await expect(channels.locator(".wish-test [role=status]").first).to_have_text(said)


async def test_what_the_page_tells_the_hub_bears_the_proof_of_its_sign_in(
    visit: Visit, guarded: HubProcess
) -> None:
    page = await visit(await new_link(guarded, "admin"))
    await page.wait_for_url(guarded.url + "/")
    told = """import('/static/core/api.js').then(({ sendToHub, me }) =>
      sendToHub('POST', '/api/v1/notify/test', {}).then(({ status }) => [status, me.value.role]))"""
    assert await page.evaluate(told) == [200, "admin"]
