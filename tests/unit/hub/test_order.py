"""Whatever order the witnesses come in, and however often, the same state stands in the end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum_hub.facts import Facts
from adsum_hub.fold import fold
from adsum_hub.resolve import children, next_deadline, open_requests, resolve
from adsum_shared import signals as s

T0 = 1_000_000
STEPS = (
    "tool",
    "fail",
    "permission",
    "permission denied",
    "question",
    "agent",
    "subagent permission",
    "shell",
    "task",
    "stop",
    "stop failure",
    "escape",
    "queue",
    "compact",
    "notification",
    "resume",
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

    def wait(self, ms: int = 400) -> None:
        self.t += ms

    def common(self, source: s.Source, agent_id: str | None = None) -> dict[str, object]:
        at = self.t + self.late if source == "hook" else self.t
        return {
            "session_id": "S",
            "at": at,
            "seen": at,
            "source": source,
            "prompt_id": f"p{self.prompt}" if source != "registry" else None,
            "agent_id": agent_id,
        }

    def tell(
        self, kind: type, *sources: s.Source, agent_id: str | None = None, **data: object
    ) -> None:
        for source in sources:
            signal = kind(**self.common(source, agent_id), **data)
            getattr(self, source).append(signal)

    def status(self, status: str, waiting_for: str | None = None) -> None:
        self.tell(s.StatusReported, "registry", status=status, waiting_for=waiting_for, pid=7)

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

    def ask(self, name: str, tool: str, kind: str, agent_id: str | None = None) -> None:
        self.wait(100)
        self.tell(
            s.RequestOpened,
            "hook",
            request_kind=kind,
            tool=tool,
            digest=name,
            agent_id=agent_id,
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


def denied(scene: Scene) -> None:
    scene.begin()
    scene.ask(scene.call("Bash"), "Bash", "permission")
    scene.close(s.TurnInterrupted, "transcript")


def question(scene: Scene) -> None:
    scene.begin()
    name = scene.call("AskUserQuestion")
    scene.tell(s.RequestOpened, "hook", "transcript", request_kind="question", tool_use_id=name)
    scene.ask(name, "AskUserQuestion", "question")


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


PLAY = dict(
    zip(
        STEPS,
        (
            tool,
            fail,
            permission,
            denied,
            question,
            agent,
            subagent_permission,
            shell,
            task,
            stop,
            stop_failure,
            escape,
            queue,
            compact,
            notification,
            resume,
        ),
        strict=True,
    )
)


def interleaved(scene: Scene, dice: random.Random) -> list[s.KnownSignal]:
    """The streams merged at random, each in its own order, some signals a second time later."""
    streams = [list(scene.hook), list(scene.transcript), list(scene.registry)]
    found: list[s.KnownSignal] = []
    while any(streams):
        found.append(dice.choice([stream for stream in streams if stream]).pop(0))
        if dice.random() < 0.1:
            found.append(dice.choice(found))
    return found


def by_time(scene: Scene) -> list[s.KnownSignal]:
    return sorted([*scene.hook, *scene.transcript, *scene.registry], key=lambda signal: signal.at)


def folded(found: list[s.KnownSignal]) -> Facts:
    facts: Facts | None = None
    for signal in found:
        facts = fold(facts, signal)
    assert facts is not None
    return facts


def seen_as(facts: Facts, now: int) -> tuple[object, ...]:
    requests = [(r.kind, r.opened_at, r.tool) for r in open_requests(facts, now)]
    kids = sorted((c.id, c.status, c.finished_at) for c in children(facts))
    return resolve(facts, now), next_deadline(facts, now), requests, kids, facts.unread


scripts = st.lists(st.sampled_from(STEPS), min_size=1, max_size=8)
lateness = st.sampled_from([0, 40, 300, 1_500])


@pytest.mark.timeout(120)
@settings(max_examples=200, deadline=None)
@given(scripts, lateness, st.randoms(use_true_random=False))
def test_any_interleaving_with_duplicates_gives_the_same_state(
    steps: list[str], late: int, dice: random.Random
) -> None:
    scene = play([*steps], late)
    if not (scene.hook or scene.transcript):
        return
    reference = folded(by_time(scene))
    other = folded(interleaved(scene, dice))
    for after in (1_600, 3_000, 6_500, 15_000, 61_000, 130_000, 400_000):
        now = scene.t + after
        assert seen_as(other, now) == seen_as(reference, now)


@settings(max_examples=100, deadline=None)
@given(scripts, lateness, st.randoms(use_true_random=False))
def test_facts_restored_from_a_snapshot_fold_on_as_if_nothing_had_happened(
    steps: list[str], late: int, dice: random.Random
) -> None:
    found = interleaved(play(steps, late), dice)
    if not found:
        return
    cut = dice.randrange(len(found))
    facts = folded(found[: cut + 1])
    restored = msgspec.json.decode(msgspec.json.encode(facts), type=Facts)

    assert restored == facts
    for signal in found[cut + 1 :]:
        facts, restored = fold(facts, signal), fold(restored, signal)
    assert restored == facts


@settings(max_examples=100, deadline=None)
@given(scripts, lateness)
def test_a_repeated_stream_changes_nothing(steps: list[str], late: int) -> None:
    scene = play(steps, late)
    once = by_time(scene)
    if not once:
        return
    facts = folded(once)
    for signal in once:
        again = fold(facts, signal)
        assert seen_as(again, scene.t + 5_000) == seen_as(facts, scene.t + 5_000)


@settings(max_examples=100, deadline=None)
@given(scripts)
def test_between_now_and_the_next_deadline_nothing_changes_by_itself(steps: list[str]) -> None:
    scene = play(steps, 0)
    if not (scene.hook or scene.transcript):
        return
    facts = folded(by_time(scene))
    now = scene.t
    deadline = next_deadline(facts, now)
    last = deadline if deadline is not None else now + 2_000_000
    for part in range(1, 20):
        at = now + (last - now) * part // 20
        if at < last:
            assert resolve(facts, at) == resolve(facts, now)
    wakes = 0
    while deadline is not None and resolve(facts, deadline) == resolve(facts, now):
        wakes, now, deadline = wakes + 1, deadline, next_deadline(facts, deadline)
    assert wakes < 100
