"""Telling people: over a real Redis to a push service and a webhook, on a clock that is set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adsum_hub.notify.rules import BURST, EVERY_MS
from adsum_shared import streams
from tests.brokers import Broker
from tests.hubs import host
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


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def channel(hub: NotifyingHub, name: str = "push") -> Any:
    return hub.notifier.senders[name].health


# --- one need, one message


async def test_a_need_that_stands_for_a_minute_is_pushed_once(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=SOON)
    fleet.need()
    await hub.run(59)
    assert phone.arrived() == []
    for _ in range(3):
        await hub.run(2)

    (told,) = phone.opened()
    assert told["title"] == "Needs permission"
    assert told["body"] == "on laptop"
    assert told["id"] == "laptop-id:s"


async def test_a_push_says_how_many_need_somebody_for_the_apps_icon(
    start: Start, fleet: Fleet, phone: Browser
):
    rule = {"channels": ["push"], "state": ["needs_permission"], "after": 1}
    hub = await start(phone, notify=[rule])
    fleet.need("a", "idle")
    fleet.need("b")
    fleet.deliver("c")
    await hub.run(2)
    fleet.work("a")
    fleet.need("d")
    await hub.run(2)

    assert [(told["count"], told["needing"]) for told in phone.opened()] == [(1, 2), (1, 2)]


async def test_a_push_is_sealed_signed_and_says_how_urgent_it_is(
    start: Start, fleet: Fleet, phone: Browser, tmp_path: Path
):
    hub = await start(phone, notify=SOON)
    fleet.need()
    await hub.run(61)

    (post,) = phone.arrived()
    assert b"laptop" not in post.body
    assert post.headers["content-encoding"] == "aes128gcm"
    assert post.headers["urgency"] == "high"
    assert 0 < int(post.headers["ttl"]) <= 86_400
    assert len(post.headers["topic"]) <= 32
    public = (await hub.notifications.key_file.key()).public
    assert post.headers["authorization"].startswith("vapid t=")
    assert post.headers["authorization"].endswith(f"k={public}")
    file = tmp_path / "hub" / "push-key.pem"
    assert file.stat().st_mode & 0o777 == 0o600


async def test_nothing_of_a_sessions_content_is_told_unless_asked_for(
    start: Start, fleet: Fleet, phone: Browser, box: PostBox
):
    hub = await start(phone, channel=[{"name": "hook", "url": box.webhook}])
    fleet.need(title="Merge with Initech", cwd="/home/ann/initech", last_prompt="buy them")
    await hub.run(61)

    await wait_until(lambda: len(box.posts) == 2)
    said = str(phone.opened()) + str([post.body for post in box.posts if post.path == "/T0kenPath"])
    assert "Needs permission" in said
    assert "laptop" in said
    for word in ("Initech", "initech", "rm -rf", "secret", "buy", "adsum"):
        assert word not in said, said


async def test_titles_are_told_where_they_are_asked_for(start: Start, fleet: Fleet, phone: Browser):
    hub = await start(phone, notify=SOON, channel=[{"name": "push", "content": "title"}])
    fleet.need(title="Merge with Initech")
    await hub.run(61)

    (told,) = phone.opened()
    assert told["title"] == "Needs permission: Bash rm -rf /secret"
    assert told["body"] == "Merge with Initech\nadsum · laptop"


async def test_a_need_that_has_passed_is_not_told(start: Start, fleet: Fleet, phone: Browser):
    hub = await start(phone, notify=SOON)
    fleet.need()
    await hub.run(30)
    fleet.work()
    await hub.run(60)

    assert phone.arrived() == []
    assert len(hub.notifier.pending) == 0


async def test_a_newer_state_takes_the_older_messages_place_on_the_phone(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=SOON)
    for name, state in (("s", "idle"), ("s", "needs_permission"), ("t", "error")):
        fleet.need(name, state)
        await hub.run(61)

    topics = [post.headers["topic"] for post in phone.arrived()]
    assert topics[0] == topics[1] != topics[2]


async def test_what_follows_a_told_need_and_is_less_urgent_is_not_told_even_after_a_restart(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=SOON)
    fleet.need()
    await hub.run(61)
    fleet.need(state="idle")
    await hub.run(61)
    await hub.run(1)
    await hub.die()
    again = await start(notify=SOON)
    await again.run(61)

    assert len(phone.arrived()) == 1


async def test_a_budget_crossed_behind_an_open_permission_is_told_once_that_is_answered(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=[{"channels": ["push"], "after": 5}])
    fleet.need()
    await hub.run(6)
    fleet.now += 60_000
    fleet.need(state="budget_exceeded", since=fleet.now - 30_000)
    await hub.run()
    await hub.run(4)
    assert len(phone.arrived()) == 1

    await hub.run(2)
    assert [told["title"] for told in phone.opened()] == ["Needs permission", "Over budget"]


async def test_a_delivery_is_told_by_a_rule_for_it(start: Start, fleet: Fleet, phone: Browser):
    hub = await start(phone, notify=[{"channels": ["push"], "on": "delivered"}])
    fleet.need()
    await hub.run(61)
    fleet.deliver()
    await hub.run(2)

    assert [told["title"] for told in phone.opened()] == ["Finished"]
    assert phone.arrived()[0].headers["urgency"] == "low"


async def test_a_machine_that_goes_offline_is_told_each_time_and_once_each_time(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=[{"channels": ["push"], "on": "host_offline", "after": 300}])
    for _ in range(2):
        fleet.host(msgspec.structs.replace(host("ci-1"), last_seen=fleet.now))
        await hub.run(10)
        fleet.host(msgspec.structs.replace(host("ci-1", "offline"), last_seen=fleet.now))
        await hub.run()
        await hub.run(299)
        before = len(phone.arrived())
        for _ in range(3):
            await hub.run(2)
        assert len(phone.arrived()) == before + 1

    assert [told["body"] for told in phone.opened()] == ["ci-1", "ci-1"]


async def test_a_machine_that_was_told_of_is_not_told_of_again_by_a_hub_started_anew(
    start: Start, fleet: Fleet, phone: Browser
):
    rules = [{"channels": ["push"], "on": "host_offline", "after": 300}]
    hub = await start(phone, notify=rules)
    fleet.host(msgspec.structs.replace(host("ci-1", "offline"), last_seen=fleet.now))
    for _ in range(2):
        await hub.run(301)
    await hub.die()
    again = await start(notify=rules)
    for _ in range(2):
        await again.run(301)

    assert len(phone.arrived()) == 1


# --- several hubs, restarts, losses


async def test_two_hubs_tell_a_need_once(start: Start, fleet: Fleet, phone: Browser):
    one = await start(phone, notify=SOON)
    two = await start(notify=SOON)
    fleet.need()
    for _ in range(4):
        await one.run(31)
        await two.run(0)

    assert len(phone.arrived()) == 1
    assert len(one.notifier.pending) == len(two.notifier.pending) == 0


async def test_two_hubs_that_look_at_the_same_moment_tell_a_need_once(
    start: Start, fleet: Fleet, phone: Browser
):
    hubs = [await start(phone, notify=SOON), await start(notify=SOON), await start(notify=SOON)]
    for number in range(20):
        fleet.need(f"s{number}")
        fleet.now += 61_000
        await asyncio.gather(*(hub.run() for hub in hubs))

    assert len(phone.arrived()) == 20


async def test_a_dead_hubs_claim_does_not_swallow_a_need(
    start: Start, fleet: Fleet, phone: Browser, redis_url: str
):
    hub = await start(phone, notify=SOON)
    fleet.need()
    await hub.run(1)
    (standing,) = hub.notifier.pending.standing.values()
    key = streams.notify_mark(standing.case.mark(str(await hub.notifier.senders["push"].name())))
    await hub.redis.set(key, b"a hub that is no more", px=streams.NOTIFY_CLAIM_MS)
    await hub.run(61)
    assert phone.arrived() == []
    await hub.redis.delete(key)  # as time does
    await hub.run(6)

    assert len(phone.arrived()) == 1


async def test_claims_and_marks_lapse(start: Start, fleet: Fleet, phone: Browser):
    hub = await start(phone, notify=SOON)
    fleet.need()
    await hub.run(61)

    keys = [key async for key in hub.redis.scan_iter("*notify*")]
    lifetimes = {key: await hub.redis.pttl(key) for key in keys}
    subscriptions = streams.NOTIFY_SUBSCRIPTIONS.encode()
    assert len(keys) == 3
    assert {key for key, ttl in lifetimes.items() if ttl < 0} == {subscriptions}
    assert max(lifetimes.values()) <= streams.NOTIFY_KEEP_MS


async def test_a_restart_repeats_nothing_and_forgets_nothing(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=SOON)
    fleet.need("told")
    await hub.run(61)
    fleet.need("pending")
    await hub.run(30)
    await hub.die()
    fleet.now += 3_600_000
    fleet.need("meanwhile")
    again = await start(notify=SOON)
    for _ in range(3):
        await again.run(30)

    told = [each.get("id") for each in phone.opened()]
    assert told == ["laptop-id:told", "laptop-id:pending", "laptop-id:meanwhile"]


async def test_what_stood_before_anybody_asked_is_not_told(
    start: Start, fleet: Fleet, phone: Browser
):
    for number in range(50):
        fleet.need(f"old{number}")
    fleet.now += 86_400_000
    hub = await start(phone, notify=SOON)
    await hub.run(120)

    assert phone.arrived() == []


async def test_a_lost_redis_repeats_nothing(
    start: Start, fleet: Fleet, phone: Browser, redis_server: Broker
):
    hub = await start(phone, notify=SOON)
    fleet.need()
    await hub.run(61)
    await hub.redis.flushall()
    await hub.subscribe(phone)
    await hub.run(61)
    await hub.die()
    again = await start(phone, notify=SOON)
    await again.run(61)

    assert len(phone.arrived()) == 1


async def test_a_lost_redis_does_not_make_a_rule_younger_to_a_hub_that_knows_it(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(notify=SOON)
    await hub.redis.flushall()
    await hub.run(3_601)
    await hub.subscribe(phone)
    fleet.need(since=fleet.now - 30_000)
    await hub.run(31)

    assert len(phone.arrived()) == 1


async def test_while_redis_is_down_a_need_waits(
    start: Start, fleet: Fleet, phone: Browser, redis_server: Broker
):
    hub = await start(phone, notify=SOON)
    fleet.need()
    await hub.run(1)
    redis_server.kill()
    await hub.run(61)
    await hub.run(3)
    assert phone.arrived() == []
    redis_server.start()
    await hub.run(3)

    assert len(phone.arrived()) == 1


async def test_a_hub_that_does_not_know_the_truth_yet_tells_nothing(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=SOON)
    fleet.need()
    hub.broadcast.restoring = True
    await hub.run(61)
    hub.broadcast.restoring = False
    await hub.run(1)
    assert phone.arrived() == []
    fleet.work()
    await hub.run(5)

    assert phone.arrived() == []


async def test_hubs_with_different_keys_tell_each_its_own_browsers(
    start: Start, fleet: Fleet, box: PostBox
):
    mine, hers = Browser(box, "mine"), Browser(box, "hers")
    one = await start(mine, notify=SOON)
    two = await start(hers, name="elsewhere", notify=SOON)
    fleet.need()
    await one.run(61)
    await two.run(1)

    assert (len(mine.opened()), len(hers.opened())) == (1, 1)
    status = await one.notifications.status()
    assert (status.subscriptions, status.others) == (1, 1)


# --- many at once


async def test_ten_thousand_changes_do_not_send_ten_thousand_messages(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=SOON)
    for number in range(10_000):
        fleet.need(f"s{number}", host=f"ci-{number % 40}")
    await hub.run(1)
    for _ in range(3):
        await hub.run(30)

    (told,) = phone.opened()
    assert told["title"] == "10000 agents need you"
    assert told["count"] == 10_000
    assert "and 32 more" in told["body"]
    assert len(phone.arrived()[0].body) < 4_096


async def test_needs_that_trickle_in_are_gathered_once_a_few_were_told(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=[{"channels": ["push"], "after": 0}])
    for number in range(120):
        fleet.need(f"s{number}")
        await hub.run(1)
    await hub.run(60)

    told = phone.opened()
    assert sum(each["count"] for each in told) >= 120
    assert len(told) <= BURST + 1 + 180_000 // EVERY_MS


async def test_a_digest_window_gathers_what_comes_within_it(
    start: Start, fleet: Fleet, phone: Browser
):
    hub = await start(phone, notify=[{"channels": ["push"], "after": 1, "digest": 600}])
    fleet.now += -fleet.now % 600_000
    for number in range(5):
        fleet.need(f"s{number}")
        await hub.run(60)
    assert phone.arrived() == []
    fleet.work("s0")
    await hub.run(301)

    (told,) = phone.opened()
    assert told["title"] == "4 agents need you"
    assert told["body"] == "Needs permission: laptop (4)"


async def test_what_comes_in_quiet_hours_is_told_as_one_after_them_if_it_still_stands(
    start: Start, fleet: Fleet, phone: Browser
):
    fleet.now = utc("2026-10-24 18:00")
    hub = await start(phone, notify=[{**SOON[0], "quiet": NIGHT}])
    fleet.now = utc("2026-10-24 20:30")  # half past ten; the clock is put back this night
    for name in ("a", "b", "c"):
        fleet.need(name)
        await hub.run(120)
    fleet.work("b")
    fleet.now = utc("2026-10-25 05:59")
    await hub.run()
    assert phone.arrived() == []
    fleet.now = utc("2026-10-25 06:00")
    await hub.run()

    (told,) = phone.opened()
    assert told["title"] == "2 agents need you"


async def test_a_need_that_could_not_be_told_before_quiet_hours_waits_for_their_end(
    start: Start, fleet: Fleet, phone: Browser, redis_server: Broker
):
    fleet.now = utc("2026-01-10 20:00")
    hub = await start(phone, notify=[{**SOON[0], "quiet": NIGHT}])
    fleet.need()
    await hub.run(1)
    hub.broadcast.restoring = True
    fleet.now = utc("2026-01-10 21:30")
    await hub.run()
    hub.broadcast.restoring = False
    await hub.run()
    await hub.run(4)
    assert phone.arrived() == []
    fleet.now = utc("2026-01-11 06:00")
    await hub.run()

    assert len(phone.arrived()) == 1
