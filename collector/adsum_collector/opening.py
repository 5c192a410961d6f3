"""What a collector holds for as long as it runs: its doors and its spool."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator

from adsum_collector.errors import StartError
from adsum_collector.local_socket import FILE as SOCKET_FILE
from adsum_collector.local_socket import listen
from adsum_collector.peer import stranger_on
from adsum_collector.settings import CollectorSettings
from adsum_collector.sockets import listen_http, passed_sockets
from adsum_collector.spool.limits import SpoolLimits
from adsum_collector.spool.spool import Spool
from adsum_collector.token import renew_token


@contextlib.contextmanager
def open_sockets(settings: CollectorSettings) -> Iterator[tuple[socket.socket, socket.socket]]:
    passed = {each.family: each for each in passed_sockets(os.environ)}
    http = passed.get(socket.AF_INET) or _listen(settings)
    with http:
        unix = passed.get(socket.AF_UNIX) or listen(settings.state_dir / SOCKET_FILE)
        with unix:
            yield http, unix


def _listen(settings: CollectorSettings) -> socket.socket:
    try:
        return listen_http(settings.collector_port)
    except StartError as error:
        stranger = stranger_on(settings.collector_port)
        if stranger is None:
            raise
        # Hooks that are posted show it their token.
        renew_token(settings.state_dir)
        raise StartError(
            f"{error} The user {stranger} listens there, and hears whatever hooks post. Their token "
            "is renewed. Next: adsum hooks install, which takes them off the port."
        ) from error


@contextlib.asynccontextmanager
async def open_spool(settings: CollectorSettings) -> AsyncIterator[Spool]:
    limits = SpoolLimits.of(settings.spool_cap_mb << 20, settings.spool_retention_h * 3600)
    spool = await Spool.open(settings.state_dir / "spool", limits)
    try:
        yield spool
    finally:
        await spool.close()
