"""What the facts mean at an instant: the state, when it next changes, and the lists beside it.

Pure: `now` is milliseconds of the *host's* clock and comes in as a parameter. Nothing here reads a
terminal's screen or asks a model to classify: both were rejected for good.
"""

from __future__ import annotations

from msgspec.structs import replace

from adsum_hub.deadlines import next_deadline
from adsum_hub.facts import Facts
from adsum_hub.limits import LIMITS, Limits
from adsum_hub.living import is_killed
from adsum_hub.parts import Child
from adsum_hub.reading import read, survey
from adsum_hub.rules import resolve
from adsum_shared.state import ChildView, RequestView

__all__ = ["LIMITS", "Limits", "children", "next_deadline", "open_requests", "resolve"]


def open_requests(facts: Facts, now: int, limits: Limits = LIMITS) -> tuple[RequestView, ...]:
    """Everything a human is asked at this instant, oldest first. Times: host milliseconds."""
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
        for key, request in read(survey(facts, limits), now).requests
    )


def children(facts: Facts) -> tuple[ChildView, ...]:
    """Every child known, those that run first. Times: host milliseconds."""
    known = sorted(
        facts.children.items(), key=lambda item: (not item[1].running, -item[1].last, item[0])
    )
    return tuple(_child_view(key, child, facts) for key, child in known)


def _child_view(key: str, child: Child, facts: Facts) -> ChildView:
    drained, killed = facts.drained, is_killed(facts, child)
    running = child.running and drained <= child.last and not killed
    finished = child.finished or (drained if drained > child.last else 0)
    if killed and not finished:
        finished, child = facts.killed, replace(child, status="killed")
    return ChildView(
        id=key,
        kind=child.kind,
        status="running" if running else _end(child),
        started_at=child.started or None,
        finished_at=None if running else finished or None,
        type=child.type,
        description=child.description,
    )


def _end(child: Child) -> str:
    return "completed" if child.status == "running" else child.status
