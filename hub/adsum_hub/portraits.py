"""What a session's view says that few signals change, made anew only when one of them does. Pure."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.kept import Kept
from adsum_hub.limits import LIMITS, Limits
from adsum_hub.resolve.children import child_views, running
from adsum_hub.resolve.reading import forget as forget_reading
from adsum_hub.resolve.reading import read, survey
from adsum_shared.state import AgentState, ChildView, Group, Reachability, SessionView

#: Signs of a prompt or an answer in a list; each view is sent with every change.
QUOTED_MAX = 500
#: In place of the state, which is never part of a portrait.
_NO_STATE = AgentState(Group.DELIVERED, "unknown", "", 0.0, "fallback", 0)


class Place(msgspec.Struct, frozen=True):
    """Where a session runs. offset_ms: its host's clock minus the hub's."""

    host_id: str
    label: str
    reachability: Reachability
    offset_ms: int


class Portrait(msgspec.Struct):
    """view: without what a signal changes. place, facts: what it was made of, or the same in all of it.

    children: as last told, when these ran and all others were over by those times.
    """

    place: Place
    facts: Facts
    view: SessionView
    lives: tuple[frozenset[str], int, int] = (frozenset(), 0, 0)
    children: tuple[ChildView, ...] | None = None


#: By the view's id.
_portraits: Kept[str, Portrait] = Kept()


def view_id(host_id: str, session_id: str) -> str:
    return f"{host_id}:{session_id}"


def forget(host_id: str, session_id: str) -> None:
    """What it says is not to lie in memory until others push it out."""
    _portraits.pop(view_id(host_id, session_id), None)
    forget_reading(session_id)


def shortened(text: str | None) -> str | None:
    if text is None or len(text) <= QUOTED_MAX:
        return text
    return f"{text[: QUOTED_MAX - 1]}…"


def portrait_of(place: Place, session_id: str, facts: Facts) -> Portrait:
    key = view_id(place.host_id, session_id)
    held = _portraits.get(key)
    if held is not None and held.place == place and _is_alike(held.facts, facts):
        held.facts = facts
        return held
    return _portraits.keep(key, Portrait(place, facts, _painted(key, place, session_id, facts)))


def _is_alike(a: Facts, b: Facts) -> bool:
    """Whether all that is painted of them is the very same, their children too."""
    return a is b or (
        a.meta is b.meta
        and a.turns is b.turns
        and a.children is b.children
        and a.process is b.process
        and a.first_prompt is b.first_prompt
        and a.last_prompt is b.last_prompt
        and a.born == b.born
        and a.agent == b.agent
    )


def _painted(key: str, place: Place, session_id: str, facts: Facts) -> SessionView:
    started_at = facts.started_at
    return SessionView(
        id=key,
        host_id=place.host_id,
        host=place.label,
        session_id=session_id,
        agent=facts.agent,
        state=_NO_STATE,
        reachability=place.reachability,
        updated_at=0,
        started_at=None if started_at is None else started_at - place.offset_ms,
        title=facts.title,
        project=facts.project,
        cwd=facts.about("cwd"),
        branch=facts.about("branch"),
        model=facts.about("model"),
        mode=facts.about("mode"),
        version=facts.about("version"),
        pid=facts.pid,
        worktree=facts.about("worktree"),
        pr=facts.about("pr"),
        last_prompt=shortened(facts.latest_prompt),
        last_answer=shortened(facts.last_answer),
        forked_from=facts.about("forked_from"),
    )


def children_of(
    portrait: Portrait, facts: Facts, host_now: int, limits: Limits = LIMITS
) -> tuple[ChildView, ...]:
    """In the hub's time. facts: those the portrait holds for."""
    reading = read(survey(facts, limits), host_now)
    lives = running(reading), facts.drained, facts.killed
    if portrait.children is None or portrait.lives != lives:
        offset_ms = portrait.place.offset_ms
        portrait.lives = lives
        portrait.children = tuple(
            replace(
                child,
                started_at=child.started_at and child.started_at - offset_ms,
                finished_at=child.finished_at and child.finished_at - offset_ms,
            )
            for child in child_views(reading, lives[0])
        )
    return portrait.children
