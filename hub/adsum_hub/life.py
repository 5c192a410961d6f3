"""Rule 1: whether the session is over, set aside by a human, or lives."""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.parts import LATENESS, Ended
from adsum_hub.reading import Reading, state
from adsum_shared.state import AgentState

#: The registry's word that a session left may be later than the SessionEnd it belongs to, or
#: earlier: a closed terminal's SessionEnd came 1.3 s after its registry file had gone.
SAME_END = 5_000

REASONS = {
    "prompt_input_exit": "exit",
    "clear": "cleared",
    "resume": "another session resumed",
    "logout": "logged out",
    "other": "closed",
    "gone": "closed",
    "left": "another session took over",
    "process": "process gone",
}


def over_for_good(reading: Reading) -> AgentState | None:
    facts = reading.facts
    if facts.dismissed and facts.dismissed >= facts.moved:
        return state("archived", "Dismissed", facts.dismissed, confidence=1.0, source="hub")
    ended = final(facts, reading.stand.opened)
    if ended is None:
        return None
    if facts.suspended and facts.suspended >= reading.stand.opened:
        label = "Suspended; resumable"
        return state("suspended", label, ended.at, confidence=1.0, source=ended.source)
    reason = REASONS.get(ended.reason, ended.reason)
    return state(
        "session_ended",
        f"Session closed ({reason})",
        ended.at,
        confidence=1.0,
        source=ended.source,
        context={"reason": ended.reason},
    )


def final(facts: Facts, opened: int) -> Ended | None:
    """The end that still stands: the latest that no new run and no opener has lifted."""
    ends: list[Ended] = []
    if facts.ended is not None and not _revived(facts, facts.ended.at, opened):
        ends.append(facts.ended)
    # Hooks may be stamped late, and the registry and the process table are not: an opener that
    # is only a little younger than their word happened before it.
    late = opened - LATENESS
    if (
        facts.left is not None
        and facts.named <= facts.left.at
        and not _revived(facts, facts.left.at, late)
    ):
        ends.append(facts.left)
    process = facts.process
    if process is not None and process.gone and max(late, facts.resumed) <= process.gone:
        ends.append(Ended(process.gone, "process", "process"))
    # The first word of several for one end says why; a process gone is how each of them ends.
    return min(ends, key=lambda end: (end.source == "process", end.at), default=None)


def _revived(facts: Facts, at: int, opened: int) -> bool:
    if opened > at or facts.resumed >= at:
        return True
    process = facts.process
    if process is not None and process.seen > at and not process.gone:
        return not process.first_of_all or process.started > at
    # The registry let go of it and then took it up again: an in-app /resume.
    left = facts.left
    return left is not None and left.at + SAME_END >= at and facts.named > left.at + SAME_END
