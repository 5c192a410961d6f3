"""Translates one hook into signals. Pure and total over events and fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from adsum_collector.agents.claude_code import tool_hooks
from adsum_collector.agents.claude_code.bodies import HookBody, decode_hook
from adsum_collector.agents.claude_code.prompts import (
    PROMPT_MAX,
    background_of,
    ends_of,
    user_prompt_submit,
)
from adsum_collector.agents.claude_code.tools import one_line, project_of, shorten
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

TITLE_MAX = 120

#: Events whose body also tells about the session itself. Every body has a directory and most a
#: mode, but a second signal for every tool call would double what is spooled and sent.
TELLING = frozenset({"SessionStart", "UserPromptSubmit", "PermissionRequest", "Stop"})

Common = tool_hooks.Common


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
    found = EVENTS.get(body.event, alive)(body, common)
    if body.event in TELLING and common["agent_id"] is None:
        found = [*found, *meta(body, common)]
    return found


def alive(body: HookBody, common: Common) -> list[KnownSignal]:
    return [s.Alive(**common, event=body.event)]


def notification(body: HookBody, common: Common) -> list[KnownSignal]:
    """Never a state: `permission_prompt` comes six seconds late, `idle_prompt` sixty."""
    return [s.Alive(**common, event=body.event, note=body.name("notification_type"))]


def meta(body: HookBody, common: Common) -> list[KnownSignal]:
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


def session_start(body: HookBody, common: Common) -> list[KnownSignal]:
    return [s.SessionStarted(**common, reason=body.name("source") or "startup")]


def session_end(body: HookBody, common: Common) -> list[KnownSignal]:
    return [s.SessionEnded(**common, reason=body.name("reason") or "other")]


def stop(body: HookBody, common: Common) -> list[KnownSignal]:
    said = body.whole("last_assistant_message")
    return [
        s.TurnEnded(**common, last_message=ends_of(said), background=background_of(body)),
    ]


def stop_failure(body: HookBody, common: Common) -> list[KnownSignal]:
    message = body.whole("last_assistant_message") or body.whole("error_details")
    error = body.name("error") or "unknown"
    return [s.TurnFailed(**common, error=error, message=ends_of(message))]


class AboutChild(TypedDict):
    """A child's signal is about the main agent's child; it did not happen *inside* the child."""

    session_id: str
    at: int
    seen: int
    source: s.Source
    prompt_id: str | None


def about_child(common: Common) -> AboutChild:
    return AboutChild(
        session_id=common["session_id"],
        at=common["at"],
        seen=common["seen"],
        source=common["source"],
        prompt_id=common["prompt_id"],
    )


def subagent_start(body: HookBody, common: Common) -> list[KnownSignal]:
    child_id = common["agent_id"]
    if child_id is None:
        return alive(body, common)
    kind = body.name("agent_type")
    return [s.ChildStarted(**about_child(common), child_id=child_id, type=kind)]


def subagent_stop(body: HookBody, common: Common) -> list[KnownSignal]:
    """With an empty type and no SubagentStart it is the summariser of a compaction: no child.

    Its list of background tasks still names itself as running, so it is not read.
    """
    child_id = common["agent_id"]
    if child_id is None or not body.name("agent_type"):
        return [s.Alive(**about_child(common), event=body.event)]
    return [s.ChildFinished(**about_child(common), child_id=child_id)]


def task_created(body: HookBody, common: Common) -> list[KnownSignal]:
    task_id = tool_hooks.identifier(body, "task_id")
    if task_id is None:
        return alive(body, common)
    return [s.TaskCreated(**common, task_id=task_id, subject=one_line(body.text("task_subject")))]


def task_completed(body: HookBody, common: Common) -> list[KnownSignal]:
    task_id = tool_hooks.identifier(body, "task_id")
    if task_id is None:
        return alive(body, common)
    return [s.TaskCompleted(**common, task_id=task_id, subject=one_line(body.text("task_subject")))]


def pre_compact(body: HookBody, common: Common) -> list[KnownSignal]:
    return [s.CompactionStarted(**common, trigger=body.name("trigger"))]


def post_compact(body: HookBody, common: Common) -> list[KnownSignal]:
    return [s.CompactionFinished(**common, trigger=body.name("trigger"))]


def elicitation(body: HookBody, common: Common) -> list[KnownSignal]:
    """An MCP server asks. Not every answer repeats the elicitation's id, the server's name does."""
    server = body.name("mcp_server_name") or "mcp"
    message = body.text("message")
    return [
        s.RequestOpened(
            **common,
            request_kind="dialog",
            tool=server,
            request_id=f"elicitation:{server}",
            summary=one_line(message),
            payload={"message": shorten(message, PROMPT_MAX)} if message else None,
        )
    ]


def elicitation_result(body: HookBody, common: Common) -> list[KnownSignal]:
    server = body.name("mcp_server_name") or "mcp"
    outcome = body.name("action")
    return [s.RequestClosed(**common, request_id=f"elicitation:{server}", outcome=outcome)]


def cwd_changed(body: HookBody, common: Common) -> list[KnownSignal]:
    cwd = body.text("new_cwd")
    if cwd is None or common["agent_id"] is not None:
        return alive(body, common)
    return [s.MetaChanged(**common, cwd=cwd, project=project_of(cwd))]


def post_model_switch(body: HookBody, common: Common) -> list[KnownSignal]:
    model = body.name("to_model")
    return [s.MetaChanged(**common, model=model)] if model else alive(body, common)


#: Every event that means more than "alive". Of the 33 of 2.1.330 the others are Setup,
#: InstructionsLoaded, UserPromptExpansion, MessageDisplay, TeammateIdle, PreModelSwitch,
#: ConfigChange, DirectoryAdded, FileChanged, WorktreeCreate, WorktreeRemove.
EVENTS: dict[str, Callable[[HookBody, Common], list[KnownSignal]]] = {
    "SessionStart": session_start,
    "SessionEnd": session_end,
    "UserPromptSubmit": user_prompt_submit,
    "Stop": stop,
    "StopFailure": stop_failure,
    "SubagentStart": subagent_start,
    "SubagentStop": subagent_stop,
    "TaskCreated": task_created,
    "TaskCompleted": task_completed,
    "PreCompact": pre_compact,
    "PostCompact": post_compact,
    "Elicitation": elicitation,
    "ElicitationResult": elicitation_result,
    "CwdChanged": cwd_changed,
    "PostModelSwitch": post_model_switch,
    "Notification": notification,
    "PreToolUse": tool_hooks.pre_tool_use,
    "PostToolUse": tool_hooks.post_tool_use,
    "PostToolUseFailure": tool_hooks.post_tool_use_failure,
    "PostToolBatch": tool_hooks.post_tool_batch,
    "PermissionRequest": tool_hooks.permission_request,
    "PermissionDenied": tool_hooks.permission_denied,
}
