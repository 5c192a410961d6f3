"""`adsum agents --watch` follows the roster over a WebSocket, redrawn in place or as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from adsum.client import Filter, headers_for, order, refused, tls_to, unreachable
from adsum.outcome import CommandError, Exit, put_json, say, say_trouble
from adsum.text.words import advice, as_of, trouble_in, trouble_sentence, unknown_in
from adsum_shared.redact import clean
from adsum_shared.state import HostView, HubTrouble, SessionView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
#: The hub speaks at least every 5 s; silence beyond this is a dead connection, or a frozen hub.
SILENCE_S = 11.0
#: For its first word: it may be reading a snapshot, or a long list comes over a slow line.
FIRST_S = 30.0
REDRAW_S = 1.0
#: The hub closes with this whom it does not let in, or not any more.
NOT_IN = 4401
#: And with this whom it can show no whole list yet.
RESTORING = 1013
_CONNECTION = (OSError, WebSocketException, TimeoutError)


@dataclass(frozen=True, slots=True)
class RosterChange:
    """Ids of sessions that are new or different, and of those that are no more."""

    changed: list[str]
    gone: list[str]


@dataclass(slots=True)
class FollowedRoster:
    """What the hub has sent, by id. sessions holds the JSON objects as they came.

    sent_at: when it last did, by its clock, ms. away: the connection is lost.
    """

    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    epoch: str | None = None
    offset: int | None = None
    ahead_ms: int = 0
    sent_at: int = 0
    away: bool = False
    trouble: HubTrouble | None = None

    def apply(self, message: dict[str, Any], clock_ms: int) -> RosterChange:
        before = self.sessions
        if message["type"] == "snapshot":
            self.sessions = {one["id"]: one for one in message["sessions"]}
            self.hosts = {one["id"]: one for one in message["hosts"]}
        elif message["type"] == "deltas":
            gone, gone_hosts = set(message["gone"]), set(message["gone_hosts"])
            changed = {one["id"]: one for one in message["sessions"]}
            kept = {key: one for key, one in before.items() if key not in gone}
            self.sessions = kept | changed
            self.hosts = {key: one for key, one in self.hosts.items() if key not in gone_hosts}
            self.hosts |= {one["id"]: one for one in message["hosts"]}
        if message["type"] != "deltas":
            self.trouble = trouble_in(message)
        self.epoch, self.offset, self.away = message["epoch"], message["offset"], False
        self.sent_at, self.ahead_ms = message["now"], message["now"] - clock_ms
        return RosterChange(
            [key for key, one in self.sessions.items() if before.get(key) != one],
            [key for key in before if key not in self.sessions],
        )

    @property
    def now(self) -> int:
        """By the hub's clock, ms."""
        return _clock_ms() + self.ahead_ms

    @property
    def as_of(self) -> int:
        """The time that the list is true at: no age grows while nothing new can come."""
        return as_of(self.sent_at if self.away else self.now, self.trouble)

    def wanted(self, key: str, chosen: Filter) -> bool:
        return chosen.wants(msgspec.convert(self.sessions[key], SessionView))

    def views(self, chosen: Filter) -> list[SessionView]:
        views = msgspec.convert(list(self.sessions.values()), list[SessionView])
        return order(view for view in views if chosen.wants(view))

    def host_views(self) -> list[HostView]:
        return msgspec.convert(list(self.hosts.values()), list[HostView])

    def warning(self) -> Text | None:
        """Why the list is not true any more, None while it is."""
        from rich.text import Text

        if self.away:
            said = "The hub is away; trying again. This is the last known state."
        elif self.trouble is not None:
            said = clean(trouble_sentence(self.trouble, self.now))
        else:
            return None
        return Text(said, "bold red")


async def follow(url: str, roster: FollowedRoster) -> AsyncGenerator[RosterChange | None, None]:
    """Changes for ever, across lost connections; None each time the connection is lost.

    Raises CommandError when the hub cannot be reached the first time.
    """
    tries, met = 0, False
    while True:
        try:
            async with contextlib.aclosing(_one_connection(url, roster)) as changes:
                async for change in changes:
                    tries, met = 0, True
                    yield change
        except InvalidStatus as error:
            if error.response.status_code in (401, 403):
                raise refused(url) from error
            if not met:
                raise unreachable(url, error) from error
        except _CONNECTION as error:
            closed = error.rcvd if isinstance(error, ConnectionClosed) else None
            if closed and closed.code == NOT_IN:
                raise refused(url, closed.reason) from error
            if not met and not (closed and closed.code == RESTORING):
                raise unreachable(url, error) from error
        roster.away = True
        yield None
        await asyncio.sleep(PAUSES_S[min(tries, len(PAUSES_S) - 1)])
        tries += 1


async def _one_connection(url: str, roster: FollowedRoster) -> AsyncGenerator[RosterChange, None]:
    """Until a message is found missing; then the next connection asks for everything."""
    address = f"ws{url.removeprefix('http')}/ws"
    shown, tls = headers_for(url), tls_to(url)
    # The library refuses ssl=None for wss, and anything else for ws.
    secure: dict[str, Any] = {"ssl": tls} if tls else {}
    async with connect(
        address, open_timeout=5, max_size=None, proxy=None, additional_headers=shown, **secure
    ) as socket:
        await socket.send(json.dumps({"epoch": roster.epoch, "offset": roster.offset}))
        patience = FIRST_S
        while True:
            message = json.loads(await asyncio.wait_for(socket.recv(), patience))
            patience = SILENCE_S
            if _missed(roster, message):
                roster.epoch = roster.offset = None
                return
            yield roster.apply(message, _clock_ms())


def _missed(roster: FollowedRoster, message: dict[str, Any]) -> bool:
    """True for changes that do not continue what we have: another run's, or with a hole before."""
    if message["type"] != "deltas" or roster.offset is None:
        return False
    return bool(message["epoch"] != roster.epoch or message["offset"] < roster.offset)


def _clock_ms() -> int:
    return int(time.time() * 1000)


def watch_agents(url: str, chosen: Filter, *, jsonl: bool) -> None:
    if not jsonl and not sys.stdout.isatty():
        raise CommandError(
            "Watching draws on a terminal. For a pipe: adsum agents --watch --jsonl", Exit.USAGE
        )
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_watch(url, chosen, jsonl=jsonl))


async def _watch(url: str, chosen: Filter, *, jsonl: bool) -> None:
    work = asyncio.current_task()
    if work is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            # Leaving a watch is its normal end, not an error.
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    roster = FollowedRoster()
    if not jsonl:
        await _draw(url, roster, chosen)
        return
    # Closed by us while the loop still runs, also when the reader of the stream has gone.
    async with contextlib.aclosing(follow(url, roster)) as changes:
        await _stream(changes, roster, chosen)


async def _stream(
    changes: AsyncIterator[RosterChange | None], roster: FollowedRoster, chosen: Filter
) -> None:
    shown: set[str] = set()
    trouble: HubTrouble | None = None
    unknown = ""
    async for change in changes:
        if change is None:
            say("adsum: the hub is away; trying again")
            continue
        said = unknown_in(chosen.host, chosen.agent, roster.host_views())
        if said and not unknown:
            say(f"adsum: {said}")
        unknown = said
        if roster.trouble not in (None, trouble):
            say_trouble(roster.trouble, roster.now)
        trouble = roster.trouble
        wanted = {key for key in change.changed if roster.wanted(key, chosen)}
        for key in change.changed:
            if key in wanted:
                put_json(roster.sessions[key], None)
        # Gone from the hub, or no longer what was asked for: the reader must drop it either way.
        for key in [*change.gone, *change.changed]:
            if key in shown and key not in wanted:
                put_json({"id": key, "gone": True}, None)
        shown = (shown | wanted) - set(change.gone) - (set(change.changed) - wanted)
        sys.stdout.flush()


async def _draw(url: str, roster: FollowedRoster, chosen: Filter) -> None:
    from rich.live import Live

    from adsum.text.tables import open_console

    console = open_console()
    news = asyncio.Event()

    async def listen() -> None:
        async for _ in follow(url, roster):
            news.set()

    # A terminal of another size is drawn anew at once, as by news.
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, news.set)
    listener = asyncio.create_task(listen())
    listener.add_done_callback(lambda _: news.set())
    try:
        await news.wait()
        if listener.done():
            await listener
        # The other screen: redrawing in place does not flicker, and leaving restores the terminal.
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not listener.done():
                news.clear()
                live.update(_picture(roster, chosen, console), refresh=True)
                with contextlib.suppress(TimeoutError):
                    # Ages grow without news.
                    await asyncio.wait_for(news.wait(), REDRAW_S)
        await listener
    finally:
        listener.cancel()


def _picture(roster: FollowedRoster, chosen: Filter, console: Console) -> RenderableType:
    from rich.console import Group as Stack
    from rich.text import Text

    from adsum.text.tables import counts_line, session_table

    views, hosts, now = roster.views(chosen), roster.host_views(), roster.as_of
    footer = roster.warning() or counts_line(views, hosts, now, part=bool(chosen.query))
    if not views and roster.trouble is not None:
        return footer
    if not views:
        said = unknown_in(chosen.host, chosen.agent, hosts)
        said = said or advice(filtered=bool(chosen.query), hosts=hosts)
        return Stack(Text(said), Text(), footer)
    # A warning may be long, and the terminal narrow.
    room = max(1, console.height - 3 - len(footer.wrap(console, console.width)))
    table = session_table(views[:room], now, console)
    more = [Text(f"… and {len(views) - room} more", style="dim")] if len(views) > room else []
    return Stack(table, *more, Text(), footer)
