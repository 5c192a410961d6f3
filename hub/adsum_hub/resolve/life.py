"""Rule 1: whether the session is over, set aside by a human, or lives."""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.parts import LATENESS, Ended
from adsum_hub.resolve.reading import Reading, state
from adsum_shared.state import AgentState

#: The registry's word that a session left may be later than the SessionEnd it belongs to, or
#: earlier: a closed terminal's SessionEnd came 1.3 s after its registry file had gone.
SAME_END = 5_000

#: The reason a transcript gives for the end of a run without a terminal.
HEADLESS = "run_over"

REASONS = {
    "prompt_input_exit": "exit",
    "clear": "cleared",
    "resume": "another session resumed",
    "logout": "logged out",
    "other": "",  # nothing that would explain it
    "gone": "",
    "closed": "",
    "left": "another session took over",
    "process": "process gone",
    HEADLESS: "",
}


def over_for_good(reading: Reading) -> AgentState | None:
    facts = reading.facts
    if facts.dismissed and facts.dismissed >= facts.moved:
        return state("archived", "Dismissed", facts.dismissed, confidence=1.0, source="hub")
    ended = final(reading)
    if ended is None:
        return None
    if facts.suspended and facts.suspended >= reading.stand.opened:
        label = "Suspended; resumable"
        return state("suspended", label, ended.at, confidence=1.0, source=ended.source)
    reason = REASONS.get(ended.reason, ended.reason)
    return state(
        "session_ended",
        f"Session closed ({reason})" if reason else "Session closed",
        ended.at,
        confidence=1.0,
        source=ended.source,
        context={"reason": ended.reason},
    )


def final(reading: Reading) -> Ended | None:
    """The end that still stands: the latest that no new run and no opener has lifted."""
    facts, opened = reading.facts, reading.stand.opened
    process = facts.process
    gone = process.gone if process is not None else 0
    if not gone and facts.ended is None and facts.left is None and facts.closing is None:
        return None  # as below
    ends: list[Ended] = []
    if facts.ended is not None and not _revived(facts, facts.ended.at, opened):
        ends.append(facts.ended)
    # Hooks may be stamped late, and the registry and the process table are not: an opener that
    # is only a little younger than their word happened before it. A transcript bears true times.
    exact = reading.stand.open and reading.stand.source == "transcript"
    late = opened if exact else opened - LATENESS
    if (
        facts.left is not None
        and facts.named <= facts.left.at
        and not _revived(facts, facts.left.at, late)
    ):
        ends.append(facts.left)
    if facts.closing is not None and _is_closed(reading, facts.closing):
        ends.append(facts.closing)
    if gone and max(late, facts.resumed) <= gone:
        ends.append(Ended(gone, "process", "process"))
    # The first word of several for one end says why; a process gone is how each of them ends.
    return min(ends, key=lambda end: (end.source == "process", end.at), default=None)


def _is_closed(reading: Reading, closing: Ended) -> bool:
    """Whether the transcript's word, that its books were closed, means that the session is over.

    Only where the registry never spoke: that knows better. In a turn that runs it means that the
    process is being ended (a closed terminal); after one, a headless run may still show its error.
    """
    facts = reading.facts
    opened = max(reading.stand.opened, facts.progress)
    if facts.named or _revived(facts, closing.at, opened):
        return False
    held = closing.heard + (reading.limits.closing if closing.reason == HEADLESS else 0)
    return reading.stand.open or reading.now >= held


def _revived(facts: Facts, at: int, opened: int) -> bool:
    if max(opened, facts.resumed) > at:
        return True
    process = facts.process
    if process is not None and process.seen > at and not process.gone:
        return not process.first_of_all or process.started > at
    # The registry let go of it and then took it up again: an in-app /resume.
    left = facts.left
    return left is not None and left.at + SAME_END >= at and facts.named > left.at + SAME_END
