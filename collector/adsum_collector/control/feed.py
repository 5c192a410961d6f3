"""Reads the commands for this machine out of its stream in Redis, and checks who gave them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from redis.exceptions import ResponseError

from adsum_collector.control.remote import RemoteControl
from adsum_shared import streams
from adsum_shared.commands import NotObeyedError, opened
from adsum_shared.connect import UNAVAILABLE, backoff, open_redis, wanted
from adsum_shared.redis_errors import cause_of

log = logging.getLogger(__name__)

#: Well within what a client waits for any answer.
BLOCK_S: Final = 2.0
MOST_AT_ONCE: Final = 16
#: Between two looks whether control is on.
LOOK_S: Final = 1.0


class CommandFeed:
    """url: of Redis. host_id: as it is at the moment. problem: why commands do not arrive."""

    def __init__(self, url: str, host_id: Callable[[], str], control: RemoteControl) -> None:
        self._url = url
        self._host_id = host_id
        self._control = control
        self.problem: str | None = None

    async def run(self) -> None:
        pauses = backoff()
        while wanted():
            if not self._control.is_on():
                self.problem = None
                await asyncio.sleep(LOOK_S)
                continue
            try:
                await self._follow()
            except (*UNAVAILABLE, ResponseError, LookupError, TypeError, ValueError) as error:
                if self.problem is None:
                    log.warning("commands cannot be read: %s", cause_of(error))
                    pauses = backoff()
                self.problem = str(error)
                await asyncio.sleep(next(pauses))

    async def _follow(self) -> None:
        """From the stream's end at this moment on: what was said before is never obeyed.

        On one connection, which the library would mend without a word: behind the new one there may
        be another Redis, whose end is elsewhere.
        """
        pool = open_redis(self._url)
        client: Any = pool.client()
        try:
            host_id = self._host_id()
            key = streams.commands(host_id)
            last = await _end(client, key)
            self.problem = None
            while wanted() and self._control.is_on() and self._host_id() == host_id:
                found = await client.xread(
                    {key: last}, count=MOST_AT_ONCE, block=int(BLOCK_S * 1000)
                )
                for _, entries in found or ():
                    for entry_id, fields in entries:
                        last = entry_id
                        await self._take(client, host_id, entry_id.decode(), fields)
        finally:
            for each in (client, pool):
                with contextlib.suppress(*UNAVAILABLE):
                    await each.aclose()

    async def _take(
        self, client: Any, host_id: str, entry_id: str, fields: Mapping[bytes, bytes]
    ) -> None:
        seconds, micros = await client.time()
        age_ms = seconds * 1000 + micros // 1000 - int(entry_id.partition("-")[0])
        try:
            command = opened(fields, host_id, self._control.consent.keys, age_ms)
        except NotObeyedError as error:
            self._control.refuse(str(error))
            return
        await self._control.obey(command)


async def _end(client: Any, key: str) -> str:
    """The id of the last entry that ever was in the stream; of none, its beginning."""
    try:
        info = await client.xinfo_stream(key)
    except ResponseError as error:
        if "no such key" in str(error):
            return "0-0"
        raise
    last: bytes = info["last-generated-id"]
    return last.decode()
