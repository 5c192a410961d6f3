"""Transcript lines about the work: prompts, answers, tool calls and their results, ends of turns."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from adsum_collector.agents.claude_code import line_tools
from adsum_collector.agents.claude_code.bodies import NAME_MAX, lenient
from adsum_collector.agents.claude_code.hooks import about_child
from adsum_collector.agents.claude_code.line import Context, Line
from adsum_collector.agents.claude_code.line_tools import INTERRUPTED
from adsum_collector.agents.claude_code.prompts import (
    NO_PROMPTS,
    PROMPT_MAX,
    SYSTEM_PROMPTS,
    ends_of,
    notified_children,
)
from adsum_collector.agents.claude_code.tool_hooks import Common
from adsum_collector.agents.claude_code.tools import one_line, shorten
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

#: A Stop hook that sends the agent back to work.
SENT_BACK = "Stop hook feedback:"
#: What is left of a prompt that another hook refused: its own hook fired, its turn never begins. The
#: line bears no prompt id.
BLOCKED = "UserPromptSubmit operation blocked by hook"
#: How a child ended that wakes nobody.
STOPPED = frozenset({"stopped", "killed"})
#: How an answer ends a turn. `tool_use` and `pause_turn` do not; after `max_tokens` the CLI itself
#: asks for the rest. Most lines of a streamed answer bear none.
ENDS = ("end_turn", "stop_sequence", "refusal")
RETRIES_MAX = 1000
RETRY_MS_MAX = 24 * 3600 * 1000


def user(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    """What came back from tools, or a prompt: a human's, the CLI's own, or none at all."""
    found: list[KnownSignal] = []
    texts: list[str] = []
    for block in line.blocks():
        if block.get("type") == "tool_result":
            found += line_tools.result(block, line, known, common)
        elif block.get("type") == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
    return found + _prompt("\n".join(texts), line, common)


def _prompt(text: str, line: Line, common: Common) -> list[KnownSignal]:
    start = text.lstrip()
    if not start or line.flag("isCompactSummary"):
        return []
    if start.startswith(INTERRUPTED):
        return [s.TurnInterrupted(**common)]
    if common["agent_id"] is not None:
        return []  # what a subagent is told begins its run, see `child_begins`
    if start.startswith(NO_PROMPTS):
        return [s.Alive(**common, event=s.COMMAND)]
    if line.flag("isMeta") and not start.startswith(SENT_BACK):
        return []
    if start.startswith(SYSTEM_PROMPTS) or line.text("promptSource") == "system":
        return _system_prompt(start, common)
    return [s.PromptSubmitted(**common, text=shorten(text, PROMPT_MAX))]


def _system_prompt(text: str, common: Common) -> list[KnownSignal]:
    """What the CLI itself says to the agent; it opens a turn, or joins the one that runs."""
    told = children_told(text, common)
    if told and all(isinstance(each, s.ChildFinished) and each.status in STOPPED for each in told):
        return told  # after a kill and a resume: children of the run before, and no turn
    return [*told, s.PromptSubmitted(**common, origin="system")]


def child_begins(
    line: Line, known: Context, common: Common, sidecar: bytes | None
) -> list[KnownSignal]:
    """A subagent is told something: its first task, or, after its end, another.

    Lines marked as meta are copies of its parent's.
    """
    child_id = common["agent_id"]
    told = line.type == "user" and any(block.get("type") == "text" for block in line.blocks())
    if child_id is None or not told or line.flag("isMeta"):
        return []
    text = next(block.get("text") for block in line.blocks() if block.get("type") == "text")
    if isinstance(text, str) and text.lstrip().startswith(INTERRUPTED):
        return []
    given = {} if known.begun or sidecar is None else lenient(sidecar, dict[str, Any]) or {}
    known.begun = True
    return [
        s.ChildStarted(
            **about_child(common),
            child_id=child_id,
            type=one_line(given.get("agentType")),
            description=one_line(given.get("description")),
        )
    ]


def assistant(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    if line.flag("isApiErrorMessage"):
        error = line.name("error") or "unknown"
        return [s.TurnFailed(**common, error=error, message=ends_of(_said(line)))]
    found: list[KnownSignal] = []
    for block in line.blocks():
        if block.get("type") == "tool_use":
            found += line_tools.call(block, known, common)
        else:
            found.append(s.Alive(**common, event=s.MESSAGE))
    if line.message("stop_reason") in ENDS:
        found.append(s.TurnEnded(**common, last_message=ends_of(_said(line))))
    return found


def _said(line: Line) -> str | None:
    texts = [block.get("text") for block in line.blocks() if block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str)) or None


def system(line: Line, _known: Context, common: Common) -> list[KnownSignal]:
    match line.text("subtype"):
        case "turn_duration" if common["agent_id"] is None:
            return [s.TurnEnded(**common)]
        case "api_error":
            retry = s.RetryScheduled(
                **common,
                attempt=_clamped(line.get("retryAttempt", int), RETRIES_MAX) or 1,
                max=_clamped(line.get("maxRetries", int), RETRIES_MAX),
                in_ms=_clamped(line.get("retryInMs", float), RETRY_MS_MAX) or None,
            )
            return [retry]
        case "compact_boundary":
            about = line.get("compactMetadata", dict[str, Any]) or {}
            trigger = about.get("trigger")
            return [
                s.CompactionFinished(
                    **common, trigger=trigger[:NAME_MAX] if isinstance(trigger, str) else None
                )
            ]
        case "informational" if (line.text("content") or "").startswith(BLOCKED):
            return [replace(s.TurnInterrupted(**common), prompt_id=None)]
        case "agents_killed":
            # Ctrl-C kills every subagent, and the line names none of them.
            return [
                s.ChildFinished(**about_child(common), child_id=s.ALL_CHILDREN, status="killed")
            ]
        case _:
            return []


def _clamped(number: float | None, most: int) -> int | None:
    return None if number is None else int(min(max(number, 0), most))


def children_told(text: str, common: Common) -> list[KnownSignal]:
    """The children of which this text reports to their parent; it is about them, not of them."""
    about = Common(**{**common, "agent_id": None})
    return notified_children(text.lstrip(), about)


def children_ended(text: str, common: Common) -> list[KnownSignal]:
    """The same, of a report that still waits in the queue: the parent has yet to be told.

    A child that somebody stopped does not wake its parent: its report waits for the next prompt.
    """
    return [
        replace(each, notified=each.status in STOPPED)
        if isinstance(each, s.ChildFinished)
        else each
        for each in children_told(text, common)
    ]
