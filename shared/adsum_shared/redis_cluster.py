"""A client of a cluster sends each command once, to the node that serves its key.

Below: which node serves which slot, as the cluster said last (Slots); the client (ClusterRedis) and
its pipelines; and XREAD over the streams of many hosts (ClusterReader).

The library's own client (redis.asyncio.cluster) is not used, for what tests/unit/shared/
test_library_clients.py holds against it: it goes on at another master without a word that the one
before may have lost the latest, asks each node COMMAND, which no machine's user may, refuses reads
of several slots before it asks, and raises errors that are no RedisError.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
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
#: By slot, who serves it; and the replicas.
_Layout = tuple[list[Address | None], list[Address]]

#: Of which the second word belongs to the name, or is no key.
_SPOKEN = frozenset({"XINFO", "OBJECT", "MEMORY", "XGROUP"})
#: Any node will do, so it is the same one each time: its clock, for one, is to go on.
_KEYLESS = frozenset(
    {"ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE", "ECHO", "INFO", "LASTSAVE", "PING"}
    | {"ROLE", "SCAN", "SCRIPT", "TIME"}
)


def key_of(words: Sequence[Any]) -> bytes | None:
    """The first key of a command; all others are of the same slot, or Redis refuses it."""
    name, _, second = str(words[0]).upper().partition(" ")
    if name in _KEYLESS or name in ("FLUSHALL", "FLUSHDB"):
        return None
    if name in ("EVAL", "EVALSHA"):
        return encoded(words[3]) if int(words[2]) else None
    if name == "XREAD":
        return encoded(words[[encoded(word).upper() for word in words].index(b"STREAMS") + 1])
    return encoded(words[2 if name in _SPOKEN and not second else 1])


def encoded(word: Any) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


class Slots:
    """open_one: makes a client of one node, by URL. single: each keeps to one connection."""

    def __init__(self, url: RedisUrl, open_one: Open, *, single: bool = False) -> None:
        self.url = url
        self.open_one = open_one
        self._single = single
        self._clients: dict[Address, tuple[redis.asyncio.Redis, redis.asyncio.Redis]] = {}
        self._of: list[Address | None] = []
        self._order = list(url.nodes)
        self._replicas: list[Address] = []
        self._learning = asyncio.Lock()
        self._stale = True

    @property
    def masters(self) -> list[Address]:
        """In the order of their slots."""
        return list(dict.fromkeys(each for each in self._of if each is not None))

    @property
    def replicas(self) -> list[Address]:
        return self._replicas

    def client(self, address: Address) -> Any:
        if address not in self._clients:
            pooled = self.open_one(self.url.of(address))
            self._clients[address] = pooled, pooled.client() if self._single else pooled
        return self._clients[address][1]

    async def serving(self, key: bytes | None) -> Address:
        """Raises WayError, and what the client raises."""
        await self.learn()
        slot = 0 if key is None else key_slot(key)
        found = self._of[slot] if key is not None else next(filter(None, self._of), None)
        if found is None:
            self._stale = True
            raise UnsettledError(
                f"nobody in the cluster serves slot {slot}. Start the missing nodes, or give out "
                f"their slots: redis-cli --cluster check {written(self._order[0])}."
            )
        return found

    def doubt(self, address: Address | None = None) -> None:
        """What is known may be over; address: of one that failed, and is asked last."""
        self._stale = True
        if address in self._order:
            self._order.remove(address)
            self._order.append(address)

    async def learn(self, first: Address | None = None) -> None:
        """Anew, if it is in doubt. first: whom to ask first."""
        if first is not None:
            self._stale = True
            self._order = [first, *(each for each in self._order if each != first)]
        async with self._learning:
            if self._stale:
                await self._learn()

    async def _learn(self) -> None:
        failures = []
        for address in list(self._order):
            try:
                reply = await self.client(address).execute_command("CLUSTER", "SLOTS")
            except AuthenticationError:
                raise
            except ResponseError as error:
                raise WayError(_no_node(address, error)) from error
            except (RedisError, OSError) as error:
                failures.append(f"{written(address)}: {explained(error) or error}")
            else:
                await self._take(_laid_out(reply, address), address)
                return
        raise WayError(
            f"no node of the cluster answers ({'; '.join(failures)}). Start them, or correct "
            "ADSUM_REDIS_URL."
        )

    async def _take(self, found: _Layout, asked: Address) -> None:
        self._of, self._replicas = found
        self._stale = False
        known = [*self.masters, *self._replicas]
        self._order = list(dict.fromkeys((asked, *known, *self.url.nodes)))
        for address in set(self._clients) - set(self._order):
            await self._close(address)

    async def _close(self, address: Address) -> None:
        for client in self._clients.pop(address):
            with contextlib.suppress(RedisError, OSError):
                await client.aclose()

    async def close(self) -> None:
        """Every connection. What is asked next connects anew, and learns anew."""
        self._stale = True
        for address in list(self._clients):
            await self._close(address)

    async def hang_up(self) -> None:
        """Those that nobody uses just now: what others have on their way goes on."""
        self._stale = True
        for pooled, _ in list(self._clients.values()):
            with contextlib.suppress(RedisError, OSError):
                await pooled.connection_pool.disconnect(inuse_connections=False)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.client(address) for address in self.masters])


def _laid_out(reply: Any, asked: Address) -> _Layout:
    """Raises WayError: what answers may be no Redis."""
    slots: list[Address | None] = [None] * 16_384
    replicas: dict[Address, None] = {}
    try:
        for first, last, master, *others in reply:
            slots[first : last + 1] = [_place(master, asked)] * (last + 1 - first)
            replicas |= dict.fromkeys(_place(each, asked) for each in others)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise WayError(_no_node(asked, error)) from error
    return slots, list(replicas)


def _place(node: Any, asked: Address) -> Address:
    """A node that does not know its own address is where we have asked."""
    host = node[0].decode() if node[0] else ""
    return (asked[0] if host in ("", "?") else host), int(node[1])


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


#: At each master: what is said there holds there alone.
_EVERYWHERE = ("FLUSHALL", "SCRIPT LOAD")
_LOST = (RedisConnectionError, RedisTimeoutError, OSError)


class _Pool(redis.asyncio.ConnectionPool):
    """Stands where a client has its pool; the connections are those of the nodes' clients."""

    def __init__(self, cluster: ClusterRedis) -> None:
        super().__init__()
        self._cluster = cluster

    async def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002 - the library's
        """Every connection, or those that nobody uses just now. What is asked next connects anew."""
        cluster = self._cluster
        await (cluster.close_all() if inuse_connections else cluster.slots.hang_up())


class ClusterRedis(redis.asyncio.Redis):
    """steady: goes on at no other master unless it is opened anew: what was sent may be lost there."""

    def __init__(self, slots: Slots, *, steady: bool = False) -> None:
        super().__init__(connection_pool=_Pool(self))
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
            answers = [await each.execute_command(*words, **options) for each in self.slots]
            return answers[0]

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


CHANNEL = "__redis__:invalidate"
#: All are asked so often, whatever we have heard: news are a hint.
SWEEP_S = 5.0
#: And so often where a node does not tell us.
DEAF_S = 0.1


class Listener:
    """One node's news: which keys change, for the reader to look at."""

    def __init__(self, client: Any, reader: ClusterReader) -> None:
        self._connection: Any = client.connection_pool.make_connection()
        # Nothing may come for hours. A peer that is dead shows itself where the sweep asks it.
        self._connection.socket_timeout = None
        self._reader = reader
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
                self._reader.heard(key)


class ClusterReader(ClusterRedis):
    """XREAD over many hosts' streams: waits for news of them, and asks for those alone.

    Of one task alone, as any client that blocks. A cluster refuses one XREAD over several slots, on
    one node too, and so each host would take a connection that blocks. Redis tells instead which keys
    have changed (CLIENT TRACKING, for all keys of hosts): one connection per master. Rejected: to ask
    for all streams every few milliseconds, which costs hub and nodes the more, the more machines rest.
    """

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
                listener = Listener(self.slots.client(address), self)
                try:
                    await listener.start()
                except BaseException:
                    await listener.close()
                    raise
                self._listeners[address] = listener
                self._quiet.clear()  # of what came before nobody has told us

    def heard(self, key: bytes | None) -> None:
        """A key has changed; None: perhaps all of them."""
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
