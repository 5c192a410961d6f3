"""One reading of the facts at one instant: what the rules of resolve() all need, derived once."""

from __future__ import annotations

from typing import Any

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.kept import Kept
from adsum_hub.limits import Limits
from adsum_hub.parts import Child, Request, Status, Tool
from adsum_hub.resolve.gathered import (
    Calls,
    Children,
    Requests,
    Turns,
    gather_calls,
    gather_children,
    gather_requests,
    gather_turns,
)
from adsum_hub.resolve.living import alive
from adsum_hub.resolve.questions import unanswered, unclosed
from adsum_hub.resolve.registry import busy_since, closed_since, nameless_since, valid
from adsum_hub.resolve.standing import Standing, last_main, main_tools, standing
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
    turns: Turns
    calls: Calls
    requests: Requests
    children: Children
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


#: The latest of each session by its id. State, requests, children and deadline are found one after
#: the other of the same facts, and the next facts share most of what they are made of.
_grounds: Kept[str, Ground] = Kept()
_readings: Kept[str, Reading] = Kept()


def survey(facts: Facts, limits: Limits) -> Ground:
    before = _grounds.get(facts.session_id)
    if before is not None and before.facts is facts and before.limits is limits:
        return before
    return _grounds.keep(facts.session_id, _survey(facts, limits, before))


def read(ground: Ground, now: int) -> Reading:
    key = ground.facts.session_id
    before = _readings.get(key)
    if before is not None and before.ground is ground and before.now == now:
        return before
    return _readings.keep(key, _read(ground, now))


def forget(session_id: str) -> None:
    _grounds.pop(session_id, None)
    _readings.pop(session_id, None)


def _survey(facts: Facts, limits: Limits, before: Ground | None) -> Ground:
    """before: of the same session, or of one on another machine that bears its id."""
    turns, calls, requests, children = _gathered(facts, before)
    stand = standing(facts, turns, calls)
    pending, last_closed = unclosed(facts, turns, calls, requests, stand.run)
    return Ground(
        facts=facts,
        limits=limits,
        turns=turns,
        calls=calls,
        requests=requests,
        children=children,
        status=valid(facts),
        stand=stand,
        unclosed=pending,
        last_closed=last_closed,
        last_main=last_main(facts, stand, turns),
        tools=main_tools(turns, calls, stand.run),
    )


def _gathered(facts: Facts, before: Ground | None) -> tuple[Turns, Calls, Requests, Children]:
    if before is None:
        return (
            gather_turns(facts.turns),
            gather_calls(facts.tools),
            gather_requests(facts.requests),
            gather_children(facts.children),
        )
    held = before.facts
    return (
        before.turns if facts.turns is held.turns else gather_turns(facts.turns),
        before.calls if facts.tools is held.tools else gather_calls(facts.tools),
        before.requests if facts.requests is held.requests else gather_requests(facts.requests),
        before.children if facts.children is held.children else gather_children(facts.children),
    )


def _read(ground: Ground, now: int) -> Reading:
    status, stand, limits = ground.status, ground.stand, ground.limits
    children = alive(ground.facts, ground.children, stand.run, status, now, limits)
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
