"""What a view tells a domain, read once: the tool at hand, the turn's deeds, names cut to fit."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from adsum_hub.domains.contract import LABEL_MAX
from adsum_shared.state import SessionView

_PULL_REQUEST = re.compile(r"https?://\S+/(?:pull|merge_requests|pull-requests)/(\d{1,9})")


class Deed(NamedTuple):
    """One call of a tool. error: None if it succeeded, or is still under way."""

    role: str
    summary: str
    error: str | None


def deed(raw: Any) -> Deed | None:
    """None for what is no such thing: contexts are made by a core of any version."""
    if not isinstance(raw, dict) or not isinstance(raw.get("tool"), str):
        return None
    role, summary, error = raw.get("role"), raw.get("summary"), raw.get("error")
    return Deed(
        role if isinstance(role, str) else "other",
        summary if isinstance(summary, str) else "",
        error if isinstance(error, str) else None,
    )


def at_hand(session: SessionView) -> Deed | None:
    """The call that the state is about."""
    return deed(session.state.context)


def deeds(session: SessionView) -> list[Deed]:
    """What was done in the turn that has ended, oldest first."""
    context = session.state.context
    raw = context.get("tools_used") if context is not None else None
    return [found for each in raw or () if (found := deed(each))] if isinstance(raw, list) else []


def pull_request(session: SessionView) -> str | None:
    """Its number, from its address."""
    found = _PULL_REQUEST.match(session.pr or "")
    return found[1] if found else None


def named(before: str, name: str | None, after: str = "") -> str:
    """A label around a name that an agent chose: what is not printable goes, the end is cut."""
    plain = "".join(char for char in name or "" if char.isprintable()).strip()
    room = LABEL_MAX - len(before) - len(after) - 2
    if not plain:
        return f"{before}{after}"
    plain = plain if len(plain) <= room else plain[: room - 1] + "…"
    return f"{before} {plain}{after}"
