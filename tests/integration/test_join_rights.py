"""Users in Redis for machines, over time: taken away, given anew, mended; and joins at the same time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

import httpx
import msgspec
import pytest
import redis

from adsum_hub.auth.credentials import digest_of
from adsum_hub.join.leaving import Leaving
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_hub.join.rights import NoRightsError, Rights, user_of
from adsum_hub.join.tokens import JoinTokenStore, StoredJoinToken
from adsum_hub.rest.api import BadRequestError
from adsum_shared import streams
from adsum_shared.connect import Redis, open_redis
from tests.brokers import Broker, running_broker
from tests.hub_processes import HubProcess, started
from tests.joining import join_token
from tests.seals import seal

pytestmark = pytest.mark.redis
HOST = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
THIRD = "33333333-3333-4333-8333-333333333333"
DEAD = (redis.exceptions.ConnectionError, redis.exceptions.AuthenticationError)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[Redis]:
    client = open_redis(broker.url)
    await client.flushall()
    yield client
    for host_id in (HOST, OTHER, THIRD):
        await client.execute_command("ACL", "DELUSER", user_of(host_id))
    await client.aclose()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path_factory.mktemp("hub") / "one", broker.url, sign_in="on")
    with started(hub):
        yield hub


def opened(broker: Broker, secret: str) -> redis.Connection:
    """One connection, logged in, which never opens itself anew."""
    url = broker.url.replace("redis://", f"redis://{user_of(HOST)}:{secret}@")
    connection = redis.Redis.from_url(url).connection_pool.make_connection()
    connection.connect()
    return connection


def ping(connection: redis.Connection) -> bool:
    connection.send_command("PING", check_health=False)
    return bool(connection.read_response() == b"PONG")


def machine(host_id: str, digest: str, **more: object) -> JoinedMachine:
    return msgspec.structs.replace(JoinedMachine(host_id, "oak", digest, 1, "acl", "t"), **more)


async def gets_in(client: Redis, host_id: str, digest: str) -> bool:
    told = await client.execute_command("ACL", "GETUSER", user_of(host_id))
    return told is not None and digest.encode() in told[told.index(b"passwords") + 1]


@pytest.mark.parametrize("shut_out", [True, False])
async def test_an_old_connection_stays_dead_after_a_new_grant(
    client: Redis, broker: Broker, shut_out: bool
) -> None:
    rights = Rights(client)
    await rights.grant(HOST, digest_of("one"))
    old = opened(broker, "one")
    assert ping(old)
    if shut_out:
        await rights.withdraw(HOST)

    await rights.grant(HOST, digest_of("two"))

    with pytest.raises(DEAD):
        ping(old)
    assert ping(opened(broker, "two"))


async def test_mend_ends_the_connections_of_who_is_barred(client: Redis, broker: Broker) -> None:
    rights, machines = Rights(client), MachineStore(client, seal())
    await rights.grant(HOST, digest_of("one"))
    await machines.put(machine(HOST, digest_of("one"), state="revoked"))
    old = opened(broker, "one")

    await rights.mend([], [HOST], machines.entitled)

    with pytest.raises(DEAD):
        ping(old)
    assert await rights.there() == set()


@pytest.mark.parametrize("spoilt", [("off",), ("resetpass", ">other"), (">other",)])
async def test_mend_gives_a_member_its_own_login_back(
    client: Redis, spoilt: tuple[str, ...]
) -> None:
    rights, machines, digest = Rights(client), MachineStore(client, seal()), digest_of("one")
    await rights.grant(HOST, digest)
    await machines.put(machine(HOST, digest))
    await client.execute_command("ACL", "SETUSER", user_of(HOST), *spoilt)

    await rights.mend([(HOST, digest)], [], machines.entitled)

    told = await client.execute_command("ACL", "GETUSER", user_of(HOST))
    assert b"on" in told[told.index(b"flags") + 1]
    assert told[told.index(b"passwords") + 1] == [digest.encode()]


async def test_why_redis_refuses_is_told_in_its_own_words_alone(
    client: Redis, broker: Broker
) -> None:
    may_not = ("on", "nopass", "~*", "&*", "+@all", "-acl")
    await client.execute_command("ACL", "SETUSER", user_of(OTHER), *may_not)
    refused = open_redis(broker.url.replace("redis://", f"redis://{user_of(OTHER)}:x@"))
    rights = Rights(refused)
    # In a pipeline, and outside of one.
    for asked in (rights.grant(HOST, digest_of("one")), rights.withdraw(HOST)):
        with pytest.raises(NoRightsError) as wrong:
            await asked
        told = str(wrong.value)
        assert "may make no users in Redis (" in told
        assert "permissions" in told
        assert "((" not in told
        assert ",)" not in told
    await refused.aclose()


async def test_mend_leaves_who_is_right_connected(client: Redis, broker: Broker) -> None:
    rights, machines, digest = Rights(client), MachineStore(client, seal()), digest_of("one")
    await rights.grant(HOST, digest)
    await machines.put(machine(HOST, digest))
    held = opened(broker, "one")

    await rights.mend([(HOST, digest)], [], machines.entitled)

    assert ping(held)


async def test_mend_goes_by_what_holds_now_not_by_an_old_list(client: Redis) -> None:
    rights, machines, digest = Rights(client), MachineStore(client, seal()), digest_of("new")
    await rights.grant(HOST, digest)
    await machines.put(machine(HOST, digest))  # the list of before has it barred
    await machines.put(machine(OTHER, digest_of("o"), state="revoked"))  # this one as a member

    await rights.mend([(OTHER, digest)], [HOST], machines.entitled)

    assert await rights.there() == {HOST}


async def test_mend_leaves_alone_who_is_being_let_in(client: Redis) -> None:
    rights, machines = Rights(client), MachineStore(client, seal())
    await machines.put(machine(HOST, digest_of("old")))
    async with machines.alone(HOST) as alone:
        assert alone
        await rights.grant(HOST, digest_of("new"))
        await rights.mend([(HOST, digest_of("old"))], [HOST], machines.entitled)

    assert await gets_in(client, HOST, digest_of("new"))


async def test_a_sweep_by_an_old_list_takes_nothing_of_who_joined_anew(client: Redis) -> None:
    machines = MachineStore(client, seal())
    await client.xadd(streams.inbox(HOST), {"a": "b"})
    await client.xadd(streams.inbox(OTHER), {"a": "b"})
    await client.sadd(streams.FORGOTTEN, OTHER)  # type: ignore[misc] # its stubs leave open whether it is awaited

    await machines.sweep([HOST, OTHER])

    assert await client.exists(streams.inbox(HOST))
    assert not await client.exists(streams.inbox(OTHER))


@pytest.mark.parametrize("way", ["ingest", "shared"])
async def test_mend_takes_the_login_of_who_goes_another_way_now(client: Redis, way: str) -> None:
    rights, machines = Rights(client), MachineStore(client, seal())
    await rights.grant(HOST, digest_of("one"))
    await machines.put(machine(HOST, digest_of("one"), way=way))

    await rights.mend([], [HOST], machines.entitled)

    assert await rights.there() == set()


def leaving(client: Redis) -> Leaving:
    async def look() -> None: ...

    machines, rights, watch = (
        MachineStore(client, seal()),
        Rights(client),
        SimpleNamespace(look=look),
    )
    return Leaving(None, JoinTokenStore(client, seal()), machines, rights, watch, lambda: 1, None)  # type: ignore[arg-type] # as far as it is asked


@pytest.mark.parametrize("before", [None, "reset"])
@pytest.mark.parametrize("verb", ["leave", "undo", "ingest"])
async def test_who_is_revoked_just_after_it_was_let_in_stays_revoked(
    client: Redis, verb: str, before: str | None
) -> None:
    asked = leaving(client)
    await asked.tokens.issue("d" * 64, StoredJoinToken("d" * 12, 0, 9, False, "", 1, HOST), 1)
    former = before and machine(HOST, digest_of("old"), state=before)
    found = machine(HOST, digest_of("one"), token="d" * 12, before=former)
    await asked.machines.put(msgspec.structs.replace(found, state="revoked", before=None))

    does = {
        "leave": lambda: asked.let_leave(found, undo=False),
        "undo": lambda: asked.let_leave(found, undo=True),
        "ingest": lambda: asked.end_login(found),
    }
    with pytest.raises(BadRequestError, match="not valid, or not any more"):
        await does[verb]()

    after = await asked.machines.find(HOST)
    assert after is not None
    assert (after.state, after.way) == ("revoked", "acl")
    assert await asked.tokens.look("d" * 64, 1) == "used"


@pytest.mark.parametrize("leaves", [False, True])
async def test_what_a_machine_asks_never_writes_over_a_revocation(
    client: Redis, broker: Broker, leaves: bool
) -> None:
    machines, found = MachineStore(client, seal()), machine(HOST, digest_of("one"))
    await machines.put(found)
    revoked = msgspec.structs.replace(found, state="revoked")

    def meanwhile(now: JoinedMachine) -> JoinedMachine | None:
        with redis.Redis.from_url(broker.url) as admin:
            record = msgspec.json.encode(revoked)
            admin.hset(streams.MACHINES, HOST, seal().sign(streams.MACHINES, record, HOST))
        return None if leaves else msgspec.structs.replace(now, way="ingest")

    assert await machines.change(found, meanwhile) is None
    assert await machines.find(HOST) == revoked


async def test_a_revocation_while_a_machine_leaves_is_not_forgotten_with_it(client: Redis) -> None:
    machines = MachineStore(client, seal())
    await machines.put(machine(HOST, digest_of("one"), state="revoked"))

    await machines.forget(HOST, left=True)
    assert await machines.find(HOST) is not None

    await machines.forget(HOST)
    assert await machines.find(HOST) is None


async def test_a_machine_goes_through_the_hub_and_its_login_goes(client: Redis) -> None:
    """Asked twice: Redis may not have answered when the login was to go."""
    asked, found = leaving(client), machine(HOST, digest_of("one"))
    await asked.machines.put(found)
    for _ in range(2):
        await asked.rights.grant(HOST, digest_of("one"))

        await asked.end_login(found)

        after = await asked.machines.find(HOST)
        assert after == msgspec.structs.replace(found, way="ingest")
        assert await asked.rights.there() == set()


async def test_an_undo_of_who_went_through_the_hub_leaves_no_login(client: Redis) -> None:
    asked = leaving(client)
    former = machine(HOST, digest_of("old"), state="reset", way="shared")
    found = machine(HOST, digest_of("one"), way="ingest", before=former)
    await asked.machines.put(found)
    await asked.rights.grant(HOST, digest_of("one"))

    await asked.let_leave(found, undo=True)

    assert await asked.machines.find(HOST) == former
    assert await asked.rights.there() == set()


def post(hub: HubProcess, path: str, body: dict[str, object], bearer: str = "") -> httpx.Response:
    headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
    return httpx.post(f"{hub.url}/api/v1/{path}", json=body, headers=headers, trust_env=False)


def joins(hub: HubProcess, token: str, former: str = "", host_id: str = HOST) -> httpx.Response:
    asked = {"token": token, "host_id": host_id, "label": "oak", "former": former}
    return post(hub, "join", dict(asked))


async def test_of_two_joins_of_one_identity_at_once_one_is_refused(
    client: Redis, hub: HubProcess
) -> None:
    # of its own: the hub may write what it has read of another test's machine after that was flushed
    token = join_token(hub)
    async with MachineStore(client, seal()).alone(THIRD):
        refused = joins(hub, token, host_id=THIRD)
    assert refused.status_code == 409
    assert "joining just now" in refused.text
    assert "Try again" in refused.text

    done = joins(hub, token, host_id=THIRD)

    assert done.status_code == 200, done.text
    assert not await client.exists(streams.joining(THIRD))


@pytest.mark.parametrize("late", [False, True])
async def test_an_undo_makes_the_token_good_again_only_right_after_the_join(
    client: Redis, hub: HubProcess, late: bool
) -> None:
    token = join_token(hub)
    secret = joins(hub, token).json()["secret"]
    machines = MachineStore(client, seal())
    found = await machines.find(HOST)
    assert found is not None
    if late:
        since = found.since - 5 * 60_000 - 1
        await machines.put(msgspec.structs.replace(found, since=since))

    assert post(hub, "machine/leave", {"undo": True}, secret).status_code == 200

    assert post(hub, "join/check", {"token": token}).status_code == (410 if late else 200)
    assert await machines.find(HOST) is None
    assert await Rights(client).there() == set()


async def test_an_undo_gives_the_former_credential_back(client: Redis, hub: HubProcess) -> None:
    token = join_token(hub, reusable=True)
    first = joins(hub, token).json()["secret"]
    second = joins(hub, token, former=first).json()["secret"]

    assert post(hub, "machine/leave", {"undo": True}, second).status_code == 200

    assert await gets_in(client, HOST, digest_of(first))
    assert not await gets_in(client, HOST, digest_of(second))
