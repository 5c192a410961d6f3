"""Pushes end to end: a real hub, a push service on loopback, a real worker, what is shown of it.

No Chromium subscribes to a push service on loopback: it asks its maker's. So the page is given the
subscription of a browser of ours, and what the hub has sealed for that one is opened and handed to
the real worker, which shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import pytest_asyncio
from playwright.async_api import Browser as Chromium
from playwright.async_api import BrowserContext, Page, Worker, expect

from adsum_shared.connect import open_redis
from adsum_shared.signals import PromptSubmitted, RequestOpened, TurnEnded, encode_signal
from tests.browser.conftest import ASKED, RECORD_VIOLATIONS, wall_ms
from tests.browser.own_hubs import ELSEWHERE, HIDE, IN_CHARGE, OF_OTHERS
from tests.deciding import FakeMachine
from tests.half_hubs import HOST as MACHINE
from tests.half_hubs import FakeCollector
from tests.hub_processes import HubProcess
from tests.post_boxes import Browser, PostBox, post_box
from tests.support import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.redis,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(90),
]

RULES = [
    {"channels": ["push"], "after": 1},
    {"channels": ["push"], "on": "delivered", "after": 1},
    {
        "channels": ["hook"],
        "on": "host_offline",
        "after": 300,
        "digest": 900,
        "host": ["ci-*"],
        "quiet": {"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"},
    },
]
Settings: TypeAlias = Callable[..., Awaitable[Page]]


@pytest.fixture
def browser(whole_browser: Chromium) -> Chromium:
    return whole_browser


@pytest.fixture
def box() -> Iterator[PostBox]:
    with post_box() as box:
        yield box


@pytest.fixture
def hub(tmp_path: Path, redis_url: str, box: PostBox) -> Iterator[HubProcess]:
    hub = HubProcess(
        tmp_path / "hub",
        redis_url,
        notify=json.dumps(RULES),
        channel=json.dumps([{"name": "hook", "url": box.webhook}]),
        push_allow_private="1",
        demo="on",
    )
    yield hub.start()
    hub.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def collector(redis_url: str, hub: HubProcess) -> AsyncIterator[FakeCollector]:
    """A machine that is heard of all the time."""
    redis = open_redis(redis_url)
    machine = FakeCollector(redis)
    await machine.join()

    async def beat() -> None:
        while True:
            await machine.beat()
            await asyncio.sleep(1)

    beating = asyncio.create_task(beat())
    await wait_until(lambda: hub.host(machine.host_id))
    yield machine
    beating.cancel()
    await redis.aclose()


async def tell(collector: FakeCollector, *signals: Any) -> None:
    first = len(collector.signals) + 1
    collector.signals += [encode_signal(each) for each in signals]
    await collector.beat()
    await collector.publish(first, len(collector.signals))


async def ask_permission(collector: FakeCollector, session: str) -> None:
    about = {"session_id": session, "at": wall_ms(), "seen": wall_ms()}
    await tell(
        collector,
        PromptSubmitted(prompt_id="p", text="go", **about),
        RequestOpened(request_id="r", request_kind="permission", tool="Bash", **about),
    )


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Chromium, hub: HubProcess) -> AsyncIterator[BrowserContext]:
    own = await browser.new_context(reduced_motion="reduce")
    await own.add_init_script(RECORD_VIOLATIONS)
    yield own
    await own.close()


SHOW = """async () => {
  const [{ View }, { h, render }] = await Promise.all([import("/static/notifications/view.js"), import("/static/vendor/preact.js")]);
  for (const name of ["ui/panel", "notifications/notifications"]) {
    const link = document.head.appendChild(document.createElement("link"));
    Object.assign(link, { rel: "stylesheet", href: `/static/${name}.css` });
    await new Promise((resolve) => link.addEventListener("load", resolve));
  }
  const place = document.body.appendChild(document.createElement("main"));
  place.id = "alone";
  document.getElementById("app").remove();
  render(h(View, {}), place);
}"""


REFUSED = """Object.defineProperty(Notification, "permission", { get: () => "denied" });
Notification.requestPermission = async () => "denied";"""


@pytest_asyncio.fixture(loop_scope="session")
async def settings(
    context: BrowserContext, hub: HubProcess, box: PostBox
) -> AsyncIterator[Settings]:
    """The settings of notifications, by themselves, in a browser of that name."""

    async def opened(phone: Browser, *, allowed: bool = True) -> Page:
        page = await context.new_page()
        if allowed:
            await context.grant_permissions(["notifications"], origin=hub.url)
        else:
            await page.add_init_script(REFUSED)
        await page.add_init_script(f"({ELSEWHERE})({json.dumps(phone.subscription)})")
        await page.goto(hub.url)
        await page.wait_for_selector("#main")
        await page.evaluate(IN_CHARGE)
        await page.evaluate(SHOW)
        return page

    yield opened
    for page in context.pages:
        assert await page.evaluate("window.violations ?? []") == []


async def worker_of(context: BrowserContext) -> Worker:
    found = await wait_until(lambda: context.service_workers)
    return found[-1]  # type: ignore[no-any-return]


async def deliver(page: Page, hub: HubProcess, payload: str) -> None:
    """To the real worker, as the browser does when its push service has sent something."""
    wire = await page.context.new_cdp_session(page)
    known: set[str] = set()

    def learn(event: dict[str, Any]) -> None:
        ours = [each for each in event["registrations"] if each["scopeURL"] == f"{hub.url}/"]
        known.update(each["registrationId"] for each in ours if not each["isDeleted"])

    wire.on("ServiceWorker.workerRegistrationUpdated", learn)
    await wire.send("ServiceWorker.enable")
    await wait_until(lambda: known)
    (registration,) = known
    await wire.send(
        "ServiceWorker.deliverPushMessage",
        {"origin": hub.url, "registrationId": registration, "data": payload},
    )
    await wire.detach()


NOTES = """navigator.serviceWorker.ready
  .then((registration) => registration.getNotifications())
  .then((notes) => notes.map(({ title, body, tag, data, silent }) => ({ title, body, tag, data, silent })))"""


async def shown(page: Page, count: int) -> list[dict[str, Any]]:
    async def found() -> Any:
        notes = await page.evaluate(NOTES)
        return (notes or [None]) if len(notes) == count else None

    notes = await wait_until(found, timeout=40, interval=0.2)  # asked too often, it shows nothing
    return [] if notes == [None] else notes  # type: ignore[no-any-return]


async def delivered(
    page: Page, hub: HubProcess, payload: str, title: str | None = None
) -> list[dict[str, Any]]:
    """What is shown then. A browser now and then starts the worker too late for a message: sent again.

    title: of what is to be shown; None: whatever.
    """

    async def found() -> Any:
        notes = await page.evaluate(NOTES)
        return notes if title is None or [note["title"] for note in notes] == [title] else None

    async def is_shown() -> Any:
        await deliver(page, hub, payload)
        with contextlib.suppress(AssertionError):
            return await wait_until(found, timeout=4, interval=0.2)
        return None

    return await wait_until(is_shown, timeout=30)  # type: ignore[no-any-return]


CLICK = """([tag, how]) => registration.getNotifications({ tag }).then(([notification]) => {
  if (how === "alone") {
    clients.matchAll = async () => [];
    clients.openWindow = async (url) => { self.opened = url; };
  }
  dispatchEvent(new NotificationEvent("notificationclick", { notification }));
})"""


async def test_a_need_on_a_machine_is_shown_by_the_worker_and_leads_to_its_session(
    hub: HubProcess,
    collector: FakeCollector,
    box: PostBox,
    context: BrowserContext,
    settings: Settings,
) -> None:
    phone = Browser(box)
    page = await settings(phone)
    push = page.get_by_role("region", name="Push notifications")
    await push.get_by_role("button", name="Turn on").click()
    await expect(push).to_contain_text("1 browser receives push notifications from this hub.")
    await expect(push.locator("[data-push=on]")).to_be_visible()
    await page.evaluate(HIDE)

    await ask_permission(collector, "s")
    await wait_until(phone.arrived, timeout=20)
    (told,) = phone.opened()
    assert told["needing"] == 1
    (note,) = await delivered(page, hub, json.dumps(told))
    session = f"{collector.host_id}:s"
    assert (note["title"], note["body"]) == ("Needs permission", "on lab")
    assert note["tag"] == told["topic"]
    assert note["data"] == {"id": session, "kind": "needs_you", "path": f"/sessions/{session}"}

    # A later state of the same session takes its place.
    about = {"session_id": "s", "at": wall_ms(), "seen": wall_ms()}
    await tell(collector, TurnEnded(prompt_id="p", last_message="Done.", **about))
    newer = {**told, "title": "Finished", "urgency": "low"}
    (note,) = await delivered(page, hub, json.dumps(newer), title="Finished")
    assert note["silent"]

    worker = await worker_of(context)
    await worker.evaluate(CLICK, [told["topic"], "window"])
    await page.wait_for_url(f"{hub.url}/sessions/{session}")
    assert await shown(page, 0) == []


async def test_a_click_opens_a_window_where_there_is_none(
    hub: HubProcess, box: PostBox, context: BrowserContext, settings: Settings
) -> None:
    page = await settings(Browser(box))
    await page.evaluate(HIDE)
    worker = await worker_of(context)
    for kind, name, path in (
        ("needs_you", "a:b/c", "/sessions/a:b%2Fc"),
        ("host_offline", "a", "/hosts"),
        ("digest", None, "/"),
        ("test", None, "/settings"),
        ("needs_you", "//evil.example", "/sessions/%2F%2Fevil.example"),
    ):
        payload = {"title": "t", "body": "b", "topic": f"{kind} {name}", "kind": kind, "id": name}
        assert len(await delivered(page, hub, json.dumps(payload))) == 1
        await worker.evaluate(CLICK, [payload["topic"], "alone"])
        await shown(page, 0)
        assert await worker.evaluate("self.opened") == path


async def test_a_push_that_cannot_be_read_is_shown_all_the_same(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    page = await settings(Browser(box))
    for payload in ("", "no json", "null", "7", '{"title": null}', '{"at": "x"}'):
        before = len(await page.evaluate(NOTES))

        async def is_shown(payload: str = payload, before: int = before) -> bool:
            # A busy browser now and then starts the worker too late for the message: send it again.
            await deliver(page, hub, payload)
            with contextlib.suppress(AssertionError):
                await wait_until(lambda: _more(page, before), timeout=4)
                return True
            return False

        await wait_until(is_shown, timeout=20)
        words = {(note["title"], note["body"]) for note in await page.evaluate(NOTES)}
        assert words == {("Adsum", "Open the page to see what has changed.")}


async def _more(page: Page, before: int) -> bool:
    return len(await page.evaluate(NOTES)) > before


async def test_text_of_an_agent_is_text_in_a_notification(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    page = await settings(Browser(box))
    hostile = {"title": "<img src=x onerror=alert(1)>", "body": {"a": 1}, "topic": ["x"], "id": 7}
    (note,) = await delivered(page, hub, json.dumps(hostile))
    assert note["title"] == hostile["title"]
    assert note["data"]["path"] == "/"


async def test_the_test_button_says_how_it_went(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    phone = Browser(box)
    page = await settings(phone)
    channels = page.get_by_role("region", name="Channels")
    await channels.get_by_role("button", name="Send a test: push").click()
    await expect(channels).to_contain_text("Not sent: No browser has subscribed yet.")

    push = page.get_by_role("region", name="Push notifications")
    await push.get_by_role("button", name="Turn on").click()
    button = push.get_by_role("button", name="Send a test")
    await expect(button).to_be_visible()
    await wait_until(lambda: _tested(button, push), timeout=30, interval=1)
    told = phone.opened()[-1]  # asked for more than once where the answer came late
    await page.evaluate(HIDE)
    (note,) = await delivered(page, hub, json.dumps(told))
    assert note["title"] == "Test from Adsum"


async def _tested(button: Any, push: Any) -> bool:
    """The hub sends one in five seconds, and says so."""
    await button.click()
    await expect(push.locator(".wish-test [role=status]")).not_to_have_text("")
    return "Sent." in await push.inner_text()


async def test_off_means_that_hub_and_browser_forget_it(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    page = await settings(Browser(box))
    push = page.get_by_role("region", name="Push notifications")
    await push.get_by_role("button", name="Turn on").click()
    await push.get_by_role("button", name="Turn off").click()
    await expect(push.locator("[data-push=off]")).to_be_visible()
    await expect(push).to_contain_text("0 browsers receive push notifications from this hub.")

    assert hub.get("/api/v1/notify")["subscriptions"] == 0
    assert await page.evaluate("window.unsubscribed") is not None


async def test_another_key_of_the_hub_is_met_by_subscribing_anew(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    page = await settings(Browser(box))
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.locator("[data-push=on]")).to_be_visible()
    hub.stop()
    (Path(hub.env["ADSUM_STATE_DIR"]) / "push-key.pem").unlink()
    hub.start()
    status = hub.get("/api/v1/notify")
    assert (status["subscriptions"], status["others"]) == (0, 1)

    await page.reload()
    await wait_until(lambda: hub.get("/api/v1/notify")["subscriptions"] == 1, timeout=30)
    kept = await page.evaluate("localStorage.getItem('elsewhere')")
    assert kept == status["public_key"]


async def test_a_hub_that_has_lost_its_list_learns_of_the_browser_again(
    hub: HubProcess, box: PostBox, settings: Settings, redis_url: str
) -> None:
    page = await settings(Browser(box))
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.locator("[data-push=on]")).to_be_visible()
    redis = open_redis(redis_url)
    await redis.flushall()
    await redis.aclose()
    assert hub.get("/api/v1/notify")["subscriptions"] == 0

    await page.reload()
    await wait_until(lambda: hub.get("/api/v1/notify")["subscriptions"] == 1, timeout=30)


async def test_a_hub_that_is_away_as_a_page_is_loaded_loses_no_browser(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    page = await settings(Browser(box))
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.locator("[data-push=on]")).to_be_visible()
    away = {"error": "Redis does not answer.", "next": "Wait."}
    address = "**/api/v1/notify/subscriptions"
    await page.route(address, lambda route: route.fulfill(status=503, json=away))
    async with page.expect_response(address):
        await page.reload()
    await page.evaluate(ASKED)

    assert await page.evaluate("localStorage.getItem('elsewhere')") is not None


async def test_the_push_service_gave_up_an_address_and_the_worker_subscribes_anew(
    hub: HubProcess, box: PostBox, context: BrowserContext, settings: Settings
) -> None:
    old, fresh = Browser(box, "old"), Browser(box, "fresh")
    page = await settings(old)
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.locator("[data-push=on]")).to_be_visible()
    worker = await worker_of(context)
    await worker.evaluate(
        """(fresh) => {
          PushManager.prototype.subscribe = async (options) => {
            self.key = options.applicationServerKey;
            return { endpoint: fresh.endpoint, toJSON: () => fresh };
          };
        }""",
        fresh.subscription,
    )
    change = """(old) => dispatchEvent(Object.assign(
      new ExtendableEvent("pushsubscriptionchange"), { oldSubscription: old, newSubscription: null }))"""
    await worker.evaluate(change, old.subscription)
    await wait_until(lambda: worker.evaluate("self.key"))

    assert await worker.evaluate("self.key") == hub.get("/api/v1/notify")["public_key"]

    async def told_of_the_fresh_one_alone() -> bool:
        before = len(old.arrived())
        await page.evaluate(
            """() => fetch("/api/v1/notify/test", { method: "POST", body: '{"channel": "push"}',
              headers: { "content-type": "application/json" } })"""
        )
        return bool(fresh.arrived()) and len(old.arrived()) == before

    # The old one is taken off the list after the fresh one was put on it.
    await wait_until(told_of_the_fresh_one_alone, timeout=15, interval=1)
    await wait_until(lambda: hub.get("/api/v1/notify")["subscriptions"] == 1, timeout=30)


async def test_a_refusal_is_told_with_the_way_back(
    hub: HubProcess, box: PostBox, context: BrowserContext, settings: Settings
) -> None:
    page = await settings(Browser(box), allowed=False)
    push = page.get_by_role("region", name="Push notifications")
    await expect(push).to_contain_text("Notifications are blocked for this address")
    await expect(push).to_contain_text("In Chrome: press the icon left of the address")
    await expect(push.get_by_role("button")).to_have_count(0)

    box_ = page.get_by_role("checkbox", name="Show desktop notifications")
    await box_.click()
    await expect(page.get_by_role("alert")).to_contain_text("Not allowed for this address.")
    await expect(box_).not_to_be_checked()


async def test_a_browser_that_cannot_subscribe_says_why(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    page = await settings(Browser(box))
    await page.evaluate("window.refuses = 'AbortError'")
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("alert")).to_contain_text("could not reach its push service")
    await expect(page.locator("[data-push=off]")).to_be_visible()


async def test_rules_channels_and_their_failures_are_told_in_words(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    box.statuses["/T0kenPath"] = 403
    page = await settings(Browser(box))
    rules = page.get_by_role("region", name="Notifications", exact=True).get_by_role("listitem")
    await expect(rules).to_have_count(3)
    await expect(rules.nth(0)).to_have_text("Needs you to push, at once")
    for words in ("A machine is offline", "after 5m", "machine ci-*", "each 15m", "22:00-07:00"):
        await expect(rules.nth(2)).to_contain_text(words)

    channels = page.get_by_role("region", name="Channels")
    await channels.get_by_role("button", name="Send a test: hook").click()
    hook = channels.get_by_role("listitem").filter(has_text="hook")
    await expect(hook).to_contain_text("Not sent:", timeout=15_000)
    await expect(hook.locator(".wish-wrong")).to_contain_text("1 failure, the last")
    await expect(hook).to_have_attribute("data-bad", "true")
    text = await page.inner_text("body")
    assert "S3cretWord" not in text
    assert "T0kenPath" not in text


async def test_the_settings_are_accessible_in_both_schemes(
    hub: HubProcess, box: PostBox, settings: Settings
) -> None:
    from axe_playwright_python.async_playwright import Axe

    page = await settings(Browser(box))
    # The choices below move down when the button appears.
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.locator("[data-push=on]")).to_be_visible()
    await page.get_by_role("radio", name="Always").check()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for width in (360, 1280):
            await page.set_viewport_size({"width": width, "height": 800})
            # Beside the policy, which is the page's: axe brings its own script.
            found = await Axe().run(page, context="#alone")
            assert found.response["violations"] == []
            wide = "document.documentElement.scrollWidth"
            assert await page.evaluate(wide) <= width


ACT = """([tag, action]) => registration.getNotifications({ tag }).then(([notification]) => {
  clients.matchAll = async () => [];
  clients.openWindow = async (url) => { self.opened = url; };
  dispatchEvent(new NotificationEvent("notificationclick", { notification, action }));
})"""


async def test_what_is_asked_is_decided_from_its_notification_where_it_is_still_asked(
    hub: HubProcess, box: PostBox, context: BrowserContext, redis_url: str, settings: Settings
) -> None:
    async def titled(title: str, timeout: float = 30) -> dict[str, Any]:
        async def found() -> Any:
            return next((n for n in await page.evaluate(NOTES) if n["title"] == title), None)

        try:
            return await wait_until(found, timeout=timeout, interval=0.2)  # type: ignore[no-any-return]
        except AssertionError as error:
            error.add_note(f"opened in its place: {await worker.evaluate('self.opened')}")
            error.add_note(f"notes: {await page.evaluate(NOTES)}")
            raise

    def asks(request: str) -> Callable[[], bool]:
        def is_so() -> bool:
            views = hub.get("/api/v1/sessions")["sessions"]
            return any(
                each["id"] == request and "hold" in each
                for view in views
                for each in view.get("requests", ())
            )

        return is_so

    page = await settings(Browser(box))
    await page.evaluate(HIDE)
    worker = await worker_of(context)
    machine = FakeMachine(redis_url)
    machine.start()
    try:
        machine.asks(tool_use_id="t1", payload={"command": "make clean"})
        await wait_until(asks("r1"))
        told = {"title": "Needs permission", "body": "on lab", "kind": "needs_you", "topic": "t"}
        push = json.dumps(told | {"id": f"{MACHINE}:s"})
        (note,) = await delivered(page, hub, push)
        assert note["body"] == "Bash: make clean\nin /work\non lab"
        await worker.evaluate(ACT, ["t", "approve"])
        assert (await titled("Allow this?"))["body"] == "Bash: make clean\nin /work"
        assert machine.obeyed == []
        decided = f"decided {MACHINE}:s"
        await worker.evaluate(ACT, [decided, "sure"])
        await titled("Allowed: took effect")
        assert [(each.verb, each.request_id) for each in machine.obeyed] == [("allow", "r1")]

        machine.asks("s2", "r2", tool_use_id="t2", payload={"command": "make clean"})
        await wait_until(asks("r2"))
        told |= {"id": f"{MACHINE}:s2", "topic": "t2"}

        async def offered() -> bool:
            await deliver(page, hub, json.dumps(told))
            with contextlib.suppress(AssertionError):
                await titled("Needs permission", timeout=4)
                return True
            return False

        await wait_until(offered, timeout=40)
        assert (await titled("Needs permission"))["body"] == "Bash: make clean\nin /work\non lab"
        machine.asks("s2", "r3", tool_use_id="t3", payload={"command": "make clean && rm x"})
        await wait_until(asks("r3"))
        await worker.evaluate(ACT, ["t2", "deny"])

        async def is_open() -> bool:
            return bool(await worker.evaluate("self.opened") == f"/sessions/{MACHINE}:s2")

        await wait_until(is_open)
        assert len(machine.obeyed) == 1

        await worker.evaluate(OF_OTHERS)
        machine.asks("s3", "r4", tool_use_id="t4", payload={"command": "make clean"})
        await wait_until(asks("r4"))
        told |= {"id": f"{MACHINE}:s3", "topic": "t3"}
        await wait_until(offered, timeout=40)
        assert (await titled("Needs permission"))["body"] == "on lab"
    finally:
        machine.stop()
