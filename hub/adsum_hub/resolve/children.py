"""Which of a session's children run, and how each of the others came to its end."""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.parts import Child
from adsum_hub.resolve.life import final
from adsum_hub.resolve.living import is_killed
from adsum_hub.resolve.reading import Reading
from adsum_hub.resolve.working import LAUNCHERS
from adsum_shared.state import ChildView

#: Nobody told of its end, and it cannot be at work any more.
ORPHANED = "orphaned"


def running(reading: Reading) -> frozenset[str]:
    """Those at work: none of a session that is over, and none that has been given up.

    A subagent that waits for a human is silent for as long as that takes. So is one whose call the
    main agent waits for; which of them the call is, nobody says before its end.
    """
    if not reading.ground.children.running or final(reading) is not None:
        return frozenset()
    asking = {request.agent_id for _, request in reading.requests}
    awaited = reading.open and any(tool.tool in LAUNCHERS for _, tool in reading.ground.tools)
    return frozenset(
        key
        for key, child in reading.ground.children.running.items()
        if _unfinished(reading.facts, child)
        and child.last >= reading.stand.run
        and (key in reading.children or key in asking or (awaited and child.kind == "agent"))
    )


def child_views(reading: Reading, alive: frozenset[str]) -> tuple[ChildView, ...]:
    """Every child known, those that run first. alive: these. Times: host milliseconds."""
    known = sorted(
        reading.facts.children.items(),
        key=lambda item: (item[0] not in alive, -item[1].last, item[0]),
    )
    return tuple(_view(key, child, reading.facts, runs=key in alive) for key, child in known)


def _view(key: str, child: Child, facts: Facts, *, runs: bool) -> ChildView:
    status, finished = ("running", 0) if runs else _end(facts, child)
    return ChildView(
        id=key,
        kind=child.kind,
        status=status,
        started_at=child.started or None,
        finished_at=finished or None,
        type=child.type,
        description=child.description,
    )


def _end(facts: Facts, child: Child) -> tuple[str, int]:
    """How and when. An orphan has no end of its own: that is when it was last heard."""
    if _unfinished(facts, child):
        return ORPHANED, child.last
    if child.finished:
        return "completed" if child.status == "running" else child.status, child.finished
    if facts.drained > child.last:
        return "completed", facts.drained
    return "killed", facts.killed


def _unfinished(facts: Facts, child: Child) -> bool:
    return child.running and facts.drained <= child.last and not is_killed(facts, child)
