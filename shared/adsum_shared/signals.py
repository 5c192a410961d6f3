"""Signals: the agent-neutral vocabulary in which every witness reports what a session did or met.

A signal is one frozen struct per kind; on the wire it is a flat JSON object whose `kind` names the
struct. Kinds this version does not know decode to `UnknownSignal` and are encoded again unchanged,
so an older hub passes on what a newer collector says.
"""

from typing import Any, Literal, Union

import msgspec

Source = Literal["hook", "transcript", "registry", "process", "statusline", "hub"]
#: `Alive.event` of an answer's text or thoughts: main output that is no tool call.
MESSAGE = "message"
#: `Alive.event` of the record of a command that the terminal itself carried out, as /compact.
COMMAND = "command"
#: The reason of an end by which another session goes on with this one's work.
LEFT = "left"
#: Hooks are stamped on arrival, up to this late (measured); ms.
LATENESS = 1_500
#: `ChildFinished.child_id` that means all of them.
ALL_CHILDREN = "*"
#: The reason of a session's end that never began: its process is kept in reserve for the next session.
SPARE = "spare"
#: The status of a team mate in a list of background tasks, which does not say whether the mate works or
#: rests.
MATE_LISTED = "listed"
#: The status of a scheduled prompt in such a list: it is not at work until its time comes.
SCHEDULED = "scheduled"
#: The tool of a request that is for network access and not for a call.
NETWORK = "NetworkAccess"
#: The id of a request to approve a goal. Unlike others it outlives its turn.
GOAL = "goal"
#: Of signals that name none.
DEFAULT_AGENT = "claude_code"
#: Those of the agents we know have 36 characters.
SESSION_ID_MAX = 200

RequestKind = Literal["permission", "question", "plan", "dialog"]
ChildKind = Literal["agent", "shell", "monitor", "workflow", "cron"]
#: What a tool is for. Each agent has names of its own for these; only its adapter knows them. read
#: and search are of files, fetch and web_search of the web; agent: the call is a subagent's whole
#: work; question: it asks the human; plan: it submits a plan; todo: it keeps the list of tasks.
ToolRole = Literal[
    "shell",
    "edit",
    "write",
    "read",
    "search",
    "web_search",
    "fetch",
    "agent",
    "question",
    "plan",
    "todo",
    "mcp",
    "other",
]


class Signal(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="kind",
    tag="signal",
    gc=False,
):
    """What every signal carries. `host_id`, `spool_id` and `seq` belong to the batch it came in.

    at: when it happened, `seen`: when the collector learned of it; both milliseconds of the
    *host's* wall clock. agent_id: the subagent it happened in, None for the main agent.
    prompt_id: the agent's own name of the turn, where it gives one.
    """

    session_id: str
    at: int
    seen: int
    source: Source = "hook"
    agent: str = DEFAULT_AGENT
    agent_id: str | None = None
    prompt_id: str | None = None
    v: int = 1


class SessionStarted(Signal, frozen=True, kw_only=True, tag="session.started"):
    reason: str = "startup"  # startup, resume, clear, compact, fork


class SessionEnded(Signal, frozen=True, kw_only=True, tag="session.ended"):
    reason: str = "other"


class ProcessSeen(Signal, frozen=True, kw_only=True, tag="process.seen"):
    """The session's process. started: its start time in ms of host wall clock, 0 if unknown.

    again: another one that had the session too has left it, and this one has it still. moved: it came
    to the session from another one, so it has it since `at`, however old it is.
    """

    pid: int
    started: int = 0
    again: bool = False
    moved: bool = False


class ProcessGone(Signal, frozen=True, kw_only=True, tag="process.gone"):
    pid: int
    started: int = 0


class ProcessStill(Signal, frozen=True, kw_only=True, tag="process.still"):
    """Since the look before it received nothing and computed next to nothing: no sign of life.

    connected: a TCP connection of its own is open; None where the system does not tell what comes
    in, and it was looked at how much it computes alone.
    """

    connected: bool | None = None


class PromptSubmitted(Signal, frozen=True, kw_only=True, tag="prompt.submitted"):
    """origin `system`: not a human turn, e.g. a background task reporting back."""

    origin: Literal["typed", "queued", "system"] = "typed"
    text: str | None = None


class PromptDequeued(Signal, frozen=True, kw_only=True, tag="prompt.dequeued"):
    pass


class BackgroundTask(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of a Stop hook's list of what still runs."""

    id: str
    kind: ChildKind = "agent"
    status: str = "running"
    description: str | None = None


class TurnEnded(Signal, frozen=True, kw_only=True, tag="turn.ended"):
    """background: what still runs; None when the witness does not say.

    final: told when the user's own hooks on it had run, so nothing sends the agent on any more.
    """

    last_message: str | None = None
    background: list[BackgroundTask] | None = None
    final: bool = False


class TurnFailed(Signal, frozen=True, kw_only=True, tag="turn.failed"):
    error: str = "unknown"
    message: str | None = None


class TurnInterrupted(Signal, frozen=True, kw_only=True, tag="turn.interrupted"):
    pass


class ToolStarted(Signal, frozen=True, kw_only=True, tag="tool.started"):
    """digest: hash of (tool, input), the only join with a request, which names no tool call.

    server: whose tool it is, by the name that this server's dialogs bear too; None: the agent's own.
    timeout_ms: the tool's own limit; 0 = it runs in the background.
    """

    tool: str
    tool_use_id: str
    role: ToolRole = "other"
    server: str | None = None
    summary: str | None = None
    digest: str | None = None
    timeout_ms: int | None = None


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a call made that a human is to review.

    deed: `commit`, `amend` of the commit before, `pull_request`. ref: short SHA, or address. branch:
    None for one that has no name.
    """

    deed: Literal["commit", "amend", "pull_request"]
    ref: str | None = None
    branch: str | None = None


class ToolFinished(Signal, frozen=True, kw_only=True, tag="tool.finished"):
    """decided_by: who let it run or not, `hook` or the agent's own word; accepted: which of the two.

    None: the witness does not say.
    """

    tool: str
    tool_use_id: str
    role: ToolRole = "other"
    server: str | None = None
    ok: bool = True
    error: str | None = None
    is_interrupt: bool = False
    denied: bool = False
    answered: bool = False
    digest: str | None = None
    child_id: str | None = None  # the child this call launched
    background: bool = False  # it returned at once, its work goes on
    decided_by: str | None = None
    accepted: bool | None = None
    delivered: list[Delivery] | None = None


class Hold(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The collector holds the request open for a decision from elsewhere; it bears `request_id`.

    binding: random; it denies and gives back. What allows is `commands.binding_of` what this signal shows.
    verbs: the decisions it takes, and `extend` where it is held for `for_ms` only while somebody looks at
    it. for_ms: how long, from `at` on. always: the
    rules that `always` would add, as the agent suggests them, in words. persons: how many must decide the
    same before anything is allowed. cwd: where the tool would run. version: `commands.HOLD_VERSION`;
    older collectors send 0: they bind only part of what is shown.
    """

    binding: str
    verbs: list[str]
    for_ms: int = 0
    always: list[str] | None = None
    persons: int = 1
    cwd: str = ""
    version: int = 0


class RequestOpened(Signal, frozen=True, kw_only=True, tag="request.opened"):
    """The agent waits for a human. `request_kind` stands for the table's data field `kind`."""

    request_kind: RequestKind
    tool: str | None = None
    role: ToolRole = "other"
    server: str | None = None
    tool_use_id: str | None = None
    request_id: str | None = None
    digest: str | None = None
    summary: str | None = None
    payload: dict[str, Any] | None = None
    suggestions: list[Any] | None = None
    hold: Hold | None = None


class HoldEnded(Signal, frozen=True, kw_only=True, tag="hold.ended"):
    """The request can no longer be decided from elsewhere; whether it still asks, other signals say.

    reason: decided, answered (at the terminal), expired, handed back, gone (the session, the hook),
    restarted (the collector).
    """

    request_id: str
    reason: str = "expired"


class CommandReported(Signal, frozen=True, kw_only=True, tag="command.reported"):
    """What became of a command; several may follow each other, the later ones know more.

    outcome: queued, sent (handed to the agent), took_effect, overruled (the terminal was first),
    too_late, withdrawn, expired, refused (nothing was done; reason says why), awaits_second (it takes
    another person, who decides the same), seconded (one has, and theirs was sent), under_way (it takes
    some seconds). by: who gave it.
    text: what was handed over, of a prompt. trail: the hash of its line in the machine's trail.
    """

    command_id: str
    verb: str
    outcome: str
    by: str = ""
    request_id: str | None = None
    reason: str | None = None
    text: str | None = None
    trail: str | None = None


class SessionSuspended(Signal, frozen=True, kw_only=True, tag="session.suspended"):
    """The collector ends its process, which rests, so that it can be taken up again under its id.

    by: who gave the command; auto: nobody, it had rested for as long as the owner set. freed_bytes: of
    memory that was resident in the process and in all below it. undone: it was told before, and its
    process was not ended after all.
    """

    by: str = ""
    auto: bool = False
    freed_bytes: int = 0
    undone: bool = False


class QueuedItem(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message that waits for its session. id: of the command that queued it. by: who gave it.

    at, until: when it was given and when it expires, ms of the host's wall clock. state: waiting;
    sent: it was handed over, and nothing is known yet of whether the session took it.
    """

    id: str
    text: str
    by: str
    at: int
    until: int
    state: str = "waiting"


class QueueReported(Signal, frozen=True, kw_only=True, tag="queue.reported"):
    """All that waits to be said to the session, the next first.

    way: by which a prompt reaches it: terminal, as if it was typed; inbox, as from another session;
    None: by none.
    """

    items: list[QueuedItem] = []
    way: str | None = None


class WorkReported(Signal, frozen=True, kw_only=True, tag="work.reported"):
    """The agent's own word of its work, which nobody had to guess; see `commands.SelfReport`.

    report_id: random, so that it is known for the same one.
    """

    report_id: str
    status: str
    issue: str | None = None
    notes: str | None = None
    by: str | None = None


class RequestClosed(Signal, frozen=True, kw_only=True, tag="request.closed"):
    tool_use_id: str | None = None
    request_id: str | None = None
    outcome: str | None = None


class ChildStarted(Signal, frozen=True, kw_only=True, tag="child.started"):
    """until: when it wakes its parent, where that is known from its beginning on."""

    child_id: str
    child_kind: ChildKind = "agent"
    type: str | None = None
    description: str | None = None
    until: int | None = None


class ChildChanged(Signal, frozen=True, kw_only=True, tag="child.changed"):
    child_id: str
    child_kind: ChildKind = "agent"
    status: str | None = None


class ChildFinished(Signal, frozen=True, kw_only=True, tag="child.finished"):
    """notified: the parent has been told (its `<task-notification>`), so no wake-up is pending.

    child_id: ALL_CHILDREN for every child of that kind, where the witness names none.
    """

    child_id: str
    child_kind: ChildKind = "agent"
    status: str = "completed"
    notified: bool = False


class TaskCreated(Signal, frozen=True, kw_only=True, tag="task.created"):
    task_id: str
    subject: str | None = None


class TaskCompleted(Signal, frozen=True, kw_only=True, tag="task.completed"):
    task_id: str
    subject: str | None = None


class CompactionStarted(Signal, frozen=True, kw_only=True, tag="compaction.started"):
    trigger: str | None = None


class CompactionFinished(Signal, frozen=True, kw_only=True, tag="compaction.finished"):
    trigger: str | None = None


class RetryScheduled(Signal, frozen=True, kw_only=True, tag="retry.scheduled"):
    attempt: int = 1
    max: int | None = None
    in_ms: int | None = None


class StatusReported(Signal, frozen=True, kw_only=True, tag="status.reported"):
    """The CLI's own registry. `at` is the stamp it bears (`statusUpdatedAt`).

    dialogs: it tells of each dialog by `waiting`, as soon as that is on the screen. shells: it tells of
    background commands by `shell`, so none runs while it says `idle`. host: to which a sandboxed command
    wants access; "" if that may still be reported.
    """

    status: str | None = None
    waiting_for: str | None = None
    pid: int | None = None
    started: int = 0
    dialogs: bool = False
    shells: bool = True
    host: str | None = None


class UsageTotalled(Signal, frozen=True, kw_only=True, tag="usage.totalled"):
    """All that a session has used up of one kind: of one day, model, speed, region, price step.

    Cumulative absolutes, never deltas. A later one takes the place of an earlier one even if it
    says less, for a message may turn out to be another session's. day: ISO date where the machine
    is. long: prompts above the limit from which the model's prices are others. cache_5m_tokens,
    cache_1h_tokens: written to be kept for so long; where the agent does not say, for 5 minutes.
    """

    day: str
    model: str
    fast: bool = False
    geo: str = ""
    long: bool = False
    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_5m_tokens: int = 0
    cache_1h_tokens: int = 0
    web_searches: int = 0


class ModelCost(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the agent counted of one model. cache_write_tokens: for whichever time."""

    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class CostReported(Signal, frozen=True, kw_only=True, tag="cost.reported"):
    """What the agent itself says that its session has cost, from its begin.

    models: what that is made of, where it says; a fork's includes what was spent before the fork.
    """

    cost_usd: float
    models: dict[str, ModelCost] | None = None


class RateLimit(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """name: the agent's, `five_hour`, `seven_day`. resets_at: ms of true time, 0 if not told."""

    name: str
    used_percent: float
    resets_at: int = 0


class GaugesReported(Signal, frozen=True, kw_only=True, tag="gauges.reported"):
    """How full the context is and how much of the account's limits is used; None: not told.

    context_tokens: of the last prompt, cached ones too. context_size: how many there may be.
    plan: the account's, which pays where tokens are not billed; "": they are.
    """

    context_tokens: int | None = None
    context_size: int | None = None
    limits: list[RateLimit] | None = None
    plan: str | None = None


class MetaChanged(Signal, frozen=True, kw_only=True, tag="meta.changed"):
    """Only the fields that are set have changed; the last by event time wins, field by field.

    title: given by a human; ai_title: made up by the agent. worktree: its name. pr: its address.
    forked_from: the session whose messages it repeats at its begin. mate: of a team mate with a session of
    its own, the id by which it is a child of its lead's session.
    """

    title: str | None = None
    ai_title: str | None = None
    cwd: str | None = None
    project: str | None = None
    branch: str | None = None
    model: str | None = None
    mode: str | None = None
    version: str | None = None
    transcript: str | None = None
    terminal: str | None = None
    worktree: str | None = None
    pr: str | None = None
    last_prompt: str | None = None
    last_answer: str | None = None
    forked_from: str | None = None
    mate: str | None = None


class Alive(Signal, frozen=True, kw_only=True, tag="alive"):
    """Evidence of life with no other meaning. event: the witness's own name for it."""

    event: str | None = None
    note: str | None = None


class UnknownSignal(msgspec.Struct, frozen=True):
    """A signal of a kind this version does not know: kept whole, passed on unchanged."""

    kind: str
    session_id: str
    at: int
    seen: int
    raw: dict[str, Any]


#: One of those above.
KnownSignal = Signal
AnySignal = KnownSignal | UnknownSignal

_KNOWN: Any = Union[tuple(Signal.__subclasses__())]  # noqa: UP007 - made at run time
KINDS: frozenset[str] = frozenset(
    str(msgspec.inspect.type_info(kind).tag)  # type: ignore[attr-defined] # of every tagged Struct
    for kind in Signal.__subclasses__()
)

_one: msgspec.json.Decoder[KnownSignal] = msgspec.json.Decoder(_KNOWN)
_many: msgspec.json.Decoder[list[KnownSignal]] = msgspec.json.Decoder(list[_KNOWN])
_raw_list: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder()


class _Header(msgspec.Struct):
    kind: str
    session_id: str
    at: int
    seen: int


_header: msgspec.json.Decoder[_Header] = msgspec.json.Decoder(_Header)


def is_session_id(text: str) -> bool:
    """Whether a hub takes it for one: session ids become Redis fields and parts of URLs."""
    return 0 < len(text) <= SESSION_ID_MAX and text.isprintable()


def encode_signal(signal: AnySignal) -> bytes:
    """JSON of one signal; what `decode_signal` was given, if its kind was unknown."""
    return _encoder.encode(signal.raw if isinstance(signal, UnknownSignal) else signal)


def decode_signal(raw: bytes | memoryview) -> AnySignal:
    """One signal. Raises msgspec.DecodeError for what is not a signal at all."""
    header = _header.decode(raw)
    if header.kind in KINDS:
        return _one.decode(raw)
    fields: dict[str, Any] = msgspec.json.decode(raw)
    return UnknownSignal(header.kind, header.session_id, header.at, header.seen, fields)


def decode_signals(raw: bytes) -> list[AnySignal]:
    """A JSON array of signals. The whole array at once, one by one only if a kind is unknown."""
    try:
        return list(_many.decode(raw))
    except msgspec.ValidationError:
        return [decode_signal(item) for item in _raw_list.decode(raw)]
