"""Makes what clients see from facts and a verdict, in the hub's time."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from adsum_hub.facts import Facts, Gauges, Request
from adsum_hub.verdict.judge import Review, Verdict, end_of
from adsum_shared.cautions import cautions_of
from adsum_shared.commands import ALLOWING, EXTEND, HOLD_VERSION, Displayed, binding_of
from adsum_shared.signals import Hold, RateLimit
from adsum_shared.state import (
    LEAST_URGENT,
    OVER,
    UNKNOWN_URGENCY,
    URGENCY,
    AgentState,
    ChildView,
    CommandView,
    ContextView,
    DisplayView,
    Group,
    HoldView,
    HostView,
    HostWitness,
    PlanView,
    PromptWay,
    QueuedView,
    RateLimitView,
    Reachability,
    ReportView,
    RequestView,
    ReviewView,
    SessionView,
    Summary,
    SuspendedView,
    UsageView,
    WitnessView,
)

#: Looked up a thousand times a second, by an enum's own slow way.
NEEDS_YOU, AUTONOMOUS = Group.NEEDS_YOU, Group.AUTONOMOUS
#: A rank's decimal digits: the section, the urgency in it, and 13 digits of milliseconds, together
#: less than a JavaScript number holds exactly.
TIME_DIGITS = 10**13
#: Signs of a prompt or an answer in a list; each view is sent with every change.
QUOTED_MAX = 500


class ViewedHost(msgspec.Struct, frozen=True, gc=False):
    """Where a session runs. offset_ms: its host's clock minus the hub's.

    unhooked: the agents of whose hooks nobody expects to hear.
    """

    host_id: str
    label: str
    reachability: Reachability
    offset_ms: int
    unhooked: frozenset[str] = frozenset()


class Spent(msgspec.Struct, frozen=True, gc=False):
    """What a session used, how full it is, and what pays for it."""

    usage: UsageView | None = None
    context: ContextView | None = None
    plan: PlanView | None = None


NOTHING_SPENT = Spent()


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A session's view and what it was made of, so that the next is made of what still holds."""

    place: ViewedHost
    facts: Facts
    verdict: Verdict
    view: SessionView


def view_id(host_id: str, session_id: str) -> str:
    return f"{host_id}:{session_id}"


def session_view(
    place: ViewedHost,
    session_id: str,
    facts: Facts,
    verdict: Verdict,
    last: Shown | None = None,
    *,
    incomplete: bool = False,
    spent: Spent = NOTHING_SPENT,
) -> SessionView:
    """last: the session's view before."""
    offset_ms = place.offset_ms
    if last is not None and last.place is not place and last.place != place:
        last = None
    ticks = _ticking(place, facts, verdict, spent)
    ticks["incomplete"] = incomplete
    if last is not None and _stands(last, facts, verdict):
        return replace(last.view, **ticks)
    state, requests = verdict.state, verdict.requests
    if offset_ms:
        state = replace(state, since=state.since - offset_ms)
    if last is not None and _says_alike(last.facts, facts):
        before = last.view
        if last.facts.turns is not facts.turns:
            ticks["last_answer"] = shortened(facts.last_answer)
    else:
        before = _introduced(place, session_id, facts, state)
    if last is not None and _live_alike(last, facts, verdict):
        children = last.view.children
    else:
        children = child_views(facts, verdict.children, offset_ms)
    needed = urgency(state)
    return replace(
        before,
        state=state,
        rank=rank(state, place.reachability, needed, verdict.began - offset_ms),
        urgency=needed,
        unread=verdict.unread,
        requests=request_views(requests, offset_ms, facts) if requests else (),
        children=children,
        ended_at=_ended_at(facts, state, offset_ms) if state.state in OVER else None,
        review=review_view(verdict.review, offset_ms) if verdict.review else None,
        suspended=suspended_view(facts, state, offset_ms) if facts.suspension else None,
        prompt_way=prompt_way(facts, verdict),
        report=report_view(facts, offset_ms) if facts.report else None,
        **ticks,
    )


def _ticking(place: ViewedHost, facts: Facts, verdict: Verdict, spent: Spent) -> dict[str, Any]:
    """What changes although nothing has happened but that somebody was heard."""
    offset_ms = place.offset_ms
    hooks = None if facts.agent in place.unhooked else verdict.hooks
    return {
        "updated_at": verdict.heard - offset_ms,
        "witnesses": witness_views(facts, hooks, offset_ms),
        "usage": spent.usage,
        "context": spent.context,
        "plan": spent.plan,
    }


def _stands(last: Shown, facts: Facts, verdict: Verdict) -> bool:
    """Whether nothing has happened that would be seen, but that somebody was heard."""
    before = last.verdict
    if verdict.ground is None:
        return False  # its end may be told of anew
    same = before.ground is verdict.ground or (
        before.state is verdict.state
        and before.requests is verdict.requests
        # Whether a held request is of any call: that may be heard of after it.
        and (not verdict.requests or last.facts.tools is facts.tools)
        and before.unread == verdict.unread
        and before.review == verdict.review
        and before.began == verdict.began
        and last.facts.turns is facts.turns
        and _live_alike(last, facts, verdict)
    )
    return same and _says_alike(last.facts, facts)


def _says_alike(a: Facts, b: Facts) -> bool:
    """Whether all that the view takes over of them as it stands, but for turns, is the very same."""
    return (
        a.meta is b.meta
        and a.process is b.process
        and a.first_prompt is b.first_prompt
        and a.last_prompt is b.last_prompt
        and a.born == b.born
        and a.commands is b.commands
        and a.queue is b.queue
        and a.report is b.report
        and a.agent == b.agent
    )


def _introduced(place: ViewedHost, session_id: str, facts: Facts, state: AgentState) -> SessionView:
    """With what few signals change."""
    started_at, about = facts.started_at, facts.about
    return SessionView(
        id=view_id(place.host_id, session_id),
        host_id=place.host_id,
        host=place.label,
        session_id=session_id,
        agent=facts.agent,
        state=state,
        reachability=place.reachability,
        updated_at=0,
        rank=0,
        started_at=None if started_at is None else started_at - place.offset_ms,
        title=facts.title,
        project=about("project"),
        cwd=about("cwd"),
        branch=about("branch"),
        model=about("model"),
        mode=about("mode"),
        version=about("version"),
        pid=facts.process.pid if facts.process is not None else None,
        worktree=about("worktree"),
        pr=about("pr"),
        last_prompt=shortened(facts.latest_prompt),
        last_answer=shortened(facts.last_answer),
        forked_from=about("forked_from"),
        mate=about("mate"),
        commands=command_views(facts, place.offset_ms),
        queue=queue_views(facts, place.offset_ms),
    )


def command_views(facts: Facts, offset_ms: int) -> tuple[CommandView, ...]:
    """Newest last."""
    told = sorted(facts.commands.items(), key=lambda each: (each[1].at, each[0]))
    return tuple(
        CommandView(named, it.verb, it.by, it.at - offset_ms, it.outcome, it.reason, it.request_id)
        for named, it in told
    )


def queue_views(facts: Facts, offset_ms: int) -> tuple[QueuedView, ...]:
    """The next first."""
    return tuple(
        QueuedView(
            it.id,
            shortened(it.text) or "",
            it.by,
            it.at - offset_ms,
            it.until - offset_ms,
            it.state,
        )
        for it in facts.queue.items
    )


def prompt_way(facts: Facts, verdict: Verdict) -> PromptWay | None:
    """Nobody types into a terminal at which something runs, or is asked."""
    if verdict.state.state == "session_ended":
        return None
    if verdict.state.state == "suspended":
        return "resume"
    if facts.queue.way == "inbox":
        return "inbox"
    rests = verdict.state.group is not AUTONOMOUS and not verdict.requests
    return None if facts.queue.way is None else "terminal" if rests else "queue"


def review_view(told: Review, offset_ms: int) -> ReviewView:
    words = []
    if told.commits:
        on = f" on {told.branch}" if told.branch else ""
        sha = f" ({told.sha[:7]})" if told.sha else ""
        words.append(f"{told.commits} commit{'s' * (told.commits > 1)}{on}{sha}")
    if told.opened:
        number = (told.pr or "").rpartition("/")[2]
        words.append(f"pull request #{number}" if number else "a pull request")
    since = told.since - offset_ms
    return ReviewView(", ".join(words), told.commits, since, told.sha, told.branch, told.pr)


def suspended_view(facts: Facts, state: AgentState, offset_ms: int) -> SuspendedView | None:
    told = facts.suspension
    if told is None or state.state != "suspended":
        return None
    return SuspendedView(told.at - offset_ms, told.by, told.auto, told.freed_bytes)


def report_view(facts: Facts, offset_ms: int) -> ReportView | None:
    told = facts.standing_report
    if told is None:
        return None
    return ReportView(told.status, told.at - offset_ms, told.issue, told.notes, told.by)


def shortened(text: str | None) -> str | None:
    if text is None or len(text) <= QUOTED_MAX:
        return text
    return f"{text[: QUOTED_MAX - 1]}…"


def _ended_at(facts: Facts, state: AgentState, offset_ms: int) -> int | None:
    """state: in the hub's time. None: somebody has put it aside, and it may live."""
    if state.state == "archived" and not (facts.ended or facts.left or facts.closing):
        return None
    return state.since if state.state == "session_ended" else facts.ended_at - offset_ms


NOTHING_KNOWN = Facts("")


def request_views(
    requests: Iterable[tuple[str, Request]], offset_ms: int = 0, facts: Facts = NOTHING_KNOWN
) -> tuple[RequestView, ...]:
    return tuple(
        [
            RequestView(
                request.request_id or key,
                request.kind,
                request.opened - offset_ms,
                request.tool,
                request.summary,
                request.agent_id,
                request.role,
                request.payload,
                None
                if request.hold is None
                else hold_view(request, request.hold, offset_ms, facts),
            )
            for key, request in requests
        ]
    )


#: What may be said to a request of which not all is shown, or whose collector does not bind all of it.
REFUSING = frozenset({"deny", "defer"})
#: Collectors cut longer lists and objects, and leave no trace of it.
MOST_WHOLE_ITEMS, MOST_WHOLE_FIELDS = 200, 20


def hold_view(request: Request, hold: Hold, offset_ms: int, facts: Facts) -> HoldView:
    """Nobody may allow what they cannot see whole, whatever else the collector would take.

    The binding is computed from what this view shows, so a request that somebody else wrote into the
    machine's stream binds to what it shows, and its collector refuses the decision.
    """
    verbs, partial = hold.verbs, not (request.payload and is_whole(request.payload))
    outdated, always = hold.version < HOLD_VERSION, tuple(hold.always or ())
    if partial or outdated:
        verbs = [verb for verb in verbs if verb in REFUSING or verb == EXTEND]
        binding = hold.binding
    else:
        about = request.kind, request.tool, request.role, request.summary, request.payload
        binding = binding_of(Displayed(facts.session_id, hold.cwd, *about, always))
    until = request.held + hold.for_ms - offset_ms
    told = (it for it in facts.commands.values() if it.request_id == request.request_id)
    agreed = tuple(it.by for it in told if it.outcome == "awaits_second")
    unverified = request.kind == "permission" and not _is_called(request, facts)
    is_allowed = not ALLOWING.isdisjoint(verbs)
    cautions = cautions_of(request.payload or {}, always) if is_allowed else ()
    doubts = agreed, unverified, cautions, hold.cwd, outdated
    return HoldView(binding, tuple(verbs), until, always, partial, hold.persons, *doubts)


def _is_called(request: Request, facts: Facts) -> bool:
    """Whether a call was heard of that asks so; its hook may be heard after the request's."""
    return request.tool_use_id is not None or any(
        call.digest is not None and call.digest == request.digest
        for calls in (facts.tools, facts.done)
        for call in calls.values()
    )


def is_whole(payload: object) -> bool:
    """Whether nothing of what is asked was cut, masked or kept back on its way.

    What is masked counts as well: a secret's place may hold a command of its own.
    """
    if isinstance(payload, str):
        return not payload.endswith("…") and "[redacted:" not in payload
    if isinstance(payload, list):
        return len(payload) < MOST_WHOLE_ITEMS and all(map(is_whole, payload))
    if isinstance(payload, dict):
        return len(payload) < MOST_WHOLE_FIELDS and all(map(is_whole, payload.values()))
    return True


def _live_alike(last: Shown, facts: Facts, verdict: Verdict) -> bool:
    before = last.facts
    return before.children is facts.children and (
        not facts.children
        or (
            before.drained == facts.drained
            and before.killed == facts.killed
            and last.verdict.children is verdict.children
        )
    )


def child_views(facts: Facts, running: frozenset[str], offset_ms: int = 0) -> tuple[ChildView, ...]:
    """Every child known, those that run first, and each of the others with its end."""
    if not facts.children:
        return ()
    known = [(key not in running, -child.last, key, child) for key, child in facts.children.items()]
    known.sort()  # of no two the key is the same
    found = []
    for rests, _, key, child in known:
        status, finished = end_of(facts, child) if rests else ("running", 0)
        started_at = child.started - offset_ms if child.started else None
        finished_at = finished - offset_ms if finished else None
        about = child.type, child.description
        found.append(ChildView(key, child.kind, status, started_at, finished_at, *about))
    return tuple(found)


def witness_views(
    facts: Facts, hooks: str | None = None, offset_ms: int = 0
) -> tuple[WitnessView, ...]:
    """Who has been heard, in a fixed order, and hooks that should have been (heard_at 0: never).

    hooks: what is wrong with them.
    """
    found: list[WitnessView] = []
    if facts.hook_at or hooks:
        found.append(WitnessView("hook", facts.hook_at and facts.hook_at - offset_ms, hooks))
    if facts.transcript_at:
        found.append(WitnessView("transcript", facts.transcript_at - offset_ms))
    if facts.registry_at:
        found.append(WitnessView("registry", facts.registry_at - offset_ms))
    # Whoever names a process, it is the process table that has been asked when it began.
    process_at = facts.process_at
    if facts.process is not None and facts.process.seen > process_at:
        process_at = facts.process.seen
    if process_at:
        found.append(WitnessView("process", process_at - offset_ms))
    if facts.statusline_at:
        found.append(WitnessView("statusline", facts.statusline_at - offset_ms))
    return tuple(found)


def only_ticks(before: SessionView, after: SessionView) -> bool:
    """Nothing but what grows by itself while an agent works: such a change can wait a moment."""
    names = ("usage", "context", "plan")
    ticked = {name: getattr(before, name) for name in names}
    if ticked == {name: getattr(after, name) for name in names}:
        return False
    heard = before.witnesses if _still(before) == _still(after) else after.witnesses
    ticked |= {"updated_at": before.updated_at, "witnesses": heard}
    return before == replace(after, **ticked)


def _still(view: SessionView | HostView) -> list[Any]:
    """Its witnesses, but for when each was heard."""
    return [replace(each, heard_at=0) for each in view.witnesses]


def in_hub_time(witnesses: Iterable[HostWitness], offset_ms: int) -> tuple[HostWitness, ...]:
    return tuple(
        # 0 is no time but "never"
        replace(each, heard_at=each.heard_at and each.heard_at - offset_ms)
        for each in witnesses
    )


def limits_that_hold(
    limits: Iterable[RateLimit], now: int, agent: str = ""
) -> tuple[RateLimitView, ...]:
    """Without those that have been reset since they were told. agent: see `RateLimitView`."""
    return tuple(
        RateLimitView(each.name, each.used_percent, each.resets_at, agent)
        for each in limits
        if not each.resets_at or each.resets_at > now
    )


def plan_view(gauges: Gauges) -> PlanView | None:
    """All limits, also those that were reset since: when, they tell themselves."""
    if gauges.plan is None or not gauges.plan[1]:
        return None
    return PlanView(gauges.plan[1], limits_that_hold(gauges.limits[1] if gauges.limits else (), 0))


def same_host(a: HostView, b: HostView) -> bool:
    """Alike but for what ticks by itself: such a difference is not worth a message."""
    heard = a.witnesses if _still(a) == _still(b) else b.witnesses
    ticked = {name: getattr(a, name) for name in ("last_seen", "lag_ms", "applied", "backlog")}
    return a == replace(b, **ticked, witnesses=heard)


def summarise(
    views: Iterable[SessionView], usd: float | None = None, tokens: int | None = None
) -> Summary:
    """Counts of the sessions whose host can be reached, and apart from them those of the others.

    usd, tokens: of today, on all hosts: what was spent is spent, whoever is out of reach by now.
    """
    count = dict.fromkeys(Group, 0)
    offline = unread = reviews = 0
    for view in views:
        if view.reachability == "offline":
            offline += 1
            continue
        count[view.state.group] += 1
        unread += view.unread
        reviews += view.review is not None
    return Summary(
        needs_you_count=count[Group.NEEDS_YOU],
        autonomous_count=count[Group.AUTONOMOUS],
        delivered_count=count[Group.DELIVERED],
        offline_count=offline,
        unread_count=unread,
        review_count=reviews,
        total_cost_today_usd=usd,
        total_tokens_today=tokens,
    )


# The one order of sessions: who needs a human first. Every client sorts by the rank made here.


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
    group, away = state.group, 30 if reachability == "offline" else 0
    if group is NEEDS_YOU:
        known = UNKNOWN_URGENCY if urgency is None else urgency
        return (away + known) * TIME_DIGITS + _digits(state.since)
    if group is AUTONOMOUS:
        return (away + 11) * TIME_DIGITS - 1 - _digits(began)
    return (away + 21) * TIME_DIGITS - 1 - _digits(state.since)


def _digits(at: int) -> int:
    return at if 0 <= at < TIME_DIGITS else min(max(at, 0), TIME_DIGITS - 1)


def with_display(view: SessionView, display: DisplayView) -> SessionView:
    """The view as domains show it; where a human is needed, a domain's urgency decides its rank."""
    hint = display.urgency_hint
    if hint is None or view.state.group is not NEEDS_YOU:
        return replace(view, display=display)
    ranked = rank(view.state, view.reachability, hint, 0)
    return replace(view, display=display, rank=ranked)
