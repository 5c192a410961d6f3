"""How the hub serves: the settings of its server, and its life together with the hub's tasks."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Coroutine

import uvicorn
from starlette.types import ASGIApp

from adsum_hub.live.live import Connection

#: Enough for any first frame; clients send nothing else.
WS_MAX_BYTES = 64 * 1024


def server_config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        ws=Connection,
        ws_per_message_deflate=False,
        ws_max_size=WS_MAX_BYTES,
        timeout_graceful_shutdown=2,
    )


async def supervise(
    server: uvicorn.Server, bound: socket.socket, vital: dict[str, Coroutine[None, None, None]]
) -> None:
    """Server and tasks live and die together. Order of shutdown: browsers, tasks, last snapshot."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn raises the signal it caught again once it has stopped; without a handler of our
        # own that would end the process before the last snapshot is written.
        loop.add_signal_handler(number, lambda: None)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work, name=name) for name, work in vital.items()]
        await server.serve(sockets=[bound])
        for task in tasks:
            task.cancel()
