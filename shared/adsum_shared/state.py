"""What the hub sends to everyone: the states of sessions, views of sessions and hosts, reports of usage.

And how a name is refused that none of them bears.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Literal

import msgspec

from adsum_shared.signals import ToolRole


class Group(StrEnum):
    """The operator's three questions. Closed: a new state joins one of these, never a fourth."""

    NEEDS_YOU = "needs_you"
    AUTONOMOUS = "autonomous"
    DELIVERED = "delivered"


StateSource = Literal["hook", "transcript", "registry", "process", "fallback"]
Reachability = Literal["live", "late", "offline"]
WitnessName = Literal["hook", "transcript", "registry", "process", "statusline"]

#: The states we know. They are an open set: this is no enum of them. Of those that need you the
#: first is attended to first.
_STATES = {
    Group.NEEDS_YOU: (
        *("needs_permission", "awaiting_input", "error", "awaiting_approval"),
        *("budget_exceeded", "stuck", "idle"),
    ),
    Group.AUTONOMOUS: (
        *("thinking", "acting", "delegating", "compacting", "retrying", "waiting_for_agent"),
        *("queued", "unknown"),
    ),
    Group.DELIVERED: ("task_complete", "session_ended", "suspended", "archived"),
}
GROUP_OF = {state: group for group, states in _STATES.items() for state in states}
#: From 1 on. A needs_you state not listed here sorts before `stuck`.
URGENCY = {state: urgency for urgency, state in enumerate(_STATES[Group.NEEDS_YOU], 1)}
UNKNOWN_URGENCY = 5
#: A session that has just been opened and waits for its first prompt.
LEAST_URGENT = 8
#: No state: what filters and rules call sessions with a `review`, whatever their state.
AWAITING_REVIEW = "awaiting_review"
#: Nothing of such a session can be missing: it is over, or set aside by a human.
OVER = frozenset({"session_ended", "suspended", "archived"})


class UsageView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was used up. cache_write_tokens: for five minutes and for an hour.

    cost_usd: None if there are tokens and none of them has a price. cost_source: `reported` by the
    agent itself; `computed` from prices; `mixed`; `plan`: none, for a plan pays. unpriced_tokens: not
    part of cost_usd.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    web_searches: int = 0
    cost_usd: float | None = None
    cost_source: Literal["reported", "computed", "mixed", "plan"] = "computed"
    unpriced_tokens: int = 0


class ContextView(msgspec.Struct, frozen=True, omit_defaults=True):
    """How full the context is. size: None where nobody says."""

    tokens: int
    size: int | None = None


class RateLimitView(msgspec.Struct, frozen=True, omit_defaults=True):
    """name: `five_hour`, `seven_day`. resets_at: hub clock, ms; 0 = not told.

    agent: whose limit a machine tells of, its title; "" for the default agent's.
    """

    name: str
    used_percent: float
    resets_at: int = 0
    agent: str = ""


class PlanView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What pays for a session whose tokens are not billed. limits: as the session told last."""

    name: str
    limits: tuple[RateLimitView, ...] = ()


class ScanProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A machine's reading of its history; all 0 = it still looks for it.

    left_s: how long it will go on; None = not known yet.
    """

    files: int
    files_done: int
    bytes: int
    bytes_done: int
    bytes_per_s: int = 0
    left_s: float | None = None

    @property
    def percent(self) -> int:
        """Never all of it, for what is read has still to be reported."""
        return min(99, 100 * self.bytes_done // self.bytes) if self.bytes > 0 else 0


class AgentState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a session is doing, and why we believe it.

    confidence is 0..1, source the witness that decided, since milliseconds of host wall clock in
    facts and of the hub's clock in views. context is raw material for domain layers.
    """

    group: Group
    state: str
    label: str
    confidence: float
    source: StateSource
    since: int
    context: dict[str, Any] | None = None


class HoldView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A request that can be decided from elsewhere, until then, by these verbs, with this binding.

    If `extend` is among the verbs, it is held for seconds, and until then only while clients that show it
    give that command.
    cwd: where the tool would run; empty if not known. outdated: its collector is too old to compare all
    that is shown, so it can be denied or given back, not allowed.
    always: in words, the rules that `always` would add. partial: not all that is asked is shown
    here, so nobody here may allow it: at the terminal alone it is seen whole. persons: how many must
    decide the same before anything is allowed; agreed: the names of those who have. unverified: no
    call of the agent's was heard of that it could belong to, so another program may have made it up.
    cautions: sentences that say why a person may misread it. A client then asks twice to allow it.
    """

    binding: str
    verbs: tuple[str, ...]
    until: int
    always: tuple[str, ...] = ()
    partial: bool = False
    persons: int = 1
    agreed: tuple[str, ...] = ()
    unverified: bool = False
    cautions: tuple[str, ...] = ()
    cwd: str = ""
    outdated: bool = False


class RequestView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """hold: None: it can be answered at the terminal only."""

    id: str
    kind: str
    opened_at: int
    tool: str | None = None
    summary: str | None = None
    agent_id: str | None = None
    role: ToolRole = "other"
    payload: dict[str, Any] | None = None
    hold: HoldView | None = None


class CommandView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What became of a command, as its machine reported last; see `signals.CommandReported`."""

    id: str
    verb: str
    by: str
    at: int
    outcome: str
    reason: str | None = None
    request_id: str | None = None


class SuspendedView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A session whose process was ended while it rested, to be taken up again under the same id.

    since: hub clock, ms. by: who wanted it; auto: nobody, it had rested for too long. freed_bytes: of
    memory.
    """

    since: int
    by: str = ""
    auto: bool = False
    freed_bytes: int = 0


class QueuedView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message that waits for its session; see `signals.QueuedItem`."""

    id: str
    text: str
    by: str
    at: int
    until: int
    state: str = "waiting"


#: Which way a prompt takes. terminal: at once, as if it was typed there; inbox: at once, as from
#: another session; queue: at the end of the turn; resume: it is suspended, and taken up again by it.
PromptWay = Literal["terminal", "inbox", "queue", "resume"]


class ActivityEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the last hundred things a session did. kind: the signal's. at: hub clock, ms."""

    at: int
    kind: str
    text: str = ""
    agent_id: str | None = None


class WitnessView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One witness of one session. heard_at: its latest word. problem: `missing`, `doubled`."""

    name: WitnessName
    heard_at: int
    problem: str | None = None


#: Causes in `HostWitness.counts`: files of sessions that nobody reads, and their MB.
COMPRESSED = "compressed, not read"
COMPRESSED_MB = "compressed, not read, MB"


class HostWitness(msgspec.Struct, frozen=True, omit_defaults=True):
    """One witness of one machine.

    state: `ok`; `silent`, nothing heard yet, which is no fault; `missing`, it should be there and
    is not; `trouble`. heard_at: 0 = never. counts: what went wrong, cause -> how often since the
    collector started. note: one sentence for people, with the next step.
    """

    name: str
    state: str = "silent"
    heard_at: int = 0
    counts: dict[str, int] = {}
    note: str | None = None


class ChildView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    id: str
    kind: str
    status: str
    started_at: int | None = None
    finished_at: int | None = None
    type: str | None = None
    description: str | None = None


class ReviewView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A turn that has ended left this for a human to review. label: all of it, for people.

    commits: made since the last prompt; sha and branch of the latest. pr: the address of a pull
    request that was opened. What the machine keeps to itself is None. since: when the last was made.
    """

    label: str
    commits: int
    since: int
    sha: str | None = None
    branch: str | None = None
    pr: str | None = None


class ReportView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the agent itself said of its work last, since a human last wrote to it.

    status: `passed`, `blocked` or `failed`. issue: what it is about. by: the name it gave itself.
    """

    status: str
    at: int
    issue: str | None = None
    notes: str | None = None
    by: str | None = None


Tone = Literal["plain", "good", "warning", "bad"]


class Chip(msgspec.Struct, frozen=True, omit_defaults=True):
    """A few words beside the label. tone: `plain`, `good`, `warning` or `bad`."""

    text: str
    tone: Tone = "plain"


class DisplayView(msgspec.Struct, frozen=True, omit_defaults=True):
    """How domains would show a session; what is absent stays as state and group have it.

    icon: by name; unknown ones change nothing. urgency_hint: sorts it instead of urgency, where
    there is one; 1 is attended to first. domains: whose word this is.
    """

    label: str | None = None
    icon: str | None = None
    urgency_hint: int | None = None
    chips: tuple[Chip, ...] = ()
    domains: tuple[str, ...] = ()


class SessionView(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One session as every client sees it. All times: milliseconds of the *hub's* clock.

    id is `host_id:session_id`. urgency is None outside needs_you. rank is the session's place in the
    one order that every client shows: ascending, ties by id. prompt_way: None: it takes no prompt.
    mate: it is a team mate, and this the id of the child that its lead's session shows.
    """

    id: str
    host_id: str
    host: str
    session_id: str
    agent: str
    state: AgentState
    reachability: Reachability
    updated_at: int
    rank: int
    started_at: int | None = None
    urgency: int | None = None
    unread: bool = False
    title: str | None = None
    project: str | None = None
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    mode: str | None = None
    version: str | None = None
    pid: int | None = None
    requests: tuple[RequestView, ...] = ()
    children: tuple[ChildView, ...] = ()
    witnesses: tuple[WitnessView, ...] = ()
    incomplete: bool = False
    worktree: str | None = None
    pr: str | None = None
    last_prompt: str | None = None
    last_answer: str | None = None
    forked_from: str | None = None
    ended_at: int | None = None
    usage: UsageView | None = None
    context: ContextView | None = None
    plan: PlanView | None = None
    display: DisplayView | None = None
    commands: tuple[CommandView, ...] = ()
    review: ReviewView | None = None
    suspended: SuspendedView | None = None
    queue: tuple[QueuedView, ...] = ()
    prompt_way: PromptWay | None = None
    report: ReportView | None = None
    mate: str | None = None


class GapView(msgspec.Struct, frozen=True):
    """Numbers of one machine that will never come. at: hub clock, ms; no later than it was met.

    reason: `cap`, `corrupt`, `copy`, `rollback`, `retention`, `lost`, `undecodable`, or a word of
    a newer version. numbers: how many; 0 = nobody knows.
    """

    at: int
    reason: str
    numbers: int = 0


#: What a machine's owner lets be done from elsewhere. approve: decisions on what a session itself
#: asks. full: prompts, queue, interrupt, suspend and resume too.
Control = Literal["off", "approve", "full"]


class HostAgent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kind of agent that a machine's collector knows. title: for people.

    resume: the command that takes a session up again, whose id follows it; "": there is none.
    limits: of one that is known from its files alone, that and what they do not tell.
    """

    name: str
    title: str
    resume: str = ""
    limits: str = ""


class HostView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One machine. clock_offset_ms: its clock minus the hub's; lag_ms: its newest batch's delay.

    limits: of its user's account, as its sessions told last. scan: while it reads its history.
    backlog: signals on its disk which this hub has not applied. problem: sentences for people.
    gaps: the latest, newest last. set_aside: what could not be read or came from a stranger, since
    this hub started. via: what its signals come through; None: Redis alone.
    agents: what its collector knows. control: what its owner lets be done from elsewhere.
    """

    id: str
    label: str
    reachability: Reachability
    last_seen: int
    sessions: int = 0
    version: str | None = None
    clock_offset_ms: int = 0
    lag_ms: int | None = None
    backlog: int = 0
    applied: int = 0
    problem: str | None = None
    witnesses: tuple[HostWitness, ...] = ()
    gaps: tuple[GapView, ...] = ()
    set_aside: int = 0
    limits: tuple[RateLimitView, ...] = ()
    scan: ScanProgress | None = None
    via: Literal["hub"] | None = None
    agents: tuple[HostAgent, ...] = ()
    control: Control = "off"


class HubTrouble(msgspec.Struct, frozen=True, omit_defaults=True):
    """What keeps a hub's list from being true, or machines from reporting to it.

    problem: sentences for people, the next step last. since: hub clock, ms. blind: the hub cannot
    read Redis, so its list stands still, as it was at `since`.
    """

    problem: str
    since: int
    blind: bool = False


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """Counts over live hosts only: an offline host's sessions are nobody's present work."""

    needs_you_count: int = 0
    autonomous_count: int = 0
    delivered_count: int = 0
    offline_count: int = 0
    unread_count: int = 0
    review_count: int = 0
    total_cost_today_usd: float | None = None
    total_tokens_today: int | None = None


class History(msgspec.Struct, frozen=True):
    """Sessions that are over, the latest first. total counts what matches, before limit and offset.

    notes: for people, on what was asked for and is not there.
    """

    schema: int
    now: int
    total: int
    sessions: list[SessionView]
    notes: list[str] = []


# Reports of what was used up, and budgets.


class UsageRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a usage report. key: the day, host id, project, model or session's view id.

    label: what a person knows it by.
    """

    key: str
    label: str
    usage: UsageView
    sessions: int = 0


class UsagePoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """One day of a series. cost_usd: None if none of its tokens has a price."""

    day: str
    tokens: int = 0
    cost_usd: float | None = None


class UsageSeries(msgspec.Struct, frozen=True):
    """Day by day what a host, project or model used. key: as a row's; None = all others."""

    key: str | None
    label: str
    points: list[UsagePoint]


class UsageReport(msgspec.Struct, frozen=True):
    """since, until: ISO dates, both included. by: what a row stands for. notes: for people.

    sessions: in all of it. series: where `split` was asked for, those with the most dollars or
    tokens, then all others as one. before: in as many days before `since`, where asked for.
    """

    schema: int
    now: int
    since: str
    until: str
    by: Literal["day", "host", "project", "model", "agent", "session"]
    rows: list[UsageRow]
    total: UsageView
    notes: list[str]
    sessions: int = 0
    split: Literal["host", "project", "model", "agent"] | None = None
    series: list[UsageSeries] = []
    before: UsageView | None = None


class BudgetUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who is under a budget, and how far. key: the host's id, the project, the session's view id.

    since: when the limit was reached, by the machine's own clock, ms; None = it was not, or nobody
    knows.
    """

    key: str
    label: str
    spent_usd: float
    since: int | None = None


class BudgetView(msgspec.Struct, frozen=True):
    """One entry of the hub's budgets. name: its pattern. when: for people, behind a sum.

    uses: the fullest first; more: how many others have spent anything of it.
    """

    scope: Literal["session", "project", "host", "team"]
    usd: float
    per: Literal["session", "day", "7 days", "30 days"]
    name: str | None
    when: str
    uses: list[BudgetUse]
    more: int


class Budgets(msgspec.Struct, frozen=True):
    schema: int
    now: int
    budgets: list[BudgetView]


#: Named in a sentence, the most alike first; and of each name so many characters.
_NAMED = 8
_NAME_MAX = 60


def unknown_name(kind: str, name: str | None, known: Iterable[str]) -> str:
    """A sentence; "" if there is such a name. "" is a name as well: of sessions without a project."""
    names = set(known)
    if name is None or name in names:
        return ""
    names.discard("")
    near = get_close_matches(name, sorted(names), n=_NAMED, cutoff=0.5)
    order = [*near, *sorted(names - set(near))]
    more = f" and {len(order) - _NAMED} more" if len(order) > _NAMED else ""
    listed = ", ".join(each[:_NAME_MAX] for each in order[:_NAMED])
    there = f"; there are: {listed}{more}" if listed else ", nor any other yet"
    return f"There is no {kind} `{name[:_NAME_MAX]}`{there}."
