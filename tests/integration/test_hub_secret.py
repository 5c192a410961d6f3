"""The secret that seals records: made, shared, compared with a real Redis, and the upgrade to it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import redis as blocking
from redis.asyncio import Redis

from adsum_hub.auth.credentials import Credential, CredentialStore
from adsum_hub.auth.hub_secret import (
    FOREIGN,
    NOTE_FILE,
    SECRET_FILE,
    HubSecret,
    HubSecretError,
    read_secret,
)
from adsum_hub.auth.seal import (
    HIDDEN_NOTE,
    MINUTE_MS,
    NEVER,
    REVOKED_FILE,
    RecordSeal,
    RevokedCredentials,
)
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_hub.join.tokens import JoinTokenStore, StoredJoinToken
from adsum_hub.settings import HubSettings
from adsum_shared import streams
from tests.hub_processes import HubProcess, started
from tests.seals import SECRET
from tests.signing_in import admin, asking, make_token
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(90)]

HOST = "0b5e1f6a-7f0e-4a6e-9d3b-2f7a0c1d4e5f"
COOKIE, TOKEN = "c" * 43, f"adsum_{'t' * 43}"
PLANTED = f"adsum_{'p' * 43}"
JOIN, MACHINE = f"adsum_join_{'j' * 43}", f"adsum_machine_{HOST}_{'m' * 43}"
DAY_MS = 86_400_000


def now() -> int:
    return int(time.time() * 1000)


def sha(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def of_person(secret: str, name: str, role: str, idle: int | None) -> bytes:
    """A sign-in or a token as version 0.1.0 writes it."""
    record = {"id": sha(secret)[:12], "name": name, "role": role, "since": now() - 1000}
    record |= {"until": now() + DAY_MS, "seen": now(), "idle": idle, "where": "", "hosts": []}
    return json.dumps({**record, "by": ""}, separators=(",", ":")).encode()


def fill_as_earlier(url: str) -> None:
    """As version 0.1.0 leaves Redis: nothing in it is sealed."""
    join = {"id": sha(JOIN)[:12], "since": 1, "until": now() + DAY_MS, "reusable": False}
    join |= {"label": "", "uses": 0, "by": None}
    machine = {"host_id": HOST, "label": "oak", "digest": sha(MACHINE), "since": 1, "way": "ingest"}
    machine |= {"token": "abc", "state": "in", "before": None, "fresh": True}
    with blocking.Redis.from_url(url) as client:
        for key, index, secret, record in (
            (
                "adsum:{auth}:sign-in:",
                "adsum:{auth}:sign-ins",
                COOKIE,
                of_person(COOKIE, "Ann", "admin", DAY_MS),
            ),
            (
                "adsum:{auth}:token:",
                "adsum:{auth}:tokens",
                TOKEN,
                of_person(TOKEN, "CI", "viewer", None),
            ),
            ("adsum:{auth}:join:", "adsum:{auth}:joins", JOIN, json.dumps(join).encode()),
        ):
            client.set(key + sha(secret), record, px=DAY_MS)
            client.zadd(index, {sha(secret): now() + DAY_MS})
        client.hset(
            "adsum:machines", mapping={HOST: json.dumps(machine), "mark": "0123456789abcdef"}
        )
        client.sadd("adsum:hosts", HOST)
        client.hset("adsum:command-keys", "0123456789abcdef", "ab" * 32)
        # In no list, so nobody can find it to revoke it.
        client.set(f"adsum:{{auth}}:token:{sha(PLANTED)}", of_person(PLANTED, "x", "admin", None))


def earlier(folder: Path) -> Path:
    """A state directory that a hub without a secret has used."""
    folder.mkdir(mode=0o700)
    (folder / "command-key.pem").write_text("a key")
    return folder


def hub_secret(folder: Path, **settings: Any) -> HubSecret:
    return HubSecret(HubSettings(state_dir=folder, redis_url=None, **settings), now)


async def seal_of(folder: Path, redis: Redis, **settings: Any) -> RecordSeal:
    """What a hub that starts there verifies records with. Raises HubSecretError."""
    secret = hub_secret(folder, **settings)
    await secret.look(redis)
    return secret.seal


async def names(redis: Redis, seal: RecordSeal) -> dict[str, bool]:
    """What opens something."""
    join = await JoinTokenStore(redis, seal).look(sha(JOIN), now())
    machine = await MachineStore(redis, seal).find(HOST)
    return {
        "sign-in": await CredentialStore(redis, "sign-in", seal).find(sha(COOKIE)) is not None,
        "token": await CredentialStore(redis, "token", seal).find(sha(TOKEN)) is not None,
        "planted": await CredentialStore(redis, "token", seal).find(sha(PLANTED)) is not None,
        "join": isinstance(join, StoredJoinToken),
        "machine": machine is not None and machine.is_let_in_by(sha(MACHINE)),
    }


ALL = dict.fromkeys(("sign-in", "token", "join", "machine"), True) | {"planted": False}
NONE = dict.fromkeys(ALL, False)


async def test_the_first_hub_makes_a_secret_and_a_second_one_needs_it(
    redis: Redis, tmp_path: Path
) -> None:
    first = await seal_of(tmp_path / "a", redis)
    file = tmp_path / "a" / SECRET_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert first.secret is not None
    assert len(first.secret) == 64
    assert (await seal_of(tmp_path / "a", redis)).secret == first.secret

    with pytest.raises(HubSecretError, match="ADSUM_HUB_SECRET_FILE"):
        await seal_of(tmp_path / "b", redis)
    assert not (tmp_path / "b" / SECRET_FILE).exists()
    with pytest.raises(HubSecretError, match="ADSUM_HUB_SECRET_FILE"):
        await seal_of(tmp_path / "b", redis, hub_secret=SECRET)
    assert (await seal_of(tmp_path / "b", redis, hub_secret_file=file)).secret == first.secret
    assert not (tmp_path / "b" / SECRET_FILE).exists()


@pytest.mark.parametrize(
    ("url", "step"),
    [
        ("redis://example/0", f"delete the key {streams.SECRET_PROBE} in Redis."),
        (
            "unix:///a%20b/broker.sock?db=0",
            f"redis-cli -s '/a b/broker.sock' del '{streams.SECRET_PROBE}'",
        ),
    ],
)
async def test_a_hub_that_does_not_start_says_why_and_how_to_delete_the_probe(
    redis: Redis, tmp_path: Path, url: str, step: str
) -> None:
    await seal_of(tmp_path / "a", redis)
    for settings, cause in (
        ({}, "This hub has no secret"),
        ({"hub_secret": SECRET}, "This hub's secret did not seal the probe"),
    ):
        secret = HubSecret(HubSettings(state_dir=tmp_path / "b", redis_url=url, **settings), now)
        with pytest.raises(HubSecretError) as raised:
            await secret.look(redis)
        assert str(raised.value).startswith(cause)
        assert step in str(raised.value)


async def test_of_two_hubs_that_start_at_once_one_makes_the_secret(
    redis: Redis, tmp_path: Path
) -> None:
    starts = (seal_of(tmp_path / each, redis) for each in "ab")
    found = await asyncio.gather(*starts, return_exceptions=True)

    assert sorted(type(each) for each in found if isinstance(each, Exception)) == [HubSecretError]
    assert sum(isinstance(each, RecordSeal) for each in found) == 1


async def test_a_redis_that_was_emptied_gets_the_probe_again(redis: Redis, tmp_path: Path) -> None:
    secret = hub_secret(tmp_path)
    await secret.look(redis)
    for seal in (lambda: None, secret.look):
        await redis.flushall()
        await secret.look(redis) if seal is not None else None
        assert await redis.get(streams.SECRET_PROBE)
    await redis.flushall()
    assert (await seal_of(tmp_path, redis)).secret == secret.seal.secret
    await redis.set(streams.SECRET_PROBE, b"{}")

    await secret.look(redis)

    assert secret.seal.notes() == [FOREIGN]


async def test_the_upgrade_signs_what_the_lists_name_and_signs_nobody_out(
    redis: Redis, redis_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill_as_earlier(redis_url)
    left = await redis.pttl(f"adsum:{{auth}}:token:{sha(TOKEN)}")

    seal = await seal_of(earlier(tmp_path / "hub"), redis)

    assert await names(redis, seal) == ALL
    assert 0 < left - await redis.pttl(f"adsum:{{auth}}:token:{sha(TOKEN)}") < 60_000
    assert f"{sha(COOKIE)[:12]} ('Ann')" in caplog.text
    assert "signed 4 records" in caplog.text
    assert any("adsum hub tokens list" in note for note in seal.notes())
    again = await seal_of(tmp_path / "hub", redis)
    assert await names(redis, again) == ALL


async def test_a_hub_with_an_empty_state_directory_signs_nothing_and_says_so(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    fill_as_earlier(redis_url)

    seal = await seal_of(tmp_path, redis)

    assert await names(redis, seal) == NONE
    assert "adsum login" in seal.notes()[0]
    assert "4 sign-ins, tokens and machines" in seal.notes()[0]


@pytest.mark.parametrize("first", ["upgraded", "new"])
async def test_who_deletes_the_probe_has_nothing_signed(
    redis: Redis, redis_url: str, tmp_path: Path, first: str
) -> None:
    """The note of the migration is in the state directory. A new hub's has one from its first start."""
    folder = earlier(tmp_path / "hub") if first == "upgraded" else tmp_path / "hub"
    await seal_of(folder, redis)
    (folder / "command-key.pem").write_text("a key")
    fill_as_earlier(redis_url)
    await redis.delete(streams.SECRET_PROBE)

    assert await names(redis, await seal_of(folder, redis)) == NONE


async def test_a_hub_that_upgrades_later_signs_nothing_and_needs_the_secret(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    await seal_of(earlier(tmp_path / "a"), redis)
    fill_as_earlier(redis_url)
    later = earlier(tmp_path / "b")

    with pytest.raises(HubSecretError, match="ADSUM_HUB_SECRET_FILE"):
        await seal_of(later, redis)
    seal = await seal_of(later, redis, hub_secret_file=tmp_path / "a" / SECRET_FILE)

    assert await names(redis, seal) == NONE


@pytest.mark.parametrize("given", ["by setting", "as its own file", "after it was cut off"])
async def test_a_hub_that_is_given_its_secret_signs_nothing_planted(
    redis: Redis, redis_url: str, tmp_path: Path, given: str
) -> None:
    """The probe is deleted while a second hub of an earlier version starts with the first one's secret."""
    await seal_of(earlier(tmp_path / "a"), redis)
    fill_as_earlier(redis_url)
    await redis.delete(streams.SECRET_PROBE)
    second, file = earlier(tmp_path / "b"), tmp_path / "a" / SECRET_FILE
    if given == "as its own file":
        shutil.copy(file, second)
    if given == "after it was cut off":
        (second / NOTE_FILE).write_text("begun\n")
    settings = {} if given == "as its own file" else {"hub_secret_file": file}

    seal = await seal_of(second, redis, **settings)

    assert await names(redis, seal) == NONE
    assert (second / NOTE_FILE).read_text() == "done\n"


async def test_a_migration_that_was_cut_off_goes_on(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    fill_as_earlier(redis_url)
    folder = earlier(tmp_path / "hub")
    secret = hub_secret(folder)
    await secret._put_probe(redis, secret._make())
    secret._write_note("begun")

    assert await names(redis, await seal_of(folder, redis)) == ALL
    assert (folder / NOTE_FILE).read_text() == "done\n"


class CutOff(Redis):
    """Fails once all records are signed."""

    async def delete(self, *names: Any) -> Any:
        raise blocking.ConnectionError("cut off")


async def test_a_migration_that_is_cut_off_has_named_what_it_signed(
    redis_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill_as_earlier(redis_url)

    async with CutOff.from_url(redis_url) as redis:
        with pytest.raises(blocking.ConnectionError, match="cut off"):
            await seal_of(earlier(tmp_path / "hub"), redis)

    for line in (
        f"admin, check it: {sha(COOKIE)[:12]} ('Ann')",
        f"join token, check it: {sha(JOIN)[:12]}",
        f"machine, check it: {HOST} ('oak')",
    ):
        assert line in caplog.text
    assert sha(TOKEN)[:12] not in caplog.text, "a viewer's"


async def test_a_hub_that_has_not_compared_its_secret_opens_and_writes_nothing(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    fill_as_earlier(redis_url)
    seal = hub_secret(earlier(tmp_path / "hub")).seal

    with pytest.raises(blocking.ConnectionError, match="secret"):
        await names(redis, seal)
    with pytest.raises(blocking.ConnectionError, match="secret"):
        seal.sign("key", b"{}")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("short", 0o600, "at least 32 bytes"),
        (SECRET, 0o640, "chmod 600"),
        (None, 0, "is not there"),
    ],
)
def test_a_secret_that_cannot_be_used_is_said_with_the_next_step(
    tmp_path: Path, content: str | None, mode: int, why: str
) -> None:
    file = tmp_path / SECRET_FILE
    given = {} if content == SECRET else {"hub_secret_file": file}
    if content is not None:
        file.write_text(content)
        file.chmod(mode)

    with pytest.raises(HubSecretError, match=why):
        hub_secret(tmp_path, **given)
    with pytest.raises(HubSecretError, match="ADSUM_HUB_SECRET holds 5 bytes"):
        hub_secret(tmp_path, hub_secret="short")


def test_a_given_secret_that_others_may_read_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "given"
    file.write_text(SECRET)
    for mode in (0o600, 0o640):
        assert "others may read" not in caplog.text
        file.chmod(mode)
        assert read_secret(HubSettings(state_dir=tmp_path, redis_url=None, hub_secret_file=file))

    assert f"others may read {file}" in caplog.text


async def test_a_revocation_reaches_other_hubs_their_disks_and_an_emptied_redis(
    redis: Redis, tmp_path: Path
) -> None:
    one = hub_secret(tmp_path / "a", hub_secret=SECRET)
    other = hub_secret(tmp_path / "b", hub_secret=SECRET)
    await one.look(redis)
    ended = now() - 1
    await one.seal.revoke(redis, "d1", now() + DAY_MS)
    await one.seal.revoke(redis, "d2", ended)

    await other.look(redis)
    assert json.loads((tmp_path / "b" / REVOKED_FILE).read_text()).keys() == {"d1", "d2"}
    await redis.hset(streams.REVOKED, mapping={"d3": b'{"until":0}'})  # nobody signed that
    await redis.hdel(streams.REVOKED, "d1")
    await other.look(redis)

    assert "d3" not in other.seal.revoked
    assert await redis.hexists(streams.REVOKED, "d1")
    assert not await redis.hexists(streams.REVOKED, "d2"), "it would have ended by itself"
    restarted = await seal_of(tmp_path / "b", redis, hub_secret=SECRET)
    assert "d1" in restarted.revoked


async def test_a_revocation_overwrites_what_is_there_of_another_type(
    redis: Redis, tmp_path: Path
) -> None:
    """Somebody with the hub's Redis login tries to keep a token good by breaking the hash of revocations."""
    one = hub_secret(tmp_path / "a", hub_secret=SECRET)
    await one.look(redis)
    store, digest = CredentialStore(redis, "token", one.seal), sha(TOKEN)
    credential = Credential(digest[:12], "CI", "admin", now(), now() + DAY_MS, now())
    await store.issue(digest, credential, now())
    await redis.set(streams.REVOKED, "x")

    assert await store.revoke(digest[:12]) == [digest]

    assert await redis.hkeys(streams.REVOKED) == [digest.encode()]
    assert one.seal.notes() == [HIDDEN_NOTE]
    await redis.set(streams.REVOKED, "x")
    await one.look(redis)
    assert await redis.hkeys(streams.REVOKED) == [digest.encode()]


async def test_the_record_is_deleted_also_where_the_revocation_cannot_be_published(
    redis: Redis, tmp_path: Path
) -> None:
    one = hub_secret(tmp_path / "a", hub_secret=SECRET)
    await one.look(redis)
    store, digest = CredentialStore(redis, "token", one.seal), sha(TOKEN)
    credential = Credential(digest[:12], "CI", "admin", now(), now() + DAY_MS, now())
    await store.issue(digest, credential, now())
    await redis.acl_setuser("default", commands=["-hset"])
    try:
        with pytest.raises(blocking.exceptions.NoPermissionError):
            await store.revoke(digest[:12])
    finally:
        await redis.acl_setuser("default", commands=["+hset"])

    assert not await redis.exists(f"adsum:{{auth}}:token:{digest}")
    assert json.loads((tmp_path / "a" / REVOKED_FILE).read_text()).keys() == {digest}


async def test_a_revocation_that_somebody_deletes_is_reported_by_the_hub_that_published_it(
    redis: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = hub_secret(tmp_path / "a", hub_secret=SECRET)
    await one.look(redis)
    await one.seal.revoke(redis, "soon over", now() + 1000)
    await redis.delete(streams.REVOKED)
    await one.look(redis)
    assert one.seal.notes() == [], "another hub may have deleted that: its clock may be ahead"
    await one.seal.revoke(redis, "d1", NEVER)

    for _ in "12":
        await redis.delete(streams.REVOKED)
        await one.look(redis)

    assert one.seal.notes() == [HIDDEN_NOTE]
    assert caplog.text.count(HIDDEN_NOTE) == 1
    assert await redis.hexists(streams.REVOKED, "d1")


async def test_a_request_between_revoking_and_deleting_raises_no_alarm(redis: Redis) -> None:
    time_ms = [now()]
    trust = RecordSeal(SECRET.encode(), RevokedCredentials(None, lambda: time_ms[0]))
    machines = MachineStore(redis, trust)
    joined = JoinedMachine(HOST, "oak", sha(MACHINE), 1, "ingest", "t")
    await machines.put(joined)
    await trust.revoke(redis, joined.digest, NEVER)

    assert not await machines.is_in(joined)
    assert trust.notes() == []
    time_ms[0] += MINUTE_MS
    assert not await machines.is_in(joined)
    assert "1. This hub did not sign" in trust.notes()[0]


def test_a_hub_whose_list_of_revoked_credentials_is_damaged_does_not_start(tmp_path: Path) -> None:
    (tmp_path / REVOKED_FILE).write_text("{torn")

    with pytest.raises(HubSecretError, match=f"{REVOKED_FILE}.*copy it from another hub"):
        hub_secret(tmp_path, hub_secret=SECRET)


@pytest.fixture
def upgraded(tmp_path: Path, redis_url: str) -> HubProcess:
    """A hub that makes its own secret, on the state directory of an earlier version."""
    hub = HubProcess(earlier(tmp_path / "hub"), redis_url, sign_in="on")
    (tmp_path / "hub" / "command-key.pem").unlink()
    (tmp_path / "hub" / "roll.json").write_text("{}")
    del hub.env["ADSUM_HUB_SECRET"]
    return hub


def test_after_the_upgrade_all_are_let_in_as_before(upgraded: HubProcess, redis_url: str) -> None:
    fill_as_earlier(redis_url)
    with started(upgraded):
        for given, role in (({"cookie": COOKIE}, "admin"), ({"token": TOKEN}, "viewer")):
            with asking(upgraded, **given) as client:
                assert client.get("/api/v1/me").json()["role"] == role
        with asking(upgraded, token=PLANTED) as client:
            assert client.get("/api/v1/me").status_code == 401
        with asking(upgraded) as client:
            seen = client.get("/api/v1/machine", headers={"authorization": f"Bearer {MACHINE}"})
            assert seen.json()["label"] == "oak"
            assert "0123456789abcdef" not in seen.json()["command_keys"]
            assert client.post("/api/v1/join/check", json={"token": JOIN}).status_code == 200
        with admin(upgraded) as client:
            assert "credentials that it found (1)" in client.get("/readyz").json()["problem"]


def test_the_hubs_redis_login_alone_opens_nothing(upgraded: HubProcess, redis_url: str) -> None:
    """It plants an admin token and a hub's key, and puts back what was revoked, for a restarted hub too."""
    with blocking.Redis.from_url(redis_url) as client, started(upgraded):
        revoked, secret = make_token(upgraded, "admin")
        key = f"adsum:{{auth}}:token:{sha(secret)}"
        before: Any = client.get(key)
        with admin(upgraded) as person:
            assert person.delete(f"/api/v1/tokens/{revoked}").status_code == 200

        def attack() -> None:
            client.set(
                f"adsum:{{auth}}:token:{sha(PLANTED)}", of_person(PLANTED, "x", "admin", None)
            )
            client.set(key, before)
            client.zadd(
                "adsum:{auth}:tokens", {sha(PLANTED): now() + DAY_MS, sha(secret): now() + DAY_MS}
            )
            client.hset("adsum:command-keys", "0123456789abcdef", "ab" * 32)
            client.delete("adsum:{auth}:probe", "adsum:{auth}:revoked")

        def opens() -> set[str]:
            with admin(upgraded) as person:
                keys = set(person.get("/api/v1/command-keys").json()["keys"])
                listed = {each["id"] for each in person.get("/api/v1/tokens").json()["tokens"]}
            found = keys & {"0123456789abcdef"} | listed
            for token in (PLANTED, secret):
                with asking(upgraded, token=token) as stranger:
                    found |= {token} if stranger.get("/api/v1/me").status_code == 200 else set()
            return found

        attack()
        assert opens() == set()
        assert upgraded.stop() == 0
        attack()
        upgraded.start()
        assert opens() == set()
        with admin(upgraded) as person:
            asyncio.run(
                wait_until(
                    lambda: (
                        "Records in Redis that open nothing"
                        in str(person.get("/readyz").json()["problem"])
                    )
                )
            )
        log = upgraded.log.read_text()
        assert sha(PLANTED)[:12] in log
        assert "it was revoked" in log
        assert PLANTED not in log
        assert log.count("it was revoked") == 1, "once a start, and not within a minute of revoking"


def test_what_one_hub_revoked_opens_nothing_at_another_when_it_is_put_back(
    redis_url: str, tmp_path: Path
) -> None:
    one, other = (HubProcess(tmp_path / each, redis_url, sign_in="on") for each in ("a", "b"))
    with blocking.Redis.from_url(redis_url) as client, started(one, other):
        revoked, secret = make_token(one, "viewer")
        key = f"adsum:{{auth}}:token:{sha(secret)}"
        before: Any = client.get(key)
        with asking(other, token=secret) as person:
            assert person.get("/api/v1/me").status_code == 200
            with admin(one) as remover:
                assert remover.delete(f"/api/v1/tokens/{revoked}").status_code == 200
            client.set(key, before)
            client.zadd("adsum:{auth}:tokens", {sha(secret): now() + DAY_MS})

            asyncio.run(wait_until(lambda: person.get("/api/v1/me").status_code == 401, 10))
            other.kill()
            client.delete("adsum:{auth}:revoked")
            one.kill()  # or it would publish it again
            other.start()
            assert person.get("/api/v1/me").status_code == 401, "it stands on that hub's disk"


def test_a_hub_of_another_secret_does_not_start_and_says_what_to_do(
    upgraded: HubProcess, redis_url: str, tmp_path: Path
) -> None:
    other = HubProcess(tmp_path / "other", redis_url, sign_in="on")
    with started(upgraded):
        other.spawn()
        assert other.process is not None
        assert other.process.wait(timeout=30) != 0
        assert "ADSUM_HUB_SECRET_FILE" in other.log.read_text()
