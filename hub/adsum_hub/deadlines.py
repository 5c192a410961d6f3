"""next_deadline(facts, now): when what is shown will next change although nobody says anything."""

from __future__ import annotations

from collections.abc import Iterator

from adsum_hub.children import running
from adsum_hub.facts import Facts
from adsum_hub.life import over_for_good
from adsum_hub.limits import LIMITS, Limits
from adsum_hub.parts import Status
from adsum_hub.reading import Reading, read, survey
from adsum_hub.working import AGES, stuck_from, tool_deadline


def next_deadline(facts: Facts, now: int, limits: Limits = LIMITS) -> int | None:
    """When to look again: never later than resolve(), the requests or who runs next change.

    It may be too early: whoever looks then finds nothing changed, and asks again. (Rejected: to try
    the first few, whether they change anything. It cost more than all else that a signal causes,
    and nearly always the next signal made it void.)
    """
    reading = read(survey(facts, limits), now)
    if over_for_good(reading) is not None and not running(reading):
        return None  # only a signal can change it
    return min((at for at in candidates(reading) if at > now), default=None)


def candidates(reading: Reading) -> Iterator[int]:
    """The end of every time limit that some rule waits for in this session as it is."""
    facts, limits, stand = reading.facts, reading.limits, reading.stand
    status, unclosed = reading.status, reading.ground.unclosed
    if status is not None:
        yield from _of_registry(reading, status)
    if facts.closing is not None:
        yield facts.closing.heard + limits.closing
    if facts.children:
        yield from _of_children(reading)
    if facts.compacting:
        yield facts.compacting + limits.compaction
    if facts.queued:
        since = max(stand.closed, facts.queued, facts.compacted)
        yield since + limits.transient
        yield since + limits.registry_hold
        if status is not None:
            yield max(status.at, since) + limits.registry_hold
    if unclosed and status is not None:
        yield status.released + limits.registry_hold
    # Without a turn nobody is silent; that one begins by itself is among the registry's.
    if reading.open or facts.queued:
        yield from _of_turn(reading)


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
    limits, status = reading.limits, reading.status
    idle = status is not None and status.status == "idle"
    for child in reading.facts.children.values():
        if idle and status is not None:
            yield max(status.at, child.last) + limits.registry_hold
        # No end of it, nor its silence, is later than these.
        if child.last + max(limits.wake, limits.child_silence) > reading.now:
            yield child.finished + limits.wake
            yield child.last + limits.child_silence


def _of_turn(reading: Reading) -> Iterator[int]:
    limits, heard = reading.limits, reading.facts.updated_at
    yield heard + limits.transient
    for _, tool in reading.ground.tools:
        yield tool_deadline(reading, tool)
        yield tool.first + limits.transient
    if reading.stand.finished[0]:
        yield reading.stand.finished[0] + limits.error_grace
    yield stuck_from(reading)
    for age in AGES:
        yield heard + age * 60_000
