"""fold(facts, signal) -> facts: adds one signal to the facts, in whatever order signals come.

Every witness is folded alike, because none suffices. (Rejected: hooks alone; they never see Esc, No,
a dead process or an approval at the terminal. Rejected: the transcript alone; it lags by 0.1 to
0.25 s and cannot see an open permission dialog.)
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from adsum_hub.facts import (
    USAGE_MAX,
    Budget,
    Cost,
    Ended,
    Facts,
    Gauges,
    Retry,
    SessionProcess,
    Status,
    Suspension,
    Trail,
    Usage,
    earliest,
    same_process,
)
from adsum_hub.fold import work
from adsum_hub.fold.activity import note
from adsum_shared import signals as s

Changes = dict[str, Any]
Steps = tuple[tuple[int, int], ...]
#: What a kind changes: the fields of Facts to replace. Pure, and total over the union.
Step = Callable[[Facts, Any], Changes]

STEP_MS = 60_000
#: Steps of the day that runs, of a day that is over, and days: no budget looks back further.
MOST_STEPS = 48
#: Steps that a day may have before it is thinned to that, so that not every report pays for it.
FULL_STEPS = 64
OLD_STEPS = 4
MOST_DAYS = 31

_COUNTS = attrgetter(*Usage.__struct_fields__)
_NOTHING = Usage()

#: Signs of life and facts about the session, not of something happening in it.
STILL: frozenset[type] = frozenset(
    {
        s.Alive,
        s.MetaChanged,
        s.UsageTotalled,
        s.CostReported,
        s.GaugesReported,
        s.ProcessSeen,
        s.ProcessStill,
        s.StatusReported,
    }
)

#: What is told of a session from its files, whether it lives or not.
OF_HISTORY: frozenset[type] = frozenset(
    {s.UsageTotalled, s.CostReported, s.GaugesReported, s.SessionEnded}
)
#: A line that is read so soon after it was written was written by a living session. ms.
FRESH = 10_000

META = tuple(
    name for name in s.MetaChanged.__struct_fields__ if name not in s.Signal.__struct_fields__
)

#: What a human decided at the hub, and its register.
DECISIONS = {
    "control.dismissed": "dismissed",
    "control.read": "read",
    "control.budget": "budget_answered",
}

#: What a collector itself has done says nothing of the session's life.
OWN_DEEDS: frozenset[type] = frozenset(
    {s.UnknownSignal, s.HoldEnded, s.CommandReported, s.QueueReported, s.SessionSuspended}
)

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
    kind = type(signal)
    changes = STEPS[kind](facts, signal)
    if kind not in OWN_DEEDS:
        _evidence(facts, signal, changes)  # type: ignore[arg-type] # it is a known one
    if not changes:
        return facts
    entry = note(facts, signal, changes)  # type: ignore[arg-type] # unknown ones are silent
    if entry is not None:
        changes["activity"] = entry
    return replace(facts, **changes)


def _evidence(facts: Facts, signal: s.KnownSignal, changes: dict[str, Any]) -> None:
    """When it was heard, by whom; and what its prompt id and agent id alone say."""
    kind, at = type(signal), signal.at
    if at > facts.moved and kind not in STILL:
        changes["moved"] = at
    if not facts.witnessed or not facts.known or at < facts.born or signal.seen < facts.known:
        _first(facts, signal, changes)
    # That a process stands still says nothing of life, for all that its witness was heard.
    field = EVIDENCE.get(signal.source) if kind is not s.ProcessStill else None
    if field is not None and at > getattr(facts, field):
        changes[field] = at
    prompt_id = signal.prompt_id
    # SessionEnd bears the id of the /exit that caused it, which is no turn.
    if prompt_id is not None and kind is not s.SessionEnded:
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


def _first(facts: Facts, signal: s.KnownSignal, changes: dict[str, Any]) -> None:
    at = signal.at
    if not facts.witnessed and not _is_of_history(signal):
        changes["witnessed"] = True
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


# Steps for the session as a whole: its life, its process, its registry entry, its meta.


def session_started(facts: Facts, signal: s.SessionStarted) -> Changes:
    changes: Changes = {}
    start = (signal.at, signal.reason)
    if facts.start is None or start > facts.start:
        changes["start"] = start
    # A startup alone begins no run: a resume of old versions announced itself as both.
    if signal.reason == "resume" and signal.at > facts.resumed:
        changes["resumed"] = signal.at
    # SessionStart(compact) says that a compaction is over, not that the agent is idle.
    if signal.reason == "compact" and signal.at > facts.compacted:
        changes["compacted"] = signal.at
    return changes


def session_ended(facts: Facts, signal: s.SessionEnded) -> Changes:
    """The words of registry and transcript are kept apart: they can be taken back, a hook's not.

    Nor can the line that another session goes on with it: no hook tells of that, and the registry
    names the old one as busy for as long as the terminal shows the agents' list.
    """
    field = {"registry": "left", "transcript": "closing"}.get(signal.source, "ended")
    if field == "closing" and signal.reason == s.LEFT:
        field = "ended"
    held: Ended | None = getattr(facts, field)
    if held is not None and (held.at, held.reason) >= (signal.at, signal.reason):
        return {}
    heard = signal.seen if field == "closing" else 0
    return {field: Ended(signal.at, signal.reason, signal.source, heard)}


def session_suspended(facts: Facts, signal: s.SessionSuspended) -> Changes:
    told = Suspension(signal.at, signal.by, signal.auto, signal.freed_bytes, signal.undone)
    held = facts.suspension
    known = held is not None and _order_of(held) >= _order_of(told)
    return {} if known else {"suspension": told}


def _order_of(told: Suspension) -> tuple[int, bool, str, int]:
    """The later wins; of one instant that it was taken back, in whichever order both arrive."""
    return told.at, told.undone, told.by, told.freed_bytes


def seen_or_gone(facts: Facts, signal: s.ProcessSeen | s.ProcessGone) -> Changes:
    """Of a process that was seen, or is gone; one that nobody saw come may still be seen to go.

    Of several that have had the session, the one that came to it last has it: by its start, or by when
    it was told to have come from another session, or to be left with it. The collector watches by the
    same rule (`processes.state_changes`), since it tells the end of that one only. (Rejected: whichever
    speaks last; two terminals took turns. Rejected: the start alone; an older terminal that takes a
    session up by /resume was never believed, nor its end noticed.)
    """
    held, at, is_gone = facts.process, signal.at, isinstance(signal, s.ProcessGone)
    seen, gone = (0, at) if is_gone else (at, 0)
    heir = isinstance(signal, s.ProcessSeen) and signal.again
    again = at if heir or (isinstance(signal, s.ProcessSeen) and signal.moved) else 0
    if held is None:
        told = SessionProcess(
            signal.pid, signal.started, seen, gone, first_of_all=not heir, again=again, heir=heir
        )
    elif same_process(held, signal.pid, signal.started):
        started = held.started if is_gone else earliest(held.started, signal.started)
        heir = heir if again > held.again else held.heir
        again = max(held.again, again)
        seen, gone = again or earliest(held.seen, seen), earliest(held.gone, gone)
        told = replace(held, started=started, seen=seen, gone=gone, again=again, heir=heir)
        if heir:
            told = replace(told, first_of_all=False)
    elif signal.started > held.began or (
        seen and (again or signal.started or at, signal.pid) > (held.began, held.pid)
    ):
        told = SessionProcess(
            signal.pid,
            signal.started,
            seen,
            gone,
            max(held.gone, held.before),
            first_of_all=False,
            again=again,
            heir=heir,
        )
    else:
        told = replace(held, before=max(held.before, gone), first_of_all=False)
    return {} if told == held else {"process": told}


def found_still(facts: Facts, signal: s.ProcessStill) -> Changes:
    at, connected = facts.still
    later = (signal.at, str(signal.connected)) > (at, str(connected))
    return {"still": (signal.at, signal.connected)} if later else {}


def status_reported(facts: Facts, signal: s.StatusReported) -> Changes:
    changes: Changes = {}
    if signal.seen > facts.named:
        changes["named"] = signal.seen
    held = facts.status
    if signal.status is None or (held is not None and signal.at < held.at):
        return changes
    if held is None:
        held = Status(0, 0)
    if (held.at, held.status, held.waiting_for) == (signal.at, signal.status, signal.waiting_for):
        if signal.seen > held.seen:  # its file had gone and is there again, or the host is known
            host = signal.host or held.host
            changes["status"] = replace(held, seen=signal.seen, host=host)
        return changes
    if signal.status in ("busy", "waiting", "shell"):
        changes["engaged"] = signal.at
    waits = signal.status == "waiting"
    waited = held.status == "waiting"
    rests = signal.status in ("idle", "shell")
    changes["status"] = Status(
        at=signal.at,
        seen=signal.seen,
        status=signal.status,
        waiting_for=signal.waiting_for,
        pid=signal.pid,
        started=signal.started,
        waiting=signal.at if waits and not waited else held.waiting,
        released=signal.at if waited and not waits else held.released,
        busy=signal.at if signal.status == "busy" != held.status else held.busy,
        rested=signal.at if rests else held.rested,
        worked=held.busy if rests else held.worked,
        shell=signal.status == "shell" or (held.shell and signal.status != "idle"),
        dialogs=signal.dialogs,
        shells=signal.shells,
        host=signal.host,
    )
    return changes


def meta_changed(facts: Facts, signal: s.MetaChanged) -> Changes:
    """Field by field, the last by event time wins; of two at one instant, the greater text.

    Of projects the first wins: a session's project is where it began, whatever directory it enters.
    """
    news: dict[str, tuple[int, str]] = {}
    for name in META:
        value = getattr(signal, name)
        if value is None:
            continue
        # The registry makes a name up when nobody gave one: worth less than the first prompt.
        key = "name" if name == "title" and signal.source == "registry" else name
        held = facts.meta.get(key)
        told = signal.at, value
        if held is None or (told < held if name == "project" else told > held):
            news[key] = (signal.at, value)
    return {"meta": {**facts.meta, **news}} if news else {}


def alive(facts: Facts, signal: s.Alive) -> Changes:
    # A status line tick is a sign of life and nothing more. It looked like proof that a dialog was
    # answered on 32 of 32 dialogs of short traces, and then masked seven real permissions in
    # longer sessions. Notification hooks are kept in the activity and drive no state either:
    # `permission_prompt` comes 6.1 s late and can overwrite newer truth, `idle_prompt` adds
    # nothing to the Stop 60 s before it.
    if signal.event == s.COMMAND and signal.at > facts.commanded:
        return {"commanded": signal.at}
    shown = signal.event in (s.MESSAGE, "MessageDisplay")
    if shown and signal.agent_id is None and signal.at > facts.progress:
        return {"progress": signal.at}
    return {}


def latest(name: str) -> Step:
    """Of what has a register for its latest time alone."""
    return lambda facts, signal: {name: signal.at} if signal.at > getattr(facts, name) else {}


def retry_scheduled(facts: Facts, signal: s.RetryScheduled) -> Changes:
    retry = Retry(signal.at, signal.attempt, signal.max, signal.in_ms, signal.source)
    held = facts.retry
    if held is not None and (held.at, held.attempt) >= (retry.at, retry.attempt):
        return {}
    return {"retry": retry}


def unknown(facts: Facts, signal: s.UnknownSignal) -> Changes:
    """The hub's own decisions, which have no struct yet: the latest of each."""
    if (name := DECISIONS.get(signal.kind)) is not None:
        return latest(name)(facts, signal)
    at, raw = signal.at, signal.raw
    if signal.kind == "budget.exceeded" and (facts.budget is None or at > facts.budget.at):
        return {"budget": Budget(at, _number(raw.get("spent")), _number(raw.get("limit")))}
    return {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# Steps for what a session uses up: tokens, the agent's own dollars, gauges.


def usage_totalled(facts: Facts, signal: s.UsageTotalled) -> Changes:
    """The later takes the earlier's place: they come in order, and a total may fall."""
    key = usage_key(signal)
    told = Usage(*_COUNTS(signal))
    if facts.usage.get(key, _NOTHING) == told:
        return {}
    usage = {**facts.usage, key: told}
    if told == _NOTHING:
        del usage[key]
    if len(usage) > USAGE_MAX:
        del usage[min(usage)]  # keys begin with the day
    # A prompt between two reports begins a new step, so that it can be said which came first.
    prompted = max(facts.typed_at, facts.queued)
    trail = walked(facts.trail, usage, signal.day, signal.at, prompted)
    return {"usage": usage, "trail": trail, "used_at": max(facts.used_at, signal.at)}


def usage_key(signal: s.UsageTotalled) -> str:
    """Sorts by day. See `facts.Usage`."""
    fast, long = "fast" * signal.fast, "long" * signal.long
    return f"{signal.day} {fast},{signal.geo},{long} {signal.model}"


def cost_reported(facts: Facts, signal: s.CostReported) -> Changes:
    held = facts.costs.get(signal.source)
    told = Cost(signal.at, signal.cost_usd, signal.models)
    if held is not None and (told == held or told.at < held.at):
        return {}
    if held is not None and (told.cost_usd, told.models) == (held.cost_usd, held.models):
        return {}  # every tick repeats it: no reason to write the facts anew
    return {"costs": {**facts.costs, signal.source: told}}


def gauges_reported(facts: Facts, signal: s.GaugesReported) -> Changes:
    """Gauge by gauge, the last by event time."""
    at, gauges = signal.at, facts.gauges
    changes: dict[str, Any] = {}
    for name in Gauges.__struct_fields__:
        value = getattr(signal, name)
        if value is not None:
            held = getattr(gauges, name)
            if held is None or at > held[0]:
                changes[name] = at, tuple(value) if name == "limits" else value
    return {"gauges": replace(gauges, **changes)} if changes else {}


# The trail: by when a session had used up how much of a day's total.
#
# Totals alone do not say when a budget was crossed, and no hub may depend on having watched. So facts
# keep steps: (when, units by then), at most one a minute. Where steps are merged, the earlier time is
# kept with the later sum: a crossing is then dated a little too early and never moves to later, and a
# session whose human has answered it stays answered. (Rejected: dollars in the fold; it knows no
# prices. Rejected: a step for each report; a day has thousands.)


def units(usage: Usage) -> int:
    """What a group weighs beside others of its day, in twentieths of a token.

    As the prices of all models relate to each other: output five times input, a cache read a tenth,
    a cache write 1.25 times and twice.
    """
    written = 25 * usage.cache_5m_tokens + 40 * usage.cache_1h_tokens
    return (
        20 * usage.input_tokens + 100 * usage.output_tokens + 2 * usage.cache_read_tokens + written
    )


def walked(trail: Trail, usage: Mapping[str, Usage], day: str, at: int, prompted: int) -> Trail:
    """The trail after the usage has changed. prompted: when a human last typed a prompt."""
    total = sum(units(group) for key, group in usage.items() if key.startswith(day))
    steps = trail.get(day)
    if steps is None:
        kept = sorted(trail)[1 - MOST_DAYS :] if len(trail) >= MOST_DAYS else trail
        return {old: thinned(trail[old], OLD_STEPS) for old in kept} | {day: ((at, total),)}
    last, before = steps[-1]
    if total < before:
        # A total that falls was another session's: it was so from the begin.
        steps = tuple((when, min(sum_, total)) for when, sum_ in steps)
        before = total
    if at < last + STEP_MS and not last < prompted <= at:
        return {**trail, day: (*steps[:-1], (last, total))}
    if last < prompted < at:
        # Nothing was used by the prompt itself: what comes after it is dated no earlier.
        steps = (*steps, (prompted, before))
    steps = (*steps, (max(at, last), total))
    return {**trail, day: steps if len(steps) <= FULL_STEPS else thinned(steps, MOST_STEPS)}


def thinned(steps: Steps, most: int) -> Steps:
    """Those closest to each other are merged, so that all of a day stays equally fine; the last is kept."""
    found = list(steps)
    while len(found) > most:
        at = min(range(len(found) - 2), key=lambda at: found[at + 1][0] - found[at][0])
        found[at : at + 2] = [(found[at][0], found[at + 1][1])]
    return tuple(found)


STEPS: dict[type, Step] = {
    s.SessionStarted: session_started,
    s.SessionEnded: session_ended,
    s.SessionSuspended: session_suspended,
    s.ProcessSeen: seen_or_gone,
    s.ProcessGone: seen_or_gone,
    s.ProcessStill: found_still,
    s.StatusReported: status_reported,
    s.UsageTotalled: usage_totalled,
    s.CostReported: cost_reported,
    s.GaugesReported: gauges_reported,
    s.MetaChanged: meta_changed,
    s.Alive: alive,
    s.UnknownSignal: unknown,
    s.PromptSubmitted: work.prompt_submitted,
    s.PromptDequeued: latest("dequeued"),
    s.TurnEnded: work.turn_ended,
    s.TurnFailed: work.turn_failed,
    s.TurnInterrupted: work.turn_interrupted,
    s.ToolStarted: work.tool_started,
    s.ToolFinished: work.tool_finished,
    s.RequestOpened: work.request_opened,
    s.RequestClosed: work.request_closed,
    s.HoldEnded: work.hold_ended,
    s.CommandReported: work.command_reported,
    s.QueueReported: work.queue_reported,
    s.WorkReported: work.work_reported,
    s.ChildStarted: work.child_started,
    s.ChildChanged: work.child_changed,
    s.ChildFinished: work.child_finished,
    s.TaskCreated: work.task_created,
    s.TaskCompleted: work.task_completed,
    s.CompactionStarted: latest("compacting"),
    s.CompactionFinished: latest("compacted"),
    s.RetryScheduled: retry_scheduled,
}
