"""One reading of the facts at one instant: what the rules of resolve() all need, derived once."""

from __future__ import annotations

from typing import Any

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.limits import Limits
from adsum_hub.living import alive
from adsum_hub.parts import Child, Request, Status, Tool
from adsum_hub.questions import last_closed, unanswered, unclosed
from adsum_hub.registry import busy_since, closed_since, nameless_since, valid
from adsum_hub.standing import Standing, last_main, main_tools, standing
from adsum_shared.state import GROUP_OF, AgentState, StateSource

SOURCES: dict[str, StateSource] = {
    "hook": "hook",
    "statusline": "hook",
    "transcript": "transcript",
    "registry": "registry",
    "process": "process",
}


class Ground(msgspec.Struct, frozen=True):
    """What does not depend on the time, so that other instants can be tried cheaply."""

    facts: Facts
    limits: Limits
    status: Status | None
    stand: Standing
    unclosed: list[tuple[str, Request]]
    last_closed: int
    last_main: int
    tools: list[tuple[str, Tool]]  # the main agent's open calls, oldest first


class Reading(msgspec.Struct, frozen=True):
    """idle, busy, waiting: since when the registry's word applies, 0 if it does not."""

    ground: Ground
    facts: Facts
    now: int
    limits: Limits
    status: Status | None
    stand: Standing
    requests: list[tuple[str, Request]]
    children: dict[str, Child]
    idle: int = 0
    busy: int = 0
    waiting: int = 0

    @property
    def open(self) -> bool:
        """A turn of the main agent runs."""
        return bool(self.busy) or (self.stand.open and not self.idle)


#: Grounds of late by their facts' identity, readings by their ground's; both keep that alive. State,
#: requests, children and deadline are found one after the other, mostly of the same facts.
_grounds: dict[int, Ground] = {}
_readings: dict[int, Reading] = {}
KEPT = 1_000


def survey(facts: Facts, limits: Limits) -> Ground:
    ground = _grounds.get(id(facts))
    if ground is None or ground.facts is not facts or ground.limits is not limits:
        if len(_grounds) >= KEPT:
            _grounds.clear()
        ground = _grounds[id(facts)] = _survey(facts, limits)
    return ground


def read(ground: Ground, now: int) -> Reading:
    reading = _readings.get(id(ground))
    if reading is None or reading.ground is not ground or reading.now != now:
        if len(_readings) >= KEPT:
            _readings.clear()
        reading = _readings[id(ground)] = _read(ground, now)
    return reading


def _survey(facts: Facts, limits: Limits) -> Ground:
    stand = standing(facts)
    return Ground(
        facts=facts,
        limits=limits,
        status=valid(facts),
        stand=stand,
        unclosed=unclosed(facts, stand.run),
        last_closed=last_closed(facts),
        last_main=last_main(facts, stand),
        tools=main_tools(facts, stand),
    )


def _read(ground: Ground, now: int) -> Reading:
    status, stand, limits = ground.status, ground.stand, ground.limits
    children = alive(ground.facts, stand.run, status, now, limits)
    requests = unanswered(ground.unclosed, stand.opened, status, now, limits)
    waiting = 0
    if not requests and not _cancelled(status, stand, children):
        waiting = nameless_since(status, ground.last_closed, stand.opened, now, limits)
    return Reading(
        ground=ground,
        facts=ground.facts,
        now=now,
        limits=limits,
        status=status,
        stand=stand,
        requests=requests,
        children=children,
        idle=closed_since(status, stand.opened, now, limits) if stand.open else 0,
        busy=0 if children else busy_since(status, ground.last_main, now, limits),
        waiting=waiting,
    )


def _cancelled(status: Status | None, stand: Standing, children: dict[str, Child]) -> bool:
    """A turn's end after it said `waiting`, with no child alive that could be the one asking."""
    return status is not None and stand.closed > status.at and not children


def state(
    name: str,
    label: str,
    since: int,
    *,
    confidence: float,
    source: str,
    context: dict[str, Any] | None = None,
) -> AgentState:
    return AgentState(
        group=GROUP_OF[name],
        state=name,
        label=label,
        confidence=confidence,
        source=SOURCES.get(source, "fallback"),
        since=since,
        context=context,
    )
