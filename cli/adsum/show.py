"""`adsum show`: one session in full, named by the start of its id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from adsum.agents import fetch_sessions
from adsum.client import fetch, hub_url
from adsum.console import open_console, own_up
from adsum.history import Search, fetch_history
from adsum.outcome import CommandError
from adsum.plain import clean
from adsum.render import icons_for
from adsum.words import as_of, trouble_in
from adsum_shared.state import ActivityEntry, GapView, HostView, SessionView

CANDIDATES_MOST = 10
ACTIVITY_SHOWN = 15
ACTIVITY_MOST = 100
#: Of sessions that are over, which a search for an id may find by other words too.
HISTORY_MOST = 5000


class UnknownSessionError(CommandError):
    """No session's id starts so."""


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
    path = f"/api/v1/sessions/{quote(_found(url, views, wanted).id)}"
    session, done = fetch(url, path), fetch(url, f"{path}/activity")
    if activity is None:
        activity = ACTIVITY_MOST if as_json else ACTIVITY_SHOWN
    told = done["entries"][max(0, len(done["entries"]) - activity) :]
    if as_json:
        whole = {**session, "activity": told}
        print(json.dumps(whole, ensure_ascii=False, indent=2))  # noqa: T201 - data
        return
    view, trouble = msgspec.convert(session, SessionView), trouble_in(listing)
    entries = msgspec.convert(told, list[ActivityEntry])
    _print(view, entries, as_of(done["now"], trouble), _gaps(url, view) if view.incomplete else ())
    if trouble is not None:
        own_up(trouble, done["now"])


def _found(url: str, views: Sequence[SessionView], wanted: str) -> SessionView:
    """Of those that live; else of those that are over. Raises CommandError."""
    try:
        return named(views, wanted)
    except UnknownSessionError:
        # The hub searches ids without their host, and more than ids.
        text = wanted.rpartition(":")[2] or wanted
        over = fetch_history(url, Search(text, limit=HISTORY_MOST))
        return named(msgspec.convert(over["sessions"], list[SessionView]), wanted)


def _gaps(url: str, view: SessionView) -> tuple[GapView, ...]:
    hosts = msgspec.convert(fetch(url, "/api/v1/hosts")["hosts"], list[HostView])
    return next((host.gaps for host in hosts if host.id == view.host_id), ())


def _print(
    view: SessionView, entries: Sequence[ActivityEntry], now: int, gaps: Sequence[GapView]
) -> None:
    from adsum.details import activity_table, facts_table, family_tree

    console = open_console()
    console.print(facts_table(view, now, icons_for(console)[view.state.group], gaps))
    if view.children:
        console.print()
        console.print(family_tree(view, now))
    if entries:
        console.print("\n[dim]activity[/dim]")
        console.print(activity_table(view, entries, now))


def named(views: Sequence[SessionView], wanted: str) -> SessionView:
    """The one session whose id, with or without its host, starts so. Raises CommandError."""
    exact = [view for view in views if wanted in (view.session_id, view.id)]
    found = exact or [
        v for v in views if v.session_id.startswith(wanted) or v.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownSessionError(
            f"No session's id starts with {wanted!r}. All of them: adsum agents, and those that "
            "are over: adsum history"
        )
    lines = [
        f"  {view.id}  {clean(view.title) or '(untitled)'}  ({clean(view.host)})"
        for view in found[:CANDIDATES_MOST]
    ]
    if len(found) > CANDIDATES_MOST:
        lines.append(f"  … and {len(found) - CANDIDATES_MOST} more")
    raise CommandError(
        f"{len(found)} sessions' ids start with {wanted!r}; give more of it:\n" + "\n".join(lines)
    )
