"""Which children are alive: whatever works on without the main agent, and may wake it."""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.limits import Limits
from adsum_hub.parts import LATENESS, Child, Status
from adsum_hub.resolve.gathered import Children


def alive(
    facts: Facts,
    children: Children,
    run: int,
    status: Status | None,
    now: int,
    limits: Limits,
) -> dict[str, Child]:
    """Children that run, or have finished so lately that their parent is about to wake up.

    A Stop does not end them: in the terminal every subagent runs in the background, the Stop
    comes first, then SubagentStop (which still lists itself as running), then a notification
    prompt and a second Stop. Nor does SubagentStop always come, so each child has a second end:
    the list in a later Stop, or five minutes of silence.
    """
    wakes = children.finished and now < children.finished + limits.wake
    return {
        key: child
        for key, child in (facts.children if wakes else children.running).items()
        if child.last >= run and child_alive(facts, child, status, now, limits)
    }


def child_alive(
    facts: Facts, child: Child, status: Status | None, now: int, limits: Limits
) -> bool:
    idle = status is not None and status.status == "idle"
    if status is not None and idle and now >= max(status.at, child.last) + limits.registry_hold:
        return False
    if facts.drained > child.last or is_killed(facts, child):
        return False
    if not child.running:
        return _wakes_parent(facts, child, now, limits)
    if child.kind != "agent":
        # A server in the background says nothing for hours, a cron entry until its time comes.
        return True
    # The registry stays `busy` while a subagent works, however silent.
    busy = status is not None and status.status == "busy" and status.at <= child.last
    return busy or now < child.last + limits.child_silence


def is_killed(facts: Facts, child: Child) -> bool:
    """Ctrl-C kills all subagents at once, and none of them wakes its parent."""
    return child.kind == "agent" and facts.killed > max(child.restarted, child.active)


def _wakes_parent(facts: Facts, child: Child, now: int, limits: Limits) -> bool:
    """In the gap between its end and the notification that starts the parent's next turn."""
    # A report that joins a running turn is stamped a little before the end it reports.
    told = max(child.notified + LATENESS if child.notified else 0, facts.drained)
    if told >= child.finished or now >= child.finished + limits.wake:
        return False
    return not any(turn.prompt >= child.finished for turn in facts.turns.values())
