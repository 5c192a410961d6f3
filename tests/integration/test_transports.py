"""Ways to Redis, a real one each: a cluster, and a failover in it and by Sentinels."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis.crc import key_slot
from redis.exceptions import RedisError

from adsum.broker import read_all, write_all
from adsum.doctor.checks import check_redis
from adsum_collector.state_dir import load_identity
from adsum_hub.auth.credentials import LoginRateLimit, digest_of
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_hub.join.rights import Rights, user_of
from adsum_hub.notify.channels import TOLD, SentMarks
from adsum_shared import streams
from adsum_shared.connect import Redis, open_redis
from adsum_shared.redis_errors import UnsettledError
from tests.brokers import Broker
from tests.clusters import (
    Cluster,
    Sentinels,
    asked,
    running_cluster,
    running_sentinels,
    until,
)
from tests.hub_processes import AgentCollector, HubProcess, numbers_done, started, tool_starts
from tests.seals import seal
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60), pytest.mark.slow]
HOST = "11111111-1111-4111-8111-111111111111"
KEYS = [streams.inbox(f"{number:08x}-1111-4111-8111-111111111111") for number in range(12)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three masters, and a replica of the first."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), replicas=1) as cluster:
        yield cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Redis]:
    client = open_redis(cluster.url)
    yield client
    await client.flushall()
    await client.aclose()


@pytest.fixture
async def reader(cluster: Cluster) -> AsyncIterator[Redis]:
    reader = open_redis(cluster.url, block_s=0.5)
    yield reader
    await reader.aclose()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10) as http:
        yield http


def share_of(host_id: str) -> int:
    """Which of three masters has its keys."""
    return min(2, key_slot(streams.inbox(host_id).encode()) // (16_384 // 3))


async def test_a_pipeline_over_several_nodes_answers_in_the_order_it_was_asked(
    client: Redis,
) -> None:
    async with client.pipeline(transaction=False) as writes:
        for number, key in enumerate(KEYS):
            writes.set(key, number)
            writes.incr(key)
        told = await writes.execute()

    assert told == [each for number in range(len(KEYS)) for each in (True, number + 1)]
    assert {key async for key in client.scan_iter(count=3)} == {key.encode() for key in KEYS}


async def test_a_reader_of_many_streams_hears_of_each_at_once(client: Redis, reader: Redis) -> None:
    cursors = dict.fromkeys(KEYS, "0-0")
    assert await reader.xread(cursors, count=50, block=10) == []
    took = []
    for number, key in enumerate(KEYS, 1):
        reading = asyncio.create_task(reader.xread(cursors, count=50, block=2_000))
        await asyncio.sleep(0)
        began = time.monotonic()
        await client.xadd(key, {"a": "b"}, id=f"1-{number}")
        [[found, entries]] = await reading
        took.append(time.monotonic() - began)
        assert (found, entries) == (key.encode(), [(f"1-{number}".encode(), {b"a": b"b"})])
        cursors[key] = f"1-{number}"

    assert sorted(took)[len(took) // 2] < 0.1  # far below the sweep, which finds everything


async def test_what_lies_before_a_cursor_that_was_set_back_is_read_again(
    client: Redis, reader: Redis
) -> None:
    await client.xadd(KEYS[0], {"a": "b"}, id="5-1")
    assert await reader.xread({KEYS[0]: "5-1"}, count=50, block=10) == []

    assert len(await reader.xread({KEYS[0]: "0-0"}, count=50, block=10)) == 1


async def test_a_reader_that_is_told_nothing_asks_by_itself(
    cluster: Cluster, client: Redis
) -> None:
    """A hub's user that lacks the right to be told."""
    for broker in cluster.brokers:
        rules = ("on", ">word", "~*", "+@all", "-client|tracking")
        asked(broker, "ACL", "SETUSER", "deaf", *rules)
    reader = open_redis(cluster.url.replace("//", "//deaf:word@"), block_s=0.5)
    try:
        reading = asyncio.create_task(reader.xread({KEYS[0]: "0-0"}, count=50, block=2_000))
        await asyncio.sleep(0)
        await client.xadd(KEYS[0], {"a": "b"}, id="1-1")
        assert len(await asyncio.wait_for(reading, 1.0)) == 1
    finally:
        await reader.aclose()


async def test_a_machine_that_joined_has_a_user_at_every_node(
    cluster: Cluster, client: Redis
) -> None:
    def users() -> list[bool]:
        return [has_user(each) for each in cluster.brokers]

    rights = Rights(client)
    await rights.grant(HOST, digest_of("word"))
    machine = open_redis(cluster.url.replace("//", f"//{user_of(HOST)}:word@")).client()
    try:
        assert users() == [True] * 4
        await machine.execute_command("XADD", streams.inbox(HOST), "1-1", "a", "b")
        with pytest.raises(RedisError, match="permissions"):
            await machine.execute_command("SADD", streams.HOSTS, HOST)
        with pytest.raises(RedisError, match="permissions"):
            await machine.execute_command("SET", streams.want(HOST), "1")
        asked(cluster.brokers[3], "ACL", "DELUSER", user_of(HOST))  # it was restarted, say
        assert await rights._granted([HOST]) == set()
    finally:
        await machine.aclose()
    await rights.withdraw(HOST)
    assert users() == [False] * 4


async def test_what_hubs_keep_for_all_machines_is_kept_over_several_nodes(client: Redis) -> None:
    names = [f"case{number}" for number in range(6)]
    marks, machines = SentMarks(client), MachineStore(client, seal())
    for _ in range(2):
        assert await marks.claim(names) == [marks.me] * 6
        await marks.free(names)
    await marks.mark_sent(names)
    assert await SentMarks(client).claim(names) == [TOLD] * 6
    assert await LoginRateLimit(client).count("203.0.113.5") == 0

    async with machines.alone(HOST) as mine, machines.alone(HOST) as other:
        assert (mine, other) == (True, False)
        await machines.enter(JoinedMachine(HOST, "oak", "digest", 1, "acl", "t"), "label")
        assert await machines.entitled(HOST) is None
    assert await machines.entitled(HOST) == "digest"
    await client.xadd(streams.inbox(HOST), {"a": "b"}, id="1-1")
    await machines.forget(HOST)
    assert (await machines.roll()).forgotten == {HOST}
    assert await client.exists(streams.inbox(HOST)) == 0


async def test_a_backup_holds_what_lies_on_all_nodes_and_restores_it(client: Redis) -> None:
    for number, key in enumerate(KEYS):
        await client.xadd(key, {"a": "b"}, id=f"1-{number + 1}")
    records = await read_all(client)

    await client.flushall()
    await write_all(client, records, [])

    assert await read_all(client) == records
    assert len(records) == len(KEYS)


@pytest.mark.parametrize("steady", [False, True])
async def test_a_slot_that_moves_is_followed_but_not_by_who_may_have_lost_something_there(
    cluster: Cluster, client: Redis, steady: bool
) -> None:
    slot = key_slot(KEYS[0].encode())
    by, to = share_of(KEYS[0][7:43]), (share_of(KEYS[0][7:43]) + 1) % 3
    asking = client.client() if steady else client
    assert await asking.exists(KEYS[0]) == 0
    try:
        move(cluster, slot, by, to)
        if steady:
            with pytest.raises(RedisError, match="has moved"):
                await asking.exists(KEYS[0])
        else:
            await wait_until(lambda: is_set(asking, KEYS[0]))
            assert asked(cluster.brokers[to], "GET", KEYS[0]) == b"there"
            await asking.delete(KEYS[0])
    finally:
        move(cluster, slot, to, by)
        if steady:
            await asking.aclose()


async def is_set(client: Redis, key: str) -> bool:
    """Not while the nodes tell each other of the move: then a client is told to ask again."""
    try:
        return bool(await client.set(key, "there"))
    except UnsettledError:
        return False


def move(cluster: Cluster, slot: int, by: int, to: int) -> None:
    """An empty slot, as the last steps of any move of one have it."""
    new = cluster.id_of(cluster.brokers[to])
    for number in (to, by):
        asked(cluster.brokers[number], "CLUSTER", "SETSLOT", slot, "NODE", new)


def hosts_on_each(directory: Path, url: str) -> list[AgentCollector]:
    """A collector with its keys on the first master, one on the second, one on the third."""
    found: dict[int, AgentCollector] = {}
    for number in range(200):
        host_id = load_identity(directory / f"host{number}").host_id
        found.setdefault(share_of(host_id), AgentCollector(directory / f"host{number}", url))
        if len(found) == 3:
            return [found[share] for share in range(3)]
    raise AssertionError("no three identities for three masters")


@contextlib.contextmanager
def together(*processes: HubProcess | AgentCollector) -> Iterator[None]:
    """As `started`, but none waits for another."""
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: each.start(), processes))
        yield
    finally:
        for each in processes:
            each.kill()


async def sent(http: httpx.AsyncClient, hosts: list[AgentCollector], numbers: range) -> list[int]:
    """Hooks with these numbers to all of them; what each one's last signal is."""
    last = []
    for host in hosts:
        for number in numbers:
            seq = await host.hook(http, tool_starts("s", number))
        last.append(seq)
    return last


async def all_shown(hub: HubProcess, hosts: list[AgentCollector], last: list[int]) -> None:
    """Each number once, none lost, in order."""
    for host, seq in zip(hosts, last, strict=True):
        await wait_until(lambda: hub.applied(host.host_id) >= seq, timeout=20, interval=0.05)  # noqa: B023
        shown = numbers_done(hub, host.host_id, "s")
        assert shown == list(range(1, len(shown) + 1))


def cut_off(master: Broker, replica: Broker) -> None:
    """What the master takes from now on the replica will not have."""
    assert replica.process is not None
    replica.process.send_signal(signal.SIGSTOP)
    asked(master, "CLIENT", "KILL", "TYPE", "replica")


def lose(master: Broker, replica: Broker) -> None:
    master.kill()
    assert replica.process is not None
    os.kill(replica.process.pid, signal.SIGCONT)


def sent_again(host: AgentCollector) -> bool:
    """From the last hook on that the replica had: or the master took nothing along."""
    return "after number 5" in host.log.read_text()


def is_master(broker: Broker) -> bool:
    return bool(asked(broker, "ROLE")[0] == b"master")


def has_user(broker: Broker) -> bool:
    return user_of(HOST).encode() in asked(broker, "ACL", "USERS")


@pytest.mark.core
async def test_three_hosts_on_three_nodes_are_shown_and_outlive_a_master_that_takes_its_tail_along(
    cluster: Cluster, client: Redis, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    hosts = hosts_on_each(tmp_path, cluster.url)
    hub = HubProcess(tmp_path / "hub", cluster.url)
    with together(hub, *hosts):
        await all_shown(hub, hosts, await sent(http, hosts, range(1, 6)))
        cut_off(cluster.brokers[0], cluster.brokers[3])
        await all_shown(hub, hosts, await sent(http, hosts, range(6, 11)))
        lose(cluster.brokers[0], cluster.brokers[3])
        last = await sent(http, hosts, range(11, 16))
        await asyncio.to_thread(until, lambda: is_master(cluster.brokers[3]))
        await all_shown(hub, hosts, last)
        assert sent_again(hosts[0])
        assert asked(cluster.brokers[3], "EXISTS", streams.inbox(hosts[0].host_id))
        fresh = HubProcess(tmp_path / "fresh", cluster.url)
        with started(fresh):
            await all_shown(fresh, hosts, last)


@pytest.fixture(scope="module")
def sentinels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sentinels]:
    with running_sentinels(tmp_path_factory.mktemp("sentinels")) as sentinels:
        yield sentinels


def test_a_master_that_no_sentinel_knows_is_told(sentinels: Sentinels, tmp_path: Path) -> None:
    found = check_redis(sentinels.url.replace("mymaster", "theirs"), tmp_path)

    told = f"{found.what} {found.fix}"
    assert "no Sentinel knows a master named theirs" in told
    assert "Correct the name" in told
    assert check_redis(sentinels.url, tmp_path).result == "ok"


def test_a_login_that_sentinels_refuse_is_told_without_it(
    sentinels: Sentinels, tmp_path: Path
) -> None:
    url = f"{sentinels.url}?sentinel_username=me&sentinel_password=s3cret"

    found = check_redis(url, tmp_path)

    told = f"{found.what} {found.fix}"
    assert "refuses the login: put sentinel_username and sentinel_password" in told
    assert "s3cret" not in told


@pytest.mark.core
async def test_a_failover_by_sentinels_loses_nothing_and_doubles_nothing(
    sentinels: Sentinels, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    host = AgentCollector(tmp_path / "host", sentinels.url)
    hub = HubProcess(tmp_path / "hub", sentinels.url)
    with together(hub, host):
        client = open_redis(sentinels.url)
        await Rights(client).grant(HOST, digest_of("word"))
        await client.aclose()
        await all_shown(hub, [host], await sent(http, [host], range(1, 6)))
        cut_off(sentinels.master, sentinels.replica)
        await all_shown(hub, [host], await sent(http, [host], range(6, 11)))
        lose(sentinels.master, sentinels.replica)
        await all_shown(hub, [host], await sent(http, [host], range(11, 16)))
        assert sent_again(host)
        assert is_master(sentinels.replica)
        assert has_user(sentinels.replica)
