"""What a joined machine of ill will may put into Redis, by the rights that the product gives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from adsum_hub.auth.credentials import digest_of
from adsum_hub.consumer.consumer import COUNT, HEAVY, next_count
from adsum_hub.consumer.heartbeats import MOST_BYTES
from adsum_hub.join.leaving import Leaving
from adsum_hub.join.machines import JoinedMachine, MachineStore, RollFile, RollWatch
from adsum_hub.join.rights import Rights, rules_of, user_of
from adsum_hub.redis_access import Room
from adsum_hub.trouble import Writes
from adsum_shared import streams
from adsum_shared.connect import Redis, db_of, open_redis
from adsum_shared.envelope import Beat, encode_beat
from tests.brokers import Broker, running_broker
from tests.half_hubs import HOST, FakeCollector, Hub, clock
from tests.hub_processes import HubProcess, started
from tests.joining import join_token
from tests.seals import seal
from tests.signing_in import admin
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]
OTHER = "00000000-bbbb-4000-8000-000000000002"
ROOM = 4 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker"), "--maxmemory", "256mb") as broker:
        yield broker


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[Redis]:
    client = open_redis(broker.url)
    await client.flushall()
    yield client
    for host_id in (HOST, OTHER):
        await client.execute_command("ACL", "DELUSER", user_of(host_id))
    await client.aclose()


@pytest.fixture
async def hub(broker: Broker, client: Redis) -> AsyncIterator[Hub]:
    """Of two machines that have joined, with little room for each."""
    hub = Hub(broker.url)
    machines, rights = MachineStore(client, seal()), Rights(client)
    nothing: Any = SimpleNamespace()
    joined = Leaving(hub.roster, nothing, machines, rights, nothing, clock, nothing)
    hub.room = hub.heartbeats._room = Room(hub.roster, client, clock, ROOM, joined.pause)
    for host_id in (HOST, OTHER):
        await rights.grant(host_id, digest_of("secret"))
        await machines.enter(JoinedMachine(host_id, "oak", digest_of("secret"), 1, "acl", "t"), "")
        await FakeCollector(client, host_id).beat()
    await hub.consumer._discovery.look()
    yield hub
    await hub.stop()


def machine(broker: Broker, host_id: str = HOST, db: int = 0) -> redis.Redis:
    url = broker.url.replace("redis://", f"redis://{user_of(host_id)}:secret@")
    return redis.Redis.from_url(f"{url}/{db}", protocol=2)


def problem(hub: Hub, host_id: str = HOST) -> str:
    return hub.roster.hosts[host_id].view().problem or ""


async def test_a_giant_heartbeat_is_deleted_and_its_machine_kept_out_for_a_while(
    hub: Hub, broker: Broker, client: Redis
) -> None:
    oak = machine(broker)
    oak.set(streams.beat(HOST), b"x" * (64 << 20))

    await hub.heartbeats.hear()

    assert not await client.exists(streams.beat(HOST))
    assert "Its heartbeat took 64 MB of Redis" in problem(hub)
    assert "in 10 minutes" in problem(hub)
    label = hub.roster.hosts[HOST].label
    assert hub.room.notes() == [f"{label} filled Redis: see `adsum hosts`."]
    assert await Rights(client).there() == {OTHER}
    machines, digest = MachineStore(client, seal()), digest_of("secret")
    await Rights(client).mend([(HOST, digest), (OTHER, digest)], [], machines.entitled)
    assert await Rights(client).there() == {OTHER}
    await client.delete(streams.paused(HOST))
    await Rights(client).mend([(HOST, digest), (OTHER, digest)], [], machines.entitled)
    assert await Rights(client).there() == {HOST, OTHER}


async def test_of_a_giant_heartbeat_a_hub_reads_no_more_than_shows_its_length(
    hub: Hub, broker: Broker, client: Redis
) -> None:
    machine(broker).set(streams.beat(HOST), b"x" * (64 << 20), px=5_000)
    before = (await client.info("stats"))["total_net_output_bytes"]

    await hub.heartbeats.hear()

    assert (await client.info("stats"))["total_net_output_bytes"] - before < 2 * MOST_BYTES
    assert not await client.exists(streams.beat(HOST))


@pytest.mark.parametrize("expiry", [None, 3_600_000])
async def test_a_heartbeat_that_stays_makes_nobody_live(
    hub: Hub, broker: Broker, client: Redis, expiry: int | None
) -> None:
    beat = encode_beat(Beat(HOST, "lab", clock(), "n", "sp"))
    machine(broker).set(streams.beat(HOST), beat, px=expiry)

    await hub.heartbeats.hear()

    assert not await client.exists(streams.beat(HOST))
    assert "would have stayed there" in problem(hub)


@pytest.mark.core
async def test_a_stream_beyond_its_room_is_deleted_and_the_second_time_its_machine_kept_out(
    hub: Hub, broker: Broker, client: Redis
) -> None:
    for lives in (True, False):
        oak = machine(broker)
        # The first entries are small, as if to deceive whoever looks at these alone.
        for number in range(1, 600):
            oak.xadd(streams.inbox(HOST), {"a": "b" * 100}, id=f"1-{number}")
        for number in range(600, 606):
            oak.xadd(streams.inbox(HOST), {"a": "b" * (1 << 20)}, id=f"1-{number}")

        await hub.room.measure()

        assert not await client.exists(streams.inbox(HOST))
        assert "more than one machine may" in problem(hub)
        assert (HOST in await Rights(client).there()) is lives


@pytest.mark.core
async def test_what_one_hub_deletes_another_names_and_counts(
    hub: Hub, broker: Broker, client: Redis
) -> None:
    async def pause(_host_id: str) -> bool:
        return True

    other = Hub(broker.url)
    other.room = other.heartbeats._room = Room(other.roster, client, clock, ROOM, pause)
    await other.consumer._discovery.look()
    for number, one in enumerate((hub, other)):
        big = {"a": "b" * (6 << 20)}
        machine(broker).xadd(streams.inbox(HOST), big, id=f"{number + 1}-1")
        await one.room.measure()
        await hub.room.measure()
        await other.room.measure()

        assert "more than one machine may" in problem(hub)
        assert problem(other) == problem(hub)
        assert hub.room.notes() == other.room.notes() != []
        assert ("may write there again" in problem(hub)) is (one is other)  # the second time
    await other.stop()


async def test_a_full_redis_is_told_with_the_machine_that_fills_it(
    hub: Hub, broker: Broker, client: Redis
) -> None:
    hub.room._most = 1 << 30
    oak, writes = machine(broker), Writes(client, "redis://x", clock, hub.room)
    for number in range(1, 4):
        oak.xadd(streams.inbox(HOST), {"a": "b" * (8 << 20)}, id=f"1-{number}")
    await hub.room.measure()
    await client.config_set("maxmemory", "16mb")

    await writes.try_once()

    assert writes.problem is not None
    assert "out of memory" in writes.problem
    assert f"Most of it is {hub.roster.hosts[HOST].label}'s: " in writes.problem
    hub.room._most = ROOM
    await hub.room.measure()  # which frees it
    machine(broker, OTHER).xadd(streams.inbox(OTHER), {"a": "b"}, id="1-1")
    await client.config_set("maxmemory", "256mb")


async def test_a_user_by_earlier_rules_is_made_anew(client: Redis, broker: Broker) -> None:
    rights, machines, digest = Rights(client), MachineStore(client, seal()), digest_of("secret")
    await machines.put(JoinedMachine(HOST, "oak", digest, 1, "acl", "t"))
    earlier = [*rules_of(HOST), "+select", f"(+sadd %W~{streams.HOSTS})"]
    await client.execute_command("ACL", "SETUSER", user_of(HOST), "on", f"#{digest}", *earlier)
    machine(broker).sadd(streams.HOSTS, "x" * 1000)

    await rights.mend([(HOST, digest)], [], machines.entitled)

    with pytest.raises(redis.exceptions.NoPermissionError):
        machine(broker).sadd(streams.HOSTS, "x")


@pytest.mark.core
async def test_a_machine_gets_to_the_database_of_its_url_alone(
    client: Redis, broker: Broker
) -> None:
    await Rights(client, db_of(broker.url + "/3")).grant(HOST, digest_of("secret"))

    machine(broker, db=3).xadd(streams.inbox(HOST), {"a": "b"}, id="1-1")

    with pytest.raises(redis.exceptions.NoPermissionError):
        machine(broker, db=2).xadd(streams.inbox(HOST), {"a": "b"}, id="1-1")


@pytest.mark.parametrize(
    ("url", "db"),
    [
        ("redis://h", 0),
        ("rediss://u:p@h:1/2", 2),
        ("unix:///run/x.sock?db=4", 4),
        ("redis+sentinel://h:1,i:2/main/5", 5),
        ("redis+sentinel://h:1/main?db=6", 6),
        ("redis+cluster://h:1,i:2", 0),
    ],
)
def test_the_database_of_a_url_is_known(url: str, db: int) -> None:
    assert db_of(url) == db


async def test_machines_are_back_in_the_set_of_hosts_soon_after_redis_lost_everything(
    hub: Hub, client: Redis, tmp_path: Path
) -> None:
    machines = MachineStore(client, seal())
    watch = RollWatch(
        hub.roster,
        machines,
        Rights(client),
        clock,
        SimpleNamespace(notify=lambda: None),
        RollFile(tmp_path),
    )  # type: ignore[arg-type] # as far as it is asked
    running = asyncio.create_task(watch.run())
    await wait_until(lambda: watch._kept.roll is not None)

    await client.flushall()

    await wait_until(lambda: client.sismember(streams.HOSTS, HOST), timeout=5)
    assert await client.sismember(streams.HOSTS, OTHER)  # type: ignore[misc] # its stubs leave open whether it is awaited
    running.cancel()


async def test_what_is_no_name_of_a_host_leaves_the_set_of_hosts(hub: Hub, client: Redis) -> None:
    await client.sadd(streams.HOSTS, b"x" * (4 << 20), "no-uuid", b"\xff")  # type: ignore[misc] # as above
    hub.consumer._discovery._due = 0.0

    await hub.consumer._discovery.look()

    assert await client.smembers(streams.HOSTS) == {HOST.encode(), OTHER.encode()}  # type: ignore[misc] # as above


async def test_who_is_forgotten_leaves_nothing_in_redis(hub: Hub, client: Redis) -> None:
    machines, before = MachineStore(client, seal()), set(await client.keys("*"))
    await client.xadd(streams.inbox(HOST), {"a": "b"})
    await machines.pause(HOST)

    await machines.forget(HOST)
    await client.sadd(streams.HOSTS, HOST)  # type: ignore[misc] # by a hub that did not know yet
    await machines.sweep([HOST])

    assert not [key for key in await client.keys("*") if HOST.encode() in key]
    assert not await client.sismember(streams.HOSTS, HOST)  # type: ignore[misc] # as above
    assert before


@pytest.mark.core
async def test_who_is_revoked_leaves_nothing_in_redis_but_its_snapshot(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker") as broker:
        hub = HubProcess(tmp_path / "hub", broker.url, sign_in="on")
        with started(hub), admin(hub) as people:
            asked = {"token": join_token(hub), "host_id": HOST, "label": "oak", "via": "auto"}
            assert people.post("/api/v1/join", json=asked).status_code == 200
            async with open_redis(broker.url) as client:
                for written in (streams.beat, streams.want, streams.snapshot):
                    await client.set(written(HOST), b"x")
                await client.xadd(streams.inbox(HOST), {"a": "b"})

                revoked = people.post(f"/api/v1/hosts/{HOST}/revoke", json={})

                assert revoked.status_code == 200, revoked.text
                left = [key for key in await client.keys("*") if HOST.encode() in key]
                assert left == [streams.snapshot(HOST).encode()]


async def test_a_heartbeat_dated_years_ahead_is_not_believed(hub: Hub, client: Redis) -> None:
    ahead = Beat(HOST, "lab", clock() + 2 * 366 * 86_400_000, "n", "sp")
    await client.set(streams.beat(HOST), encode_beat(ahead), px=5_000)

    await hub.heartbeats.hear()

    assert "over a year ahead" in problem(hub)


async def test_a_joining_reads_no_more_of_a_heartbeat_than_shows_its_length(
    broker: Broker, client: Redis
) -> None:
    await client.set(streams.beat(HOST), b"x" * (64 << 20))
    before = (await client.info("stats"))["total_net_output_bytes"]

    await MachineStore(client, seal()).beat(HOST)

    assert (await client.info("stats"))["total_net_output_bytes"] - before < 2 * MOST_BYTES


async def test_a_machine_that_fills_redis_through_the_hub_is_kept_out_as_well(
    hub: Hub, client: Redis
) -> None:
    machines = MachineStore(client, seal())
    await machines.put(JoinedMachine(HOST, "oak", digest_of("secret"), 1, "ingest", "t"))
    await client.set(streams.beat(HOST), b"x" * (64 << 20))

    await hub.heartbeats.hear()

    assert await client.pttl(streams.paused(HOST)) > 0
    assert "in 10 minutes" in problem(hub)


def test_giant_entries_are_read_one_by_one() -> None:
    def reply(size: int) -> list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]:
        return [(b"k", [(b"1-1", {b"b": b"x"}), (b"1-2", {b"b": b"x" * size})])]

    assert next_count([]) == next_count(reply(1000)) == COUNT
    assert next_count(reply(HEAVY // 4)) == 3
    assert next_count(reply(2 * HEAVY)) == 1


@pytest.mark.core
async def test_a_machine_that_fills_redis_is_named_by_readyz_and_all_others_go_on(
    tmp_path: Path,
) -> None:
    """As it was staged: a heartbeat of 170 MB that never expires."""
    with running_broker(tmp_path / "broker", "--maxmemory", "512mb") as broker:
        hub = HubProcess(tmp_path / "hub", broker.url, sign_in="on")
        with started(hub):
            token = join_token(hub, reusable=True)
            urls = {}
            with admin(hub) as asks:
                for host_id in (HOST, OTHER):
                    asked = {"token": token, "host_id": host_id, "label": f"box-{host_id[9]}"}
                    urls[host_id] = asks.post("/api/v1/join", json=asked).json()["redis_url"]
                bad, good = (redis.Redis.from_url(urls[each]) for each in (HOST, OTHER))
                good.set(streams.beat(OTHER), b"{}", px=9_000)
                bad.set(streams.beat(HOST), b"x" * (170 << 20))

                def told() -> bool:
                    return "filled Redis" in str(asks.get("/readyz").json()["problem"])

                await wait_until(told, timeout=20)
                with pytest.raises((redis.ConnectionError, redis.AuthenticationError)):
                    bad.set(streams.beat(HOST), b"x" * (170 << 20))
                for number in range(1, 61):
                    good.xadd(streams.inbox(OTHER), {"a": "b" * 1000}, id=f"1-{number}")
