"""The last hundred things a session did, for people to read. No state rests on it."""

from __future__ import annotations

from typing import Any

from adsum_hub.facts import Facts
from adsum_hub.parts import ACTIVITY_MAX, Activity
from adsum_shared import signals as s

TEXT_MAX = 100

#: Too many and too little to tell: they would push out what people look for.
SILENT: frozenset[type] = frozenset(
    {
        s.MetaChanged,
        s.UsageTotalled,
        s.ProcessSeen,
        s.StatusReported,
        s.ChildChanged,
        s.UnknownSignal,
    }
)


def note(facts: Facts, signal: s.AnySignal, changes: dict[str, Any]) -> tuple[Activity, ...] | None:
    """The activity with this signal in its place by event time, or None if it adds no entry."""
    if type(signal) in SILENT or isinstance(signal, s.UnknownSignal):
        return None
    if isinstance(signal, s.Alive) and (
        signal.event is None or signal.event == "MessageDisplay" or signal.source != "hook"
    ):
        return None
    if isinstance(signal, s.ToolStarted) and signal.tool_use_id in facts.tools:
        return None  # a second witness of the same call
    if isinstance(signal, s.ToolFinished):
        held = facts.tools.get(signal.tool_use_id)
        if "tools" not in changes or (held is not None and held.finished):
            return None
    kind = str(signal.__struct_config__.tag)
    entry = Activity(signal.at, kind, text_of(signal)[:TEXT_MAX], signal.agent_id)
    held_entries = facts.activity
    at = len(held_entries)
    while at and held_entries[at - 1].at >= entry.at:
        at -= 1
        if held_entries[at] == entry:
            return None
    if at == len(held_entries):
        return (*held_entries[-(ACTIVITY_MAX - 1) :], entry)
    return (*held_entries[:at], entry, *held_entries[at:])[-ACTIVITY_MAX:]


def text_of(signal: s.KnownSignal) -> str:
    match signal:
        case s.ToolStarted(tool=tool, summary=summary):
            return f"{tool}: {summary}" if summary else tool
        case s.ToolFinished(tool=tool, ok=ok, error=error):
            return tool if ok else f"{tool} failed: {first_line(error)}"
        case s.RequestOpened():
            return f"{signal.request_kind}: {signal.summary or signal.tool or ''}"
        case s.ChildStarted():
            return signal.description or signal.type or signal.child_kind
        case s.ChildFinished():
            return f"{signal.child_kind} {signal.status}"
        case s.Alive(event=event, note=said):
            return f"{event}: {said}" if said else str(event)
        case _:
            return _said(signal)


def _said(signal: s.KnownSignal) -> str:
    """The first of the fields that carry words."""
    for name in ("text", "last_message", "error", "subject", "reason", "trigger"):
        words = first_line(getattr(signal, name, None))
        if words:
            return words
    return ""


def first_line(text: str | None) -> str:
    if not text:
        return ""
    return text.strip().split("\n", 1)[0].strip()
