"""The numbered rules of what a session is doing, and why we believe it; the first match wins.

Nothing here reads a terminal's screen or asks a model to classify: both were rejected for good.
"""

import re
from typing import Any

from adsum_hub.facts import Budget, Ended, Facts, Request, Status, Task, Tool, Turn
from adsum_hub.verdict.ground import Standing, failed_tool, opener_source
from adsum_hub.verdict.reading import IN_PANE, Reading, state
from adsum_shared.signals import GOAL, LATENESS, NETWORK
from adsum_shared.state import AgentState

#: The registry's word that a session left may be later than the SessionEnd it belongs to, or
#: earlier: a closed terminal's SessionEnd came 1.3 s after its registry file had gone.
SAME_END = 5_000

#: The reason a transcript gives for the end of a run without a terminal.
HEADLESS = "run_over"

REASONS = {
    "prompt_input_exit": "exit",
    "clear": "cleared",
    "resume": "another session resumed",
    "logout": "logged out",
    "other": "",  # nothing that would explain it
    "gone": "",
    "closed": "",
    "left": "another session took over",
    "process": "process gone",
    HEADLESS: "",
}

#: Of a name in a label, so that there is room for the dollars.
NAME_MAX = 24
DIGITS_MAX = 9

#: What the registry waits for: the state of the dialog on the screen, and its label.
DIALOGS = {
    "permission prompt": ("needs_permission", "Needs permission"),
    "input needed": ("awaiting_input", "Asked you a question"),
    "sandbox request": ("needs_permission", "Needs network access"),
    "goal proposal": ("awaiting_approval", "Proposes a goal"),
    "worker request": ("needs_permission", "Needs its team lead's permission"),
}
#: A dialog that its user may have opened: in a turn only it is one of the agent's.
USERS_OWN = frozenset({None, "dialog open"})
_MATE = re.compile(rf"(.+){IN_PANE}.+|a(.+)-[0-9a-f]{{16}}")
_HOST = re.compile(r"https?://(?:[^\s/@]+@)?([\w.-]+)")

#: The state an open request stands for.
STATE_OF = {
    "permission": "needs_permission",
    "question": "awaiting_input",
    "dialog": "awaiting_input",
    "plan": "awaiting_approval",
}

YOUR_TURN = "Waiting for your next prompt"

#: "No sign of life for {age}": the label changes at these ages only, in minutes.
AGES = (2, 3, 5, 10, 15, 30, 60, 120, 240, 480, 1_440, 2_880, 10_080)


def decide(reading: Reading) -> AgentState:
    return (
        over_for_good(reading)
        or asks_a_human(reading)
        or compacts(reading)
        or closed_turn(reading)
        or open_turn(reading)
        or no_turn(reading)
        or state("unknown", "Status unavailable", reading.facts.born, 0.0, "none")
    )


# Rule 1: whether the session is over, set aside by a human, or lives.


def over_for_good(reading: Reading) -> AgentState | None:
    facts = reading.facts
    if facts.dismissed and facts.dismissed >= facts.moved:
        return state("archived", "Dismissed", facts.dismissed, 1.0, "hub")
    ended = final(reading)
    if ended is None:
        return None
    if suspended(facts, reading.stand.opened):
        return state("suspended", "Suspended; resumable", ended.at, 1.0, ended.source)
    reason = REASONS.get(ended.reason, ended.reason)
    label, context = (
        f"Session closed ({reason})" if reason else "Session closed",
        {"reason": ended.reason},
    )
    return state("session_ended", label, ended.at, 1.0, ended.source, context)


def suspended(facts: Facts, opened: int) -> bool:
    """Whether the latest run ended by being suspended: one that began since has an end of its own.

    It is told before its process is ended, as the end would else be told as its user's. Taken back, it
    counts for nothing: whoever left the session afterwards has closed it. Rejected: to wait for the next
    turn to overrule it, since a session that is left has none.
    """
    told, process = facts.suspension, facts.process
    began = process.again or process.started if process is not None else 0
    if told is None or told.undone:
        return False
    return told.at >= max(opened, facts.resumed, began)


def final(reading: Reading) -> Ended | None:
    """The end that still stands: the latest that no new run and no opener has lifted."""
    facts, opened = reading.facts, reading.stand.opened
    process = facts.process
    gone = process.gone if process is not None else 0
    if not gone and facts.ended is None and facts.left is None and facts.closing is None:
        return None  # as below
    ends: list[Ended] = []
    if (
        facts.ended is not None
        and not _revived(facts, facts.ended.at, opened)
        and not _is_leaving(reading, facts.ended)
        and not (
            process is not None
            and facts.ended.source == "hook"
            and process.outlives(facts.ended.at)
        )
    ):
        ends.append(facts.ended)
    # Of registry, process table and transcript times are true. Hooks may be stamped late: one that
    # opened something a little after these say that it is over came before.
    exact = reading.stand.open and opener_source(reading.ground) == "transcript"
    late = opened if exact else opened - LATENESS
    if (
        facts.left is not None
        and facts.named <= facts.left.at
        and not _revived(facts, facts.left.at, late)
    ):
        ends.append(facts.left)
    if facts.closing is not None and _is_closed(reading, facts.closing):
        ends.append(facts.closing)
    if gone and max(late, facts.resumed) <= gone:
        ends.append(Ended(gone, "process", "process"))
    # The first word of several for one end says why; a process gone is how each of them ends.
    return min(ends, key=lambda end: (end.source == "process", end.at), default=None)


def _is_leaving(reading: Reading, ended: Ended) -> bool:
    """Whether the user's own hooks on the end may still run, behind a spinner.

    Of a session that its terminal leaves for another, by /clear or /resume. Our hook comes when these
    begin; the registry is `busy` with the command, and names the other session once they have run,
    which ends it (`left`). (After /exit they run when the terminal is back at its shell.)
    """
    status, ground, left = reading.status, reading.ground, reading.facts.left
    return (
        ended.reason in ("clear", "resume")
        and (left is None or left.at < ended.at)
        and status is not None
        and status.status == "busy"
        and max(ground.stand.opened, ground.turns.closed) < status.at <= ended.at
        and not reading.clock.passed(ended.at + reading.limits.transient)
    )


def _is_closed(reading: Reading, closing: Ended) -> bool:
    """Whether the transcript's word, that its cost report was written, means that the session is over.

    Only where the registry never spoke: that knows better. In a turn that runs it means that the
    process is being ended (a closed terminal); after one, a headless run may still show its error.
    """
    facts = reading.facts
    opened = max(reading.stand.opened, facts.progress)
    if facts.named or _revived(facts, closing.at, opened):
        return False
    held = closing.heard + (reading.limits.closing if closing.reason == HEADLESS else 0)
    return reading.stand.open or reading.clock.passed(held)


def _revived(facts: Facts, at: int, opened: int) -> bool:
    if max(opened, facts.resumed) > at:
        return True
    process = facts.process
    if process is not None and process.seen > at and not process.gone:
        return not process.first_of_all or process.started > at
    # The registry let go of it and then took it up again: an in-app /resume.
    left = facts.left
    return left is not None and left.at + SAME_END >= at and facts.named > left.at + SAME_END


# Rules 2 and 3: a human is asked something, or the context is compacted.


def asks_a_human(reading: Reading) -> AgentState | None:
    """Rule 2. The open request that is on the screen, or the budget, or a dialog only the registry sees.

    Of several that is what the human will answer next. Dialogs wait for each other, a subagent's
    too, so it is the one asked for first, unless the registry says otherwise; a server's form alone
    stands back behind what asks later. (Rejected: the most urgent; it named a permission that stood
    behind the question on the screen.)
    """
    if reading.requests:
        shown, _ = DIALOGS.get((reading.status and reading.status.waiting_for) or "", (None, ""))
        request = min(
            (request for _, request in reading.requests),
            key=lambda it: (_state_of(it) != shown, it.kind == "dialog", it.opened),
        )
        return request_state(request, mate_of(request.agent_id))
    if reading.waiting:
        nameless = nameless_request(reading)
        if nameless is not None:
            return nameless
    budget = reading.facts.budget
    if budget is not None and budget.at >= reading.facts.answered_at:
        return over_budget(budget)
    return None


def over_budget(budget: Budget) -> AgentState:
    """Until a human answers: whoever types a prompt has been told, and lets it go on."""
    # Whose it is comes first: narrow places cut the end.
    whose = f"{budget.scope} budget" if budget.scope else "budget"
    which = f" ({_short(budget.name)})" if budget.name else ""
    per = f" {budget.per}" if budget.per else ""
    label = f"Over {whose}{which}: {dollars(budget.spent)} of {dollars(budget.limit)}{per}"
    return state("budget_exceeded", label, budget.at, 1.0, "hub")


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def dollars(usd: float | None) -> str:
    """With as many digits as it takes to tell it from nothing, or from another limit."""
    if usd is None:
        return "?"
    digits = 2
    while digits < DIGITS_MAX and abs(round(usd, digits) - usd) > abs(usd) / 100:
        digits += 1
    return f"${usd:,.{digits}f}"


def request_state(request: Request, mate: str = "") -> AgentState:
    """Return the state of an open request. mate: the name of the team mate that asks."""
    label = {
        "question": "Asked you a question",
        "dialog": "A dialog is open",
        "plan": "Plan ready for review",
    }.get(request.kind, f"Needs permission: {request.tool or 'a tool'}")
    if request.request_id == GOAL:
        _, label = DIALOGS["goal proposal"]
    elif request.tool == NETWORK:
        _, label = DIALOGS["sandbox request"]
        label = f"{label}: {request.summary}" if request.summary else label
    if mate:
        label = f"{label} ({_short(mate)})"
    return state(_state_of(request), label, request.opened, 1.0, request.source, _about(request))


def mate_of(agent_id: str | None) -> str:
    """Return the name of the team mate with this id, "" for another agent.

    Claude Code makes the ids `NAME@session-…` for mates in panes and `aNAME-…` for those in their lead's process.
    """
    found = _MATE.fullmatch(agent_id or "")
    return (found[1] or found[2]) if found else ""


def _state_of(request: Request) -> str:
    return STATE_OF.get(request.kind, "needs_permission")


def nameless_request(reading: Reading) -> AgentState | None:
    """Return the state of a dialog that the registry alone reports.

    Auto mode's own dialog fires no PermissionRequest, a network dialog of the sandbox never does, and
    hooks can be missing.
    """
    word = reading.status.waiting_for if reading.status else None
    if word in USERS_OWN:
        if not (reading.stand.open or reading.children):
            return None  # a model picker, opened by the human who sits before it
        return state("awaiting_input", "A dialog is open", reading.waiting, 0.8, "registry")
    name, label = DIALOGS.get(
        word or "", ("awaiting_input", f"Waiting for you: {_short(word or '')}")
    )
    tools = reading.ground.tools
    if word == "permission prompt":
        label = f"{label}: {tools[-1][1].tool if tools else 'a tool'}"
    elif word == "sandbox request" and reading.status and reading.status.host:
        label = f"{label}: {reading.status.host}"
    elif word == "sandbox request" and (host := only_host(tools)):
        label = f"{label}, probably {host}"
    return state(name, label, reading.waiting, 0.8, "registry")


def only_host(tools: list[tuple[str, Tool]]) -> str | None:
    """Return the host that the open commands name, if they name exactly one."""
    hosts = {
        host
        for _, tool in tools
        if tool.role == "shell"
        for host in _HOST.findall(tool.summary or "")
    }
    return hosts.pop() if len(hosts) == 1 else None


def compacts(reading: Reading) -> AgentState | None:
    """Rule 3. Before the turn rules: a typed /compact runs in a closed turn.

    Any later tool or turn signal ends it, because PreCompact(auto) can come with no compaction
    after it, and PostCompact can be missing. So does the record of a terminal's command: Esc ends
    a typed /compact with that alone.
    """
    facts, started = reading.facts, reading.facts.compacting
    if not started or started <= facts.compacted:
        return None
    ground = reading.ground
    done = max(ground.calls.ended, ground.turns.closed)
    later = max(reading.stand.opened, done, facts.commanded)
    status, hold = reading.status, reading.limits.registry_hold
    idle = (
        status is not None
        and status.status == "idle"
        and reading.clock.passed(max(status.at, started) + hold)
    )
    if later > started or idle or reading.clock.passed(started + reading.limits.compaction):
        return None
    return state("compacting", "Compacting context", started, 0.9, "hook")


# Rules 4 and 7: the main agent's turn is over, or none is known.


def closed_turn(reading: Reading) -> AgentState | None:
    """Rule 4.

    A child that lives comes before Esc: that ends the turn and not the subagent, which goes on, and
    wakes its parent (measured: the CLI's registry calls it busy all the time). It comes before a
    failure too, if it is a subagent: that ends by itself. A shell may be a server that never does,
    and nobody would learn of the failure.
    """
    if reading.open or queued_since(reading):
        return None
    stand = reading.stand
    by_registry = stand.open
    closed = reading.idle if by_registry else stand.closed
    if not closed:
        return None
    how = "ended" if by_registry else stand.how
    working = background(reading, closed)
    agents = any(child.kind == "agent" for child in reading.children.values())
    if how == "failed" and stand.turn is not None and not (working and agents):
        return _failed(stand.turn, closed, stand.source)
    if working is not None:
        return working
    if how == "interrupted":
        return state("idle", "Interrupted", closed, 0.9, stand.source)
    source = "registry" if by_registry else stand.source
    finished = completed_task(reading.facts, stand, reading.ground.run)
    if finished is not None:
        label = f"Finished: {finished.subject or 'all tasks'}"
        return state("task_complete", label, closed, 0.8, source)
    return _awaits_prompt(reading, closed, source)


def _failed(turn: Turn, closed: int, source: str) -> AgentState:
    """The CLI's class of error; for those it has no class for, the first line of what it said."""
    said = (turn.last_message or "").strip()
    known = turn.error.replace("_", " ") if turn.error not in (None, "unknown") else None
    what = known or said.partition("\n")[0][:80] or "API error"
    context = {"error": turn.error, "message": said[:300] or None}
    return state("error", f"Failed: {what}", closed, 1.0, source, context)


def background(reading: Reading, closed: int) -> AgentState | None:
    """What works on after the turn: children, or a shell that only the registry knows of."""
    if reading.children:
        newest = max(reading.children.values(), key=lambda child: (child.started, child.last))
        what = newest.description or newest.type or newest.kind
        more = len(reading.children) - 1
        label = f"Background work: {what}" + (f" and {more} more" if more else "")
        since = max(closed, newest.started)
        return state("waiting_for_agent", label, since, 0.9, newest.source)
    status = reading.status
    if status is not None and _has_shell(reading, status, closed):
        label = "Background work: a shell"
        since = max(closed, status.at)
        return state("waiting_for_agent", label, since, 0.8, "registry")
    return None


def _has_shell(reading: Reading, status: Status, closed: int) -> bool:
    """A background shell that only the registry knows of, for instance after /clear.

    Until the registry tells of the turn's end, or somebody else of the next turn's beginning, its
    last word at rest holds.
    """
    if status.status == "shell":
        return status.at >= closed - 1_000
    if not status.shell or status.status != "busy":
        return False
    return not reading.clock.passed(max(closed, status.at) + reading.limits.registry_hold)


def completed_task(facts: Facts, stand: Standing, run: int) -> Task | None:
    """The task finished last in this turn, if none is open any more.

    (Rejected: TaskCompleted is a delivery at once, the first seed's reading. It fires in
    mid-turn for every to-do item.)
    """
    tasks = [task for task in facts.tasks.values() if max(task.created, task.completed) >= run]
    if any(not task.completed for task in tasks):
        return None
    done = [task for task in tasks if task.completed >= stand.began]
    return max(done, key=lambda task: (task.completed, task.subject or ""), default=None)


def _awaits_prompt(reading: Reading, closed: int, source: str) -> AgentState:
    turn = None if reading.stand.open else reading.stand.turn
    said = turn.last_message if turn is not None else None
    since = max(closed, reading.facts.compacted)
    if reading.facts.about("mate"):
        # Its lead prompts it, and a person answers at the lead's terminal.
        return state("waiting_for_agent", "Rests until its team lead has work", since, 0.9, source)
    if asks(said):
        # A guess, so it never pushes by itself.
        return state("awaiting_input", "Asked you a question", since, 0.6, source)
    context = {"last_message": said[:300]} if said else None
    return state("idle", YOUR_TURN, since, 0.8, source, context)


def asks(message: str | None) -> bool:
    """Whether the last line puts a question to the human."""
    if not message:
        return False
    last = message.strip().rsplit("\n", 1)[-1].rstrip(" *_`\"')")
    return last.endswith(("?", "\uff1f"))


def queued_since(reading: Reading) -> int:
    """A prompt typed in a turn, or in a compaction, that has ended, and not begun yet.

    Since when, or 0.
    """
    facts, stand = reading.facts, reading.stand
    if not facts.queued:
        return 0
    # Esc takes the next from the queue; of that turn's end the registry tells first.
    closed = reading.idle if stand.open else stand.closed
    if not closed:
        return 0
    if facts.dequeued >= facts.queued and (
        # What leaves the queue at rest begins, and its line comes a moment later.
        facts.dequeued < closed
        or reading.clock.passed(facts.dequeued + reading.limits.registry_hold)
    ):
        return 0
    begun = (turn.first for turn in facts.turns.values() if turn.prompt or turn.closed)
    if max(begun, default=0) > facts.queued or stand.opened > facts.queued:
        return 0
    if facts.queued > closed >= max(facts.compacting, facts.compacted):
        return 0  # a note for the next prompt, as that a subagent was stopped: it starts nothing
    since = max(closed, facts.queued, facts.compacted)
    status = reading.status
    if status is not None and status.status == "busy":
        return since  # the queue runs, without a prompt hook of its own
    idle = status is not None and status.status == "idle"
    if status is not None and idle:
        gone = reading.clock.passed(max(status.at, since) + reading.limits.registry_hold)
        return 0 if gone else since  # it it has gone back to the input box
    return 0 if reading.clock.passed(since + reading.limits.transient) else since


def no_turn(reading: Reading) -> AgentState | None:
    """Rule 7, and a session that has just begun."""
    facts, status = reading.facts, reading.status
    if status is not None and status.status == "shell":
        return background(reading, 0)
    if status is not None and status.status == "busy":
        return state("thinking", "Generating response…", status.at, 0.5, "registry")
    if facts.start is not None or (status is not None and status.status == "idle"):
        # Also after SessionStart(compact), which says nothing of idleness: no turn is known.
        since = facts.start[0] if facts.start is not None else facts.born
        source = "hook" if facts.start is not None else "registry"
        context = {"prompted": False}
        return state("idle", "Ready", since, 0.8, source, context)
    if facts.materialised:
        source = "process" if facts.process is not None else "none"
        return state("thinking", "Discovered…", facts.born, 0.3, source)
    return None


# Rules 5 and 6: a turn of the main agent runs; doing what, and whether it shows signs of life.


def open_turn(reading: Reading) -> AgentState | None:
    """An error is stated before silence: it waits for a human and stays until something happens."""
    since = queued_since(reading)
    if not reading.open and not since:
        return None
    still = silent(reading)
    if still is None:
        return doing(reading, since)
    found = doing(reading, since)
    return found if found.state == "error" else still


def doing(reading: Reading, since: int) -> AgentState:
    """Rule 5. since: when a prompt was queued that has not begun, or 0."""
    if since:
        busy = reading.status is not None and reading.status.status == "busy"
        if busy and reading.clock.passed(since + reading.limits.registry_hold):
            return state("thinking", "Generating response…", since, 0.5, "registry")
        return state("queued", "Prompt queued", since, 0.7, "hook")
    tools = reading.ground.tools
    return (
        delegates(reading, tools)
        or retries(reading)
        or acts(reading, tools)
        or recovers(reading)
        or thinks(reading)
    )


def delegates(reading: Reading, tools: list[tuple[str, Tool]]) -> AgentState | None:
    launchers = [tool for _, tool in tools if tool.role == "agent"] if tools else None
    if not launchers:
        return None
    agents = [child for child in reading.children.values() if child.kind == "agent"]
    if not agents and reading.clock.passed(launchers[-1].first + reading.limits.transient):
        return None
    number = max(len(agents), len(launchers))
    label = f"Running {number} subagent" + ("s" if number > 1 else "")
    first = launchers[0]
    return state("delegating", label, first.first, 0.9, first.source)


def retries(reading: Reading) -> AgentState | None:
    retry = reading.facts.retry
    if retry is None or retry.at < max(reading.ground.last_main, reading.busy):
        return None
    label = f"API retry {retry.attempt}" + (f" of {retry.max}" if retry.max else "")
    return state("retrying", label, retry.at, 0.9, retry.source)


def tool_deadline(reading: Reading, tool: Tool) -> int:
    """Until when an open call may be silent. From its start, or from the approval it waited for."""
    began, limit, timeout = tool.first, reading.limits.transient, tool.timeout_ms
    if reading.status is not None and reading.status.released > began:
        began = reading.status.released
    return began + (timeout if timeout is not None and timeout > limit else limit)


def acts(reading: Reading, tools: list[tuple[str, Tool]]) -> AgentState | None:
    for _, tool in reversed(tools):
        if not reading.clock.passed(tool_deadline(reading, tool)):
            label = (
                f"Running {tool.tool}: {tool.summary}" if tool.summary else f"Running {tool.tool}"
            )
            context = _about(tool)
            return state("acting", label, tool.first, 0.9, tool.source, context)
    return None


def _about(call: Tool | Request) -> dict[str, Any]:
    """For domains."""
    return {"tool": call.tool, "role": call.role, "summary": call.summary}


def recovers(reading: Reading) -> AgentState | None:
    """A failed call and nothing since: grace, then an error."""
    tool = failed_tool(reading.ground)
    if tool is None:
        return None
    context = _about(tool) | {"error": tool.error}
    if not reading.clock.passed(tool.finished + reading.limits.error_grace):
        label = f"{tool.tool} failed, recovering"
        return state("retrying", label, tool.finished, 0.7, "hook", context)
    if reading.status is not None and reading.status.status == "busy":
        return None  # the CLI itself says that it works on; no reason to call a human
    label = f"Failed: {tool.tool}" + (f": {tool.error}" if tool.error else "")
    since = tool.finished + reading.limits.error_grace
    return state("error", label, since, 0.7, "hook", context)


def thinks(reading: Reading) -> AgentState:
    label = "Generating response…"
    if reading.stopping:
        closed, hold = reading.stand.closed, reading.limits.registry_hold
        label = "Running Stop hooks…" if reading.clock.passed(closed + hold) else label
        return state("thinking", label, closed, 0.7, reading.stand.source)
    if reading.busy:
        return state("thinking", label, reading.busy, 0.5, "registry")
    facts, ground = reading.facts, reading.ground
    since = max(ground.stand.opened, ground.calls.ended)
    if not reading.clock.passed(ground.heard + reading.limits.transient):
        source = opener_source(ground)
        return state("thinking", label, since, 0.9, source)
    # The hook's word is a minute old: what is left is what the transcript says (seed rule).
    source = "transcript" if facts.transcript_at >= facts.hook_at else "none"
    return state("thinking", label, since, 0.4, source)


def stuck_from(reading: Reading, silence: int) -> int:
    """When silence becomes suspicious: no witness, and no open call inside its own time-out."""
    since = reading.ground.heard + silence
    for tool in reading.ground.calls.timed:
        if tool.first >= reading.ground.run:
            since = max(since, tool_deadline(reading, tool))
    retry = reading.facts.retry
    if retry is not None and retry.in_ms and retry.at >= reading.ground.last_main:
        since = max(since, retry.at + retry.in_ms)  # it has said for how long it waits
    return since


def silent(reading: Reading) -> AgentState | None:
    """Rule 6. Any sign of life ends it; a process that computes or receives gives one (`alive`).

    That nothing was heard is no proof: hooks and transcript tell nothing while a model thinks.
    Found still, the process is stuck; as long as nobody has looked, it is given more time. A look
    that is older than the silence is long proves nothing of it. Where the system tells only what it
    computes, a spinner that is drawn hides a hang, and a look that finds not even that is believed.
    """
    since = stuck_from(reading, reading.limits.stuck_after)
    if not reading.clock.passed(since):
        return None
    looked, connected = reading.facts.still
    if looked < since:
        since = stuck_from(reading, reading.limits.model_silence)
        if not reading.clock.passed(since):
            return None
    heard, age = reading.ground.heard, AGES[0]
    for each in AGES:
        if not reading.clock.passed(heard + each * 60_000):
            break
        age = each
    label = f"No sign of life for {_age(age)}"
    if looked >= since and connected is not None and not reading.ground.tools:
        connection = "connection open" if connected else "no connection"
        label = f"Nothing from the model for {_age(age)}, {connection}"
    return state("stuck", label, since, 0.6, "none")


def _age(minutes: int) -> str:
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2_880 else f"{minutes // 1_440} days"
