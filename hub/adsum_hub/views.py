"""From facts to what clients see: host times become hub times, requests and children are listed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.health import witnesses
from adsum_hub.resolve import children, open_requests
from adsum_shared.signals import RateLimit
from adsum_shared.state import (
    LEAST_URGENT,
    UNKNOWN_URGENCY,
    URGENCY,
    AgentState,
    Group,
    HostView,
    HostWitness,
    Reachability,
    SessionView,
    Summary,
)
from adsum_shared.usage import ContextView, RateLimitView, UsageView

#: Nothing of such a session can be missing: it is over, or set aside by a human.
OVER = frozenset({"session_ended", "suspended", "archived"})


#: Signs of a prompt or an answer in a list; each view is sent with every change.
QUOTED_MAX = 500


class Spent(msgspec.Struct, frozen=True):
    """What a session used, and how full it is."""

    usage: UsageView | None = None
    context: ContextView | None = None


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
    spent: Spent = Spent(),  # noqa: B008 - immutable
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
        unread=facts.unread or _over_budget_unread(facts, state),
        title=facts.title,
        project=facts.project,
        cwd=facts.about("cwd"),
        branch=facts.about("branch"),
        model=facts.about("model"),
        mode=facts.about("mode"),
        version=facts.about("version"),
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
        worktree=facts.about("worktree"),
        pr=facts.about("pr"),
        last_prompt=shortened(facts.latest_prompt),
        last_answer=shortened(facts.last_answer),
        forked_from=facts.about("forked_from"),
        ended_at=_ended_at(place, facts, state),
        usage=spent.usage,
        context=spent.context,
    )


def _ended_at(place: Place, facts: Facts, state: AgentState) -> int | None:
    if state.state not in OVER:
        return None
    at = state.since if state.state == "session_ended" else facts.ended_at
    return at - place.offset_ms


def _over_budget_unread(facts: Facts, state: AgentState) -> bool:
    """The facts do not know of it: it is found, not told."""
    return state.state == "budget_exceeded" and state.since > max(facts.read, facts.typed_at)


def shortened(text: str | None) -> str | None:
    if text is None or len(text) <= QUOTED_MAX:
        return text
    return f"{text[: QUOTED_MAX - 1]}…"


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
    return _still(a) == _still(b)


def _still(view: HostView) -> HostView:
    witnesses = tuple(msgspec.structs.replace(each, heard_at=0) for each in view.witnesses)
    return msgspec.structs.replace(
        view, last_seen=0, lag_ms=None, applied=0, backlog=0, witnesses=witnesses
    )


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
