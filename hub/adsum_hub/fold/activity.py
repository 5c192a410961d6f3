"""Folds the last hundred things a session did, for people to read. No state rests on it."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec.structs import replace

from adsum_hub.facts import ACTIVITY_MAX, ActivityNote, Child, Facts, Tool
from adsum_shared import signals as s
from adsum_shared.state import ActivityEntry

#: More than a machine lets out of any text by default; with privacy = full they have no end.
TEXT_MAX = 400
#: Two witnesses stamp one event at most this far apart, ms: a hook on arrival, a line when made.
SAME_MS = 2_500

#: Too many and too little to tell: they would push out what people look for.
SILENT: frozenset[type] = frozenset(
    {
        s.MetaChanged,
        s.UsageTotalled,
        s.CostReported,
        s.GaugesReported,
        s.ProcessSeen,
        s.ProcessStill,
        s.StatusReported,
        s.ChildChanged,
        s.PromptDequeued,
        s.HoldEnded,
        s.QueueReported,
        s.UnknownSignal,
    }
)
KINDS = {kind: str(kind.__struct_config__.tag) for kind in s.Signal.__subclasses__()}
#: A finished call whose start its witness did not see.
NAMELESS = "tool"
#: Told of a child by turns, so two of one kind in a row are one: a child is told that it has ended
#: by its hook, by its transcript, and to its parent half a minute later.
BY_TURNS = frozenset({"child.started", "child.finished"})
#: Told again by slow witnesses: a turn's length is written when the user's own Stop hooks have
#: run. They mean the same for as long as nothing else has happened.
LASTING = frozenset(
    {"turn.ended", "turn.failed", "turn.interrupted", "session.started", "session.ended"}
)


def note(
    facts: Facts, signal: s.KnownSignal, changes: dict[str, Any]
) -> tuple[ActivityNote, ...] | None:
    """The activity with this signal in its place by event time, or None if it adds nothing."""
    kind = type(signal)
    if kind in SILENT:
        return None
    if kind is s.ToolStarted or kind is s.ToolFinished:
        activity = _with_call(facts, signal, changes)  # type: ignore[arg-type] # it is one of these
    elif _is_known(facts, signal, changes):
        return None
    else:
        entry = _entry(signal, changes.get("children", facts.children))
        activity = _with(facts.activity, entry)
    return None if activity is facts.activity else activity


def _with_call(
    facts: Facts, signal: s.ToolStarted | s.ToolFinished, changes: dict[str, Any]
) -> tuple[ActivityNote, ...]:
    """Each call has an id that all its witnesses give, so the start and the end are each told once."""
    activity, held = facts.activity, facts.call(signal.tool_use_id)
    if held is not None and held.tool == NAMELESS != signal.tool and held.finished:
        activity = _named(activity, held, signal.tool)
    if type(signal) is s.ToolStarted:
        if held is not None and held.started:
            return activity
        text = f"{signal.tool}: {signal.summary}" if signal.summary else signal.tool
    else:
        if "tools" not in changes or (held is not None and held.finished):
            return activity
        # Of many calls at hand the one that has just ended stands apart already.
        key, done = signal.tool_use_id, changes.get("done", facts.done)
        text = _end_of(changes["tools"].get(key) or done.get(key, signal))
    kind = KINDS[type(signal)]
    return _placed(activity, ActivityNote(signal.at, kind, shortened(text), signal.agent_id))


def _with(activity: tuple[ActivityNote, ...], entry: ActivityNote) -> tuple[ActivityNote, ...]:
    held = _same_event(activity, entry)
    if held is None:
        return _placed(activity, entry)
    merged = ActivityNote(min(held.at, entry.at), entry.kind, _fuller(held, entry), entry.agent_id)
    if merged == held:
        return activity
    return _placed(tuple([each for each in activity if each is not held]), merged)


def _named(activity: tuple[ActivityNote, ...], held: Tool, tool: str) -> tuple[ActivityNote, ...]:
    """With the name of a call whose end was told by a witness that did not see it start."""
    text, named = (shortened(_end_of(each)) for each in (held, replace(held, tool=tool)))
    before = ActivityNote(held.finished, "tool.finished", text, held.agent_id)
    return tuple(replace(each, text=named) if each == before else each for each in activity)


def entries(facts: Facts, offset_ms: int) -> list[ActivityEntry]:
    """For clients, newest last. offset_ms: the host's clock minus the one they go by."""
    return [
        ActivityEntry(each.at - offset_ms, each.kind, each.text, each.agent_id)
        for each in facts.activity
    ]


def _is_known(facts: Facts, signal: s.KnownSignal, changes: dict[str, Any]) -> bool:
    """Another witness of something with an id, or a mere sign of life."""
    match signal:
        case s.Alive():
            return (
                signal.event is None or signal.event == "MessageDisplay" or signal.source != "hook"
            )
        case s.SessionEnded():
            # That the cost report is written is a hint of its end; hook, registry or process tell of it.
            return signal.source == "transcript"
        case s.RequestOpened():
            asked = changes.get("requests", {})
            return not any(
                request.opened and not (key in facts.requests and facts.requests[key].opened)
                for key, request in asked.items()
            )
        case _:
            return False


def _entry(signal: s.KnownSignal, children: dict[str, Child]) -> ActivityNote:
    """agent_id: the child that it tells of, or in which it happened."""
    kind, who = KINDS[type(signal)], signal.agent_id
    if who is not None and isinstance(signal, s.TurnEnded | s.TurnFailed | s.TurnInterrupted):
        # A subagent has one turn at a time, and ends with it.
        kind, status = "child.finished", kind.removeprefix("turn.")
        text = f"{_name(children, who, 'agent')}: {'completed' if status == 'ended' else status}"
    elif isinstance(signal, s.ChildStarted | s.ChildFinished):
        who = signal.child_id if signal.child_id != s.ALL_CHILDREN else None
        text = _name(children, who, signal.child_kind if who else "all subagents")
        if isinstance(signal, s.ChildFinished):
            text = f"{text}: {signal.status}"
    else:
        text = text_of(signal)
    return ActivityNote(signal.at, kind, shortened(text), who)


def shortened(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


def _name(children: dict[str, Child], child_id: str | None, otherwise: str) -> str:
    child = children.get(child_id) if child_id else None
    return (child.description or child.type or child.kind) if child else otherwise


def _same_event(held: tuple[ActivityNote, ...], entry: ActivityNote) -> ActivityNote | None:
    """The entry by which another witness has told of this event already."""
    at = _place(held, entry.at)
    find = _in_turn if entry.kind in BY_TURNS else _at_its_time
    before = islice(reversed(held), len(held) - at, None)
    return find(before, entry) or find(held[at:], entry)


def _in_turn(near: Iterable[ActivityNote], entry: ActivityNote) -> ActivityNote | None:
    """near: what happened before it or after it, the nearest first."""
    for each in near:
        if each.kind in BY_TURNS and each.agent_id == entry.agent_id:
            return each if each.kind == entry.kind else None
    return None


def _at_its_time(near: Iterable[ActivityNote], entry: ActivityNote) -> ActivityNote | None:
    timed = entry.kind not in LASTING
    for each in near:
        if timed and abs(each.at - entry.at) > SAME_MS:
            return None
        if each.agent_id != entry.agent_id:
            continue
        if each.kind == entry.kind and _alike(each.text, entry.text):
            return each
        timed = True  # something else has happened in between
    return None


def _alike(one: str, other: str) -> bool:
    one, other = one.removesuffix("…"), other.removesuffix("…")
    return one.startswith(other) or other.startswith(one)


def _fuller(held: ActivityNote, entry: ActivityNote) -> str:
    if entry.kind in BY_TURNS:
        return entry.text  # named by all that is known of the child by now
    return max(held.text, entry.text, key=len)


def _place(held: tuple[ActivityNote, ...], at: int) -> int:
    """Behind all that happened no later; nearly always the end."""
    place = len(held)
    while place and held[place - 1].at > at:
        place -= 1
    return place


def _placed(held: tuple[ActivityNote, ...], entry: ActivityNote) -> tuple[ActivityNote, ...]:
    at = _place(held, entry.at)
    if at == len(held):
        return held[1 - ACTIVITY_MAX :] + (entry,)  # noqa: RUF005 - half as many copies
    return (*held[:at], entry, *held[at:])[-ACTIVITY_MAX:]


def text_of(signal: s.KnownSignal) -> str:
    match signal:
        case s.RequestOpened():
            return f"{signal.request_kind}: {signal.summary or signal.tool or ''}"
        case s.RetryScheduled(attempt=attempt, max=most):
            return f"attempt {attempt} of {most}" if most else f"attempt {attempt}"
        case s.PromptSubmitted(origin="system"):
            return "(by the system)"
        case s.SessionEnded(source="registry"):
            return ""  # it knows no reason, and the hook that does may come a second later
        case s.Alive(event=event, note=said):
            return f"{event}: {said}" if said else str(event)
        case _:
            return _said(signal)


def _end_of(call: s.ToolFinished | Tool) -> str:
    """A call that a human or a rule stopped has not failed."""
    if call.denied:
        return f"{call.tool}: refused"
    if call.is_interrupt:
        return f"{call.tool}: interrupted"
    if not call.ok:
        return f"{call.tool} failed: {first_line(call.error)}"
    return "" if call.tool == NAMELESS else call.tool


def _said(signal: s.KnownSignal) -> str:
    """The first of the fields that carry words."""
    if isinstance(signal, s.CommandReported):
        by = f" by {signal.by}" if signal.by else ""
        return f"{signal.verb}{by}: {signal.outcome.replace('_', ' ')}"
    if isinstance(signal, s.SessionSuspended):
        by = "at rest for too long" if signal.auto else f"by {signal.by}"
        return f"not done, {by}" if signal.undone else by
    if isinstance(signal, s.WorkReported):
        about = f"{signal.status} {signal.issue}" if signal.issue else signal.status
        return f"{about}: {signal.notes}" if signal.notes else about
    for name in WORDS:
        words = first_line(getattr(signal, name, None))
        if words:
            return words
    return ""


WORDS = ("text", "last_message", "error", "subject", "reason", "trigger", "outcome")


def first_line(text: str | None) -> str:
    if not text:
        return ""
    return text.strip().split("\n", 1)[0].strip()
