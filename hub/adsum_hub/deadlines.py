"""next_deadline(facts, now): when what is shown will next change although nobody says anything."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from adsum_hub.children import running
from adsum_hub.facts import Facts
from adsum_hub.limits import LIMITS, Limits
from adsum_hub.reading import Reading, read, survey
from adsum_hub.rules import decide
from adsum_hub.working import AGES, stuck_from, tool_deadline

#: Candidates tried at once. In a session with 64 open calls trying all took 30 ms a signal, and
#: nearly always the next signal made it void.
TRIES = 4


def next_deadline(facts: Facts, now: int, limits: Limits = LIMITS) -> int | None:
    """When to look again: never later than resolve(), the requests or who runs next change.

    Every rule's time limit gives a candidate; most change nothing, so the first few are tried in
    turn. If none of these changes anything the answer is the one after them: early, but cheap.
    """
    ground = survey(facts, limits)
    reading = read(ground, now)
    present, at_work = decide(reading), running(reading)
    if present.state in ("session_ended", "archived", "suspended") and not at_work:
        return None  # only a signal can change these
    times = heapq.nsmallest(TRIES + 1, {at for at in candidates(reading) if at > now})
    for at in times[:TRIES]:
        then = read(ground, at)
        if then.requests != reading.requests or decide(then) != present or running(then) != at_work:
            return at
    return times[TRIES] if len(times) > TRIES else None


def candidates(reading: Reading) -> Iterator[int]:
    facts, limits, stand = reading.facts, reading.limits, reading.stand
    status = reading.status
    if status is not None:
        yield status.released + limits.registry_hold
        yield status.at + limits.registry_hold
        for base in (status.at, stand.opened, stand.closed, facts.compacting):
            yield max(status.at, base) + limits.registry_hold
        waiting = status.waiting or status.at
        yield max(waiting, reading.ground.last_closed, stand.opened) + limits.nameless
    yield (facts.closing.heard if facts.closing else 0) + limits.closing
    for child in facts.children.values():
        yield child.finished + limits.wake
        yield child.last + limits.child_silence
        if status is not None:
            yield max(status.at, child.last) + limits.registry_hold
    for tool in facts.tools.values():
        if tool.started and not tool.finished:
            yield tool_deadline(reading, tool)
            yield tool.first + limits.transient
        elif not tool.ok:
            yield tool.finished + limits.error_grace
    if facts.compacting:
        yield facts.compacting + limits.compaction
    yield max(stand.closed, facts.queued, facts.compacted) + limits.transient
    yield facts.updated_at + limits.transient
    yield stuck_from(reading)
    for age in AGES:
        yield facts.updated_at + age * 60_000
