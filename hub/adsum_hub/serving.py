"""Serves the hub: where it listens, its server's settings, and its life with the hub's tasks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
from collections.abc import Coroutine, Iterator

import uvicorn
from starlette.types import ASGIApp

from adsum_hub.live.live import Connection
from adsum_hub.settings import HubSettings
from adsum_shared.bounded_http import bounded_http
from adsum_shared.errors import AdsumError
from adsum_shared.private_files import write_private

log = logging.getLogger(__name__)

#: Of which a proxy or an office behind one address may have so many at once, WebSockets aside.
MOST_CONNECTIONS = 4096
MOST_PER_ADDRESS = 512
#: Descriptors for Redis, files, channels and whatever the hub asks of others.
RESERVE = 256
#: Enough for any first frame; clients send nothing else.
WS_MAX_BYTES = 64 * 1024


class PortTakenError(AdsumError):
    """Something else listens where the hub should."""


class StateDirError(AdsumError):
    """The state directory cannot be used."""


def listen(host: str, port: int) -> socket.socket:
    """Raises PortTakenError; the socket is bound before anything else starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise PortTakenError(
            f"The hub cannot listen on {host}:{port} ({error.strerror}). If another hub runs there, "
            "use it; else set ADSUM_HUB_PORT to a free port."
        ) from error
    bound.listen(128)
    return bound


@contextlib.contextmanager
def announced(settings: HubSettings, port: int) -> Iterator[str]:
    """hub.json tells this machine's command line where the hub is, while it runs: its URL."""
    host = settings.hub_host if settings.hub_host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 - told apart, not bound
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    file = settings.state_dir / "hub.json"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = {"url": url, "pid": os.getpid()}
        write_private(file, json.dumps(told).encode(), durable=False)
    except OSError as error:
        raise StateDirError(
            f"The state directory {settings.state_dir} cannot be used: {error.strerror}. "
            "Choose another with ADSUM_STATE_DIR."
        ) from error
    log.info("dashboard at %s", url)
    try:
        yield url
    finally:
        # Another hub may have announced itself since; a torn file is nobody's.
        with contextlib.suppress(OSError, ValueError):
            if json.loads(file.read_text()).get("pid") == os.getpid():
                file.unlink()


def trusted_proxies(public_url: str | None) -> str:
    """Addresses that are believed who has asked them: what X-Forwarded-For and -Proto say from there.

    The server's own default trusts loopback: any user of this machine could try codes under a new
    address each time. An https public URL says that a proxy stands before the hub; unless
    FORWARDED_ALLOW_IPS says where, it is on this machine.
    """
    given = os.environ.get("FORWARDED_ALLOW_IPS")
    if given is not None:
        return given
    return "127.0.0.1,::1" if (public_url or "").startswith("https://") else ""


def server_config(app: ASGIApp, public_url: str | None = None) -> uvicorn.Config:
    trusted = trusted_proxies(public_url)
    return uvicorn.Config(
        app,
        http=bounded_http(MOST_CONNECTIONS, RESERVE, MOST_PER_ADDRESS),
        proxy_headers=bool(trusted),
        forwarded_allow_ips=trusted,
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
