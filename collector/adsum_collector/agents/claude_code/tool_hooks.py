"""Translates the hooks around a tool call: before, after, failed, denied, asked for."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from adsum_collector.agents.claude_code import tools
from adsum_collector.agents.claude_code.bodies import NAME_MAX, HookBody, lenient_part
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

ERROR_MAX = 300
#: Of calls in one batch.
BATCH_MAX = 256


class Common(TypedDict):
    """What every signal of one hook carries."""

    session_id: str
    at: int
    seen: int
    source: s.Source
    agent_id: str | None
    prompt_id: str | None


class Call(msgspec.Struct, frozen=True):
    """A tool call as the hook names it; `value` is its input, `digest` joins it to a request."""

    tool: str
    tool_use_id: str
    value: dict[str, Any]
    digest: str


def call_of(body: HookBody) -> Call:
    tool = body.name("tool_name") or "tool"
    raw = body.raw("tool_input")
    parsed = lenient_part(raw, dict[str, Any]) if raw else None
    digest = tools.digest(tool, raw, parsed)
    # Without an id of its own (no such CLI is known) the call's input has to do.
    return Call(tool, body.name("tool_use_id") or f"call-{digest}", parsed or {}, digest)


def identifier(body: HookBody, name: str) -> str | None:
    value = body.get(name, str | int)  # type: ignore[arg-type]  # a union is no type[T] to mypy
    return str(value)[:NAME_MAX] if value not in (None, "") else None


def pre_tool_use(body: HookBody, common: Common) -> list[KnownSignal]:
    call = call_of(body)
    started = s.ToolStarted(
        **common,
        tool=call.tool,
        role=tools.role_of(call.tool),
        tool_use_id=call.tool_use_id,
        summary=tools.summary(call.tool, call.value),
        digest=call.digest,
        timeout_ms=tools.timeout_ms(call.tool, call.value),
    )
    if tools.role_of(call.tool) != "question":
        return [started]
    # A question asks from its first witness on. (Rejected: to read it from PostToolUse, as the
    # first seed did; that fires after the human has answered.)
    return [started, opened(common, call, "question", call.tool_use_id)]


def permission_request(body: HookBody, common: Common) -> list[KnownSignal]:
    """It names no tool call: `digest` is what it has in common with its PreToolUse."""
    call = call_of(body)
    kind = tools.REQUEST_KINDS.get(tools.role_of(call.tool), "permission")
    suggestions = body.get("permission_suggestions", list[Any])
    return [opened(common, call, kind, body.name("tool_use_id"), suggestions)]


def opened(
    common: Common,
    call: Call,
    kind: s.RequestKind,
    tool_use_id: str | None,
    suggestions: list[Any] | None = None,
) -> s.RequestOpened:
    return s.RequestOpened(
        **common,
        request_kind=kind,
        tool=call.tool,
        role=tools.role_of(call.tool),
        tool_use_id=tool_use_id,
        digest=call.digest,
        summary=tools.summary(call.tool, call.value),
        payload=tools.payload(call.value) or None,
        suggestions=tools.bounded(suggestions) or None,
    )


def post_tool_use(body: HookBody, common: Common) -> list[KnownSignal]:
    call = call_of(body)
    response = body.get("tool_response", dict[str, msgspec.Raw]) or {}
    child_id, launched = child_of(call, response)
    finished = s.ToolFinished(
        **common,
        tool=call.tool,
        role=tools.role_of(call.tool),
        tool_use_id=call.tool_use_id,
        answered=answered(call, response),
        digest=call.digest,
        child_id=child_id,
        background=launched is not None,
    )
    found: list[KnownSignal] = [finished]
    if launched is not None and child_id is not None:
        found.append(launched_child(common, call, child_id, launched))
    elif child_id is not None:
        # It ran in the foreground: its parent has the report in hand.
        found.append(ended_child(common, child_id, "completed", notified=True))
    if call.tool in ("TaskStop", "KillShell", "KillBash"):
        stopped = call.value.get("task_id") or call.value.get("shell_id")
        if isinstance(stopped, str):
            stopped = stopped[:NAME_MAX]
            found.append(ended_child(common, stopped, "killed", notified=True))
    return found + tasks_of(common, call, response)


def child_of(call: Call, response: dict[str, msgspec.Raw]) -> tuple[str | None, s.ChildKind | None]:
    """(the child's id, its kind if it works on in the background)."""
    if tools.role_of(call.tool) == "agent" and "agentId" in response:
        agent_id = (lenient_part(response["agentId"], str) or "")[:NAME_MAX] or None
        status = lenient_part(response.get("status", msgspec.Raw(b"null")), str)
        return agent_id, "agent" if agent_id and status == "async_launched" else None
    if "backgroundTaskId" in response:
        task_id = (lenient_part(response["backgroundTaskId"], str) or "")[:NAME_MAX] or None
        return task_id, "shell" if task_id else None
    return None, None


def launched_child(common: Common, call: Call, child_id: str, kind: s.ChildKind) -> KnownSignal:
    agent_type = call.value.get("subagent_type")
    return s.ChildStarted(
        session_id=common["session_id"],
        at=common["at"],
        seen=common["seen"],
        prompt_id=common["prompt_id"],
        child_id=child_id,
        child_kind=kind,
        type=agent_type[:NAME_MAX] if isinstance(agent_type, str) else None,
        description=tools.one_line(call.value.get("description"))
        or tools.summary(call.tool, call.value),
    )


def ended_child(common: Common, child_id: str, status: str, *, notified: bool) -> KnownSignal:
    return s.ChildFinished(
        session_id=common["session_id"],
        at=common["at"],
        seen=common["seen"],
        prompt_id=common["prompt_id"],
        child_id=child_id,
        status=status,
        notified=notified,
    )


def answered(call: Call, response: dict[str, msgspec.Raw]) -> bool:
    if tools.role_of(call.tool) != "question":
        return False
    answers = response.get("answers")
    return bool(call.value.get("answers")) or (
        answers is not None and bool(lenient_part(answers, dict[str, Any]))
    )


def tasks_of(common: Common, call: Call, response: dict[str, msgspec.Raw]) -> list[KnownSignal]:
    """A second witness of TaskCreated and TaskCompleted: one lost would make a false end."""
    if call.tool == "TaskCreate" and "task" in response:
        task = lenient_part(response["task"], dict[str, Any]) or {}
        task_id, subject = task.get("id"), tools.one_line(task.get("subject"))
        if isinstance(task_id, str | int):
            return [s.TaskCreated(**common, task_id=str(task_id)[:NAME_MAX], subject=subject)]
    if call.tool == "TaskUpdate" and call.value.get("status") == "completed":
        task_id = call.value.get("taskId")
        if isinstance(task_id, str | int):
            return [s.TaskCompleted(**common, task_id=str(task_id)[:NAME_MAX])]
    return []


def post_tool_use_failure(body: HookBody, common: Common) -> list[KnownSignal]:
    call = call_of(body)
    return [
        s.ToolFinished(
            **common,
            tool=call.tool,
            role=tools.role_of(call.tool),
            tool_use_id=call.tool_use_id,
            ok=False,
            error=tools.shorten(body.text("error") or "", ERROR_MAX) or None,
            is_interrupt=body.get("is_interrupt", bool) or False,
            digest=call.digest,
        )
    ]


def permission_denied(body: HookBody, common: Common) -> list[KnownSignal]:
    call = call_of(body)
    return [
        s.ToolFinished(
            **common,
            tool=call.tool,
            role=tools.role_of(call.tool),
            tool_use_id=call.tool_use_id,
            ok=False,
            denied=True,
            error=tools.one_line(body.text("reason"), ERROR_MAX),
            digest=call.digest,
        )
    ]


def post_tool_batch(body: HookBody, common: Common) -> list[KnownSignal]:
    """Every call of the batch is over, also those refused before they ran, which only this shows.

    It says nothing of how they ended; `answered` because nothing is left to answer.
    """
    found: list[KnownSignal] = []
    for raw in (body.get("tool_calls", list[msgspec.Raw]) or [])[:BATCH_MAX]:
        call = lenient_part(raw, dict[str, msgspec.Raw]) or {}
        tool_use_id = lenient_part(call.get("tool_use_id", msgspec.Raw(b"null")), str)
        tool = lenient_part(call.get("tool_name", msgspec.Raw(b"null")), str)
        if tool_use_id:
            found.append(
                s.ToolFinished(
                    **common,
                    tool=(tool or "tool")[:NAME_MAX],
                    role=tools.role_of(tool or ""),
                    tool_use_id=tool_use_id[:NAME_MAX],
                    answered=True,
                )
            )
    return found or [s.Alive(**common, event=body.event)]
