"""Machines that may reach only the hub: a real Redis, hubs, and collectors that speak HTTP to them."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import redis

from adsum.machine import Membership, keep, membership
from adsum_collector.delivery.transports import HubPlace, HubTransport
from adsum_collector.errors import HubError
from adsum_collector.state_dir import load_identity, make_private
from adsum_hub.auth.credentials import MOST_OF_ONE
from adsum_shared import streams
from adsum_shared.host_keys import KIND, PATH, KeysRequest, NewEntry, encode
from tests.authorities import Authority
from tests.brokers import Broker, free_port, running_broker
from tests.chaos.links import Link
from tests.hub_processes import AgentCollector, HubProcess, numbers_done, started, tool_starts
from tests.joining import machines
from tests.proxies import proxy_to
from tests.support import wait_until
from tests.tls import tls_before

pytestmark = pytest.mark.redis
#: Of each of two hubs, the address that both answer at.
SHARED_PORT = free_port()
ADDS = b"\xa3add"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def hub_on(broker: Broker, state_dir: Path, *names: str) -> HubProcess:
    listed = ",".join(f'"{name}"' for name in (f"127.0.0.1:{SHARED_PORT}", *names))
    away = f"redis://127.0.0.1:{free_port()}"
    return HubProcess(state_dir, broker.url, hub_hosts=f"[{listed}]", machine_redis_url=away)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[HubProcess]:
    hub = hub_on(broker, tmp_path_factory.mktemp("hub") / "one")
    hub.env["FORWARDED_ALLOW_IPS"] = "127.0.0.1"  # one test is a proxy of many addresses
    with started(hub):
        yield hub


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


def token_of(hub: HubProcess) -> str:
    made = httpx.post(f"{hub.url}/api/v1/join-tokens", json={}, trust_env=False).json()
    return str(made["secret"])


def let_in(hub: HubProcess, state: Path, url: str = "", ca: str | None = None) -> HubPlace:
    """As `adsum join --via ingest` does. url: where this machine reaches the hub."""
    make_private(state)
    identity = load_identity(state, state.name)
    asked = {
        "token": token_of(hub),
        "host_id": identity.host_id,
        "label": state.name,
        "via": "ingest",
    }
    answer = httpx.post(f"{hub.url}/api/v1/join", json=asked, trust_env=False).json()
    assert (answer["way"], answer["redis_url"]) == ("ingest", "")
    kept = Membership(
        url or hub.url, identity.host_id, state.name, "", answer["secret"], ca, via="ingest"
    )
    keep(state, kept)
    assert kept.ingest is not None
    return kept.ingest


@pytest.fixture
def machine(hub: HubProcess, tmp_path: Path) -> Iterator[AgentCollector]:
    collector = AgentCollector(tmp_path / "oak", "")
    collector.env.pop("ADSUM_REDIS_URL")
    let_in(hub, collector.state_dir)
    yield collector
    collector.kill()


async def tell(
    collector: AgentCollector, http: httpx.AsyncClient, numbers: range, session: str = "s1"
) -> None:
    for number in numbers:
        await collector.hook(http, tool_starts(session, number))


async def all_there(hub: HubProcess, collector: AgentCollector, most: int, timeout: float) -> None:
    """Each once and in order, at this hub."""
    host_id = collector.host_id
    await wait_until(
        lambda: hub.applied(host_id) >= most and numbers_done(hub, host_id, "s1")[-1:] == [most],
        timeout,
        0.05,
    )
    assert numbers_done(hub, host_id, "s1") == list(range(1, most + 1))


def entries(broker: Broker, host_id: str) -> list[bytes]:
    with redis.Redis.from_url(broker.url) as client:
        return [each for each, _ in client.xrange(streams.inbox(host_id))]  # type: ignore[union-attr, misc]


async def test_signals_come_through_the_hub_and_it_says_so(
    hub: HubProcess, machine: AgentCollector, http: httpx.AsyncClient
) -> None:
    machine.start()
    await tell(machine, http, range(1, 21))

    await all_there(hub, machine, 20, 10)
    assert hub.host(machine.host_id)["via"] == "hub"
    assert hub.host(machine.host_id)["reachability"] == "live"
    await wait_until(lambda: machine.ready()["spool"]["acked"] >= 20, 10)
    assert machine.ready()["problem"] is None
    # Its credential stands nowhere but in its own file.
    assert "adsum_machine_" not in machine.log.read_text() + hub.log.read_text()


@pytest.mark.slow
def test_who_joins_and_does_not_reach_redis_goes_through_the_hub(
    hub: HubProcess, broker: Broker
) -> None:
    with machines("ivy") as [ivy]:
        done = ivy.join(hub.url, token_of(hub))

        assert done.returncode == 0, done.stderr
        assert "signals    through the hub. Redis at redis://127.0.0.1:" in done.stderr
        assert hub.host(ivy.host_id)["via"] == "hub"
        assert "signals go through the hub" in ivy.run("config", "show").stdout
        looked = ivy.run("doctor", "--hub", hub.url, "--json")
        [way] = [each for each in json.loads(looked.stdout)["checks"] if each["id"] == "ingest"]
        assert way["result"] == "ok", way
        with redis.Redis.from_url(broker.url) as client:
            assert f"adsum-{ivy.host_id}" not in client.acl_users()
        assert ivy.run("leave").returncode == 0


async def test_an_answer_that_is_lost_after_the_entry_was_taken_doubles_nothing(
    hub: HubProcess, machine: AgentCollector, http: httpx.AsyncClient, broker: Broker
) -> None:
    async with proxy_to(hub.port) as proxy:
        relay = await asyncio.start_server(proxy.open, "127.0.0.1", SHARED_PORT)
        _through(machine, f"http://127.0.0.1:{SHARED_PORT}")
        machine.start()
        await tell(machine, http, range(1, 6))
        await all_there(hub, machine, 5, 10)
        for number in range(6, 9):
            before, proxy.lose_reply_to = proxy.lost, ADDS
            await tell(machine, http, range(number, number + 1))
            await wait_until(lambda before=before: proxy.lost > before, 10)
        await all_there(hub, machine, 8, 15)
        relay.close()


def _through(machine: AgentCollector, url: str, ca: str | None = None) -> None:
    kept = membership(machine.state_dir)
    assert kept is not None
    keep(
        machine.state_dir,
        Membership(url, kept.host_id, kept.label, "", kept.secret, ca, via="ingest"),
    )


@pytest.mark.core
@pytest.mark.slow
async def test_nothing_is_lost_or_doubled_when_hub_and_redis_go_down_and_lose_everything(
    tmp_path: Path, http: httpx.AsyncClient
) -> None:
    """A hub killed, a Redis wiped under a living hub, and both gone at once."""
    with running_broker(tmp_path / "broker") as broker:
        hub = hub_on(broker, tmp_path / "hub")
        machine = AgentCollector(tmp_path / "elm", "")
        machine.env.pop("ADSUM_REDIS_URL")
        with started(hub):
            let_in(hub, machine.state_dir)
            machine.start()
            try:
                await tell(machine, http, range(1, 11))
                await all_there(hub, machine, 10, 10)
                hub.kill()
                await tell(machine, http, range(11, 16))
                await wait_until(lambda: "cannot be reached" in machine.ready()["problem"], 5)
                hub.start()
                await all_there(hub, machine, 15, 10)

                with redis.Redis.from_url(broker.url) as client:
                    client.flushall()
                await tell(machine, http, range(16, 21))
                await all_there(hub, machine, 20, 15)

                broker.kill()
                hub.kill()
                await tell(machine, http, range(21, 26))
                broker.wipe()
                broker.start()
                hub.start()
                # Who has joined was on the hub's disk; what it made of the first twenty was not.
                await wait_until(lambda: hub.applied(machine.host_id) > 0, 20)
                await wait_until(
                    lambda: numbers_done(hub, machine.host_id, "s1")[-1:] == [25], 20, 0.05
                )
                shown = numbers_done(hub, machine.host_id, "s1")
                assert shown == list(range(26 - len(shown), 26))
                assert machine.ready()["stream"]["problem"] is None
            finally:
                machine.kill()


async def test_two_hubs_behind_one_address_may_answer_in_turn(
    hub: HubProcess,
    machine: AgentCollector,
    http: httpx.AsyncClient,
    broker: Broker,
    tmp_path: Path,
) -> None:
    other = hub_on(broker, tmp_path / "two")
    link = Link(hub.port, other.port)
    link.port = SHARED_PORT
    with started(other):
        await link.accept()
        _through(machine, f"http://127.0.0.1:{SHARED_PORT}")
        machine.start()
        for number in range(1, 31):
            await tell(machine, http, range(number, number + 1))
            if number % 3 == 0:
                link.reset()  # the next connection leads to the other
        await all_there(hub, machine, 30, 20)
        await all_there(other, machine, 30, 20)
        await link.close()


async def test_who_is_shut_out_is_refused_at_once_and_told_what_to_do(
    hub: HubProcess, machine: AgentCollector, http: httpx.AsyncClient
) -> None:
    machine.start()
    await tell(machine, http, range(1, 3))
    await all_there(hub, machine, 2, 10)

    done = await http.post(f"{hub.url}/api/v1/hosts/{machine.host_id}/revoke", json={})
    assert done.status_code == 200, done.text
    number = await machine.hook(http, tool_starts("s1", 3))

    await wait_until(lambda: "adsum join --again" in (machine.ready()["problem"] or ""), 10)
    assert "lets this machine in no more" in machine.log.read_text()
    assert machine.ready()["spool"]["last"] >= number
    assert numbers_done(hub, machine.host_id, "s1") == [1, 2]
    tries = machine.log.read_text().count("lets this machine in no more")
    assert tries == 1  # said once, whatever it tries


async def test_a_machine_may_touch_its_own_keys_alone(
    hub: HubProcess, broker: Broker, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    oak, elm = let_in(hub, tmp_path / "oak"), let_in(hub, tmp_path / "elm")
    elm_id = load_identity(tmp_path / "elm", None).host_id
    entry = NewEntry("1-1", {b"b": b"[]"})

    async def post(body: bytes, secret: str = oak.secret, **more: str) -> tuple[int, str]:
        headers = {"authorization": f"Bearer {secret}", "content-type": KIND, **more}
        answer = await http.post(hub.url + PATH, content=body, headers=headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        return answer.status_code, answer.text

    status, said = await post(encode(KeysRequest(add=entry, host_id=elm_id)))
    assert (status, "another machine's" in said) == (403, True)
    assert entries(broker, elm_id) == []
    assert (await post(encode(KeysRequest(host_id=elm_id)), elm.secret))[0] == 200
    assert (await post(encode(KeysRequest(host_id=elm_id)), elm.secret[:-1] + "!"))[0] == 401
    assert (await post(encode(KeysRequest(host_id=elm_id)), "-"))[0] == 401
    assert (await post(b"\xc1", elm.secret))[0] == 400
    assert (await post(b"{}", **{"content-type": "application/json"}))[0] == 415
    assert (await http.get(hub.url + PATH)).status_code == 405


async def test_who_has_filled_redis_is_asked_to_wait_as_long_as_it_is_kept_out(
    hub: HubProcess, broker: Broker, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    oak = let_in(hub, tmp_path / "oak")
    host_id = load_identity(tmp_path / "oak", None).host_id
    headers = {"authorization": f"Bearer {oak.secret}", "content-type": KIND}
    body = encode(KeysRequest(host_id=host_id))
    with redis.Redis.from_url(broker.url) as client:
        client.set(streams.paused(host_id), b"", px=streams.PAUSED_MS)
        refused = await http.post(hub.url + PATH, content=body, headers=headers)
        client.delete(streams.paused(host_id))
    taken = await http.post(hub.url + PATH, content=body, headers=headers)

    assert refused.status_code == 429
    assert 590 <= int(refused.headers["retry-after"]) <= 600
    assert taken.status_code == 200


async def test_bad_credentials_are_counted_by_address_and_good_ones_pass_all_the_same(
    hub: HubProcess, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    place = let_in(hub, tmp_path / "oak")
    host_id = load_identity(tmp_path / "oak", None).host_id

    async def post(secret: str, address: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {secret}", "content-type": KIND}
        headers["x-forwarded-for"] = address
        return await http.post(
            hub.url + PATH, content=encode(KeysRequest(host_id=host_id)), headers=headers
        )

    here, bad = "203.0.113.7", place.secret[:-8] + "aaaaaaaa"
    for _ in range(MOST_OF_ONE):
        assert (await post(bad, here)).status_code == 401
    refused = await post("-", here)

    assert (refused.status_code, set(refused.json())) == (429, {"error", "next"})
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert (await post(place.secret, here)).status_code == 200
    assert (await post(bad, "203.0.113.8")).status_code == 401
    shown = {"authorization": f"Bearer {bad}", "x-forwarded-for": here}
    assert (await http.get(f"{hub.url}/api/v1/machine", headers=shown)).status_code == 429


async def test_redis_answers_through_the_hub_as_it_does_itself(
    hub: HubProcess, broker: Broker, tmp_path: Path
) -> None:
    place = let_in(hub, tmp_path / "oak")
    host_id = load_identity(tmp_path / "oak", None).host_id
    ours, copys = {b"sp": b"sp", b"n": b"ours"}, {b"sp": b"sp", b"n": b"a copy's"}

    async with HubTransport(place).open() as line:

        async def add(entry_id: str, fields: dict[bytes, bytes]) -> str | None:
            return (await line.ask(host_id, KeysRequest(add=NewEntry(entry_id, fields)))).added

        big = ours | {b"b": b"x" * (2 << 20)}
        assert await add("2-1", big) == "new"
        assert [await add("3-7", ours), await add("3-7", ours)] == ["new", "there"]
        assert [await add("3-7", copys), await add("3-5", ours)] == ["moved", "moved"]
        told = await line.ask(host_id, KeysRequest(head=True, after="", beat=b"{}", last_beat=True))
        assert told.beyond is not None
        assert told.beyond.id in ("2-1", "3-7")  # the hub trims what it has stored
        assert (told.head and told.head.id, told.beat) == ("3-7", b"{}")
        assert (await line.ask(host_id, KeysRequest(after="3-7"))).beyond is None
        with pytest.raises(HubError, match="no entry's id"):
            await add(f"{2**60}-1", ours)
        with redis.Redis.from_url(broker.url) as client:
            client.delete(streams.inbox(host_id))
            client.set(streams.inbox(host_id), "foreign")
        with pytest.raises(HubError, match="something else was written under the key"):
            await add("4-1", ours)


async def test_another_redis_behind_the_hub_is_noticed_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path / "broker") as broker:
        hub = hub_on(broker, tmp_path / "hub")
        with started(hub):
            place = let_in(hub, tmp_path / "oak")
            host_id = load_identity(tmp_path / "oak", None).host_id
            async with HubTransport(place).open() as line:
                await line.ask(host_id, KeysRequest(want=True))
                broker.kill()
                with pytest.raises(HubError, match="cannot be reached"):
                    await line.ask(host_id, KeysRequest(want=True))
                broker.start()
                asked = KeysRequest(add=NewEntry("1-1", {b"n": b"n"}))
                told = ""
                while "cannot be reached" in (told or "cannot be reached"):
                    with pytest.raises(HubError) as caught:
                        await line.ask(host_id, asked)
                    told = str(caught.value)
                assert "another Redis, or one that was restarted" in told
            assert entries(broker, host_id) == []


@pytest.mark.slow
async def test_a_certificate_of_ones_own_authority_is_taken_and_no_other(
    hub: HubProcess, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    with tls_before(hub.port, SHARED_PORT, *ours.sign("127.0.0.1"), address="127.0.0.1") as url:
        machine = AgentCollector(tmp_path / "yew", "")
        machine.env.pop("ADSUM_REDIS_URL")
        let_in(hub, machine.state_dir, url, str(theirs.file))
        machine.start()
        try:
            await tell(machine, http, range(1, 4))
            await wait_until(lambda: "--ca FILE" in machine.ready()["problem"], 10)
            assert hub.applied(machine.host_id) == 0
            machine.stop()
            _through(machine, url, str(ours.file))
            machine.start()
            await all_there(hub, machine, 3, 10)
        finally:
            machine.kill()


@pytest.mark.slow
async def test_from_hook_to_hub_it_is_nearly_as_quick_as_redis(
    hub: HubProcess,
    machine: AgentCollector,
    http: httpx.AsyncClient,
    broker: Broker,
    tmp_path: Path,
) -> None:
    straight = AgentCollector(tmp_path / "ash", broker.url)
    machine.start()
    straight.start()
    took: dict[str, list[float]] = {"ingest": [], "redis": []}
    try:
        await _applied(hub, machine, http, 0)
        await _applied(hub, straight, http, 0)
        for number in range(1, 21):
            took["ingest"].append(await _applied(hub, machine, http, number))
            took["redis"].append(await _applied(hub, straight, http, number))
    finally:
        straight.kill()
    p50 = {way: statistics.median(each) * 1000 for way, each in took.items()}
    print(f"hook to hub, p50: {p50['redis']:.1f} ms by Redis, {p50['ingest']:.1f} ms by ingest")
    assert p50["ingest"] < p50["redis"] + 100


async def _applied(
    hub: HubProcess, machine: AgentCollector, http: httpx.AsyncClient, number: int
) -> float:
    began = time.perf_counter()
    last = await machine.hook(http, tool_starts("s1", number))
    url = f"{hub.url}/api/v1/hosts"
    while time.perf_counter() < began + 10:
        hosts = (await http.get(url)).json()["hosts"]
        if any(each["id"] == machine.host_id and each.get("applied", 0) >= last for each in hosts):
            return time.perf_counter() - began
    raise AssertionError("never applied")
