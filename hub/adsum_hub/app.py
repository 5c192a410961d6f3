"""The hub's composition root: build, listen, supervise, shut down in order."""

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
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from adsum_hub.auth.gate import Gate
from adsum_hub.auth.hub_secret import HubSecret
from adsum_hub.auth.sign_in import CredentialIssuer, greet, sign_in_router, signing_in
from adsum_hub.clock import Clock
from adsum_hub.command_keys import CommandKeys
from adsum_hub.consumer.consumer import BLOCK_MS, Consumer, Saver
from adsum_hub.consumer.heartbeats import Heartbeats
from adsum_hub.control import Decisions, control_router
from adsum_hub.domains.show import open_domains
from adsum_hub.join.ingest import Ingest, open_ingest
from adsum_hub.join.joining import Joining, open_joining
from adsum_hub.join.leaving import join_router, leaving_of
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.live.live import Connection, live_router
from adsum_hub.metrics import HubHealth
from adsum_hub.notify.notifications import Notifications, open_notifications
from adsum_hub.redis_access import Room, open_access
from adsum_hub.request_guard import Refusals, RequestGuard, known_hosts, require_address
from adsum_hub.rest.api import describe, explain
from adsum_hub.rest.roster import Dismissals, api_router, dismissals_router
from adsum_hub.rest.totals import usage_router
from adsum_hub.roster import Accounts, Roster, local_day
from adsum_hub.session_endpoints import (
    AgentEndpoints,
    ReportEndpoints,
    agents_router,
    reports_router,
)
from adsum_hub.settings import HubSettings
from adsum_hub.trouble import HasNotes, Link, Timekeeper, Writes
from adsum_hub.usage.budgets import Overspent, read_budgets
from adsum_hub.usage.prices import Wanted, complete_book, open_book
from adsum_hub.usage.spending import Spending
from adsum_hub.web.assets import Assets
from adsum_shared import AdsumError, __version__
from adsum_shared.bounded_http import bounded_http
from adsum_shared.connect import UNAVAILABLE, Redis, open_redis
from adsum_shared.private_files import write_private
from adsum_shared.redis_url import address_of

#: Of which a proxy or an office behind one address may have so many at once, WebSockets aside.
MOST_CONNECTIONS = 4096
MOST_PER_ADDRESS = 512
#: Descriptors for Redis, files, channels and whatever the hub asks of others.
RESERVE = 256
#: Enough for any first frame; clients send nothing else.
WS_MAX_BYTES = 64 * 1024
#: Thousands of sessions are millions of objects that live on: to look through all of them as often
#: as Python does by default stops the loop for up to 0.7 s at 100,000 sessions.
GC_THRESHOLDS = 10_000, 50, 1000


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


log = logging.getLogger(__name__)

WEB = Path(__file__).parent / "web"


def steady_clock() -> Clock:
    """Wall time in ms that never steps: its start is the wall's, its pace the monotonic clock's."""
    start = time.time() - time.monotonic()
    return lambda: int((start + time.monotonic()) * 1000)


def build_app(  # noqa: PLR0913, PLR0917 - whatever there is to serve
    roster: Roster,
    broadcast: Broadcast,
    link: Link,
    clock: Clock,
    hosts: Mapping[str, frozenset[str]],
    notes: Sequence[str] = (),
    notifications: Notifications | None = None,
    signing: CredentialIssuer | None = None,
    *,
    joining: Joining | None = None,
    ingest: Ingest | None = None,
    decisions: Decisions | None = None,
    dismissals: Dismissals | None = None,
    reports: ReportEndpoints | None = None,
    demo: bool = False,
) -> ASGIApp:
    """notes: what keeps all dollars from being right. signing: None where nobody has to sign in."""
    app = FastAPI(title="Adsum hub", version=__version__, docs_url=None, redoc_url=None)
    if decisions is not None:
        app.include_router(control_router(decisions))
        app.include_router(agents_router(AgentEndpoints(decisions)))
    if reports is not None:
        app.include_router(reports_router(reports))
    app.include_router(api_router(roster, broadcast, clock))
    app.include_router(usage_router(roster, clock, notes))
    if dismissals is not None:
        app.include_router(dismissals_router(dismissals))
    health = HubHealth(roster, broadcast, link, clock, notifications, signing)
    app.include_router(health.router())
    app.include_router(live_router(broadcast))
    app.include_router(sign_in_router(signing, demo=demo))
    if joining is not None:
        app.include_router(join_router(joining))
    if ingest is not None:
        # First: a machine asks once a second, and each route before it is looked at.
        app.router.routes.insert(0, ingest.route())
    if notifications is not None:
        app.include_router(notifications.router())
    app.router.routes.extend(Assets(WEB).routes())
    describe(app)
    explain(app)
    behind = app if signing is None else Gate(app, signing.authenticator, signing.reader)
    return RequestGuard(behind, hosts, Refusals(clock))


class HubState:
    """What a hub keeps in memory: the list, who is sent it, and whether Redis answers."""

    def __init__(self, settings: HubSettings, redis_url: str) -> None:
        self.clock = steady_clock()
        #: models whose price is looked for
        self.wanted = Wanted()
        prices = open_book(settings.price_file, self.wanted)
        #: what keeps all dollars from being right, in sentences for people
        self.price_notes = [prices.problem] if prices.problem is not None else []
        spending = Spending(prices.book, local_day)
        overspent = Overspent(read_budgets(settings.budgets), spending)
        self.domains = open_domains(settings.domains, time.perf_counter)
        self.roster = Roster(Accounts(spending, overspent, settings.limits), self.domains)
        self.link = Link(address_of(redis_url))
        self.broadcast = Broadcast(self.roster, self.clock)
        self.broadcast.begin_restoring()

    def notes(self) -> list[str]:
        return [*self.price_notes, *self.domains.notes]


async def run_hub(settings: HubSettings, say: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises what ended a vital task: the process must end too.

    say: shows a first login link to whoever started the hub by hand; never a log.
    """
    redis_url = _require_usable(settings)
    gc.set_threshold(*GC_THRESHOLDS)
    state = HubState(settings, redis_url)
    roster, broadcast, link, clock = state.roster, state.broadcast, state.link, state.clock
    async with contextlib.AsyncExitStack() as stack:
        redis, reader = open_redis(redis_url), open_redis(redis_url, block_s=BLOCK_MS / 1000)
        stack.push_async_callback(redis.aclose)
        stack.push_async_callback(reader.aclose)
        bound = stack.enter_context(listen(settings.hub_host, settings.hub_port))
        port = bound.getsockname()[1]
        url = stack.enter_context(announced(settings, port))
        access = await stack.enter_async_context(open_access(redis_url))
        secret = HubSecret(settings, clock)
        await secret.start(redis)
        signing = await stack.enter_async_context(signing_in(settings, access, clock, secret.seal))
        # a demonstration's machines and requests are made up
        signs = settings.sign_in or settings.demo
        keys = CommandKeys(settings.state_dir, redis, secret.seal, signs=signs)
        joining = open_joining(
            settings, redis_url, access, roster, clock, broadcast, keys, secret.seal
        )
        ingest = await stack.enter_async_context(open_ingest(redis_url, joining, link.address))
        notifications = await stack.enter_async_context(
            open_notifications(settings, redis_url, roster, broadcast, clock)
        )
        dismissals = Dismissals(roster, broadcast, clock, redis)
        app = build_app(
            roster,
            broadcast,
            link,
            clock,
            known_hosts(port, settings.hub_hosts, settings.public_url),
            state.price_notes,
            notifications,
            signing,
            joining=joining,
            ingest=ingest,
            decisions=Decisions(roster, clock, access.hub, keys),
            dismissals=dismissals,
            reports=ReportEndpoints(roster, clock, access.hub),
            demo=settings.demo,
        )
        saver = Saver(roster, redis, link)
        notes = (secret.seal, state, notifications)
        vital = _tasks(settings, state, redis, reader, joining, notes)
        vital["hub secret"] = secret.run(redis)
        vital["notifications"] = notifications.run()
        vital["snapshots"] = saver.run()
        vital["command keys"] = keys.run()
        vital["commands awaited"] = ingest.awaited.run()
        vital["dismissals"] = dismissals.watch()
        if signing is not None and say is not None:
            vital["greeting"] = greet(signing, url, say)
        await supervise(uvicorn.Server(server_config(app, settings.public_url)), bound, vital)
        try:
            await asyncio.wait_for(saver.save_once(), 3.0)
        except (*UNAVAILABLE, TimeoutError) as error:
            log.warning("last snapshot not written (%s); the collectors will replay", error)


def _tasks(
    settings: HubSettings,
    state: HubState,
    redis: Redis,
    reader: Redis,
    joining: Joining,
    notes: Sequence[HasNotes],
) -> dict[str, Coroutine[None, None, None]]:
    """What a hub cannot do without, by name, beside its server. None of it is started yet."""
    roster, broadcast, link, clock = state.roster, state.broadcast, state.link, state.clock
    room = Room(roster, redis, clock, settings.machine_room_mb << 20, leaving_of(joining).pause)
    writes = Writes(redis, link.address, clock, room)
    heartbeats = Heartbeats(roster, redis, clock, link, broadcast, room)
    consumer = Consumer(
        roster, heartbeats, reader=reader, redis=redis, clock=clock, link=link, broadcast=broadcast
    )
    others = (room, *notes)
    return {
        "consumer": consumer.follow(),
        "heartbeats": heartbeats.listen(),
        "writes": writes.watch(),
        "room": room.watch(),
        "roll": joining.watch.run(),
        "prices": complete_book(state.wanted, settings.price_file, roster.reprice),
        "timekeeper": Timekeeper(roster, broadcast, link, writes, clock, others=others).run(),
    }


def _require_usable(settings: HubSettings) -> str:
    """The Redis URL. Raises PublicAddressError, ValueError."""
    require_address(
        settings.hub_host,
        sign_in=settings.sign_in,
        public_url=settings.public_url,
        allowed=settings.hub_allow_public,
    )
    if settings.redis_url is None:
        raise ValueError("The hub needs a Redis URL: set ADSUM_REDIS_URL, or run `adsum up`.")
    return settings.redis_url
