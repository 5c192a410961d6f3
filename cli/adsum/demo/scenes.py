"""What happens in a session, scene by scene: each is a generator that yields seconds to wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adsum.demo.voice import CONTEXT_SIZE, PACKED_CONTEXT, Voice
from adsum_shared import signals as s

#: Seconds until the next scene; what was said meanwhile is with the voice.
Scene = Iterator[float]

BUILD_MS = 600_000
#: Of a plan whose job names none.
STEPS = ("Pin what it does today with tests", "Change one place at a time", "Measure, then compare")


def thinks(voice: Voice, low: float = 6, high: float = 20) -> Scene:
    yield voice.between(low, high)
    voice.message()


def calls(
    voice: Voice,
    tool: str,
    summary: str,
    *,
    low: float,
    high: float,
    error: str | None = None,
    agent_id: str | None = None,
) -> Scene:
    timeout = BUILD_MS if tool == "Bash" else None
    key = voice.tool(tool, summary, timeout_ms=timeout, agent_id=agent_id)
    yield voice.between(low, high)
    voice.finish(tool, key, error, agent_id=agent_id)


def looks_around(voice: Voice, times: int = 2) -> Scene:
    for _ in range(times):
        tool = voice.rng.choice(("Read", "Read", "Grep", "Glob"))
        file = voice.rng.choice(voice.project.files)
        what = {"Grep": file.rpartition("/")[2].partition(".")[0], "Glob": "**/*"}.get(tool, file)
        yield from calls(voice, tool, _short(what), low=1, high=4)
        yield from thinks(voice, 4, 12)


def edits(voice: Voice, times: int = 2) -> Scene:
    for _ in range(times):
        tool = voice.rng.choice(("Edit", "Edit", "Write"))
        yield from calls(voice, tool, _short(voice.rng.choice(voice.project.files)), low=1, high=5)
        yield from thinks(voice)


def tests(voice: Voice, *, fail: bool) -> Scene:
    """A failing run is followed by a change, and by one that passes."""
    if fail:
        yield from calls(
            voice, "Bash", voice.project.test, low=12, high=40, error=voice.project.failure
        )
        yield voice.between(3, 8)
        voice.message()
        yield from edits(voice, 1)
    yield from calls(voice, "Bash", voice.project.test, low=15, high=70)
    yield from thinks(voice)


def commits(voice: Voice) -> Scene:
    message = voice.job.title[:1].lower() + voice.job.title[1:]
    yield from calls(voice, "Bash", f'git commit -am "{message}"', low=2, high=6)
    yield from thinks(voice, 3, 6)


def asks_permission(voice: Voice, low: float, high: float, *, agent_id: str | None = None) -> Scene:
    """Somebody allows it after a while; seldom somebody does not."""
    command, why = voice.rng.choice(voice.project.risky)
    key = voice.tool("Bash", command, timeout_ms=BUILD_MS, agent_id=agent_id)
    yield 0.2
    about = {"summary": command, "agent_id": agent_id}
    voice.ask("permission", "Bash", key, {"command": command, "description": why}, **about)
    yield voice.between(low, high)
    refused = voice.rng.random() < 0.15
    voice.answered(key, "deny" if refused else "allow", agent_id=agent_id)
    yield 1.0 if refused else voice.between(8, 45)
    error = "The user does not want this" if refused else None
    voice.finish("Bash", key, error, denied=refused, agent_id=agent_id)
    yield from thinks(voice)


def asks_question(voice: Voice, low: float, high: float) -> Scene:
    question = voice.rng.choice(voice.project.questions)
    options = [{"label": label, "description": means} for label, means in question.options]
    asked = {"question": question.text, "header": question.header, "options": options}
    key = voice.tool("AskUserQuestion", question.text)
    yield 0.2
    payload = {"questions": [asked]}
    voice.ask("question", "AskUserQuestion", key, payload, summary=question.text)
    yield voice.between(low, high)
    voice.answered(key)
    voice.finish("AskUserQuestion", key, answered=True)
    yield from thinks(voice)


def shows_plan(voice: Voice, low: float, high: float) -> Scene:
    key = voice.tool("ExitPlanMode", "Plan")
    yield 0.2
    steps = (f"{number}. {step}" for number, step in enumerate(voice.job.tasks or STEPS, 1))
    plan = "\n".join((f"# {voice.job.title}", "", *steps, "", voice.project.plan))
    voice.ask("plan", "ExitPlanMode", key, {"plan": plan}, summary=voice.job.title)
    yield voice.between(low, high)
    voice.answered(key)
    voice.finish("ExitPlanMode", key)
    voice.mode = "acceptEdits"
    voice.say(s.MetaChanged, mode=voice.mode)
    yield from thinks(voice)


def opens_dialog(voice: Voice, low: float, high: float) -> Scene:
    """A tool server asks for something that only the human has."""
    key = voice.tool("mcp__tracker__create_issue", voice.job.title, timeout_ms=BUILD_MS)
    yield 0.5
    asked: dict[str, Any] = {"message": "Which board should the issue go to?", "server": "tracker"}
    voice.ask("dialog", "mcp__tracker__create_issue", key, asked, summary=asked["message"])
    yield voice.between(low, high)
    voice.answered(key)
    yield voice.between(2, 6)
    voice.finish("mcp__tracker__create_issue", key)
    yield from thinks(voice)


def compacts(voice: Voice, low: float, high: float) -> Scene:
    voice.say(s.CompactionStarted, trigger="auto")
    yield voice.between(low, high)
    voice.context = PACKED_CONTEXT
    voice.say(s.CompactionFinished, trigger="auto")
    voice.tell_usage()
    yield from thinks(voice)


def retries(voice: Voice, times: int) -> Scene:
    for attempt in range(1, times + 1):
        wait = min(4.0 * 1.6**attempt, 45.0)
        about = {"attempt": attempt, "max": 10, "in_ms": int(wait * 1000)}
        voice.say(s.RetryScheduled, "transcript", **about)
        yield wait


def delegates(voice: Voice, most: int, *, asks: bool = False) -> Scene:
    """Several subagents at once, while the main agent waits for them."""
    sent = list(voice.project.helpers[:most])
    running: list[tuple[str, str]] = []
    for words in sent:
        key, child = voice.tool("Agent", words), voice.name("a")
        kind = "code-reviewer" if words.startswith("Review") else "Explore"
        voice.say(s.ChildStarted, child_id=child, type=kind, description=words)
        running.append((key, child))
        yield 1.5
    for number in range(7 * len(running)):
        _, child = voice.rng.choice(running)
        file = _short(voice.rng.choice(voice.project.files))
        tool = voice.rng.choice(("Read", "Grep"))
        yield from calls(voice, tool, file, low=1, high=6, agent_id=child)
        yield voice.between(1, 5)
        if asks and number == 4:
            yield from asks_permission(voice, 30, 120, agent_id=child)
    for key, child in running:
        voice.say(s.ChildFinished, child_id=child, notified=True)
        voice.finish("Agent", key, child_id=child)
        yield voice.between(2, 9)
    yield from thinks(voice)


def leaves_running(voice: Voice, kind: str, words: str, low: float, high: float) -> Scene:
    """The turn ends, its background work goes on, and its report wakes the agent."""
    child = voice.name("b")
    key = voice.tool("Bash", words, timeout_ms=0)
    yield 1.0
    voice.finish("Bash", key, background=True, child_id=child)
    voice.say(s.ChildStarted, child_id=child, child_kind=kind, description=words)
    yield from thinks(voice, 3, 6)
    tasks = [s.BackgroundTask(child, kind, description=words)]  # type: ignore[arg-type] # one of ChildKind
    voice.stop("It runs in the background; I will look at it when it is done.", tasks)
    left = voice.between(low, high)
    while left > 0:
        yield min(left, 40.0)
        left -= 40.0
        voice.say(s.ChildChanged, "transcript", child_id=child, child_kind=kind, status="running")
    voice.say(s.ChildFinished, child_id=child, child_kind=kind, notified=True)
    voice.prompt(f"{words}: completed", origin="system")
    yield from thinks(voice)


def pauses(voice: Voice, low: float = 20, high: float = 150) -> Scene:
    """Until its human types the next prompt, which is about the next job."""
    yield voice.between(low, high)
    voice.turns += 1


def works(voice: Voice) -> Scene:
    """The usual middle of a turn."""
    yield from thinks(voice)
    yield from looks_around(voice, voice.rng.randrange(2, 5))
    yield from edits(voice, voice.rng.randrange(2, 5))
    yield from tests(voice, fail=voice.rng.random() < 0.4)
    if voice.context > CONTEXT_SIZE * 0.9:
        yield from compacts(voice, 30, 60)


def _short(path: str) -> str:
    """A summary holds no more of a path."""
    return path.rpartition("/")[2]
