"""From facts to what clients see: host times become hub times, requests and children are listed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.health import witnesses
from adsum_hub.resolve import children, open_requests
from adsum_shared.state import (
    LEAST_URGENT,
    UNKNOWN_URGENCY,
    URGENCY,
    AgentState,
    Group,
    HostView,
    Reachability,
    SessionView,
    Summary,
)

#: Nothing of such a session can be missing: it is over, or set aside by a human.
OVER = frozenset({"session_ended", "suspended", "archived"})


class Place(msgspec.Struct, frozen=True):
    """Where a session runs. offset_ms: its host's clock minus the hub's."""

    host_id: str
    label: str
    reachability: Reachability
    offset_ms: int


def view_id(host_id: str, session_id: str) -> str:
    return f"{host_id}:{session_id}"


def urgency(state: AgentState) -> int | None:
    if state.group is not Group.NEEDS_YOU:
        return None
    if state.context is not None and state.context.get("prompted") is False:
        return LEAST_URGENT  # nobody has asked anything of it yet, so nobody keeps it waiting
    return URGENCY.get(state.state, UNKNOWN_URGENCY)


def session_view(
    place: Place,
    session_id: str,
    facts: Facts,
    state: AgentState,
    host_now: int,
    *,
    incomplete: bool = False,
) -> SessionView:
    def hub(ms: int | None) -> int | None:
        return None if ms is None else ms - place.offset_ms

    return SessionView(
        id=view_id(place.host_id, session_id),
        host_id=place.host_id,
        host=place.label,
        session_id=session_id,
        agent=facts.agent,
        state=msgspec.structs.replace(state, since=state.since - place.offset_ms),
        reachability=place.reachability,
        updated_at=facts.updated_at - place.offset_ms,
        started_at=hub(facts.started_at),
        urgency=urgency(state),
        unread=facts.unread,
        title=facts.title,
        project=facts.project,
        cwd=facts.cwd,
        branch=facts.branch,
        model=facts.model,
        mode=facts.mode,
        version=facts.version,
        pid=facts.pid,
        requests=tuple(
            msgspec.structs.replace(request, opened_at=request.opened_at - place.offset_ms)
            for request in open_requests(facts, host_now)
        ),
        children=tuple(
            msgspec.structs.replace(
                child, started_at=hub(child.started_at), finished_at=hub(child.finished_at)
            )
            for child in children(facts, host_now)
        ),
        witnesses=tuple(
            # 0 is no time but "never"
            msgspec.structs.replace(
                each, heard_at=each.heard_at and each.heard_at - place.offset_ms
            )
            for each in witnesses(facts, host_now, over=state.state in OVER)
        ),
        incomplete=incomplete,
    )


def same_host(a: HostView, b: HostView) -> bool:
    """Alike but for what ticks by itself: such a difference is not worth a message."""
    return _still(a) == _still(b)


def _still(view: HostView) -> HostView:
    witnesses = tuple(msgspec.structs.replace(each, heard_at=0) for each in view.witnesses)
    return msgspec.structs.replace(
        view, last_seen=0, lag_ms=None, applied=0, backlog=0, witnesses=witnesses
    )


def summarise(views: Iterable[SessionView]) -> Summary:
    """Counts of the sessions whose host can be reached, and apart from them those of the others."""
    count = dict.fromkeys(Group, 0)
    offline = unread = 0
    for view in views:
        if view.reachability == "offline":
            offline += 1
            continue
        count[view.state.group] += 1
        unread += view.unread
    return Summary(
        needs_you_count=count[Group.NEEDS_YOU],
        autonomous_count=count[Group.AUTONOMOUS],
        delivered_count=count[Group.DELIVERED],
        offline_count=offline,
        unread_count=unread,
    )


def attention_order(view: SessionView) -> tuple[int, int, int, int]:
    """Sorts who needs a human first: reachable, most urgent, longest waiting; then the latest."""
    offline = int(view.reachability == "offline")
    if view.urgency is not None:
        return offline, 0, view.urgency, view.state.since
    rank = 1 if view.state.group is Group.AUTONOMOUS else 2
    return offline, rank, 0, -view.state.since
