"""One session's voice: what it says is the very signals that the collectors' adapters make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import UUID

from adsum.demo.cast import AGENT_VERSION, DAY, HOUR, MODELS, OPUS, Machine, Role
from adsum.demo.jobs import NEXT
from adsum.demo.projects import Job, Project
from adsum.demo.projects_more import PROJECTS
from adsum_shared import signals as s

CONTEXT_SIZE = 200_000
#: What a turn's end or a question leaves in the context, and what a compaction does.
FIRST_CONTEXT, PACKED_CONTEXT = 18_000, 24_000


def day_of(ms: int) -> str:
    """The ISO date where this runs, as collectors write it."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().date().isoformat()


def _slug(title: str) -> str:
    """Its first words, as a branch has them."""
    return "-".join("".join(filter(str.isalnum, word)) for word in title.lower().split()[:3])


def limits_of(machine: Machine, at: int) -> list[s.RateLimit]:
    """at: true time, ms. They fill up evenly and begin anew, as an account's do."""
    found: list[s.RateLimit] = []
    for name, length, most in (
        ("five_hour", 5 * HOUR, machine.five_hours),
        ("seven_day", 7 * DAY, machine.week),
    ):
        gone = (at + len(machine.label) * HOUR) % length
        used = most * (0.45 + 0.55 * gone / length)
        found.append(s.RateLimit(name, round(used, 1), at - gone + length))
    return found


class Voice:
    """now: milliseconds of its machine's clock. said: what has not been taken yet."""

    def __init__(
        self, role: Role, machine: Machine, rng: Random, session_id: str, job: int
    ) -> None:
        self.role = role
        self.machine = machine
        self.rng = rng
        self.now = 0
        self.said: list[s.AnySignal] = []
        self.session_id = session_id
        self.project: Project = PROJECTS[role.project]
        self.job: Job = self.project.jobs[job]
        #: how many jobs are done; the first gave the session its title
        self.turns = 0
        self.model = OPUS if role.plot == "spending" else rng.choice(MODELS)
        named = self.project.branches[job : job + 1]
        self.branch = named[0] if named else f"feature/{_slug(self.job.title)}"
        self.mode = "default"
        self.context = FIRST_CONTEXT
        self.prompt_id: str | None = None
        self._used: dict[str, Counter[str]] = {}
        self._untold = 0

    @property
    def wish(self) -> str:
        """What its human types next."""
        return (
            NEXT[(self.turns + len(self.job.title)) % len(NEXT)][0]
            if self.turns
            else self.job.prompt
        )

    @property
    def done(self) -> str:
        """Its last words on that."""
        return (
            NEXT[(self.turns + len(self.job.title)) % len(NEXT)][1] if self.turns else self.job.done
        )

    def take(self) -> list[s.AnySignal]:
        said, self.said = self.said, []
        return said

    def name(self, before: str) -> str:
        return f"{before}{self.rng.getrandbits(64):016x}"

    def between(self, low: float, high: float) -> float:
        """Seconds."""
        return self.rng.uniform(low, high)

    def say(self, kind: Callable[..., s.KnownSignal], source: str = "hook", **data: Any) -> None:
        at = data.pop("at", self.now)
        about = {"at": at, "seen": at, "source": source, "prompt_id": self.prompt_id}
        self.said.append(kind(session_id=self.session_id, **{**about, **data}))

    def decide(self, kind: str) -> None:
        """As a hub tells of what a human decided there; such kinds have no struct."""
        raw = {"kind": kind, "session_id": self.session_id, "at": self.now, "seen": self.now}
        self.said.append(s.UnknownSignal(kind, self.session_id, self.now, self.now, raw))

    def begin(self, reason: str = "startup", *, ago_ms: int = 0) -> None:
        at, pid = self.now - ago_ms, self.rng.randrange(2_000, 60_000)
        self.prompt_id = None
        self.say(s.SessionStarted, reason=reason, at=at)
        self.say(s.ProcessSeen, "process", pid=pid, started=at - 400, at=at)
        self.say(s.StatusReported, "registry", pid=pid, started=at - 400, at=at)
        self.pid, self.started = pid, at - 400
        self.say(
            s.MetaChanged,
            at=at,
            cwd=f"{self.machine.home}/src/{self.project.name}",
            project=self.project.name,
            branch=self.branch,
            model=self.model,
            mode=self.mode,
            version=AGENT_VERSION,
        )

    def end(self, reason: str = "prompt_input_exit") -> None:
        self.prompt_id = None
        self.say(s.SessionEnded, reason=reason)
        self.say(s.ProcessGone, "process", pid=self.pid, started=self.started, at=self.now + 300)

    def prompt(self, text: str | None = None, origin: str = "typed") -> None:
        """A turn begins."""
        self.prompt_id = str(UUID(int=self.rng.getrandbits(128), version=4))
        self.say(s.PromptSubmitted, origin=origin, text=text or self.wish)
        if origin == "typed":
            self.say(s.MetaChanged, "transcript", ai_title=self.job.title, branch=self.branch)

    def stop(self, words: str, background: list[s.BackgroundTask] | None = None) -> None:
        self.count()
        self.tell_usage()
        self.say(s.TurnEnded, last_message=words, background=background or [])

    def message(self) -> None:
        """Text of the main agent. What it used up is told with every third."""
        self.say(s.Alive, "transcript", event=s.MESSAGE)
        self.count()
        self._untold += 1
        if self._untold >= 3:
            self.tell_usage()

    def count(self, times: int = 1) -> None:
        grown = self.rng.randrange(500, 2_600)
        self.context = min(self.context + grown, CONTEXT_SIZE - 4_000)
        used = self._used.setdefault(day_of(self.now), Counter())
        used["messages"] += times
        used["input_tokens"] += times * self.rng.randrange(4, 400)
        used["output_tokens"] += times * self.rng.randrange(90, 900)
        used["cache_read_tokens"] += times * int(self.context * self.rng.uniform(0.2, 0.5))
        used["cache_5m_tokens"] += times * grown

    def tell_usage(self, at: int | None = None) -> None:
        self._untold = 0
        at = self.now if at is None else at
        for day, used in list(self._used.items())[-1:]:
            self.say(s.UsageTotalled, "transcript", day=day, model=self.model, at=at, **used)
        self.say(
            s.GaugesReported,
            "statusline",
            at=at,
            context_tokens=self.context,
            context_size=CONTEXT_SIZE,
            limits=limits_of(self.machine, at - self.machine.skew_ms),
        )

    def tool(self, tool: str, summary: str | None, **data: Any) -> str:
        """A call begins; its id."""
        key = self.name("toolu_")
        self.say(s.ToolStarted, tool=tool, tool_use_id=key, summary=summary, **data)
        return key

    def finish(self, tool: str, key: str, error: str | None = None, **data: Any) -> None:
        self.say(s.ToolFinished, tool=tool, tool_use_id=key, ok=error is None, error=error, **data)

    def ask(self, kind: str, tool: str, key: str, payload: dict[str, Any], **data: Any) -> None:
        self.say(
            s.RequestOpened,
            request_kind=kind,
            request_id=f"r-{key}",
            tool=tool,
            tool_use_id=key,
            payload=payload,
            **data,
        )

    def answered(self, key: str, outcome: str = "allow", **data: Any) -> None:
        about = {"tool_use_id": key, "request_id": f"r-{key}"}
        self.say(s.RequestClosed, outcome=outcome, **about, **data)
