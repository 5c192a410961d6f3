"""What hubs show, made comparable: without what each hub says of its own clock and its own run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import httpx

from tests.chaos.oracle import Shown

View = dict[str, Any]
#: One hub's sessions and hosts, by their ids.
Views = tuple[dict[str, View], dict[str, View]]
#: Of a session: times, and what is derived from them with each hub's own clock.
OWN_SESSION = (
    *("updated_at", "started_at", "ended_at"),
    *("state", "requests", "children", "witnesses", "host", "rank"),
)
#: Of a host: times, and what each hub has met in its own run.
OWN_HOST = (
    *("last_seen", "clock_offset_ms", "lag_ms", "backlog", "problem"),
    *("set_aside", "gaps", "limits", "scan"),
)
#: What makes no message, since it ticks by itself.
TICKING = ("last_seen", "lag_ms", "applied", "backlog", "witnesses")


async def ask(url: str) -> Views:
    """Over REST."""
    async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
        sessions = (await client.get(f"{url}/api/v1/sessions?limit=1000")).json()["sessions"]
        hosts = (await client.get(f"{url}/api/v1/hosts")).json()["hosts"]
    return {view["id"]: view for view in sessions}, {view["id"]: view for view in hosts}


def tape_of(view: View) -> list[str]:
    return str(view.get("title", "")).split()


def shown(sessions: dict[str, View], hosts: dict[str, View], names: dict[str, str]) -> Shown:
    """names: host id -> what the ledger calls it."""
    gaps = {view["id"] for view in hosts.values() if view.get("gaps")}
    gaps |= {view["host_id"] for view in sessions.values() if view.get("incomplete")}
    return Shown(
        {view["session_id"]: tape_of(view) for view in sessions.values()},
        {names.get(host_id, host_id) for host_id in gaps},
    )


def gaps_of(told: Mapping[str, Views]) -> dict[str, int]:
    """Reason -> how many hubs name it, each host's counted apart."""
    return Counter(
        gap["reason"]
        for _, hosts in told.values()
        for view in hosts.values()
        for gap in view.get("gaps", ())
    )


def common_session(view: View) -> View:
    # Not its label, which may count the minutes.
    state = {name: view["state"].get(name) for name in ("group", "state", "source")}
    return _without(view, OWN_SESSION) | {
        "state": state,
        "requests": [_without(each, ("opened_at",)) for each in view.get("requests", ())],
        "children": [
            _without(each, ("started_at", "finished_at")) for each in view.get("children", ())
        ],
        "witnesses": [_without(each, ("heard_at",)) for each in view.get("witnesses", ())],
    }


def common_host(view: View) -> View:
    gaps = [(each["reason"], each.get("numbers", 0)) for each in view.get("gaps", ())]
    witnesses = [_without(each, ("heard_at",)) for each in view.get("witnesses", ())]
    return _without(view, OWN_HOST) | {"gaps": gaps, "witnesses": witnesses}


def still_host(view: View) -> View:
    return _without(view, TICKING)


def differences(one: dict[str, View], other: dict[str, View]) -> list[str]:
    """In words, a few of them."""
    found = [f"only one has {each}" for each in one.keys() ^ other.keys()]
    for each in one.keys() & other.keys():
        found += [
            f"{each}.{name}: {one[each].get(name)!r} and {other[each].get(name)!r}"
            for name in sorted(one[each].keys() | other[each].keys())
            if one[each].get(name) != other[each].get(name)
        ]
    return found[:8]


def _without(view: View, names: tuple[str, ...]) -> View:
    return {name: value for name, value in view.items() if name not in names}
