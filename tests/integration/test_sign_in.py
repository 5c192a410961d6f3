"""Signing in at real hubs over one Redis: links, sign-ins, tokens, sockets, and nothing of them kept."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from redis.asyncio import Redis
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from adsum_hub.auth.credentials import (
    MOST_OF_ONE,
    SIGN_IN_IDLE_MS,
    SIGN_IN_MOST_MS,
    Credential,
    CredentialStore,
    LoginCode,
    LoginCodes,
    digest_of,
    id_of,
)
from adsum_hub.auth.credentials import make_code as some_code
from adsum_hub.auth.credentials import make_cookie as some_cookie
from adsum_hub.auth.credentials import make_token as some_token
from adsum_shared import streams
from adsum_shared.connect import open_redis
from tests.brokers import Broker, running_broker
from tests.hub_processes import HubProcess, started
from tests.seals import seal
from tests.signing_in import (
    admin,
    asking,
    cookie_name,
    first_message,
    link,
    log_in,
    machine_token,
    make_token,
    proven,
    sign_in,
    watching,
)
from tests.support import wait_until

pytestmark = pytest.mark.redis


def wall_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture(scope="module")
def standing(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[HubProcess, HubProcess, str]]:
    """Two hubs over one Redis, for all tests that leave them standing."""
    root = tmp_path_factory.mktemp("standing")
    with running_broker(root / "broker") as broker:
        one, two = (HubProcess(root / name, broker.url, sign_in="on") for name in ("one", "two"))
        with started(one, two):
            yield one, two, broker.url


@pytest.fixture
async def redis(standing: tuple[HubProcess, HubProcess, str]) -> AsyncIterator[Redis]:
    """Theirs."""
    client = open_redis(standing[2])
    yield client
    await client.aclose()


@pytest.fixture
async def hubs(
    standing: tuple[HubProcess, HubProcess, str], redis: Redis
) -> tuple[HubProcess, HubProcess]:
    """Nobody has signed in or tried to."""
    async for key in redis.scan_iter("adsum:{auth}:*"):
        await redis.delete(key)
    return standing[:2]


@pytest.fixture
def hub(hubs: tuple[HubProcess, HubProcess]) -> HubProcess:
    return hubs[0]


@pytest.fixture
def own_hub(tmp_path: Path, redis_url: str) -> Iterator[HubProcess]:
    """For a test that harms it or its Redis."""
    hub = HubProcess(tmp_path / "one", redis_url, sign_in="on")
    with started(hub):
        yield hub


async def closing(hub: HubProcess, **headers: str) -> tuple[int, str]:
    """What a socket is closed with that is not let in."""
    async with watching(hub, **headers) as socket:
        return await ending(socket)


async def ending(socket: ClientConnection) -> tuple[int, str]:
    """The code and the reason it is closed with."""
    try:
        async with asyncio.timeout(10):
            async for _ in socket:
                pass
    except ConnectionClosed:
        pass
    return socket.close_code or 0, socket.close_reason or ""


# ---- links


def test_a_link_lets_one_browser_in_once(hub: HubProcess) -> None:
    code = link(hub, "operator", "Ann")

    first, second = log_in(hub, code), log_in(hub, code)

    assert (first.status_code, second.status_code) == (200, 410)
    assert (first.json()["name"], first.json()["role"]) == ("Ann", "operator")
    assert "used already" in second.json()["error"]
    assert "adsum login" in second.json()["next"]


def test_of_two_browsers_with_one_link_one_is_let_in(
    hubs: tuple[HubProcess, HubProcess],
) -> None:
    code = link(hubs[0])
    with ThreadPoolExecutor(8) as crowd:
        answers = list(crowd.map(lambda turn: log_in(hubs[turn % 2], code), range(8)))

    assert sorted(each.status_code for each in answers) == [200] + [410] * 7


def test_its_cookie_is_for_this_host_alone_and_out_of_reach_of_scripts(hub: HubProcess) -> None:
    set_cookie = log_in(hub, link(hub)).headers["set-cookie"].lower()

    assert set_cookie.startswith(f"{cookie_name(hub)}=")
    assert {"httponly", "samesite=strict", "path=/"} <= set(set_cookie.split("; "))
    assert "domain" not in set_cookie
    assert "secure" not in set_cookie


def test_behind_tls_it_is_for_tls_alone(tmp_path: Path, redis_url: str) -> None:
    public = {"sign_in": "on", "public_url": "https://hub.example.net"}
    hub = HubProcess(tmp_path / "tls", redis_url, **public)
    try:
        hub.start()
        code = link(hub)
        with asking(hub) as client:
            origin = {"host": "hub.example.net", "origin": "https://hub.example.net"}
            answer = client.post("/api/v1/login", json={"code": code}, headers=origin)
    finally:
        hub.kill()

    assert answer.headers["set-cookie"].startswith("__Host-adsum=")
    assert "; Secure" in answer.headers["set-cookie"]


async def test_a_link_that_has_expired_says_so_each_time(hub: HubProcess, redis: Redis) -> None:
    code = some_code()
    await LoginCodes(redis, seal()).issue(digest_of(code), LoginCode("Ann", "admin", wall_ms() - 1))

    for _ in range(2):
        answer = log_in(hub, code)
        assert answer.status_code == 410
        assert "has expired" in answer.json()["error"]


def test_a_code_of_nobody_is_refused(hub: HubProcess) -> None:
    assert log_in(hub, some_code()).status_code == 401


def test_a_link_outlives_a_restart_and_so_does_a_sign_in(own_hub: HubProcess) -> None:
    hub = own_hub
    code, cookie = link(hub), sign_in(hub)
    hub.stop()
    assert not (hub.state_dir / "hub.token").exists()
    hub.start()

    assert log_in(hub, code).status_code == 200
    with asking(hub, cookie=cookie) as client:
        assert client.get("/api/v1/me").json()["name"] == "Ann"


def test_a_new_sign_in_takes_the_place_of_the_browsers_old_one(hub: HubProcess) -> None:
    old, code = sign_in(hub), link(hub)
    with asking(hub, cookie=old) as client:
        assert client.post("/api/v1/login", json={"code": code}).status_code == 200
        assert client.get("/api/v1/me").status_code == 401
    with admin(hub) as client:
        assert len(client.get("/api/v1/sign-ins").json()["sign_ins"]) == 1


def test_too_many_logins_are_told_to_wait_at_every_hub(
    hubs: tuple[HubProcess, HubProcess],
) -> None:
    answers = [log_in(hubs[turn % 2], some_code()) for turn in range(MOST_OF_ONE)]
    assert {each.status_code for each in answers} == {401}

    refused = log_in(hubs[0], link(hubs[0]))

    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert refused.json()["next"].startswith("Try again in")


# ---- sign-ins and tokens


def test_a_sign_in_and_a_token_hold_on_all_hubs_until_revoked_at_any(
    hubs: tuple[HubProcess, HubProcess],
) -> None:
    one, two = hubs
    cookie, (named, token) = sign_in(one), make_token(one)
    with asking(two, cookie=cookie) as browser, asking(two, token=token) as script:
        assert browser.get("/api/v1/me").json()["role"] == "admin"
        assert script.get("/api/v1/me").json() == {
            "name": "ci",
            "role": "viewer",
            "csrf": "",
            "sign_in": True,
        }
        assert browser.post("/api/v1/logout", headers=proven(browser)).status_code == 200
        assert browser.get("/api/v1/me").status_code == 401
        with admin(two) as client:
            assert client.delete(f"/api/v1/tokens/{named}").json()["id"] == named
            assert client.delete(f"/api/v1/tokens/{named}").status_code == 404
        refused = script.get("/api/v1/me")
    assert refused.status_code == 401
    assert "was revoked" in refused.json()["error"]


def test_a_revoked_credential_names_what_it_made(hub: HubProcess) -> None:
    """Through others too, and the browsers that its login links let in."""
    wish = {"role": "admin", "name": "more", "expires_s": 600}
    first, secret = make_token(hub, "admin")
    with asking(hub, token=secret) as client:
        made = client.post("/api/v1/tokens", json=wish).json()
        code, late = (
            client.post("/api/v1/login-links", json={"name": "x"}).json()["code"] for _ in range(2)
        )
    with asking(hub, token=made["secret"]) as client:
        grandchild = client.post("/api/v1/tokens", json=wish).json()["token"]
    with asking(hub) as client:
        assert client.post("/api/v1/login", json={"code": code}).status_code == 200
    with admin(hub) as client:
        other = client.post("/api/v1/tokens", json=wish).json()["token"]
        revoked = client.delete(f"/api/v1/tokens/{first}").json()
        (browser,) = client.get("/api/v1/sign-ins").json()["sign_ins"]
        assert client.delete(f"/api/v1/tokens/{other['id']}").json()["tokens"] == []

    with asking(hub) as client:
        assert client.post("/api/v1/login", json={"code": late}).status_code == 401
    assert (made["token"]["by"], grandchild["by"]) == (first, made["token"]["id"])
    assert (other["by"], browser["by"]) == ("", first)
    assert set(revoked["tokens"]) == {made["token"]["id"], grandchild["id"]}
    assert revoked["sign_ins"] == [browser["id"]]


def test_roles_hold_for_cookies_and_tokens(hub: HubProcess) -> None:
    test, tokens = ("POST", "/api/v1/notify/test"), ("GET", "/api/v1/tokens")
    allowed = {"viewer": [403, 403], "operator": [200, 403], "admin": [200, 200]}
    for role, expected in allowed.items():
        token = make_token(hub, role)[1]
        with asking(hub, token=token) as script, asking(hub, cookie=sign_in(hub, role)) as browser:
            for client in (script, browser):
                headers = proven(client)
                found = [
                    client.request(method, path, headers=headers, json={"channel": None})
                    for method, path in (test, tokens)
                ]
                # 429: a test was sent just now, so it was let through.
                assert [
                    200 if each.status_code == 429 else each.status_code for each in found
                ] == expected


def test_a_list_tells_who_is_in_and_no_secret(hub: HubProcess) -> None:
    cookie, (named, token) = sign_in(hub, "viewer", "Bob"), make_token(hub)
    with asking(hub, token=token) as script:
        script.get("/api/v1/me")
    with admin(hub) as client:
        sign_ins, tokens = client.get("/api/v1/sign-ins"), client.get("/api/v1/tokens")

    [found] = sign_ins.json()["sign_ins"]
    assert (found["id"], found["name"], found["role"]) == (
        id_of(digest_of(cookie)),
        "Bob",
        "viewer",
    )
    assert "httpx" in found["where"]
    assert [each["id"] for each in tokens.json()["tokens"]] == [named]
    assert tokens.json()["tokens"][0]["seen"] > 0
    assert cookie not in sign_ins.text
    assert token not in tokens.text


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"role": "root", "name": "x", "expires_s": 60}, 400),
        ({"role": "viewer", "name": "", "expires_s": 60}, 400),
        ({"role": "viewer", "name": "a\nb", "expires_s": 60}, 400),
        ({"role": "viewer", "name": "x" * 65, "expires_s": 60}, 400),
        ({"role": "viewer", "name": "A\u043dn", "expires_s": 60}, 400),
        ({"role": "viewer", "name": "This machine", "expires_s": 60}, 400),
        ({"role": "viewer", "name": "x", "expires_s": 59}, 400),
        ({"role": "viewer", "name": "x", "expires_s": 10**12}, 400),
        ({"role": "viewer", "name": "x", "expires_s": "60"}, 400),
        ({"role": "viewer", "name": 7, "expires_s": 60}, 400),
        ({}, 400),
        ([], 400),
    ],
)
def test_a_token_nobody_can_mean_is_refused(hub: HubProcess, asked: object, status: int) -> None:
    with admin(hub) as client:
        answer = client.post("/api/v1/tokens", json=asked)
        listed = client.get("/api/v1/tokens").json()["tokens"]

    assert answer.status_code == status
    assert set(answer.json()) == {"error", "next"}
    assert listed == []


# ---- sockets


async def test_a_socket_is_let_in_by_cookie_or_token_and_by_nothing_else(hub: HubProcess) -> None:
    cookie, (_, token) = sign_in(hub, "viewer"), make_token(hub)
    name = cookie_name(hub)
    for headers in ({"Cookie": f"{name}={cookie}"}, {"Authorization": f"Bearer {token}"}):
        async with watching(hub, **headers) as socket:
            assert (await first_message(socket))["type"] == "snapshot"
    for headers in ({}, {"Cookie": f"{name}={some_cookie()}"}, {"Authorization": "Bearer x"}):
        code, reason = await closing(hub, **headers)
        assert code == 4401
        assert reason
    code, reason = await closing(hub, Origin="http://evil.example", Cookie=f"{name}={cookie}")
    assert code == 1008
    assert "evil.example" in reason


async def test_a_socket_is_closed_within_seconds_when_its_sign_in_is_revoked_at_another_hub(
    hubs: tuple[HubProcess, HubProcess],
) -> None:
    one, two = hubs
    cookie = sign_in(one, "viewer")
    async with watching(one, Cookie=f"{cookie_name(one)}={cookie}") as socket:
        await first_message(socket)
        with admin(two) as client:
            client.delete(f"/api/v1/sign-ins/{id_of(digest_of(cookie))}")
        revoked = time.monotonic()
        code, reason = await ending(socket)
    assert code == 4401
    assert "revoked" in reason
    assert time.monotonic() - revoked < 6


async def test_a_socket_is_closed_when_its_token_expires(hub: HubProcess, redis: Redis) -> None:
    token, now = some_token(), wall_ms()
    digest = digest_of(token)
    held = Credential(id_of(digest), "ci", "viewer", now, now + 1_500, 0)
    await CredentialStore(redis, "token", seal()).issue(digest, held, now)
    async with watching(hub, Authorization=f"Bearer {token}") as socket:
        await first_message(socket)
        assert (await ending(socket))[0] == 4401


# ---- Redis away


async def test_while_redis_is_away_the_known_go_on_and_the_others_are_told(
    own_hub: HubProcess, redis_server: Broker
) -> None:
    hub = own_hub
    cookie, (_, token) = sign_in(hub), make_token(hub)
    code, name = link(hub), cookie_name(hub)
    with asking(hub, cookie=cookie) as known, asking(hub, token=token) as script:
        assert known.get("/api/v1/me").status_code == 200
        redis_server.kill()
        await wait_until(lambda: not hub.is_ready())
        stranger = script.get("/api/v1/me")
        assert known.get("/api/v1/sessions").status_code == 200
        assert stranger.status_code == 503
        assert "Redis does not answer" in stranger.json()["error"]
        assert int(stranger.headers["retry-after"]) > 0
        assert log_in(hub, code).status_code == 503
        async with watching(hub, Cookie=f"{name}={cookie}") as socket:
            assert (await first_message(socket))["type"] == "snapshot"
        assert (await closing(hub, Authorization=f"Bearer {token}"))[0] == 1013
        with admin(hub) as machine:
            assert machine.get("/api/v1/hosts").status_code == 200
            assert machine.get("/api/v1/tokens").status_code == 503

        redis_server.start()
        await wait_until(lambda: script.get("/api/v1/me").status_code == 200, timeout=15)
        assert log_in(hub, code).status_code == 200
    assert "Traceback" not in hub.log.read_text()


async def test_a_redis_that_was_emptied_signs_everybody_out_but_this_machine(
    own_hub: HubProcess, redis_url: str
) -> None:
    hub = own_hub
    cookie = sign_in(hub)
    async with open_redis(redis_url) as redis:
        await redis.flushall()
    with asking(hub, cookie=cookie) as client:
        await wait_until(lambda: client.get("/api/v1/me").status_code == 401)
    assert sign_in(hub)


# ---- what is left behind


async def test_no_secret_is_left_in_redis_nor_in_a_log_and_every_key_has_an_end(
    own_hub: HubProcess, redis_url: str, redis_server: Broker
) -> None:
    hub = own_hub
    code = link(hub, "admin", "Ann")
    cookie = log_in(hub, code).cookies[cookie_name(hub)]
    named, token = make_token(hub, "admin")
    unused, wrong = link(hub), some_code()
    log_in(hub, wrong)
    log_in(hub, code)
    with asking(hub, cookie=cookie) as browser, asking(hub, token=token) as script:
        csrf = proven(browser)["x-csrf-token"]
        browser.post("/api/v1/logout")
        browser.get(f"/{code}?code={code}")
        script.get("/api/v1/me")
        await closing(hub, Cookie=f"{cookie_name(hub)}=x{cookie}")
        said = [browser.get("/api/v1/nothing").text, log_in(hub, code).text]
    with admin(hub) as client:
        client.delete(f"/api/v1/tokens/{named}")
    secrets = [code, cookie, token, unused, wrong, csrf, machine_token(hub)]
    hub.stop()

    async with open_redis(redis_url) as redis:
        keys = [key async for key in redis.scan_iter("adsum:{auth}:*")]
        dumped = b"\n".join([await redis.dump(key) or b"" for key in keys] + keys)
        endless = [key for key in keys if await redis.pttl(key) <= 0]
    kept = subprocess.run(
        ["grep", "-rl", *(f"-e{each}" for each in secrets), str(redis_server.directory)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    log = hub.log.read_text()

    assert len(keys) >= 5
    assert kept == ""
    assert not [each for each in secrets if each.encode() in dumped or each in log]
    assert not [each for each in secrets if each in "".join(said)]
    # The fields of the latter end by themselves.
    assert set(endless) == {streams.SECRET_PROBE.encode(), streams.REVOKED.encode()}


def test_the_machines_token_is_for_its_user_alone_and_goes_with_the_hub(
    own_hub: HubProcess,
) -> None:
    hub = own_hub
    file = hub.state_dir / "hub.token"
    assert file.stat().st_mode & 0o777 == 0o600
    assert machine_token(hub) not in (hub.state_dir / "hub.json").read_text()
    first = machine_token(hub)
    hub.kill()
    hub.start()
    assert machine_token(hub) != first
    with asking(hub, token=first) as client:
        assert client.get("/api/v1/me").status_code == 401
    hub.stop()
    assert not file.exists()


async def test_use_puts_the_end_of_a_sign_in_off_and_brings_no_revoked_one_back(
    hub: HubProcess, redis: Redis
) -> None:
    passes, now = CredentialStore(redis, "sign-in", seal()), wall_ms()
    cookie = some_cookie()
    digest, long_ago = digest_of(cookie), now - SIGN_IN_IDLE_MS + 60_000
    until = long_ago + SIGN_IN_MOST_MS
    held = Credential(id_of(digest), "Ann", "viewer", long_ago, until, long_ago, SIGN_IN_IDLE_MS)
    await passes.issue(digest, held, now)
    assert 0 < await redis.pttl(streams.entry_pass("sign-in", digest)) <= 60_000
    with asking(hub, cookie=cookie) as client:
        assert client.get("/api/v1/me").status_code == 200

    assert await redis.pttl(streams.entry_pass("sign-in", digest)) > SIGN_IN_IDLE_MS - 60_000
    [listed] = await passes.all(now)
    assert listed.ends > now + SIGN_IN_IDLE_MS - 60_000

    await passes.remove(digest)
    await passes.use(digest, held, now)
    assert await passes.all(now) == []
    assert await passes.find(digest) is None


async def test_a_pass_that_cannot_be_read_lets_nobody_in(hub: HubProcess, redis: Redis) -> None:
    for stored in (b"", b"{", b'{"id": "x", "role": "root"}', b"\xff"):
        cookie = some_cookie()
        key = streams.entry_pass("sign-in", digest_of(cookie))
        await redis.set(key, seal().sign(key, stored), ex=60)
        await redis.zadd(streams.entry_passes("sign-in"), {digest_of(cookie): wall_ms() + 60_000})
        with asking(hub, cookie=cookie) as client:
            assert client.get("/api/v1/me").status_code == 401
        code = some_code()
        key = streams.login_code(digest_of(code))
        await redis.set(key, seal().sign(key, stored), ex=60)
        assert log_in(hub, code).status_code == 401
