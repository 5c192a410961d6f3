"""Whether something has called for a human whom nobody has answered since. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from adsum_hub.facts import Facts
from adsum_hub.limits import LIMITS
from adsum_hub.parts import Turn
from adsum_shared.state import OVER, AgentState, Group, RequestView

#: How a human ends a session, before whose eyes it is then: /exit, /clear, /resume, /logout.
BY_HAND = frozenset({"prompt_input_exit", "clear", "resume", "logout", "left"})


def unread(facts: Facts, state: AgentState, requests: Iterable[RequestView] = ()) -> bool:
    """state, requests: of these facts at this moment, in the time of their host.

    A state that calls for a human is unread until somebody prompts it, looks, or ends it. It outlives that
    state: an agent at rest that its own background task wakes is at work again, and one that ends
    is over, and still nobody has looked. So past calls count too, as far as facts tell of them.
    (Rejected: the facts alone; an error is one only when its grace is over, and a turn's end calls
    nobody while a shell that only the registry knows of goes on.)
    """
    looked = max(facts.read, facts.typed_at, _ended_by_hand(facts))
    if calls(state):
        return max((state.since, *(request.opened_at for request in requests))) > looked
    return _called_at(facts, looked, over=state.state in OVER) > looked


def calls(state: AgentState) -> bool:
    """Not one that is only slow, nor one that nobody has asked anything of yet."""
    if state.group is Group.NEEDS_YOU:
        prompted = state.context is None or state.context.get("prompted") is not False
        return state.state != "stuck" and prompted
    return state.state == "task_complete"


def _ended_by_hand(facts: Facts) -> int:
    ends = (facts.ended, facts.left)
    return max((end.at for end in ends if end is not None and end.reason in BY_HAND), default=0)


def _called_at(facts: Facts, looked: int, *, over: bool) -> int:
    """When it was last at rest or asked something, before what it is now."""
    called = [
        _rested_at(facts, turn, over=over) for turn in facts.turns.values() if turn.closed > looked
    ]
    if over:
        called += [r.opened for r in facts.requests.values() if not r.closed]
    return max(called, default=0)


def _rested_at(facts: Facts, turn: Turn, *, over: bool) -> int:
    """Since when nothing ran between this turn's end and what came next; 0 if something always did.

    While the latest turn is not followed by anything, the state itself says whether it rests.
    """
    closed, after = turn.closed, _next_opener(facts, turn.closed)
    if not after and not over:
        return 0
    rested = closed
    for child in facts.children.values():
        if child.running and child.last >= closed:
            return 0
        if child.finished > closed and (not after or child.started < after):
            rested = max(rested, child.finished + LIMITS.wake)
    return rested if not after or rested < after else 0


def _next_opener(facts: Facts, closed: int) -> int:
    openers = [
        at for turn in facts.turns.values() for at in (turn.first, turn.prompt, turn.reopened)
    ]
    openers += [tool.started for tool in facts.tools.values() if tool.agent_id is None]
    return min((at for at in openers if at > closed), default=0)
