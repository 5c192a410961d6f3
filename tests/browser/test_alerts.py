"""While the page is open: a notification on the desktop and a soft tone, for new needs and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.browser.own_hubs import HIDE, IN_CHARGE, OwnHub
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Watched: TypeAlias = Callable[..., Awaitable[Page]]

#: Nobody hears a test: tones are counted, two notes each.
EARS = """window.notes = window.told = 0;
const show = ServiceWorkerRegistration.prototype.showNotification;
ServiceWorkerRegistration.prototype.showNotification = async function (...told) {
  await show.apply(this, told);
  window.told += 1;
};
window.AudioContext = class {
  currentTime = 0;
  destination = {};
  resume() {}
  createGain() {
    const quiet = () => {};
    return { gain: { setValueAtTime: quiet, linearRampToValueAtTime: quiet, exponentialRampToValueAtTime: quiet }, connect: (to) => to };
  }
  createOscillator() {
    window.notes += 1;
    return { frequency: {}, connect: (to) => to, start() {}, stop() {} };
  }
};"""
#: Awaited in the page: needs are watched from now on.
LISTENS = """new Promise((tell) => {
  const fetched = ({ name }) => name.endsWith("/notifications/state.js");
  const look = () => performance.getEntriesByType("resource").some(fetched)
    ? import("/static/notifications/state.js").then(() => setTimeout(tell)) : setTimeout(look, 20);
  look();
})"""
SHOWN = """navigator.serviceWorker.ready.then((registration) => registration.getNotifications())
  .then((notes) => notes.map(({ title, body, tag, data }) => ({ title, body, tag, data })))"""
SHOW_AGAIN = """() => {
  Object.defineProperty(document, "visibilityState", { get: () => "visible", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def browser(whole_browser: Browser) -> Browser:
    return whole_browser


@pytest_asyncio.fixture(loop_scope="session")
async def hub() -> AsyncIterator[OwnHub]:
    own = await OwnHub().start()
    own.work("a", "b", "c", "d")
    own.ask("a")
    yield own
    await own.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    own = await browser.new_context(reduced_motion="reduce")
    await own.add_init_script(EARS)
    yield own
    await own.close()


@pytest_asyncio.fixture(loop_scope="session")
async def watched(context: BrowserContext, hub: OwnHub) -> Watched:
    """A page whose reader has chosen this."""

    async def opened(*, desktop: bool = False, sound: str = "off", hidden: bool = True) -> Page:
        await context.grant_permissions(["notifications"], origin=hub.url)
        page = await context.new_page()
        await page.goto(f"{hub.url}/static/vendor/LICENSE-htm.txt")
        await page.evaluate(
            """([desktop, sound]) => {
              localStorage.setItem("adsum.desktop", JSON.stringify(desktop));
              localStorage.setItem("adsum.sound", JSON.stringify(sound));
            }""",
            [desktop, sound],
        )
        await page.goto(hub.url)
        await expect(page.locator(".card")).to_have_count(4)
        await page.evaluate(IN_CHARGE)
        await page.evaluate(LISTENS)
        if hidden:
            await page.evaluate(HIDE)
        return page

    return opened


async def shown(page: Page) -> list[dict[str, Any]]:
    return list(await page.evaluate(SHOWN))


async def first_shown(page: Page) -> list[dict[str, Any]]:
    """Once it stands there. While one is being shown, asking which are makes Chromium forget it: it
    takes what it has noted and not drawn yet for one that somebody has closed."""
    await wait_until(lambda: page.evaluate("window.told"))
    return await shown(page)


async def tones(page: Page) -> int:
    return int(await page.evaluate("window.notes")) // 2


async def heard(page: Page, count: int) -> None:
    async def so() -> bool:
        return await tones(page) == count

    await wait_until(so, timeout=8)


async def test_who_begins_to_need_you_is_told_of_and_who_did_before_is_not(
    hub: OwnHub, watched: Watched
) -> None:
    page = await watched(desktop=True, sound="hidden")
    hub.ask("b")
    await heard(page, 1)

    (note,) = await first_shown(page)
    assert note["title"] == "Needs permission: Bash"
    assert note["body"] == "Title of b \u00b7 box"
    assert note["data"] == {"id": "box:b", "kind": "here", "path": "/sessions/box:b"}


async def test_many_at_once_are_one_notification_and_one_tone(
    hub: OwnHub, watched: Watched
) -> None:
    page = await watched(desktop=True, sound="always")
    hub.ask("b", "c", "d")
    await heard(page, 1)

    (note,) = await first_shown(page)
    assert note["title"] == "3 agents need you"
    assert note["data"]["path"] == "/"


async def test_a_need_that_is_met_at_once_calls_nobody(hub: OwnHub, watched: Watched) -> None:
    page = await watched(desktop=True, sound="always")
    hub.ask("b")
    await wait_until(lambda: page.evaluate("document.title.startsWith('(2)')"))
    hub.answer("b")
    hub.ask("c")
    await heard(page, 1)

    (note,) = await first_shown(page)
    assert note["data"]["id"] == "box:c"


async def test_off_is_off(hub: OwnHub, watched: Watched) -> None:
    page = await watched()
    hub.ask("b")
    # Whether it has looked at b by then: c comes later, and is told of.
    await page.evaluate(
        "import('/static/notifications/state.js').then(({ sound }) => { window.sound = sound; })"
    )
    await wait_until(lambda: page.evaluate("document.title.startsWith('(2)')"))
    await page.evaluate("new Promise((resolve) => setTimeout(resolve, 2500))")
    await page.evaluate("window.sound.value = 'always'")
    hub.ask("c")
    await heard(page, 1)

    assert await shown(page) == []


async def test_a_page_that_is_looked_at_is_quiet_unless_always(
    hub: OwnHub, watched: Watched
) -> None:
    page = await watched(desktop=True, sound="always", hidden=False)
    hub.ask("b")
    await heard(page, 1)
    await page.evaluate(
        "import('/static/notifications/state.js').then(({ sound }) => { sound.value = 'hidden'; })"
    )
    hub.ask("c")
    await wait_until(lambda: page.evaluate("document.title.startsWith('(3)')"))
    await page.evaluate("new Promise((resolve) => setTimeout(resolve, 2500))")

    assert await tones(page) == 1
    assert await shown(page) == []


async def test_where_pushes_tell_it_the_page_does_not(hub: OwnHub, watched: Watched) -> None:
    page = await watched(desktop=True, sound="always")
    await page.evaluate(
        "PushManager.prototype.getSubscription = async () => { window.looked = true; return {}; }"
    )
    hub.ask("b")
    await heard(page, 1)
    await wait_until(lambda: page.evaluate("window.looked"))
    later = "navigator.serviceWorker.ready.then((found) => found.showNotification('later'))"
    await page.evaluate(later)

    assert [note["title"] for note in await shown(page)] == ["later"]


async def test_what_is_over_is_taken_off_the_screen_once_the_page_is_looked_at(
    hub: OwnHub, watched: Watched
) -> None:
    page = await watched(desktop=True)
    hub.ask("b")
    await first_shown(page)
    await page.evaluate(SHOW_AGAIN)
    assert len(await shown(page)) == 1
    await page.evaluate(HIDE)
    hub.answer("b")
    await wait_until(lambda: page.evaluate("document.title.startsWith('(1)')"))
    await page.evaluate(SHOW_AGAIN)

    async def gone() -> bool:
        return await shown(page) == []

    await wait_until(gone)


async def test_what_was_chosen_is_kept_and_nonsense_counts_as_nothing(
    hub: OwnHub, watched: Watched
) -> None:
    page = await watched(desktop=True, sound="hidden")
    kept = "import('/static/notifications/state.js').then(({ desktop, sound }) => [desktop.value, sound.value])"
    assert await page.evaluate(kept) == [True, "hidden"]

    await page.evaluate("localStorage.setItem('adsum.desktop', '7')")
    await page.evaluate("localStorage.setItem('adsum.sound', '{')")
    await page.reload()
    assert await page.evaluate(kept) == [False, "off"]


async def test_a_window_that_nobody_sees_is_silent_while_another_is_looked_at(
    hub: OwnHub, watched: Watched
) -> None:
    hidden = await watched(desktop=True, sound="hidden")
    looked_at = await watched(desktop=True, sound="hidden", hidden=False)
    await looked_at.evaluate(
        """() => {
          window.asked = 0;
          new BroadcastChannel("adsum.windows").onmessage = ({ data }) => {
            window.asked += data === "who looks?";
          };
        }"""
    )
    hub.ask("b")

    async def asked() -> bool:
        return int(await looked_at.evaluate("window.asked")) == 1

    await wait_until(asked, timeout=8)
    # Its own time for b is over too: a timer that is as long, and set once it knows of b, ends later.
    await expect(looked_at.locator("[data-group=needs_you] .card")).to_have_count(2)
    await looked_at.evaluate("new Promise((over) => setTimeout(over, 2000))")
    await looked_at.evaluate(HIDE)
    hub.ask("c")
    # Of two that nobody sees either may play the tone.
    await first_shown(looked_at)
    (note,) = await first_shown(hidden)
    assert note["body"] == "Title of c \u00b7 box"
    assert await tones(hidden) + await tones(looked_at) >= 1
