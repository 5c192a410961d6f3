"""next_deadline(facts, now): when what is shown will next change although nobody says anything."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from adsum_hub.facts import Facts
from adsum_hub.limits import LIMITS, Limits
from adsum_hub.parts import Status
from adsum_hub.resolve.children import running
from adsum_hub.resolve.life import over_for_good
from adsum_hub.resolve.reading import Reading, read, survey
from adsum_hub.resolve.working import AGES, stuck_from, tool_deadline


def next_deadline(facts: Facts, now: int, limits: Limits = LIMITS) -> int | None:
    """When to look again: never later than resolve(), the requests or who runs next change.

    It may be too early: whoever looks then finds nothing changed, and asks again. (Rejected: to try
    the first few, whether they change anything. It cost more than all else that a signal causes,
    and nearly always the next signal made it void.)
    """
    reading = read(survey(facts, limits), now)
    if over_for_good(reading) is not None and not running(reading):
        return None  # only a signal can change it
    return min([at for at in candidates(reading) if at > now], default=None)


def candidates(reading: Reading) -> list[int]:
    """The end of every time limit that some rule waits for in this session as it is.

    A list and no generators of generators: it is asked for after every signal.
    """
    facts, limits, stand = reading.facts, reading.limits, reading.stand
    status, found = reading.status, list[int]()
    if status is not None:
        found += _of_registry(reading, status)
    if facts.closing is not None:
        found.append(facts.closing.heard + limits.closing)
    if facts.children:
        found += _of_children(reading)
    if facts.compacting:
        found.append(facts.compacting + limits.compaction)
    if facts.queued:
        since = max(stand.closed, facts.queued, facts.compacted)
        found += (since + limits.transient, since + limits.registry_hold)
        if status is not None:
            found.append(max(status.at, since) + limits.registry_hold)
    if reading.ground.unclosed and status is not None:
        found.append(status.released + limits.registry_hold)
    # Without a turn nobody is silent; that one begins by itself is among the registry's.
    if reading.open or facts.queued:
        found += _of_turn(reading)
    return found


def _of_registry(reading: Reading, status: Status) -> Iterator[int]:
    facts, stand, hold = reading.facts, reading.stand, reading.limits.registry_hold
    match status.status:
        case "waiting":
            waiting = status.waiting or status.at
            held = max(waiting, reading.ground.last_closed, stand.opened)
            yield held + reading.limits.nameless
        case "busy":
            yield status.at + hold
            if status.shell:
                yield max(status.at, stand.closed) + hold
        case _:
            yield max(status.at, stand.opened) + hold
            if facts.compacting:
                yield max(status.at, facts.compacting) + hold


def _of_children(reading: Reading) -> Iterator[int]:
    """Of those that neither run nor may wake anybody any more nothing is waited for."""
    limits, status, gathered = reading.limits, reading.status, reading.ground.children
    idle = status is not None and status.status == "idle"
    wakes = gathered.finished and gathered.finished + limits.wake > reading.now
    children = reading.facts.children if idle or wakes else gathered.running
    for child in children.values():
        if idle and status is not None:
            yield max(status.at, child.last) + limits.registry_hold
        # No end of it, nor its silence, is later than these.
        if child.last + max(limits.wake, limits.child_silence) > reading.now:
            yield child.finished + limits.wake
            yield child.last + limits.child_silence


def _of_turn(reading: Reading) -> list[int]:
    limits, heard = reading.limits, reading.facts.updated_at
    found = [heard + limits.transient, stuck_from(reading)]
    for _, tool in reading.ground.tools:
        found += (tool_deadline(reading, tool), tool.first + limits.transient)
    if reading.stand.finished[0]:
        found.append(reading.stand.finished[0] + limits.error_grace)
    later = bisect_right(AGES, (reading.now - heard) // 60_000)  # the first age that is to come
    found += [heard + age * 60_000 for age in AGES[later : later + 1]]
    return found
