"""What a collector holds for as long as it runs: its doors and its spool."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator

from adsum_collector.local_socket import FILE as SOCKET_FILE
from adsum_collector.local_socket import listen
from adsum_collector.settings import CollectorSettings
from adsum_collector.sockets import listen_http, passed_sockets
from adsum_collector.spool.limits import limits_of
from adsum_collector.spool.spool import Spool


@contextlib.contextmanager
def open_sockets(settings: CollectorSettings) -> Iterator[tuple[socket.socket, socket.socket]]:
    passed = {each.family: each for each in passed_sockets(os.environ)}
    http = passed.get(socket.AF_INET) or listen_http(settings.collector_port)
    with http:
        unix = passed.get(socket.AF_UNIX) or listen(settings.state_dir / SOCKET_FILE)
        with unix:
            yield http, unix


@contextlib.asynccontextmanager
async def open_spool(settings: CollectorSettings) -> AsyncIterator[Spool]:
    limits = limits_of(settings.spool_cap_mb << 20, settings.spool_retention_h * 3600)
    spool = await Spool.open(settings.state_dir / "spool", limits)
    try:
        yield spool
    finally:
        await spool.close()
