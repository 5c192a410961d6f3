"""Ingest's connections to Redis: bounded in number, and none that broke is used again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from redis.exceptions import NoPermissionError

from adsum_shared.connect import UNAVAILABLE, Redis

#: Each for one request at a time.
LINES = 8


class Line(NamedTuple):
    """server: names the run of the Redis it leads to; empty where that may not be asked."""

    client: Any
    server: str


class Lines:
    """One that fails is thrown away, and the idle ones with it: they lead to the same Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._idle: list[Line] = []
        self._room = asyncio.Semaphore(LINES)

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[Line]:
        """Raises what is in UNAVAILABLE."""
        async with self._room:
            line = self._idle.pop() if self._idle else await self._open()
            try:
                yield line
            except BaseException as error:
                await _close(line)
                if isinstance(error, UNAVAILABLE):
                    await self.close()
                raise
            self._idle.append(line)

    async def _open(self) -> Line:
        line = Line(self._redis.client(), "")
        try:
            await line.client.initialize()
            if line.client.connection is None:
                return line  # of a cluster: not one server, but several
            info = await line.client.info("server")
        except NoPermissionError:
            return line
        except BaseException:
            await _close(line)
            raise
        return line._replace(server=str(info.get("run_id", "")))

    async def close(self) -> None:
        while self._idle:
            await _close(self._idle.pop())


async def _close(line: Line) -> None:
    connection = line.client.connection
    with contextlib.suppress(*UNAVAILABLE):
        if connection is not None:
            # The client would only give it back, and the pool hand it out again.
            await connection.disconnect(nowait=True)
        await line.client.aclose()
