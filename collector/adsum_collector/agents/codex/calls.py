"""Describes what Codex calls: a tool's name and role, one line of its input, and what tells it apart."""

import hashlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

import msgspec

from adsum_collector.agents.records import name_of, one_line
from adsum_shared.signals import ToolRole

#: Hooks call a command `Bash`, whichever tool runs it; the rollout calls that by its own name.
SHELL: Final = "Bash"
SHELLS: Final = frozenset(
    {"exec_command", "shell", "shell_command", "local_shell", "container.exec"}
)
#: Hooks write the namespace before the name without anything between them.
NAMESPACE: Final = "collaboration"
#: Asks and waits. `request_user_input_async` does not wait: it asks by a message, see `rollout`.
QUESTION: Final = "request_user_input"
#: Changes files by a patch.
PATCHER: Final = "apply_patch"
ROLES: Final[dict[str, ToolRole]] = {
    SHELL: "shell",
    "write_stdin": "shell",
    PATCHER: "edit",
    "view_image": "read",
    "web_search": "web_search",
    QUESTION: "question",
    "update_plan": "todo",
    # Spawning returns at once; who waits has handed its work to the agents it waits for.
    "wait_agent": "agent",
    "wait": "agent",
}
#: How a patch names the file that it changes.
PATCHED: Final = ("*** Add File: ", "*** Update File: ", "*** Delete File: ")
#: The input fields that say most; the first that is there is told.
TELLING: Final = ("command", "cmd", "message", "task_name", "query", "url", "path", "explanation")


def tool_of(value: object) -> str:
    """One name for one tool, whoever tells of it."""
    name = (name_of(value) or "tool").removeprefix(NAMESPACE)
    return SHELL if name in SHELLS else name or "tool"


def role_of(tool: str) -> ToolRole:
    return ROLES.get(tool) or ("mcp" if tool.startswith("mcp__") else "other")


def input_of(value: object) -> dict[str, Any]:
    """An input as hooks have it; a function's, which is JSON in a text; or a custom tool's plain text."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value, type=dict[str, Any])
        except (msgspec.DecodeError, ValueError, RecursionError):
            return {"command": value}
    return value if isinstance(value, dict) else {}


def summary(tool: str, value: Mapping[str, Any]) -> str | None:
    """One short line about the call: a command, a file's name, a question."""
    if questions := value.get("questions"):
        return asked(questions)
    texts = [shell_line(value.get(field)) for field in TELLING]
    text = next((text for text in texts if text), None)
    if tool == "apply_patch" and text:
        lines = (line for line in text.splitlines() if line.startswith(PATCHED))
        return one_line(PurePath(next(lines, "").partition(": ")[2]).name)
    return one_line(text)


def shell_line(command: object) -> str | None:
    """Of a command with its shell, as `["bash", "-lc", "ls"]`, what the shell is to run."""
    if isinstance(command, list):
        parts = [part for part in command if isinstance(part, str)]
        return " ".join(parts[2:] if parts[1:2] == ["-lc"] else parts) or None
    return command if isinstance(command, str) else None


def asked(questions: object) -> str | None:
    """The first question; one that is asked by a message has a title instead."""
    first = questions[0] if isinstance(questions, list) and questions else None
    if not isinstance(first, dict):
        return None
    return one_line(first.get("question")) or one_line(first.get("title"))


def digest(tool: str, value: Mapping[str, Any]) -> str:
    """Short hash of (tool, input): the only join of a permission request with its call.

    The request adds a `description`, the model's reason, to the input of its PreToolUse.
    """
    told = {name: field for name, field in value.items() if name != "description"}
    try:
        canonical = msgspec.json.encode(told, order="sorted")
    except RecursionError:
        canonical = repr(sorted(told)).encode()
    return hashlib.blake2b(canonical, digest_size=8, key=tool.encode()[:64]).hexdigest()
