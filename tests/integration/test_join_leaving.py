"""Leaving, and undoing a joining, where Redis fails in between or somebody shuts the machine out."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_hub.auth.credentials import digest_of
from adsum_hub.join.leaving import Leaving
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_hub.join.rights import NoRightsError, Rights, user_of
from adsum_hub.join.tokens import JoinTokenStore, StoredJoinToken
from adsum_hub.rest.api import BadRequestError
from adsum_shared import streams
from adsum_shared.connect import Redis, open_redis
from tests.brokers import Broker, running_broker
from tests.seals import seal

pytestmark = [pytest.mark.redis, pytest.mark.slow]
HOST = "11111111-1111-4111-8111-111111111111"
TOKEN = "d" * 64
MACHINE = JoinedMachine(HOST, "oak", digest_of("one"), 0, "acl", TOKEN[:12], fresh=True)
#: (part of leaving, what is asked of it), in their order.
STEPS = [("rights", "withdraw_if_any"), ("tokens", "free"), ("machines", "forget")]
Step = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[Redis]:
    client = open_redis(broker.url)
    await client.flushall()
    yield client
    await client.execute_command("ACL", "DELUSER", user_of(HOST))
    await client.aclose()


@pytest.fixture
async def asked(client: Redis) -> Leaving:
    """A machine has just joined, and has sent something."""

    async def look() -> None: ...

    made = Leaving(
        SimpleNamespace(hosts={}),  # type: ignore[arg-type] # as far as it is asked
        JoinTokenStore(client, seal()),
        MachineStore(client, seal()),
        Rights(client),
        SimpleNamespace(look=look),  # type: ignore[arg-type] # as far as it is asked
        lambda: 1,
        None,  # type: ignore[arg-type] # as far as it is asked
    )
    await made.tokens.issue(TOKEN, StoredJoinToken(TOKEN[:12], 0, 9, False, "", 1, HOST), 1)
    await made.machines.enter(MACHINE, "")
    await made.rights.grant(HOST, MACHINE.digest)
    await client.xadd(streams.inbox(HOST), {"a": "b"})
    return made


def once(step: Step, *, done: bool) -> Step:
    """It fails for the first time, before it has done anything, or with its answer lost."""
    failed: list[bool] = []

    async def fails(*given: Any, **named: Any) -> Any:
        first = not failed
        failed.append(True)
        if first and not done:
            raise RedisConnectionError
        told = await step(*given, **named)
        if first:
            raise RedisConnectionError
        return told

    return fails


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(("part", "step"), STEPS)
@pytest.mark.parametrize("undo", [False, True])
async def test_what_redis_did_not_finish_can_be_asked_for_again(
    client: Redis,
    asked: Leaving,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    step: str,
    done: bool,
    undo: bool,
) -> None:
    of = getattr(asked, part)
    monkeypatch.setattr(of, step, once(getattr(of, step), done=done))
    if step != "free" or undo:
        with pytest.raises(RedisConnectionError):
            await asked.let_leave(MACHINE, undo=undo)
        assert await asked.machines.is_in(MACHINE)

    await asked.let_leave(MACHINE, undo=undo)

    roll = await asked.machines.roll()
    assert (roll.machines, roll.forgotten) == ({}, {HOST})
    assert not await asked.machines.is_listed(HOST)
    assert not await client.exists(streams.inbox(HOST), streams.joining(HOST))
    assert await asked.rights.there() == set()
    assert isinstance(await asked.tokens.look(TOKEN, 1), StoredJoinToken) == undo


@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize(("part", "step"), STEPS)
async def test_who_is_shut_out_between_two_steps_stays_so_and_its_token_is_not_good(
    asked: Leaving, monkeypatch: pytest.MonkeyPatch, part: str, step: str, for_good: bool
) -> None:
    of: Any = getattr(asked, part)
    goes_on: Step = getattr(of, step)
    admin = dataclasses.replace(asked, rights=Rights(asked.rights._redis))

    async def shut_out(*given: Any, **named: Any) -> None:
        await goes_on(*given, **named)
        await (admin.revoke_host if for_good else admin.reset_host)(HOST)

    monkeypatch.setattr(of, step, shut_out)
    with pytest.raises(BadRequestError, match="not valid, or not any more"):
        await asked.let_leave(MACHINE, undo=True)

    found = await asked.machines.find(HOST)
    assert found is not None
    assert found.state == ("revoked" if for_good else "reset")
    assert await asked.tokens.look(TOKEN, 1) == "unknown"
    assert await asked.rights.there() == set()


async def test_while_it_joins_anew_it_is_not_forgotten(asked: Leaving) -> None:
    async with asked.machines.alone(HOST):
        with pytest.raises(BadRequestError, match="leaving or joining"):
            await asked.let_leave(MACHINE, undo=False)

    assert (await asked.machines.roll()).forgotten == frozenset()


async def test_a_login_of_before_that_is_not_given_back_at_once_is_given_back_later(
    asked: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credential that could ask for it again has gone."""
    before = JoinedMachine(HOST, "oak", digest_of("old"), 0, "acl", "")
    found = JoinedMachine(HOST, "oak", MACHINE.digest, 0, "acl", TOKEN[:12], before=before)
    await asked.machines.put(found)
    monkeypatch.setattr(asked.rights, "grant", once(asked.rights.grant, done=False))

    await asked.let_leave(found, undo=True)

    assert await asked.machines.find(HOST) == before
    await asked.rights.mend([(HOST, before.digest)], [], asked.machines.entitled)
    assert await asked.rights._granted([HOST]) == {(HOST, before.digest)}


async def test_a_login_that_redis_lets_nobody_give_back_keeps_an_undo_from_nothing_else(
    asked: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []

    async def look() -> None:
        looked.append(True)

    async def refuses(*_: str) -> None:
        raise NoRightsError("it takes +acl")

    before = JoinedMachine(HOST, "oak", digest_of("old"), 0, "acl", "")
    found = JoinedMachine(HOST, "oak", MACHINE.digest, 0, "ingest", TOKEN[:12], before=before)
    await asked.machines.put(found)
    await asked.tokens.issue(TOKEN, StoredJoinToken(TOKEN[:12], 0, 9, True, "", 3), 1)
    monkeypatch.setattr(asked.watch, "look", look)
    monkeypatch.setattr(asked.rights, "grant", refuses)

    await asked.let_leave(found, undo=True)

    assert await asked.machines.find(HOST) == before
    assert looked
    assert [each.uses for each in await asked.tokens.all(1)] == [2]


async def test_an_undone_joining_by_a_reusable_token_counts_no_more_and_once(
    asked: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = StoredJoinToken(TOKEN[:12], 0, 9, True, "", 3)
    await asked.tokens.issue(TOKEN, held, 1)
    monkeypatch.setattr(asked.machines, "forget", once(asked.machines.forget, done=True))
    with pytest.raises(RedisConnectionError):
        await asked.let_leave(MACHINE, undo=True)

    await asked.let_leave(MACHINE, undo=True)

    assert [each.uses for each in await asked.tokens.all(1)] == [2]
