"""Which sessions a listing is about, in which order, and what they add up to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from adsum.outcome import CommandError, Exit
from adsum_shared.state import Group, SessionView

#: A group in its own word, or in the words that lists and people use for it.
GROUPS = {
    **{group.value: group.value for group in Group},
    "needs-you": Group.NEEDS_YOU.value,
    "waiting": Group.NEEDS_YOU.value,
    "working": Group.AUTONOMOUS.value,
    "done": Group.DELIVERED.value,
}


def group_named(word: str | None) -> str | None:
    """Raises CommandError for what no group is called."""
    if word is None:
        return None
    if word.casefold() not in GROUPS:
        step = "needs_you (or waiting), working (or autonomous), delivered (or done)"
        raise CommandError(f"{word!r} is no group. --group is one of {step}.", Exit.USAGE)
    return GROUPS[word.casefold()]


@dataclass(frozen=True, slots=True)
class Filter:
    group: str | None = None
    state: str | None = None
    host: str | None = None
    project: str | None = None
    needs_you: bool = False

    def __post_init__(self) -> None:
        # Frozen: once made it says what the hub and the views call it.
        object.__setattr__(self, "group", group_named(self.group))

    @property
    def query(self) -> dict[str, str]:
        """As the hub's REST interface takes it."""
        given = {
            "group": self.group,
            "state": self.state,
            "host": self.host,
            "project": self.project,
            "needs_you": "1" if self.needs_you else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def wants(self, view: SessionView) -> bool:
        """The hub's own rule, for what comes over the WebSocket unfiltered."""
        group = Group.NEEDS_YOU.value if self.needs_you else self.group
        return (
            (group is None or view.state.group.value == group)
            and (self.state is None or view.state.state == self.state)
            and (self.host is None or self.host in (view.host, view.host_id))
            and (self.project is None or self.project == view.project)
        )


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
