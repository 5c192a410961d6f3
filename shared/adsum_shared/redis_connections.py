"""Connections to a Redis server, and pools of them.

A connection reports a lost peer as such and trusts a pinned authority alone; a pool that has none
left waits for one, within a bound.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool, SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_shared.redis_errors import ExhaustedError, WayError
from adsum_shared.tls import Renewed, trusted_file

if TYPE_CHECKING:
    from collections.abc import Mapping


#: How long a request waits for one of its pool's connections. Commands take milliseconds.
POOL_WAIT_S = 5.0


class WaitingPool(ConnectionPool):
    """Whoever finds no connection left waits its turn for one, first come first served.

    The library's pool fails at once, by the error that a lost server gives. Its BlockingConnectionPool
    waits, and fails by that error as well; a cancelled release loses one of its connections.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turn = asyncio.Lock()
        self._released = asyncio.Event()

    async def get_connection(
        self, command_name: Any = None, *keys: Any, **options: Any
    ) -> AbstractConnection:
        """Raises ExhaustedError, and what connecting raises."""
        del command_name, keys, options
        try:
            async with asyncio.timeout(POOL_WAIT_S), self._turn:
                while not self.can_get_connection():
                    self._released.clear()
                    await self._released.wait()
                connection = self.get_available_connection()  # type: ignore[no-untyped-call] # the library's
        except TimeoutError as error:
            raise ExhaustedError(
                f"all {self.max_connections} connections were in use for {POOL_WAIT_S:.0f} s"
            ) from error
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        taken: AbstractConnection = connection
        return taken

    async def release(self, connection: AbstractConnection) -> None:
        try:
            await super().release(connection)
        finally:
            self._released.set()


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
