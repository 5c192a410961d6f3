"""Which session the start of an id means: one that lives, else one that is over."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import msgspec

from adsum.history import Search, fetch_history
from adsum.outcome import CommandError
from adsum.text.plain import clean
from adsum_shared.state import SessionView

CANDIDATES_MOST = 10
#: Of sessions that are over, which a search for an id may find by other words too.
HISTORY_MOST = 5000
#: As many cells as the widest list has of an id.
ID_SHOWN = 8


class UnknownSessionError(CommandError):
    """No session's id starts so."""


def session_named(url: str, views: Sequence[SessionView], wanted: str) -> SessionView:
    """Of those that live; else of those that are over. Raises CommandError."""
    try:
        return named(views, wanted)
    except UnknownSessionError:
        # The hub searches ids without their host, and more than ids.
        text = wanted.rpartition(":")[2] or wanted
        over = fetch_history(url, Search(text, limit=HISTORY_MOST))
        return named([*views, *msgspec.convert(over["sessions"], list[SessionView])], wanted)


def named(views: Sequence[SessionView], wanted: str) -> SessionView:
    """The one session whose id, with or without its host, starts so. Raises CommandError."""
    exact = [view for view in views if wanted in (view.session_id, view.id)]
    found = exact or [
        v for v in views if v.session_id.startswith(wanted) or v.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        near = nearest(views, wanted)
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        raise UnknownSessionError(
            f"No session's id starts with {wanted!r}. {meant}All of them: adsum agents, and those "
            "that are over: adsum history"
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


def nearest(views: Sequence[SessionView], wanted: str) -> list[str]:
    """At most three starts of ids that are like the one given, for a slip of the pen."""
    length = max(len(wanted), 1)
    starts = {view.session_id[:length]: view.session_id for view in views}
    near = get_close_matches(wanted, list(starts), n=3, cutoff=0.6)
    return [clean(starts[each][: max(length, ID_SHOWN)]) for each in near]
