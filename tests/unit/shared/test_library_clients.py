"""Why redis-py's own clients of clusters and Sentinels are not ours: one test a reason.

Each is about the library. One that fails tells that a reason is gone, and that redis_cluster.py, or
the Sentinels in connect.py, may be less.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import fakeredis
import pytest
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import NoPermissionError, RedisClusterException, RedisError, ResponseError

Answer = Callable[[list[bytes]], bytes | None]
#: As COMMAND tells of SET, which has one key.
COMMANDS = b"*1\r\n*6\r\n$3\r\nset\r\n:-3\r\n*0\r\n:1\r\n:1\r\n:1\r\n"


class Server:
    """Speaks enough of Redis's protocol. answer: None for what a plain OK will do."""

    def __init__(self) -> None:
        self.asked: list[list[bytes]] = []
        self.answer: Answer = lambda _words: None
        self.port = 0

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                words = []
                for _ in range(int(line[1:])):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                self.asked.append(words)
                writer.write(self._answered(words))
        finally:
            writer.close()

    def _answered(self, words: list[bytes]) -> bytes:
        found = self.answer(words)
        if found is not None:
            return found
        if words[:2] == [b"CLUSTER", b"SLOTS"]:
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % self.port
        if words[0] == b"COMMAND":
            return COMMANDS
        return b"+OK\r\n"

    def names(self) -> set[bytes]:
        return {words[0] for words in self.asked}


@pytest.fixture
async def node() -> AsyncIterator[Server]:
    async with Server().listening() as server:
        yield server


@contextlib.asynccontextmanager
async def cluster(node: Server, retries: int = 0) -> AsyncIterator[RedisCluster]:
    retry = Retry(NoBackoff(), retries)
    client = RedisCluster("127.0.0.1", node.port, protocol=2, retry=retry)
    try:
        yield client
    finally:
        await client.aclose()


async def test_that_it_sends_again_is_no_reason_since_an_entry_has_one_id() -> None:
    redis = fakeredis.FakeAsyncRedis()
    await redis.xadd("stream", {"a": "1"}, id="1-1")

    with pytest.raises(ResponseError, match="equal or smaller"):
        await redis.xadd("stream", {"a": "1"}, id="1-1")
    assert await redis.xlen("stream") == 1


async def test_its_cluster_client_asks_for_commands_which_no_machines_user_may(
    node: Server,
) -> None:
    async with cluster(node) as client:
        await client.set("k", "v")
    assert b"COMMAND" in node.names()

    node.answer = lambda words: b"-NOPERM no\r\n" if words[0] == b"COMMAND" else None
    async with cluster(node) as client:
        with pytest.raises((RedisClusterException, NoPermissionError)):
            await client.set("k", "v")


async def test_its_cluster_client_refuses_to_read_streams_of_several_slots() -> None:
    # It needs no server for that: the keys decide before anything is sent.
    client = RedisCluster("127.0.0.1", 1, protocol=2)
    client.commands_parser.commands = {
        "xread": {
            "name": "xread",
            "flags": [],
            "first_key_pos": 2,
            "last_key_pos": 3,
            "step_count": 1,
        }
    }
    with pytest.raises(RedisClusterException, match="same key slot"):
        await client._determine_slot("XREAD", "STREAMS", "{a}", "{b}", "0", "0")


def test_what_its_cluster_client_raises_is_no_redis_error() -> None:
    assert not issubclass(RedisClusterException, RedisError)


async def test_its_cluster_client_goes_on_at_another_master_without_a_word(node: Server) -> None:
    async with Server().listening() as other:
        moved = b"-MOVED %d 127.0.0.1:%d\r\n" % (key_slot(b"k"), other.port)
        node.answer = lambda words: moved if words[0] == b"SET" else None
        async with cluster(node, retries=1) as client:
            assert await client.set("k", "v")
    assert b"SET" in other.names()


async def test_its_cluster_client_queues_a_transaction_in_a_thread_with_a_loop_of_its_own(
    node: Server,
) -> None:
    async with cluster(node) as client:
        await client.set("k", "v")
        loops = []
        determined = client._determine_slot

        async def seen(*words: object) -> int:
            loops.append(asyncio.get_running_loop())
            return await determined(*words)

        client._determine_slot = seen  # type: ignore[method-assign] # to look on
        client.pipeline(transaction=True).set("k", "v")

    assert loops[0] is not asyncio.get_running_loop()


async def test_its_cluster_client_breaks_on_a_redirection_to_a_node_it_does_not_know(
    node: Server,
) -> None:
    ask = b"-ASK %d 127.0.0.1:1\r\n" % key_slot(b"k")
    node.answer = lambda words: ask if words[0] == b"SET" else None
    async with cluster(node) as client:
        with pytest.raises(AttributeError):
            await client.set("k", "v")


async def test_its_sentinel_client_asks_for_all_masters_where_ours_may_ask_for_one(
    node: Server,
) -> None:
    node.answer = lambda words: b"-NOPERM no\r\n" if words[1:2] == [b"MASTERS"] else None
    sentinel = Sentinel([("127.0.0.1", node.port)], sentinel_kwargs={"protocol": 2})
    with pytest.raises(NoPermissionError):
        await sentinel.discover_master("mymaster")
    await sentinel.aclose()


async def test_its_sentinel_client_writes_its_clients_into_the_error() -> None:
    sentinel = Sentinel([("127.0.0.1", 1)], sentinel_kwargs={"protocol": 2, "username": "someone"})
    with pytest.raises(MasterNotFoundError, match=r"<redis\.asyncio\.client\.Redis\("):
        await sentinel.discover_master("mymaster")
    await sentinel.aclose()
