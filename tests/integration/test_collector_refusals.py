"""A real broker that is reached and refuses: each state is told with its next step, and passes."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio
from redis.exceptions import RedisError

from adsum_shared import streams
from adsum_shared.connect import open_redis
from adsum_shared.envelope import decode_beat
from tests.brokers import Broker, running_broker
from tests.collectors import CollectorProcess, applied_notes
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60)]

DOCS = Path(__file__).parent.parent.parent / "docs" / "protocol.md"
Client = redis.asyncio.Redis
Step = Callable[[Client, Broker, str], Awaitable[Any]]


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Broker]:
    """One that would save to its disk, so that it can fail to."""
    with running_broker(tmp_path / "broker", "--save", "3600 100000") as broker:
        yield broker


@pytest.fixture
def collector(tmp_path: Path, redis_url: str) -> Iterator[CollectorProcess]:
    collector = CollectorProcess(tmp_path / "state", redis_url).start()
    yield collector
    collector.kill()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10) as client:
        yield client


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Client]:
    client = open_redis(redis_url)
    yield client
    await client.aclose()


def problem(collector: CollectorProcess) -> str:
    return str(collector.ready()["problem"])


async def arrives(client: Client, collector: CollectorProcess, *expected: str) -> None:
    async def is_there() -> bool:
        try:
            return await applied_notes(client, collector.host_id) == list(expected)
        except RedisError:
            return False

    await wait_until(is_there, timeout=20)


def configured(**values: str) -> Step:
    async def set_config(client: Client, broker: Broker, host_id: str) -> None:
        del broker, host_id
        for name, value in values.items():
            await client.config_set(name.replace("_", "-"), value)

    return set_config


async def replicate_nobody(client: Client, broker: Broker, host_id: str) -> None:
    del broker, host_id
    await client.execute_command("REPLICAOF", "127.0.0.1", "1")


async def replicate_nobody_and_say_so(client: Client, broker: Broker, host_id: str) -> None:
    await client.config_set("replica-serve-stale-data", "no")
    await replicate_nobody(client, broker, host_id)


async def be_primary(client: Client, broker: Broker, host_id: str) -> None:
    del broker, host_id
    await client.execute_command("REPLICAOF", "NO", "ONE")


async def save(client: Client, expected: str) -> None:
    await client.bgsave()

    async def is_over() -> bool:
        info = await client.info("persistence")
        return not info["rdb_bgsave_in_progress"] and info["rdb_last_bgsave_status"] == expected

    await wait_until(is_over)


async def fail_to_save(client: Client, broker: Broker, host_id: str) -> None:
    del host_id
    (broker.directory / "dump.rdb" / "in the way").mkdir(parents=True)
    await save(client, "err")


async def save_again(client: Client, broker: Broker, host_id: str) -> None:
    del host_id
    shutil.rmtree(broker.directory / "dump.rdb")
    await save(client, "ok")


async def run_a_long_script(client: Client, broker: Broker, host_id: str) -> None:
    del host_id
    await client.config_set("lua-time-limit", "100")
    other = open_redis(broker.url)

    async def run() -> None:
        try:
            await other.eval("while true do end", 0)
        except RedisError:
            await other.aclose()

    broker.script = asyncio.create_task(run())  # type: ignore[attr-defined] # kept from being collected


async def end_the_script(client: Client, broker: Broker, host_id: str) -> None:
    del broker, host_id
    await client.script_kill()


def overwritten(key: Callable[[str], str]) -> tuple[Step, Step]:
    async def overwrite(client: Client, broker: Broker, host_id: str) -> None:
        del broker
        await client.set(key(host_id), "something else")

    async def remove(client: Client, broker: Broker, host_id: str) -> None:
        del broker
        await client.delete(key(host_id))

    return overwrite, remove


STATES: dict[str, tuple[Step, str, Step]] = {
    "OOM": (
        # An empty Redis 8 takes less than a megabyte.
        configured(maxmemory="1"),
        "is out of memory. Start a hub",
        configured(maxmemory="0"),
    ),
    "NOREPLICAS": (
        configured(min_replicas_to_write="1"),
        "lower its min-replicas-to-write",
        configured(min_replicas_to_write="0"),
    ),
    "READONLY": (replicate_nobody, "is a read-only replica. Point", be_primary),
    "MASTERDOWN": (replicate_nobody_and_say_so, "has lost its primary", be_primary),
    "MISCONF": (fail_to_save, "cannot save to its disk", save_again),
    "BUSY": (run_a_long_script, "busy with somebody's script", end_the_script),
    "no connections": (
        configured(maxclients="1"),
        "has no connection left for us",
        configured(maxclients="1000"),
    ),
    **{
        name: (overwrite, "else was written under the key adsum:", remove)
        for name, (overwrite, remove) in {
            "a stream that is none": overwritten(streams.inbox),
            "a snapshot that is none": overwritten(streams.snapshot),
            "a list of hosts that is none": overwritten(lambda _host_id: streams.HOSTS),
        }.items()
    },
}


@pytest.mark.parametrize(("spoil", "words", "mend"), STATES.values(), ids=STATES)
async def test_what_a_broker_refuses_is_told_with_the_next_step_until_it_takes_it_again(
    collector: CollectorProcess,
    redis_server: Broker,
    http: httpx.AsyncClient,
    client: Client,
    spoil: Step,
    words: str,
    mend: Step,
) -> None:
    await collector.post(http, "before")
    await arrives(client, collector, "before")
    await spoil(client, redis_server, collector.host_id)
    if "connection" in words:  # the one it has it keeps
        await client.client_kill_filter(_type="normal", skipme=True)
    await collector.post(http, "meanwhile")

    await wait_until(lambda: words in problem(collector), timeout=20)
    assert collector.ready()["ready"]

    await mend(client, redis_server, collector.host_id)
    if "key adsum:" in words:  # what was there before is gone with it
        await wait_until(lambda: collector.ready()["stream"]["backlog"] == 0, timeout=20)
    else:
        await arrives(client, collector, "before", "meanwhile")
    await wait_until(lambda: problem(collector) == "None", timeout=10)


async def test_a_password_that_changes_is_told_without_it_and_works_again_once_corrected(
    tmp_path: Path, redis_server: Broker, http: httpx.AsyncClient, client: Client
) -> None:
    await client.execute_command("ACL", "SETUSER", "box", "on", ">se/cret", "~*", "+@all")
    url = f"redis://box:se%2Fcret@127.0.0.1:{redis_server.port}"
    collector = CollectorProcess(tmp_path / "state", url)
    await asyncio.to_thread(collector.start)
    try:
        await collector.post(http, "before")
        await arrives(client, collector, "before")
        await client.execute_command("ACL", "SETUSER", "box", "resetpass", ">another")
        await client.client_kill_filter(_type="normal", skipme=True)
        await collector.post(http, "meanwhile")
        await wait_until(lambda: "refused the password" in problem(collector))
        assert "cret" not in problem(collector)

        await client.execute_command("ACL", "SETUSER", "box", "resetpass", ">se/cret")
        await arrives(client, collector, "before", "meanwhile")
        await wait_until(lambda: problem(collector) == "None")
        assert "cret" not in collector.log.read_text()
    finally:
        collector.kill()


async def test_a_broker_that_wants_a_password_says_so_to_who_has_none(
    collector: CollectorProcess, http: httpx.AsyncClient, client: Client
) -> None:
    await client.config_set("requirepass", "new")
    await client.execute_command("AUTH", "new")
    await client.client_kill_filter(_type="normal", skipme=True)
    await collector.post(http, "meanwhile")
    await wait_until(lambda: "or wants one" in problem(collector))

    await client.config_set("requirepass", "")
    await arrives(client, collector, "meanwhile")


def rights(host_id: str) -> list[str]:
    """What docs/protocol.md tells operators to give to a machine."""
    found = re.search(r"ACL SETUSER [^`]+", DOCS.read_text())
    assert found is not None
    words = found[0].replace("BOX", "box").replace("PASSWORD", "pw").replace("HOST-ID", host_id)
    return words.split()


async def test_the_rights_the_docs_list_are_enough_and_each_other_one_is_told(
    tmp_path: Path, redis_server: Broker, http: httpx.AsyncClient, client: Client
) -> None:
    url = f"redis://box:pw@127.0.0.1:{redis_server.port}"
    collector = CollectorProcess(tmp_path / "state", url)
    await client.execute_command("ACL", "SETUSER", "box", "on", ">pw", "~*", "+@all")
    await asyncio.to_thread(collector.start)
    try:
        await collector.post(http, "with all")
        await arrives(client, collector, "with all")
        await client.execute_command("ACL", "DELUSER", "box")
        granted = rights(collector.host_id)
        await client.execute_command(*granted)
        await client.client_kill_filter(_type="normal", skipme=True)
        await collector.post(http, "with few")
        await arrives(client, collector, "with all", "with few")
        await wait_until(lambda: problem(collector) == "None")

        await client.execute_command("ACL", "SETUSER", "box", "-xadd")
        await collector.post(http, "with too few")

        async def is_told() -> bool:
            beat = decode_beat(await client.get(streams.beat(collector.host_id)))
            return beat is not None and "forbids this user a command" in (beat.problem or "")

        await wait_until(is_told, timeout=10)  # by the heartbeat, which it may still write
        for _ in range(100):  # also while it connects anew, which it may
            assert "docs/protocol.md" in problem(collector)
        await client.execute_command("ACL", "SETUSER", "box", "+xadd")
        await arrives(client, collector, "with all", "with few", "with too few")
    finally:
        collector.kill()


async def test_a_broker_that_is_loading_is_waited_for(
    tmp_path: Path, http: httpx.AsyncClient
) -> None:
    slow = ("--key-load-delay", "700", "--loading-process-events-interval-bytes", "1024")
    broker = Broker(tmp_path / "broker").start()
    collector = CollectorProcess(tmp_path / "state", broker.url)
    try:
        client = open_redis(broker.url)
        async with client.pipeline(transaction=False) as many:
            for at in range(6000):  # it looks up from loading after a thousand commands
                many.set(f"key {at}", "")
            await many.execute()
        await client.aclose()
        await asyncio.to_thread(collector.start)
        broker.kill()
        broker.options = slow
        await collector.post(http, "waits")
        starting = asyncio.create_task(asyncio.to_thread(broker.start))
        await wait_until(lambda: "still loading its data" in problem(collector), timeout=15)
        await starting
        client = open_redis(broker.url)
        await arrives(client, collector, "waits")
        await client.aclose()
    finally:
        collector.kill()
        broker.kill()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Protocol error"),
        (b"$24\r\nredis_version:unstable\r\n\r\n", "makes no sense"),
        (b":7\r\n", "makes no sense"),
        (b"-ERR unknown command\r\n", "unknown command"),
    ],
    ids=["a web server", "no version", "numbers only", "knows nothing"],
)
async def test_what_is_no_redis_is_told_and_ends_nothing(
    tmp_path: Path, http: httpx.AsyncClient, answer: bytes, words: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(4096):
            writer.write(b"+PONG\r\n" if b"PING" in request else answer * request.count(b"*"))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    collector = CollectorProcess(tmp_path / "state", f"redis://127.0.0.1:{port}")
    await asyncio.to_thread(collector.start)
    try:
        await collector.post(http, "kept")

        async def told() -> str:
            return str((await http.get(f"{collector.url}/readyz")).json()["problem"])

        async def is_told() -> bool:
            return words in await told()

        await wait_until(is_told)
        assert f"redis://127.0.0.1:{port}" in await told()
        await collector.post(http, "kept too")
    finally:
        await asyncio.to_thread(collector.kill)
        server.close()
