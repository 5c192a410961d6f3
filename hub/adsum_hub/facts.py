"""Facts hold what the witnesses of a session reported. Conclusions are the verdict's."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from adsum_shared.signals import (
    LATENESS,
    Delivery,
    Hold,
    ModelCost,
    QueuedItem,
    RateLimit,
    ToolRole,
)

# Bounds. A snapshot keeps the facts of every session, so each map has an end. What is pruned is
# always the oldest *closed* thing first: its late duplicate can then at worst be born again as a
# closed one, because a finish is a witness of its own. Batches are applied once by number, so
# duplicates come soon after the original or never; 20 closed tools is far beyond "soon".
TOOLS_MAX = 32
TOOLS_KEPT = 20  # pruned to this at once, so that not every call pays for it
#: Of these, so many are at hand: `tools` is copied with each call and looked through with each
#: verdict, so calls that ended a while ago stand apart.
AT_HAND_MAX = 6
AT_HAND_KEPT = 1
REQUESTS_MAX = 16
CHILDREN_MAX = 48
TASKS_MAX = 64
DELIVERED_MAX = 64
TURNS_MAX = 12
RELEASED_MAX = 16
COMMANDS_MAX = 20
QUEUE_MAX = 20
USAGE_MAX = 1024  # a year's days with several models each: none may be lost from the sums
ACTIVITY_MAX = 100

#: Two reports of a start time this close, for one pid, name one process: each witness derives the
#: start from another clock (the CLI's own stamp, kernel ticks since boot), so they never agree.
SAME_START = 10_000


def earliest(a: int, b: int) -> int:
    """The lesser of two times of which 0 means never."""
    return b if not a or (b and b < a) else a


def first_witness(a: int, a_source: str, b: int, b_source: str) -> str:
    """Who is credited with something: who knew it first; of two at one instant, by name."""
    if a == b:
        return min(a_source, b_source) if a else b_source
    return a_source if a and earliest(a, b) == a else b_source


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One prompt id's turn; the key "" stands for witnesses that name none.

    first: earliest witness of any kind, which orders prompt ids. prompt: earliest witness of the
    prompt that opened it (latest under ""). reopened: latest other opener, a pruned tool start or
    a hook's feedback that sent the agent back to work. ended, failed, interrupted: latest witness
    of each; final: of an end after the user's own hooks; said: when the last message was. 0 = never.
    """

    first: int
    prompt: int = 0
    hook_prompt: int = 0
    typed: bool = False
    reopened: int = 0
    ended: int = 0
    failed: int = 0
    interrupted: int = 0
    final: int = 0
    last_message: str | None = None
    said: int = 0
    error: str | None = None
    source: str = "hook"  # of its latest close

    @property
    def closed(self) -> int:
        latest = self.failed if self.failed > self.ended else self.ended
        return self.interrupted if self.interrupted > latest else latest


class Tool(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One tool call. first: earliest witness of its start *or* finish. 0 = not witnessed."""

    tool: str
    first: int
    role: ToolRole = "other"
    server: str | None = None
    started: int = 0
    finished: int = 0
    hooked: int = 0  # when a hook said it started; only such starts can carry a request
    posted: int = 0  # when a hook last said it is over
    ok: bool = True
    denied: bool = False
    is_interrupt: bool = False
    answered: bool = False
    background: bool = False
    agent_id: str | None = None
    prompt_id: str | None = None
    summary: str | None = None
    digest: str | None = None
    timeout_ms: int | None = None
    error: str | None = None
    child_id: str | None = None
    source: str = "hook"


class Request(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The agent asked a human. closed: earliest witness that it is over, 0 = none yet.

    hold: the latest, while it stands; held: since when. `request_id` is then the hold's.
    asked: when a hook last asked that names no call, and was found to be of this one.
    """

    kind: str
    opened: int
    closed: int = 0
    tool: str | None = None
    role: ToolRole = "other"
    server: str | None = None
    tool_use_id: str | None = None
    request_id: str | None = None
    agent_id: str | None = None
    prompt_id: str | None = None
    digest: str | None = None
    summary: str | None = None
    payload: dict[str, Any] | None = None
    suggestions: list[Any] | None = None
    source: str = "hook"
    hold: Hold | None = None
    held: int = 0
    asked: int = 0


class Suspension(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The latest; see `SessionSuspended`."""

    at: int
    by: str = ""
    auto: bool = False
    freed_bytes: int = 0
    undone: bool = False


class ReportedCommand(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a machine last said of a command; see `CommandReported`."""

    at: int
    verb: str
    outcome: str
    by: str = ""
    request_id: str | None = None
    reason: str | None = None


class Queue(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a machine said last of what waits for the session; see `QueueReported`."""

    at: int
    items: tuple[QueuedItem, ...] = ()
    way: str | None = None


class WorkReport(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The agent's own word of its work; see `WorkReported`, whose report_id is the id."""

    at: int
    id: str
    status: str
    issue: str | None = None
    notes: str | None = None
    by: str | None = None


class Child(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Whatever works on without the main agent.

    started: earliest start, restarted: latest (a finished agent can be sent on its way again).
    active: latest tool start of its own. finished: latest finish; notified: when its parent was
    told. last: latest witness of any kind. until: when it wakes its parent, if that was told. 0 = never.
    """

    kind: str
    started: int = 0
    restarted: int = 0
    active: int = 0
    finished: int = 0
    notified: int = 0
    last: int = 0
    until: int = 0
    status: str = "running"
    type: str | None = None
    description: str | None = None
    source: str = "hook"

    @property
    def running(self) -> bool:
        # A tool start may be a hook stamped late, a start names the new run itself.
        return self.restarted > self.finished or self.active > self.finished + LATENESS


class Task(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    created: int = 0
    completed: int = 0
    subject: str | None = None


class SessionProcess(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The session's latest (pid, start time).

    seen: when it was first reported. before: when the latest of those before it went, 0 = unknown.
    again: since when it has this session, if not since its start; heir: that is when another one left
    it. See `signals.ProcessSeen`.
    """

    pid: int
    started: int = 0
    seen: int = 0
    gone: int = 0
    before: int = 0
    first_of_all: bool = True  # no other process held this session before
    again: int = 0
    heir: bool = False

    @property
    def began(self) -> int:
        """Since when it is the one: of several that have had the session, the latest by this counts."""
        return self.again or self.started or self.seen

    def outlives(self, at: int) -> bool:
        """Whether what a hook said at `at` was the end of the other of two terminals on the session.

        A hook does not say which. The registry does, by its file that has gone, and the hook can be
        later than that.
        """
        return self.heir and at <= self.again + LATENESS and not self.gone


class Status(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The registry's newest word, by its own stamp.

    waiting: since when it has been `waiting`; released: when it last ceased to be. busy: when it last
    began to be. rested: its last word at rest, by that one's stamp; shell: it was `shell`, not `idle`.
    worked: when the `busy` before that rest began. dialogs, shells, host: see `StatusReported`.
    """

    at: int
    seen: int
    status: str | None = None
    waiting_for: str | None = None
    pid: int | None = None
    started: int = 0
    waiting: int = 0
    released: int = 0
    busy: int = 0
    rested: int = 0
    worked: int = 0
    shell: bool = False
    dialogs: bool = False
    shells: bool = True
    host: str | None = None


def same_process(process: SessionProcess | Status, pid: int | None, started: int) -> bool:
    if process.pid != pid:
        return False
    if not process.started or not started:
        return True
    return abs(process.started - started) <= SAME_START


class Ended(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """heard: when the collector learned of it; kept where a rule waits from then on."""

    at: int
    reason: str
    source: str = "hook"
    heard: int = 0


class Retry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    at: int
    attempt: int = 1
    max: int | None = None
    in_ms: int | None = None
    source: str = "transcript"


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """As `UsageTotalled`, whose day, model, fast, geo and long are its key."""

    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_5m_tokens: int = 0
    cache_1h_tokens: int = 0
    web_searches: int = 0


class Cost(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one witness reported last of the session's dollars; see `CostReported`."""

    at: int
    cost_usd: float
    models: dict[str, ModelCost] | None = None


class Gauges(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Each with when it was told; see `GaugesReported`."""

    context_tokens: tuple[int, int] | None = None
    context_size: tuple[int, int] | None = None
    limits: tuple[int, tuple[RateLimit, ...]] | None = None
    plan: tuple[int, str] | None = None


class ActivityNote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    at: int
    kind: str
    text: str
    agent_id: str | None = None


class Budget(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Told that it is exceeded, or found so by the hub. at: since when.

    scope: whose it is; name: of which project or host. per: in what time, in words.
    """

    at: int
    spent: float | None = None
    limit: float | None = None
    name: str | None = None
    scope: str | None = None
    per: str = ""


#: By day: (when, units by then). See fold.
Trail = dict[str, tuple[tuple[int, int], ...]]


class Facts(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Everything told about one session. All times: ms of its host's wall clock, 0 = never.

    Registers that two streams write are minima, maxima or ordered by event time, so the order in
    which signals arrive does not matter. (Rejected: a hold-back queue of 500 ms that sorts; this
    makes it unnecessary. Rejected: a "current state" that each signal moves; no order-tolerance.)
    """

    session_id: str
    agent: str = ""  # as the earliest signal calls it

    turns: dict[str, Turn] = {}
    tools: dict[str, Tool] = {}
    done: dict[str, Tool] = {}  # calls that ended a while ago; together `calls`
    requests: dict[str, Request] = {}
    released: dict[str, int] = {}
    unheld: dict[str, int] = {}  # request id -> when its hold ended
    commands: dict[str, ReportedCommand] = {}
    queue: Queue = Queue(0)
    report: WorkReport | None = None  # the latest
    children: dict[str, Child] = {}
    tasks: dict[str, Task] = {}
    #: by call: when it was first told, and what it made; apart from calls, which are pruned
    delivered: dict[str, tuple[int, tuple[Delivery, ...]]] = {}

    queued: int = 0
    dequeued: int = 0
    drained: int = 0  # latest Stop that listed what still runs: what it left out does not
    killed: int = 0  # latest word that every subagent was killed
    first_prompt: tuple[int, str] | None = None
    last_prompt: tuple[int, str] | None = None

    start: tuple[int, str] | None = None  # latest session.started: when, reason
    born: int = 0  # earliest witness of the session at all
    known: int = 0  # when its collector first learned of it: what is older, it has read up
    resumed: int = 0
    ended: Ended | None = None  # latest, by those who speak for the session
    left: Ended | None = None  # latest, by the registry: it named it no longer
    closing: Ended | None = None  # latest, by the transcript: its cost report was written
    named: int = 0  # latest report by the registry, collector time
    engaged: int = 0  # latest stamp under which it was busy, waiting or had a shell
    process: SessionProcess | None = None
    status: Status | None = None

    compacting: int = 0
    compacted: int = 0
    commanded: int = 0  # latest command of the terminal's own that was over
    retry: Retry | None = None
    progress: int = 0  # latest main output that is no tool: a message shown, a transcript line

    hook_at: int = 0
    transcript_at: int = 0
    registry_at: int = 0
    process_at: int = 0
    statusline_at: int = 0
    moved: int = 0  # latest signal that means more than "alive"
    witnessed: bool = False  # by a signal that no reading of history gives
    doubled: int = 0  # latest time that one call's hook was delivered twice
    still: tuple[int, bool | None] = (0, None)  # latest time its process was; connected

    dismissed: int = 0
    suspension: Suspension | None = None
    read: int = 0
    budget: Budget | None = None
    budget_answered: int = 0

    meta: dict[str, tuple[int, str]] = {}
    usage: dict[str, Usage] = {}  # by `usage_key`
    costs: dict[str, Cost] = {}  # by who reported it
    trail: Trail = {}  # by day
    used_at: int = 0  # latest report of usage that changed it
    gauges: Gauges = Gauges()
    activity: tuple[ActivityNote, ...] = ()

    @property
    def updated_at(self) -> int:
        latest = self.hook_at
        if self.transcript_at > latest:
            latest = self.transcript_at
        if self.registry_at > latest:
            latest = self.registry_at
        if self.process_at > latest:
            latest = self.process_at
        return self.statusline_at if self.statusline_at > latest else latest

    @property
    def calls(self) -> dict[str, Tool]:
        return {**self.done, **self.tools}

    def call(self, tool_use_id: str) -> Tool | None:
        return self.tools.get(tool_use_id) or self.done.get(tool_use_id)

    @property
    def started_at(self) -> int | None:
        known = [at for at in (self.born, self.process.started if self.process else 0) if at]
        return min(known, default=None)

    @property
    def worked(self) -> bool:
        """Some witness saw it do something, so it is or was a real session."""
        return bool(
            self.tools
            or self.requests
            or self.children
            or self.compacting
            or self.transcript_at
            or self.engaged
            or any(turn.prompt or turn.closed for turn in self.turns.values())
        )

    @property
    def materialised(self) -> bool:
        """Whether to list it at all.

        A SessionStart alone is not enough: a resume can announce an id that never lives, and the
        registry can name such a phantom for a tenth of a second. So the registry's word counts
        only as long as the registry stands by it. Nor is what it names listed before it has shown
        its prompt box, which it tells by its first status: until then somebody chooses what to
        resume, under an id that never lives, or is asked whether to trust a directory. A pid that
        only the SessionStart hook names proves the process, not the session: the phantom has the
        same one. And what nobody saw alive is history.
        """
        if not self.lived:
            return False
        if self.worked:
            return True
        if self.ended is not None or (self.left is not None and self.left.at >= self.named):
            return False
        if self.named:
            return self.status is not None or self.start is not None
        # Hooks told nothing but that a process lives: it may be one in reserve, see `signals.SPARE`.
        reserve = self.hook_at > 0 and self.start is None
        return self.process is not None and self.process_at > 0 and not reserve

    @property
    def lived(self) -> bool:
        """Some witness saw it alive; else it is history that was read up from its files.

        Of a session without a process its transcript tells only what it used, what it was about
        and that it is over. Each of the other witnesses speaks of what is there now.
        """
        saved_before = self.hook_at or self.registry_at or self.process or self.turns or self.tools
        return self.witnessed or bool(saved_before)  # by a version that did not look for it

    @property
    def past(self) -> bool:
        """Whether it belongs to history, and there is anything to tell of it."""
        known = self.usage or self.costs or self.meta or self.closing or self.ended
        return bool(known) and not self.lived

    @property
    def answered_at(self) -> int:
        """When a human last wrote something to it, or answered for its budget."""
        return max(self.typed_at, self.queued, self.budget_answered)

    @property
    def ended_at(self) -> int:
        """The latest word of an end; of one that nobody told of, the last that was heard."""
        ends = [end.at for end in (self.ended, self.left, self.closing) if end is not None]
        return max(ends, default=0) or self.updated_at or self.born

    @property
    def typed_at(self) -> int:
        """The latest prompt a human typed that opened a turn."""
        latest = 0
        for turn in self.turns.values():
            if turn.typed and turn.prompt > latest:
                latest = turn.prompt
        return latest

    @property
    def standing_report(self) -> WorkReport | None:
        """None once a human has written to the session since: it is at something else now."""
        told = self.report
        return told if told is not None and told.at >= self.typed_at else None

    @property
    def title(self) -> str | None:
        """A name somebody gave, the agent's own, the first prompt, the registry's made-up name."""
        given = self.about("title") or self.about("ai_title")
        if given is None and self.first_prompt is not None:
            return self.first_prompt[1]
        return given or self.about("name")

    @property
    def project(self) -> str | None:
        return self.about("project")

    @property
    def model(self) -> str | None:
        return self.about("model")

    @property
    def latest_prompt(self) -> str | None:
        """What a human typed last: by whichever witness told of it later."""
        told = [each for each in (self.meta.get("last_prompt"), self.last_prompt) if each]
        return max(told)[1] if told else None

    @property
    def last_answer(self) -> str | None:
        said, told = 0, self.meta.get("last_answer")
        for turn in self.turns.values():
            if turn.last_message and turn.said > said:
                said, told = turn.said, max(told or (0, ""), (turn.said, turn.last_message))
        return told[1] if told else None

    def about(self, name: str) -> str | None:
        held = self.meta.get(name)
        return (held[1] or None) if held else None  # an empty text: no more


def subagents_call(facts: Facts, form: Request) -> Tool | None:
    """The call of a subagent's for which a server asks: the form's own hook names no agent.

    Of several the last to end, as nobody tells which; none if the main agent's may be it.
    """
    at, calls = form.opened, facts.calls.values()
    ran = [
        c for c in calls if c.server == form.server and c.first <= at and not 0 < c.finished < at
    ]
    if not ran or any(call.agent_id is None for call in ran):
        return None
    return max(ran, key=lambda call: call.finished or math.inf)
