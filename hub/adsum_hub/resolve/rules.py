"""resolve(facts, now) -> AgentState: the numbered rules, first match wins."""

from __future__ import annotations

from collections.abc import Callable

from adsum_hub.facts import Facts
from adsum_hub.limits import LIMITS, Limits
from adsum_hub.parts import Budget, Request
from adsum_hub.resolve.life import over_for_good
from adsum_hub.resolve.questions import STATE_OF
from adsum_hub.resolve.reading import Reading, read, state, survey
from adsum_hub.resolve.resting import closed_turn, no_turn
from adsum_hub.resolve.working import open_turn
from adsum_shared.state import URGENCY, AgentState


def resolve(facts: Facts, now: int, limits: Limits = LIMITS) -> AgentState:
    """What the session is doing at `now` (ms of its host's clock), and why we believe it."""
    return decide(read(survey(facts, limits), now))


def decide(reading: Reading) -> AgentState:
    for rule in RULES:
        found = rule(reading)
        if found is not None:
            return found
    born = reading.facts.born
    return state("unknown", "Status unavailable", born, confidence=0.0, source="none")


#: Of a name in a label, so that there is room for the dollars.
NAME_MAX = 24
DIGITS_MAX = 9

#: What the registry waits for, and the state of the request that it then shows.
SHOWN = {"permission prompt": "needs_permission", "input needed": "awaiting_input"}


def asks_a_human(reading: Reading) -> AgentState | None:
    """Rule 2. The most urgent open request, or the budget, or a dialog only the registry sees.

    Of several the one that is on the screen comes first, where the registry tells what it is:
    dialogs wait for each other, and that one is what the human will answer next.
    """
    if reading.requests:
        states = [request_state(request) for _, request in reading.requests]
        shown = SHOWN.get(reading.status.waiting_for or "") if reading.status else None
        return min(states, key=lambda it: (it.state != shown, URGENCY[it.state], it.since))
    if reading.waiting:
        nameless = nameless_request(reading)
        if nameless is not None:
            return nameless
    budget = reading.facts.budget
    if budget is not None and budget.at >= reading.facts.answered_at:
        return over_budget(budget)
    return None


def over_budget(budget: Budget) -> AgentState:
    """Until a human answers: whoever types a prompt has been told, and lets it go on."""
    # Whose it is comes first: narrow places cut the end.
    whose = f"{budget.scope} budget" if budget.scope else "budget"
    which = f" ({_short(budget.name)})" if budget.name else ""
    per = f" {budget.per}" if budget.per else ""
    label = f"Over {whose}{which}: {dollars(budget.spent)} of {dollars(budget.limit)}{per}"
    return state("budget_exceeded", label, budget.at, confidence=1.0, source="hub")


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def dollars(usd: float | None) -> str:
    """With as many digits as it takes to tell it from nothing, or from another limit."""
    if usd is None:
        return "?"
    digits = 2
    while digits < DIGITS_MAX and abs(round(usd, digits) - usd) > abs(usd) / 100:
        digits += 1
    return f"${usd:,.{digits}f}"


def request_state(request: Request) -> AgentState:
    label = {
        "question": "Asked you a question",
        "dialog": "A dialog is open",
        "plan": "Plan ready for review",
    }.get(request.kind, f"Needs permission: {request.tool or 'a tool'}")
    return state(
        STATE_OF.get(request.kind, "needs_permission"),
        label,
        request.opened,
        confidence=1.0,
        source=request.source,
        context={"tool": request.tool, "summary": request.summary},
    )


def nameless_request(reading: Reading) -> AgentState | None:
    """Auto mode's own dialog fires no PermissionRequest, and hooks can be missing."""
    waiting_for = reading.status.waiting_for if reading.status else None
    since = reading.waiting
    if waiting_for == "permission prompt":
        tools = reading.ground.tools
        tool = tools[-1][1].tool if tools else "a tool"
        label = f"Needs permission: {tool}"
        return state("needs_permission", label, since, confidence=0.8, source="registry")
    if waiting_for == "input needed":
        label = "Asked you a question"
        return state("awaiting_input", label, since, confidence=0.8, source="registry")
    if reading.stand.open or reading.children:
        # Else it is a model picker, opened by the human who sits before it.
        label = "A dialog is open"
        return state("awaiting_input", label, since, confidence=0.8, source="registry")
    return None


def compacts(reading: Reading) -> AgentState | None:
    """Rule 3. Before the turn rules: a typed /compact runs in a closed turn.

    Any later tool or turn signal ends it, because PreCompact(auto) can come with no compaction
    after it, and PostCompact can be missing. So does the record of a terminal's command: Esc ends
    a typed /compact with that alone.
    """
    facts, started = reading.facts, reading.facts.compacting
    if not started or started <= facts.compacted:
        return None
    closed = max((turn.closed for turn in facts.turns.values()), default=0)
    later = max(reading.stand.opened, reading.stand.finished[0], closed, facts.commanded)
    status, hold = reading.status, reading.limits.registry_hold
    idle = (
        status is not None
        and status.status == "idle"
        and reading.now >= max(status.at, started) + hold
    )
    if later > started or idle or reading.now >= started + reading.limits.compaction:
        return None
    return state("compacting", "Compacting context", started, confidence=0.9, source="hook")


RULES: tuple[Callable[[Reading], AgentState | None], ...] = (
    over_for_good,
    asks_a_human,
    compacts,
    closed_turn,
    open_turn,
    no_turn,
)
