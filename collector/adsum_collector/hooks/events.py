"""Which Claude Code events we subscribe to, and the hook entries that do it. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

Version = tuple[int, ...]
#: http: posted to the collector's port, but for BY_SHIM. shim: all go by the shim.
Transport = Literal["http", "shim"]

HOOK_PATH: Final = "/api/live/hook"
SHIM_NAME: Final = "adsum_collector/shim.py"
STATUSLINE_NAME: Final = "adsum_collector/statusline.py"

#: Older versions cannot post hooks at all.
FIRST_WITH_HTTP: Final[Version] = (2, 1, 63)
#: The session registry reports `status`, a witness of every turn's end.
FIRST_WITH_STATUS: Final[Version] = (2, 1, 269)
#: What is assumed when no Claude Code is found to ask.
ASSUMED: Final[Version] = (2, 1, 112)

#: Event -> first version that knows it; 0 is older than http hooks. An unknown name opens a
#: blocking dialog in older versions, so nothing is installed that the version does not know.
#:
#: Left out on purpose: WorktreeCreate (its hook *replaces* the creation of worktrees),
#: PreModelSwitch (a slow hook blocks the switch), MessageDisplay (fires for every few lines of
#: text), PostToolBatch, UserPromptExpansion, InstructionsLoaded, ConfigChange, DirectoryAdded,
#: FileChanged, Setup (tell nothing that another event or the transcript does not).
#:
#: SessionStart takes a command only, and in 2.1.112 an async one leaves an `async_hook_response`
#: line in the user's transcript (in 2.1.330 none). When that ended is not known, so it is hooked
#: from the first version whose registry names a session's status, and costs older ones little: the
#: registry names their process too, and the first prompt the session.
SINCE: Final[dict[str, Version]] = {
    "SessionStart": FIRST_WITH_STATUS,
    "UserPromptSubmit": (0,),
    "PreToolUse": (0,),
    "PermissionRequest": (0,),
    "PermissionDenied": (2, 1, 89),
    "PostToolUse": (0,),
    "PostToolUseFailure": (0,),
    "Notification": (0,),
    "SubagentStart": (0,),
    "SubagentStop": (0,),
    "TaskCreated": (2, 1, 84),
    "TaskCompleted": (0,),
    "Elicitation": (2, 1, 76),
    "ElicitationResult": (2, 1, 76),
    "PreCompact": (0,),
    "PostCompact": (2, 1, 76),
    "CwdChanged": (2, 1, 83),
    "PostModelSwitch": (2, 1, 251),
    "Stop": (0,),
    "StopFailure": (2, 1, 78),
    "SessionEnd": (0,),
}

#: A typed /compact prints a line for each hook of these two into the user's terminal, whatever the
#: hook's type; an automatic one prints nothing (measured on 2.1.330). So only those are hooked, and
#: a typed one shows as work until the transcript tells more.
SHOWN_WHEN_TYPED: Final = frozenset({"PreCompact", "PostCompact"})

#: Any hook on Stop, of any type, makes the CLI write a `system/stop_hook_summary` line into the
#: user's transcript at the end of every turn; no other event of ours leaves a line (measured on
#: 2.1.330, SubagentStop included). Where the registry reports `status` it witnesses the same turn's
#: end, so Stop is left out, unless the user has a hook there: then the line is written anyway.
TRACED: Final = "Stop"

#: Never posted, on no machine: SessionStart takes a command only, and an answer to the others is a
#: human's answer. Whoever listens on the port while no collector does could give it.
BY_SHIM: Final = frozenset(
    {"SessionStart", "PermissionRequest", "PermissionDenied", "Elicitation", "ElicitationResult"}
)

#: Before, a command that the CLI does not wait for leaves an `async_hook_response` line in the
#: user's transcript (2.1.112: one for each; a command that is waited for and prints nothing leaves
#: none). So it is waited for there. When that ended is not known, hence the first version that gets
#: a SessionStart.
FIRST_WITH_QUIET_ASYNC: Final = FIRST_WITH_STATUS


@dataclass(frozen=True, slots=True)
class Target:
    """Where hooks and the status line report to, and by which programs of this installation."""

    port: int
    token: str
    python: str
    shim: Path
    socket: Path
    transport: Transport = "shim"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{HOOK_PATH}"

    @property
    def statusline(self) -> Path:
        """The status line's wrapper, which lies beside the shim."""
        return self.shim.with_name(Path(STATUSLINE_NAME).name)


def events_for(version: Version, users_own: frozenset[str] = frozenset()) -> list[str]:
    """The events to subscribe to, in the order they are written. users_own: hooked by others."""
    return [
        event
        for event, since in SINCE.items()
        if since <= version
        and (event != TRACED or version < FIRST_WITH_STATUS or event in users_own)
    ]


def is_posted(event: str, transport: Transport) -> bool:
    return transport == "http" and event not in BY_SHIM


def entry_for(event: str, target: Target, version: Version) -> dict[str, Any]:
    """One matcher group with our single hook."""
    posted = is_posted(event, target.transport)
    # At its end the CLI kills what it does not wait for (seen on a busy machine).
    waited = version < FIRST_WITH_QUIET_ASYNC or event == "SessionEnd"
    hook = _http_hook(target) if posted else _shim_hook(target, version, waited=waited)
    group: dict[str, Any] = {"hooks": [hook]}
    return {"matcher": "auto"} | group if event in SHOWN_WHEN_TYPED else group


def is_ours(hook: object) -> bool:
    """True for a hook some `adsum hooks install` wrote, with whichever port, token or Python."""
    if not isinstance(hook, dict):
        return False
    if hook.get("type") == "http":
        return is_our_url(hook.get("url"))
    return any(SHIM_NAME in word.replace("\\", "/") for word in command_words(hook))


def command_words(hook: dict[str, Any]) -> list[str]:
    """What a command hook runs. Without `args` a shell takes the words apart; ours are quoted for one."""
    command, args = hook.get("command"), hook.get("args")
    if not isinstance(command, str):
        return []
    if isinstance(args, list):
        return [command, *map(str, args)]
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return [command]


def is_our_url(url: object) -> bool:
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    return local and parts.path == HOOK_PATH and port != 0


def _http_hook(target: Target) -> dict[str, Any]:
    # A hung receiver stalls the agent for the whole time-out, so it is short.
    return {
        "type": "http",
        "url": target.url,
        "timeout": 2,
        "headers": {"Authorization": f"Bearer {target.token}"},
    }


def _shim_hook(target: Target, version: Version, *, waited: bool) -> dict[str, Any]:
    words = [target.python, "-I", "-S", str(target.shim), str(target.socket)]
    if version < FIRST_WITH_QUIET_ASYNC:
        return {"type": "command", "command": shlex.join(words), "timeout": 2}
    # These versions take `args`, so that no shell has to quote them.
    command = {"type": "command", "command": words[0], "args": words[1:]}
    return {**command, "timeout": 2} if waited else {**command, "async": True, "timeout": 5}
