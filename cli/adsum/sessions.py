"""Finds the sessions that a command means: by a filter, a search, or the start of an id."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from adsum.client import fetch, no_hub, send
from adsum.outcome import CommandError, Exit, require
from adsum_shared.redact import clean
from adsum_shared.state import AWAITING_REVIEW, GROUP_OF, Group, History, SessionView

SESSIONS, HISTORY = "/api/v1/sessions", "/api/v1/history"
PAGE = 1000
CANDIDATES_MOST = 10
#: Of sessions that are over, which a search for an id may find by other words too.
HISTORY_MOST = 5000
#: As many cells as the widest list has of an id.
ID_SHOWN = 8
ACTIVITY_SHOWN = 15
#: A group in its own word, or in the words that lists and people use for it.
GROUPS = {
    **{group.value: group.value for group in Group},
    "needs-you": Group.NEEDS_YOU.value,
    "waiting": Group.NEEDS_YOU.value,
    "working": Group.AUTONOMOUS.value,
    "done": Group.DELIVERED.value,
}
GROUPS_SHOWN = ("needs_you (or waiting)", "working (or autonomous)", "delivered (or done)")

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Filter:
    """Of sessions that live. Raises CommandError for an unknown group or state."""

    group: str | None = None
    state: str | None = None
    host: str | None = None
    project: str | None = None
    needs_you: bool = False
    agent: str | None = None

    def __post_init__(self) -> None:
        if self.group is not None:
            group, known = GROUPS.get(self.group.casefold()), ", ".join(GROUPS_SHOWN)
            require(group, f"{self.group!r} is no group. --group is one of {known}.")
            object.__setattr__(self, "group", group)
        states = (*GROUP_OF, AWAITING_REVIEW)
        known_state = self.state is None or self.state in states
        require(known_state, f"{self.state!r} is no state. --state is one of {', '.join(states)}.")

    @property
    def query(self) -> dict[str, str]:
        """As the hub's REST interface takes it."""
        only = {"group": self.group, "state": self.state, "host": self.host, "agent": self.agent}
        return given(**only, project=self.project, needs_you="1" if self.needs_you else None)

    def wants(self, view: SessionView) -> bool:
        """The hub's own rule, for what comes over the WebSocket unfiltered."""
        group = Group.NEEDS_YOU.value if self.needs_you else self.group
        return (
            (group is None or view.state.group.value == group)
            and (
                self.state in (None, view.state.state)
                or (self.state == AWAITING_REVIEW and view.review is not None)
            )
            and (self.host is None or self.host in (view.host, view.host_id))
            and (self.project is None or self.project == view.project)
            and self.agent in (None, view.agent)
        )


def given(**parameters: str | None) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}


def order(views: Iterable[SessionView]) -> list[SessionView]:
    """The hub's order, which every client shows."""
    return sorted(views, key=lambda view: (view.rank, view.id))


def needs_you(view: SessionView) -> bool:
    """Of a machine that is offline nobody knows whether it still does."""
    return view.state.group is Group.NEEDS_YOU and view.reachability != "offline"


def exit_code(views: Iterable[SessionView], *, exit_status: bool, stale: bool = False) -> Exit:
    """Someone needs you > some of this may be stale, or all of it > all well."""
    code = Exit.PARTIAL if stale else Exit.OK
    for view in views:
        if exit_status and needs_you(view):
            return Exit.NEEDS_YOU
        if view.reachability != "live":
            code = Exit.PARTIAL
    return code


def fetch_sessions(url: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The hub's answer of those that live. Raises CommandError."""
    return fetch_pages(url, SESSIONS, query)


def fetch_pages(
    url: str, path: str, query: Mapping[str, str], most: int = sys.maxsize
) -> dict[str, Any]:
    """The hub's answer, all pages in one. Raises CommandError when it is no such answer."""
    sessions: list[Any] = []
    while True:
        part = {"limit": str(min(PAGE, most - len(sessions))), "offset": str(len(sessions))}
        page = fetch(url, path, {**query, **part})
        try:
            more, total = page["sessions"], page["total"]
        except (KeyError, TypeError) as error:
            raise no_hub(url) from error
        sessions += more
        # Without more: sessions went while we turned the page.
        if not more or len(sessions) >= min(most, total):
            return {**page, "sessions": sessions}


def path_of(view: SessionView) -> str:
    return f"{SESSIONS}/{quote(view.id)}"


def activity_path(view: SessionView) -> str:
    return f"{path_of(view)}/activity"


def typed(url: str, answer: Any, kind: type[_Answer]) -> _Answer:
    """Raises CommandError for what is no such answer of a hub."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise no_hub(url) from error


def unknown_names(url: str, chosen: Filter) -> str:
    """The hub's sentences on a host, a project or an agent that nothing bears; "" if there is no such.

    Its history tells them, for whoever finds nothing there either.
    """
    query = given(host=chosen.host, project=chosen.project, agent=chosen.agent)
    notes = typed(url, fetch_pages(url, HISTORY, query, 1), History).notes if query else []
    return clean(" ".join(notes))


def put_aside(url: str, view: SessionView, verb: str) -> dict[str, Any]:
    """verb: dismiss, archive, or restore, which takes either back. Raises CommandError."""
    answer: dict[str, Any] = send(url, "POST", f"{path_of(view)}/{verb}")
    return answer


class UnknownSessionError(CommandError):
    """No session's id starts so."""


def session_named(url: str, wanted: str) -> SessionView:
    """Of those that live; else of those that are over. Raises CommandError."""
    views = typed(url, fetch_sessions(url, {})["sessions"], list[SessionView])
    try:
        return named(views, wanted)
    except UnknownSessionError:
        # The hub searches ids without their host, and more than ids.
        text = wanted.rpartition(":")[2] or wanted
        over = fetch_pages(url, HISTORY, {"q": text}, HISTORY_MOST)["sessions"]
        return named([*views, *typed(url, over, list[SessionView])], wanted)


def named(views: Sequence[SessionView], wanted: str) -> SessionView:
    """The one session whose id, with or without its host, starts so. Raises CommandError."""
    exact = [view for view in views if wanted in (view.session_id, view.id)]
    found = exact or [
        v for v in views if v.session_id.startswith(wanted) or v.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        near = _nearest(views, wanted)
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


def _nearest(views: Sequence[SessionView], wanted: str) -> list[str]:
    """At most three starts of ids that are like the one given, for a slip of the pen."""
    length = max(len(wanted), 1)
    starts = {view.session_id[:length]: view.session_id for view in views}
    near = get_close_matches(wanted, list(starts), n=3, cutoff=0.6)
    return [clean(starts[each][: max(length, ID_SHOWN)]) for each in near]
