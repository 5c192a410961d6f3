"""How a machine's signals get to hubs: what the collector needs of a way, and the way by Redis."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Literal, Protocol

from redis.exceptions import NoPermissionError

from adsum_shared.connect import UNAVAILABLE, address_of, open_redis, require_recent
from adsum_shared.host_keys import KeysReply, KeysRequest, OddReplyError, carry_out, makes_no_sense


class Line(Protocol):
    """One connection, one request at a time. What it raises ends it."""

    async def greet(self) -> None:
        """Raises BrokerTooOldError, and as `ask`."""
        ...

    async def ask(self, host_id: str, asked: KeysRequest) -> KeysReply:
        """Raises OddReplyError, HubError, and what is in `connect.UNAVAILABLE`."""
        ...


class Transport(Protocol):
    """place: what it leads to, for people, such as `Redis at redis://127.0.0.1:6379`."""

    @property
    def via(self) -> Literal["hub"] | None: ...

    @property
    def place(self) -> str: ...

    def open(self) -> contextlib.AbstractAsyncContextManager[Line]: ...


class RedisLine:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._enlist = True

    async def greet(self) -> None:
        try:
            require_recent(await self._client.info("server"))
        except NoPermissionError:
            pass  # a locked-down user need not see it
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise OddReplyError(makes_no_sense("its version", error)) from error

    async def ask(self, host_id: str, asked: KeysRequest) -> KeysReply:
        told = await carry_out(self._client, host_id, asked, enlist=self._enlist)
        # Not every two seconds what is refused each time: Redis notes that.
        self._enlist = told.listed
        return told


class RedisTransport:
    via = None

    def __init__(self, url: str) -> None:
        self._url = url
        self.place = f"Redis at {address_of(url)}"

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Line]:
        pool = open_redis(self._url)
        # The pool would mend a broken connection without a word, and the broker behind the new one
        # may have lost what we sent: this client keeps to one connection and fails with it.
        client = pool.client()
        try:
            yield RedisLine(client)
        finally:
            for each in (client, pool):
                with contextlib.suppress(*UNAVAILABLE):
                    await each.aclose()
