"""Login codes and passes as Redis keeps them: for one login, until they end, until they are revoked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from fakeredis import FakeAsyncRedis

from adsum_hub.auth.credentials import (
    COARSE_MS,
    DAY_MS,
    Credential,
    CredentialStore,
    LoginCode,
    LoginCodes,
    digest_of,
    id_of,
)
from adsum_hub.auth.seal import MINUTE_MS
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
def codes(redis: FakeAsyncRedis) -> LoginCodes:
    return LoginCodes(redis, seal())


@pytest.fixture
def passes(redis: FakeAsyncRedis) -> CredentialStore:
    return CredentialStore(redis, "token", seal())


def code() -> LoginCode:
    return LoginCode("Ann", "operator", NOW + 1000)


def credential(digest: str = DIGEST, since: int = NOW) -> Credential:
    return Credential(id_of(digest), "Ann", "operator", since, since + DAY_MS, since)


async def test_a_code_lets_in_once(codes: LoginCodes) -> None:
    await codes.issue(DIGEST, code())

    assert await codes.take(DIGEST, NOW) == code()
    assert await codes.take(DIGEST, NOW) == "used"


async def test_a_code_is_good_until_its_end(codes: LoginCodes) -> None:
    await codes.issue(DIGEST, code())

    assert await codes.take(DIGEST, NOW + 1000) == "expired"
    assert await codes.take(DIGEST, NOW + 999) == code()


@pytest.mark.parametrize("stored", [None, b"{", b'{"name": "Ann", "role": "king", "until": 1}'])
async def test_what_is_no_code_is_unknown(
    codes: LoginCodes, redis: FakeAsyncRedis, stored: bytes | None
) -> None:
    if stored is not None:
        await redis.set(streams.login_code(DIGEST), seal().sign(streams.login_code(DIGEST), stored))

    assert await codes.take(DIGEST, NOW) == "unknown"


async def test_a_code_is_forgotten_in_the_end(codes: LoginCodes, redis: FakeAsyncRedis) -> None:
    await codes.issue(DIGEST, code())
    await codes.take(DIGEST, NOW)

    left = await redis.pttl(streams.login_code(DIGEST))
    assert 0 < left <= streams.LOGIN_CODE_KEEP_MS


async def test_a_pass_is_found_by_its_digest_and_ends_by_itself(
    passes: CredentialStore, redis: FakeAsyncRedis
) -> None:
    await passes.issue(DIGEST, credential(), NOW)

    assert await passes.find(DIGEST) == credential()
    assert await passes.find(OTHER) is None
    assert 0 < await redis.pttl(streams.entry_pass("token", DIGEST)) <= DAY_MS


async def test_a_pass_that_cannot_be_read_lets_nobody_in(
    passes: CredentialStore, redis: FakeAsyncRedis
) -> None:
    await passes.issue(DIGEST, credential(), NOW)
    key = streams.entry_pass("token", DIGEST)
    await redis.set(key, seal().sign(key, b'{"name": 1}'))

    assert await passes.find(DIGEST) is None


async def test_use_is_noted_now_and_then(passes: CredentialStore) -> None:
    await passes.issue(DIGEST, credential(), NOW)

    await passes.use(DIGEST, credential(), NOW + COARSE_MS - 1)
    assert await passes.find(DIGEST) == credential()
    used = await passes.use(DIGEST, credential(), NOW + COARSE_MS)
    assert used.seen == NOW + COARSE_MS
    assert await passes.find(DIGEST) == used


async def test_use_does_not_bring_back_what_was_revoked_in_that_moment(
    passes: CredentialStore,
) -> None:
    await passes.issue(DIGEST, credential(), NOW)
    assert await passes.revoke(id_of(DIGEST)) == [DIGEST]

    await passes.use(DIGEST, credential(), NOW + COARSE_MS)
    assert await passes.find(DIGEST) is None
    assert await passes.all(NOW) == []


async def test_passes_are_listed_latest_first_without_those_that_have_ended(
    passes: CredentialStore,
) -> None:
    await passes.issue(DIGEST, credential(), NOW)
    await passes.issue(OTHER, credential(OTHER, NOW + 5), NOW)

    assert await passes.all(NOW) == [credential(OTHER, NOW + 5), credential()]
    assert await passes.all(NOW + DAY_MS + 1) == [credential(OTHER, NOW + 5)]


async def test_only_what_is_there_is_revoked(passes: CredentialStore) -> None:
    await passes.issue(DIGEST, credential(), NOW)

    assert await passes.revoke(id_of(OTHER)) == []
    assert await passes.revoke(id_of(DIGEST)) == [DIGEST]
    assert await passes.revoke(id_of(DIGEST)) == []
    assert await passes.remove(DIGEST) is False


async def test_revoking_by_id_reaches_the_credential_behind_a_decoy(
    passes: CredentialStore, redis: FakeAsyncRedis
) -> None:
    await passes.issue(DIGEST, credential(), NOW)
    decoy = id_of(DIGEST) + "0" * 52
    await redis.zadd(streams.entry_passes("token"), {decoy: NOW + 1})

    assert await passes.revoke(id_of(DIGEST)) == [decoy, DIGEST]
    assert await passes.find(DIGEST) is None


class OlderCredential(msgspec.Struct):
    """As hubs read it from before an operator could be one of some machines."""

    id: str
    role: Literal["viewer", "operator", "admin"]


async def test_an_operator_of_some_machines_is_no_operator_of_all_at_an_older_hub(
    codes: LoginCodes, passes: CredentialStore, redis: FakeAsyncRedis
) -> None:
    some = msgspec.structs.replace(credential(), hosts=("h1",))
    await passes.issue(DIGEST, some, NOW)
    await codes.issue(DIGEST, msgspec.structs.replace(code(), hosts=("h1",)))

    async def is_unknown_to_older() -> bool:
        for key in (streams.entry_pass("token", DIGEST), streams.login_code(DIGEST)):
            with pytest.raises(msgspec.ValidationError, match="operator-of-some"):
                msgspec.json.decode(await redis.get(key), type=OlderCredential)
        return True

    assert await is_unknown_to_older()
    assert await passes.find(DIGEST) == some
    used = await passes.use(DIGEST, some, NOW + COARSE_MS)
    taken = await codes.take(DIGEST, NOW)
    assert isinstance(taken, LoginCode)
    assert (taken.role, taken.hosts) == ("operator", ("h1",))
    assert await is_unknown_to_older()
    assert await passes.all(NOW) == [used]


async def test_an_operator_of_some_machines_without_any_is_nobody(
    passes: CredentialStore, redis: FakeAsyncRedis
) -> None:
    await passes.issue(DIGEST, msgspec.structs.replace(credential(), hosts=("h1",)), NOW)
    key = streams.entry_pass("token", DIGEST)
    stored = msgspec.json.decode(await redis.get(key))
    del stored["mac"]
    await redis.set(key, seal().sign(key, msgspec.json.encode({**stored, "hosts": []})))
    assert await passes.find(DIGEST) is None


async def test_a_record_that_no_list_names_lets_nobody_in(
    redis: FakeAsyncRedis,
) -> None:
    trust = seal()
    passes = CredentialStore(redis, "token", trust)
    await passes.issue(DIGEST, credential(), NOW)
    await redis.zrem(streams.entry_passes("token"), DIGEST)

    assert await passes.find(DIGEST) is None
    assert trust.notes()


async def test_an_old_record_put_back_after_it_was_revoked_lets_nobody_in(
    redis: FakeAsyncRedis, tmp_path: Path
) -> None:
    file, key, index, time = tmp_path / "r", streams.entry_pass("token", DIGEST), "token", [NOW]
    passes = CredentialStore(redis, "token", seal(file, clock=lambda: time[0]))
    await passes.issue(DIGEST, credential(), NOW)
    before = await redis.get(key)
    assert await passes.revoke(id_of(DIGEST)) == [DIGEST]
    await redis.delete(streams.REVOKED)
    await redis.set(key, before)
    await redis.zadd(streams.entry_passes(index), {DIGEST: NOW + DAY_MS})
    assert await passes.find(DIGEST) is None
    assert passes._seal.notes() == [], "a request that began before it was revoked"
    time[0] += MINUTE_MS

    for trust in (
        seal(file),
        passes._seal,
    ):  # a hub that was started anew, and the one that revoked
        again = CredentialStore(redis, "token", trust)
        assert await again.find(DIGEST) is None
        assert await again.all(NOW) == []
        assert trust.notes()


async def test_a_used_code_that_is_put_back_unused_lets_nobody_in(
    codes: LoginCodes, redis: FakeAsyncRedis
) -> None:
    await codes.issue(DIGEST, code())
    before = await redis.get(streams.login_code(DIGEST))
    await codes.take(DIGEST, NOW)
    await redis.set(streams.login_code(DIGEST), before)

    assert await codes.take(DIGEST, NOW) == "used"


async def test_a_record_that_is_gone_can_still_be_revoked_by_its_list(
    passes: CredentialStore, redis: FakeAsyncRedis
) -> None:
    await passes.issue(DIGEST, credential(), NOW)
    key = streams.entry_pass("token", DIGEST)
    before = await redis.get(key)
    await redis.delete(key)
    assert await passes.revoke(id_of(DIGEST)) == [DIGEST]
    await redis.set(key, before)
    await redis.zadd(streams.entry_passes("token"), {DIGEST: NOW + DAY_MS})

    assert await passes.find(DIGEST) is None
