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
    doubled: int = 0  # latest time that one call's hook was delivered twice

    dismissed: int = 0
    suspended: int = 0
    read: int = 0
    budget: Budget | None = None
    budget_answered: int = 0

    meta: dict[str, tuple[int, str]] = {}
    usage: dict[str, Usage] = {}  # by `usage_key`
    costs: dict[str, Cost] = {}  # by who reported it
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
            any(turn.prompt or turn.closed for turn in self.turns.values())
            or self.tools
            or self.requests
            or self.children
            or self.compacting
            or self.transcript_at
            or self.engaged
        )

    @property
    def materialised(self) -> bool:
        """Whether to list it at all.

        A SessionStart alone is not enough: a resume can announce an id that never lives, and the
        registry can name such a phantom for a tenth of a second. So the registry's word counts
        only as long as the registry stands by it. A pid that only the SessionStart hook names
        proves the process, not the session: the phantom has the same one.
        """
        if self.worked:
            return True
        if self.ended is not None:
            return False
        if self.named:
            return self.left is None or self.named > self.left.at
        return self.process is not None and self.process_at > 0

    @property
    def unread(self) -> bool:
        """Something has called for a human since the last interaction (a prompt, a look).

        It outlives the state that called: an agent that went idle and was woken by its own
        background task is at work again, and still nobody has looked.
        """
        return self.called_at > max(self.read, self.typed_at)

    @property
    def typed_at(self) -> int:
        """The latest prompt a human typed that opened a turn."""
        return max((turn.prompt for turn in self.turns.values() if turn.typed), default=0)

    @property
    def called_at(self) -> int:
        """When a human was last called: a question, a turn's end with nothing left running."""
        calls = [r.opened for r in self.requests.values() if not r.closed]
        if not any(child.running for child in self.children.values()):
            calls += [turn.closed for turn in self.turns.values()]
        status = self.status
        if status is not None and (
            status.status == "waiting" or (status.status == "idle" and self.turns)
        ):
            calls.append(status.at)
        return max(calls, default=0)

    @property
    def title(self) -> str | None:
        """A name somebody gave, else the first prompt, else the registry's made-up name."""
        given = self._meta("title")
        if given is None and self.first_prompt is not None:
            return self.first_prompt[1]
        return given or self._meta("name")

    @property
    def cwd(self) -> str | None:
        return self._meta("cwd")

    @property
    def project(self) -> str | None:
        return self._meta("project")

    @property
    def branch(self) -> str | None:
        return self._meta("branch")

    @property
    def model(self) -> str | None:
        return self._meta("model")

    @property
    def mode(self) -> str | None:
        return self._meta("mode")

    @property
    def version(self) -> str | None:
        return self._meta("version")

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def _meta(self, name: str) -> str | None:
        held = self.meta.get(name)
        return held[1] if held else None
