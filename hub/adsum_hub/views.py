"""From facts to what clients see: host times become hub times, requests and children are listed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.limits import LIMITS, Limits
from adsum_hub.portraits import Place, children_of, portrait_of
from adsum_hub.resolve.health import witnesses
from adsum_hub.resolve.resolve import open_requests
from adsum_hub.resolve.unread import unread
from adsum_shared.signals import RateLimit
from adsum_shared.state import (
    LEAST_URGENT,
    OVER,
    UNKNOWN_URGENCY,
    URGENCY,
    AgentState,
    Group,
    HostView,
    HostWitness,
    SessionView,
    Summary,
)
from adsum_shared.usage import ContextView, RateLimitView, UsageView

NEEDS_YOU = Group.NEEDS_YOU  # looked up a thousand times a second, by an enum's own slow way


class Spent(msgspec.Struct, frozen=True):
    """What a session used, and how full it is."""

    usage: UsageView | None = None
    context: ContextView | None = None


def urgency(state: AgentState) -> int | None:
    if state.group is not NEEDS_YOU:
        return None
    if state.context is not None and state.context.get("prompted") is False:
        return LEAST_URGENT  # nobody has asked anything of it yet, so nobody keeps it waiting
    return URGENCY.get(state.state, UNKNOWN_URGENCY)


def session_view(  # noqa: PLR0913 - all that a view is made of
    place: Place,
    session_id: str,
    facts: Facts,
    state: AgentState,
    host_now: int,
    limits: Limits = LIMITS,
    *,
    incomplete: bool = False,
    spent: Spent = Spent(),  # noqa: B008 - immutable
) -> SessionView:
    portrait = portrait_of(place, session_id, facts)
    offset_ms, over = place.offset_ms, state.state in OVER
    requests = open_requests(facts, host_now, limits)
    marked = unread(facts, state, requests)
    if offset_ms:
        state = msgspec.structs.replace(state, since=state.since - offset_ms)
    return msgspec.structs.replace(
        portrait.view,
        state=state,
        updated_at=facts.updated_at - offset_ms,
        urgency=urgency(state),
        unread=marked,
        requests=tuple(
            msgspec.structs.replace(request, opened_at=request.opened_at - offset_ms)
            for request in requests
        ),
        children=children_of(portrait, facts, host_now, limits) if facts.children else (),
        witnesses=witnesses(facts, host_now, over=over, offset_ms=offset_ms),
        incomplete=incomplete,
        ended_at=_ended_at(facts, state, offset_ms) if over else None,
        usage=spent.usage,
        context=spent.context,
    )


def _ended_at(facts: Facts, state: AgentState, offset_ms: int) -> int:
    """state: in the hub's time."""
    return state.since if state.state == "session_ended" else facts.ended_at - offset_ms


def only_ticks(before: SessionView, after: SessionView) -> bool:
    """Nothing but what grows by itself while an agent works: such a change can wait a moment."""
    ticks = before.usage != after.usage or before.context != after.context
    return ticks and _without_ticks(before) == _without_ticks(after)


def _without_ticks(view: SessionView) -> SessionView:
    witnesses = tuple(msgspec.structs.replace(each, heard_at=0) for each in view.witnesses)
    return msgspec.structs.replace(
        view, usage=None, context=None, updated_at=0, witnesses=witnesses
    )


def in_hub_time(witnesses: Iterable[HostWitness], offset_ms: int) -> tuple[HostWitness, ...]:
    return tuple(
        # 0 is no time but "never"
        msgspec.structs.replace(each, heard_at=each.heard_at and each.heard_at - offset_ms)
        for each in witnesses
    )


def limits_that_hold(limits: Iterable[RateLimit], now: int) -> tuple[RateLimitView, ...]:
    """Without those that have been reset since they were told."""
    return tuple(
        RateLimitView(each.name, each.used_percent, each.resets_at)
        for each in limits
        if not each.resets_at or each.resets_at > now
    )


def same_host(a: HostView, b: HostView) -> bool:
    """Alike but for what ticks by itself: such a difference is not worth a message."""
    heard = a.witnesses if _still(a.witnesses) == _still(b.witnesses) else b.witnesses
    return a == msgspec.structs.replace(
        b,
        last_seen=a.last_seen,
        lag_ms=a.lag_ms,
        applied=a.applied,
        backlog=a.backlog,
        witnesses=heard,
    )


def _still(witnesses: tuple[HostWitness, ...]) -> list[HostWitness]:
    return [msgspec.structs.replace(each, heard_at=0) for each in witnesses]


def summarise(
    views: Iterable[SessionView], usd: float | None = None, tokens: int | None = None
) -> Summary:
    """Counts of the sessions whose host can be reached, and apart from them those of the others.

    usd, tokens: of today, on all hosts: what was spent is spent, whoever is out of reach by now.
    """
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
        total_cost_today_usd=usd,
        total_tokens_today=tokens,
    )


def attention_order(view: SessionView) -> tuple[int, int, int, int]:
    """Sorts who needs a human first: reachable, most urgent, longest waiting; then the latest."""
    offline = int(view.reachability == "offline")
    if view.urgency is not None:
        hint = view.display.urgency_hint if view.display is not None else None
        return offline, 0, hint or view.urgency, view.state.since
    rank = 1 if view.state.group is Group.AUTONOMOUS else 2
    return offline, rank, 0, -view.state.since
