"""A client of the master that Sentinels name: they are asked for it whenever a connection is opened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import redis.asyncio
from redis.asyncio.connection import AbstractConnection, SSLConnection, parse_url
from redis.asyncio.sentinel import (
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from adsum_shared.redis_connections import WaitingPool, honest
from adsum_shared.redis_errors import UnsettledError, WayError, told_of
from adsum_shared.redis_url import Address, RedisUrl, written

Open = Callable[[str], redis.asyncio.Redis]
#: One Sentinel that hangs must not use up the time in which the others answer.
ASK_S = 2.0


class Sentinels:
    """Ours in place of the library's.

    That one asks for all that a Sentinel knows, and writes its clients into its errors (held by
    tests/unit/shared/test_library_clients.py).
    """

    def __init__(self, url: RedisUrl, open_one: Open) -> None:
        self.url = url
        self.open_one = open_one
        #: who answered last comes first
        self._order = list(url.nodes)

    async def discover_master(self, service_name: str) -> Address:
        """Raises WayError."""
        answer = await self._first("GET-MASTER-ADDR-BY-NAME", service_name)
        with _told_odd():
            host, port = answer
            return host.decode(), int(port)

    async def replicas(self) -> list[Address]:
        """Those that are up. Raises WayError."""
        answer, found = await self._first("REPLICAS", self.url.master), []
        with _told_odd():
            for flat in answer:
                told = dict(zip(flat[::2], flat[1::2], strict=False))
                if not {b"s_down", b"o_down", b"disconnected"} & set(told[b"flags"].split(b",")):
                    found.append((told[b"ip"].decode(), int(told[b"port"])))
        return found

    def doubt(self) -> None:
        """What the first one said does not hold: a Sentinel that is cut off knows old things."""
        self._order.append(self._order.pop(0))

    async def _first(self, *words: str) -> Any:
        """The first answer of one that knows the master."""
        failures: list[str] = []
        strangers: list[str] = []
        for address in list(self._order):
            try:
                async with asyncio.timeout(ASK_S):
                    answer = await self._ask(address, *words)
            except TimeoutError:
                failures.append(f"{written(address)}: no answer")
            except AuthenticationError:
                failures.append(
                    f"{written(address)} refuses the login: put sentinel_username and "
                    "sentinel_password into the URL's query"
                )
            except (RedisError, OSError) as error:
                if "No such master" in str(error):
                    strangers.append(written(address))
                else:
                    failures.append(f"{written(address)}: {told_of(error) or error}")
            else:
                if answer is not None:
                    self._order.remove(address)
                    self._order.insert(0, address)
                    return answer
                strangers.append(written(address))
        raise WayError(_nobody(self.url.master, strangers, failures))

    async def _ask(self, address: Address, *words: str) -> Any:
        client: Any = self.open_one(self.url.of_sentinel(address))
        try:
            return await client.execute_command("SENTINEL", *words)
        finally:
            await client.aclose()


@contextlib.contextmanager
def _told_odd() -> Iterator[None]:
    """Raises WayError: what answers may be no Sentinel."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise WayError(
            f"what answers makes no sense of a Sentinel ({type(error).__name__}: {error}). "
            "Look whether the addresses in ADSUM_REDIS_URL are Sentinels'."
        ) from error


def _nobody(master: str, strangers: list[str], failures: list[str]) -> str:
    if strangers:
        known_by = ", ".join(strangers)
        return (
            f"no Sentinel knows a master named {master} ({known_by} answered). "
            "Correct the name at the end of ADSUM_REDIS_URL, or have them monitor it."
        )
    return f"no Sentinel answers ({'; '.join(failures)}). Start them, or correct ADSUM_REDIS_URL."


class SentinelRedis(redis.asyncio.Redis):
    """Of the master. sentinels: set by `open_master`."""

    sentinels: Sentinels

    @contextlib.asynccontextmanager
    async def servers(self) -> AsyncIterator[list[tuple[redis.asyncio.Redis, bool]]]:
        """Clients of master and replicas, and whether it is the master."""
        async with contextlib.AsyncExitStack() as stack:
            found: list[tuple[redis.asyncio.Redis, bool]] = [(self, True)]
            for address in await self.sentinels.replicas():
                client = self.sentinels.open_one(self.sentinels.url.of(address))
                stack.push_async_callback(client.aclose)
                found.append((client, False))
            yield found


class _MasterPool(WaitingPool, SentinelConnectionPool):
    """Of the master's connections."""


def open_master(url: RedisUrl, open_one: Open, **options: Any) -> SentinelRedis:
    """options: as for one server."""
    asked: dict[str, Any] = dict(parse_url(url.of(("master", 1))))
    kind = asked.pop("connection_class", None)
    for name in ("host", "port"):
        asked.pop(name)
    tls = kind is not None and issubclass(kind, SSLConnection)
    managed = SentinelManagedSSLConnection if tls else SentinelManagedConnection
    sentinels = Sentinels(url, open_one)
    asked = {**options, **asked, "connection_class": _of_master(honest(managed))}
    pool = _MasterPool(url.master, sentinels, **asked)
    client = SentinelRedis(connection_pool=pool)
    client.auto_close_connection_pool = True
    client.sentinels = sentinels
    return client


def _of_master(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    class OfMaster(kind):  # type: ignore[misc,valid-type] # a base known at run time only
        async def connect_to(self, address: Address) -> None:
            """What a Sentinel calls the master may be one no more: what it is read of is over."""
            await super().connect_to(address)
            try:
                await self.send_command("ROLE", check_health=False)
                answer = await self.read_response()
            except (NoPermissionError, ResponseError):
                return  # a machine's user may not ask; what it writes a replica refuses
            role = answer[0] if isinstance(answer, list) and answer else None
            if role != b"master":
                await self.disconnect()
                self.connection_pool.sentinel_manager.doubt()
                raise _no_master(address, role)

    return OfMaster


def _no_master(address: Address, role: object) -> WayError:
    """role: as it calls itself."""
    named = f"{written(address)}, named as the master by a Sentinel,"
    if role == b"slave":
        return UnsettledError(
            f"{named} is a replica. A failover is under way: wait; if it lasts, look at the "
            "Sentinels' logs."
        )
    step = "Look at what address the Sentinels monitor, and what listens there."
    if role == b"sentinel":
        return WayError(f"{named} is a Sentinel itself. {step}")
    return WayError(f"{named} does not answer as a Redis does. {step}")
