"""Folds what happens in a session: turns, tools, requests, children, tasks."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from adsum_hub.facts import (
    AT_HAND_KEPT,
    AT_HAND_MAX,
    CHILDREN_MAX,
    COMMANDS_MAX,
    DELIVERED_MAX,
    QUEUE_MAX,
    RELEASED_MAX,
    REQUESTS_MAX,
    TASKS_MAX,
    TOOLS_KEPT,
    TOOLS_MAX,
    TURNS_MAX,
    Child,
    Facts,
    Queue,
    ReportedCommand,
    Request,
    Task,
    Tool,
    Turn,
    WorkReport,
    earliest,
    first_witness,
)
from adsum_hub.fold.activity import NAMELESS, first_line
from adsum_shared import signals as s
from adsum_shared.signals import LATENESS

Changes = dict[str, Any]
Requests = dict[str, Request]
TITLE_MAX = 120
#: Nobody types a second prompt so soon after the first: the hook is installed twice.
TWICE = 500


def put(
    facts: Facts, name: str, key: str, value: Any, most: int, age: Callable[[Any], Any]
) -> Changes:
    """The dictionary `name` with this in it. Beyond `most` the one of least age goes."""
    held = getattr(facts, name)
    if held.get(key) == value:
        return {}
    held = {**held, key: value}
    if len(held) > most:
        del held[min(held, key=lambda each: age(held[each]))]
    return {name: held}


def put_request(facts: Facts, key: str, request: Request) -> Changes:
    return put(facts, "requests", key, request, REQUESTS_MAX, lambda it: (not it.closed, it.opened))


def put_child(facts: Facts, child_id: str, child: Child) -> Changes:
    return put(facts, "children", child_id, child, CHILDREN_MAX, lambda it: (it.running, it.last))


def put_task(facts: Facts, task_id: str, task: Task) -> Changes:
    return put(facts, "tasks", task_id, task, TASKS_MAX, lambda it: (not it.completed, it.created))


def rank_turn(turns: dict[str, Turn], prompt_id: str, at: int) -> dict[str, Turn]:
    held = turns.get(prompt_id)
    turn = Turn(at) if held is None else replace(held, first=min(held.first, at))
    return put_turn(turns, prompt_id, turn)


def put_turn(turns: dict[str, Turn], prompt_id: str, turn: Turn) -> dict[str, Turn]:
    turns = {**turns, prompt_id: turn}
    if len(turns) > TURNS_MAX:
        oldest = min((key for key in turns if key), key=lambda key: turns[key].first)
        del turns[oldest]
    return turns


def prompt_submitted(facts: Facts, signal: s.PromptSubmitted) -> Changes:
    changes: Changes = {}
    key = signal.prompt_id or ""
    turn = facts.turns.get(key) or Turn(signal.at)
    if signal.origin != "system" and signal.text:
        title = (signal.at, first_line(signal.text)[:TITLE_MAX])
        is_first = facts.first_prompt is None or title < facts.first_prompt
        if title[1] and is_first and signal.origin == "typed":
            changes["first_prompt"] = title
        if title[1] and (facts.last_prompt is None or title > facts.last_prompt):
            changes["last_prompt"] = title
    hooked = signal.source == "hook"
    # A prompt typed while a turn runs is hooked at once, under the id of the turn that runs: it
    # opens nothing yet. (Rejected: counting prompts against Stops, which such prompts break.)
    again = bool(key) and hooked and turn.hook_prompt and signal.at > turn.hook_prompt
    if again and signal.at <= turn.hook_prompt + TWICE:
        return changes
    if signal.origin == "queued" or (again and signal.origin == "typed"):
        if signal.at > facts.queued:
            changes["queued"] = signal.at
        return changes
    if again:
        return changes  # a background task's report that joins the turn that runs
    opened = earliest(turn.prompt, signal.at) if key else max(turn.prompt, signal.at)
    typed = signal.origin == "typed"
    # A Stop hook's feedback sends the agent back to work under the same prompt id. Only the
    # transcript's own time tells that from a report that joined the turn before its end.
    sent_back = bool(key) and signal.origin == "system" and not hooked
    merged = replace(
        turn,
        first=min(turn.first, signal.at),
        prompt=opened,
        reopened=max(turn.reopened, signal.at) if sent_back else turn.reopened,
        hook_prompt=earliest(turn.hook_prompt, signal.at) if hooked else turn.hook_prompt,
        typed=(turn.typed or typed) if key else (typed if opened == signal.at else turn.typed),
    )
    if merged != facts.turns.get(key):
        changes["turns"] = put_turn(facts.turns, key, merged)
    return changes


def turn_ended(facts: Facts, signal: s.TurnEnded) -> Changes:
    if signal.agent_id is not None:
        return finish_child(facts, signal.agent_id, signal, "completed")
    ways = ("ended", "final") if signal.final else ("ended",)
    changes = close_turn(facts, signal, *ways, last_message=signal.last_message)
    if signal.background is not None:
        if signal.at > facts.drained:
            changes["drained"] = signal.at
        for entry in signal.background:
            if entry.status == s.MATE_LISTED:
                news = keep_mates(facts, entry, signal.at)
            else:
                held = facts.children.get(entry.id)
                news = put_child(facts, entry.id, listed(held, entry, signal.at))
            facts, changes = replace(facts, **news), changes | news
    return changes


def turn_failed(facts: Facts, signal: s.TurnFailed) -> Changes:
    if signal.agent_id is not None:
        return finish_child(facts, signal.agent_id, signal, "failed")
    return close_turn(facts, signal, "failed", error=signal.error, last_message=signal.message)


def turn_interrupted(facts: Facts, signal: s.TurnInterrupted) -> Changes:
    if signal.agent_id is not None:
        return finish_child(facts, signal.agent_id, signal, "interrupted")
    return close_turn(facts, signal, "interrupted")


def close_turn(
    facts: Facts,
    signal: s.Signal,
    *ways: str,
    last_message: str | None = None,
    error: str | None = None,
) -> Changes:
    """Each way to close is a register of its own: a failed turn also ends, and stays failed."""
    key = signal.prompt_id or ""
    turn = facts.turns.get(key) or Turn(signal.at)
    news: dict[str, Any] = {"first": min(turn.first, signal.at)}
    news |= {way: signal.at for way in ways if signal.at > getattr(turn, way)}
    if signal.at >= turn.closed:
        held = turn.source if signal.at == turn.closed else signal.source
        news["source"] = min(signal.source, held)
    # Not every witness of an end has words: the latest that has some is quoted.
    if last_message is not None and (signal.at, last_message) > (
        turn.said,
        turn.last_message or "",
    ):
        news |= {"said": signal.at, "last_message": last_message}
    if error is not None and signal.at >= turn.failed:
        news["error"] = error
    merged = replace(turn, **news)
    return {} if merged == facts.turns.get(key) else {"turns": put_turn(facts.turns, key, merged)}


def tool_started(facts: Facts, signal: s.ToolStarted) -> Changes:
    hooked = signal.source == "hook"
    held = facts.call(signal.tool_use_id) or Tool(signal.tool, signal.at, signal.role)
    merged = replace(
        held,
        tool=signal.tool,
        role=signal.role,
        server=held.server or signal.server,
        first=min(held.first, signal.at),
        started=earliest(held.started, signal.at),
        hooked=earliest(held.hooked, signal.at) if hooked else held.hooked,
        # Only the hook's own input is the one a PermissionRequest repeats: the transcript's input
        # of the same call can differ (Agent, ExitPlanMode).
        digest=signal.digest if hooked and signal.digest else held.digest,
        summary=held.summary or signal.summary,
        timeout_ms=signal.timeout_ms if held.timeout_ms is None else held.timeout_ms,
        agent_id=held.agent_id or signal.agent_id,
        # Of a call that a kill cut off, the result is written under the prompt that followed.
        prompt_id=signal.prompt_id or held.prompt_id,
        source=first_witness(held.started, held.source, signal.at, signal.source),
    )
    changes = put_tool(facts, signal.tool_use_id, merged)
    if hooked:
        changes |= take_over(facts, changes, signal.tool_use_id)
    twice = max(held.hooked, signal.at) if hooked and held.hooked else 0
    if twice > facts.doubled:
        # Batches are applied once by number, so this was delivered twice: our hooks stand in two
        # places. No state rests on it.
        changes["doubled"] = twice
    child = signal.agent_id
    if child is not None:
        known = facts.children.get(child) or Child("agent", started=signal.at, last=signal.at)
        active = replace(
            known,
            started=earliest(known.started, signal.at),
            active=max(known.active, signal.at),
            last=max(known.last, signal.at),
        )
        changes |= put_child(facts, child, active)
    return changes


def tool_finished(facts: Facts, signal: s.ToolFinished) -> Changes:
    """Two witnesses of one finish agree by and / or: a failure stays one, an answer too."""
    held = facts.call(signal.tool_use_id) or Tool(signal.tool, signal.at, signal.role)
    merged = replace(
        held,
        tool=signal.tool if held.tool == NAMELESS else held.tool,
        role=signal.role if held.tool == NAMELESS else held.role,
        server=held.server or signal.server,
        first=min(held.first, signal.at),
        finished=earliest(held.finished, signal.at),
        posted=max(held.posted, signal.at) if signal.source == "hook" else held.posted,
        ok=held.ok and signal.ok,
        denied=held.denied or signal.denied,
        is_interrupt=held.is_interrupt or signal.is_interrupt,
        answered=held.answered or signal.answered,
        background=held.background or signal.background,
        error=held.error or first_line(signal.error)[:TITLE_MAX] or None,
        agent_id=held.agent_id or signal.agent_id,
        prompt_id=held.prompt_id or signal.prompt_id,
        child_id=held.child_id or signal.child_id,
    )
    changes = put_tool(facts, signal.tool_use_id, merged)
    requests = close_by_finish(facts.requests, signal.tool_use_id, signal.at)
    if signal.digest is not None and not held.hooked:
        requests = bind_by_finish(requests, signal)
    if requests is not facts.requests:
        changes["requests"] = requests
    if signal.delivered:
        at, made = facts.delivered.get(signal.tool_use_id, (signal.at, tuple(signal.delivered)))
        told = (min(at, signal.at), made)
        changes |= put(
            facts, "delivered", signal.tool_use_id, told, DELIVERED_MAX, lambda it: it[0]
        )
    return changes


def put_tool(facts: Facts, tool_use_id: str, tool: Tool) -> Changes:
    if tool == facts.call(tool_use_id):
        return {}
    tools = {**facts.tools, tool_use_id: tool}
    changes: Changes = {"tools": tools}
    if tool_use_id in facts.done:
        changes["done"] = {key: each for key, each in facts.done.items() if key != tool_use_id}
    if len(tools) <= AT_HAND_MAX:
        return changes
    done = dict(changes.get("done", facts.done))
    ended = sorted((key for key in tools if tools[key].finished), key=lambda key: tools[key].first)
    done |= {key: tools.pop(key) for key in ended[: len(tools) - AT_HAND_KEPT]}
    changes["done"] = done
    # With room for those that end before `done` is gathered again.
    if len(tools) + len(done) > TOOLS_MAX - AT_HAND_MAX + AT_HAND_KEPT:
        turns, known = facts.turns, {**done, **tools}
        spare = sorted(known, key=lambda key: (not known[key].finished, known[key].first))
        for key in spare[: len(known) - TOOLS_KEPT]:
            turns = _remember_opener(turns, known[key])
            del (tools if key in tools else done)[key]
        if turns is not facts.turns:
            changes["turns"] = turns
    return changes


def _remember_opener(turns: dict[str, Turn], pruned: Tool) -> dict[str, Turn]:
    key = pruned.prompt_id or ""
    turn = turns.get(key) or Turn(pruned.first)
    if not pruned.started or pruned.agent_id is not None or pruned.first <= turn.reopened:
        return turns
    return put_turn(turns, key, replace(turn, reopened=pruned.first))


def request_closed(facts: Facts, signal: s.RequestClosed) -> Changes:
    if signal.tool_use_id is not None:
        return close_request(facts, signal.tool_use_id, signal.at)
    key, at = signal.request_id, signal.at
    # Known by an id of ours or of an MCP server: these can be asked under again.
    if key is None or facts.released.get(key, 0) >= at:
        return {}
    return put(facts, "released", key, at, RELEASED_MAX, lambda released: released)


# Requests to a human: which tool call they belong to, and what witnesses that they are over.


def request_opened(facts: Facts, signal: s.RequestOpened) -> Changes:
    told = Request(
        kind=signal.request_kind,
        opened=signal.at,
        tool=signal.tool,
        role=signal.role,
        server=signal.server,
        tool_use_id=signal.tool_use_id,
        request_id=signal.request_id,
        agent_id=signal.agent_id,
        prompt_id=signal.prompt_id,
        digest=signal.digest,
        summary=signal.summary,
        payload=signal.payload,
        suggestions=signal.suggestions,
        source=signal.source,
        hold=signal.hold,
        held=signal.at if signal.hold is not None else 0,
        asked=signal.at if signal.tool_use_id is None else 0,
    )
    key = signal.tool_use_id or bind(facts, told)
    if key is None:
        key = f"{signal.request_id or signal.agent_id or ''}?{signal.digest or ''}@{signal.at}"
    return put_request(facts, key, merged_request(facts, key, told))


def merged_request(facts: Facts, key: str, told: Request) -> Request:
    """What is known of the request under this key, with what one witness told of it."""
    tool = facts.call(key)
    held = facts.requests.get(key) or Request(told.kind, 0)
    closed = held.closed or (tool.finished if tool is not None else 0)
    # Asked twice about one call: the later hold is the one that can be decided, by its own id.
    holds = told.held > 0 and told.held >= held.held
    over = closed or (told.request_id in facts.unheld if holds else held.hold is None)
    # What a decision is bound to is shown, and not what another witness tells of the call.
    bound = told if holds else held if held.held else None
    return Request(
        # A transcript or PreToolUse may have called it by the tool before the dialog's own hook
        # came; all witnesses of one call agree on the kind, a stub made by its close has none.
        kind=bound.kind if bound else told.kind,
        opened=min(held.opened, told.opened) if held.opened else told.opened,
        closed=closed,
        tool=bound.tool if bound else held.tool or told.tool,
        role=bound.role if bound else held.role if held.role != "other" else told.role,
        server=held.server or told.server,
        tool_use_id=held.tool_use_id or (key if tool is not None else told.tool_use_id),
        request_id=told.request_id if holds else held.request_id or told.request_id,
        agent_id=held.agent_id or told.agent_id,
        prompt_id=held.prompt_id or told.prompt_id,
        digest=held.digest or told.digest,
        summary=bound.summary if bound else held.summary or told.summary,
        # What was asked is shown while it is asked; a closed request is only a tombstone.
        payload=None if closed else bound.payload if bound else held.payload or told.payload,
        suggestions=None if closed else held.suggestions or told.suggestions,
        source=first_witness(held.opened, held.source, told.opened, told.source),
        hold=None if over else told.hold if holds else held.hold,
        held=told.held if holds else held.held,
        asked=max(held.asked, told.asked),
    )


def hold_ended(facts: Facts, signal: s.HoldEnded) -> Changes:
    """An id is held once, so whatever comes of it later finds it ended. Nothing else is said by it."""
    key = signal.request_id
    if key in facts.unheld:
        return {}
    changes = put(facts, "unheld", key, signal.at, RELEASED_MAX, lambda ended: ended)
    for call, request in facts.requests.items():
        if request.hold is not None and request.request_id == key:
            changes["requests"] = {**facts.requests, call: replace(request, hold=None)}
    return changes


#: Of two reports of one instant the one farther to the right is the later.
OUTCOMES = ("queued", "awaits_second", "under_way", "sent")


def command_reported(facts: Facts, signal: s.CommandReported) -> Changes:
    told = ReportedCommand(
        signal.at, signal.verb, signal.outcome, signal.by, signal.request_id, signal.reason
    )
    held = facts.commands.get(signal.command_id)
    if held is not None:
        if _known_by(held) >= _known_by(told):
            return {}
        told = replace(told, by=told.by or held.by, request_id=told.request_id or held.request_id)
    return put(facts, "commands", signal.command_id, told, COMMANDS_MAX, lambda command: command.at)


def queue_reported(facts: Facts, signal: s.QueueReported) -> Changes:
    told = Queue(signal.at, tuple(signal.items[:QUEUE_MAX]), signal.way)
    order = [(each.at, msgspec.json.encode(each)) for each in (facts.queue, told)]
    return {"queue": told} if order[0] < order[1] else {}


def _known_by(told: ReportedCommand) -> tuple[int, int, str]:
    rank = OUTCOMES.index(told.outcome) if told.outcome in OUTCOMES else len(OUTCOMES)
    return told.at, rank, told.outcome


def work_reported(facts: Facts, signal: s.WorkReported) -> Changes:
    """The latest, by event time."""
    told = WorkReport(
        signal.at, signal.report_id, signal.status, signal.issue, signal.notes, signal.by
    )
    held = facts.report
    if held is not None and (held.id == told.id or (held.at, held.id) > (told.at, told.id)):
        return {}
    return {"report": told}


def bind(facts: Facts, request: Request) -> str | None:
    """The call a PermissionRequest belongs to, since it names none.

    It is the latest one that a *hook* saw start before the request, with the same agent, tool and
    input. That one may be over: hooks come up to LATENESS late, and a request whose call is over is
    born closed. Left out is a call that was over for longer than that, since the same command is often
    run again; and of the main agent one of another prompt, as a denied one is, of whose end no hook
    tells. If none is left, or that one is over, it is the first that starts within LATENESS after the
    request: each hook is a process, and that of a request may overtake that of its call (started 4 ms
    apart, a fifth does on a busy machine).

    Rejected: no call that is over (a late request came back as an open one). Any that is over (of two
    equal calls the second asked, and nobody was told). The word of other witnesses on its end (where
    the clock was set back, it depended on whose came first).
    """
    found, after, latest, soonest, over = None, None, 0, 0, False
    digest, at = request.digest, request.opened
    if digest is None:
        return None
    for key, tool in (*facts.done.items(), *facts.tools.items()):
        if (
            tool.digest != digest  # asked first, since it tells nearly all apart
            or tool.tool != request.tool
            or tool.agent_id != request.agent_id
            or (0 < tool.posted < at - LATENESS and not is_repeated(facts.requests.get(key), at))
            or (request.agent_id is None and is_of_another(tool.prompt_id, request.prompt_id))
        ):
            continue
        if tool.hooked <= at:
            if tool.hooked > latest:
                found, latest, over = key, tool.hooked, 0 < tool.posted < at
        elif tool.hooked <= at + LATENESS and (after is None or tool.hooked < soonest):
            after, soonest = key, tool.hooked
    return after if after is not None and (found is None or over) else found


def is_of_another(prompt_id: str | None, other: str | None) -> bool:
    return prompt_id is not None and other is not None and prompt_id != other


def is_repeated(held: Request | None, at: int) -> bool:
    """Whether it was asked at that moment: delivered again, after a finish by a clock that was set back."""
    return held is not None and held.asked == at


def take_over(facts: Facts, changes: Changes, tool_use_id: str) -> Changes:
    """Gives a call the request that overtook its hook, and has been open without a call since."""
    for key, request in facts.requests.items():
        if request.tool_use_id is None and not request.closed:
            known = replace(facts, **changes)
            if bind(known, request) == tool_use_id:
                others = {name: each for name, each in facts.requests.items() if name != key}
                known = replace(known, requests=others)
                merged = merged_request(known, tool_use_id, request)
                return put_request(known, tool_use_id, merged)
    return {}


def bind_by_finish(requests: Requests, signal: s.ToolFinished) -> Requests:
    """The PreToolUse was lost: the PostToolUse with the same input ends what it could not bind."""
    for key, request in requests.items():
        if (
            not request.closed
            and request.tool_use_id is None
            and request.digest == signal.digest
            and request.tool == signal.tool
            and request.agent_id == signal.agent_id
            and request.opened <= signal.at
        ):
            requests = {**requests, key: tombstone(request, signal.at)}
    return requests


def tombstone(request: Request, at: int) -> Request:
    return replace(request, closed=at, payload=None, suggestions=None, hold=None)


def close_by_finish(requests: Requests, tool_use_id: str, at: int) -> Requests:
    request = requests.get(tool_use_id)
    if request is None or (request.closed and request.closed <= at):
        return requests
    return {**requests, tool_use_id: tombstone(request, at)}


def close_request(facts: Facts, key: str, at: int) -> dict[str, Any]:
    held = facts.requests.get(key)
    if held is not None and held.closed and held.closed <= at:
        return {}
    # Closed before it was seen to open: born closed, whenever the opening comes.
    stub = tombstone(held, at) if held else Request("", 0, closed=at, tool_use_id=key)
    return put_request(facts, key, stub)


# What works on without the main agent, and the tasks it set itself.


def child_started(facts: Facts, signal: s.ChildStarted) -> Changes:
    held = facts.children.get(signal.child_id) or Child(signal.child_kind)
    merged = replace(
        held,
        kind=signal.child_kind,
        started=earliest(held.started, signal.at),
        restarted=max(held.restarted, signal.at),
        last=max(held.last, signal.at),
        until=max(held.until, signal.until or 0),
        type=held.type or signal.type,
        description=held.description or signal.description,
    )
    return put_child(facts, signal.child_id, merged)


def child_changed(facts: Facts, signal: s.ChildChanged) -> Changes:
    held = facts.children.get(signal.child_id) or Child(signal.child_kind, started=signal.at)
    return put_child(facts, signal.child_id, replace(held, last=max(held.last, signal.at)))


def child_finished(facts: Facts, signal: s.ChildFinished) -> Changes:
    if signal.child_id == s.ALL_CHILDREN:
        # Not by closing those we know: one may be told of later that had begun before.
        return {"killed": signal.at} if signal.at > facts.killed else {}
    return finish_child(
        facts, signal.child_id, signal, signal.status, signal.child_kind, notified=signal.notified
    )


def finish_child(
    facts: Facts,
    child_id: str,
    signal: s.Signal,
    status: str,
    kind: str = "agent",
    *,
    notified: bool = False,
) -> Changes:
    held = facts.children.get(child_id) or Child(kind)
    merged = replace(
        held,
        finished=max(held.finished, signal.at),
        notified=max(held.notified, signal.at) if notified else held.notified,
        last=max(held.last, signal.at),
        status=status if signal.at > held.finished else held.status,
    )
    return put_child(facts, child_id, merged)


def listed(held: Child | None, entry: s.BackgroundTask, at: int) -> Child:
    """A Stop names what still runs, and is itself a witness of it."""
    held = held or Child(entry.kind, started=at, restarted=at)
    described = held.description or entry.description
    merged = replace(held, last=max(held.last, at), description=described)
    if entry.status in ("running", "pending"):
        return merged
    # Nothing that is scheduled wakes its parent right now.
    told = at if entry.status == s.SCHEDULED else merged.notified
    return replace(merged, finished=max(merged.finished, at), status=entry.status, notified=told)


def keep_mates(facts: Facts, entry: s.BackgroundTask, at: int) -> Changes:
    """Keep the mates that run: the list of a Stop has them under another id, and cannot end one."""
    children = {
        key: replace(child, last=max(child.last, at))
        if child.running and child.kind == "agent" and child.description == entry.description
        else child
        for key, child in facts.children.items()
    }
    return {} if children == facts.children else {"children": children}


def task_created(facts: Facts, signal: s.TaskCreated) -> Changes:
    held = facts.tasks.get(signal.task_id, Task())
    merged = replace(
        held, created=earliest(held.created, signal.at), subject=held.subject or signal.subject
    )
    return put_task(facts, signal.task_id, merged)


def task_completed(facts: Facts, signal: s.TaskCompleted) -> Changes:
    """Fires in mid-turn for to-do items, so it decides nothing here: it counts at the turn's end."""
    held = facts.tasks.get(signal.task_id, Task())
    merged = replace(
        held, completed=earliest(held.completed, signal.at), subject=held.subject or signal.subject
    )
    return put_task(facts, signal.task_id, merged)
