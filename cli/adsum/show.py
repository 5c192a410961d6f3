"""`adsum show`: one session in full, named by the start of its id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from adsum.agents import fetch_sessions
from adsum.client import fetch, hub_url
from adsum.naming import session_named
from adsum.text.console import open_console, own_up, show
from adsum.text.render import icons_for
from adsum.text.saying import put_json
from adsum.text.words import as_of, trouble_in
from adsum_shared.state import ActivityEntry, GapView, HostView, SessionView

SCHEMA = 1
ACTIVITY_SHOWN = 15
ACTIVITY_MOST = 100


def show_session(
    hub: str | None,
    state_dir: Path | None,
    wanted: str,
    *,
    as_json: bool,
    activity: int | None = None,
) -> None:
    """activity: how many of its last doings; None for as many as fit the form."""
    url = hub_url(hub, state_dir)
    listing = fetch_sessions(url, {})
    views = msgspec.convert(listing["sessions"], list[SessionView])
    path = f"/api/v1/sessions/{quote(session_named(url, views, wanted).id)}"
    session, done = fetch(url, path), fetch(url, f"{path}/activity")
    if activity is None:
        activity = ACTIVITY_MOST if as_json else ACTIVITY_SHOWN
    told = done["entries"][max(0, len(done["entries"]) - activity) :]
    if as_json:
        whole = {"schema": SCHEMA, **session, "activity": told}
        put_json(whole)
        return
    view, trouble = msgspec.convert(session, SessionView), trouble_in(listing)
    entries = msgspec.convert(told, list[ActivityEntry])
    _print(view, entries, as_of(done["now"], trouble), _gaps(url, view) if view.incomplete else ())
    if trouble is not None:
        own_up(trouble, done["now"])


def fetch_activity(url: str, session_id: str) -> tuple[ActivityEntry, ...]:
    """Its last doings, as many as `show` tells. Raises CommandError."""
    done = fetch(url, f"/api/v1/sessions/{quote(session_id)}/activity")["entries"]
    return msgspec.convert(done[-ACTIVITY_SHOWN:], tuple[ActivityEntry, ...])


def _gaps(url: str, view: SessionView) -> tuple[GapView, ...]:
    hosts = msgspec.convert(fetch(url, "/api/v1/hosts")["hosts"], list[HostView])
    return next((host.gaps for host in hosts if host.id == view.host_id), ())


def _print(
    view: SessionView, entries: Sequence[ActivityEntry], now: int, gaps: Sequence[GapView]
) -> None:
    from adsum.text.details import activity_table, facts_table, family_tree

    console = open_console()
    show(console, facts_table(view, now, icons_for(console)[view.state.group], gaps))
    if view.children:
        console.print()
        show(console, family_tree(view, now))
    if entries:
        console.print("\n[dim]activity[/dim]")
        show(console, activity_table(view, entries, now))
