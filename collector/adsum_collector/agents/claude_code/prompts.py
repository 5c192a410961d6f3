"""Translates the hooks that begin and end a turn: whose prompt, and what runs on."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from adsum_collector.agents.claude_code.bodies import NAME_MAX, HookBody, lenient_part
from adsum_collector.agents.claude_code.tool_hooks import Common
from adsum_collector.agents.claude_code.tools import one_line, shorten
from adsum_shared import signals as s
from adsum_shared.signals import BackgroundTask, ChildKind, KnownSignal

PROMPT_MAX = 2_000
MESSAGE_MAX = 1_200
#: Of what one list names; more was never seen.
LIST_MAX = 256

#: Prompts that no human wrote: reports of background work, of other agents, of the CLI itself.
SYSTEM_PROMPTS = (
    "<task-notification>",
    "<teammate-message",
    "<agent-message",
    "<cross-session-message",
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


def user_prompt_submit(body: HookBody, common: Common) -> list[KnownSignal]:
    prompt = body.whole("prompt") or ""
    start = prompt.lstrip()
    if start.startswith(NO_PROMPTS):
        return [s.Alive(**common, event=body.event)]
    if start.startswith(SYSTEM_PROMPTS):
        opened: KnownSignal = s.PromptSubmitted(**common, origin="system")
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


def background_of(body: HookBody) -> list[BackgroundTask] | None:
    """What still runs or will run again; None if this CLI does not say (2.1.112)."""
    if "background_tasks" not in body.fields and "session_crons" not in body.fields:
        return None
    tasks = body.get("background_tasks", list[msgspec.Raw]) or []
    crons = body.get("session_crons", list[msgspec.Raw]) or []
    found = [_background(raw, None) for raw in tasks[:LIST_MAX]]
    found += [_background(raw, "cron") for raw in crons[:LIST_MAX]]
    return [task for task in found if task is not None]


def _background(raw: msgspec.Raw, kind: ChildKind | None) -> BackgroundTask | None:
    task = lenient_part(raw, dict[str, Any])
    child_id = task.get("id") if task else None
    if not task or not isinstance(child_id, str | int):
        return None
    words = [task.get(name) for name in ("description", "name", "command", "schedule", "prompt")]
    status = task.get("status")
    return BackgroundTask(
        id=str(child_id)[:NAME_MAX],
        kind=kind or CHILD_KINDS.get(str(task.get("type")), "workflow"),
        status=status[:NAME_MAX] if isinstance(status, str) else "running",
        description=next((line for word in words if (line := one_line(word))), None),
    )
