"""Rules 4 and 7: the main agent's turn is over, or none is known."""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.parts import Status, Task, Turn
from adsum_hub.resolve.reading import Reading, state
from adsum_hub.resolve.standing import Standing
from adsum_shared.state import AgentState

YOUR_TURN = "Waiting for your next prompt"


def closed_turn(reading: Reading) -> AgentState | None:
    """Rule 4.

    A child that lives comes before Esc: that ends the turn and not the subagent, which goes on, and
    wakes its parent (measured: the CLI's registry calls it busy all the time). It comes before a
    failure too, if it is a subagent: that ends by itself. A shell may be a server that never does,
    and nobody would learn of the failure.
    """
    if reading.open or queued_since(reading):
        return None
    stand = reading.stand
    by_registry = stand.open
    closed = reading.idle if by_registry else stand.closed
    if not closed:
        return None
    how = "ended" if by_registry else stand.how
    working = background(reading, closed)
    agents = any(child.kind == "agent" for child in reading.children.values())
    if how == "failed" and stand.turn is not None and not (working and agents):
        return _failed(stand.turn, closed, stand.source)
    if working is not None:
        return working
    if how == "interrupted":
        return state("idle", "Interrupted", closed, confidence=0.9, source=stand.source)
    source = "registry" if by_registry else stand.source
    finished = completed_task(reading.facts, stand)
    if finished is not None:
        label = f"Finished: {finished.subject or 'all tasks'}"
        return state("task_complete", label, closed, confidence=0.8, source=source)
    return _awaits_prompt(reading, closed, source)


def _failed(turn: Turn, closed: int, source: str) -> AgentState:
    """The CLI's class of error; for those it has no class for, the first line of what it said."""
    said = (turn.last_message or "").strip()
    known = turn.error if turn.error not in (None, "unknown") else None
    what = known or said.partition("\n")[0][:80] or "API error"
    context = {"error": turn.error, "message": said[:300] or None}
    return state("error", f"Failed: {what}", closed, confidence=1.0, source=source, context=context)


def background(reading: Reading, closed: int) -> AgentState | None:
    """What works on after the turn: children, or a shell that only the registry knows of."""
    if reading.children:
        newest = max(reading.children.values(), key=lambda child: (child.started, child.last))
        what = newest.description or newest.type or newest.kind
        more = len(reading.children) - 1
        label = f"Background work: {what}" + (f" and {more} more" if more else "")
        since = max(closed, newest.started)
        return state("waiting_for_agent", label, since, confidence=0.9, source=newest.source)
    status = reading.status
    if status is not None and _has_shell(reading, status, closed):
        label = "Background work: a shell"
        since = max(closed, status.at)
        return state("waiting_for_agent", label, since, confidence=0.8, source="registry")
    return None


def _has_shell(reading: Reading, status: Status, closed: int) -> bool:
    """A background shell that only the registry knows of, for instance after /clear.

    Until the registry tells of the turn's end, or somebody else of the next turn's beginning, its
    last word at rest holds.
    """
    if status.status == "shell":
        return status.at >= closed - 1_000
    late = reading.now < max(closed, status.at) + reading.limits.registry_hold
    return status.shell and status.status == "busy" and late


def completed_task(facts: Facts, stand: Standing) -> Task | None:
    """The task finished last in this turn, if none is open any more.

    (Rejected: TaskCompleted is a delivery at once, the first seed's reading. It fires in
    mid-turn for every to-do item.)
    """
    tasks = [
        task for task in facts.tasks.values() if max(task.created, task.completed) >= stand.run
    ]
    if any(not task.completed for task in tasks):
        return None
    done = [task for task in tasks if task.completed >= stand.began]
    return max(done, key=lambda task: (task.completed, task.subject or ""), default=None)


def _awaits_prompt(reading: Reading, closed: int, source: str) -> AgentState:
    turn = None if reading.stand.open else reading.stand.turn
    said = turn.last_message if turn is not None else None
    since = max(closed, reading.facts.compacted)
    if asks(said):
        # A guess, so it never pushes by itself.
        label = "Asked you a question"
        return state("awaiting_input", label, since, confidence=0.6, source=source)
    context = {"last_message": said[:300]} if said else None
    return state("idle", YOUR_TURN, since, confidence=0.8, source=source, context=context)


def asks(message: str | None) -> bool:
    """Whether the last line puts a question to the human."""
    if not message:
        return False
    last = message.strip().rsplit("\n", 1)[-1].rstrip(" *_`\"')")
    return last.endswith(("?", "\uff1f"))


def queued_since(reading: Reading) -> int:
    """A prompt typed in a turn, or in a compaction, that has ended, and not begun yet.

    Since when, or 0.
    """
    facts, stand = reading.facts, reading.stand
    if not facts.queued or stand.open or facts.dequeued >= facts.queued or not stand.closed:
        return 0
    begun = (turn.first for turn in facts.turns.values() if turn.prompt or turn.closed)
    if max(begun, default=0) > facts.queued or stand.opened > facts.queued:
        return 0
    if facts.queued > stand.closed >= max(facts.compacting, facts.compacted):
        return 0  # a note for the next prompt, as that a subagent was stopped: it starts nothing
    since = max(stand.closed, facts.queued, facts.compacted)
    status = reading.status
    if status is not None and status.status == "busy":
        return since  # the queue runs, without a prompt hook of its own
    idle = status is not None and status.status == "idle"
    if status is not None and idle:
        held = reading.now < max(status.at, since) + reading.limits.registry_hold
        return since if held else 0  # else it has gone back to the input box
    return since if reading.now < since + reading.limits.transient else 0


def no_turn(reading: Reading) -> AgentState | None:
    """Rule 7, and a session that has just begun."""
    facts, status = reading.facts, reading.status
    if status is not None and status.status == "shell":
        return background(reading, 0)
    if status is not None and status.status == "busy":
        label = "Generating response…"
        return state("thinking", label, status.at, confidence=0.5, source="registry")
    if facts.start is not None or (status is not None and status.status == "idle"):
        # Also after SessionStart(compact), which says nothing of idleness: no turn is known.
        since = facts.start[0] if facts.start is not None else facts.born
        source = "hook" if facts.start is not None else "registry"
        context = {"prompted": False}
        return state("idle", "Ready", since, confidence=0.8, source=source, context=context)
    if facts.materialised:
        source = "process" if facts.process is not None else "none"
        return state("thinking", "Discovered…", facts.born, confidence=0.3, source=source)
    return None
