"""The hub's composition root: build, supervise, shut down in order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from adsum_hub.accounts import Accounts, local_day
from adsum_hub.answers import describe, explain
from adsum_hub.api import api_router
from adsum_hub.broadcast import Broadcast
from adsum_hub.budget import read_budgets
from adsum_hub.clock import Clock
from adsum_hub.consumer import BLOCK_MS, Consumer
from adsum_hub.domains.show import open_domains
from adsum_hub.doors import Doors, known_hosts, require_loopback
from adsum_hub.heartbeats import Heartbeats
from adsum_hub.link import Link
from adsum_hub.live import Connection, live_router
from adsum_hub.notify.notifications import Notifications, told_by
from adsum_hub.notify.opening import notifying
from adsum_hub.notify.routes import notify_router
from adsum_hub.overspent import Overspent
from adsum_hub.prices import Wanted, complete_book, open_book
from adsum_hub.readiness import health_router
from adsum_hub.roster import Roster
from adsum_hub.saver import Saver
from adsum_hub.settings import HubSettings
from adsum_hub.spending import Spending
from adsum_hub.timekeeper import Timekeeper
from adsum_hub.trouble import Writes
from adsum_hub.usage_api import usage_router
from adsum_shared import __version__
from adsum_shared.connect import UNAVAILABLE, address_of, open_redis

log = logging.getLogger(__name__)

WEB = Path(__file__).parent / "web"
#: Enough for any first frame; clients send nothing else.
WS_MAX_BYTES = 64 * 1024


class PortTakenError(RuntimeError):
    """Something else listens where the hub should."""


class StateDirError(RuntimeError):
    """The state directory cannot be used."""


def steady_clock() -> Clock:
    """Wall time in ms that never steps: its start is the wall's, its pace the monotonic clock's."""
    start = time.time() - time.monotonic()
    return lambda: int((start + time.monotonic()) * 1000)


def build_app(
    roster: Roster,
    broadcast: Broadcast,
    link: Link,
    clock: Clock,
    hosts: frozenset[str],
    notes: Callable[[], list[str]] = list,
    notifications: Notifications | None = None,
) -> ASGIApp:
    """notes: what keeps all dollars from being right."""
    app = FastAPI(title="Adsum hub", version=__version__, docs_url=None, redoc_url=None)
    app.include_router(api_router(roster, broadcast, clock))
    app.include_router(usage_router(roster, clock, notes))
    app.include_router(health_router(roster, broadcast, link, clock))
    app.include_router(live_router(broadcast))
    if notifications is not None:
        app.include_router(notify_router(notifications))
    app.mount("/static", StaticFiles(directory=WEB))

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(WEB / "index.html")

    describe(app)
    explain(app)
    return Doors(app, hosts)


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


async def run_hub(settings: HubSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises what ended a vital task: the process must end too."""
    require_loopback(settings.hub_host, allowed=settings.hub_allow_public)
    if settings.redis_url is None:
        raise ValueError("The hub needs a Redis URL: set ADSUM_REDIS_URL, or run `adsum up`.")
    # Thousands of sessions are millions of objects that live on: to look through all of them as
    # often as Python does by default stops the loop for up to 0.7 s at 100,000 sessions.
    gc.set_threshold(10_000, 50, 1000)
    clock = steady_clock()
    wanted = Wanted()
    prices = open_book(settings.price_file, wanted)
    spending = Spending(prices.book, local_day)
    overspent = Overspent(read_budgets(settings.budgets), spending)
    domains = open_domains(settings.domains, time.perf_counter)
    roster = Roster(Accounts(spending, overspent), domains)
    link = Link(address_of(settings.redis_url))
    broadcast = Broadcast(roster, clock)
    broadcast.restoring = True
    async with contextlib.AsyncExitStack() as stack:
        redis = open_redis(settings.redis_url)
        reader = open_redis(settings.redis_url, block_s=BLOCK_MS / 1000)
        stack.push_async_callback(redis.aclose)
        stack.push_async_callback(reader.aclose)
        bound = stack.enter_context(listen(settings.hub_host, settings.hub_port))
        port = bound.getsockname()[1]
        stack.enter_context(_announced(settings, port))
        heartbeats = Heartbeats(roster, redis, clock, link, broadcast.tell)
        consumer = Consumer(
            roster,
            reader=reader,
            redis=redis,
            clock=clock,
            link=link,
            arrived=broadcast.tell,
            greet=heartbeats.hear,
        )
        hosts = known_hosts(port, settings.hub_hosts)
        notes = [prices.problem] if prices.problem is not None else []
        notifications = await stack.enter_async_context(
            notifying(told_by(settings), settings.redis_url, roster, broadcast, clock)
        )
        app = build_app(roster, broadcast, link, clock, hosts, lambda: notes, notifications)
        server = uvicorn.Server(_server_config(app))

        def others() -> list[str]:
            return [*notes, *notifications.troubles(), *domains.notes]

        saver, writes = Saver(roster, redis, link), Writes(redis, link.address, clock)
        vital = {
            "consumer": consumer.follow(broadcast.restored),
            "heartbeats": heartbeats.listen(),
            "snapshots": saver.run(),
            "writes": writes.watch(),
            "notifications": notifications.run(),
            "prices": complete_book(wanted, settings.price_file, roster.reprice),
            "timekeeper": Timekeeper(roster, broadcast, link, writes, clock, others=others).run(),
        }
        await _supervise(server, bound, vital)
        try:
            await asyncio.wait_for(saver.save_once(), 3.0)
        except (*UNAVAILABLE, TimeoutError) as error:
            log.warning("last snapshot not written (%s); the collectors will replay", error)


def _server_config(app: ASGIApp) -> uvicorn.Config:
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


async def _supervise(
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


@contextlib.contextmanager
def _announced(settings: HubSettings, port: int) -> Iterator[None]:
    """hub.json tells this machine's command line where the hub is, while it runs."""
    host = settings.hub_host if settings.hub_host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    file = settings.state_dir / "hub.json"
    draft = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_text(json.dumps({"url": url, "pid": os.getpid()}))
        draft.replace(file)
    except OSError as error:
        raise StateDirError(
            f"The state directory {settings.state_dir} cannot be used: {error.strerror}. "
            "Choose another with ADSUM_STATE_DIR."
        ) from error
    log.info("dashboard at %s", url)
    try:
        yield
    finally:
        # Another hub may have announced itself since; a torn file is nobody's.
        with contextlib.suppress(OSError, ValueError):
            if json.loads(file.read_text()).get("pid") == os.getpid():
                file.unlink()
