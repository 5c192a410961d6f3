"""A push subscription ends with the sign-in or token it was made with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from fastapi import Request

from adsum_hub.auth.credentials import Credential, CredentialStore, digest_of, make_cookie
from adsum_hub.notify.push import MOST_OF_ONE, OWNER, PushSubscription, SubscriptionOwner
from adsum_shared import streams
from tests.brokers import Broker
from tests.hub_processes import HubProcess, started
from tests.notifying import Fleet, NotifyingHub, Start, starting
from tests.post_boxes import Browser, PostBox, post_box
from tests.seals import seal
from tests.signing_in import admin, asking, cookie_name, make_token, proven, sign_in

pytestmark = [pytest.mark.redis, pytest.mark.timeout(40)]

RULE = [{"channels": ["push"], "after": 1}]
PATH = "/api/v1/notify/subscriptions"


@pytest.fixture
def box() -> Iterator[PostBox]:
    with post_box() as box:
        yield box


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
async def start(fleet: Fleet, redis_url: str, tmp_path: Path) -> AsyncIterator[Start]:
    async with starting(fleet, redis_url, tmp_path) as start:
        yield start


@pytest.fixture
async def hub(start: Start) -> NotifyingHub:
    """People have to sign in at it."""
    hub: NotifyingHub = await start(notify=RULE, sign_in=True)
    return hub


async def signed_in(hub: NotifyingHub) -> SubscriptionOwner:
    digest, now = digest_of(make_cookie()), hub.fleet.now
    held = Credential(digest[:12], "Ann", "viewer", now, now + 3_600_000, now)
    await CredentialStore(hub.redis, "sign-in", seal()).issue(digest, held, now)
    return SubscriptionOwner("sign-in", digest)


async def subscribe(hub: NotifyingHub, browser: Browser, owner: SubscriptionOwner | None) -> int:
    asked = msgspec.convert(browser.subscription, PushSubscription)
    request = Request({"type": "http", OWNER: owner})
    return (await hub.notifications.subscribe(request, asked)).subscriptions


async def test_a_browser_whose_sign_in_was_revoked_is_told_nothing_more(
    hub: NotifyingHub, fleet: Fleet, box: PostBox
):
    left, stays = Browser(box, "left"), Browser(box, "stays")
    ann = await signed_in(hub)
    await subscribe(hub, left, ann)
    await subscribe(hub, stays, await signed_in(hub))
    await CredentialStore(hub.redis, "sign-in", seal()).remove(ann.digest)
    fleet.need()
    await hub.run(2)

    assert left.arrived() == []
    assert len(stays.arrived()) == 1
    assert await hub.redis.hlen(streams.NOTIFY_SUBSCRIPTIONS) == 1


async def test_what_waited_for_a_slow_service_is_not_told_after_the_sign_in_is_over(
    hub: NotifyingHub, fleet: Fleet, box: PostBox
):
    slow, other = Browser(box, "slow"), Browser(box, "other")
    ann = await signed_in(hub)
    await subscribe(hub, slow, ann)
    await subscribe(hub, other, await signed_in(hub))
    box.statuses[slow.path] = 503
    fleet.need()
    await hub.run(2)
    tried = len(slow.arrived())
    assert tried == 1
    await CredentialStore(hub.redis, "sign-in", seal()).remove(ann.digest)
    del box.statuses[slow.path]
    await hub.run(120)

    assert len(slow.arrived()) == tried


async def test_one_kept_from_before_signing_in_is_dropped(
    start: Start, fleet: Fleet, box: PostBox, hub: NotifyingHub
):
    old = Browser(box, "old")
    before = await start(name="before", notify=RULE)
    await subscribe(before, old, None)
    await before.die()
    fleet.need()
    await hub.run(2)

    assert old.arrived() == []
    assert await hub.redis.hlen(streams.NOTIFY_SUBSCRIPTIONS) == 0


async def test_a_sign_in_has_ten_at_most_and_the_one_unheard_of_for_longest_goes(
    hub: NotifyingHub, fleet: Fleet, box: PostBox
):
    ann, bob = await signed_in(hub), await signed_in(hub)
    browsers = [Browser(box, f"b{number}") for number in range(MOST_OF_ONE + 1)]
    await subscribe(hub, Browser(box, "bob"), bob)
    for browser in browsers[:-1]:
        fleet.now += 1
        await subscribe(hub, browser, ann)
    fleet.now += 1
    assert await subscribe(hub, browsers[0], ann) == MOST_OF_ONE + 1
    fleet.now += 1
    assert await subscribe(hub, browsers[-1], ann) == MOST_OF_ONE + 1

    kept = {each.endpoint for each in await hub.notifications.subscriptions.all()}
    assert browsers[1].endpoint not in kept
    assert browsers[0].endpoint in kept


async def test_nobody_is_dropped_while_redis_is_away(
    hub: NotifyingHub, fleet: Fleet, box: PostBox, redis_server: Broker
):
    slow, other = Browser(box, "slow"), Browser(box, "other")
    ann = await signed_in(hub)
    await subscribe(hub, slow, ann)
    await subscribe(hub, other, ann)
    box.statuses[slow.path] = 503
    fleet.need()
    await hub.run(2)
    assert hub.notifications.push.waiting == 1
    redis_server.kill()
    fleet.now += 60_000
    await hub.notifications.push.follow_up_once()

    assert hub.notifications.push.waiting == 1


def test_a_hub_notes_who_asked_by_cookie_or_token_and_drops_what_they_lose(
    tmp_path: Path, redis_url: str, box: PostBox
):
    hub = HubProcess(tmp_path / "hub", redis_url, sign_in="on", push_allow_private="1")
    with started(hub), admin(hub) as boss:
        cookie, (named, token) = sign_in(hub, "viewer"), make_token(hub)
        with asking(hub, cookie=cookie) as ann, asking(hub, token=token) as script:
            # of another hub at the same machine
            ann.headers["cookie"] = f"adsum-1={make_cookie()}; {cookie_name(hub)}={cookie}"
            first = Browser(box, "first").subscription
            assert ann.post(PATH, json=first, headers=proven(ann)).status_code == 200
            second = script.post(PATH, json=Browser(box, "second").subscription)
            assert second.json()["subscriptions"] == 2
            refused = boss.post(PATH, json=Browser(box, "third").subscription)
            assert refused.status_code == 409
            assert "Sign in in the browser" in refused.json()["next"]
            assert boss.get("/api/v1/notify").json()["subscriptions"] == 2

            boss.delete(f"/api/v1/tokens/{named}")
            assert boss.get("/api/v1/notify").json()["subscriptions"] == 1
            ann.post("/api/v1/logout", headers=proven(ann))
            assert boss.get("/api/v1/notify").json()["subscriptions"] == 0
