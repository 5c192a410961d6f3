"""Real hubs under a flood of strangers: who was shut out stays out, and whoever may come in does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import redis

from adsum_hub.auth.credentials import make_code, make_token
from adsum_shared.host_keys import KIND, PATH, KeysRequest, encode
from tests.brokers import running_broker
from tests.hub_processes import HubProcess, started
from tests.signing_in import admin, asking, link, machine_token
from tests.signing_in import make_token as token_at
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]

LOGINS = 24


Hubs = tuple[HubProcess, HubProcess]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hubs, str]]:
    root = tmp_path_factory.mktemp("standing")
    with running_broker(root / "broker") as broker:
        one, two = (HubProcess(root / name, broker.url, sign_in="on") for name in "ab")
        with started(one, two):
            yield (one, two), broker.url


@pytest.fixture
def hubs(standing: tuple[Hubs, str]) -> Hubs:
    """Two over one Redis, where nobody has tried to log in yet."""
    with redis.Redis.from_url(standing[1]) as client:
        for key in client.scan_iter("adsum:{auth}:tries:*"):
            client.delete(key)
    return standing[0]


class Stranger:
    """One connection that asks as fast as it is answered. number: gives it an address of its own."""

    def __init__(self, hub: HubProcess, number: int) -> None:
        self._hub = hub
        self._address = f"127.0.{1 + number // 200}.{1 + number % 200}"
        self.answers: Counter[int] = Counter()

    async def run(self, *requests: tuple[str, dict[str, str], bytes]) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._hub.port, local_addr=(self._address, 0)
        )
        host = f"127.0.0.1:{self._hub.port}"
        with contextlib.closing(writer):
            while True:
                for path, headers, body in requests:
                    head = {"host": host, "content-length": str(len(body)), **headers}
                    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
                    writer.write(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
                    self.answers[await _status(reader)] += 1


async def _status(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0]))
    return int(head.split()[1])


@contextlib.asynccontextmanager
async def flooded(hub: HubProcess, seen: Counter[int] | None = None) -> AsyncIterator[None]:
    """Bursts of logins, of join tokens, and of credentials that nobody has given out."""
    as_json = {"content-type": "application/json"}
    credential = f"Bearer adsum_machine_{uuid.uuid4()}_{'x' * 43}"
    join = json.dumps({"token": "adsum_join_" + "x" * 43}).encode()
    login = ("/api/v1/login", as_json, json.dumps({"code": make_code()}).encode())
    requests = (
        ("/api/v1/join/check", as_json, join),
        ("/api/v1/tokens", {**as_json, "authorization": f"Bearer {make_token()}"}, b"{}"),
        (PATH, {"content-type": KIND, "authorization": credential}, encode(KeysRequest())),
    )
    crowd = [Stranger(hub, number) for number in range(2 * LOGINS)]
    tasks = [
        asyncio.create_task(each.run(login if number < LOGINS else requests[number % 3]))
        for number, each in enumerate(crowd)
    ]
    try:
        await wait_until(lambda: all(each.answers for each in crowd))
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for each in crowd:
            (Counter() if seen is None else seen).update(each.answers)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


@pytest.mark.core
async def test_an_admins_token_revoked_elsewhere_opens_nothing_under_a_flood(
    hubs: Hubs,
) -> None:
    one, two = hubs
    named, secret = token_at(one, "admin")
    headers = {"authorization": f"Bearer {secret}"}
    wish = {"role": "admin", "name": "more", "expires_s": 600}
    seen: Counter[int] = Counter()
    before: Counter[int] = Counter()
    after: list[tuple[float, int]] = []
    async with httpx.AsyncClient(base_url=two.url, headers=headers, trust_env=False) as client:

        async def mint() -> int:
            return (await client.post("/api/v1/tokens", json=wish)).status_code

        assert await mint() == 200
        async with flooded(two, seen):
            until = time.monotonic() + 3
            while time.monotonic() < until:
                before[await mint()] += 1
                await asyncio.sleep(0.02)
            with admin(one) as client_one:
                revoking = client_one.delete(f"/api/v1/tokens/{named}")
            assert revoking.status_code == 200
            revoked = time.monotonic()
            while time.monotonic() < revoked + 8:
                asked = time.monotonic() - revoked
                after.append((asked, await mint()))
                await asyncio.sleep(0.02)

    good = [asked for asked, status in after if status == 200]
    print(f"good until {max(good, default=0.0):.2f} s after; before: {before}; strangers: {seen}")
    assert set(before) == {200}
    assert not good
    assert {status for _, status in after} == {401}


@pytest.mark.core
async def test_a_hundred_machines_join_at_once(hubs: Hubs) -> None:
    hub, _ = hubs
    with admin(hub) as client:
        token = client.post("/api/v1/join-tokens", json={"reusable": True}).json()["secret"]
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=hub.url, trust_env=False, limits=limits, timeout=60
    ) as client:

        async def join(number: int) -> int:
            asked = {"token": token, "host_id": str(uuid.uuid4()), "label": f"m{number}"}
            return (await client.post("/api/v1/join", json=asked)).status_code

        began = time.monotonic()
        answers = Counter(await asyncio.gather(*map(join, range(100))))

    print(f"a hundred joins: {time.monotonic() - began:.2f} s, {answers}")
    assert answers == {200: 100}


@pytest.mark.core
async def test_machines_send_through_a_hub_that_is_flooded(
    hubs: Hubs,
) -> None:
    hub, _ = hubs
    with admin(hub) as client:
        token = client.post("/api/v1/join-tokens", json={"reusable": True}).json()["secret"]
    sent: Counter[int] = Counter()
    slowest = 0.0
    async with httpx.AsyncClient(base_url=hub.url, trust_env=False, timeout=30) as http:
        machines = []
        for number in range(12):
            host_id = str(uuid.uuid4())
            asked = {"token": token, "host_id": host_id, "label": f"m{number}", "via": "ingest"}
            answer = (await http.post("/api/v1/join", json=asked)).json()
            machines.append((host_id, answer["secret"]))

        async def send(host_id: str, secret: str) -> None:
            nonlocal slowest
            headers = {"authorization": f"Bearer {secret}", "content-type": KIND}
            body = encode(KeysRequest(host_id=host_id))
            for _ in range(15):
                began = time.monotonic()
                sent[(await http.post(PATH, content=body, headers=headers)).status_code] += 1
                slowest = max(slowest, time.monotonic() - began)

        async with flooded(hub):
            await asyncio.gather(*(send(*machine) for machine in machines))

    print(f"ingest under flood: {sent}, slowest {slowest:.2f} s")
    assert sent == {200: 12 * 15}


@pytest.mark.core
async def test_three_hundred_tries_of_one_address_keep_no_other_from_logging_in(
    hubs: Hubs,
) -> None:
    hub, _ = hubs
    code = link(hub)
    transport = httpx.AsyncHTTPTransport(local_address="127.0.9.9")
    async with httpx.AsyncClient(base_url=hub.url, transport=transport, timeout=60) as bad:
        tries = [
            (await bad.post("/api/v1/login", json={"code": make_code()})).status_code
            for _ in range(310)
        ]

    assert tries[0] == 401
    assert tries[-1] == 429
    with asking(hub) as client:
        answer = client.post("/api/v1/login", json={"code": code})
        assert (answer.status_code, answer.json().get("name")) == (200, "Ann")


@pytest.mark.core
async def test_an_address_that_a_stranger_only_names_is_not_counted(
    hubs: Hubs,
) -> None:
    hub, _ = hubs
    before = len(hub.log.read_text())
    with asking(hub) as client:
        answers = [
            client.post(
                "/api/v1/login",
                json={"code": make_code()},
                headers={"x-forwarded-for": f"203.0.113.{number}"},
            ).status_code
            for number in range(21)
        ]

    assert answers == [401] * 20 + [429]
    text = hub.log.read_text()[before:]
    assert "203.0.113." not in text
    # None where the floods before it have used up this minute's lines.
    assert text.count("No login link has this code.") <= 1
    assert machine_token(hub) not in text
