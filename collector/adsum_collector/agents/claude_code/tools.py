"""Describes a tool call's input: its role, one line of it for people, and its time-out."""

import functools
import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from adsum_collector.agents.claude_code.bodies import LARGE
from adsum_collector.agents.records import one_line
from adsum_shared.signals import RequestKind, ToolRole

Input = Mapping[str, Any]

BASH_TIMEOUT = 120_000
BASH_TIMEOUT_MAX = 600_000
ROLES: dict[str, ToolRole] = {
    "Bash": "shell",
    "PowerShell": "shell",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Write": "write",
    "Read": "read",
    "NotebookRead": "read",
    "LS": "read",
    "Grep": "search",
    "Glob": "search",
    "WebSearch": "web_search",
    "WebFetch": "fetch",
    "Agent": "agent",
    "Task": "agent",  # the old name
    "AskUserQuestion": "question",
    "ExitPlanMode": "plan",
    "TodoWrite": "todo",
    "TaskCreate": "todo",
    "TaskUpdate": "todo",
}

REQUEST_KINDS: dict[ToolRole, RequestKind] = {"question": "question", "plan": "plan"}

#: The input fields that say most, by tool; others fall back to the first that is there.
TELLING = {
    "Bash": ("command", "description"),
    "PowerShell": ("command", "description"),
    "Agent": ("description", "subagent_type"),
    "Task": ("description", "subagent_type"),
    "Grep": ("pattern",),
    "Glob": ("pattern",),
    "WebFetch": ("url",),
    "WebSearch": ("query",),
    "TaskCreate": ("subject",),
    "Skill": ("skill", "command"),
    "ScheduleWakeup": ("reason",),
}
FALLBACK = (
    *("description", "command", "query", "url", "pattern", "prompt", "text", "name", "subject"),
)
#: The input field that says to what a tool is applied, and those beside it that change nothing of
#: where or how it is: with any other in it, a rule cannot know what it decides. A pattern is read as
#: a POSIX shell reads a command, so PowerShell's are nobody's.
SUBJECTS: dict[str, tuple[str, frozenset[str]]] = {
    "Bash": ("command", frozenset({"description", "timeout", "run_in_background"})),
    "Edit": ("file_path", frozenset({"old_string", "new_string", "replace_all"})),
    "MultiEdit": ("file_path", frozenset({"edits"})),
    "Write": ("file_path", frozenset({"content"})),
    "NotebookEdit": (
        "notebook_path",
        frozenset({"new_source", "cell_id", "cell_type", "edit_mode"}),
    ),
    "Read": ("file_path", frozenset({"offset", "limit", "pages"})),
    "WebFetch": ("url", frozenset({"prompt"})),
}
#: Names of servers' tools begin with it.
MCP = "mcp__"
#: Where the CLI makes worktrees, inside the repository.
WORKTREES = "/.claude/worktrees/"
PATHS = ("file_path", "notebook_path", "path")


def role_of(tool: str) -> ToolRole:
    return ROLES.get(tool) or ("mcp" if tool.startswith(MCP) else "other")


def server_of(tool: str) -> str | None:
    """The server in `mcp__SERVER__TOOL`. Of a name that has two underscores itself, what precedes them."""
    return tool.removeprefix(MCP).partition("__")[0] if tool.startswith(MCP) else None


def server_named(name: str) -> str | None:
    """The same of a server that goes by its own name, of which a tool's name has not every letter."""
    return server_of(MCP + re.sub("[^A-Za-z0-9_-]", "_", name))


def about(tool: str) -> dict[str, Any]:
    """What every signal of a call says of its tool."""
    return {"tool": tool, "role": role_of(tool), "server": server_of(tool)}


def digest(tool: str, raw_input: bytes, parsed: object) -> str:
    """Short hash of (tool, input), equal for every hook of one call.

    A PermissionRequest names no tool call; that it repeats the input of its PreToolUse is the
    only thing that joins them. Key order is not promised, so keys are sorted first. Of a large
    input it is what was read of it, and the length of the whole.
    """
    try:
        canonical = raw_input if parsed is None else msgspec.json.encode(parsed, order="sorted")
    except RecursionError:
        canonical = raw_input
    if len(raw_input) > LARGE:
        canonical += b"%d" % len(raw_input)
    return hashlib.blake2b(canonical, digest_size=8, key=tool.encode()[:64]).hexdigest()


def summary(tool: str, value: Input) -> str | None:
    """One short line about the call: a command, a file's name, a question."""
    role = role_of(tool)
    if role == "question":
        return one_line(_first_question(value))
    if role == "plan":
        return one_line(value.get("plan"))
    for field in TELLING.get(tool, ()):
        if line := one_line(value.get(field)):
            return line
    for field in PATHS:
        if path := one_line(value.get(field)):
            return path.replace("\\", "/").rsplit("/", 1)[-1]
    for field in FALLBACK:
        if line := one_line(value.get(field)):
            return line
    return None


def subject(tool: str, value: Input) -> str | None:
    """To what it is to be applied; None where that is not all that counts."""
    field, beside = SUBJECTS.get(tool, ("", frozenset[str]()))
    text = value.get(field)
    return text if isinstance(text, str) and not value.keys() - {field} - beside else None


def _first_question(value: Input) -> object:
    questions = value.get("questions")
    if isinstance(questions, list) and questions and isinstance(questions[0], dict):
        return questions[0].get("question")
    return None


def timeout_ms(tool: str, value: Input) -> int | None:
    """How long the call may be silent by its own account; 0 in the background, None if unknown."""
    if value.get("run_in_background") is True:
        return 0
    if role_of(tool) != "shell":
        return None
    asked = value.get("timeout")
    if isinstance(asked, int | float) and asked > 0:
        return min(int(asked), BASH_TIMEOUT_MAX)
    return BASH_TIMEOUT


@functools.lru_cache(1024)  # asked for with every line of a transcript
def project_of(cwd: str | None) -> str | None:
    """The directory's name; of a worktree that the CLI made, the name of what it is a tree of."""
    if not cwd:
        return None
    path = cwd.replace("\\", "/")
    return PurePath(path.partition(WORKTREES)[0] or path).name or None
