"""Join tokens as Redis keeps them: for one machine or for many, freed again, listed, revoked."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fakeredis import FakeAsyncRedis

from adsum_hub.auth.credentials import digest_of, id_of
from adsum_hub.join.tokens import JoinTokenStore, StoredJoinToken
from adsum_shared import streams
from tests.seals import seal

NOW = 1_764_000_000_000
DIGEST, OTHER = digest_of("one"), digest_of("other")


@pytest.fixture
async def redis() -> AsyncIterator[FakeAsyncRedis]:
    client = FakeAsyncRedis()
    yield client
    await client.aclose()


@pytest.fixture
def store(redis: FakeAsyncRedis) -> JoinTokenStore:
    return JoinTokenStore(redis, seal())


def held(digest: str = DIGEST, *, reusable: bool = False, since: int = NOW) -> StoredJoinToken:
    return StoredJoinToken(id_of(digest), since, since + 1000, reusable, "laptops")


async def test_a_token_is_for_one_machine(store: JoinTokenStore) -> None:
    await store.issue(DIGEST, held(), NOW)

    assert await store.take(DIGEST, "a", NOW) == held()
    assert await store.take(DIGEST, "b", NOW) == "used"
    assert await store.take(DIGEST, "a", NOW) == "used"


async def test_a_reusable_token_counts_its_machines(store: JoinTokenStore) -> None:
    await store.issue(DIGEST, held(reusable=True), NOW)

    for host in ("a", "b"):
        assert isinstance(await store.take(DIGEST, host, NOW), StoredJoinToken)
    (now_held,) = await store.all(NOW)
    assert now_held.uses == 2


async def test_looking_uses_nothing_up(store: JoinTokenStore) -> None:
    await store.issue(DIGEST, held(), NOW)

    assert await store.look(DIGEST, NOW) == held()
    assert await store.look(DIGEST, NOW + 1000) == "expired"
    assert await store.take(DIGEST, "a", NOW) == held()


@pytest.mark.parametrize("stored", [None, b"{", b'{"id": 1}'])
async def test_what_is_no_token_is_unknown(
    store: JoinTokenStore, redis: FakeAsyncRedis, stored: bytes | None
) -> None:
    if stored is not None:
        key = streams.join_token(DIGEST)
        await redis.set(key, seal().sign(key, stored))
        await redis.zadd(streams.JOIN_TOKENS, {DIGEST: NOW + 1000})

    assert await store.take(DIGEST, "a", NOW) == "unknown"


async def test_a_token_is_freed_by_the_machine_that_has_it_alone(store: JoinTokenStore) -> None:
    await store.issue(DIGEST, held(), NOW)
    await store.take(DIGEST, "a", NOW)

    await store.free(id_of(DIGEST), "b", NOW)
    assert await store.look(DIGEST, NOW) == "used"
    await store.free(id_of(DIGEST), "a", NOW)
    assert await store.look(DIGEST, NOW) == held()


async def test_freed_for_a_second_time_it_is_not_taken_from_who_has_it_now(
    store: JoinTokenStore,
) -> None:
    await store.issue(DIGEST, held(), NOW)
    for host in ("a", "b"):
        await store.take(DIGEST, host, NOW)
        await store.free(id_of(DIGEST), "a", NOW)

    assert await store.look(DIGEST, NOW) == "used"


async def test_a_joining_by_a_reusable_one_that_came_to_nothing_counts_no_more(
    store: JoinTokenStore,
) -> None:
    await store.issue(DIGEST, held(reusable=True), NOW)
    for host in ("a", "b"):
        await store.take(DIGEST, host, NOW)

    await store.free(id_of(DIGEST), "b", NOW)  # as often as one likes
    await store.discount(id_of(DIGEST), NOW)

    (left,) = await store.all(NOW)
    assert left.uses == 1


async def test_of_who_is_shut_out_the_token_goes_unless_others_join_by_it(
    store: JoinTokenStore,
) -> None:
    await store.issue(DIGEST, held(), NOW)
    await store.issue(OTHER, held(OTHER, reusable=True), NOW)
    await store.take(DIGEST, "a", NOW)
    for digest in (DIGEST, OTHER, digest_of("none")):
        await store.retire(id_of(digest))

    await store.free(id_of(DIGEST), "a", NOW)
    assert await store.look(DIGEST, NOW) == "unknown"
    assert isinstance(await store.look(OTHER, NOW), StoredJoinToken)


async def test_a_token_revoked_meanwhile_is_not_brought_back(store: JoinTokenStore) -> None:
    await store.issue(DIGEST, held(), NOW)
    await store.take(DIGEST, "a", NOW)
    assert await store.revoke(id_of(DIGEST))

    await store.free(id_of(DIGEST), "a", NOW)
    assert await store.look(DIGEST, NOW) == "unknown"
    assert not await store.revoke(id_of(DIGEST))


class RevokedOnceRead(JoinTokenStore):
    async def find(self, digest: str) -> StoredJoinToken | None:
        found = await super().find(digest)
        await self._redis.delete(self._prefix + digest)
        return found


async def test_a_token_revoked_between_look_and_use_lets_no_machine_in(
    redis: FakeAsyncRedis,
) -> None:
    store = RevokedOnceRead(redis, seal())
    await store.issue(DIGEST, held(), NOW)

    assert await store.take(DIGEST, "a", NOW) == "unknown"
    assert not await redis.exists(streams.join_token(DIGEST))


async def test_the_good_ones_are_listed_latest_first(store: JoinTokenStore) -> None:
    later = held(OTHER, since=NOW + 5)
    await store.issue(DIGEST, held(), NOW)
    await store.issue(OTHER, later, NOW)

    assert await store.all(NOW) == [later, held()]
    assert await store.all(NOW + 1001) == [later]
    await store.take(OTHER, "a", NOW)
    assert await store.all(NOW) == [held()]
