"""The page as an app: small, installable, there without its hub, and never stuck in an old version."""

from __future__ import annotations

import asyncio
import shutil
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, CDPSession, Error, Page, expect

from adsum_hub.app import WEB
from adsum_hub.web.assets import Assets
from tests.browser.conftest import FORGET, RECORD_VIOLATIONS
from tests.browser.own_hubs import HIDE, IN_CHARGE, OwnHub
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

#: Of the first load, over the wire, without the headers.
FIRST_LOAD = 80_000


async def with_two_sessions(hub: OwnHub) -> OwnHub:
    """Start the hub. Session b needs a permission."""
    await hub.start()
    hub.work("a", "b")
    hub.ask("b")
    return hub


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kept_hub() -> AsyncIterator[OwnHub]:
    hub = OwnHub()
    yield hub
    await hub.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def hub(kept_hub: OwnHub) -> AsyncIterator[OwnHub]:
    """The hub that most tests share, because installing the worker is most of a test's work."""
    kept_hub.wants_sign_in = False
    if kept_hub.task is None:
        await with_two_sessions(kept_hub)
    yield kept_hub
    if kept_hub.roster.views.keys() != {"box:a", "box:b"}:
        await kept_hub.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def fresh_hub() -> AsyncIterator[OwnHub]:
    """A hub at an address where no worker is installed yet."""
    hub = await with_two_sessions(OwnHub())
    yield hub
    await hub.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kept_context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A profile of its own, because a worker and its cache outlive a page."""
    own = await browser.new_context(reduced_motion="reduce")
    await own.add_init_script(RECORD_VIOLATIONS)
    yield own
    await own.close()


@pytest_asyncio.fixture(loop_scope="session")
async def context(kept_context: BrowserContext) -> AsyncIterator[BrowserContext]:
    """The profile without pages."""
    yield kept_context
    for page in kept_context.pages:
        await page.close()


async def opened(context: BrowserContext, hub: OwnHub) -> Page:
    """Return a page that has stored nothing and that the worker controls."""
    page = await context.new_page()
    await page.goto(f"{hub.url}/static/icon.svg")
    await page.evaluate(FORGET)
    await page.goto(hub.url)
    await expect(page.locator(".card")).to_have_count(2)
    await page.evaluate(IN_CHARGE)
    return page


def png_size(raw: bytes) -> str:
    assert raw.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", raw[16:24])
    return f"{width}x{height}"


async def transferred(context: BrowserContext, url: str) -> tuple[dict[str, int], int]:
    """Bytes over the wire by address, until the first card is drawn and nothing more is asked for.

    And how many of them are headers.
    """
    page = await context.new_page()
    wire: CDPSession = await context.new_cdp_session(page)
    await wire.send("Network.enable")
    asked: dict[str, str] = {}
    sizes: dict[str, int] = {}
    heads: dict[str, int] = {}

    def ask(event: dict[str, Any]) -> None:
        asked[event["requestId"]] = event["request"]["url"]

    def answer(event: dict[str, Any]) -> None:
        heads[event["requestId"]] = int(event["response"]["encodedDataLength"])

    def done(event: dict[str, Any]) -> None:
        url = asked.get(event["requestId"], "?")
        sizes[url] = sizes.get(url, 0) + int(event["encodedDataLength"])

    wire.on("Network.requestWillBeSent", ask)
    wire.on("Network.responseReceived", answer)
    wire.on("Network.loadingFinished", done)
    await page.goto(url)
    await expect(page.locator(".card").first).to_be_visible()
    await page.wait_for_load_state("networkidle")
    await page.close()
    return sizes, sum(heads.values())


@pytest.mark.browser_pass
async def test_the_first_load_is_small(browser: Browser, hub: OwnHub) -> None:
    context = await browser.new_context(service_workers="block")
    sizes, heads = await transferred(context, hub.url)
    await context.close()

    total = sum(sizes.values()) - heads
    largest = sorted(sizes.items(), key=lambda each: -each[1])[:12]
    print(f"{total} bytes in {len(sizes)} requests, and {heads} of headers; the largest:")
    print("\n".join(f"{size:7} {url.removeprefix(hub.url)}" for url, size in largest))
    assert total < FIRST_LOAD


async def test_the_manifest_is_valid_and_its_icons_are_what_they_say(hub: OwnHub) -> None:
    async with httpx.AsyncClient(base_url=hub.url, trust_env=False) as client:
        page = (await client.get("/")).text
        assert '<link rel="manifest" href="/static/manifest.webmanifest">' in page
        assert '<link rel="apple-touch-icon" href="/static/icon-apple-180.png">' in page
        answer = await client.get("/static/manifest.webmanifest")
        manifest = answer.json()
        assert answer.headers["content-type"] == "application/manifest+json"
        assert (manifest["display"], manifest["start_url"], manifest["scope"]) == (
            "standalone", "/", "/",
        )  # fmt: skip
        sizes = set()
        for icon in manifest["icons"]:
            found = await client.get(icon["src"])
            assert (found.status_code, found.headers["content-type"]) == (200, icon["type"])
            if icon["type"] == "image/png":
                assert png_size(found.content) == icon["sizes"]
                sizes.add((icon["sizes"], icon["purpose"]))
        assert {("192x192", "any"), ("512x512", "any"), ("512x512", "maskable")} <= sizes
        assert png_size((await client.get("/static/icon-apple-180.png")).content) == "180x180"
        for shortcut in manifest["shortcuts"]:
            assert "<html" in (await client.get(shortcut["url"])).text


async def test_chromium_finds_nothing_amiss_with_it(hub: OwnHub, context: BrowserContext) -> None:
    page = await opened(context, hub)
    wire = await context.new_cdp_session(page)
    found = await wire.send("Page.getAppManifest")
    reasons = (await wire.send("Page.getInstallabilityErrors"))["installabilityErrors"]

    assert found["errors"] == []
    assert [each["errorId"] for each in reasons if each["errorId"] != "in-incognito"] == []


@pytest.mark.browser_pass
async def test_the_worker_registers_under_the_policy(
    fresh_hub: OwnHub, context: BrowserContext
) -> None:
    page = await opened(context, fresh_hub)
    scope = "navigator.serviceWorker.ready.then((registration) => registration.scope)"

    assert await page.evaluate(scope) == f"{fresh_hub.url}/"
    assert await page.evaluate("window.violations") == []


async def test_nothing_of_the_roster_is_kept(hub: OwnHub, context: BrowserContext) -> None:
    page = await opened(context, hub)
    await page.evaluate("fetch('/api/v1/sessions').then((answer) => answer.text())")
    kept = await page.evaluate(
        """(async () => {
          const found = [];
          for (const name of await caches.keys())
            for (const request of await (await caches.open(name)).keys())
              found.push(new URL(request.url).pathname);
          return found;
        })()"""
    )

    assert {"/static/index.html", "/static/app.js"} <= set(kept)
    assert [path for path in kept if path.startswith(("/api", "/ws"))] == []
    stored = await page.evaluate("JSON.stringify({ ...localStorage })")
    assert "Title of" not in stored


async def test_without_its_hub_the_page_is_there_and_says_since_when(
    hub: OwnHub, context: BrowserContext
) -> None:
    page = await opened(context, hub)
    at = await page.evaluate("JSON.parse(localStorage.getItem('adsum.lastLive')).at")
    await hub.stop()

    await page.goto(hub.url)
    notice = page.locator(".notice")
    await expect(notice).to_contain_text("No answer from the hub", timeout=15_000)
    said = notice.locator(".last-live")
    await expect(said).to_contain_text("This page was last live at")
    await expect(said).to_contain_text("Then 1 needed you, 1 worked.")
    shown = await said.locator("time").get_attribute("datetime")
    assert shown is not None
    moment = await page.evaluate(f"Date.parse('{shown}')")
    assert abs(moment - at) < 15_000

    await hub.start()
    hub.work("c")
    await expect(page.locator(".card")).to_have_count(1, timeout=15_000)


#: Of another day, as a page before this one may have kept it.
LONG_AGO = """localStorage.setItem("adsum.lastLive",
  JSON.stringify({ at: Date.parse("2026-01-02T03:04:05") }))"""
#: Browsers wait longer and longer between links that fail, and so does the page.
REFUSED_AT_ONCE = """Math.random = () => 0;
WebSocket = class { constructor() { setTimeout(() => this.onclose?.({ code: 1006 })); } };"""
VIEWS = ("/", "/sessions/box:a", "/usage", "/history", "/settings")


async def test_a_page_that_was_never_live_names_no_moment_but_that_of_those_before_it(
    hub: OwnHub, context: BrowserContext
) -> None:
    page = await opened(context, hub)
    await hub.stop()
    await page.add_init_script(REFUSED_AT_ONCE)
    # From then on it notes nothing any more.
    await expect(page.locator(".pill")).not_to_have_text("Live")

    async def say(path: str) -> None:
        shown = await context.new_page()
        await shown.add_init_script(REFUSED_AT_ONCE)
        await shown.set_viewport_size({"width": 641, "height": 800})
        await shown.goto(hub.url + path)
        pill = shown.locator('.pill[data-phase="offline"]')
        await expect(pill).to_contain_text("Offline since Jan 2, 2026, 3:04:05", timeout=15_000)
        await expect(shown.locator(".last-live time")).to_contain_text("Jan 2, 2026, 3:04:05")
        assert "Last updated" not in await shown.inner_text("#app")
        assert await shown.evaluate("document.documentElement.scrollWidth <= innerWidth")

    await page.evaluate(LONG_AGO)
    await asyncio.gather(*(say(path) for path in VIEWS))
    await page.evaluate("localStorage.removeItem('adsum.lastLive')")
    await page.goto(hub.url)
    await expect(page.locator('.pill[data-phase="offline"]')).to_have_text("Offline")


async def test_an_address_of_nothing_is_a_page_that_says_so(
    hub: OwnHub, context: BrowserContext
) -> None:
    page = await opened(context, hub)
    answer = await page.goto(f"{hub.url}/hostz")

    assert answer is not None
    assert answer.status == 404
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    await expect(page.locator("main")).to_contain_text("Page not found")
    await page.get_by_role("link", name="Go to the board").click()
    await expect(page.locator(".card")).to_have_count(2)
    program = await page.evaluate("fetch('/hostz').then((answer) => answer.text())")
    assert "<html" not in program


async def test_a_hub_that_hangs_is_not_waited_for(hub: OwnHub, context: BrowserContext) -> None:
    page = await opened(context, hub)
    port = hub.port
    await hub.stop()
    with socket.create_server(("127.0.0.1", port)):  # takes connections, says nothing
        await page.goto(hub.url, timeout=15_000)
        await page.wait_for_selector("#main", timeout=15_000)


async def test_a_download_is_not_answered_with_the_page(
    hub: OwnHub, context: BrowserContext
) -> None:
    page = await opened(context, hub)

    answer = await page.goto(f"{hub.url}/api/v1/summary")
    assert answer is not None
    assert "needsYouCount" in await answer.text()


async def test_who_has_to_sign_in_again_is_led_there_through_the_worker(
    hub: OwnHub, context: BrowserContext
) -> None:
    page = await opened(context, hub)
    hub.wants_sign_in = True
    await page.goto(hub.url)
    assert page.url == f"{hub.url}/login"

    await hub.stop()
    await page.goto(hub.url)
    await expect(page.locator(".notice")).to_contain_text("No answer", timeout=15_000)


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The page of an upgraded hub."""
    web = Path(shutil.copytree(WEB, tmp_path / "web"))
    page = web / "index.html"
    page.write_text(page.read_text().replace("<title>Adsum", "<title>Adsum II"))
    script = web / "frame" / "page.js"
    script.write_text(script.read_text() + "\ndocument.documentElement.dataset.second = 'yes';\n")
    return web


async def upgrade(hub: OwnHub, web: Path) -> None:
    await hub.stop()
    hub.web = web
    await hub.start()
    hub.work("a", "b")


SECOND = "document.documentElement.dataset.second"
KEPT = "caches.keys()"


async def test_a_new_version_replaces_the_old(
    fresh_hub: OwnHub, context: BrowserContext, newer: Path
) -> None:
    page = await opened(context, fresh_hub)
    await upgrade(fresh_hub, newer)
    await page.goto(fresh_hub.url)

    await expect(page.locator(".card")).to_have_count(2)
    assert await page.evaluate(SECOND) == "yes"
    version = Assets(newer).version
    await wait_until(lambda: _is(page, KEPT, [f"adsum-page-{version}"]), timeout=10)
    await fresh_hub.stop()
    await page.goto(fresh_hub.url)
    await page.wait_for_selector("#main")
    assert await page.evaluate(SECOND) == "yes"


async def _is(page: Page, expression: str, value: Any) -> bool:
    return bool(await page.evaluate(expression) == value)


async def test_a_page_that_stays_open_learns_of_the_new_version(
    fresh_hub: OwnHub, context: BrowserContext, newer: Path
) -> None:
    page = await opened(context, fresh_hub)
    await upgrade(fresh_hub, newer)
    banner = page.get_by_role("status").filter(has_text="The hub has been upgraded.")
    await expect(banner).to_be_visible(timeout=15_000)
    assert await page.evaluate(SECOND) is None

    await banner.get_by_role("button", name="Load the new version").click()
    await wait_until(lambda: _in_new(page), timeout=10)
    await expect(banner).to_have_count(0)


async def test_a_page_nobody_looks_at_loads_it_by_itself_once(
    fresh_hub: OwnHub, context: BrowserContext, newer: Path
) -> None:
    page = await opened(context, fresh_hub)
    await page.evaluate(HIDE)
    await upgrade(fresh_hub, newer)

    await wait_until(lambda: _in_new(page), timeout=15)


async def _in_new(page: Page) -> bool:
    try:
        return await _is(page, SECOND, "yes")
    except Error:  # in the midst of being loaded anew
        return False


async def test_a_file_that_is_kept_is_not_asked_for_again(
    hub: OwnHub, context: BrowserContext
) -> None:
    page = await opened(context, hub)
    hub.asked.clear()
    await page.goto(hub.url)
    await expect(page.locator(".card")).to_have_count(2)

    assert [path for path in hub.asked if path.startswith("/static/")] == []
    assert "/" in hub.asked


async def test_the_hint_to_install_is_shown_once(hub: OwnHub, context: BrowserContext) -> None:
    page = await opened(context, hub)
    ask = """() => {
      const event = new Event("beforeinstallprompt");
      event.prompt = async () => { window.asked = true; };
      dispatchEvent(event);
    }"""
    await page.evaluate(ask)
    hint = page.get_by_role("complementary", name="Install")
    await expect(hint).to_contain_text("Adsum can be an app.")
    await hint.get_by_role("button", name="Not now").click()
    await expect(hint).to_have_count(0)

    await page.reload()
    await expect(page.locator(".card")).to_have_count(2)
    await page.wait_for_function("document.documentElement.dataset.version")
    await page.evaluate("import('/static/install/state.js')")
    await page.evaluate(ask)
    await expect(hint).to_have_count(0)
    await page.evaluate(SHOW)
    await page.get_by_role("button", name="Install").click()
    assert await page.evaluate("window.asked")


#: A component that the settings show, drawn by itself.
SHOW = """async () => {
  const [{ InstallSettings }, { h, render }] = await Promise.all([import("/static/install/view.js"), import("/static/vendor/preact.js")]);
  const place = document.body.appendChild(document.createElement("div"));
  place.id = "alone";
  render(h(InstallSettings, {}), place);
}"""


@pytest.mark.browser_pass
async def test_every_script_is_one_as_it_is_sent(browser: Browser) -> None:
    """Comments are left out of them: none may lose more than these."""
    page = await browser.new_page()
    scripts = {
        name: asset.plain.decode()
        for name, asset in Assets(WEB).files.items()
        if name.endswith(".js")
    }
    wrong = await page.evaluate(
        """async (scripts) => {
          const wrong = [];
          for (const [name, text] of Object.entries(scripts)) {
            const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
            // What it imports is not found from there, which is said after it was read.
            await import(url).catch((error) => error instanceof SyntaxError && wrong.push(`${name}: ${error}`));
          }
          return wrong;
        }""",
        scripts,
    )
    await page.close()

    assert wrong == []


async def test_the_last_live_moment_survives_what_is_no_json(
    hub: OwnHub, context: BrowserContext
) -> None:
    page = await opened(context, hub)
    await hub.stop()
    await expect(page.locator(".pill")).not_to_have_text("Live")
    await page.evaluate("localStorage.setItem('adsum.lastLive', '{')")
    await page.goto(hub.url)

    await expect(page.locator(".notice")).to_contain_text("No answer", timeout=15_000)
    await expect(page.locator(".last-live")).to_have_count(0)
