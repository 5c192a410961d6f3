"""fold(facts, signal) -> facts: what we have been told, in whatever order it came.

Every witness is folded alike, because none suffices. (Rejected: hooks alone; they never see Esc, No,
a dead process or an approval at the terminal. Rejected: the transcript alone; it lags by 0.1 to
0.25 s and cannot see an open permission dialog.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.fold import children, session, usage, work
from adsum_hub.fold.activity import note
from adsum_shared import signals as s

#: What a kind changes: the fields of Facts to replace. Pure, and total over the union.
Step = Callable[[Facts, Any], dict[str, Any]]

STEPS: dict[type, Step] = {
    s.SessionStarted: session.session_started,
    s.SessionEnded: session.session_ended,
    s.ProcessSeen: session.process_seen,
    s.ProcessGone: session.process_gone,
    s.StatusReported: session.status_reported,
    s.UsageTotalled: usage.usage_totalled,
    s.CostReported: usage.cost_reported,
    s.GaugesReported: usage.gauges_reported,
    s.MetaChanged: session.meta_changed,
    s.Alive: session.alive,
    s.UnknownSignal: session.unknown,
    s.PromptSubmitted: work.prompt_submitted,
    s.PromptDequeued: work.prompt_dequeued,
    s.TurnEnded: work.turn_ended,
    s.TurnFailed: work.turn_failed,
    s.TurnInterrupted: work.turn_interrupted,
    s.ToolStarted: work.tool_started,
    s.ToolFinished: work.tool_finished,
    s.RequestOpened: work.request_opened,
    s.RequestClosed: work.request_closed,
    s.HookReleased: work.hook_released,
    s.ChildStarted: children.child_started,
    s.ChildChanged: children.child_changed,
    s.ChildFinished: children.child_finished,
    s.TaskCreated: children.task_created,
    s.TaskCompleted: children.task_completed,
    s.CompactionStarted: session.compaction_started,
    s.CompactionFinished: session.compaction_finished,
    s.RetryScheduled: session.retry_scheduled,
}

#: Signs of life and facts about the session, not of something happening in it.
STILL: frozenset[type] = frozenset(
    {
        s.Alive,
        s.MetaChanged,
        s.UsageTotalled,
        s.CostReported,
        s.GaugesReported,
        s.ProcessSeen,
        s.StatusReported,
    }
)

#: What is told of a session from its files, whether it lives or not.
OF_HISTORY: frozenset[type] = frozenset(
    {s.UsageTotalled, s.CostReported, s.GaugesReported, s.SessionEnded}
)
#: A line that is read so soon after it was written was written by a living session. ms.
FRESH = 10_000

EVIDENCE = {
    "hook": "hook_at",
    "transcript": "transcript_at",
    "registry": "registry_at",
    "process": "process_at",
    "statusline": "statusline_at",
}


def fold(facts: Facts | None, signal: s.AnySignal) -> Facts:
    """The facts with this signal in them; the very same object if it says nothing new."""
    if facts is None:
        facts = Facts(signal.session_id)
    changes = STEPS[type(signal)](facts, signal)
    _evidence(facts, signal, changes)
    if not changes:
        return facts
    entry = note(facts, signal, changes)
    if entry is not None:
        changes["activity"] = entry
    return replace(facts, **changes)


def _evidence(facts: Facts, signal: s.AnySignal, changes: dict[str, Any]) -> None:
    """When it was heard, by whom; and what its prompt id and agent id alone say."""
    if isinstance(signal, s.UnknownSignal):
        return
    _first_and_last(facts, signal, changes)
    at = signal.at
    field = EVIDENCE.get(signal.source)
    if field is not None and at > getattr(facts, field):
        changes[field] = at
    prompt_id = signal.prompt_id
    # SessionEnd bears the id of the /exit that caused it, which is no turn.
    if prompt_id is not None and not isinstance(signal, s.SessionEnded):
        turns = changes.get("turns", facts.turns)
        turn = turns.get(prompt_id)
        if turn is None or at < turn.first:
            changes["turns"] = work.rank_turn(turns, prompt_id, at)
    child = signal.agent_id
    if child is not None:
        held_children = changes.get("children", facts.children)
        held = held_children.get(child)
        if held is not None and at > held.last:
            changes["children"] = {**held_children, child: replace(held, last=at)}


def _first_and_last(facts: Facts, signal: s.KnownSignal, changes: dict[str, Any]) -> None:
    at = signal.at
    if not facts.witnessed and not _is_of_history(signal):
        changes["witnessed"] = True
    if at > facts.moved and type(signal) not in STILL:
        changes["moved"] = at
    if not facts.born or at < facts.born:
        changes["born"] = at
        changes["agent"] = signal.agent
    if not facts.known or signal.seen < facts.known:
        changes["known"] = signal.seen


def _is_of_history(signal: s.KnownSignal) -> bool:
    if signal.source != "transcript":
        return False
    if isinstance(signal, s.MetaChanged):
        return signal.forked_from is not None or signal.seen - signal.at > FRESH
    return type(signal) in OF_HISTORY
