"""Clients of Redis: of one server, of the master that Sentinels name, or of a cluster.

First what every client shares: the classes of error that mean "later", back-off, versions. Then the
connections and their pools, and last the client of a master whose address Sentinels are asked for
whenever a connection is opened. That of a cluster is in `redis_cluster`.
"""

import asyncio
import contextlib
import functools
import random
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import redis.asyncio
from redis.asyncio.connection import AbstractConnection, ConnectionPool, SSLConnection, parse_url
from redis.asyncio.sentinel import (
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_shared.redis_cluster import ClusterReader, ClusterRedis
from adsum_shared.redis_errors import (
    BrokerTooOldError,
    ExhaustedError,
    UnsettledError,
    WayError,
    explained,
)
from adsum_shared.redis_url import Address, RedisUrl, RedisUrlError, kind_of, read_url, written
from adsum_shared.tls import Renewed, trusted_file

Redis = redis.asyncio.Redis
OpenOne = Callable[[str], Redis]
T = TypeVar("T")

#: Anything Redis can answer or fail with. LOADING, READONLY, OOM, MISCONF, BUSY, NOPERM and a
#: refused connection all mean the same to us: degraded, visible, tried again.
UNAVAILABLE = (RedisError, OSError)

#: Of one client, unless it asks for others.
CONNECTIONS = 8

#: Streams with explicit ids, ACL key patterns and XTRIM MINID came with 6.2.
OLDEST = (6, 2)


def check_url(url: str) -> None:
    """Raises RedisUrlError with the next step in its text."""
    try:
        if kind_of(url) != "one":
            _try(read_url(url).of(("host", 1)))
            return
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        # A / ? or # that stands bare in a password ends the host part there, and the rest of the
        # password, up to the @, would pass for a path.
        torn = place if parts.scheme == "unix" else "@" in parts.path + parts.query + parts.fragment
        if not torn:
            _try(url)
            return
    except (ValueError, TypeError):
        pass  # its words quote the URL
    raise RedisUrlError(
        "ADSUM_REDIS_URL (or --redis-url) is no Redis URL. It looks like redis://host:6379, "
        "rediss://user:password@host:6379, unix:///path, "
        "redis+sentinel://host:26379,host2:26379/mymaster or redis+cluster://host:6379,host2:6379. "
        "Signs like / ? # @ : % in a password are written as %2F %3F %23 %40 %3A %25."
    )


def db_of(url: str) -> int:
    """The number of the database that clients of this URL go to."""
    if kind_of(url) != "one":
        several = read_url(url)
        return int(several.db or dict(parse_qsl(several.query)).get("db", "0"))
    return int(redis.asyncio.connection.parse_url(url).get("db", 0))


def _try(url: str) -> None:
    """Makes what would connect, and does not: an option that nobody knows shows itself."""
    redis.asyncio.ConnectionPool.from_url(url).make_connection()  # type: ignore[no-untyped-call] # the library's


def open_redis(url: str, *, block_s: float = 0.0, connections: int = CONNECTIONS) -> Redis:
    """A client of one server, of the master that Sentinels name, or of a cluster.

    block_s: the longest a command of this client blocks. Give each blocking reader a client of its
    own. connections: the most it opens, to each server. Whoever asks while all are in use waits for
    one, and is answered ExhaustedError after `POOL_WAIT_S`.
    """
    if (kind := kind_of(url)) == "one":
        return _open_one(url, block_s=block_s, connections=connections)
    several = read_url(url)
    open_one = functools.partial(_open_one, connections=connections)
    if kind == "sentinel":
        return open_master(several, open_one, **_options(block_s, connections))
    # A reader waits beside its connections, none of which blocks.
    return (ClusterReader if block_s else ClusterRedis)(several, open_one)


def _open_one(url: str, *, block_s: float = 0.0, connections: int = CONNECTIONS) -> Redis:
    pool = WaitingPool.from_url(url, **_options(block_s, connections))
    pool.connection_class = honest(pool.connection_class)
    return redis.asyncio.Redis.from_pool(pool)


def _options(block_s: float, connections: int) -> dict[str, Any]:
    # The library would retry an XADD whose reply was lost and double the entry, so retry is None and
    # the loop that uses the client decides.
    return {
        "protocol": 2,
        "retry": None,
        "max_connections": 1 if block_s else connections,
        "socket_timeout": block_s + 5.0,
        "socket_connect_timeout": 3.0,
        "health_check_interval": 15,
        "decode_responses": False,
    }


@contextlib.asynccontextmanager
async def every_server(client: Redis) -> AsyncIterator[list[tuple[Redis, bool]]]:
    """All that hold, or would take over, what this client writes to; and whether each is a master.

    Users are no data: each server has its own.
    """
    if isinstance(client, ClusterRedis):
        yield await client.servers()
        return
    async with contextlib.AsyncExitStack() as stack:
        found = [(client, True)]
        if isinstance(pool := client.connection_pool, _MasterPool):
            sentinels: Sentinels = pool.sentinel_manager
            for address in await sentinels.replicas():
                replica = sentinels.open_one(sentinels.url.of(address))
                stack.push_async_callback(replica.aclose)
                found.append((replica, False))
        yield found


def wanted() -> bool:
    """False once the current task has been cancelled: the condition of every loop around Redis.

    The client waits with asyncio.wait_for, and in Python 3.11 that loses a cancellation which
    arrives just as the awaited future is done. A loop `while True` would then run on for ever, and
    the process with it.
    """
    task = asyncio.current_task()
    return task is None or not task.cancelling()


def backoff(first_s: float = 0.1, most_s: float = 2.0) -> Iterator[float]:
    """Seconds to wait before each further try: doubling, with full jitter.

    The most is what a host may stay late after the broker is back; the tries of 1,000 collectors
    are then 1,000 a second, which Redis does not notice.
    """
    limit = first_s
    while True:
        yield random.uniform(0.0, limit)  # noqa: S311 - jitter, not a secret
        limit = min(most_s, limit * 2)


def redis_version(info: dict[str, str]) -> tuple[int, int]:
    """(major, minor) of INFO server. Valkey answers with the Redis version it descends from."""
    major, minor = str(info.get("redis_version", "0.0")).split(".")[:2]
    return int(major), int(minor)


def require_recent(info: dict[str, str]) -> None:
    """Raises BrokerTooOldError with the next step in its text."""
    version = redis_version(info)
    if version < OLDEST:
        raise BrokerTooOldError(
            f"Redis {version[0]}.{version[1]} is too old: Adsum needs Redis 6.2 or Valkey 7.2, or newer. "
            "Upgrade it, or leave out the Redis URL to run the embedded broker."
        )


#: How long a request waits for one of its pool's connections. Commands take milliseconds.
POOL_WAIT_S = 5.0


class WaitingPool(ConnectionPool):
    """Whoever finds no connection left waits its turn for one, first come first served.

    The library's pool fails at once, by the error that a lost server gives. Its BlockingConnectionPool
    waits, and fails by that error as well; a cancelled release loses one of its connections.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._free = asyncio.Semaphore(self.max_connections)

    async def get_connection(
        self, command_name: Any = None, *keys: Any, **options: Any
    ) -> AbstractConnection:
        """Raises ExhaustedError, and what connecting raises."""
        del command_name, keys, options
        try:
            async with asyncio.timeout(POOL_WAIT_S):
                await self._free.acquire()
        except TimeoutError as error:
            raise ExhaustedError(
                f"all {self.max_connections} connections were in use for {POOL_WAIT_S:.0f} s"
            ) from error
        try:
            connection: AbstractConnection = self.get_available_connection()  # type: ignore[no-untyped-call] # the library's
        except BaseException:
            self._free.release()
            raise
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: AbstractConnection) -> None:
        try:
            await super().release(connection)
        finally:
            self._free.release()


def honest(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """A connection that tells of a lost peer by ConnectionError whenever it is noticed.

    uvloop answers a write to a transport that closed a moment ago with RuntimeError, which the
    library passes on, and which would end the process as an error of our own does.
    """

    class Honest(kind):  # type: ignore[misc,valid-type] # a base known at run time only
        async def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
            try:
                await super().send_packed_command(*args, **kwargs)
            except RuntimeError as error:
                await self.disconnect(nowait=True)
                raise RedisConnectionError("Connection lost.") from error

    return _pinned(Honest) if issubclass(kind, SSLConnection) else Honest


def _pinned(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """Where ssl_ca_certs is given, only that authority counts.

    The library adds it to all that the system trusts: whoever has any public certificate for the
    name would pass. And it reads the system's file anew for each connection, which takes 20 ms.
    """
    held: list[Renewed] = []

    class Pinned(kind):  # type: ignore[misc,valid-type] # a base known at run time only
        def _connection_arguments(self) -> Mapping[str, Any]:
            wanted = self.ssl_context
            if not held:
                files = (wanted.ca_certs or trusted_file(), wanted.certfile, wanted.keyfile)
                held.append(Renewed(files, lambda: _context(wanted), WayError))
            wanted.context = held[0].context()
            found: Mapping[str, Any] = super()._connection_arguments()
            return found

        async def _connect(self) -> None:
            try:
                await super()._connect()
            except TimeoutError as error:
                raise WayError(
                    "no connection with TLS came about in time. Look whether that port speaks TLS, and "
                    "whether something on the way holds it up."
                ) from error

    return Pinned


def _context(wanted: Any) -> ssl.SSLContext:
    """wanted: the library's own description. Raises WayError."""
    file = wanted.ca_certs or wanted.certfile or wanted.keyfile
    try:
        if wanted.ca_certs is None:
            wanted.context = None  # or it answers the one of before
            made: ssl.SSLContext = wanted.get()
            return made
        context = ssl.create_default_context(cafile=wanted.ca_certs)
        context.check_hostname = wanted.check_hostname
        context.verify_mode = wanted.cert_reqs
        file = wanted.certfile or wanted.keyfile
        if file:
            context.load_cert_chain(wanted.certfile, wanted.keyfile, wanted.password)
        if wanted.min_version is not None:
            context.minimum_version = wanted.min_version
        if wanted.ciphers is not None:
            context.set_ciphers(wanted.ciphers)
    except (OSError, ValueError) as error:  # an SSLError is an OSError, and names no file
        raise WayError(
            f"the file {file} cannot be read as certificates ({getattr(error, 'strerror', error)}). "
            "Correct ADSUM_REDIS_CA, or the file that the URL names; it must be PEM."
        ) from error
    return context


#: One Sentinel that hangs must not use up the time in which the others answer.
ASK_S = 2.0


class Sentinels:
    """Ours in place of the library's.

    That one asks for all that a Sentinel knows, and writes its clients into its errors (held by
    tests/unit/shared/test_library_clients.py).
    """

    def __init__(self, url: RedisUrl, open_one: OpenOne) -> None:
        self.url, self.open_one = url, open_one
        #: who answered last comes first
        self._order = list(url.nodes)

    async def discover_master(self, service_name: str) -> Address:
        """Raises WayError."""

        def address(answer: Any) -> Address:
            host, port = answer
            return host.decode(), int(port)

        return await self._first(address, "GET-MASTER-ADDR-BY-NAME", service_name)

    async def replicas(self) -> list[Address]:
        """Those that are up. Raises WayError."""

        def addresses(answer: Any) -> list[Address]:
            every = [dict(zip(flat[::2], flat[1::2], strict=False)) for flat in answer]
            return [
                (each[b"ip"].decode(), int(each[b"port"]))
                for each in every
                if not {b"s_down", b"o_down", b"disconnected"} & set(each[b"flags"].split(b","))
            ]

        return await self._first(addresses, "REPLICAS", self.url.master)

    def doubt(self) -> None:
        """What the first one said does not hold: a Sentinel that is cut off knows old things."""
        self._order.append(self._order.pop(0))

    async def _first(self, read: Callable[[Any], T], *words: str) -> T:
        """The first answer of one that knows the master."""
        failures: list[str] = []
        strangers: list[str] = []
        for address in list(self._order):
            name = written(address)
            client: Any = self.open_one(self.url.of_sentinel(address))
            try:
                async with asyncio.timeout(ASK_S), contextlib.aclosing(client):
                    answer = await client.execute_command("SENTINEL", *words)
            except TimeoutError:
                failures.append(f"{name}: no answer")
            except AuthenticationError:
                failures.append(
                    f"{name} refuses the login: put sentinel_username and sentinel_password into the "
                    "URL's query"
                )
            except (RedisError, OSError) as error:
                if "No such master" in str(error):
                    strangers.append(name)
                else:
                    failures.append(f"{name}: {explained(error) or error}")
            else:
                if answer is None:
                    strangers.append(name)
                    continue
                self._order.remove(address)
                self._order.insert(0, address)
                try:
                    return read(answer)
                except (LookupError, TypeError, ValueError, AttributeError) as error:
                    raise WayError(
                        f"what answers makes no sense of a Sentinel ({type(error).__name__}: {error}). "
                        "Look whether the addresses in ADSUM_REDIS_URL are Sentinels'."
                    ) from error
        if strangers:
            raise WayError(
                f"no Sentinel knows a master named {self.url.master} ({', '.join(strangers)} answered). "
                "Correct the name at the end of ADSUM_REDIS_URL, or have them monitor it."
            )
        raise WayError(
            f"no Sentinel answers ({'; '.join(failures)}). Start them, or correct ADSUM_REDIS_URL."
        )


class _MasterPool(WaitingPool, SentinelConnectionPool):
    """Of the master's connections."""


def open_master(url: RedisUrl, open_one: OpenOne, **options: Any) -> Redis:
    """options: as for one server."""
    asked: dict[str, Any] = dict(parse_url(url.of(("master", 1))))
    tls = issubclass(asked.pop("connection_class", AbstractConnection), SSLConnection)
    kind = _of_master(honest(SentinelManagedSSLConnection if tls else SentinelManagedConnection))
    del asked["host"], asked["port"]
    sentinels = Sentinels(url, open_one)
    pool = _MasterPool(url.master, sentinels, **{**options, **asked, "connection_class": kind})
    return redis.asyncio.Redis.from_pool(pool)


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
