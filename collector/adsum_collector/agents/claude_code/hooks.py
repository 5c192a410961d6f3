"""Translates one hook into signals. Pure and total over events and fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict

import msgspec

from adsum_collector.agents.claude_code import tools
from adsum_collector.agents.claude_code.bodies import (
    ANSWER_FIELDS,
    HookBody,
    decode_hook,
    lenient_part,
    value_in,
)
from adsum_collector.agents.claude_code.tools import project_of
from adsum_collector.agents.records import (
    NAME_MAX,
    NUMBER_MAX,
    bounded,
    deliveries,
    delivers,
    one_line,
    payload,
    shorten,
)
from adsum_shared import signals as s
from adsum_shared.signals import ChildKind, KnownSignal

TITLE_MAX: Final = 120
PROMPT_MAX: Final = 2_000
MESSAGE_MAX: Final = 1_200
ERROR_MAX: Final = 300
#: Of what one list names, of calls in one batch too; more was never seen.
LIST_MAX: Final = 256

#: Events whose body also tells about the session itself. Every body has a directory and most a
#: mode, but a second signal for every tool call would double what is spooled and sent.
TELLING = frozenset({"SessionStart", "UserPromptSubmit", "PermissionRequest", "Stop"})

#: Prompts that no human wrote: reports of background work, of other agents, of the CLI itself.
SYSTEM_PROMPTS = (
    "<task-notification>",
    "<teammate-message",
    "<agent-message",
    "<cross-session-message",
    "Another Claude session sent a message:",
    "<system-reminder>",
    "Stop hook feedback:",
)
#: Traces of what was done in the terminal, which start no turn. A skill or custom command that
#: does start one comes as `<command-message>`.
NO_PROMPTS = ("<local-command-", "<bash-", "<command-name>", "<command-args>")

CHILD_KINDS: dict[str, ChildKind] = {
    "subagent": "agent",
    "teammate": "agent",
    "shell": "shell",
    "monitor": "monitor",
    "cron": "cron",
}
#: What a call launches that works on in the background, where its result gives no better word.
LAUNCHED: Final[dict[str, ChildKind]] = {"Monitor": "monitor", "Workflow": "workflow"}
#: Tools whose result names the subagent they ran, by whatever name `agentId` has elsewhere. A skill may
#: run in one of its own. `UNSEEN` stands for a call from before we read: it may have been one of these.
UNSEEN: Final = "tool"
STARTERS: Final = frozenset({"Agent", "Task", "Skill", UNSEEN})
#: The agent of the process that the agents' list keeps in reserve.
RESERVED: Final = "claude"
#: The status of an Agent call's result while the subagent, or the team mate, works on.
WORKS_ON: Final = frozenset({"async_launched", "teammate_spawned"})
#: Of team mates the list of background tasks says `running` until the session ends, also at rest, under
#: ids that no other event uses. So it counts only for mates that other events report to be at work.
MATE: Final = "teammate"
#: The call that has the agent woken later, and the id of that. It stops all that are due at once.
WAKER: Final = "ScheduleWakeup"
WAKE_UP: Final = "wake-up"
STOPPERS: Final = frozenset({"TaskStop", "KillShell", "KillBash"})


class Common(TypedDict):
    """What every signal of one hook, line or tick carries."""

    session_id: str
    at: int
    seen: int
    source: s.Source
    agent_id: str | None
    prompt_id: str | None


class Call(msgspec.Struct, omit_defaults=True):
    """A tool call. digest: joins it to a request; only hooks know it.

    The rest is what its result will not repeat: summary and type of the child that it may launch,
    the id of the one that it stops, and whether it may deliver something.
    """

    tool: str
    summary: str | None = None
    type: str | None = None
    target: str | None = None
    digest: str | None = None
    delivers: bool = False

    @classmethod
    def of(cls, tool: str, value: tools.Input, digest: str | None = None) -> Call:
        target = value.get("task_id") or value.get("shell_id") if tool in STOPPERS else None
        return cls(
            tool,
            summary=one_line(value.get("description")) or tools.summary(tool, value),
            type=name_of(value.get("subagent_type")),
            target=name_of(target),
            digest=digest,
            delivers=tools.role_of(tool) == "shell" and delivers(value.get("command")),
        )


def name_of(value: object) -> str | None:
    return value[:NAME_MAX] if isinstance(value, str) and value else None


def id_of(value: object) -> str | None:
    return str(value)[:NAME_MAX] if isinstance(value, str | int) and value != "" else None


def about_child(common: Common) -> Common:
    """A child's signal is about the main agent's child; it did not happen *inside* the child."""
    return Common(**{**common, "agent_id": None})


def signals_from_hook(body: HookBody | bytes, seen: int) -> list[KnownSignal]:
    """Everything the hook says. seen: when it was received, ms of the host's wall clock.

    Raises HookError for bytes that are no hook's body. An event nobody has heard of is `Alive`
    with its name: the session lives, whatever it did.
    """
    if isinstance(body, bytes):
        body = decode_hook(body)
    common = Common(
        session_id=body.session_id,
        at=seen,
        seen=seen,
        source="hook",
        agent_id=body.name("agent_id"),
        prompt_id=body.name("prompt_id"),
    )
    found = EVENTS.get(body.event, _none)(body, common) or [s.Alive(**common, event=body.event)]
    if body.event in TELLING and common["agent_id"] is None:
        found = [*found, *_meta(body, common)]
    return found


def _none(_body: HookBody, _common: Common) -> list[KnownSignal]:
    return []


def _meta(body: HookBody, common: Common) -> list[KnownSignal]:
    cwd = body.text("cwd")
    found = s.MetaChanged(
        **common,
        title=one_line(body.text("session_title"), TITLE_MAX),
        cwd=cwd,
        project=project_of(cwd),
        model=body.name("model") if body.event == "SessionStart" else None,
        mode=body.name("permission_mode"),
        transcript=body.text("transcript_path"),
    )
    return [found] if found != s.MetaChanged(**common) else []


def _session_start(body: HookBody, common: Common) -> list[KnownSignal]:
    """A process in reserve of the agents' list starts like a session, 0.02 to 0.06 s before its registry file.

    So of the list's own agent it is no start yet: the registry or the first prompt tells of a session.
    """
    reason = body.name("source") or "startup"
    if reason == "startup" and body.name("agent_type") == RESERVED:
        return []
    return [s.SessionStarted(**common, reason=reason)]


def _user_prompt_submit(body: HookBody, common: Common) -> list[KnownSignal]:
    prompt = body.whole("prompt") or ""
    start = prompt.lstrip()
    if start.startswith(NO_PROMPTS):
        return []
    if start.startswith(SYSTEM_PROMPTS):
        opened = s.PromptSubmitted(**common, origin="system")
        return [*notified_children(start, common), opened]
    return [s.PromptSubmitted(**common, text=shorten(prompt, PROMPT_MAX) or None)]


def notified_children(prompt: str, common: Common) -> list[KnownSignal]:
    """The children of which a `<task-notification>` reports to their parent.

    Without a status it reports something else than an end: an event that a monitor saw.
    """
    if not prompt.startswith("<task-notification>"):
        return []
    found: list[KnownSignal] = []
    for block in prompt.split("<task-notification>", LIST_MAX + 1)[1 : LIST_MAX + 1]:
        child_id, status = _tag(block, "task-id"), _tag(block, "status")
        if child_id is None:
            continue
        if status is None:
            found.append(s.ChildChanged(**common, child_id=child_id, child_kind="monitor"))
        else:
            found.append(s.ChildFinished(**common, child_id=child_id, status=status, notified=True))
    return found


def _tag(text: str, name: str) -> str | None:
    found = re.search(rf"<{name}>([^<]{{1,200}})</{name}>", text)
    return found.group(1).strip() if found else None


def ends_of(text: str | None) -> str | None:
    """Head and tail of a long message: what it is about, and whether it closes with a question."""
    if text is None or len(text) <= MESSAGE_MAX:
        return text
    half = MESSAGE_MAX // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _stop(body: HookBody, common: Common) -> list[KnownSignal]:
    said = ends_of(body.whole("last_assistant_message"))
    return [s.TurnEnded(**common, last_message=said, background=_background(body))]


def _background(body: HookBody) -> list[s.BackgroundTask] | None:
    """What still runs or will run again; None if this CLI does not say (2.1.112)."""
    lists: dict[str, ChildKind | None] = {"background_tasks": None, "session_crons": "cron"}
    if lists.keys().isdisjoint(body.fields):
        return None
    found = []
    for field, kind in lists.items():
        for raw in (body.get(field, list[msgspec.Raw]) or [])[:LIST_MAX]:
            task = lenient_part(raw, dict[str, Any]) or {}
            child_id = task.get("id")
            if not isinstance(child_id, str | int):
                continue
            words = map(task.get, ("description", "name", "command", "schedule", "prompt"))
            found.append(
                s.BackgroundTask(
                    id=str(child_id)[:NAME_MAX],
                    kind=kind or CHILD_KINDS.get(str(task.get("type")), "workflow"),
                    status=_status_of(task, kind),
                    description=next((line for word in words if (line := one_line(word))), None),
                )
            )
    return found


def _status_of(task: Mapping[str, Any], kind: ChildKind | None) -> str:
    """A scheduled prompt is not at work: between two of them the session waits for its user."""
    if kind == "cron":
        return s.SCHEDULED
    if task.get("type") == MATE:
        return s.MATE_LISTED
    status = task.get("status")
    return status[:NAME_MAX] if isinstance(status, str) else "running"


def _stop_failure(body: HookBody, common: Common) -> list[KnownSignal]:
    message = body.whole("last_assistant_message") or body.whole("error_details")
    error = body.name("error") or "unknown"
    return [s.TurnFailed(**common, error=error, message=ends_of(message))]


def _subagent_start(body: HookBody, common: Common) -> list[KnownSignal]:
    child_id, kind = common["agent_id"], body.name("agent_type")
    return [s.ChildStarted(**about_child(common), child_id=child_id, type=kind)] if child_id else []


def _subagent_stop(body: HookBody, common: Common) -> list[KnownSignal]:
    """With an empty type and no SubagentStart it is the summariser of a compaction: no child.

    Its list of background tasks still names itself as running, so it is not read.
    """
    child_id = common["agent_id"]
    if child_id is None or not body.name("agent_type"):
        return [s.Alive(**about_child(common), event=body.event)]
    return [s.ChildFinished(**about_child(common), child_id=child_id)]


def _task(body: HookBody, common: Common) -> list[KnownSignal]:
    kind = s.TaskCreated if body.event == "TaskCreated" else s.TaskCompleted
    task_id = id_of(body.get("task_id", str | int))  # type: ignore[arg-type] # a union is no type[T] to mypy
    subject = one_line(body.text("task_subject"))
    return [kind(**common, task_id=task_id, subject=subject)] if task_id else []


def _elicitation(body: HookBody, common: Common) -> list[KnownSignal]:
    """An MCP server asks. Not every answer repeats the elicitation's id, the server's name does."""
    server = body.name("mcp_server_name") or "mcp"
    request_id = f"elicitation:{server}"
    if body.event == "ElicitationResult":
        return [s.RequestClosed(**common, request_id=request_id, outcome=body.name("action"))]
    message = body.text("message")
    return [
        s.RequestOpened(
            **common,
            request_kind="dialog",
            tool=server,
            server=tools.server_named(server),
            request_id=request_id,
            summary=one_line(message),
            payload={"message": shorten(message, PROMPT_MAX)} if message else None,
        )
    ]


def _cwd_changed(body: HookBody, common: Common) -> list[KnownSignal]:
    cwd = body.text("new_cwd")
    if cwd is None or common["agent_id"] is not None:
        return []
    return [s.MetaChanged(**common, cwd=cwd, project=project_of(cwd))]


def _post_model_switch(body: HookBody, common: Common) -> list[KnownSignal]:
    model = body.name("to_model")
    return [s.MetaChanged(**common, model=model)] if model else []


def _call_in(body: HookBody) -> tuple[Call, str, dict[str, Any]]:
    """(a tool call, its id, its input)."""
    tool, raw = body.name("tool_name") or "tool", body.raw("tool_input")
    parsed = lenient_part(raw, dict[str, Any]) if raw else None
    digest, value = tools.digest(tool, raw, parsed), parsed or {}
    # Without an id of its own (no such CLI is known) the call's input has to do.
    return Call.of(tool, value, digest), body.name("tool_use_id") or f"call-{digest}", value


def call_started(common: Common, call: Call, tool_use_id: str, value: tools.Input) -> s.ToolStarted:
    return s.ToolStarted(
        **common,
        **tools.about(call.tool),
        tool_use_id=tool_use_id,
        summary=tools.summary(call.tool, value),
        digest=call.digest,
        timeout_ms=tools.timeout_ms(call.tool, value),
    )


def request_opened(
    common: Common,
    call: Call,
    tool_use_id: str | None,
    value: tools.Input,
    suggestions: list[Any] | None = None,
) -> s.RequestOpened:
    kind = tools.REQUEST_KINDS.get(tools.role_of(call.tool), "permission")
    return s.RequestOpened(
        **common,
        **tools.about(call.tool),
        request_kind=kind,
        tool_use_id=tool_use_id,
        digest=call.digest,
        summary=tools.summary(call.tool, value),
        payload=payload(value) or None,
        suggestions=bounded(suggestions) or None,
    )


def call_finished(common: Common, call: Call, tool_use_id: str, **outcome: Any) -> s.ToolFinished:
    return s.ToolFinished(
        **common, **tools.about(call.tool), tool_use_id=tool_use_id, digest=call.digest, **outcome
    )


def child_in(tool: str, outcome: Mapping[str, Any]) -> tuple[str | None, ChildKind | None]:
    """(the child's id, its kind if it works on in the background)."""
    agent_id = name_of(outcome.get("agentId"))
    if agent_id is not None and tool in STARTERS:
        return agent_id, "agent" if outcome.get("status") in WORKS_ON else None
    shell = name_of(outcome.get("backgroundTaskId"))
    if shell is not None:
        return shell, LAUNCHED.get(tool, "shell")
    if tool in LAUNCHED:
        task = name_of(outcome.get("taskId")) or name_of(outcome.get("task_id"))
        return task, LAUNCHED[tool] if task else None
    return None, None


def children_of(
    common: Common, call: Call, child_id: str | None, kind: ChildKind | None
) -> list[KnownSignal]:
    """What a call's result says of the child that it launched, ran or stopped."""
    about = about_child(common)
    if child_id is not None and kind is not None:
        launched = s.ChildStarted(**about, child_id=child_id, child_kind=kind)
        return [msgspec.structs.replace(launched, type=call.type, description=call.summary)]
    if child_id is not None:
        # It ran in the foreground: its parent has the report in hand.
        return [s.ChildFinished(**about, child_id=child_id, notified=True)]
    if call.target is not None:
        return [s.ChildFinished(**about, child_id=call.target, status="killed", notified=True)]
    return []


def wake_up(common: Common, call: Call, outcome: Mapping[str, Any]) -> list[KnownSignal]:
    """When the agent comes back by itself; nothing else tells, the screen shows an input box."""
    if call.tool != WAKER:
        return []
    about, due = about_child(common), outcome.get("scheduledFor")
    if outcome.get("stopped") is True:
        return [s.ChildFinished(**about, child_id=WAKE_UP, child_kind="cron", status="stopped")]
    if not isinstance(due, int) or not 0 < due <= NUMBER_MAX:
        return []
    begun = s.ChildStarted(**about, child_id=WAKE_UP, child_kind="cron", type=WAKE_UP, until=due)
    return [msgspec.structs.replace(begun, description=call.summary)]


def task_created(common: Common, task: object) -> list[KnownSignal]:
    """A second witness of TaskCreated, and of TaskCompleted below: one lost would make a false end."""
    if not isinstance(task, dict) or (task_id := id_of(task.get("id"))) is None:
        return []
    return [s.TaskCreated(**common, task_id=task_id, subject=one_line(task.get("subject")))]


def task_completed(common: Common, task_id: object) -> list[KnownSignal]:
    found = id_of(task_id)
    return [s.TaskCompleted(**common, task_id=found)] if found else []


def _notification(body: HookBody, common: Common) -> list[KnownSignal]:
    """A sign of life, and a request only where no other hook reports that dialog.

    `permission_prompt` comes six seconds late and `idle_prompt` sixty, so neither decides a state. But a
    network dialog of the sandbox has no other hook, nor has what a team mate in a pane of its own asks.
    """
    kind, message = body.name("notification_type"), body.text("message") or ""
    found: list[KnownSignal] = [s.Alive(**common, event=body.event, note=kind)]
    if kind == "permission_prompt" and message == NETWORK_NEEDED:
        found.append(
            s.RequestOpened(
                **common, request_kind="permission", tool=s.NETWORK, request_id=s.NETWORK
            )
        )
    asked = ASKED_BY_MATE.fullmatch(message) if kind == "worker_permission_prompt" else None
    if asked is None:
        return found
    mate, tool, host = asked.groups()
    about = Common(**{**common, "agent_id": mate_id(mate, common["session_id"])})
    request_id = f"mate:{mate}"[:NAME_MAX]
    # A mate asks one thing at a time, so what it asked before is answered.
    closed = s.RequestClosed(**about, request_id=request_id)
    before = msgspec.structs.replace(closed, at=closed.at - 1)
    opened = s.RequestOpened(
        **about,
        **tools.about(name_of(tool) or s.NETWORK),
        request_kind="permission",
        request_id=request_id,
        summary=one_line(host),
    )
    return [*found, before, opened]


def mate_id(name: str, lead: str) -> str:
    """Return the id of a team mate in a pane of its own, as the result of the Agent call gives it."""
    return f"{name}@session-{lead[:8]}"[:NAME_MAX]


def _teammate_idle(body: HookBody, common: Common) -> list[KnownSignal]:
    """A mate rests: one in its lead's process as a child, one in a pane as a session of its own."""
    child_id = common["agent_id"]
    if child_id is None:
        name, team = body.name("teammate_name"), body.name("team_name")
        mate = f"{name}@{team}"[:NAME_MAX] if name and team else None
        return [s.MetaChanged(**common, mate=mate)] if mate else []
    return [s.ChildFinished(**about_child(common), child_id=child_id, notified=True)]


def _pre_tool_use(body: HookBody, common: Common) -> list[KnownSignal]:
    call, tool_use_id, value = _call_in(body)
    started = call_started(common, call, tool_use_id, value)
    if tools.role_of(call.tool) != "question":
        return [started]
    # A question asks from its first witness on. (Rejected: to read it from PostToolUse, as the
    # first seed did; that fires after the human has answered.)
    return [started, request_opened(common, call, tool_use_id, value)]


def _permission_request(body: HookBody, common: Common) -> list[KnownSignal]:
    """It names no tool call: `digest` is what it has in common with its PreToolUse."""
    call, _, value = _call_in(body)
    suggestions = body.get("permission_suggestions", list[Any])
    return [request_opened(common, call, body.name("tool_use_id"), value, suggestions)]


def _post_tool_use(body: HookBody, common: Common) -> list[KnownSignal]:
    call, tool_use_id, value = _call_in(body)
    response = body.get("tool_response", dict[str, msgspec.Raw]) or {}
    outcome = {name: value_in(response[name]) for name in ANSWER_FIELDS if name in response}
    made = value_in(response["stdout"]) if call.delivers and "stdout" in response else None
    child_id, kind = child_in(call.tool, outcome)
    is_question = tools.role_of(call.tool) == "question"
    finished = call_finished(
        common,
        call,
        tool_use_id,
        answered=is_question and bool(value.get("answers") or outcome.get("answers")),
        child_id=child_id,
        background=kind is not None,
        delivered=deliveries(made),
    )
    found = [finished, *children_of(common, call, child_id, kind), *wake_up(common, call, outcome)]
    if call.tool == "SetGoal" and outcome.get("askUser") is True:
        asked = s.RequestOpened(
            **common,
            **tools.about(call.tool),
            request_kind="plan",
            request_id=s.GOAL,
            summary=one_line(value.get("condition")),
        )
        found.append(asked)
    if call.tool == "TaskCreate":
        found += task_created(common, outcome.get("task"))
    if call.tool == "TaskUpdate" and value.get("status") == "completed":
        found += task_completed(common, value.get("taskId"))
    return found


def _post_tool_use_failure(body: HookBody, common: Common) -> list[KnownSignal]:
    call, tool_use_id, _ = _call_in(body)
    error = shorten(body.text("error") or "", ERROR_MAX) or None
    stopped = body.get("is_interrupt", bool) or False
    return [call_finished(common, call, tool_use_id, ok=False, error=error, is_interrupt=stopped)]


def _permission_denied(body: HookBody, common: Common) -> list[KnownSignal]:
    call, tool_use_id, _ = _call_in(body)
    reason = one_line(body.text("reason"), ERROR_MAX)
    return [call_finished(common, call, tool_use_id, ok=False, denied=True, error=reason)]


def _post_tool_batch(body: HookBody, common: Common) -> list[KnownSignal]:
    """Every call of the batch is over, also those refused before they ran, which only this shows.

    It says nothing of how they ended; `answered` because nothing is left to answer.
    """
    found: list[KnownSignal] = []
    for raw in (body.get("tool_calls", list[msgspec.Raw]) or [])[:LIST_MAX]:
        fields = lenient_part(raw, dict[str, msgspec.Raw]) or {}
        tool_use_id, tool = (
            name_of(lenient_part(fields.get(field, msgspec.Raw(b"null")), str))
            for field in ("tool_use_id", "tool_name")
        )
        if tool_use_id:
            found.append(call_finished(common, Call(tool or "tool"), tool_use_id, answered=True))
    return found


#: The message of the Notification of a sandbox's network dialog, which names no host.
NETWORK_NEEDED: Final = "A sandboxed command needs network access"
ASKED_BY_MATE: Final = re.compile(
    r"(\S{1,64}) needs (?:permission for (\S+)|network access to (\S+))"
)

#: Every event that means more than "alive"; one of these that says nothing is "alive" too. Of the 33
#: of 2.1.330 the others are Setup, InstructionsLoaded, UserPromptExpansion, MessageDisplay,
#: PreModelSwitch, ConfigChange, DirectoryAdded, FileChanged, WorktreeCreate,
#: WorktreeRemove.
EVENTS: dict[str, Callable[[HookBody, Common], list[KnownSignal]]] = {
    "SessionStart": _session_start,
    "SessionEnd": lambda body, common: [
        s.SessionEnded(**common, reason=body.name("reason") or "other")
    ],
    "UserPromptSubmit": _user_prompt_submit,
    "Stop": _stop,
    "StopFailure": _stop_failure,
    "SubagentStart": _subagent_start,
    "SubagentStop": _subagent_stop,
    "TaskCreated": _task,
    "TaskCompleted": _task,
    "PreCompact": lambda body, common: [
        s.CompactionStarted(**common, trigger=body.name("trigger"))
    ],
    "PostCompact": lambda body, common: [
        s.CompactionFinished(**common, trigger=body.name("trigger"))
    ],
    "Elicitation": _elicitation,
    "ElicitationResult": _elicitation,
    "CwdChanged": _cwd_changed,
    "PostModelSwitch": _post_model_switch,
    "Notification": _notification,
    "TeammateIdle": _teammate_idle,
    "PreToolUse": _pre_tool_use,
    "PostToolUse": _post_tool_use,
    "PostToolUseFailure": _post_tool_use_failure,
    "PostToolBatch": _post_tool_batch,
    "PermissionRequest": _permission_request,
    "PermissionDenied": _permission_denied,
}
