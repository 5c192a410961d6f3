"""The one order of sessions: who needs a human first. Every client sorts by the rank made here. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from adsum_shared.display import DisplayView
from adsum_shared.state import (
    LEAST_URGENT,
    UNKNOWN_URGENCY,
    URGENCY,
    AgentState,
    Group,
    Reachability,
    SessionView,
)

NEEDS_YOU = Group.NEEDS_YOU  # looked up a thousand times a second, by an enum's own slow way
#: A rank's decimal digits: the section, the urgency in it, and 13 digits of milliseconds, together
#: less than a JavaScript number holds exactly.
TIME_DIGITS = 10**13
SECTIONS = {Group.NEEDS_YOU: 0, Group.AUTONOMOUS: 1, Group.DELIVERED: 2}


def urgency(state: AgentState) -> int | None:
    if state.group is not NEEDS_YOU:
        return None
    if state.context is not None and state.context.get("prompted") is False:
        return LEAST_URGENT  # nobody has asked anything of it yet, so nobody keeps it waiting
    return URGENCY.get(state.state, UNKNOWN_URGENCY)


def rank(state: AgentState, reachability: Reachability, urgency: int | None, began: int) -> int:
    """The place of a session in the one order of all clients: ascending, ties by id.

    Offline hosts come last. Then who needs a human, by urgency and patience; who works, the last
    set to work first; what is delivered, the latest first. urgency: a domain's hint goes before the
    core's. began: when a human last set it to work. (Rejected: since when it is in its state; a
    working session enters another one every few seconds, and a list that reshuffles all day cannot
    be read.)
    """
    section = SECTIONS[state.group] + 3 * (reachability == "offline")
    if state.group is NEEDS_YOU:
        known = UNKNOWN_URGENCY if urgency is None else urgency
        return (section * 10 + known) * TIME_DIGITS + _digits(state.since)
    latest = began if state.group is Group.AUTONOMOUS else state.since
    return section * 10 * TIME_DIGITS + TIME_DIGITS - 1 - _digits(latest)


def _digits(at: int) -> int:
    return min(max(at, 0), TIME_DIGITS - 1)


def with_display(view: SessionView, display: DisplayView) -> SessionView:
    """The view as domains show it; where a human is needed, a domain's urgency decides its rank."""
    hint = display.urgency_hint
    if hint is None or view.state.group is not NEEDS_YOU:
        return replace(view, display=display)
    ranked = rank(view.state, view.reachability, hint, 0)
    return replace(view, display=display, rank=ranked)
