"""Facts: what the witnesses of one session have said. No conclusions; those are resolve()'s."""

from __future__ import annotations

import msgspec

from adsum_hub.parts import (
    Activity,
    Budget,
    Child,
    Cost,
    Ended,
    Gauges,
    Process,
    Request,
    Retry,
    Status,
    Task,
    Tool,
    Turn,
    Usage,
)
from adsum_hub.trail import Trail


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything told about one session. All times: ms of its host's wall clock, 0 = never.

    Registers that two streams write are minima, maxima or ordered by event time, so the order in
    which signals arrive does not matter. (Rejected: a hold-back queue of 500 ms that sorts; this
    makes it unnecessary. Rejected: a "current state" that each signal moves; no order-tolerance.)
    """

    session_id: str
    agent: str = "claude_code"

    turns: dict[str, Turn] = {}
    tools: dict[str, Tool] = {}
    requests: dict[str, Request] = {}
    released: dict[str, int] = {}
    children: dict[str, Child] = {}
    tasks: dict[str, Task] = {}

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
    closing: Ended | None = None  # latest, by the transcript: its books were closed
    named: int = 0  # latest report by the registry, collector time
    engaged: int = 0  # latest stamp under which it was busy, waiting or had a shell
    process: Process | None = None
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

    dismissed: int = 0
    suspended: int = 0
    read: int = 0
    budget: Budget | None = None
    budget_answered: int = 0

    meta: dict[str, tuple[int, str]] = {}
    usage: dict[str, Usage] = {}  # by `usage_key`
    costs: dict[str, Cost] = {}  # by who reported it
    trail: Trail = {}  # by day
    used_at: int = 0  # latest report of usage that changed it
    gauges: Gauges = Gauges()
    activity: tuple[Activity, ...] = ()

    @property
    def updated_at(self) -> int:
        return max(
            self.hook_at,
            self.transcript_at,
            self.registry_at,
            self.process_at,
            self.statusline_at,
        )

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
        only as long as the registry stands by it. A pid that only the SessionStart hook names
        proves the process, not the session: the phantom has the same one. And what nobody saw
        alive is history.
        """
        if not self.lived:
            return False
        if self.worked:
            return True
        if self.ended is not None:
            return False
        if self.named:
            return self.left is None or self.named > self.left.at
        return self.process is not None and self.process_at > 0

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
        return max((turn.prompt for turn in self.turns.values() if turn.typed), default=0)

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

    cwd = property(lambda self: self.about("cwd"))
    branch = property(lambda self: self.about("branch"))
    model = property(lambda self: self.about("model"))
    mode = property(lambda self: self.about("mode"))

    @property
    def latest_prompt(self) -> str | None:
        """What a human typed last: by whichever witness told of it later."""
        told = [each for each in (self.meta.get("last_prompt"), self.last_prompt) if each]
        return max(told)[1] if told else None

    @property
    def last_answer(self) -> str | None:
        turns = [turn for turn in self.turns.values() if turn.last_message]
        said = max(turns, key=lambda turn: turn.said, default=None)
        told = [self.meta["last_answer"]] if "last_answer" in self.meta else []
        if said is not None:
            told.append((said.said, said.last_message or ""))
        return max(told)[1] if told else None

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def about(self, name: str) -> str | None:
        held = self.meta.get(name)
        return (held[1] or None) if held else None  # an empty text: no more
