"""A client of a cluster, on nodes in memory: where each command goes, and what is never sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ExecAbortError,
    MovedError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_shared.connect import every_server
from adsum_shared.redis_cluster import ClusterRedis, key_of
from adsum_shared.redis_errors import UnsettledError, WayError
from tests.fake_nodes import Nodes, Words

# Their slots lie at the first, the second and the third of three equal shares.
ONE, TWO, THREE = "adsum:{b}:beat", "adsum:{c}:beat", "adsum:{a}:beat"


@pytest.fixture
def nodes() -> Nodes:
    return Nodes(1, 2, 3)


def sent(nodes: Nodes, name: str) -> list[int]:
    """The ports where a command of this name was sent to."""
    return [port for port, words in nodes.asked if words[0] == name]


def once(name: str, error: Exception) -> Callable[[int, Words], Any]:
    left = [error]
    return lambda _port, words: left.pop() if words[0] == name and left else None


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("GET", "k"), b"k"),
        (("XINFO STREAM", "k"), b"k"),
        (("XINFO", "STREAM", "k"), b"k"),
        (("EVAL", "return", 2, "k", "other", "arg"), b"k"),
        (("EVAL", "return", 0), None),
        (("XREAD", b"COUNT", 5, b"STREAMS", b"k", b"other", "0", "0"), b"k"),
        (("INFO", "server"), None),
        (("CONFIG GET", "save"), None),
        (("SCRIPT LOAD", "return"), None),
        (("TIME",), None),
    ],
)
def test_the_key_of_a_command_is_where_redis_has_it(words: Words, key: bytes | None) -> None:
    assert key_of(words) == key


async def test_each_command_goes_to_the_node_of_its_key(nodes: Nodes) -> None:
    client = nodes.client
    for number, key in enumerate((ONE, TWO, THREE)):
        await client.set(key, number)

    assert sorted(sent(nodes, "SET")) == [1, 2, 3]
    assert sent(nodes, "CLUSTER") == [1]
    assert [await client.get(key) for key in (ONE, TWO, THREE)] == [0, 1, 2]
    assert {key async for key in client.scan_iter()} == {k.encode() for k in (ONE, TWO, THREE)}


async def test_what_has_no_key_is_asked_of_one_node_and_scripts_are_loaded_at_all(
    nodes: Nodes,
) -> None:
    client = nodes.client

    assert [await client.execute_command("TIME") for _ in range(3)] == ["TIME of 1"] * 3
    await client.execute_command("SCRIPT LOAD", "return")

    assert sent(nodes, "SCRIPT LOAD") == [1, 2, 3]


async def test_an_answer_that_is_lost_ends_the_command_and_the_map_is_learnt_anew(
    nodes: Nodes,
) -> None:
    client = nodes.client
    nodes.odd = once("SET", RedisConnectionError("Connection lost."))

    with pytest.raises(RedisConnectionError):
        await client.set(ONE, "x")

    assert len(sent(nodes, "SET")) == 1
    await client.set(ONE, "x")
    assert len(sent(nodes, "CLUSTER")) == 2


async def test_to_hang_up_what_lies_idle_ends_nothing_that_is_on_its_way(nodes: Nodes) -> None:
    client = nodes.client
    await client.set(ONE, "x")
    await client.set(TWO, "x")

    await client.connection_pool.disconnect(inuse_connections=False)

    assert (sorted(nodes.idled), nodes.closed) == ([1, 2], 0)
    await client.connection_pool.disconnect()
    assert nodes.closed > 0


async def test_a_node_that_is_away_is_asked_last_for_the_map(nodes: Nodes) -> None:
    client = nodes.client
    await client.get(ONE)
    nodes.away = {1}
    nodes.owner = [2 if port == 1 else port for port in nodes.owner]  # its replica took over

    with pytest.raises(RedisConnectionError):
        await client.execute_command("TIME")

    assert await client.execute_command("TIME") == "TIME of 2"
    assert nodes.closed == 0 or 1 not in sent(nodes, "CLUSTER")[1:]


async def test_no_node_that_answers_is_told_with_all_that_were_tried(nodes: Nodes) -> None:
    nodes.away = {1, 2, 3}

    with pytest.raises(WayError, match=r"no node of the cluster answers \(h:1: .*; h:3: .*\)"):
        await nodes.client.get(ONE)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ResponseError("ERR This instance has cluster support disabled"), "no node of a cluster"),
        (ResponseError("unknown command 'CLUSTER'"), "Look whether that is a Redis"),
    ],
)
async def test_what_is_no_cluster_is_told(nodes: Nodes, error: Exception, told: str) -> None:
    nodes.odd = once("CLUSTER", error)

    with pytest.raises(WayError, match=told):
        await nodes.client.get(ONE)


@pytest.mark.parametrize("reply", [b"OK", 7, [[0, 5]], [[0, 5, 7]], [[0, 5, [b"h", b"x"]]]])
async def test_an_answer_that_names_no_nodes_is_told(nodes: Nodes, reply: Any) -> None:
    nodes.odd = lambda _port, words: reply if words[0] == "CLUSTER" else None

    with pytest.raises(WayError, match="does not tell its cluster's nodes"):
        await nodes.client.get(ONE)


async def test_a_slot_that_nobody_serves_is_told(nodes: Nodes) -> None:
    nodes.odd = lambda _port, words: [[0, 5, [b"", 1]]] if words[0] == "CLUSTER" else None

    with pytest.raises(UnsettledError, match="nobody in the cluster serves slot"):
        await nodes.client.get(ONE)


def move(nodes: Nodes, key: str, to: int) -> None:
    """The map that is known is over."""
    from redis.crc import key_slot

    nodes.owner[key_slot(key.encode())] = to


async def test_a_key_that_moved_is_followed_once(nodes: Nodes) -> None:
    client = nodes.client
    await client.set(ONE, "x")
    [by] = sent(nodes, "SET")
    to = by % 3 + 1
    move(nodes, ONE, to)

    await client.set(ONE, "y")

    assert sent(nodes, "SET") == [by, by, to]
    assert await client.get(ONE) == "y"


async def test_who_may_have_lost_something_there_does_not_follow(nodes: Nodes) -> None:
    steady = nodes.client.client()
    await steady.set(ONE, "x")
    [by] = sent(nodes, "SET")
    move(nodes, ONE, by % 3 + 1)

    with pytest.raises(UnsettledError, match=f"has moved from h:{by}"):
        await steady.set(ONE, "y")

    assert sent(nodes, "SET") == [by, by]


async def test_a_node_that_is_not_reached_where_the_cluster_names_it_is_told(
    nodes: Nodes,
) -> None:
    client = nodes.client
    await client.get(ONE)
    nodes.odd = once("SET", MovedError("7 inner:7"))
    nodes.away = {7}

    with pytest.raises(WayError, match=r"sends us on to inner:7.*cluster-announce-ip"):
        await client.set(ONE, "x")


async def test_a_key_on_its_way_is_asked_for_where_it_is_going(nodes: Nodes) -> None:
    client = nodes.client
    await client.set(ONE, "x")
    [by] = sent(nodes, "SET")
    nodes.odd = once("GET", AskError(f"7 h:{by}"))

    assert await client.get(ONE) == "x"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ClusterDownError("The cluster is down"), "the cluster is down"),
        (TryAgainError("Multiple keys request"), "moving these keys"),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
async def test_a_cluster_in_motion_means_later_and_no_key_is_blamed(
    nodes: Nodes, error: Exception, told: str, piped: bool
) -> None:
    nodes.odd = once("SET", error)
    client: Any = nodes.client.pipeline(transaction=False) if piped else nodes.client

    with pytest.raises(UnsettledError, match=told) as refused:
        await client.set(ONE, "x") if not piped else await client.set(ONE, "x").execute()

    assert not isinstance(refused.value, ResponseError)


async def test_a_pipeline_answers_in_the_order_it_was_asked(nodes: Nodes) -> None:
    piped = nodes.client.pipeline(transaction=False)
    for key in (THREE, ONE, TWO):
        piped.set(key, key)
        piped.get(key)

    assert await piped.execute() == [each for key in (THREE, ONE, TWO) for each in (True, key)]


async def test_an_error_stands_in_its_place_or_is_raised(nodes: Nodes) -> None:
    piped = nodes.client.pipeline(transaction=False)
    piped.set(ONE, "x")
    piped.incr(TWO)
    told = await piped.execute(raise_on_error=False)

    assert told[0] is True
    assert isinstance(told[1], ResponseError)
    piped.incr(TWO)
    with pytest.raises(ResponseError):
        await piped.execute()


async def test_of_a_pipeline_what_moved_is_sent_there(nodes: Nodes) -> None:
    client = nodes.client
    await client.set(ONE, "x")
    [by] = sent(nodes, "SET")
    move(nodes, ONE, by % 3 + 1)
    for transaction in (False, True):
        piped = client.pipeline(transaction=transaction)
        piped.set(ONE, "y")
        assert await piped.execute() == [True]


async def test_a_transaction_that_is_refused_for_something_else_means_later(nodes: Nodes) -> None:
    nodes.odd = once("SET", ExecAbortError("Transaction discarded"))
    piped = nodes.client.pipeline(transaction=True)
    piped.set(ONE, "x")

    with pytest.raises(UnsettledError):
        await piped.execute()


async def test_all_servers_are_masters_and_replicas_those_added_since_too(nodes: Nodes) -> None:
    client = nodes.client
    await client.get(ONE)
    nodes.replicas = {1: 11}

    async with every_server(client) as servers:
        assert [master for _, master in servers] == [True, True, True, False]


async def test_who_closes_it_closes_every_node(nodes: Nodes) -> None:
    async with nodes.client as client:
        await asyncio.gather(client.get(ONE), client.get(TWO), client.get(THREE))

    assert nodes.closed >= 3
    assert isinstance(client, ClusterRedis)
