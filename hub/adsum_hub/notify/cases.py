"""A case: one session or machine that calls for a human, and since when. Pure."""

from __future__ import annotations

import hashlib
from typing import Literal, NamedTuple

import msgspec

from adsum_shared.state import LEAST_URGENT, UNKNOWN_URGENCY, Group, HostView, SessionView

On = Literal["needs_you", "delivered", "host_offline"]
#: Less urgent than anything that needs a human.
NOT_URGENT = 9
#: A question that is guessed from the last words of an answer is told as what it is for certain.
GUESS = 0.7


class Case(msgspec.Struct, frozen=True):
    """key: the session's view id, or the host's.

    stamp: when its state began, by the host's own clock, so that it is the same in every hub; 0
    where a host is the case. since: the same by this hub's clock.
    """

    on: On
    key: str
    state: str
    stamp: int
    since: int
    host: str
    host_id: str
    urgency: int = NOT_URGENT
    label: str = ""
    title: str | None = None
    project: str | None = None

    @property
    def identity(self) -> tuple[str, str, int]:
        return self.on, self.state, self.stamp

    def mark(self, channel: str) -> str:
        """Names this case's telling on this channel, the same in every hub and every run."""
        parts = "\n".join((channel, self.key, self.on, self.state, str(self.stamp)))
        return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


class Telling(NamedTuple):
    """How urgent what was told was, and when it was told, by the hub's clock."""

    urgency: int
    at: int


def case_of_session(view: SessionView, stamp: int) -> Case | None:
    """None: nobody has to be told. What an unreachable machine said last is no present need."""
    if view.reachability == "offline" or view.urgency == LEAST_URGENT:
        return None
    state, on = view.state, _ON.get(view.state.group)
    if on is None:
        return None
    guessed = state.state == "awaiting_input" and state.confidence < GUESS
    needs_you = on == "needs_you"
    return Case(
        on=on,
        key=view.id,
        state="idle" if guessed else state.state,
        stamp=stamp,
        since=state.since,
        host=view.host,
        host_id=view.host_id,
        urgency=(view.urgency or UNKNOWN_URGENCY) if needs_you else NOT_URGENT,
        label=state.label,
        title=view.title,
        project=view.project,
    )


def case_of_host(view: HostView, since: int) -> Case | None:
    """since: when this hub has first seen it so; what it missed itself is no fault of the host's."""
    if view.reachability != "offline":
        return None
    return Case("host_offline", view.id, "offline", 0, since, view.label, view.id)


_ON: dict[Group, On] = {Group.NEEDS_YOU: "needs_you", Group.DELIVERED: "delivered"}
