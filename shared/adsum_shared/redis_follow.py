"""XREAD over many hosts' streams in a cluster: waits for news of them, and asks for those alone.

A cluster refuses one XREAD over several slots, on one node too, and so each host would take a
connection that blocks. Redis tells instead which keys have changed (CLIENT TRACKING, for all keys
of hosts): one connection per master. Rejected: to ask for all streams every few milliseconds, which
costs hub and nodes the more, the more machines rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from redis.exceptions import RedisError, ResponseError

from adsum_shared import streams
from adsum_shared.redis_cluster import ClusterRedis
from adsum_shared.redis_slots import Slots, encoded
from adsum_shared.redis_url import Address

log = logging.getLogger(__name__)

CHANNEL = "__redis__:invalidate"
#: All are asked so often, whatever we have heard: news are a hint.
SWEEP_S = 5.0
#: And so often where a node does not tell us.
DEAF_S = 0.1


class Listener:
    """One node's news. told(key) is called for each key that changes; None: for all of them."""

    def __init__(self, client: Any, told: Callable[[bytes | None], None]) -> None:
        self._connection: Any = client.connection_pool.make_connection()
        # Nothing may come for hours. A peer that is dead shows itself where the sweep asks it.
        self._connection.socket_timeout = None
        self._told = told
        self._task: asyncio.Task[None] | None = None
        self.deaf = False

    async def start(self) -> None:
        """What changes from now on is told."""
        connection = self._connection
        await connection.connect()
        own = await self._asked("CLIENT", "ID")
        try:
            tracking = ("CLIENT", "TRACKING", "ON", "REDIRECT", own, "BCAST", "PREFIX")
            await self._asked(*tracking, streams.OF_HOSTS)
            await self._asked("SUBSCRIBE", CHANNEL)
        except ResponseError as error:
            self.deaf = True
            log.warning(
                "a node of the cluster does not tell what changes (%s): it is asked %d times a second. "
                "Give the hub's user +client|tracking +client|id +subscribe &%s.",
                error,
                round(1 / DEAF_S),
                CHANNEL,
            )
            return
        self._task = asyncio.create_task(self._listen(), name="news")

    def check(self) -> None:
        """Raises what has ended it."""
        if self._task is not None and self._task.done():
            self._task.result()
            raise ConnectionError("a node of the cluster has stopped telling what changes")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RedisError, OSError):
                await self._task
        with contextlib.suppress(RedisError, OSError):
            await self._connection.disconnect(nowait=True)

    async def _asked(self, *words: Any) -> Any:
        await self._connection.send_command(*words, check_health=False)
        return await self._connection.read_response()

    async def _listen(self) -> None:
        while True:
            message = await self._connection.read_response()
            for key in [None] if message[2] is None else message[2]:
                self._told(key)


class ClusterReader(ClusterRedis):
    """Of one task alone, as any client that blocks."""

    def __init__(self, slots: Slots) -> None:
        super().__init__(slots)
        self._listeners: dict[Address, Listener] = {}
        #: stream -> the id after which there was nothing, and nothing has been heard since
        self._quiet: dict[bytes, Any] = {}
        self._news = asyncio.Event()
        self._swept = 0.0

    async def xread(  # type: ignore[override] # the library's has more options
        self, streams: Mapping[Any, Any], count: int | None = None, block: int | None = None
    ) -> Any:
        """As of one server. Raises what asking any of the nodes has come to."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (block or 0) / 1000
        while True:
            self._news.clear()
            await self._hear()
            self._sweep()
            asked = {key: at for key, at in streams.items() if self._quiet.get(encoded(key)) != at}
            if asked and (reply := await self._ask(asked, count)):
                return reply
            left = min(until, self._due) - loop.time()
            if until <= loop.time():
                return []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()

    @property
    def _due(self) -> float:
        deaf = any(each.deaf for each in self._listeners.values())
        return self._swept + (DEAF_S if deaf else SWEEP_S)

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._due:
            self._swept = now
            self._quiet.clear()

    async def _hear(self) -> None:
        """Every master has a listener that lives."""
        await self.slots.learn()
        masters = self.slots.masters
        for address in [each for each in self._listeners if each not in masters]:
            await self._listeners.pop(address).close()
        for each in self._listeners.values():
            each.check()
        for address in masters:
            if address not in self._listeners:
                listener = Listener(self.slots.client(address), self._heard)
                try:
                    await listener.start()
                except BaseException:
                    await listener.close()
                    raise
                self._listeners[address] = listener
                self._quiet.clear()  # of what came before nobody has told us

    def _heard(self, key: bytes | None) -> None:
        if key is None:
            self._quiet.clear()
        elif self._quiet.pop(key, None) is None:
            return  # no stream, or one that is asked for anyway
        self._news.set()

    async def _ask(self, asked: Mapping[Any, Any], count: int | None) -> list[Any]:
        # Noted before, not after: news that come while we ask must not be lost.
        self._quiet |= {encoded(key): at for key, at in asked.items()}
        replies = []
        try:
            async with self.pipeline(transaction=False) as piped:
                for key, at in asked.items():
                    piped.xread({key: at}, count=count)
                for (key, _), reply in zip(asked.items(), await piped.execute(), strict=True):
                    if reply:
                        replies += reply
                        self._quiet.pop(encoded(key), None)
        except BaseException:
            self._quiet.clear()
            raise
        return replies

    async def close_all(self) -> None:
        self._quiet.clear()
        for address in list(self._listeners):
            await self._listeners.pop(address).close()
        await super().close_all()
