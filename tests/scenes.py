"""Sessions played step by step, and recorded ones: what each witness says, in its own order."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import judge
from adsum_hub.views import child_views
from adsum_shared import signals as s
from tests.story import with_role

T0 = 1_000_000
STEPS = (
    "tool",
    "fail",
    "permission",
    "permission denied",
    "question",
    "question behind a command",
    "agent",
    "subagent permission",
    "held",
    "held in vain",
    "shell",
    "task",
    "stop",
    "stop failure",
    "escape",
    "queue",
    "compact",
    "notification",
    "resume",
    "message",
    "retry",
    "error line",
    "sent back",
    "killed",
    "subagent's own end",
    "mode",
    "tick",
    "looked at",
    "crash",
    "cost report",
)


@dataclass
class Scene:
    """A session played step by step; each stream keeps what its witness says, in its own order."""

    late: int
    t: int = T0
    prompt: int = 0
    calls: int = 0
    open: bool = False
    agents: list[str] = field(default_factory=list)
    hook: list[s.KnownSignal] = field(default_factory=list)
    transcript: list[s.KnownSignal] = field(default_factory=list)
    registry: list[s.KnownSignal] = field(default_factory=list)
    process: list[s.KnownSignal] = field(default_factory=list)
    statusline: list[s.KnownSignal] = field(default_factory=list)
    pid: int = 7

    @property
    def streams(self) -> list[list[s.KnownSignal]]:
        return [self.hook, self.transcript, self.registry, self.process, self.statusline]

    def wait(self, ms: int = 400) -> None:
        self.t += ms

    def common(self, source: s.Source, agent_id: str | None = None) -> dict[str, object]:
        at = self.t + self.late if source == "hook" else self.t
        return {
            "session_id": "S",
            "at": at,
            "seen": at,
            "source": source,
            "prompt_id": f"p{self.prompt}" if source in ("hook", "transcript") else None,
            "agent_id": agent_id,
        }

    def tell(
        self, kind: type, *sources: s.Source, agent_id: str | None = None, **data: object
    ) -> None:
        for source in sources:
            signal = kind(**self.common(source, agent_id), **with_role(kind, data))
            getattr(self, source).append(signal)

    def status(self, status: str, waiting_for: str | None = None) -> None:
        self.tell(
            s.StatusReported, "registry", status=status, waiting_for=waiting_for, pid=self.pid
        )

    def begin(self) -> None:
        if self.open:
            return
        self.wait(2_000)
        self.prompt += 1
        self.tell(s.PromptSubmitted, "hook", "transcript", text="go on")
        self.status("busy")
        self.open = True

    def call(self, tool: str, agent_id: str | None = None) -> str:
        self.wait()
        self.calls += 1
        name = f"t{self.calls}"
        self.tell(
            s.ToolStarted, "hook", tool=tool, tool_use_id=name, digest=name, agent_id=agent_id
        )
        self.tell(s.ToolStarted, "transcript", tool=tool, tool_use_id=name, agent_id=agent_id)
        return name

    def finish(self, name: str, tool: str, agent_id: str | None = None, **data: object) -> None:
        self.wait()
        self.tell(
            s.ToolFinished,
            "hook",
            "transcript",
            tool=tool,
            tool_use_id=name,
            agent_id=agent_id,
            **data,
        )

    def ask(
        self, name: str, tool: str, kind: str, agent_id: str | None = None, **data: object
    ) -> None:
        self.wait(100)
        self.tell(
            s.RequestOpened,
            "hook",
            request_kind=kind,
            tool=tool,
            digest=name,
            agent_id=agent_id,
            **data,
        )
        self.status("waiting", "permission prompt")
        self.wait(1_000)

    def close(self, kind: type, *sources: s.Source, status: str = "idle", **data: object) -> None:
        self.wait()
        self.tell(kind, *sources, **data)
        self.status(status)
        self.open = False
        self.wait(2_000)


def play(steps: list[str], late: int) -> Scene:
    scene = Scene(late)
    for step in steps:
        PLAY[step](scene)
    return scene


def tool(scene: Scene) -> None:
    scene.begin()
    scene.finish(scene.call("Bash"), "Bash", answered=True)


def fail(scene: Scene) -> None:
    scene.begin()
    scene.finish(scene.call("Bash"), "Bash", ok=False, error="Exit code 1")


def permission(scene: Scene) -> None:
    scene.begin()
    name = scene.call("Bash")
    scene.ask(name, "Bash", "permission")
    scene.status("busy")
    scene.finish(name, "Bash")


def held(scene: Scene) -> None:
    """Decided from elsewhere: the collector says so, then the transcript that it took effect."""
    scene.begin()
    name = scene.call("Bash")
    asked = f"r{name}"
    hold = s.Hold("b", ["allow", "deny"], 60_000)
    scene.ask(name, "Bash", "permission", request_id=asked, hold=hold)
    about = {"command_id": f"c{name}", "verb": "allow", "by": "ann", "request_id": asked}
    scene.tell(s.CommandReported, "hook", outcome="sent", **about)
    scene.tell(s.HoldEnded, "hook", request_id=asked, reason="decided")
    scene.status("busy")
    scene.finish(name, "Bash")
    scene.tell(s.CommandReported, "hook", outcome="took_effect", **about)


def held_in_vain(scene: Scene) -> None:
    """Given back to the terminal, where it still asks."""
    scene.begin()
    name = scene.call("Bash")
    scene.ask(name, "Bash", "permission", request_id=f"r{name}", hold=s.Hold("b", ["deny"], 9))
    scene.tell(s.HoldEnded, "hook", request_id=f"r{name}")


def denied(scene: Scene) -> None:
    scene.begin()
    scene.ask(scene.call("Bash"), "Bash", "permission")
    scene.close(s.TurnInterrupted, "transcript")


def question(scene: Scene) -> None:
    scene.begin()
    name = scene.call("AskUserQuestion")
    scene.tell(s.RequestOpened, "hook", "transcript", request_kind="question", tool_use_id=name)
    scene.ask(name, "AskUserQuestion", "question")


def question_behind_command(scene: Scene) -> None:
    """Of both calls the transcript tells at once; the command runs on."""
    scene.begin()
    scene.call("Bash")
    asked = f"q{scene.calls}"
    about = {"tool": "AskUserQuestion", "tool_use_id": asked}
    scene.tell(s.ToolStarted, "transcript", **about)
    scene.tell(s.RequestOpened, "transcript", request_kind="question", **about)
    scene.wait()


def agent(scene: Scene) -> None:
    scene.begin()
    name = scene.call("Agent")
    child = f"a{scene.calls}"
    scene.tell(s.ChildStarted, "hook", "transcript", child_id=child)
    scene.finish(name, "Agent", child_id=child, background=True)
    scene.agents.append(child)
    scene.finish(scene.call("Read", child), "Read", child)


def subagent_permission(scene: Scene) -> None:
    agent(scene)
    child = scene.agents[-1]
    scene.ask(scene.call("Bash", child), "Bash", "permission", child)


def shell(scene: Scene) -> None:
    scene.begin()
    name = scene.call("Bash")
    child = f"b{scene.calls}"
    scene.tell(s.ChildStarted, "hook", "transcript", child_id=child, child_kind="shell")
    scene.finish(name, "Bash", child_id=child, background=True)
    scene.agents.append(child)


def task(scene: Scene) -> None:
    scene.begin()
    scene.wait()
    scene.calls += 1
    scene.tell(s.TaskCreated, "hook", "transcript", task_id=f"k{scene.calls}")
    scene.wait()
    scene.tell(s.TaskCompleted, "hook", "transcript", task_id=f"k{scene.calls}", subject="it")


def stop(scene: Scene) -> None:
    scene.begin()
    running = [s.BackgroundTask(child) for child in scene.agents]
    scene.wait()
    scene.tell(s.TurnEnded, "hook", last_message="Done.", background=running)
    scene.close(s.TurnEnded, "transcript", last_message="Done.")


def stop_failure(scene: Scene) -> None:
    scene.begin()
    scene.close(s.TurnFailed, "hook", "transcript", error="server_error")


def escape(scene: Scene) -> None:
    scene.begin()
    scene.call("Bash")
    scene.close(s.TurnInterrupted, "transcript")


def queue(scene: Scene) -> None:
    """A prompt typed in mid-turn, hooked under that turn's id; it runs under an id of its own."""
    scene.begin()
    scene.wait()
    scene.tell(s.PromptSubmitted, "hook", text="and this")
    scene.tell(s.PromptSubmitted, "transcript", origin="queued")
    scene.wait()
    scene.tell(s.TurnEnded, "hook", "transcript")
    scene.wait(30)
    scene.prompt += 1
    scene.tell(s.PromptDequeued, "transcript")
    scene.tell(s.PromptSubmitted, "transcript", text="and this")
    scene.finish(scene.call("Read"), "Read")


def compact(scene: Scene) -> None:
    scene.wait()
    scene.prompt += 1
    scene.tell(s.CompactionStarted, "hook", "transcript")
    scene.wait()
    scene.tell(s.CompactionFinished, "hook", "transcript")
    scene.open = False


def notification(scene: Scene) -> None:
    if not scene.agents:
        return
    child = scene.agents.pop()
    scene.wait()
    scene.tell(s.ChildFinished, "hook", "transcript", child_id=child)
    scene.wait()
    scene.prompt += 1
    scene.tell(s.ChildFinished, "hook", "transcript", child_id=child, notified=True)
    scene.tell(s.PromptSubmitted, "hook", "transcript", origin="system")
    scene.status("busy")
    scene.open = True


def resume(scene: Scene) -> None:
    scene.wait(5_000)
    scene.tell(s.SessionEnded, "hook", reason="other")
    scene.wait(5_000)
    scene.tell(s.SessionStarted, "hook", reason="resume")
    scene.wait(5_000)
    scene.open = False
    scene.agents.clear()


def message(scene: Scene) -> None:
    scene.begin()
    scene.wait()
    scene.tell(s.Alive, "transcript", event=s.MESSAGE)


def retry(scene: Scene) -> None:
    scene.begin()
    scene.wait()
    scene.tell(s.RetryScheduled, "transcript", attempt=2, max=10)


def error_line(scene: Scene) -> None:
    """An error of the API that is told as a line, and as a plain Stop a moment later."""
    scene.begin()
    scene.wait()
    scene.tell(s.TurnFailed, "transcript", error="overloaded", message="API Error: overloaded")
    scene.wait(50)
    scene.close(s.TurnEnded, "hook")


def sent_back(scene: Scene) -> None:
    """A Stop hook of the user's has the agent work on, under the same prompt id."""
    scene.begin()
    scene.wait()
    scene.tell(s.TurnEnded, "hook", "transcript", last_message="Done.")
    scene.wait(3_000)
    scene.tell(s.PromptSubmitted, "transcript", origin="system")
    scene.finish(scene.call("Bash"), "Bash")


def killed(scene: Scene) -> None:
    scene.wait()
    scene.tell(s.ChildFinished, "transcript", child_id=s.ALL_CHILDREN, status="killed")
    scene.agents.clear()


def own_end(scene: Scene) -> None:
    agent(scene)
    scene.wait()
    scene.tell(s.TurnEnded, "transcript", agent_id=scene.agents[-1])


def mode(scene: Scene) -> None:
    for source, chosen in (("hook", "default"), ("transcript", "plan"), ("hook", "default")):
        scene.wait()
        scene.tell(s.MetaChanged, source, mode=chosen)


def tick(scene: Scene) -> None:
    scene.wait()
    scene.tell(s.Alive, "statusline")
    scene.tell(s.MetaChanged, "statusline", model="m", cwd=f"/tmp/{scene.calls}")


def looked_at(scene: Scene) -> None:
    """Whoever looks at its process finds it still, hears of it, and finds it still again."""
    for told in (False, True, False):
        scene.wait(30_000)
        if told:
            scene.tell(s.Alive, "process", event="wire")
        else:
            scene.tell(s.ProcessStill, "process", connected=True)


def crash(scene: Scene) -> None:
    """kill -9; a new process takes the session up again."""
    scene.begin()
    scene.call("Bash")
    scene.tell(s.ProcessSeen, "process", pid=scene.pid, started=T0)
    scene.wait()
    scene.tell(s.ProcessGone, "process", pid=scene.pid, started=T0)
    scene.wait(60_000)
    scene.pid += 1
    scene.tell(s.ProcessSeen, "process", pid=scene.pid, started=scene.t)
    scene.wait()
    scene.tell(s.SessionStarted, "hook", reason="resume")
    scene.open = False
    scene.agents.clear()


def closed_books(scene: Scene) -> None:
    scene.wait()
    scene.tell(s.SessionEnded, "transcript", reason="closed")
    scene.open = False


PLAY = dict(
    zip(
        STEPS,
        (
            tool,
            fail,
            permission,
            denied,
            question,
            question_behind_command,
            agent,
            subagent_permission,
            held,
            held_in_vain,
            shell,
            task,
            stop,
            stop_failure,
            escape,
            queue,
            compact,
            notification,
            resume,
            message,
            retry,
            error_line,
            sent_back,
            killed,
            own_end,
            mode,
            tick,
            looked_at,
            crash,
            closed_books,
        ),
        strict=True,
    )
)


#: ADSUM_EXAMPLES=50 tries fifty times as many examples of every property, for a night's run.
THOROUGH = max(1, int(os.environ.get("ADSUM_EXAMPLES", "1")))
#: For pytest.mark.timeout: a long run takes as long as it takes.
PATIENCE = 120 if THOROUGH == 1 else 0
#: When all timers of all rules that can run have run, as far as they differ.
QUIET = (1_600, 3_000, 6_500, 15_000, 61_000, 130_000, 400_000)
HOUR = 3_600_000

Streams = Sequence[Sequence[s.AnySignal]]


def examples(count: int) -> settings:
    return settings(
        max_examples=count * THOROUGH,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def interleaved(streams: Streams, dice: random.Random) -> list[s.AnySignal]:
    """Merged at random, each in its own order, some signals told again at any time later."""
    left = [list(reversed(stream)) for stream in streams if stream]
    found: list[s.AnySignal] = []
    while left:
        stream = dice.choice(left)
        found.append(stream.pop())
        if not stream:
            left.remove(stream)
        if dice.random() < 0.1:
            found.append(dice.choice(found))
    return found


def by_time(streams: Streams) -> list[s.AnySignal]:
    return sorted((one for stream in streams for one in stream), key=lambda signal: signal.at)


def jumped(streams: Streams, after: int, by: int) -> list[list[s.AnySignal]]:
    """The host's clock is set at some moment: every later stamp is off by so much."""
    return [
        [
            replace(
                signal,
                at=signal.at + by * (signal.at > after),
                seen=signal.seen + by * (signal.seen > after),
            )
            for signal in stream
        ]
        for stream in streams
    ]


def folded(found: Sequence[s.AnySignal], facts: Facts | None = None) -> Facts:
    for signal in found:
        facts = fold(facts, signal)
    assert facts is not None
    return facts


def seen_as(facts: Facts, now: int) -> dict[str, object]:
    """All that a human is shown of it at an instant, but for the list of what it did."""
    verdict = judge(facts, now)
    return {
        "state": verdict.state,
        "until": verdict.until,
        "requests": [(r.kind, r.opened, r.tool, r.hold, r.held) for _, r in verdict.requests],
        "commands": facts.commands,
        "children": sorted(
            (c.id, c.status, c.started_at or 0, c.finished_at or 0)
            for c in child_views(facts, verdict.children)
        ),
        "unread": verdict.unread,
        "listed": facts.materialised,
        "meta": (facts.title, *map(facts.about, ("cwd", "project", "branch", "model", "mode"))),
        "usage": facts.usage,
    }
