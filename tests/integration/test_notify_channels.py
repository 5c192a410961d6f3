"""Channels that do not do as they should: gone, slow, failing, refusing; and what they keep secret."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from adsum_hub.rest.api import BadRequestError
from tests.notifying import Fleet, NotifyingHub, Start, starting
from tests.post_boxes import Browser, PostBox, post_box
from tests.support import wait_until

pytestmark = [
    pytest.mark.redis,
    pytest.mark.timeout(12),
    # apprise imports a module that Python 3.13 has no more
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

NIGHT = {"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"}
SOON = [{"channels": ["push"], "after": 60}]
HOOK = [{"channels": ["hook"], "after": 60}]


@pytest.fixture
def box() -> Iterator[PostBox]:
    with post_box() as box:
        yield box


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
def phone(box: PostBox) -> Browser:
    return Browser(box)


@pytest.fixture
async def start(fleet: Fleet, redis_url: str, tmp_path: Path) -> AsyncIterator[Start]:
    async with starting(fleet, redis_url, tmp_path) as start:
        yield start


def channel(hub: NotifyingHub, name: str = "push") -> Any:
    return hub.notifier.senders[name].health


# --- push services that do not do as they should


@pytest.mark.parametrize("status", [404, 410])
async def test_a_browser_that_is_gone_is_forgotten_and_the_others_are_told(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser, status: int
):
    gone = Browser(box, "gone")
    box.statuses[gone.path] = status
    hub = await start(phone, gone, notify=SOON)
    for name in ("a", "b"):
        fleet.need(name)
        await hub.run(61)

    assert (len(phone.arrived()), len(gone.arrived())) == (2, 1)
    assert [each.endpoint for each in await hub.notifications.subscriptions.all()] == [
        phone.endpoint
    ]
    assert channel(hub).error is None


async def test_a_browser_that_is_gone_is_one_line_with_its_service_and_not_its_address(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    gone = Browser(box, "S3cretPath")
    box.statuses[gone.path] = 410
    hub = await start(phone, gone, notify=SOON)
    for name in ("a", "b"):
        fleet.need(name)
        await hub.run(61)

    told = [each.getMessage() for each in caplog.records if "is gone" in each.getMessage()]
    assert told == ["a browser at 127.0.0.1 is gone (410): it is told no more"]
    assert "S3cretPath" not in caplog.text


async def test_a_channel_that_keeps_failing_is_one_line_and_one_when_it_gets_through_again(
    start: Start, fleet: Fleet, box: PostBox, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    box.status = 503
    hub = await start(notify=HOOK, channel=[{"name": "hook", "url": box.webhook}])
    fleet.need()
    for _ in range(8):
        await hub.run(100)
    box.status = 200
    await hub.run(700)
    fleet.need("b")
    await hub.run(61)

    told = [each for each in caplog.records if each.name == "adsum_hub.notify.channels"]
    assert [(each.levelname, each.getMessage()) for each in told] == [
        (
            "WARNING",
            "channel hook keeps failing: The service answered 503. See whether its key and address "
            "are still good.",
        ),
        ("INFO", "channel hook gets through again"),
    ]
    assert "T0kenPath" not in caplog.text


async def test_a_push_service_that_asks_for_a_pause_gets_it(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser
):
    hub = await start(phone, notify=SOON)
    box.status, box.headers = 429, {"retry-after": "120"}
    fleet.need()
    await hub.run(61)
    box.status = 201
    await hub.run(60)
    await hub.run(50)
    assert len(phone.arrived()) == 1
    await hub.run(12)

    assert len(phone.arrived()) == 2
    assert channel(hub).sent == 1
    assert "429" in channel(hub).error


async def test_one_browser_that_is_told_to_wait_is_told_later_without_the_others(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser
):
    slow = Browser(box, "slow")
    box.statuses[slow.path] = 503
    hub = await start(phone, slow, notify=SOON)
    fleet.need()
    await hub.run(61)
    del box.statuses[slow.path]
    await hub.run(6)

    assert (len(phone.arrived()), len(slow.arrived())) == (1, 2)


async def test_what_passed_while_one_browser_had_to_wait_is_not_told_it_later(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser
):
    slow = Browser(box, "slow")
    box.statuses[slow.path] = 503
    hub = await start(phone, slow, notify=SOON)
    fleet.need()
    await hub.run(61)
    del box.statuses[slow.path]
    fleet.work()
    await hub.run(6)

    assert (len(phone.arrived()), len(slow.arrived())) == (1, 1)
    assert hub.notifications.push.waiting == 0


async def test_a_service_that_asked_for_a_pause_gets_no_newer_message_meanwhile(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser
):
    slow = Browser(box, "slow")
    box.statuses[slow.path], box.headers = 429, {"retry-after": "200"}
    hub = await start(phone, slow, notify=SOON)
    fleet.need("a")
    await hub.run(61)
    del box.statuses[slow.path]
    fleet.need("b")
    await hub.run(61)
    assert (len(phone.arrived()), len(slow.arrived())) == (2, 1)
    await hub.run(140)

    assert len(slow.arrived()) == 3


async def test_a_need_that_passes_while_the_service_is_down_is_not_told_afterwards(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser
):
    hub = await start(phone, notify=SOON)
    box.status = 503
    fleet.need()
    await hub.run(61)
    tried = len(phone.arrived())
    fleet.work()
    box.status = 201
    for _ in range(5):
        await hub.run(30)

    assert len(phone.arrived()) == tried == 1


async def test_what_waits_for_a_service_that_is_down_is_bounded_and_told_as_one(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser
):
    hub = await start(phone, notify=SOON)
    box.status = 500
    for number in range(300):
        fleet.need(f"s{number}")
        await hub.run(10)
    tries = len(phone.arrived())
    assert tries < 20
    box.status = 201
    await hub.run(700)

    assert phone.opened()[-1]["title"] == "300 agents need you"
    assert len(phone.arrived()) == tries + 1


async def test_a_push_service_that_redirects_is_not_followed(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser
):
    hub = await start(phone, notify=SOON)
    box.status, box.headers = 307, {"location": f"{box.url}/elsewhere"}
    fleet.need()
    await hub.run(61)

    assert {post.path for post in box.posts} == {phone.path}
    assert channel(hub).failed == 1


async def test_no_error_holds_an_endpoint(start: Start, fleet: Fleet, box: PostBox):
    hub = await start(Browser(box, "S3cretPath"), notify=SOON)
    for status in (401, 413, 429, 500):
        box.status = status
        fleet.need(f"s{status}")
        await hub.run(700)
    status = await hub.notifications.status()

    assert channel(hub).failed >= 4
    assert "S3cret" not in str(status)
    assert "127.0.0.1" in str(status)


async def test_a_key_that_cannot_be_read_is_told_with_the_next_step(
    start: Start, fleet: Fleet, phone: Browser, tmp_path: Path
):
    file = tmp_path / "mine.pem"
    file.write_text("no key")
    hub = await start(notify=SOON, push_key_file=file)

    with pytest.raises(BadRequestError, match=r"mine\.pem is no private key"):
        await hub.subscribe(phone)
    status = await hub.notifications.status()
    assert status.public_key is None
    assert status.problem is not None
    assert "Replace it" in status.problem


async def test_hubs_with_the_same_key_file_have_the_same_key(start: Start, tmp_path: Path):
    one = await start(name="one")
    key = (await one.notifications.key_file.key()).public
    two = await start(name="two", push_key_file=tmp_path / "one" / "push-key.pem")

    assert (await two.notifications.key_file.key()).public == key
    assert not (tmp_path / "two").exists()


# --- services that apprise knows


async def test_a_webhook_is_told(start: Start, fleet: Fleet, box: PostBox):
    hub = await start(notify=HOOK, channel=[{"name": "hook", "url": box.webhook}])
    fleet.need()
    await hub.run(61)

    (post,) = box.posts
    assert post.json()["title"] == "Needs permission"
    assert post.json()["message"] == "on laptop"


async def test_a_channel_that_fails_holds_up_no_other(
    start: Start, fleet: Fleet, box: PostBox, phone: Browser
):
    box.statuses["/T0kenPath"] = 500
    rules = [{"channels": ["push", "hook"], "after": 60}]
    hub = await start(phone, notify=rules, channel=[{"name": "hook", "url": box.webhook}])
    for name in ("a", "b"):
        fleet.need(name)
        await hub.run(61)

    assert len(phone.arrived()) == 2
    assert channel(hub, "hook").sent == 0
    assert "answered 500" in channel(hub, "hook").error
    box.statuses.clear()
    await hub.run(60)
    assert box.posts[-1].json()["title"] == "2 agents need you"


async def test_a_channel_that_keeps_failing_is_a_trouble_of_the_hub_until_it_works_again(
    start: Start, fleet: Fleet, box: PostBox
):
    box.statuses["/T0kenPath"] = 500
    hub = await start(notify=HOOK, channel=[{"name": "hook", "url": box.webhook}])
    fleet.need()
    await hub.run(61)
    await hub.run(61)
    assert hub.notifications.notes() == []

    await hub.run(61)
    (trouble,) = hub.notifications.notes()
    assert trouble.startswith("Channel `hook` of the notifications keeps failing: ")
    assert "answered 500. See whether" in trouble
    assert "T0kenPath" not in trouble
    box.statuses.clear()
    await hub.run(61)
    assert hub.notifications.notes() == []


async def test_browsers_that_fail_at_once_are_one_failure(start: Start, fleet: Fleet, box: PostBox):
    phones = [Browser(box, f"phone{number}") for number in range(4)]
    hub = await start(*phones, notify=SOON)
    box.status = 403
    fleet.need()
    await hub.run(61)

    assert channel(hub).failed == 4
    assert hub.notifications.notes() == []


async def test_a_slow_channel_holds_up_no_other(
    start: Start, fleet: Fleet, phone: Browser, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("adsum_hub.notify.channels.WAIT_S", 0.2)
    rules = [{"channels": ["push", "slow"], "after": 60}]
    with post_box() as slow:
        slow.slow_s = 1.5
        hub = await start(phone, notify=rules, channel=[{"name": "slow", "url": slow.webhook}])
        for name in ("a", "b"):
            fleet.need(name)
            await hub.run(61)

        assert len(phone.arrived()) == 2
        assert channel(hub, "slow").sent == 0
        assert channel(hub, "slow").failed == 2
        await wait_until(lambda: not hub.notifier.senders["slow"]._busy)


async def test_what_apprise_does_not_know_is_said_before_the_first_message(
    start: Start, caplog: pytest.LogCaptureFixture
):
    hub = await start(notify=HOOK, channel=[{"name": "hook", "url": "carrierpigeon://S3cret@loft"}])
    await hub.notifications.services[0].check()

    assert "apprise does not know" in channel(hub, "hook").error
    assert "apprise does not know" in hub.notifications.notes()[0]
    assert "channel hook" in caplog.text
    assert "S3cret" not in caplog.text + str(await hub.notifications.status())


async def test_no_log_and_no_answer_holds_a_channels_secret(
    start: Start, fleet: Fleet, box: PostBox, caplog: pytest.LogCaptureFixture, phone: Browser
):
    caplog.set_level("DEBUG")
    rules = [{"channels": ["push", "hook"], "after": 60}]
    hub = await start(phone, notify=rules, channel=[{"name": "hook", "url": box.webhook}])
    for status in (200, 403, 500):
        box.status = status
        fleet.need(f"s{status}")
        await hub.run(700)
    said = caplog.text + str(await hub.notifications.status()) + repr(hub.notifier.config)

    assert channel(hub, "hook").failed >= 2
    for secret in ("S3cretWord", "T0kenPath", phone.path):
        assert secret not in said


async def test_where_nobody_listens_nothing_is_remembered(start: Start, fleet: Fleet):
    hub = await start(notify=SOON)
    fleet.need()
    await hub.run(61)

    assert [key async for key in hub.redis.scan_iter("*notify:mark*")] == []
    assert len(hub.notifier.pending) == 0
