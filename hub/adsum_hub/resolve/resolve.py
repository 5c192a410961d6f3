"""What the facts mean at an instant: the state, when it next changes, and the lists beside it.

Pure: `now` is milliseconds of the *host's* clock and comes in as a parameter. Nothing here reads a
terminal's screen or asks a model to classify: both were rejected for good.
"""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.limits import LIMITS, Limits
from adsum_hub.resolve.children import child_views, running
from adsum_hub.resolve.deadlines import next_deadline
from adsum_hub.resolve.reading import read, survey
from adsum_hub.resolve.rules import resolve
from adsum_shared.state import ChildView, RequestView

__all__ = ["LIMITS", "Limits", "children", "next_deadline", "open_requests", "resolve"]


def open_requests(facts: Facts, now: int, limits: Limits = LIMITS) -> tuple[RequestView, ...]:
    """Everything a human is asked at this instant, oldest first. Times: host milliseconds."""
    ground = survey(facts, limits)
    if not ground.unclosed:
        return ()  # as below: most sessions ask nothing
    return tuple(
        RequestView(
            id=request.request_id or key,
            kind=request.kind,
            opened_at=request.opened,
            tool=request.tool,
            summary=request.summary,
            agent_id=request.agent_id,
            payload=request.payload,
        )
        for key, request in read(ground, now).requests
    )


def children(facts: Facts, now: int, limits: Limits = LIMITS) -> tuple[ChildView, ...]:
    """Every child known, those that run first. Times: host milliseconds."""
    if not facts.children:
        return ()
    reading = read(survey(facts, limits), now)
    return child_views(reading, running(reading))
