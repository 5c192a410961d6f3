"""Rules 5 and 6: a turn of the main agent runs; doing what, and whether it shows signs of life."""

from __future__ import annotations

from adsum_hub.parts import Tool
from adsum_hub.resolve.reading import Reading, state
from adsum_hub.resolve.resting import queued_since
from adsum_hub.resolve.standing import failed_tool
from adsum_shared.state import AgentState

#: Tools whose call is another agent's whole work. `Task` is its old name.
LAUNCHERS = frozenset({"Agent", "Task"})

#: "No sign of life for {age}": the label changes at these ages only, in minutes.
AGES = (2, 3, 5, 10, 15, 30, 60, 120, 240, 480, 1_440, 2_880, 10_080)


def open_turn(reading: Reading) -> AgentState | None:
    if not reading.open and not queued_since(reading):
        return None
    return silent(reading) or doing(reading)


def doing(reading: Reading) -> AgentState:
    """Rule 5."""
    since = queued_since(reading)
    busy = reading.status is not None and reading.status.status == "busy"
    if since and busy and reading.now >= since + reading.limits.registry_hold:
        label = "Generating response…"
        return state("thinking", label, since, confidence=0.5, source="registry")
    if since:
        return state("queued", "Prompt queued", since, confidence=0.7, source="hook")
    tools = reading.ground.tools
    return (
        delegates(reading, tools)
        or retries(reading)
        or acts(reading, tools)
        or recovers(reading)
        or thinks(reading)
    )


def delegates(reading: Reading, tools: list[tuple[str, Tool]]) -> AgentState | None:
    launchers = [tool for _, tool in tools if tool.tool in LAUNCHERS]
    if not launchers:
        return None
    agents = [child for child in reading.children.values() if child.kind == "agent"]
    if not agents and reading.now >= launchers[-1].first + reading.limits.transient:
        return None
    number = max(len(agents), len(launchers))
    label = f"Running {number} subagent" + ("s" if number > 1 else "")
    first = launchers[0]
    return state("delegating", label, first.first, confidence=0.9, source=first.source)


def retries(reading: Reading) -> AgentState | None:
    retry = reading.facts.retry
    if retry is None or retry.at < max(reading.ground.last_main, reading.busy):
        return None
    label = f"API retry {retry.attempt}" + (f" of {retry.max}" if retry.max else "")
    return state("retrying", label, retry.at, confidence=0.9, source=retry.source)


def tool_deadline(reading: Reading, tool: Tool) -> int:
    """Until when an open call may be silent. From its start, or from the approval it waited for."""
    limit = max(tool.timeout_ms or 0, reading.limits.transient)
    released = reading.status.released if reading.status is not None else 0
    return max(tool.first, released) + limit


def acts(reading: Reading, tools: list[tuple[str, Tool]]) -> AgentState | None:
    within = [tool for _, tool in tools if reading.now < tool_deadline(reading, tool)]
    if not within:
        return None
    tool = within[-1]
    label = f"Running {tool.tool}" + (f": {tool.summary}" if tool.summary else "")
    context = {"tool": tool.tool, "summary": tool.summary}
    return state("acting", label, tool.first, confidence=0.9, source=tool.source, context=context)


def recovers(reading: Reading) -> AgentState | None:
    """A failed call and nothing since: grace, then an error."""
    tool = failed_tool(reading.facts, reading.stand, reading.ground.turns)
    if tool is None:
        return None
    context = {"tool": tool.tool, "summary": tool.summary, "error": tool.error}
    if reading.now < tool.finished + reading.limits.error_grace:
        label = f"{tool.tool} failed, recovering"
        return state(
            "retrying", label, tool.finished, confidence=0.7, source="hook", context=context
        )
    if reading.status is not None and reading.status.status == "busy":
        return None  # the CLI itself says that it works on; no reason to call a human
    label = f"Failed: {tool.tool}" + (f": {tool.error}" if tool.error else "")
    since = tool.finished + reading.limits.error_grace
    return state("error", label, since, confidence=0.7, source="hook", context=context)


def thinks(reading: Reading) -> AgentState:
    label = "Generating response…"
    if reading.busy:
        return state("thinking", label, reading.busy, confidence=0.5, source="registry")
    facts = reading.facts
    stand = reading.stand
    since = max(stand.opened, stand.finished[0])
    heard = facts.updated_at
    if reading.now < heard + reading.limits.transient:
        return state("thinking", label, since, confidence=0.9, source=stand.source)
    # The hook's word is a minute old: what is left is what the transcript says (seed rule).
    source = "transcript" if facts.transcript_at >= facts.hook_at else "none"
    return state("thinking", label, since, confidence=0.4, source=source)


def stuck_from(reading: Reading) -> int:
    """When silence becomes suspicious: no witness, and no open call inside its own time-out."""
    facts = reading.facts
    deadlines = [
        tool_deadline(reading, tool)
        for tool in reading.ground.calls.timed
        if tool.first >= reading.stand.run
    ]
    return max([facts.updated_at + reading.limits.stuck_after, *deadlines])


def silent(reading: Reading) -> AgentState | None:
    """Rule 6. Any sign of life ends it; a process that burns CPU gives one (`alive`)."""
    since = stuck_from(reading)
    if reading.now < since:
        return None
    minutes = (reading.now - reading.facts.updated_at) // 60_000
    age = max((age for age in AGES if age <= minutes), default=AGES[0])
    label = f"No sign of life for {_age(age)}"
    return state("stuck", label, since, confidence=0.6, source="none")


def _age(minutes: int) -> str:
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2_880 else f"{minutes // 1_440} days"
