"""Which requests stand open: what a human has been asked and has not answered."""

from __future__ import annotations

from collections.abc import Iterator

from adsum_hub.facts import Facts
from adsum_hub.limits import Limits
from adsum_hub.parts import Request, Status
from adsum_hub.resolve.gathered import Calls, Requests, Turns
from adsum_hub.resolve.registry import closed_since, masked
from adsum_hub.resolve.standing import over

#: The state an open request stands for.
STATE_OF = {
    "permission": "needs_permission",
    "question": "awaiting_input",
    "dialog": "awaiting_input",
    "plan": "awaiting_approval",
}


def closed_at(facts: Facts, told: Turns, request: Request) -> int:
    """When a witness ended it, 0 if none has.

    Sticky: only its own tool's finish, a decision, or the end of *its* agent's turn. A parallel
    tool, another agent's event or an assistant line must not. (Rejected: one time-out for all; it
    forgets a question the human takes three minutes to answer.)
    """
    if request.closed:
        return request.closed
    released = facts.released.get(request.request_id or "", 0)
    if released >= request.opened:
        return released
    if request.agent_id is not None:
        # A subagent's request outlives its parent's Stop: seen, 1.4 s before it was answered.
        child = facts.children.get(request.agent_id)
        ended = child.finished if child is not None and not child.running else 0
        return ended if ended >= request.opened else 0
    unnamed = facts.turns.get("")
    if unnamed is not None and unnamed.typed and unnamed.prompt > request.opened:
        # Old CLIs name no prompt. But a dialog has the keyboard: who types has left it.
        return unnamed.prompt
    return over(told, request.prompt_id, request.opened)


def unclosed(
    facts: Facts, told: Turns, calls: Calls, requests: Requests, run: int
) -> tuple[list[tuple[str, Request]], int]:
    """What no witness but the registry can have ended, oldest first.

    And when the last of the others was over.
    """
    asked = requests.pending
    if calls.unanswered:
        asked = asked + list(unasked_answers(facts, calls))
    last = requests.closed
    if not asked:
        return [], last
    found = []
    for key, request in asked:
        closed = closed_at(facts, told, request)
        last = max(last, closed)
        if not closed and request.opened >= run:
            found.append((key, request))
    return sorted(found, key=lambda item: (item[1].opened, item[0])), last


def unanswered(
    unclosed: list[tuple[str, Request]],
    opened: int,
    status: Status | None,
    now: int,
    limits: Limits,
) -> list[tuple[str, Request]]:
    """Of these, what the registry does not mask. opened: the main agent's latest opener."""
    if not unclosed:
        return unclosed
    idle = closed_since(status, opened, now, limits)
    return [
        (key, request)
        for key, request in unclosed
        if not masked(request, status, now, limits)
        and not (request.agent_id is None and idle >= request.opened)
    ]


def unasked_answers(facts: Facts, calls: Calls) -> Iterator[tuple[str, Request]]:
    """An AskUserQuestion that came back without answers and was never seen to ask.

    All that is left of the first seed's *PostToolUse(AskUserQuestion) means it waits for input*:
    that hook fires after the human has answered.
    """
    for key, tool in calls.unanswered:
        if key not in facts.requests and max(facts.progress, calls.latest) <= tool.finished:
            yield (
                key,
                Request(
                    "question",
                    tool.finished,
                    tool=tool.tool,
                    tool_use_id=key,
                    agent_id=tool.agent_id,
                    prompt_id=tool.prompt_id,
                    summary=tool.summary,
                ),
            )
