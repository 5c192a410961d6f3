"""Reading many streams of a cluster, on nodes in memory: heard of at once, and never missed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from adsum_shared import redis_cluster
from tests.fake_nodes import Listening, Nodes
from tests.support import wait_until

KEYS = [f"adsum:{{{letter}}}:in" for letter in "abc"]
START = dict.fromkeys(KEYS, "0-0")


@pytest.fixture
def nodes() -> Nodes:
    return Nodes(1, 2, 3)


def reads(nodes: Nodes) -> int:
    return sum(words[0] == "XREAD" for _, words in nodes.asked)


async def test_who_rests_is_asked_once_and_then_waited_for(nodes: Nodes) -> None:
    reader = nodes.reader
    assert await reader.xread(START, block=10) == []
    assert reads(nodes) == 3
    waiting = asyncio.create_task(reader.xread(START, block=5_000))
    await asyncio.sleep(0)

    await nodes.client.execute_command("XADD", KEYS[1], "1-1")

    assert await asyncio.wait_for(waiting, 1) == [[KEYS[1].encode(), [("1-1", {})]]]
    assert reads(nodes) == 4
    await reader.aclose()
    assert nodes.listeners == []


async def test_what_is_added_while_we_ask_is_not_missed(nodes: Nodes) -> None:
    reader = nodes.reader
    await reader.xread(START, block=1)
    nodes.listeners[0].tell([KEYS[0].encode()])
    added = False

    def late(_port: int, words: Any) -> Any:
        nonlocal added
        if words[0] == "XREAD" and not added:
            added = True
            nodes.keys.setdefault(nodes.owner[_slot(KEYS[0])], {})[KEYS[0]] = [("1-1", {})]
            nodes.listeners[0].tell([KEYS[0].encode()])
            return []  # read just before
        return None

    nodes.odd = late

    assert await asyncio.wait_for(reader.xread(START, block=5_000), 1)
    await reader.aclose()


def _slot(key: str) -> int:
    from redis.crc import key_slot

    return key_slot(key.encode())


async def test_what_came_to_a_master_that_nobody_listened_to_yet_is_not_missed(
    nodes: Nodes,
) -> None:
    reader = nodes.reader
    await reader.xread(START, block=1)
    for key in KEYS[:2]:
        nodes.owner[_slot(key)] = 4
    nodes.keys[4] = {KEYS[0]: [("1-1", {})]}
    nodes.listeners[0].tell([KEYS[1].encode()])

    assert await wait_until(lambda: reader.xread(START, block=20), timeout=1)
    await reader.aclose()


async def test_a_cursor_that_was_set_back_is_asked_from_there(nodes: Nodes) -> None:
    reader = nodes.reader
    await nodes.client.execute_command("XADD", KEYS[0], "1-1")
    assert await reader.xread({KEYS[0]: "1-1"}, block=1) == []

    assert await reader.xread({KEYS[0]: "0-0"}, block=1)
    await reader.aclose()


async def test_what_nobody_has_told_the_sweep_finds(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_cluster, "SWEEP_S", 0.05)
    reader = nodes.reader
    await reader.xread(START, block=1)
    nodes.keys[nodes.owner[_slot(KEYS[0])]] = {KEYS[0]: [("1-1", {})]}

    assert await asyncio.wait_for(reader.xread(START, block=5_000), 1)
    await reader.aclose()


async def test_a_flush_makes_everything_unknown(nodes: Nodes) -> None:
    reader = nodes.reader
    await reader.xread(START, block=1)
    waiting = asyncio.create_task(reader.xread(START, block=200))
    before = reads(nodes)
    await asyncio.sleep(0)

    nodes.listeners[0].tell(None)

    await wait_until(lambda: reads(nodes) == before + 3)
    assert await waiting == []
    await reader.aclose()


async def test_a_node_that_tells_nothing_is_asked_again_and_again(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_cluster, "DEAF_S", 0.01)
    nodes.odd = lambda port, words: (
        ResponseError("NOPERM") if port == 2 and words[:2] == ("CLIENT", "TRACKING") else None
    )
    reader = nodes.reader

    assert await reader.xread(START, block=500) == []

    assert reads(nodes) > 6
    await reader.aclose()


async def test_a_listener_that_is_lost_ends_the_read_and_the_next_begins_anew(
    nodes: Nodes,
) -> None:
    reader = nodes.reader
    await reader.xread(START, block=1)
    nodes.listeners[0].tell(RedisConnectionError("Connection closed by server."))
    await asyncio.sleep(0.01)

    with pytest.raises(RedisConnectionError):
        await reader.xread(START, block=1)
    await reader.connection_pool.disconnect()

    assert await reader.xread(START, block=1) == []
    assert len(nodes.listeners) == 3
    await reader.aclose()


async def test_one_stream_that_cannot_be_read_is_told_and_none_is_thought_quiet(
    nodes: Nodes,
) -> None:
    reader = nodes.reader
    bad = [True]
    nodes.odd = lambda _port, words: (
        ResponseError("WRONGTYPE") if words[0] == "XREAD" and KEYS[2] in words and bad else None
    )
    await nodes.client.execute_command("XADD", KEYS[0], "1-1")

    with pytest.raises(ResponseError):
        await reader.xread(START, block=1)
    bad.clear()

    assert await reader.xread(START, block=1)
    await reader.aclose()


async def test_who_closes_a_reader_that_is_about_to_listen_ends_it_plainly(nodes: Nodes) -> None:
    reader = nodes.reader
    answers = asyncio.Event()

    async def connect(_: object) -> None:
        await answers.wait()
        raise RedisConnectionError("closed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Listening, "connect", connect)
        reading = asyncio.create_task(reader.xread(START, block=10_000))
        await wait_until(lambda: reader._listening)
        await reader.disconnect()
        answers.set()

        with pytest.raises(RedisConnectionError):
            await reading
