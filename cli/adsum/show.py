"""`adsum show`: one session in full, named by the start of its id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from adsum.agents import fetch_sessions
from adsum.client import fetch, hub_url
from adsum.console import open_console
from adsum.outcome import CommandError
from adsum.render import age, clean, icons_for
from adsum_shared.state import SessionView

if TYPE_CHECKING:
    from rich.table import Table

CANDIDATES_MOST = 10


def show_session(hub: str | None, state_dir: Path | None, wanted: str, *, as_json: bool) -> None:
    url = hub_url(hub, state_dir)
    listing = fetch_sessions(url, {})
    views = msgspec.convert(listing["sessions"], list[SessionView])
    found = named(views, wanted)
    session = fetch(url, f"/api/v1/sessions/{quote(found.id)}")
    if as_json:
        print(json.dumps(session, ensure_ascii=False, indent=2))  # noqa: T201 - data
        return
    console = open_console()
    view = msgspec.convert(session, SessionView)
    console.print(_table(view, listing["now"], icons_for(console)[view.state.group]))


def named(views: Sequence[SessionView], wanted: str) -> SessionView:
    """The one session whose id, with or without its host, starts so. Raises CommandError."""
    exact = [view for view in views if wanted in (view.session_id, view.id)]
    found = exact or [
        v for v in views if v.session_id.startswith(wanted) or v.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise CommandError(f"No session's id starts with {wanted!r}. All of them: adsum agents")
    lines = [
        f"  {view.id}  {clean(view.title) or '(untitled)'}  ({clean(view.host)})"
        for view in found[:CANDIDATES_MOST]
    ]
    if len(found) > CANDIDATES_MOST:
        lines.append(f"  … and {len(found) - CANDIDATES_MOST} more")
    raise CommandError(
        f"{len(found)} sessions' ids start with {wanted!r}; give more of it:\n" + "\n".join(lines)
    )


def _table(view: SessionView, now: int, icon: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _lines(view, now, icon):
        if value:
            table.add_row(name, Text(value))
    return table


def _lines(view: SessionView, now: int, icon: str) -> list[tuple[str, str]]:
    state = view.state
    host = clean(view.host) + ("" if view.reachability == "live" else f" ({view.reachability})")
    lines = [
        ("state", f"{icon} {clean(state.label)} ({state.state}), for {age(now - state.since)}"),
        ("because of", f"{state.source}, confidence {state.confidence:.0%}"),
        ("title", clean(view.title)),
        ("host", host),
        ("project", clean(view.project)),
        ("directory", clean(view.cwd)),
        ("branch", clean(view.branch)),
        ("model", clean(view.model)),
        ("mode", clean(view.mode)),
        ("process", str(view.pid or "")),
        ("started", f"{age(now - view.started_at)} ago" if view.started_at else ""),
        ("last news", f"{age(now - view.updated_at)} ago"),
        ("id", view.id),
    ]
    for request in view.requests:
        what = f"{request.kind} {clean(request.tool)}: {clean(request.summary)}"
        lines.append(("waits for", f"{what} (since {age(now - request.opened_at)})"))
    lines += [
        ("child", f"{child.kind} {clean(child.description)}: {clean(child.status)}")
        for child in view.children
    ]
    if view.incomplete:
        lines.append(("note", "some of its history was lost on the way"))
    return lines
