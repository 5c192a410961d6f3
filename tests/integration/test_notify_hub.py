"""Notifications of real hubs: from a machine's stream to a browser, and what REST lets in."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adsum_shared.signals import PromptSubmitted, RequestOpened, encode_signal
from tests.brokers import running_broker
from tests.half_hubs import FakeCollector, clock
from tests.hub_processes import HubProcess
from tests.post_boxes import Browser, PostBox, post_box
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(40)]

Hubs = Callable[..., HubProcess]
RULE = [{"channels": ["push", "hook"], "after": 1}]


@pytest.fixture
def box() -> Iterator[PostBox]:
    with post_box() as box:
        yield box


def with_channels(directory: Path, redis_url: str, box: PostBox, **settings: str) -> HubProcess:
    return HubProcess(
        directory,
        redis_url,
        notify=json.dumps(RULE),
        push_allow_private="1",
        push_contact="mailto:ann@example.org",
        **{
            "log_level": "debug",
            "channel": json.dumps([{"name": "hook", "url": box.webhook}]),
            **settings,
        },
    )


@pytest.fixture
def hubs(tmp_path: Path, redis_url: str, box: PostBox) -> Iterator[Hubs]:
    started: list[HubProcess] = []

    def start(name: str = "hub", **settings: str) -> HubProcess:
        hub = with_channels(tmp_path / name, redis_url, box, **settings)
        started.append(hub)
        return hub.start()

    yield start
    for hub in started:
        hub.kill()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """For all that only ask for what they do not get, and so change nothing in it."""
    at = tmp_path_factory.mktemp("refusing")
    with running_broker(at / "broker") as broker, post_box() as box:
        hub = with_channels(at / "hub", broker.url, box).start()
        yield hub
        hub.kill()


async def ask_permission(collector: FakeCollector, session: str = "s") -> None:
    now, first = clock(), len(collector.signals) + 1
    prompt = PromptSubmitted(
        session_id=session, at=now, seen=now, prompt_id="p", text="buy Initech"
    )
    request = RequestOpened(
        session_id=session, at=now, seen=now, request_id="r", request_kind="permission", tool="Bash"
    )
    collector.signals += [encode_signal(prompt), encode_signal(request)]
    await collector.beat()
    await collector.publish(first, first + 1)


async def keep_beating(collector: FakeCollector) -> None:
    task = asyncio.current_task()
    # A library that drops one cancellation must not keep the loop of all tests from ending.
    while task and not task.cancelling():
        await collector.beat()
        await asyncio.sleep(1)


def call(hub: HubProcess, method: str, path: str, body: Any = None, **headers: str) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = httpx.request(
        method,
        f"{hub.url}/api/v1/notify{path}",
        content=content,
        headers={"content-type": "application/json", **headers},
        timeout=10,
        trust_env=False,
    )
    return answer.status_code, answer.json()


@pytest.mark.core
@pytest.mark.slow
async def test_a_request_on_a_machine_reaches_a_phone_and_a_webhook_once_over_kills(
    hubs: Hubs, box: PostBox, collector: FakeCollector, tmp_path: Path
):
    phone, one = Browser(box), hubs("one")
    public = one.get("/api/v1/notify")["public_key"]
    two = hubs("two", push_key_file=str(tmp_path / "one" / "push-key.pem"))
    assert two.get("/api/v1/notify")["public_key"] == public
    assert call(one, "POST", "/subscriptions", phone.subscription)[0] == 200
    beating = asyncio.create_task(keep_beating(collector))
    await wait_until(lambda: one.host(collector.host_id) and two.host(collector.host_id))
    await ask_permission(collector)
    hooked = "/T0kenPath"
    await wait_until(
        lambda: phone.arrived() and any(post.path == hooked for post in box.posts), timeout=20
    )
    one.kill()
    one.start()
    await ask_permission(collector, "t")
    await wait_until(lambda: len(phone.arrived()) == 2, timeout=20)
    await wait_until(lambda: sum(post.path == hooked for post in box.posts) == 2, timeout=20)
    beating.cancel()

    told = phone.opened()
    assert [each["id"] for each in told] == [f"{collector.host_id}:s", f"{collector.host_id}:t"]
    assert {(each["title"], each["body"]) for each in told} == {("Needs permission", "on lab")}
    sent = [hub.get("/api/v1/notify")["channels"] for hub in (one, two)]
    assert (
        sum(each["sent"] for channels in sent for each in channels if each["name"] == "hook") <= 2
    )
    logs = one.log.read_text() + two.log.read_text() + json.dumps(sent)
    for secret in ("S3cretWord", "T0kenPath", phone.path, "Initech", "BEGIN PRIVATE"):
        assert secret not in logs


async def test_subscriptions_come_and_go(hubs: Hubs, box: PostBox):
    hub, phone = hubs(), Browser(box)

    assert call(hub, "POST", "/subscriptions", phone.subscription)[1]["subscriptions"] == 1
    assert call(hub, "POST", "/subscriptions", phone.subscription)[1]["subscriptions"] == 1
    assert hub.get("/api/v1/notify")["subscriptions"] == 1
    gone = call(hub, "DELETE", "/subscriptions", {"endpoint": phone.endpoint})
    assert gone[1]["subscriptions"] == 0
    assert call(hub, "DELETE", "/subscriptions", {"endpoint": phone.endpoint})[0] == 200


async def test_the_button_tells_every_channel_and_says_how_that_went(hubs: Hubs, box: PostBox):
    hub, phone = hubs(), Browser(box)
    call(hub, "POST", "/subscriptions", phone.subscription)
    box.statuses["/T0kenPath"] = 403
    status, answer = call(hub, "POST", "/test", {})

    assert status == 200
    found = {each["channel"]: each["error"] for each in answer["tried"]}
    assert found["push"] is None
    assert "answered 403" in found["hook"]
    assert phone.opened()[0]["title"] == "Test from Adsum"
    status, answer = call(hub, "POST", "/test", {})
    assert (status, answer["error"]) == (429, "A test was sent just now.")


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        ({}, {"origin": "https://evil.example"}, 403, "may not use this hub"),
        ({}, {"host": "evil.example"}, 403, "does not answer to the name"),
        ({}, {"content-type": "text/plain"}, 415, "JSON only"),
        ({}, {"content-type": "application/x-www-form-urlencoded"}, 415, "JSON only"),
        ({}, {}, 400, "missing required field `endpoint`"),
        (b"{", {}, 400, "cannot be read"),
        ({"endpoint": "x" * 9000, "keys": {}}, {}, 413, "too long"),
        ({"endpoint": "http://[", "keys": {"p256dh": "", "auth": ""}}, {}, 409, "no address"),
        ({"endpoint": "https://fcm.example/x", "keys": {"p256dh": "BA", "auth": "AA"}}, {}, 409, "no keys"),
    ],
)  # fmt: skip
async def test_what_is_no_request_of_the_page_is_refused_with_the_next_step(
    refusing: HubProcess, body: Any, headers: dict[str, str], status: int, said: str
):
    got, answer = call(refusing, "POST", "/subscriptions", body, **headers)

    assert got == status
    assert said in answer["error"]
    assert answer["next"]


async def test_an_unknown_channel_is_named_with_the_known_ones(refusing: HubProcess):
    status, answer = call(refusing, "POST", "/test", {"channel": "nobody"})

    assert status == 400
    assert answer["next"] == "Name one of push, hook."


async def test_a_bad_entry_ends_the_hub_with_a_sentence_and_without_the_secret(
    tmp_path: Path, redis_url: str
):
    bad = json.dumps([{"name": "team", "url": "json://S3cretWord@host", "colour": 1}])
    hub = HubProcess(tmp_path / "hub", redis_url, channel=bad).spawn()
    assert hub.process is not None
    assert hub.process.wait(20) != 0

    said = hub.log.read_text()
    assert "[[channel]] 1 (team): there is an unknown field `colour`" in said
    assert "Traceback" not in said
    assert "S3cretWord" not in said


async def test_a_channel_that_tells_nobody_and_a_broken_plugin_are_told_where_people_look(
    hubs: Hubs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    about = tmp_path / "site" / "adsum_odd-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: adsum-odd\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[adsum.domains]\nodd = adsum_odd_missing\n")
    pigeon = json.dumps([{"name": "hook", "url": "carrierpigeon://S3cretWord@loft"}])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    hub = hubs(channel=pigeon)
    ready = await wait_until(
        lambda: "apprise" in ((found := hub.get("/readyz"))["problem"] or "") and found
    )

    assert ready["ready"]
    assert "Channel `hook` of the notifications keeps failing" in ready["problem"]
    assert "odd" in ready["problem"]
    assert "S3cretWord" not in ready["problem"]
    assert hub.get("/api/v1/sessions")["trouble"]["problem"] == ready["problem"]


def test_a_hub_starts_without_what_only_a_message_needs():
    code = "import sys, adsum_hub.app; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    heavy = {"apprise", "pywebpush", "py_vapid", "aiohttp", "requests", "cryptography.hazmat"}
    assert heavy.isdisjoint(run.stdout.split())


async def test_no_subscription_is_kept_without_redis(hubs: Hubs, box: PostBox, redis_server: Any):
    hub = hubs()
    redis_server.kill()
    status, answer = call(hub, "POST", "/subscriptions", Browser(box).subscription)

    assert status == 503
    assert "Redis does not answer" in answer["error"]
