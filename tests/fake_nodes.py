"""A cluster's nodes in memory: they hold keys, refuse what is elsewhere, and tell what changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, ResponseError

from adsum_shared.redis_cluster import ClusterReader, ClusterRedis, key_of
from adsum_shared.redis_url import read_url

SLOTS = 16_384
Words = tuple[Any, ...]


class Nodes:
    """ports: of masters, each with an equal share. away: ports that nobody listens at.

    odd: called with port and words before a command is done: what it returns is the answer.
    """

    def __init__(self, *ports: int) -> None:
        share = SLOTS // len(ports)
        self.owner = [ports[min(slot // share, len(ports) - 1)] for slot in range(SLOTS)]
        self.replicas: dict[int, int] = {}
        self.keys: dict[int, dict[str, Any]] = {}
        self.asked: list[tuple[int, Words]] = []
        self.away: set[int] = set()
        self.odd: Callable[[int, Words], Any] = lambda _port, _words: None
        self.listeners: list[Listening] = []
        self.closed = 0
        self.idled: list[int] = []
        self.url = read_url(f"redis+cluster://h:{ports[0]},h:{ports[-1]}")

    @property
    def client(self) -> ClusterRedis:
        return ClusterRedis(self.url, self.open)

    @property
    def reader(self) -> ClusterReader:
        return ClusterReader(self.url, self.open)

    def open(self, url: str) -> Any:
        return Node(self, urlsplit(url).port or 0)

    def layout(self) -> list[Any]:
        found: list[Any] = []
        for slot, port in enumerate(self.owner):
            if found and found[-1][2][1] == port and found[-1][1] == slot - 1:
                found[-1][1] = slot
            else:
                replica = self.replicas.get(port)
                others = [[b"h", replica]] if replica else []
                found.append([slot, slot, [b"", port], *others])
        return found

    def answer(self, port: int, words: Words) -> Any:
        """Raises what a node answers by an error."""
        self.asked.append((port, words))
        if port in self.away:
            raise RedisConnectionError(f"Error 111 connecting to h:{port}.")
        if isinstance(told := self.odd(port, words), Exception):
            raise told
        if told is not None:
            return told
        if words[:2] == ("CLUSTER", "SLOTS"):
            return self.layout()
        if (key := key_of(words)) is None:
            return f"{words[0]} of {port}"
        owner = self.owner[key_slot(key)]
        if owner != port:
            raise MovedError(f"{key_slot(key)} h:{owner}")
        return self._kept(self.keys.setdefault(port, {}), key.decode(), words)

    def _kept(self, keys: dict[str, Any], key: str, words: Words) -> Any:
        match words[0]:
            case "SET":
                keys[key] = words[2]
                return True
            case "GET":
                return keys.get(key)
            case "XADD":
                keys.setdefault(key, []).append((words[2], {}))
                for each in self.listeners:
                    each.tell([key.encode()])
                return words[2]
            case "XREAD":
                after = words[-1]
                found = [entry for entry in keys.get(key, []) if entry[0] > after]
                return [[key.encode(), found]] if found else []
            case _:
                raise ResponseError(f"unknown command {words[0]}")


class Node:
    def __init__(self, nodes: Nodes, port: int) -> None:
        self._nodes = nodes
        self._port = port
        self.connection_pool = self

    def client(self) -> Node:
        return self

    def make_connection(self) -> Listening:
        return Listening(self._nodes, self._port)

    async def execute_command(self, *words: Any, **_options: Any) -> Any:
        await asyncio.sleep(0)
        return self._nodes.answer(self._port, words)

    async def ping(self) -> Any:
        return await self.execute_command("PING")

    def pipeline(self, *, transaction: bool) -> Piped:
        return Piped(self._nodes, self._port, transaction)

    async def scan_iter(self, **_options: Any) -> Any:
        for key in self._nodes.keys.get(self._port, {}):
            yield key.encode()

    async def disconnect(self, *, inuse_connections: bool) -> None:
        assert not inuse_connections
        self._nodes.idled.append(self._port)

    async def aclose(self) -> None:
        self._nodes.closed += 1


class Piped:
    def __init__(self, nodes: Nodes, port: int, transaction: bool) -> None:
        self._nodes, self._port, self._transaction = nodes, port, transaction
        self._words: list[Words] = []

    async def __aenter__(self) -> Piped:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    def execute_command(self, *words: Any, **_options: Any) -> None:
        self._words.append(words)

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        await asyncio.sleep(0)
        replies: list[Any] = []
        for words in self._words:
            if words == ("ASKING",):
                replies.append(True)
                continue
            try:
                replies.append(self._nodes.answer(self._port, words))
            except ResponseError as error:
                if raise_on_error or self._transaction:
                    raise
                replies.append(error)
        return replies


class Listening:
    """A connection that is told which keys change."""

    def __init__(self, nodes: Nodes, port: int) -> None:
        self._nodes = nodes
        self._port = port
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self.socket_timeout: float | None = 5.0

    async def connect(self) -> None:
        if self._port in self._nodes.away:
            raise RedisConnectionError(f"Error 111 connecting to h:{self._port}.")

    async def send_command(self, *words: Any, **_options: Any) -> None:
        told = self._nodes.odd(self._port, words)
        await self._replies.put(told if told is not None else 1)
        if words[0] == "SUBSCRIBE":
            self._nodes.listeners.append(self)

    async def read_response(self) -> Any:
        reply = await self._replies.get()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def tell(self, keys: Any) -> None:
        self._replies.put_nowait(keys if isinstance(keys, Exception) else [b"message", b"", keys])

    async def disconnect(self, *, nowait: bool = False) -> None:
        del nowait
        if self in self._nodes.listeners:
            self._nodes.listeners.remove(self)
