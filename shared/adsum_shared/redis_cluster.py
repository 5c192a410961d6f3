"""A client of a cluster: each command goes to the node that serves its key, once.

The library has one (redis.asyncio.cluster). It is not used here, for what it does by itself: it
sends a command again whose answer was lost, goes on at another master without a word that the one
before may have lost the latest, asks each node COMMAND, which no machine's user may, refuses reads
of several slots, and raises errors that are no RedisError. What we need of it is below.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import redis.asyncio
from redis.asyncio.client import Pipeline
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ExecAbortError,
    MovedError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from adsum_shared.redis_errors import UnsettledError, WayError
from adsum_shared.redis_slots import Slots, key_of
from adsum_shared.redis_url import Address, written

#: At each master: what is said there holds there alone.
_EVERYWHERE = ("FLUSHALL", "SCRIPT LOAD")
_LOST = (RedisConnectionError, RedisTimeoutError, OSError)


class _Pool(redis.asyncio.ConnectionPool):
    """Stands where a client has its pool; the connections are those of the nodes' clients."""

    def __init__(
        self, close: Callable[[], Awaitable[None]], hang_up: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__()
        self._close = close
        self._hang_up = hang_up

    async def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002 - the library's
        await (self._close() if inuse_connections else self._hang_up())


class ClusterRedis(redis.asyncio.Redis):
    """steady: goes on at no other master unless it is opened anew: what was sent may be lost there."""

    def __init__(self, slots: Slots, *, steady: bool = False) -> None:
        super().__init__(connection_pool=_Pool(self.close_all, slots.hang_up))
        self.slots = slots
        self._steady = steady

    def client(self) -> ClusterRedis:
        """One connection to each node, and none is mended without a word."""
        slots = Slots(self.slots.url, self.slots.open_one, single=True)
        return ClusterRedis(slots, steady=True)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001 - the library's
        del close_connection_pool
        await self.close_all()

    async def close_all(self) -> None:
        """Every connection. What is asked next connects anew."""
        await self.slots.close()

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        if str(words[0]).upper() in _EVERYWHERE:
            await self.slots.learn()
            told = [await each.execute_command(*words, **options) for each in self.slots]
            return told[0]

        async def send(client: Any) -> Any:
            return await client.execute_command(*words, **options)

        return await self._settled(words, send)

    async def _settled(self, words: Sequence[Any], send: Callable[[Any], Awaitable[Any]]) -> Any:
        """What was moved was not done there, so it may be sent once more; nothing else is."""
        address = await self.slots.serving(key_of(words))
        try:
            return await self.at(address, send)
        except MovedError as error:
            target = await self.moved(error, address)
        except AskError as error:
            # Its keys are there in full, so nothing can be missing.
            target = _named(error, address)
            return await self.at(target, lambda client: _asking(client, words))
        try:
            return await self.at(target, send)
        except (MovedError, AskError) as error:
            self.slots.doubt()
            raise UnsettledError("the cluster gives out its slots anew just now. Wait.") from error

    async def moved(self, error: MovedError, by: Address) -> Address:
        """Where it is now. Raises WayError."""
        target = _named(error, by)
        if self._steady:
            self.slots.doubt()
            raise UnsettledError(
                f"slot {error.slot_id} has moved from {written(by)} to {written(target)}. "
                "We connect there anew."
            ) from error
        try:
            await self.slots.learn(target)
            await self.slots.client(target).ping()
        except _LOST as lost:
            raise WayError(
                f"the cluster sends us on to {written(target)} (MOVED), which is not reached from "
                f"here ({lost}). Have the nodes announce where they are reached: cluster-announce-ip, "
                "or cluster-announce-hostname."
            ) from lost
        return target

    async def at(self, address: Address, send: Callable[[Any], Awaitable[Any]]) -> Any:
        """At this node and no other. Raises what the client raises, and UnsettledError."""
        try:
            return await send(self.slots.client(address))
        except _LOST:
            self.slots.doubt(address)
            raise
        except (ClusterDownError, TryAgainError) as error:
            self.slots.doubt()
            raise unsettled(error) from error

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:  # noqa: FBT001, FBT002 - the library's
        del shard_hint
        return ClusterPipeline(self, transaction=transaction)

    async def scan_iter(self, *args: Any, **options: Any) -> AsyncIterator[Any]:  # type: ignore[override] # the library's has all its options by name
        """Of all masters, one after the other."""
        await self.slots.learn()
        for each in self.slots:
            async for key in each.scan_iter(*args, **options):
                yield key

    @contextlib.asynccontextmanager
    async def servers(self) -> AsyncIterator[list[tuple[redis.asyncio.Redis, bool]]]:
        """Clients of all nodes, and whether each is a master."""
        self.slots.doubt()  # a replica that was added since shows by no error
        await self.slots.learn()
        replicas = [self.slots.client(each) for each in self.slots.replicas]
        yield [(each, True) for each in self.slots] + [(each, False) for each in replicas]


class ClusterPipeline(Pipeline):
    """To several nodes at the same time; in order only what one of them serves.

    A transaction is of one node's keys: Redis itself refuses those of several slots.
    """

    def __init__(self, cluster: ClusterRedis, *, transaction: bool) -> None:
        super().__init__(cluster.connection_pool, {}, transaction, None)
        self._cluster = cluster

    async def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002 - the library's
        stack, self.command_stack = self.command_stack, []
        groups: dict[Address, list[int]] = defaultdict(list)
        for position, (words, _) in enumerate(stack):
            groups[await self._cluster.slots.serving(key_of(words))].append(position)
        replies: list[Any] = [None] * len(stack)

        async def run(address: Address, positions: list[int]) -> None:
            commands = [stack[position] for position in positions]
            for position, reply in zip(positions, await self._run(address, commands), strict=True):
                replies[position] = reply

        # One that fails must not leave the others behind, at work on connections nobody waits for.
        ends = await asyncio.gather(
            *(run(*each) for each in groups.items()), return_exceptions=True
        )
        for failed in (each for each in ends if isinstance(each, BaseException)):
            raise failed
        for reply in replies if raise_on_error else ():
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def _run(self, address: Address, commands: list[Any]) -> list[Any]:
        cluster = self._cluster
        try:
            return await self._send(address, commands)
        except MovedError as error:  # of a transaction, of which nothing was done
            target = await cluster.moved(error, address)
        except ExecAbortError as error:
            raise UnsettledError("the cluster did not take a transaction. Wait.") from error
        return await self._send(target, commands)

    async def _send(self, address: Address, commands: list[Any]) -> list[Any]:
        cluster, transaction = self._cluster, self.is_transaction

        async def send(client: Any) -> list[Any]:
            async with client.pipeline(transaction=transaction) as piped:
                for words, options in commands:
                    piped.execute_command(*words, **options)
                replies: list[Any] = await piped.execute(raise_on_error=False)
            return replies

        replies: list[Any] = await cluster.at(address, send)
        for position, reply in enumerate(replies):
            if isinstance(reply, (ClusterDownError, TryAgainError)):
                cluster.slots.doubt()
                raise unsettled(reply)
            if isinstance(reply, AskError):  # as MovedError is
                if transaction:
                    raise reply
                words, options = commands[position]
                try:
                    replies[position] = await cluster.execute_command(*words, **options)
                except ResponseError as error:
                    replies[position] = error
        return replies


async def _asking(client: Any, words: Sequence[Any]) -> Any:
    async with client.pipeline(transaction=False) as piped:
        piped.execute_command("ASKING")
        piped.execute_command(*words)
        _, reply = await piped.execute()
    return reply


def _named(error: AskError, by: Address) -> Address:
    """A node that does not know the other's address names none."""
    return error.host or by[0], error.port


def unsettled(error: RedisError) -> UnsettledError:
    if isinstance(error, TryAgainError):
        return UnsettledError("the cluster is moving these keys from one node to another. Wait.")
    return UnsettledError(
        f"the cluster is down ({error}): a node is missing and none has taken over. Start it, or wait "
        "until its replica does; redis-cli --cluster check tells more."
    )
