"""All there is, as one message, or in parts of which the first holds what is looked at first. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from adsum_shared.state import Group, HostView, HubTrouble, SessionView

#: Of a section, as many as most screens hold: a card more is a millisecond later. And of those on
#: hosts that are offline, which stand below.
FIRST, FIRST_AWAY = 8, 2
#: Fewer than that make no second part.
FEW = 100
#: A later part is that large at least, and there are no more of them than that: each is deflated once
#: for all who come in one moment, and kept until they have taken it.
LEAST, MOST = 500, 6
UNKNOWN_URGENCY = 5


class Snapshot(NamedTuple):
    """at: the hub's clock, ms. messages: one, or the parts."""

    offset: int
    at: int
    trouble: HubTrouble | None
    messages: tuple[bytes, ...]


def bodies(
    views: Sequence[SessionView], hosts: Sequence[HostView], *, in_parts: bool
) -> list[dict[str, Any]]:
    """Of the messages. The hosts are in the first, what is still to come in all but the last."""
    whole: dict[str, Any] = {"sessions": views, "hosts": hosts}
    if not in_parts or len(views) <= FEW:
        return [whole]
    first = _first(views)
    named = {view.id for view in first}
    rest = [view for view in views if view.id not in named]
    size = max(LEAST, -(-len(rest) // MOST))
    parts: list[dict[str, Any]] = [{"sessions": first, "hosts": hosts}]
    parts += [{"sessions": rest[at : at + size]} for at in range(0, len(rest), size)]
    more: Counter[Group] = Counter()
    for part, after in zip(reversed(parts[:-1]), reversed(parts[1:]), strict=True):
        more.update(view.state.group for view in after["sessions"] if _is_here(view))
        part["more"] = {group.value: more[group] for group in Group}
    return parts


def _first(views: Sequence[SessionView]) -> list[SessionView]:
    """Of each section and of those of hosts that are offline, in the page's order (order.js)."""
    places: defaultdict[tuple[Group, bool], list[SessionView]] = defaultdict(list)
    for view in views:
        places[view.state.group, _is_here(view)].append(view)
    return [
        view
        for (_, here), place in places.items()
        for view in nsmallest(FIRST if here else FIRST_AWAY, place, key=_rank)
    ]


def _is_here(view: SessionView) -> bool:
    return view.reachability != "offline"


def _rank(view: SessionView) -> tuple[int, int, str]:
    if view.state.group is not Group.NEEDS_YOU:
        return 0, -view.state.since, view.id
    hint = None if view.display is None else view.display.urgency_hint
    urgency = view.urgency if hint is None else hint
    return UNKNOWN_URGENCY if urgency is None else urgency, view.state.since, view.id
