"""The things facts are made of: one struct per thing a witness can speak of, and its bounds."""

from __future__ import annotations

from typing import Any

import msgspec

from adsum_shared.signals import ModelCost, RateLimit

# Bounds. A snapshot keeps the facts of every session, so each map has an end. What is pruned is
# always the oldest *closed* thing first: its late duplicate can then at worst be born again as a
# closed one, because a finish is a witness of its own. Batches are applied once by number, so
# duplicates come soon after the original or never; 32 closed tools is far beyond "soon".
TOOLS_MAX = 48
TOOLS_KEPT = 32  # pruned to this at once, so that not every call pays for it
REQUESTS_MAX = 16
CHILDREN_MAX = 48
TASKS_MAX = 64
TURNS_MAX = 12
RELEASED_MAX = 16
USAGE_MAX = 1024  # a year's days with several models each: none may be lost from the sums
ACTIVITY_MAX = 100

#: Hooks are stamped on arrival, up to this late (measured); ms.
LATENESS = 1_500
#: Two reports of a start time this close, for one pid, name one process: each witness derives the
#: start from another clock (the CLI's own stamp, kernel ticks since boot), so they never agree.
SAME_START = 10_000


def earliest(a: int, b: int) -> int:
    """The lesser of two times of which 0 means never."""
    return min(a, b) if a and b else a or b


def first_witness(a: int, a_source: str, b: int, b_source: str) -> str:
    """Who is credited with something: who knew it first; of two at one instant, by name."""
    if not a or not b:
        return a_source if a else b_source
    return min((a, a_source), (b, b_source))[1]


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One prompt id's turn; the key "" stands for witnesses that name none.

    first: earliest witness of any kind, which orders prompt ids. prompt: earliest witness of the
    prompt that opened it (latest under ""). reopened: latest other opener, a pruned tool start or
    a hook's feedback that sent the agent back to work. ended, failed, interrupted: latest witness
    of each; said: when the last message was. 0 = never.
    """

    first: int
    prompt: int = 0
    hook_prompt: int = 0
    typed: bool = False
    reopened: int = 0
    ended: int = 0
    failed: int = 0
    interrupted: int = 0
    last_message: str | None = None
    said: int = 0
    error: str | None = None
    source: str = "hook"  # of its latest close

    @property
    def closed(self) -> int:
        return max(self.ended, self.failed, self.interrupted)


class Tool(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One tool call. first: earliest witness of its start *or* finish. 0 = not witnessed."""

    tool: str
    first: int
    started: int = 0
    finished: int = 0
    hooked: int = 0  # when a hook said it started; only such starts can carry a request
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


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """The agent asked a human. closed: earliest witness that it is over, 0 = none yet."""

    kind: str
    opened: int
    closed: int = 0
    tool: str | None = None
    tool_use_id: str | None = None
    request_id: str | None = None
    agent_id: str | None = None
    prompt_id: str | None = None
    digest: str | None = None
    summary: str | None = None
    payload: dict[str, Any] | None = None
    suggestions: list[Any] | None = None
    source: str = "hook"


class Child(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Whatever works on without the main agent.

    started: earliest start, restarted: latest (a finished agent can be sent on its way again).
    active: latest tool start of its own. finished: latest finish; notified: when its parent was
    told. last: latest witness of any kind. 0 = never.
    """

    kind: str
    started: int = 0
    restarted: int = 0
    active: int = 0
    finished: int = 0
    notified: int = 0
    last: int = 0
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


class Process(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The session's latest (pid, start time).

    seen: when it was first reported. before: when the latest of those before it went, 0 = unknown.
    """

    pid: int
    started: int = 0
    seen: int = 0
    gone: int = 0
    before: int = 0
    first_of_all: bool = True  # no other process held this session before


class Status(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The registry's newest word, by its own stamp.

    waiting: since when it has been `waiting`; released: when it last ceased to be. shell: its last
    word at rest, `shell` and not `idle`.
    """

    at: int
    seen: int
    status: str | None = None
    waiting_for: str | None = None
    pid: int | None = None
    started: int = 0
    waiting: int = 0
    released: int = 0
    shell: bool = False


def same_process(process: Process | Status, pid: int | None, started: int) -> bool:
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


class Activity(msgspec.Struct, frozen=True, array_like=True, gc=False):
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
