"""Several lives of one disk: copies, backups, other machines. Real publishers, real hubs."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import redis.asyncio

from adsum_collector.delivery.publisher import Publisher
from adsum_collector.delivery.transports import RedisTransport
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared import streams
from adsum_shared.connect import open_redis
from adsum_shared.envelope import Beat, decode_beat
from adsum_shared.signals import PromptSubmitted, encode_signal
from tests.brokers import Broker, machines_rules
from tests.collectors import CollectorProcess, batches
from tests.half_hubs import HOST, Hub
from tests.integration.test_hub_setbacks import freeze
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60), pytest.mark.slow]


class Life:
    """A collector's spool and publisher, on one of several copies of a disk."""

    def __init__(self, spool: Spool, url: str, nonce: str) -> None:
        self.spool = spool
        self._nonce = nonce
        self.publisher = Publisher(
            spool, RedisTransport(url), HOST, nonce=nonce, beat=self._beat, now=time.time
        )
        self._running: asyncio.Task[None] | None = None

    @classmethod
    async def begin(cls, directory: Path, url: str, nonce: str) -> Life:
        """Takes signals, and does not send them yet."""
        life = cls(await Spool.open(directory, SpoolLimits(min_free_bytes=0)), url, nonce)
        await life.publisher.join()
        return life

    def _beat(self, sent: int, stopping: bool) -> Beat:
        now, spool = int(time.time() * 1000), self.spool
        return Beat(
            HOST, "lab", now, self._nonce, spool.spool_id, spool.last_seq, sent, stopping=stopping
        )

    async def say(self, *names: str) -> None:
        """Each signal is a prompt of a session of its own, so a lost one shows."""
        for name in names:
            told = PromptSubmitted(session_id=name, at=1, seen=1, prompt_id=name, text=name)
            await self.spool.append([encode_signal(told)])

    def start(self) -> Life:
        self._running = asyncio.create_task(self.publisher.run())
        return self

    async def all_sent(self) -> None:
        def sent() -> bool:
            return 0 < self.publisher.sent == self.spool.last_seq

        await wait_until(sent, timeout=20)

    async def stop(self) -> None:
        self.publisher.drain()
        if self._running:
            await self._running
        await self.spool.close()


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = open_redis(redis_url)
    await client.sadd(streams.HOSTS, HOST)
    yield client
    await client.aclose()


@pytest.fixture
async def hub(client: redis.asyncio.Redis, redis_url: str) -> AsyncIterator[Hub]:
    hub = Hub(redis_url)
    hub.start()
    yield hub
    await hub.stop()


@pytest.fixture(params=["own", "shared"])
async def machine_url(
    request: pytest.FixtureRequest, client: redis.asyncio.Redis, redis_url: str
) -> str:
    """With a login that may read entries, and with the one that machines share."""
    if request.param == "own":
        return redis_url
    await client.execute_command("ACL", "SETUSER", "machines", "on", ">word", *machines_rules())
    return redis_url.replace("//", "//machines:word@")


@pytest.fixture
async def disk(tmp_path: Path, machine_url: str) -> Path:
    """A collector's, from which one signal was sent."""
    life = await Life.begin(tmp_path / "disk", machine_url, "first")
    await life.say("common")
    await life.start().all_sent()
    await life.stop()
    return tmp_path / "disk"


async def applied(hub: Hub, *names: str) -> None:
    """All of these, each once, and nothing else."""
    await wait_until(lambda: hub.sessions() == set(names), timeout=20)
    assert hub.roster.counts["signals"] == len(names)


@pytest.mark.core
@pytest.mark.parametrize("late", [False, True], ids=["both connected", "one connects later"])
async def test_two_copies_of_one_disk_lose_nothing_double_nothing_and_say_that_they_are_two(
    disk: Path, tmp_path: Path, machine_url: str, hub: Hub, late: bool
) -> None:
    shutil.copytree(disk, tmp_path / "copy")
    one = await Life.begin(disk, machine_url, "one")
    other = await Life.begin(tmp_path / "copy", machine_url, "other")
    other.start()
    if not late:
        await one.start().all_sent()
    await other.say("of the other")
    await other.all_sent()
    await one.say("of the one")  # under the very same number
    if late:
        one.start()

    await applied(hub, "common", "of the one", "of the other")
    assert "this looks like a copy" in (one.publisher.problem or "")
    await other.say("more of the other")
    await one.say("more of the one")
    await applied(
        hub,
        "common",
        *(f"{more}of the {who}" for more in ("", "more ") for who in ("one", "other")),
    )
    assert one.spool.spool_id != other.spool.spool_id
    for life in (one, other):
        assert "this looks like a copy" in (life.publisher.problem or "")
        await life.stop()


async def test_what_waited_when_a_disk_was_copied_is_applied_once(
    disk: Path, tmp_path: Path, machine_url: str, hub: Hub
) -> None:
    waiting = await Life.begin(disk, machine_url, "waiting")
    await waiting.say("a", "b", "c")
    await waiting.stop()
    shutil.copytree(disk, tmp_path / "copy")
    lives = [
        await Life.begin(disk, machine_url, "one"),
        await Life.begin(tmp_path / "copy", machine_url, "other"),
    ]
    for life in lives:
        life.start()
    for life in lives:
        await life.all_sent()
        await life.say(f"after {id(life)}")

    expected = {"common", "a", "b", "c", *(f"after {id(life)}" for life in lives)}
    await applied(hub, *expected)
    for life in lives:
        await life.stop()


async def test_a_restart_on_the_same_disk_takes_its_entries_for_its_own(
    disk: Path, machine_url: str, hub: Hub
) -> None:
    for name in ("second", "third"):
        life = await Life.begin(disk, machine_url, name)
        spool_id = life.spool.spool_id
        await life.start().say(name)
        await life.all_sent()
        assert (life.spool.spool_id, life.publisher.problem) == (spool_id, None)
        await life.stop()

    await applied(hub, "common", "second", "third")


@pytest.mark.core
async def test_a_restored_disk_keeps_what_is_new_repeats_nothing_and_says_so(
    disk: Path, tmp_path: Path, machine_url: str, hub: Hub
) -> None:
    life = await Life.begin(disk, machine_url, "before")
    await life.say("in the backup")
    shutil.copytree(disk, tmp_path / "backup")
    await life.say("lost with the disk")
    await life.start().all_sent()
    await applied(hub, "common", "in the backup", "lost with the disk")
    await life.stop()

    restored = await Life.begin(tmp_path / "backup", machine_url, "restored")
    await restored.say("new")
    restored.start()

    await applied(hub, "common", "in the backup", "lost with the disk", "new")
    assert "older than what was sent from it" in (restored.publisher.problem or "")
    assert [gap.reason for gap in hub.roster.hosts[HOST].gaps] == ["rollback"]
    await restored.stop()


async def test_hubs_that_have_more_than_the_disk_make_it_begin_anew(
    disk: Path, tmp_path: Path, redis_server: Broker, machine_url: str, hub: Hub
) -> None:
    """Also where the stream is gone, so that it cannot tell."""
    shutil.copytree(disk, tmp_path / "backup")
    life = await Life.begin(disk, machine_url, "before")
    await life.say("a", "b")
    await life.start().all_sent()
    await applied(hub, "common", "a", "b")
    await life.stop()
    restored = await Life.begin(tmp_path / "backup", machine_url, "restored")
    await restored.say("new")
    await hub.redis.delete(streams.inbox(HOST))
    restored.start()

    await applied(hub, "common", "a", "b", "new")
    await restored.stop()


@pytest.mark.core
async def test_a_restored_disk_delivers_in_order_though_redis_lost_its_data(
    disk: Path, tmp_path: Path, redis_url: str, hub: Hub, client: redis.asyncio.Redis
) -> None:
    """The collector is back before a hub has written again what it has in memory."""
    shutil.copytree(disk, tmp_path / "backup")
    life = await Life.begin(disk, redis_url, "before")
    await life.say("a", "b")
    await life.start().all_sent()
    await applied(hub, "common", "a", "b")
    await life.stop()
    await freeze(hub)
    await client.flushall()
    restored = await Life.begin(tmp_path / "backup", redis_url, "restored")
    restored.start()
    for names in (("c", "d"), ("e",), ("f", "g")):  # the hub has two of these numbers
        await restored.say(*names)
        await restored.all_sent()
    hub.start()

    await applied(hub, "common", *"abcdefg")
    assert list(hub.roster.hosts[HOST].facts) == ["common", *"abcdefg"]
    await restored.stop()


async def test_without_a_hub_a_copy_waits_and_says_what_for(
    disk: Path, tmp_path: Path, machine_url: str, redis_url: str, client: redis.asyncio.Redis
) -> None:
    shutil.copytree(disk, tmp_path / "copy")
    other = await Life.begin(tmp_path / "copy", machine_url, "other")
    await other.say("of the other")
    await other.start().all_sent()
    one = await Life.begin(disk, machine_url, "one")
    await one.say("of the one")
    one.start()

    async def told() -> bool:
        beat = decode_beat(await client.get(streams.beat(HOST)))
        return beat is not None and "waits until a hub has read" in (beat.problem or "")

    one.publisher._beat = lambda sent, stopping: Beat(
        HOST, "lab", 1, "one", "sp", sent=sent, stopping=stopping, problem=one.publisher.problem
    )
    await other.stop()
    await wait_until(told, timeout=10)
    hub = Hub(redis_url)
    hub.start()
    try:
        await applied(hub, "common", "of the one", "of the other")
    finally:
        await one.stop()
        await hub.stop()


async def test_a_poisoned_stream_is_deleted_by_a_hub_and_publishing_goes_on_at_once(
    disk: Path, machine_url: str, hub: Hub, client: redis.asyncio.Redis
) -> None:
    life = await Life.begin(disk, machine_url, "life")
    life.start()
    await life.all_sent()
    poison = "18446744073709551615-18446744073709551615"
    await client.xadd(streams.inbox(HOST), {"v": "1"}, id=poison)
    await life.say("after it")

    await applied(hub, "common", "after it")
    assert life.spool.incarnation < 2**53
    await life.stop()


class Machine(CollectorProcess):
    def moves_to(self, state_dir: Path) -> Machine:
        """A copy of its state directory, on a machine with another fingerprint."""
        shutil.copytree(self.state_dir, state_dir, ignore=shutil.ignore_patterns("*.sock"))
        identity = json.loads((state_dir / "host.json").read_bytes())
        identity["fingerprint"] = "of another machine"
        (state_dir / "host.json").write_text(json.dumps(identity))
        return Machine(state_dir, self.env["ADSUM_REDIS_URL"], host_label="other box")

    def problem(self) -> str:
        return str(self.ready()["problem"])


@pytest.fixture
def machine(tmp_path: Path, redis_url: str) -> Iterator[Machine]:
    machine = Machine(tmp_path / "state", redis_url, host_label="box")
    yield machine
    machine.kill()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10) as client:
        yield client


async def notes(client: redis.asyncio.Redis, host_id: str) -> list[str]:
    found = await batches(client, host_id)
    return [str(getattr(said, "note", "")) for batch in found for said in batch.signals]


async def test_a_copy_of_a_machine_in_use_becomes_a_machine_of_its_own(
    machine: Machine, tmp_path: Path, http: httpx.AsyncClient, client: redis.asyncio.Redis
) -> None:
    await asyncio.to_thread(machine.start)
    await machine.post(http, "of the original")
    await wait_until(lambda: machine.ready()["stream"]["backlog"] == 0)
    copy = machine.moves_to(tmp_path / "copy")
    old, salt = copy.host_id, (copy.state_dir / "host.json").read_bytes()
    await asyncio.to_thread(copy.start)
    try:
        await copy.post(http, "of the copy")
        await wait_until(lambda: copy.ready()["host_id"] != old, timeout=15)
        await wait_until(lambda: copy.ready()["stream"]["backlog"] == 0)

        assert await notes(client, old) == ["of the original"]
        assert await notes(client, copy.host_id) == ["of the copy"]
        assert "is a copy of box's" in copy.problem()
        assert machine.problem() == "None"
        assert json.loads(salt)["salt"] not in (copy.state_dir / "host.json").read_text()

        copy.stop()
        renewed = copy.host_id
        await asyncio.to_thread(copy.start)
        await copy.post(http, "after a restart")
        await wait_until(lambda: copy.ready()["stream"]["backlog"] == 0)
        assert copy.host_id == renewed
        assert await notes(client, renewed) == ["of the copy", "after a restart"]
        assert copy.problem() == "None"
    finally:
        await asyncio.to_thread(copy.kill)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
async def test_a_machine_that_has_moved_goes_on_as_who_it_was(
    machine: Machine,
    tmp_path: Path,
    http: httpx.AsyncClient,
    client: redis.asyncio.Redis,
    killed: bool,
) -> None:
    await asyncio.to_thread(machine.start)
    await machine.post(http, "before")
    await wait_until(lambda: machine.ready()["stream"]["backlog"] == 0)
    machine.kill() if killed else machine.stop()  # killed: its last heartbeat is there for 10 s
    moved = machine.moves_to(tmp_path / "moved")
    await asyncio.to_thread(moved.start)
    try:
        await moved.post(http, "after")
        await wait_until(lambda: moved.ready()["stream"]["backlog"] == 0, timeout=20)

        assert moved.host_id == machine.host_id
        assert await notes(client, machine.host_id) == ["before", "after"]
        assert moved.problem() == "None"
        assert "of another machine" not in (moved.state_dir / "host.json").read_text()
    finally:
        await asyncio.to_thread(moved.kill)
