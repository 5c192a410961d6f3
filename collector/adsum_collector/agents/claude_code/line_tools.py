"""Tool calls and their results as a transcript has them: a call, and in a later line what came of it."""

from __future__ import annotations

from typing import Any, cast

from adsum_collector.agents.claude_code import tools
from adsum_collector.agents.claude_code.bodies import NAME_MAX
from adsum_collector.agents.claude_code.hooks import about_child
from adsum_collector.agents.claude_code.line import Call, Context, Line
from adsum_collector.agents.claude_code.tool_hooks import ERROR_MAX, Common
from adsum_shared import signals as s
from adsum_shared.signals import ChildKind, KnownSignal

INTERRUPTED = "[Request interrupted by user"
#: What a call launches that works on in the background, where its result gives no better word.
LAUNCHED: dict[str, ChildKind] = {"Monitor": "monitor", "Workflow": "workflow"}
STOPPERS = frozenset({"TaskStop", "KillShell", "KillBash"})


def call(block: dict[str, Any], known: Context, common: Common) -> list[KnownSignal]:
    tool_use_id, tool = _name(block.get("id")), _name(block.get("name"))
    if tool_use_id is None or tool is None:
        return []
    given = block.get("input")
    value = given if isinstance(given, dict) else {}
    summary = tools.summary(tool, value)
    target = value.get("task_id") or value.get("shell_id") if tool in STOPPERS else None
    known.remember(
        tool_use_id,
        Call(
            tool,
            summary=tools.one_line(value.get("description")) or summary,
            type=_name(value.get("subagent_type")),
            target=_name(target),
        ),
    )
    started = s.ToolStarted(
        **common,
        tool=tool,
        tool_use_id=tool_use_id,
        summary=summary,
        timeout_ms=tools.timeout_ms(tool, value),
    )
    kind = tools.REQUEST_KINDS.get(tool)
    if kind is None:
        return [started]
    return [
        started,
        s.RequestOpened(
            **common,
            request_kind=cast("s.RequestKind", kind),
            tool=tool,
            tool_use_id=tool_use_id,
            summary=summary,
            payload=tools.payload(value) or None,
        ),
    ]


def result(block: dict[str, Any], line: Line, known: Context, common: Common) -> list[KnownSignal]:
    tool_use_id = _name(block.get("tool_use_id"))
    if tool_use_id is None:
        return []
    made = known.calls.pop(tool_use_id, None) or Call("tool")
    told = line.get("toolUseResult", dict[str, Any]) or {}
    ok = block.get("is_error") is not True
    said = None if ok else _words(block.get("content"))
    child_id, kind = _child(made, told)
    finished = s.ToolFinished(
        **common,
        tool=made.tool,
        tool_use_id=tool_use_id,
        ok=ok,
        error=tools.shorten(said, ERROR_MAX) if said else None,
        is_interrupt=told.get("interrupted") is True or INTERRUPTED in (said or ""),
        denied=line.text("toolDenialKind") is not None,
        answered=bool(told.get("answers")),
        child_id=child_id,
        background=kind is not None,
    )
    return [
        finished,
        *_children(made, child_id, kind, common),
        *_tasks(told, common),
    ]


def _child(made: Call, told: dict[str, Any]) -> tuple[str | None, ChildKind | None]:
    """(the child's id, its kind if it works on in the background)."""
    agent_id = _name(told.get("agentId"))
    if agent_id is not None:
        return agent_id, "agent" if told.get("status") == "async_launched" else None
    shell = _name(told.get("backgroundTaskId"))
    if shell is not None:
        return shell, LAUNCHED.get(made.tool, "shell")
    if made.tool in LAUNCHED:
        task = _name(told.get("taskId")) or _name(told.get("task_id"))
        return task, LAUNCHED[made.tool] if task else None
    return None, None


def _children(
    made: Call, child_id: str | None, kind: ChildKind | None, common: Common
) -> list[KnownSignal]:
    about = about_child(common)
    if child_id is not None and kind is not None:
        return [
            s.ChildStarted(
                **about,
                child_id=child_id,
                child_kind=kind,
                type=made.type,
                description=made.summary,
            )
        ]
    if child_id is not None:
        # It ran in the foreground: its parent has the report in hand.
        return [s.ChildFinished(**about, child_id=child_id, notified=True)]
    if made.target is not None:
        return [s.ChildFinished(**about, child_id=made.target, status="killed", notified=True)]
    return []


def _tasks(told: dict[str, Any], common: Common) -> list[KnownSignal]:
    """A second witness of TaskCreated and TaskCompleted: one lost would make a false end."""
    task = told.get("task")
    if isinstance(task, dict) and isinstance(task.get("id"), str | int):
        subject = tools.one_line(task.get("subject"))
        return [s.TaskCreated(**common, task_id=str(task["id"])[:NAME_MAX], subject=subject)]
    change = told.get("statusChange")
    if isinstance(change, dict) and change.get("to") == "completed":
        task_id = told.get("taskId")
        if isinstance(task_id, str | int):
            return [s.TaskCompleted(**common, task_id=str(task_id)[:NAME_MAX])]
    return []


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _name(value: object) -> str | None:
    return value[:NAME_MAX] if isinstance(value, str) and value else None
