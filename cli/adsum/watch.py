"""`adsum agents --watch`: the roster over the WebSocket, redrawn in place or as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

from adsum.follow import Roster, follow
from adsum.outcome import CommandError, Exit
from adsum.select import Filter
from adsum.text.console import advice, open_console, own_up
from adsum.text.saying import put_json, say
from adsum.text.words import as_of, trouble_sentence
from adsum_shared.state import HubTrouble

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

REDRAW_S = 1.0


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


async def _stream(url: str, roster: Roster, chosen: Filter) -> None:
    shown: set[str] = set()
    trouble: HubTrouble | None = None
    async for change in follow(url, roster):
        if change is None:
            say("adsum: the hub is away; trying again")
            continue
        if roster.trouble not in (None, trouble):
            own_up(roster.trouble, roster.now)
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

    from adsum.text.plain import clean
    from adsum.text.render import counts_line, session_table

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
