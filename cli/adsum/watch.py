"""`adsum agents --watch`: the roster over the WebSocket, redrawn in place or as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, WebSocketException

from adsum.client import unreachable
from adsum.console import advice, open_console, own_up
from adsum.outcome import CommandError, Exit
from adsum.select import Filter, order
from adsum.words import as_of, trouble_in, trouble_sentence
from adsum_shared.state import HostView, HubTrouble, SessionView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
#: The hub speaks at least every 5 s; silence beyond this is a dead connection, or a frozen hub.
SILENCE_S = 11.0
REDRAW_S = 1.0
_CONNECTION = (OSError, WebSocketException, TimeoutError)


@dataclass(frozen=True, slots=True)
class Change:
    """Ids of sessions that are new or different, and of those that are no more."""

    changed: list[str]
    gone: list[str]


@dataclass(slots=True)
class Roster:
    """What the hub has told us, by id. sessions holds the JSON objects as they came.

    told_at: when it did last, by its clock, ms.
    """

    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    epoch: str | None = None
    offset: int | None = None
    ahead_ms: int = 0
    told_at: int = 0
    trouble: HubTrouble | None = None

    def apply(self, message: dict[str, Any], clock_ms: int) -> Change:
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
        self.epoch, self.offset = message["epoch"], message["offset"]
        self.told_at, self.ahead_ms = message["now"], message["now"] - clock_ms
        return Change(
            [key for key, one in self.sessions.items() if before.get(key) != one],
            [key for key in before if key not in self.sessions],
        )

    @property
    def now(self) -> int:
        """By the hub's clock, ms."""
        return _clock_ms() + self.ahead_ms

    def wanted(self, key: str, chosen: Filter) -> bool:
        return chosen.wants(msgspec.convert(self.sessions[key], SessionView))

    def views(self, chosen: Filter) -> list[SessionView]:
        views = msgspec.convert(list(self.sessions.values()), list[SessionView])
        return order(view for view in views if chosen.wants(view))

    def host_views(self) -> list[HostView]:
        return msgspec.convert(list(self.hosts.values()), list[HostView])


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
    roster = Roster()
    if jsonl:
        await _stream(url, roster, chosen)
    else:
        await _draw(url, roster, chosen)


async def follow(url: str, roster: Roster) -> AsyncIterator[Change | None]:
    """Changes for ever, across lost connections; None each time the connection is lost.

    Raises CommandError when the hub cannot be reached the first time.
    """
    tries, met = 0, False
    while True:
        try:
            async for change in _one_connection(url, roster):
                tries, met = 0, True
                yield change
        except InvalidStatus as error:
            if error.response.status_code in (401, 403):
                raise CommandError(f"The hub at {url} refuses to be watched.", Exit.AUTH) from error
            if not met:
                raise unreachable(url, error) from error
        except _CONNECTION as error:
            if not met:
                raise unreachable(url, error) from error
        yield None
        await asyncio.sleep(PAUSES_S[min(tries, len(PAUSES_S) - 1)])
        tries += 1


async def _one_connection(url: str, roster: Roster) -> AsyncIterator[Change]:
    """Until a message is found missing; then the next connection asks for everything."""
    address = f"ws{url.removeprefix('http')}/ws"
    async with connect(address, open_timeout=5, max_size=None, proxy=None) as socket:
        await socket.send(json.dumps({"epoch": roster.epoch, "offset": roster.offset}))
        while True:
            message = json.loads(await asyncio.wait_for(socket.recv(), SILENCE_S))
            if _missed(roster, message):
                roster.epoch = roster.offset = None
                return
            yield roster.apply(message, _clock_ms())


def _missed(roster: Roster, message: dict[str, Any]) -> bool:
    """True for changes that do not continue what we have: another run's, or with a hole before."""
    if message["type"] != "deltas" or roster.offset is None:
        return False
    return bool(message["epoch"] != roster.epoch or message["offset"] < roster.offset)


async def _stream(url: str, roster: Roster, chosen: Filter) -> None:
    shown: set[str] = set()
    trouble: HubTrouble | None = None
    async for change in follow(url, roster):
        if change is None:
            print("adsum: the hub is away; trying again", file=sys.stderr)  # noqa: T201 - for people
            continue
        if roster.trouble not in (None, trouble):
            own_up(roster.trouble, roster.now)
        trouble = roster.trouble
        wanted = {key for key in change.changed if roster.wanted(key, chosen)}
        for key in change.changed:
            if key in wanted:
                print(json.dumps(roster.sessions[key], ensure_ascii=False))  # noqa: T201 - data
        # Gone from the hub, or no longer what was asked for: the reader must drop it either way.
        for key in [*change.gone, *change.changed]:
            if key in shown and key not in wanted:
                print(json.dumps({"id": key, "gone": True}))  # noqa: T201 - data
        shown = (shown | wanted) - set(change.gone) - (set(change.changed) - wanted)
        sys.stdout.flush()


async def _draw(url: str, roster: Roster, chosen: Filter) -> None:
    from rich.live import Live

    console = open_console()
    news = asyncio.Event()
    away = False

    async def listen() -> None:
        nonlocal away
        async for change in follow(url, roster):
            away = change is None
            news.set()

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
                live.update(_picture(roster, chosen, console, away=away), refresh=True)
                with contextlib.suppress(TimeoutError):
                    # Ages grow without news.
                    await asyncio.wait_for(news.wait(), REDRAW_S)
        await listener
    finally:
        listener.cancel()


def _picture(roster: Roster, chosen: Filter, console: Console, *, away: bool) -> RenderableType:
    from rich.console import Group as Stack
    from rich.text import Text

    from adsum.plain import clean
    from adsum.render import counts_line, session_table

    trouble = roster.trouble
    now = as_of(roster.told_at if away else roster.now, trouble)
    views, hosts = roster.views(chosen), roster.host_views()
    footer = counts_line(views, hosts, now)
    if trouble is not None:
        footer = Text(clean(trouble_sentence(trouble, roster.now)), "bold red")
    if away:
        footer = Text("The hub is away; trying again. This is the last known state.", "bold red")
    if not views and trouble is not None:
        return footer
    if not views:
        return Stack(Text(advice(filtered=bool(chosen.query), hosts=hosts)), Text(), footer)
    # Trouble is told at length, and the terminal may be narrow.
    room = max(1, console.height - 3 - len(footer.wrap(console, console.width)))
    table = session_table(views[:room], now, console)
    more = [Text(f"… and {len(views) - room} more", style="dim")] if len(views) > room else []
    return Stack(table, *more, Text(), footer)


def _clock_ms() -> int:
    return int(time.time() * 1000)
