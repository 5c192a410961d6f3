"""A client of a cluster sends each command once, to the node that serves its key.

Below: the client, its pipelines, and XREAD over the streams of many hosts (ClusterReader).

The library's own client (redis.asyncio.cluster) is not used, for what tests/unit/shared/
test_library_clients.py holds against it: it runs each command of a transaction in a thread with an
event loop of its own, breaks on a redirection to a node it does not know, goes on at another master
without a word that the one before may have lost the latest, asks each node COMMAND, which no
machine's user may, refuses reads of several slots, and raises errors that are no RedisError.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import redis.asyncio
from redis.asyncio.client import Pipeline
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    ExecAbortError,
    MovedError,
    NoPermissionError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from adsum_shared import streams
from adsum_shared.redis_errors import UnsettledError, WayError, explained
from adsum_shared.redis_url import Address, RedisUrl, written

log = logging.getLogger(__name__)

Open = Callable[[str], redis.asyncio.Redis]

#: Of which the second word belongs to the name, or is no key.
_SPOKEN = {"XINFO", "OBJECT", "MEMORY", "XGROUP"}
#: Any node will do, so it is the same one each time: its clock, for one, is to go on.
_KEYLESS = {
    *("ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE", "ECHO", "INFO"),
    *("LASTSAVE", "PING", "ROLE", "SCAN", "SCRIPT", "TIME"),
}
#: At each master: what is said there holds there alone.
_EVERYWHERE = ("FLUSHALL", "SCRIPT LOAD")
_LOST = (RedisConnectionError, RedisTimeoutError, OSError)
_UNSETTLED = (ClusterDownError, TryAgainError, AskError, ExecAbortError)


def key_of(words: Sequence[Any]) -> bytes | None:
    """The first key of a command; all others are of the same slot, or Redis refuses it."""
    name, _, second = str(words[0]).upper().partition(" ")
    if name in _KEYLESS:
        return None
    if name in ("EVAL", "EVALSHA"):
        return encoded(words[3]) if int(words[2]) else None
    if name == "XREAD":
        return encoded(words[[encoded(word).upper() for word in words].index(b"STREAMS") + 1])
    return encoded(words[2 if name in _SPOKEN and not second else 1])


def encoded(word: Any) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


class _Pool(redis.asyncio.ConnectionPool):
    """Stands where a client has its pool; the connections are those of the nodes' clients."""

    def __init__(self, cluster: ClusterRedis) -> None:
        super().__init__()
        self._cluster = cluster

    async def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002 - the library's
        """Every connection, or those that nobody uses just now. What is asked next connects anew."""
        await self._cluster.disconnect(inuse_connections=inuse_connections)


class ClusterRedis(redis.asyncio.Redis):
    """open_one: makes a client of one node, by URL.

    steady: keeps to one connection to each node, and goes on at no other master unless it is opened
    anew: what was sent may be lost there.
    """

    def __init__(self, url: RedisUrl, open_one: Open, *, steady: bool = False) -> None:
        super().__init__(connection_pool=_Pool(self))
        self._url, self._open_one, self._steady = url, open_one, steady
        self._clients: dict[Address, tuple[Any, Any]] = {}  # its pool's, and the one that is used
        self._of: list[Address | None] = []  # by slot, who serves it
        self._replicas: list[Address] = []
        self._order = list(url.nodes)  # whom to ask for that, one after the other
        self._learning = asyncio.Lock()
        self._stale = True

    def client(self) -> ClusterRedis:
        return ClusterRedis(self._url, self._open_one, steady=True)

    @property
    def masters(self) -> list[Address]:
        """In the order of their slots."""
        return list(dict.fromkeys(each for each in self._of if each is not None))

    def at(self, address: Address) -> Any:
        """The client of one node."""
        if address not in self._clients:
            pooled = self._open_one(self._url.of(address))
            self._clients[address] = pooled, pooled.client() if self._steady else pooled
        return self._clients[address][1]

    async def disconnect(self, *, inuse_connections: bool = True) -> None:
        self._stale = True
        for address, (pooled, _) in list(self._clients.items()):
            if inuse_connections:
                await self._close(address)
            else:
                with contextlib.suppress(RedisError, OSError):
                    await pooled.connection_pool.disconnect(inuse_connections=False)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001 - the library's
        del close_connection_pool
        await self.disconnect()

    async def _close(self, address: Address) -> None:
        for client in reversed(self._clients.pop(address)):
            with contextlib.suppress(RedisError, OSError):
                await client.aclose()

    async def learn(self, first: Address | None = None) -> None:
        """Who serves what, if that is in doubt. first: it is, and who is asked first. Raises WayError."""
        if first is not None:
            self._stale = True
            self._order = [first, *(each for each in self._order if each != first)]
        async with self._learning:
            if self._stale:
                await self._ask_nodes()

    async def _ask_nodes(self) -> None:
        failures = []
        for address in list(self._order):
            try:
                reply = await self.at(address).execute_command("CLUSTER", "SLOTS")
            except AuthenticationError:
                raise
            except ResponseError as error:
                raise WayError(_no_node(address, error)) from error
            except (RedisError, OSError) as error:
                failures.append(f"{written(address)}: {explained(error) or error}")
                continue
            self._of, self._replicas = _laid_out(reply, address)
            self._stale = False
            nodes = (address, *self.masters, *self._replicas, *self._url.nodes)
            self._order = list(dict.fromkeys(nodes))
            for gone in set(self._clients) - set(nodes):
                await self._close(gone)
            return
        raise WayError(
            f"no node of the cluster answers ({'; '.join(failures)}). Start them, or correct "
            "ADSUM_REDIS_URL."
        )

    async def serving(self, key: bytes | None) -> Address:
        """Raises WayError, and what the client raises."""
        await self.learn()
        slot = 0 if key is None else key_slot(key)
        found = self._of[slot] if key is not None else next(iter(self.masters), None)
        if found is None:
            self._stale = True
            raise UnsettledError(
                f"nobody in the cluster serves slot {slot}. Start the missing nodes, or give out "
                f"their slots: redis-cli --cluster check {written(self._order[0])}."
            )
        return found

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        if str(words[0]).upper() in _EVERYWHERE:
            await self.learn()
            answers = [
                await self.at(each).execute_command(*words, **options) for each in self.masters
            ]
            return answers[0]

        async def send(client: Any) -> Any:
            try:
                return await client.execute_command(*words, **options)
            except MovedError:
                raise
            except AskError as error:
                # Its keys are there in full, so nothing can be missing.
                async with self.at(_named(error, address)).pipeline(transaction=False) as piped:
                    piped.execute_command("ASKING")
                    piped.execute_command(*words)
                    _, reply = await piped.execute()
                return reply

        address = await self.serving(key_of(words))
        return await self.settled(address, send)

    async def settled(self, address: Address, send: Callable[[Any], Awaitable[Any]]) -> Any:
        """What was moved was not done here, so it may be sent once more; nothing else is.

        Raises what the client raises, and UnsettledError.
        """
        moved = False
        while True:
            try:
                return await send(self.at(address))
            except _LOST:
                self._stale = True
                if address in self._order:  # it is asked last
                    self._order.append(self._order.pop(self._order.index(address)))
                raise
            except _UNSETTLED as error:
                if moved or not isinstance(error, MovedError):
                    self._stale = True
                    raise unsettled(error) from error
                address, moved = await self._moved(error, address), True

    async def _moved(self, error: MovedError, by: Address) -> Address:
        """Where it is now. Raises WayError."""
        target = _named(error, by)
        if self._steady:
            self._stale = True
            raise UnsettledError(
                f"slot {error.slot_id} has moved from {written(by)} to {written(target)}. "
                "We connect there anew."
            ) from error
        try:
            await self.learn(target)
            await self.at(target).ping()
        except _LOST as lost:
            raise WayError(
                f"the cluster sends us on to {written(target)} (MOVED), which is not reached from "
                f"here ({lost}). Have the nodes announce where they are reached: cluster-announce-ip, "
                "or cluster-announce-hostname."
            ) from lost
        return target

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:  # noqa: FBT001, FBT002 - the library's
        del shard_hint
        return ClusterPipeline(self, transaction=transaction)

    async def scan_iter(self, *args: Any, **options: Any) -> AsyncIterator[Any]:  # type: ignore[override] # the library's has all its options by name
        """Of all masters, one after the other."""
        await self.learn()
        for each in self.masters:
            async for key in self.at(each).scan_iter(*args, **options):
                yield key

    async def servers(self) -> list[tuple[redis.asyncio.Redis, bool]]:
        """Clients of all nodes, and whether each is a master."""
        self._stale = True  # a replica that was added since shows by no error
        await self.learn()
        masters = [(self.at(each), True) for each in self.masters]
        return masters + [(self.at(each), False) for each in self._replicas]


def _named(error: AskError, by: Address) -> Address:
    """A node that does not know the other's address names none."""
    return error.host or by[0], error.port


def _laid_out(reply: Any, asked: Address) -> tuple[list[Address | None], list[Address]]:
    """By slot, who serves it; and the replicas. Raises WayError: what answers may be no Redis."""

    def place(node: Any) -> Address:
        """A node that does not know its own address is where we have asked."""
        host = node[0].decode() if node[0] else ""
        return (asked[0] if host in ("", "?") else host), int(node[1])

    slots: list[Address | None] = [None] * 16_384
    replicas: dict[Address, None] = {}
    try:
        for first, last, master, *others in reply:
            slots[first : last + 1] = [place(master)] * (last + 1 - first)
            replicas |= dict.fromkeys(map(place, others))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise WayError(_no_node(asked, error)) from error
    return slots, list(replicas)


def _no_node(address: Address, error: Exception) -> str:
    at = written(address)
    if isinstance(error, NoPermissionError):
        return f"{at} forbids this user CLUSTER SLOTS. Give it +cluster|slots, on each node."
    if "cluster support disabled" in str(error):
        return (
            f"{at} is no node of a cluster. Take the cluster out of the URL's beginning: redis:// or "
            "rediss://."
        )
    return f"{at} does not tell its cluster's nodes ({error}). Look whether that is a Redis."


def unsettled(error: Exception) -> UnsettledError:
    if isinstance(error, TryAgainError):
        return UnsettledError("the cluster is moving these keys from one node to another. Wait.")
    if isinstance(error, ClusterDownError):
        return UnsettledError(
            f"the cluster is down ({error}): a node is missing and none has taken over. Start it, or "
            "wait until its replica does; redis-cli --cluster check tells more."
        )
    if isinstance(error, ExecAbortError):
        return UnsettledError("the cluster did not take a transaction. Wait.")
    return UnsettledError("the cluster gives out its slots anew just now. Wait.")


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
            groups[await self._cluster.serving(key_of(words))].append(position)
        replies: list[Any] = [None] * len(stack)

        async def run(address: Address, positions: list[int]) -> None:
            commands = [stack[position] for position in positions]
            for position, reply in zip(positions, await self._send(address, commands), strict=True):
                replies[position] = reply

        # One that fails must not leave the others behind, at work on connections nobody waits for.
        ends = await asyncio.gather(
            *(run(*each) for each in groups.items()), return_exceptions=True
        )
        for failed in (*ends, *(replies if raise_on_error else ())):
            if isinstance(failed, BaseException):
                raise failed
        return replies

    async def _send(self, address: Address, commands: list[Any]) -> list[Any]:
        async def send(client: Any) -> list[Any]:
            async with client.pipeline(transaction=self.is_transaction) as piped:
                for words, options in commands:
                    piped.execute_command(*words, **options)
                replies: list[Any] = await piped.execute(raise_on_error=False)
            for reply in replies:
                if isinstance(reply, (ClusterDownError, TryAgainError)):
                    raise reply
            return replies

        # Of a transaction that was moved nothing was done; of others each command is by itself.
        replies: list[Any] = await self._cluster.settled(address, send)
        for position, reply in enumerate(replies):
            if isinstance(reply, AskError):
                words, options = commands[position]
                try:
                    replies[position] = await self._cluster.execute_command(*words, **options)
                except ResponseError as error:
                    replies[position] = error
        return replies


CHANNEL = "__redis__:invalidate"
#: All are asked so often, whatever we have heard: news are a hint.
SWEEP_S = 5.0
#: And so often where a node does not tell us.
DEAF_S = 0.1


class ClusterReader(ClusterRedis):
    """XREAD over many hosts' streams: waits for news of them, and asks for those alone.

    Of one task alone, as any client that blocks. A cluster refuses one XREAD over several slots, on
    one node too, and so each host would take a connection that blocks. Redis tells instead which keys
    have changed (CLIENT TRACKING, for all keys of hosts): one connection per master. Rejected: to ask
    for all streams every few milliseconds, which costs hub and nodes the more, the more machines rest.
    """

    def __init__(self, url: RedisUrl, open_one: Open) -> None:
        super().__init__(url, open_one)
        #: a connection to each master, and who listens there; nobody where it does not tell us
        self._listening: dict[Address, tuple[Any, asyncio.Task[None] | None]] = {}
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
            deaf = any(task is None for _, task in self._listening.values())
            interval, now = DEAF_S if deaf else SWEEP_S, loop.time()
            if now >= self._swept + interval:
                self._swept = now
                self._quiet.clear()
            asked = {key: at for key, at in streams.items() if self._quiet.get(encoded(key)) != at}
            if asked and (reply := await self._ask(asked, count)):
                return reply
            if until <= (now := loop.time()):
                return []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(until, self._swept + interval) - now):
                    await self._news.wait()

    async def _hear(self) -> None:
        """Of every master, or raises what has ended that."""
        await self.learn()
        masters = self.masters
        for address in [each for each in self._listening if each not in masters]:
            await self._turn_away(address)
        for _, task in self._listening.values():
            if task is not None and task.done():
                task.result()
        for address in masters:
            if address not in self._listening:
                connection: Any = self.at(address).connection_pool.make_connection()
                # Nothing may come for hours. A peer that is dead shows itself where the sweep asks it.
                connection.socket_timeout = None
                self._listening[address] = connection, None
                try:
                    self._listening[address] = connection, await self._listen_to(connection)
                except BaseException:
                    await self._turn_away(address)
                    raise
                self._quiet.clear()  # of what came before nobody has told us

    async def _listen_to(self, connection: Any) -> asyncio.Task[None] | None:
        """What changes from now on is told. None: it is not."""

        async def ask(*words: Any) -> Any:
            await connection.send_command(*words, check_health=False)
            return await connection.read_response()

        await connection.connect()
        try:
            tracking = ("CLIENT", "TRACKING", "ON", "REDIRECT", await ask("CLIENT", "ID"))
            await ask(*tracking, "BCAST", "PREFIX", streams.OF_HOSTS)
            await ask("SUBSCRIBE", CHANNEL)
        except ResponseError as error:
            log.warning(
                "a node of the cluster does not tell what changes (%s): it is asked %d times a second. "
                "Give the hub's user +client|tracking +client|id +subscribe &%s.",
                error,
                round(1 / DEAF_S),
                CHANNEL,
            )
            return None
        return asyncio.create_task(self._listen(connection), name="news")

    async def _listen(self, connection: Any) -> None:
        while True:
            _, _, keys = await connection.read_response()
            if keys is None:  # perhaps all of them
                self._quiet.clear()
            # Others are no streams, or asked for anyway.
            elif not [key for key in keys if self._quiet.pop(key, None) is not None]:
                continue
            self._news.set()

    async def _turn_away(self, address: Address) -> None:
        connection, task = self._listening.pop(address, (None, None))
        if connection is None:
            return  # whoever closed us meanwhile has done it
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with contextlib.suppress(RedisError, OSError):
            await connection.disconnect(nowait=True)

    async def _ask(self, asked: Mapping[Any, Any], count: int | None) -> list[Any]:
        # Noted before, not after: news that come while we ask must not be lost.
        self._quiet |= {encoded(key): at for key, at in asked.items()}
        replies = []
        try:
            async with self.pipeline(transaction=False) as piped:
                for key, at in asked.items():
                    piped.xread({key: at}, count=count)
                for key, reply in zip(asked, await piped.execute(), strict=True):
                    if reply:
                        replies += reply
                        self._quiet.pop(encoded(key), None)
        except BaseException:
            self._quiet.clear()
            raise
        return replies

    async def disconnect(self, *, inuse_connections: bool = True) -> None:
        self._quiet.clear()
        for address in list(self._listening):
            await self._turn_away(address)
        await super().disconnect(inuse_connections=inuse_connections)
